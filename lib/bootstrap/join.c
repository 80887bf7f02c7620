/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The joining side of the bootstrap, from the hello on. Without a launcher,
 * rank 0 serves the rendezvous, and joins it like every other rank, over a
 * connection of its own.
 */
#include "bootstrap/bootstrap.h"
#include "bootstrap/joiner.h"
#include "bootstrap/message.h"
#include "bootstrap/server_thread.h"

#include "base/proc.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define POLL_MS 100
/* time that the server stays after a failure */
#define STAY_NS (INT64_C(300) * 1000 * 1000)
/* time to wait for the answer to a GIVE_UP */
#define ANSWER_WAIT_NS SYMC_NS_PER_S

/* Returns whether a process is stopped, according to /proc. */
static bool is_stopped(pid_t pid)
{
    struct symc_proc_stat stat;

    return symc_proc_stat_read(pid, &stat) &&
           (stat.state == 'T' || stat.state == 't');
}

static symmcoll_status_t fail_unanswered(
    const struct symc_bootstrap_joiner *joiner)
{
    const struct symc_bootstrap_args *args = joiner->args;

    return symc_fail(SYMMCOLL_ERR_TIMEOUT,
        "init: rank %d of %d: the bootstrap server in %s (%s) %s", args->rank,
        args->size, args->server != NULL ? "the launcher" : "rank 0",
        symc_format_pid(joiner->server_pid, (char[SYMC_PID_TEXT]){0}),
        is_stopped(joiner->server_pid) ? "is stopped" : "does not answer");
}

static symmcoll_status_t send_hello(struct symc_bootstrap_joiner *joiner,
    enum symc_bootstrap_kind kind, const struct symc_bootstrap_offer *offer)
{
    const struct symc_bootstrap_args *args = joiner->args;
    struct symc_bootstrap_hello hello = {.magic = SYMC_BOOTSTRAP_MAGIC,
        .kind = kind,
        .rank = args->rank,
        .size = args->size};
    int64_t latest = joiner->args->deadline_ns;
    struct pollfd polled = {.fd = joiner->fd, .events = POLLOUT};
    int fds[SYMC_BOOTSTRAP_FDS], nfds = 0, error;

    if (latest < SYMC_NEVER - ANSWER_WAIT_NS)
        latest += ANSWER_WAIT_NS;
    snprintf(hello.name, sizeof(hello.name), "%s", args->name);
    for (int i = 0; offer != NULL && i < SYMC_BOOTSTRAP_FDS; i++) {
        if (offer->fds[i] >= 0)
            fds[nfds++] = offer->fds[i];
    }
    if (offer != NULL) {
        hello.nbytes = offer->nbytes;
        hello.least = offer->least;
        hello.address = (uint64_t)(uintptr_t)offer->address;
        hello.inbox = offer->inbox;
    }
    hello.nfds = (uint32_t)nfds;
    while ((error = symc_bootstrap_message_send(
                joiner->fd, &hello, sizeof(hello), fds, nfds)) == EAGAIN) {
        if (symc_now_ns() >= latest)
            return fail_unanswered(joiner);
        poll(&polled, 1, POLL_MS);
    }
    if (error != 0 && error != EPIPE && error != ECONNRESET)
        return symc_fail_errno(
            SYMMCOLL_ERR_SYSTEM, error, "init: bootstrap server");
    return SYMMCOLL_OK; /* the next receive detects a closed server */
}

/* Returns whether the server is a thread of this process. It always answers
 * then, and all ranks may be threads of this process. */
static bool is_served_here(const struct symc_bootstrap_joiner *joiner)
{
    return joiner->args->server == NULL && joiner->server_pid == getpid();
}

/* Connects to the server and sends the hello. */
static symmcoll_status_t join(struct symc_bootstrap_joiner *joiner)
{
    symmcoll_status_t status = symc_bootstrap_reach(joiner);

    if (status != SYMMCOLL_OK)
        return status;
    joiner->lent = joiner->args->server != NULL || is_served_here(joiner);
    return send_hello(joiner, SYMC_BOOTSTRAP_HELLO, joiner->mine);
}

/*
 * Connects again after a connection that ended before the server had read the
 * hello. The listener need not be of this job: a killed process accepts
 * connections until the kernel has freed its memory, and a restarted job finds
 * its predecessor under the same name. So rank 0 has not died, but has not
 * started yet.
 */
static symmcoll_status_t join_again(struct symc_bootstrap_joiner *joiner)
{
    close(joiner->fd);
    joiner->fd = -1;
    joiner->lent = false;
    if (symc_bootstrap_has_ended(joiner))
        return symc_bootstrap_fail_ended();
    if (symc_now_ns() >= joiner->args->deadline_ns)
        return symc_bootstrap_fail_unreached(joiner, 0);
    symc_bootstrap_pause(joiner, 0);
    return join(joiner);
}

/* Stores a batch of ranks. */
static symmcoll_status_t take_peers(struct symc_bootstrap_joiner *joiner,
    const struct symc_bootstrap_answer *answer, size_t nbytes, int *fds,
    int nfds)
{
    int used = 0;

    if (answer->first != joiner->received || answer->count <= 0 ||
        answer->count > SYMC_BOOTSTRAP_BATCH ||
        answer->count > joiner->args->size - joiner->received ||
        nbytes != symc_bootstrap_answer_nbytes(answer->count))
        return symc_fail(SYMMCOLL_ERR_INTERNAL,
            "init: the bootstrap server's answer: expected rank %d, found %d "
            "ranks from %d",
            joiner->received, answer->count, answer->first);
    for (int i = 0; i < answer->count; i++) {
        const struct symc_bootstrap_peer *peer = &answer->peers[i];
        struct symc_bootstrap_offer *offer = &joiner->all[answer->first + i];

        if (peer->nfds > SYMC_BOOTSTRAP_FDS || (int)peer->nfds > nfds - used)
            return symc_fail(SYMMCOLL_ERR_INTERNAL,
                "init: rank %d: expected %u descriptors, found %d",
                answer->first + i, peer->nfds, nfds - used);
        offer->pid = peer->pid;
        offer->nbytes = peer->nbytes;
        offer->least = peer->least;
        offer->address = (void *)(uintptr_t)peer->address;
        offer->inbox = (int)peer->inbox;
        for (uint32_t f = 0; f < peer->nfds; f++) {
            offer->fds[f] = fds[used];
            fds[used++] = -1;
        }
    }
    joiner->received += answer->count;
    joiner->threads = answer->threads != 0;
    return SYMMCOLL_OK;
}

/* Receives one answer of the server, if there is one. */
static symmcoll_status_t receive_answer(struct symc_bootstrap_joiner *joiner)
{
    struct symc_bootstrap_answer answer;
    size_t nbytes = sizeof(answer);
    int fds[SYMC_BOOTSTRAP_BATCH * SYMC_BOOTSTRAP_FDS];
    int nfds = SYMC_BOOTSTRAP_BATCH * SYMC_BOOTSTRAP_FDS;
    int error = symc_bootstrap_message_receive(
        joiner->fd, &answer, &nbytes, fds, &nfds);
    char text[SYMC_PID_TEXT];
    symmcoll_status_t status;

    if (error == EAGAIN)
        return SYMMCOLL_OK;
    if (error == EPIPE && !joiner->joined && joiner->server == NULL &&
        joiner->args->server == NULL)
        return join_again(joiner);
    if (error == EMFILE) {
        struct rlimit files = {0};

        getrlimit(RLIMIT_NOFILE, &files);
        status = symc_fail(SYMMCOLL_ERR_SYSTEM,
            "init: expected room for %d descriptors of %d ranks, RLIMIT_NOFILE "
            "is %llu",
            joiner->args->size * SYMC_BOOTSTRAP_FDS, joiner->args->size,
            (unsigned long long)files.rlim_cur);
    } else if (error != 0 && error != EPIPE) {
        status = symc_fail_errno(SYMMCOLL_ERR_SYSTEM, error,
            "init: this rank's connection to the bootstrap server");
    } else if (error != 0) {
        /* Rank 0's server stays until threads have received what it sends them,
         * or until some time after the deadline. */
        joiner->lent =
            joiner->lent && (joiner->args->server != NULL ||
                                symc_now_ns() >= joiner->args->deadline_ns);
        status = joiner->args->server == NULL
                     ? symc_fail(SYMMCOLL_ERR_PEER,
                           "init: rank 0 (%s) died or gave up during init",
                           symc_format_pid(joiner->server_pid, text))
                     : symc_fail(SYMMCOLL_ERR_PEER,
                           "init: the launcher (%s) died during init",
                           symc_format_pid(joiner->server_pid, text));
    } else if (nbytes < symc_bootstrap_answer_nbytes(0) ||
               answer.magic != SYMC_BOOTSTRAP_MAGIC) {
        status = symc_fail(SYMMCOLL_ERR_INTERNAL,
            "init: the bootstrap server's answer: expected at least %zu bytes "
            "of this version, found %zu",
            symc_bootstrap_answer_nbytes(0), nbytes);
    } else if (answer.kind == SYMC_BOOTSTRAP_JOINED) {
        joiner->joined = true;
        status = SYMMCOLL_OK;
    } else if (answer.kind == SYMC_BOOTSTRAP_WAITING) {
        answer.text[sizeof(answer.text) - 1] = '\0';
        if (joiner->args->progress != NULL)
            symc_progress_log(joiner->args->progress, answer.text);
        status = SYMMCOLL_OK;
    } else if (answer.kind == SYMC_BOOTSTRAP_FAILED) {
        answer.text[sizeof(answer.text) - 1] = '\0';
        joiner->lent = false;
        status = symc_fail(answer.status, "%s", answer.text);
    } else {
        status = take_peers(joiner, &answer, nbytes, fds, nfds);
        if (status == SYMMCOLL_OK)
            status = send_hello(joiner, SYMC_BOOTSTRAP_ACK, NULL);
    }
    for (int i = 0; i < nfds; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    return status;
}

/*
 * Gives up after the deadline, or because another rank has failed: requests the
 * missing ranks once, and waits for that answer. The server answers with them,
 * or with all ranks. In the second case the other ranks have this rank's offer,
 * and threads may have borrowed its block, so the join has succeeded, however
 * late.
 */
static symmcoll_status_t give_up(
    struct symc_bootstrap_joiner *joiner, int64_t now)
{
    if (joiner->gave_up_at == 0) {
        joiner->gave_up_at = now;
        return send_hello(joiner, SYMC_BOOTSTRAP_GIVE_UP, NULL);
    }
    /* Not from the deadline on: this process may have been stopped since. */
    if (now < joiner->gave_up_at + ANSWER_WAIT_NS || is_served_here(joiner))
        return SYMMCOLL_OK;
    return fail_unanswered(joiner);
}

/* Waits for an answer, at most until the deadline. */
static void wait_for_event(
    const struct symc_bootstrap_joiner *joiner, int64_t now)
{
    struct pollfd polled = {.fd = joiner->fd, .events = POLLIN};
    int64_t left = joiner->args->deadline_ns - now;
    int timeout = POLL_MS;

    if (joiner->gave_up_at != 0)
        timeout = 10;
    else if (left < (int64_t)timeout * 1000000)
        timeout = left <= 0 ? 0 : (int)(left / 1000000) + 1;
    poll(&polled, 1, timeout);
}

static symmcoll_status_t wait_for_all(struct symc_bootstrap_joiner *joiner)
{
    symmcoll_status_t status = SYMMCOLL_OK;
    bool ended = false;

    while (status == SYMMCOLL_OK && joiner->received < joiner->args->size) {
        int64_t now = symc_now_ns();

        ended = ended || symc_bootstrap_has_ended(joiner);
        if (ended || now >= joiner->args->deadline_ns)
            status = give_up(joiner, now);
        else if (!joiner->joined)
            symc_bootstrap_report_unserved(joiner);
        else if (symc_progress_is_due(joiner->args->progress))
            status = send_hello(joiner, SYMC_BOOTSTRAP_MISSING, NULL);
        if (status != SYMMCOLL_OK)
            break;
        wait_for_event(joiner, now);
        status = receive_answer(joiner);
    }
    return status != SYMMCOLL_OK && ended ? symc_bootstrap_fail_ended()
                                          : status;
}

/* Returns the time until which rank 0 serves: until all ranks have acknowledged
 * or closed; after a death a moment longer, so that late ranks get the error
 * before their deadline. */
static int64_t find_end(
    const struct symc_bootstrap_joiner *joiner, symmcoll_status_t status)
{
    if (status == SYMMCOLL_OK)
        return joiner->args->deadline_ns;
    return status == SYMMCOLL_ERR_PEER ? symc_now_ns() + STAY_NS : 0;
}

symmcoll_status_t symc_bootstrap_exchange(
    const struct symc_bootstrap_args *args,
    const struct symc_bootstrap_offer *mine, struct symc_bootstrap_offer *all,
    bool *threads)
{
    struct symc_bootstrap_joiner joiner = {.args = args,
        .mine = mine,
        .fd = -1,
        .pause_ns = SYMC_BOOTSTRAP_RETRY_NS,
        .all = all};
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int r = 0; r < args->size; r++)
        all[r] =
            (struct symc_bootstrap_offer){.fds = {-1, -1, -1}, .inbox = -1};
    if (args->server_pidfd != NULL)
        *args->server_pidfd = -1;
    if (args->server == NULL && args->rank == 0)
        status = symc_bootstrap_thread_start(
            args->name, args->deadline_ns, &joiner.server, &joiner.fd);
    if (status == SYMMCOLL_OK)
        status = join(&joiner);
    if (status == SYMMCOLL_OK)
        status = wait_for_all(&joiner);
    symc_bootstrap_thread_stop(joiner.server, find_end(&joiner, status));
    if (joiner.server == NULL && joiner.fd >= 0) {
        /* a forked child may have a copy */
        (void)shutdown(joiner.fd, SHUT_RDWR);
        close(joiner.fd);
    }
    *threads = joiner.threads;
    if (args->lent != NULL)
        *args->lent = joiner.lent && status != SYMMCOLL_OK;
    for (int r = 0; status != SYMMCOLL_OK && r < args->size; r++) {
        for (int f = 0; f < SYMC_BOOTSTRAP_FDS; f++) {
            if (all[r].fds[f] >= 0)
                close(all[r].fds[f]);
        }
    }
    return status;
}
