/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reaching a server: its addresses, and a connection to one of them.
 *
 * The C library's resolver waits as long as it likes, so names are looked up in
 * a thread of its own, which is left alone when the deadline passes.
 */
#include "store/link.h"

#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define RETRY_FIRST_NS INT64_C(5000000)
#define RETRY_MOST_NS INT64_C(500000000)
#define ATTEMPT_NS (5 * SYMC_NS_PER_S) /* for one address */

struct lookup {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int users; /* the thread and its caller; the last one frees it */
    bool done;
    int error;
    struct addrinfo *addresses;
    char host[256];
    char port[8];
};

static const struct addrinfo hints = {
    .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};

static void leave_lookup(struct lookup *lookup)
{
    bool last;

    pthread_mutex_lock(&lookup->lock);
    last = --lookup->users == 0;
    pthread_mutex_unlock(&lookup->lock);
    if (!last)
        return;
    if (lookup->addresses != NULL)
        freeaddrinfo(lookup->addresses);
    pthread_cond_destroy(&lookup->changed);
    pthread_mutex_destroy(&lookup->lock);
    free(lookup);
}

static void *run_lookup(void *arg)
{
    struct lookup *lookup = arg;
    struct addrinfo *addresses = NULL;
    int error = getaddrinfo(lookup->host, lookup->port, &hints, &addresses);

    pthread_mutex_lock(&lookup->lock);
    lookup->error = error;
    lookup->addresses = error == 0 ? addresses : NULL;
    lookup->done = true;
    pthread_cond_broadcast(&lookup->changed);
    pthread_mutex_unlock(&lookup->lock);
    leave_lookup(lookup);
    return NULL;
}

static symmcoll_status_t start_lookup(
    const struct symc_place *place, struct lookup **out)
{
    struct lookup *lookup = symc_alloc(1, sizeof(*lookup));
    pthread_condattr_t attr;
    pthread_t thread;
    symmcoll_status_t status;

    if (lookup == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&lookup->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&lookup->lock, NULL);
    lookup->users = 2;
    snprintf(lookup->host, sizeof(lookup->host), "%s", place->host);
    snprintf(lookup->port, sizeof(lookup->port), "%d", place->port);
    status = symc_thread_start(&thread, "symc-resolve", 0, run_lookup, lookup);
    if (status != SYMMCOLL_OK) {
        lookup->users = 1;
        leave_lookup(lookup);
        return status;
    }
    pthread_detach(thread);
    *out = lookup;
    return SYMMCOLL_OK;
}

/* The addresses, which the lookup owns where there is one, else the caller. */
static symmcoll_status_t resolve(const struct symc_place *place,
    int64_t deadline_ns, struct lookup **lookup, struct addrinfo **addresses)
{
    struct addrinfo numeric = hints;
    char port[8];
    const struct timespec until = {
        .tv_sec = (time_t)(deadline_ns / SYMC_NS_PER_S),
        .tv_nsec = (long)(deadline_ns % SYMC_NS_PER_S),
    };
    const char *host = place->host;
    symmcoll_status_t status;
    int error = 0;

    snprintf(port, sizeof(port), "%d", place->port);
    numeric.ai_flags |= AI_NUMERICHOST;
    if (strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    if (getaddrinfo(host, port, &numeric, addresses) == 0)
        return SYMMCOLL_OK;
    status = start_lookup(place, lookup);
    if (status != SYMMCOLL_OK)
        return status;
    pthread_mutex_lock(&(*lookup)->lock);
    while (!(*lookup)->done && error != ETIMEDOUT)
        error = pthread_cond_timedwait(
            &(*lookup)->changed, &(*lookup)->lock, &until);
    *addresses = (*lookup)->addresses;
    error = (*lookup)->done ? (*lookup)->error : 0;
    pthread_mutex_unlock(&(*lookup)->lock);
    if (*addresses != NULL)
        return SYMMCOLL_OK;
    if (error != 0)
        return symc_fail(SYMMCOLL_ERR_SYSTEM, "tcp store: host %s: %s",
            place->host, gai_strerror(error));
    return symc_fail(SYMMCOLL_ERR_TIMEOUT,
        "tcp store: timeout: the address of host %s did not come", place->host);
}

/* One address; 0 or what failed. */
static int connect_one(
    const struct addrinfo *address, int64_t deadline_ns, int *fd)
{
    int one = 1, error = 0;
    socklen_t nbytes = sizeof(error);
    struct pollfd ready = {.events = POLLOUT};
    int64_t left;

    *fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
        address->ai_protocol);
    if (*fd < 0)
        return errno;
    ready.fd = *fd;
    if (connect(*fd, address->ai_addr, address->ai_addrlen) != 0)
        error = errno;
    while (error == EINPROGRESS || error == EINTR) {
        int ready_now;

        left = deadline_ns - symc_now_ns();
        /* A refusal may be there although the time is over. */
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
        return error;
    }
    setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(*fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    return 0;
}

static int connect_any(
    const struct addrinfo *list, int64_t deadline_ns, int *fd)
{
    int error = EADDRNOTAVAIL;

    for (; list != NULL; list = list->ai_next) {
        int64_t until = symc_now_ns() + ATTEMPT_NS;

        error =
            connect_one(list, until < deadline_ns ? until : deadline_ns, fd);
        if (error == 0)
            return 0;
    }
    return error;
}

/* Errors that pass when the server has started. */
static bool may_pass(int error)
{
    return error == ECONNREFUSED || error == ETIMEDOUT ||
           error == EHOSTUNREACH || error == ENETUNREACH ||
           error == ECONNRESET || error == EAGAIN;
}

/* Longer from time to time, and not the same in all clients. */
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
    struct lookup *lookup = NULL;
    struct addrinfo *addresses = NULL;
    int64_t pause_ns = RETRY_FIRST_NS;
    symmcoll_status_t status = resolve(place, deadline_ns, &lookup, &addresses);
    int error = 0;

    if (status == SYMMCOLL_OK)
        error = connect_any(addresses, deadline_ns, fd);
    while (status == SYMMCOLL_OK && retry && may_pass(error) &&
           symc_now_ns() < deadline_ns) {
        pause_before_retry(&pause_ns, deadline_ns);
        error = connect_any(addresses, deadline_ns, fd);
    }
    if (lookup != NULL)
        leave_lookup(lookup);
    else if (addresses != NULL)
        freeaddrinfo(addresses);
    if (status != SYMMCOLL_OK || error == 0)
        return status;
    return symc_fail_errno(may_pass(error) && symc_now_ns() >= deadline_ns
                               ? SYMMCOLL_ERR_TIMEOUT
                               : SYMMCOLL_ERR_SYSTEM,
        error, "tcp store: %s", symc_place_text(place, text));
}
