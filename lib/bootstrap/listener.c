/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The listening socket of a bootstrap server: its name, and whether a process
 * that holds the name is going to release it.
 */
#include "base/descriptor.h"
#include "bootstrap/connect.h"
#include "bootstrap/server.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Time for the answer of a bootstrap server that holds the name. */
#define PROBE_MS 500

void symc_bootstrap_stop_listening(struct symc_bootstrap_server *server)
{
    if (server->listener >= 0) {
        /* Refuses connections even if a forked child has a copy of the
         * socket. */
        shutdown(server->listener, SHUT_RDWR);
        close(server->listener);
    }
    server->listener = -1;
}

static symmcoll_status_t fail_in_use(const char *name)
{
    char owner[SYMC_BOOTSTRAP_OWNER_TEXT], text[SYMC_PID_TEXT];
    uid_t uid = 0;
    pid_t pid = 0;
    int fd, error = symc_bootstrap_connect(name, &fd);

    if (error != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "bootstrap server: the name '@%s' is in use: it belongs to %s",
            name, symc_bootstrap_format_owner(name, error, owner));
    error = symc_bootstrap_message_peer(fd, &uid, &pid);
    close(fd);
    if (error != 0)
        return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, error,
            "bootstrap server: the name '@%s' is in use by another job", name);
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "bootstrap server: the name '@%s' is in use by a process (%s) of user "
        "%u: is another job running with the same MASTER_ADDR and MASTER_PORT, "
        "or was rank 0 started twice?",
        name, symc_format_pid(pid, text), uid);
}

/*
 * Returns whether the holder of a name is ending: it does not listen, closes
 * the connection, or does not answer a PROBE. A killed process holds its
 * sockets until its memory has been freed.
 */
static bool is_released(const char *name)
{
    struct symc_bootstrap_hello probe = {
        .magic = SYMC_BOOTSTRAP_MAGIC, .kind = SYMC_BOOTSTRAP_PROBE};
    struct symc_bootstrap_answer answer;
    size_t nbytes = sizeof(answer);
    struct pollfd polled = {.events = POLLIN};
    bool released = true;
    int nfds = 0;
    uid_t uid;
    pid_t pid;
    int error = symc_bootstrap_connect(name, &polled.fd);

    if (error != 0)
        return error == ECONNREFUSED;
    if (symc_bootstrap_message_peer(polled.fd, &uid, &pid) != 0 ||
        !symc_bootstrap_message_is_trusted(polled.fd, uid, pid))
        released = false;
    else if (symc_bootstrap_message_send(
                 polled.fd, &probe, sizeof(probe), NULL, 0) == 0 &&
             poll(&polled, 1, PROBE_MS) == 1)
        released = symc_bootstrap_message_receive(
                       polled.fd, &answer, &nbytes, NULL, &nfds) != 0;
    close(polled.fd);
    return released;
}

/* Binds and listens; 0 or an errno. */
static int try_listening(const char *name, int fd)
{
    struct sockaddr_un address;
    unsigned length = symc_bootstrap_message_address(name, &address);

    if (bind(fd, (struct sockaddr *)&address, length) != 0 ||
        listen(fd, SOMAXCONN) != 0)
        return errno;
    return 0;
}

symmcoll_status_t symc_bootstrap_listen(
    const char *name, int64_t deadline_ns, int *listener)
{
    struct sockaddr_un address;
    const struct timespec pause = {.tv_nsec = 2000000};
    int fd, error;

    if (symc_bootstrap_message_address(name, &address) == 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "bootstrap server: expected a name of 1 to %zu bytes, found '%s'",
            sizeof(address.sun_path) - 1, name);
    fd = symc_descriptor_raise(
        socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd < 0)
        return symc_fail_descriptor(errno, "bootstrap server: socket");
    while ((error = try_listening(name, fd)) == EADDRINUSE &&
           symc_now_ns() < deadline_ns && is_released(name))
        nanosleep(&pause, NULL);
    if (error == 0) {
        *listener = fd;
        return SYMMCOLL_OK;
    }
    close(fd);
    if (error == EADDRINUSE)
        return fail_in_use(name);
    return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, error,
        "bootstrap server: listening on '%s'", name);
}
