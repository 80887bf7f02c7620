/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The joining side of the hub.  Rank 0 of a meeting without a launcher serves
 * it and joins it as everybody else does, over a connection of its own.
 */
#include "segment/connect.h"
#include "segment/hub.h"
#include "segment/message.h"
#include "segment/server.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define POLL_MS 100
#define RETRY_MIN_NS (INT64_C(500) * 1000)
#define RETRY_MAX_NS (INT64_C(20) * 1000 * 1000)
#define STAY_NS (INT64_C(300) * 1000 * 1000) /* behind a failed meeting */
#define PEER_PIDFD 77 /* SO_PEERPIDFD, which the C library may not know */
#define ANSWER_WAIT_NS SYMC_NS_PER_S /* for the hub's answer to a GIVE_UP */

/* One rank on its way. */
struct joiner {
    const struct symc_meeting *meeting;
    struct symc_server *server; /* of this rank */
    const struct symc_offer *mine;
    int fd;
    pid_t server_pid;
    bool reached; /* something has let this rank in, once */
    bool joined;  /* the hub has read this rank's hello */
    bool gave_up;
    int64_t pause_ns; /* before the next attempt to reach the hub */
    struct symc_offer *all;
    int received; /* ranks */
    bool threads;
};

/* The hub did not let us in; error is the last of symc_connect(). */
static symmcoll_status_t fail_unreached(const struct joiner *joiner, int error)
{
    const struct symc_meeting *meeting = joiner->meeting;
    const char *name = meeting->hub != NULL ? meeting->hub : meeting->name;
    char owner[SYMC_OWNER_TEXT], text[SYMC_PID_TEXT];
    uid_t uid;

    if (error == EAGAIN ||
        (error == ECONNREFUSED && symc_socket_owner(name, &uid)))
        return symc_fail(SYMMCOLL_ERR_TIMEOUT,
            "init: rank %d of %d was not let in to the socket '@%s', which "
            "belongs to %s",
            meeting->rank, meeting->size, name,
            symc_format_owner(name, error, owner));

    if (meeting->hub != NULL)
        return symc_fail(SYMMCOLL_ERR_TIMEOUT,
            "init: rank %d of %d found no hub named '%s': has the launcher "
            "gone?",
            meeting->rank, meeting->size, meeting->hub);
    if (joiner->reached)
        return symc_fail(SYMMCOLL_ERR_TIMEOUT,
            "init: rank %d of %d: rank 0 did not come (meeting '%s'): a "
            "process (%s) had that name and ended, or closed the connection, "
            "without reading what this rank sent",
            meeting->rank, meeting->size, meeting->name,
            symc_format_pid(joiner->server_pid, text));
    return symc_fail(SYMMCOLL_ERR_TIMEOUT,
        "init: rank %d of %d found no hub: rank 0 did not come (meeting '%s')",
        meeting->rank, meeting->size, meeting->name);
}

/* Nobody of ours will ever be let in there. */
static symmcoll_status_t fail_foreign(const char *name, uid_t uid)
{
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "init: expected the socket '@%s' to belong to user %u, found that of "
        "user %u, whose queue of connections is full",
        name, geteuid(), uid);
}

/* The hub must belong to this user, or anyone could pose as one. */
static symmcoll_status_t check_server(int fd, const char *name, pid_t *server)
{
    char text[SYMC_PID_TEXT];
    uid_t uid = 0;
    pid_t pid = 0;
    int error = symc_message_peer(fd, &uid, &pid);

    *server = pid;
    if (error != 0)
        return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, error, "init: hub");
    if (symc_message_is_trusted(uid, pid))
        return SYMMCOLL_OK;
    if (uid == geteuid())
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: expected a user that this user namespace maps, found the "
            "overflow id %u, which stands for all others: '%s' may belong to "
            "anybody",
            uid, name);
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "init: expected the hub '%s' to belong to user %d, found one "
        "(%s) of user %u",
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
 * time it is looked up, unless the server is heard from afterwards: this comes
 * before the hello, whose answer is waited for.  The kernel's own answer (Linux
 * 6.5) also holds where the server is in another PID namespace.
 */
static int open_server(int fd, pid_t server)
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

/* Connect, as often as it takes until the deadline. */
static symmcoll_status_t reach_hub(struct joiner *joiner)
{
    const struct symc_meeting *meeting = joiner->meeting;
    const char *name = meeting->hub != NULL ? meeting->hub : meeting->name;
    bool looked = false; /* for whose it is */
    uid_t uid;
    int error;

    while ((error = symc_connect(name, &joiner->fd)) != 0) {
        if (error == EINVAL)
            return symc_fail(
                SYMMCOLL_ERR_INVALID, "init: '%s' is no name for a hub", name);
        if (error == EMFILE || error == ENFILE)
            return symc_fail_descriptor(error, "init: socket");
        if (error != ECONNREFUSED && error != EAGAIN)
            return symc_fail_errno(
                SYMMCOLL_ERR_SYSTEM, error, "init: hub '%s'", name);
        if (error == EAGAIN && !looked) {
            looked = true;
            if (symc_socket_owner(name, &uid) && uid != geteuid())
                return fail_foreign(name, uid);
        }
        if (symc_now_ns() >= meeting->deadline_ns)
            return fail_unreached(joiner, error);
        pause_before_retry(joiner, error);
    }
    joiner->reached = true;
    return check_server(joiner->fd, name, &joiner->server_pid);
}

/* Whether a process is stopped, as far as /proc tells. */
static bool is_stopped(pid_t pid)
{
    char path[32], text[512] = "";
    const char *end;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = pid > 0 ? fopen(path, "re") : NULL;
    if (file == NULL)
        return false;
    if (fgets(text, sizeof(text), file) == NULL)
        text[0] = '\0';
    fclose(file);
    end = strrchr(text, ')');
    return end != NULL && end[1] == ' ' && (end[2] == 'T' || end[2] == 't');
}

static symmcoll_status_t fail_unanswered(const struct joiner *joiner)
{
    const struct symc_meeting *meeting = joiner->meeting;

    return symc_fail(SYMMCOLL_ERR_TIMEOUT,
        "init: rank %d of %d: %s (%s), which introduces the ranks, %s",
        meeting->rank, meeting->size,
        meeting->hub != NULL ? "the launcher" : "rank 0",
        symc_format_pid(joiner->server_pid, (char[SYMC_PID_TEXT]){0}),
        is_stopped(joiner->server_pid) ? "is stopped" : "does not answer");
}

static symmcoll_status_t say(struct joiner *joiner, enum symc_hub_kind kind,
    const struct symc_offer *offer)
{
    const struct symc_meeting *meeting = joiner->meeting;
    struct symc_hub_hello hello = {.magic = SYMC_HUB_MAGIC,
        .kind = kind,
        .rank = meeting->rank,
        .size = meeting->size};
    int64_t latest = joiner->meeting->deadline_ns;
    struct pollfd polled = {.fd = joiner->fd, .events = POLLOUT};
    int fds[SYMC_HUB_FDS], nfds = 0, error;

    if (latest < SYMC_NEVER - ANSWER_WAIT_NS)
        latest += ANSWER_WAIT_NS;
    snprintf(hello.name, sizeof(hello.name), "%s", meeting->name);
    for (int i = 0; offer != NULL && i < SYMC_HUB_FDS; i++) {
        if (offer->fds[i] >= 0)
            fds[nfds++] = offer->fds[i];
    }
    if (offer != NULL) {
        hello.nbytes = offer->nbytes;
        hello.address = (uint64_t)(uintptr_t)offer->address;
    }
    hello.nfds = (uint32_t)nfds;
    while ((error = symc_message_send(
                joiner->fd, &hello, sizeof(hello), fds, nfds)) == EAGAIN) {
        if (symc_now_ns() >= latest)
            return fail_unanswered(joiner);
        poll(&polled, 1, POLL_MS);
    }
    if (error != 0 && error != EPIPE && error != ECONNRESET)
        return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, error, "init: hub");
    return SYMMCOLL_OK; /* a hub that has gone is seen when it is heard */
}

/* Reach the hub and say hello. */
static symmcoll_status_t join(struct joiner *joiner)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    if (joiner->server == NULL)
        status = reach_hub(joiner);
    else
        joiner->server_pid = getpid();
    if (status != SYMMCOLL_OK)
        return status;
    if (joiner->meeting->server != NULL)
        *joiner->meeting->server = open_server(joiner->fd, joiner->server_pid);
    return say(joiner, SYMC_HUB_HELLO, joiner->mine);
}

/*
 * The connection ended before the hub had read our hello.  What listened there
 * need not be of this job: a process that is killed goes on to take connections
 * until the kernel has torn its memory down, and a restarted job finds its
 * predecessor under the same name.  So this is no death of rank 0, but one that
 * has not come yet.
 */
static symmcoll_status_t join_again(struct joiner *joiner)
{
    close(joiner->fd);
    joiner->fd = -1;
    if (symc_now_ns() >= joiner->meeting->deadline_ns)
        return fail_unreached(joiner, 0);
    pause_before_retry(joiner, 0);
    return join(joiner);
}

/* Take in some of the ranks. */
static symmcoll_status_t take_peers(struct joiner *joiner,
    const struct symc_hub_answer *answer, size_t nbytes, int *fds, int nfds)
{
    int used = 0;

    if (answer->first != joiner->received || answer->count <= 0 ||
        answer->count > SYMC_HUB_BATCH ||
        answer->count > joiner->meeting->size - joiner->received ||
        nbytes != symc_hub_answer_nbytes(answer->count))
        return symc_fail(SYMMCOLL_ERR_INTERNAL,
            "init: the hub's answer: expected rank %d, found %d ranks from %d",
            joiner->received, answer->count, answer->first);
    for (int i = 0; i < answer->count; i++) {
        const struct symc_hub_peer *peer = &answer->peers[i];
        struct symc_offer *offer = &joiner->all[answer->first + i];

        if (peer->nfds > SYMC_HUB_FDS || (int)peer->nfds > nfds - used)
            return symc_fail(SYMMCOLL_ERR_INTERNAL,
                "init: rank %d: expected %u descriptors, found %d",
                answer->first + i, peer->nfds, nfds - used);
        offer->pid = peer->pid;
        offer->nbytes = peer->nbytes;
        offer->address = (void *)(uintptr_t)peer->address;
        for (uint32_t f = 0; f < peer->nfds; f++) {
            offer->fds[f] = fds[used];
            fds[used++] = -1;
        }
    }
    joiner->received += answer->count;
    joiner->threads = answer->threads != 0;
    return SYMMCOLL_OK;
}

/* Hear one answer of the hub, if there is one. */
static symmcoll_status_t hear_hub(struct joiner *joiner)
{
    struct symc_hub_answer answer;
    size_t nbytes = sizeof(answer);
    int fds[SYMC_HUB_BATCH * SYMC_HUB_FDS];
    int nfds = SYMC_HUB_BATCH * SYMC_HUB_FDS;
    int error = symc_message_receive(joiner->fd, &answer, &nbytes, fds, &nfds);
    char text[SYMC_PID_TEXT];
    symmcoll_status_t status;

    if (error == EAGAIN)
        return SYMMCOLL_OK;
    if (error == EPIPE && !joiner->joined && joiner->server == NULL &&
        joiner->meeting->hub == NULL)
        return join_again(joiner);
    if (error == EMFILE) {
        struct rlimit files = {0};

        getrlimit(RLIMIT_NOFILE, &files);
        status = symc_fail(SYMMCOLL_ERR_SYSTEM,
            "init: %d descriptors for %d ranks asked for, RLIMIT_NOFILE is "
            "%llu",
            joiner->meeting->size * SYMC_HUB_FDS, joiner->meeting->size,
            (unsigned long long)files.rlim_cur);
    } else if (error != 0) {
        status = joiner->meeting->hub == NULL
                     ? symc_fail(SYMMCOLL_ERR_PEER,
                           "init: rank 0 (%s) died or gave up during init",
                           symc_format_pid(joiner->server_pid, text))
                     : symc_fail(SYMMCOLL_ERR_PEER,
                           "init: the launcher (%s) died during init",
                           symc_format_pid(joiner->server_pid, text));
    } else if (nbytes < symc_hub_answer_nbytes(0) ||
               answer.magic != SYMC_HUB_MAGIC) {
        status = symc_fail(SYMMCOLL_ERR_INTERNAL,
            "init: the hub's answer: expected at least %zu bytes of this "
            "version, found %zu",
            symc_hub_answer_nbytes(0), nbytes);
    } else if (answer.kind == SYMC_HUB_JOINED) {
        joiner->joined = true;
        status = SYMMCOLL_OK;
    } else if (answer.kind == SYMC_HUB_FAILED) {
        answer.text[sizeof(answer.text) - 1] = '\0';
        status = symc_fail(answer.status, "%s", answer.text);
    } else {
        status = take_peers(joiner, &answer, nbytes, fds, nfds);
        if (status == SYMMCOLL_OK)
            status = say(joiner, SYMC_HUB_THANKS, NULL);
    }
    for (int i = 0; i < nfds; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    return status;
}

/* Past the deadline: ask the hub who is missing, then stop waiting for it. */
static symmcoll_status_t run_late(struct joiner *joiner, int64_t now)
{
    const struct symc_meeting *meeting = joiner->meeting;

    if (!joiner->gave_up) {
        joiner->gave_up = true;
        return say(joiner, SYMC_HUB_GIVE_UP, NULL);
    }
    if (now < meeting->deadline_ns + ANSWER_WAIT_NS)
        return SYMMCOLL_OK;
    return fail_unanswered(joiner);
}

/* Wait until something can be done, at most until the deadline. */
static void wait_for_news(const struct joiner *joiner, int64_t now)
{
    struct pollfd polled = {.fd = joiner->fd, .events = POLLIN};
    int64_t left = joiner->meeting->deadline_ns - now;
    int timeout = POLL_MS;

    if (joiner->gave_up)
        timeout = 10;
    else if (left < (int64_t)timeout * 1000000)
        timeout = left <= 0 ? 0 : (int)(left / 1000000) + 1;
    poll(&polled, 1, timeout);
}

static symmcoll_status_t wait_for_all(struct joiner *joiner)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    while (status == SYMMCOLL_OK && joiner->received < joiner->meeting->size) {
        int64_t now = symc_now_ns();

        if (now >= joiner->meeting->deadline_ns)
            status = run_late(joiner, now);
        if (status != SYMMCOLL_OK)
            break;
        wait_for_news(joiner, now);
        status = hear_hub(joiner);
    }
    return status;
}

/* Rank 0 stays until everybody has said thanks or gone; after a death a moment
 * longer, so that those who come late need not find out at their deadline. */
static int64_t find_end(const struct joiner *joiner, symmcoll_status_t status)
{
    if (status == SYMMCOLL_OK)
        return joiner->meeting->deadline_ns;
    return status == SYMMCOLL_ERR_PEER ? symc_now_ns() + STAY_NS : 0;
}

symmcoll_status_t symc_hub_exchange(const struct symc_meeting *meeting,
    const struct symc_offer *mine, struct symc_offer *all, bool *threads)
{
    struct joiner joiner = {.meeting = meeting,
        .mine = mine,
        .fd = -1,
        .pause_ns = RETRY_MIN_NS,
        .all = all};
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int r = 0; r < meeting->size; r++)
        all[r] = (struct symc_offer){.fds = {-1, -1}};
    if (meeting->server != NULL)
        *meeting->server = -1;
    if (meeting->hub == NULL && meeting->rank == 0)
        status = symc_server_start(
            meeting->name, meeting->deadline_ns, &joiner.server, &joiner.fd);
    if (status == SYMMCOLL_OK)
        status = join(&joiner);
    if (status == SYMMCOLL_OK)
        status = wait_for_all(&joiner);
    symc_server_stop(joiner.server, find_end(&joiner, status));
    if (joiner.server == NULL && joiner.fd >= 0)
        close(joiner.fd);
    *threads = joiner.threads;
    for (int r = 0; status != SYMMCOLL_OK && r < meeting->size; r++) {
        for (int f = 0; f < SYMC_HUB_FDS; f++) {
            if (all[r].fds[f] >= 0)
                close(all[r].fds[f]);
        }
    }
    return status;
}
