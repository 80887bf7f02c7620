/* SPDX-License-Identifier: BSD-3-Clause */
/* Connects to one of a server's addresses. */
#include "base/descriptor.h"
#include "store/link.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define RETRY_FIRST_NS INT64_C(5000000)
#define RETRY_MOST_NS INT64_C(500000000)
#define ATTEMPT_NS (5 * SYMC_NS_PER_S) /* for one address */

int symc_dial_one(const struct addrinfo *address, int64_t deadline_ns, int *fd)
{
    int one = 1, error = 0;
    socklen_t nbytes = sizeof(error);
    struct pollfd ready = {.events = POLLOUT};
    int64_t left;

    *fd = symc_descriptor_raise(socket(address->ai_family,
        SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, address->ai_protocol));
    if (*fd < 0)
        return errno;
    ready.fd = *fd;
    if (connect(*fd, address->ai_addr, address->ai_addrlen) != 0)
        error = errno;
    while (error == EINPROGRESS || error == EINTR) {
        int ready_now;

        left = deadline_ns - symc_now_ns();
        /* A refusal may be pending although the time is over. */
        ready_now = poll(&ready, 1, left > 0 ? (int)(left / 1000000) + 1 : 0);
        if (ready_now > 0) {
            error = 0;
            getsockopt(*fd, SOL_SOCKET, SO_ERROR, &error, &nbytes);
        } else if (left <= 0) {
            error = ETIMEDOUT;
        }
    }
    if (error != 0) {
        close(*fd);
        *fd = -1;
        return error;
    }
    setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(*fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    return 0;
}

/* Connects to a socket of this machine, which succeeds or fails at once. */
static int connect_local(const char *path, int *fd)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int error;

    snprintf(at.sun_path, sizeof(at.sun_path), "%.107s", path);
    *fd = symc_descriptor_raise(
        socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (*fd < 0)
        return errno;
    if (connect(*fd, (struct sockaddr *)&at, sizeof(at)) == 0)
        return 0;
    error = errno;
    close(*fd);
    *fd = -1;
    return error;
}

/* Returns whether an error may disappear once the server has started. */
static bool may_pass(int error)
{
    return error == ECONNREFUSED || error == ETIMEDOUT ||
           error == EHOSTUNREACH || error == ENETUNREACH ||
           error == ECONNRESET || error == EAGAIN || error == ENOENT;
}

/* Connects to the first address that accepts.  Returns 0 or an errno, preferably
 * one of may_pass(). */
static int connect_any(const struct symc_place *place,
    const struct addrinfo *list, int64_t deadline_ns, int *fd)
{
    int error = EADDRNOTAVAIL;

    if (place->local)
        return connect_local(place->host, fd);
    for (; list != NULL; list = list->ai_next) {
        int64_t until = symc_now_ns() + ATTEMPT_NS;
        int found =
            symc_dial_one(list, until < deadline_ns ? until : deadline_ns, fd);

        if (found == 0)
            return 0;
        /* A server may appear at one address even if another one fails
         * permanently. */
        if (!may_pass(error))
            error = found;
    }
    return error;
}

/* Returns whether a local server has a full backlog: connect() does not wait
 * for that, as it does for another machine. */
static bool is_full(const struct symc_place *place, int error)
{
    return place->local && error == EAGAIN;
}

/* Sleeps for a random time, on average twice as long at each call up to
 * RETRY_MOST_NS, and until the deadline at most. */
static void pause_before_retry(int64_t *pause_ns, int64_t deadline_ns)
{
    uint32_t random = 0;
    int64_t left = deadline_ns - symc_now_ns();
    int64_t ns;
    struct timespec time = {0};

    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
        random = (uint32_t)symc_now_ns();
    ns = *pause_ns / 2 + (int64_t)random % *pause_ns;
    *pause_ns = *pause_ns < RETRY_MOST_NS / 2 ? *pause_ns * 2 : RETRY_MOST_NS;
    if (ns > left)
        ns = left;
    if (ns <= 0)
        return;
    time.tv_sec = (time_t)(ns / SYMC_NS_PER_S);
    time.tv_nsec = (long)(ns % SYMC_NS_PER_S);
    nanosleep(&time, NULL);
}

symmcoll_status_t symc_dial(
    const struct symc_place *place, bool retry, int64_t deadline_ns, int *fd)
{
    char text[SYMC_PLACE_TEXT];
    struct symc_addresses addresses = {.list = NULL};
    int64_t pause_ns = RETRY_FIRST_NS;
    symmcoll_status_t status =
        place->local ? SYMMCOLL_OK
                     : symc_resolve(place, false, deadline_ns, &addresses);
    int error = 0;

    if (status == SYMMCOLL_OK)
        error = connect_any(place, addresses.list, deadline_ns, fd);
    while (status == SYMMCOLL_OK &&
           ((retry && may_pass(error)) || is_full(place, error)) &&
           symc_now_ns() < deadline_ns) {
        pause_before_retry(&pause_ns, deadline_ns);
        error = connect_any(place, addresses.list, deadline_ns, fd);
    }
    if (addresses.list != NULL)
        symc_resolve_free(&addresses);
    if (status != SYMMCOLL_OK || error == 0)
        return status;
    return symc_fail_errno(may_pass(error) && symc_now_ns() >= deadline_ns
                               ? SYMMCOLL_ERR_TIMEOUT
                               : SYMMCOLL_ERR_SYSTEM,
        error, "tcp store: %s", symc_place_text(place, text));
}
