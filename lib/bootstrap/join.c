/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The joining side of the bootstrap.  Rank 0 of a rendezvous without a launcher
 * serves it and joins it as everybody else does, over a connection of its own.
 */
#include "bootstrap/bootstrap.h"
#include "bootstrap/connect.h"
#include "bootstrap/message.h"
#include "bootstrap/server_thread.h"

#include "base/proc.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define POLL_MS 100
#define RETRY_MIN_NS (INT64_C(500) * 1000)
#define RETRY_MAX_NS (INT64_C(20) * 1000 * 1000)
#define STAY_NS (INT64_C(300) * 1000 * 1000) /* after a failed rendezvous */
#define PEER_PIDFD 77 /* SO_PEERPIDFD, which the C library may not define */
#define ANSWER_WAIT_NS SYMC_NS_PER_S /* for the answer to a GIVE_UP */

/* One rank that joins. */
struct joiner {
    const struct symc_bootstrap_args *args;
    struct symc_bootstrap_thread *server; /* of this rank */
    const struct symc_bootstrap_offer *mine;
    int fd;
    pid_t server_pid;
    bool reached;       /* something has let this rank in, once */
    bool joined;        /* the server has read this rank's hello */
    int64_t gave_up_at; /* 0 before the deadline */
    int64_t pause_ns;   /* before the next attempt to connect */
    struct symc_bootstrap_offer *all;
    int received; /* ranks */
    bool threads;
};

/* The server could not be reached; error is the last of symc_bootstrap_connect(). */
static symmcoll_status_t fail_unreached(const struct joiner *joiner, int error)
{
    const struct symc_bootstrap_args *args = joiner->args;
    const char *name = args->server != NULL ? args->server : args->name;
    char owner[SYMC_BOOTSTRAP_OWNER_TEXT], text[SYMC_PID_TEXT];
    uid_t uid;

    if (error == EAGAIN ||
        (error == ECONNREFUSED && symc_bootstrap_socket_owner(name, &uid)))
        return symc_fail(SYMMCOLL_ERR_TIMEOUT,
            "init: rank %d of %d was not let in to the socket '@%s', which "
            "belongs to %s",
            args->rank, args->size, name,
            symc_bootstrap_format_owner(name, error, owner));

    if (args->server != NULL)
        return symc_fail(SYMMCOLL_ERR_TIMEOUT,
            "init: rank %d of %d found no bootstrap server named '%s': has the "
            "launcher ended?",
            args->rank, args->size, args->server);
    if (joiner->reached)
        return symc_fail(SYMMCOLL_ERR_TIMEOUT,
            "init: rank %d of %d: rank 0 did not join (rendezvous '%s'): a "
            "process (%s) had that name and ended, or closed the connection, "
            "without reading what this rank sent",
            args->rank, args->size, args->name,
            symc_format_pid(joiner->server_pid, text));
    return symc_fail(SYMMCOLL_ERR_TIMEOUT,
        "init: rank %d of %d found no bootstrap server: rank 0 did not join "
        "(rendezvous '%s')",
        args->rank, args->size, args->name);
}

/* No rank of this user can ever connect there. */
static symmcoll_status_t fail_foreign(const char *name, uid_t uid)
{
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "init: expected the socket '@%s' to belong to user %u, found that of "
        "user %u, whose queue of connections is full",
        name, geteuid(), uid);
}

/* The server must belong to this user, or anyone could pose as one. */
static symmcoll_status_t check_server(int fd, const char *name, pid_t *server)
{
    char text[SYMC_PID_TEXT];
    uid_t uid = 0;
    pid_t pid = 0;
    int error = symc_bootstrap_message_peer(fd, &uid, &pid);

    *server = pid;
    if (error != 0)
        return symc_fail_errno(
            SYMMCOLL_ERR_SYSTEM, error, "init: bootstrap server");
    if (symc_bootstrap_message_is_trusted(uid, pid))
        return SYMMCOLL_OK;
    if (uid == geteuid())
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: expected a user that this user namespace maps, found the "
            "overflow id %u, which stands for all others: '%s' may belong to "
            "anybody",
            uid, name);
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "init: expected the bootstrap server '%s' to belong to user %d, found "
        "one (%s) of user %u",
        name, (int)geteuid(), symc_format_pid(pid, text), uid);
}

static void sleep_ns(int64_t ns)
{
    struct timespec time = {
        .tv_sec = ns / SYMC_NS_PER_S, .tv_nsec = ns % SYMC_NS_PER_S};

    nanosleep(&time, NULL);
}

/*
 * A pidfd of the server.  Its number may have been another process's by the
 * time it is looked up, unless the server answers afterwards: so it is looked
 * up before the hello is sent, whose answer is waited for.  The kernel's own
 * answer (Linux 6.5) also holds where the server is in another PID namespace.
 */
static int open_server_pidfd(int fd, pid_t server)
{
    int pidfd = -1;
    socklen_t nbytes = sizeof(pidfd);

    if (getsockopt(fd, SOL_SOCKET, PEER_PIDFD, &pidfd, &nbytes) == 0)
        return pidfd;
    return server > 0 ? (int)syscall(SYS_pidfd_open, server, 0) : -1;
}

/* Where the queue of connections is full, places in it are rare: be quick. */
static void pause_before_retry(struct joiner *joiner, int error)
{
    int64_t next = joiner->pause_ns * 2;

    sleep_ns(error == EAGAIN ? RETRY_MIN_NS : joiner->pause_ns);
    joiner->pause_ns = next < RETRY_MAX_NS ? next : RETRY_MAX_NS;
}

static bool has_ended(const struct joiner *joiner)
{
    return joiner->args->ended != NULL &&
           joiner->args->ended(joiner->args->arg);
}

static symmcoll_status_t fail_ended(void)
{
    return symc_fail(SYMMCOLL_ERR_CANCELED,
        "init: another rank has failed before it joined");
}

/* No server can say who is missing, or it has not acknowledged this rank. */
static void report_unserved(const struct joiner *joiner)
{
    const char *who = joiner->args->server != NULL ? "the launcher" : "rank 0";
    char text[96], pid[SYMC_PID_TEXT];

    if (!symc_progress_is_due(joiner->args->progress))
        return;
    snprintf(text, sizeof(text), "%s cannot be reached yet", who);
    if (joiner->fd >= 0)
        snprintf(text, sizeof(text), "%s (%s) has not answered yet", who,
            symc_format_pid(joiner->server_pid, pid));
    symc_progress_log(joiner->args->progress, text);
}

/* Connect, as often as it takes until the deadline. */
static symmcoll_status_t connect_to_server(struct joiner *joiner)
{
    const struct symc_bootstrap_args *args = joiner->args;
    const char *name = args->server != NULL ? args->server : args->name;
    bool looked = false; /* for whose it is */
    uid_t uid;
    int error;

    while ((error = symc_bootstrap_connect(name, &joiner->fd)) != 0) {
        if (error == EINVAL)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "init: '%s' is no name for a bootstrap server", name);
        if (error == EMFILE || error == ENFILE)
            return symc_fail_descriptor(error, "init: socket");
        if (error != ECONNREFUSED && error != EAGAIN)
            return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, error,
                "init: bootstrap server '%s'", name);
        if (error == EAGAIN && !looked) {
            looked = true;
            if (symc_bootstrap_socket_owner(name, &uid) && uid != geteuid())
                return fail_foreign(name, uid);
        }
        if (symc_now_ns() >= args->deadline_ns)
            return fail_unreached(joiner, error);
        if (has_ended(joiner))
            return fail_ended();
        report_unserved(joiner);
        pause_before_retry(joiner, error);
    }
    joiner->reached = true;
    return check_server(joiner->fd, name, &joiner->server_pid);
}

/* Whether a process is stopped, as far as /proc tells. */
static bool is_stopped(pid_t pid)
{
    struct symc_proc_stat stat;

    return symc_proc_stat_read(pid, &stat) &&
           (stat.state == 'T' || stat.state == 't');
}

static symmcoll_status_t fail_unanswered(const struct joiner *joiner)
{
    const struct symc_bootstrap_args *args = joiner->args;

    return symc_fail(SYMMCOLL_ERR_TIMEOUT,
        "init: rank %d of %d: %s (%s), which serves the ranks, %s", args->rank,
        args->size, args->server != NULL ? "the launcher" : "rank 0",
        symc_format_pid(joiner->server_pid, (char[SYMC_PID_TEXT]){0}),
        is_stopped(joiner->server_pid) ? "is stopped" : "does not answer");
}

static symmcoll_status_t send_hello(struct joiner *joiner,
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
    return SYMMCOLL_OK; /* the next receive notices a closed server */
}

/* Connect to the server and send the hello. */
static symmcoll_status_t join(struct joiner *joiner)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    if (joiner->server == NULL)
        status = connect_to_server(joiner);
    else
        joiner->server_pid = getpid();
    if (status != SYMMCOLL_OK)
        return status;
    if (joiner->args->server_pidfd != NULL)
        *joiner->args->server_pidfd =
            open_server_pidfd(joiner->fd, joiner->server_pid);
    return send_hello(joiner, SYMC_BOOTSTRAP_HELLO, joiner->mine);
}

/*
 * The connection ended before the bootstrap server had read our hello.  What
 * listened there need not be of this job: a killed process accepts connections
 * until the kernel has torn its memory down, and a restarted job finds its
 * predecessor under the same name.  So rank 0 has not died; it has not started
 * yet.
 */
static symmcoll_status_t join_again(struct joiner *joiner)
{
    close(joiner->fd);
    joiner->fd = -1;
    if (symc_now_ns() >= joiner->args->deadline_ns)
        return fail_unreached(joiner, 0);
    pause_before_retry(joiner, 0);
    return join(joiner);
}

/* Take over a batch of ranks. */
static symmcoll_status_t take_peers(struct joiner *joiner,
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

/* Receive one answer of the server, if there is one. */
static symmcoll_status_t receive_answer(struct joiner *joiner)
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
            "init: %d descriptors for %d ranks asked for, RLIMIT_NOFILE is "
            "%llu",
            joiner->args->size * SYMC_BOOTSTRAP_FDS, joiner->args->size,
            (unsigned long long)files.rlim_cur);
    } else if (error != 0 && error != EPIPE) {
        status = symc_fail_errno(SYMMCOLL_ERR_SYSTEM, error,
            "init: this rank's connection to the bootstrap server");
    } else if (error != 0) {
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

/* After the deadline: ask once which ranks are missing, then stop waiting. */
static symmcoll_status_t run_late(struct joiner *joiner, int64_t now)
{
    if (joiner->gave_up_at == 0) {
        joiner->gave_up_at = now;
        return send_hello(joiner, SYMC_BOOTSTRAP_GIVE_UP, NULL);
    }
    /* Not from the deadline on: this process may have been stopped since. */
    if (now < joiner->gave_up_at + ANSWER_WAIT_NS)
        return SYMMCOLL_OK;
    return fail_unanswered(joiner);
}

/* Wait until something can be done, at most until the deadline. */
static void wait_for_event(const struct joiner *joiner, int64_t now)
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

static symmcoll_status_t wait_for_all(struct joiner *joiner)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    while (status == SYMMCOLL_OK && joiner->received < joiner->args->size) {
        int64_t now = symc_now_ns();

        if (now >= joiner->args->deadline_ns)
            status = run_late(joiner, now);
        else if (has_ended(joiner))
            status = fail_ended();
        else if (!joiner->joined)
            report_unserved(joiner);
        else if (symc_progress_is_due(joiner->args->progress))
            status = send_hello(joiner, SYMC_BOOTSTRAP_ASK, NULL);
        if (status != SYMMCOLL_OK)
            break;
        wait_for_event(joiner, now);
        status = receive_answer(joiner);
    }
    return status;
}

/* Rank 0 serves until everybody has acknowledged or closed; after a death a
 * moment longer, so that ranks that join late learn of it before their
 * deadline. */
static int64_t find_end(const struct joiner *joiner, symmcoll_status_t status)
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
    struct joiner joiner = {.args = args,
        .mine = mine,
        .fd = -1,
        .pause_ns = RETRY_MIN_NS,
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
    if (joiner.server == NULL && joiner.fd >= 0)
        close(joiner.fd);
    *threads = joiner.threads;
    for (int r = 0; status != SYMMCOLL_OK && r < args->size; r++) {
        for (int f = 0; f < SYMC_BOOTSTRAP_FDS; f++) {
            if (all[r].fds[f] >= 0)
                close(all[r].fds[f]);
        }
    }
    return status;
}
