/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connecting to the bootstrap server, with retries until the deadline, and
 * checking its owner.
 */
#include "base/descriptor.h"
#include "bootstrap/connect.h"
#include "bootstrap/joiner.h"
#include "bootstrap/message.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RETRY_MAX_NS (INT64_C(20) * 1000 * 1000)
#define NETWORK_TEXT 96

/* Formats the network namespace, since abstract sockets belong to one: ranks in
 * different network namespaces never reach each other. */
static const char *name_network(char text[NETWORK_TEXT])
{
    struct stat info = {.st_ino = 0};

    if (stat("/proc/self/ns/net", &info) != 0)
        return "";
    snprintf(text, NETWORK_TEXT,
        "; this rank is in network namespace %llu, and all have to be in one",
        (unsigned long long)info.st_ino);
    return text;
}

symmcoll_status_t symc_bootstrap_fail_unreached(
    const struct symc_bootstrap_joiner *joiner, int error)
{
    const struct symc_bootstrap_args *args = joiner->args;
    const char *name = args->server != NULL ? args->server : args->name;
    char owner[SYMC_BOOTSTRAP_OWNER_TEXT], text[SYMC_PID_TEXT];
    char network[NETWORK_TEXT];
    uid_t uid;

    if (error == EAGAIN ||
        (error == ECONNREFUSED && symc_bootstrap_socket_owner(name, &uid)))
        return symc_fail(SYMMCOLL_ERR_TIMEOUT,
            "init: rank %d of %d could not connect to the socket '@%s', which "
            "belongs to %s",
            args->rank, args->size, name,
            symc_bootstrap_format_owner(name, error, owner));

    if (args->server != NULL)
        return symc_fail(SYMMCOLL_ERR_TIMEOUT,
            "init: rank %d of %d found no bootstrap server named '%s': has the "
            "launcher ended?%s",
            args->rank, args->size, args->server, name_network(network));
    if (joiner->reached)
        return symc_fail(SYMMCOLL_ERR_TIMEOUT,
            "init: rank %d of %d: rank 0 did not join (rendezvous '%s'): a "
            "process (%s) had that name and ended, or closed the connection, "
            "without reading the message of this rank",
            args->rank, args->size, args->name,
            symc_format_pid(joiner->server_pid, text));
    return symc_fail(SYMMCOLL_ERR_TIMEOUT,
        "init: rank %d of %d found no bootstrap server: rank 0 did not join "
        "(rendezvous '%s')%s",
        args->rank, args->size, args->name, name_network(network));
}

/* Returns the error for a socket of another user, to which no rank of this user
 * can ever connect. */
static symmcoll_status_t fail_foreign(const char *name, uid_t uid)
{
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "init: expected the socket '@%s' to belong to user %u, found that of "
        "user %u, whose queue of connections is full",
        name, geteuid(), uid);
}

/* Checks that the server belongs to this user, so that no other process can
 * pose as one. server (out): its process. */
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
    if (symc_bootstrap_message_is_trusted(fd, uid, pid))
        return SYMMCOLL_OK;
    if (uid == geteuid())
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: expected a user that this user namespace maps, found the "
            "overflow id %u, which stands for all others: '%s' may belong to "
            "any user",
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
 * Opens a pidfd of the server: the kernel's own (Linux 6.5), which is also
 * valid if the server is in another PID namespace, else one by number. The
 * number may have been reused by the time of the call, unless the server
 * answers afterwards: so it is opened before the hello, for which the rank
 * awaits the answer.
 */
static int open_server_pidfd(int fd, pid_t server)
{
    int pidfd = symc_bootstrap_message_pidfd(fd);

    if (pidfd >= 0)
        return pidfd;
    return server > 0
               ? symc_descriptor_raise((int)syscall(SYS_pidfd_open, server, 0))
               : -1;
}

/* Retries quickly if the queue of connections is full, since places in it are
 * rare. */
void symc_bootstrap_pause(struct symc_bootstrap_joiner *joiner, int error)
{
    int64_t next = joiner->pause_ns * 2;

    sleep_ns(error == EAGAIN ? SYMC_BOOTSTRAP_RETRY_NS : joiner->pause_ns);
    joiner->pause_ns = next < RETRY_MAX_NS ? next : RETRY_MAX_NS;
}

bool symc_bootstrap_has_ended(const struct symc_bootstrap_joiner *joiner)
{
    return joiner->args->ended != NULL &&
           joiner->args->ended(joiner->args->arg);
}

symmcoll_status_t symc_bootstrap_fail_ended(void)
{
    return symc_fail(SYMMCOLL_ERR_CANCELED,
        "init: another rank has failed before it joined");
}

void symc_bootstrap_report_unserved(const struct symc_bootstrap_joiner *joiner)
{
    const char *name = joiner->args->server != NULL ? "the launcher" : "rank 0";
    char text[96], pid[SYMC_PID_TEXT];

    if (!symc_progress_is_due(joiner->args->progress))
        return;
    snprintf(text, sizeof(text), "%s cannot be reached yet", name);
    if (joiner->fd >= 0)
        snprintf(text, sizeof(text), "%s (%s) has not answered yet", name,
            symc_format_pid(joiner->server_pid, pid));
    symc_progress_log(joiner->args->progress, text);
}

/* Connects, with retries until the deadline, and checks the owner. */
static symmcoll_status_t connect_to_server(struct symc_bootstrap_joiner *joiner)
{
    const struct symc_bootstrap_args *args = joiner->args;
    const char *name = args->server != NULL ? args->server : args->name;
    bool looked = false; /* for the owner of the socket */
    uid_t uid;
    int error;

    while ((error = symc_bootstrap_connect(name, &joiner->fd)) != 0) {
        if (error == EINVAL)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "init: expected a name of a bootstrap server, found '%s'",
                name);
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
            return symc_bootstrap_fail_unreached(joiner, error);
        if (symc_bootstrap_has_ended(joiner))
            return symc_bootstrap_fail_ended();
        symc_bootstrap_report_unserved(joiner);
        symc_bootstrap_pause(joiner, error);
    }
    joiner->reached = true;
    return check_server(joiner->fd, name, &joiner->server_pid);
}

symmcoll_status_t symc_bootstrap_reach(struct symc_bootstrap_joiner *joiner)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    if (joiner->server == NULL)
        status = connect_to_server(joiner);
    else
        joiner->server_pid = getpid();
    if (status == SYMMCOLL_OK && joiner->args->server_pidfd != NULL)
        *joiner->args->server_pidfd =
            open_server_pidfd(joiner->fd, joiner->server_pid);
    return status;
}
