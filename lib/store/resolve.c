/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Resolves names to addresses.
 *
 * The C library's resolver has no deadline, so names are resolved in a separate
 * thread, which is abandoned when the deadline passes.
 */
#include "store/link.h"

#include "base/descriptor.h"
#include "base/thread.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct symc_lookup {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int users; /* the thread and its caller; the last one frees it */
    bool done;
    int error;
    struct addrinfo *addresses;
    int flags;
    char host[256];
    char port[8];
};

/* Drops a reference to a lookup; the last one frees it. */
static void leave_lookup(struct symc_lookup *lookup)
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
    struct symc_lookup *lookup = arg;
    const struct addrinfo hints = {
        .ai_socktype = SOCK_STREAM, .ai_flags = lookup->flags};
    struct addrinfo *addresses = NULL;
    struct symc_descriptor_guard guard;
    int error;

    symc_descriptor_guard_begin(&guard); /* getaddrinfo() opens sockets */
    error = getaddrinfo(lookup->host, lookup->port, &hints, &addresses);
    symc_descriptor_guard_end(&guard);
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
    const struct symc_place *place, int flags, struct symc_lookup **out)
{
    struct symc_lookup *lookup = symc_alloc(1, sizeof(*lookup));
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
    lookup->flags = flags;
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

/* Waits for the thread until the deadline. */
static symmcoll_status_t await_lookup(const struct symc_place *place,
    struct symc_lookup *lookup, int64_t deadline_ns, struct addrinfo **list)
{
    const struct timespec until = {
        .tv_sec = (time_t)(deadline_ns / SYMC_NS_PER_S),
        .tv_nsec = (long)(deadline_ns % SYMC_NS_PER_S),
    };
    int error = 0;

    pthread_mutex_lock(&lookup->lock);
    while (!lookup->done && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&lookup->changed, &lookup->lock, &until);
    *list = lookup->addresses;
    error = lookup->done ? lookup->error : 0;
    pthread_mutex_unlock(&lookup->lock);
    if (*list != NULL)
        return SYMMCOLL_OK;
    if (error != 0)
        return symc_fail(SYMMCOLL_ERR_SYSTEM, "tcp store: host %s: %s",
            place->host, gai_strerror(error));
    return symc_fail(SYMMCOLL_ERR_TIMEOUT,
        "tcp store: timeout: the address of host %s was not resolved",
        place->host);
}

/* Sets the loopback addresses of IPv4 and IPv6 without a lookup: a machine may
 * have only one of them, and a server may be at either. */
static bool resolve_localhost(const char *port, const struct addrinfo *numeric,
    struct symc_addresses *addresses)
{
    if (getaddrinfo("127.0.0.1", port, numeric, &addresses->list) != 0)
        return false;
    addresses->joint = &addresses->list;
    while (*addresses->joint != NULL)
        addresses->joint = &(*addresses->joint)->ai_next;
    if (getaddrinfo("::1", port, numeric, addresses->joint) != 0)
        *addresses->joint = NULL;
    return true;
}

symmcoll_status_t symc_resolve(const struct symc_place *place, bool serve,
    int64_t deadline_ns, struct symc_addresses *addresses)
{
    int flags = AI_NUMERICSERV | (serve ? AI_PASSIVE : 0);
    const struct addrinfo numeric = {
        .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICHOST};
    char port[8];
    symmcoll_status_t status;

    *addresses = (struct symc_addresses){.list = NULL};
    snprintf(port, sizeof(port), "%d", place->port);
    if (strcmp(place->host, "localhost") == 0 &&
        resolve_localhost(port, &numeric, addresses))
        return SYMMCOLL_OK;
    if (getaddrinfo(place->host, port, &numeric, &addresses->list) == 0)
        return SYMMCOLL_OK;
    status = start_lookup(place, flags, &addresses->lookup);
    if (status != SYMMCOLL_OK)
        return status;
    status =
        await_lookup(place, addresses->lookup, deadline_ns, &addresses->list);
    if (status != SYMMCOLL_OK)
        leave_lookup(addresses->lookup);
    return status;
}

void symc_resolve_free(struct symc_addresses *addresses)
{
    struct addrinfo *second =
        addresses->joint != NULL ? *addresses->joint : NULL;

    if (addresses->joint != NULL)
        *addresses->joint = NULL;
    if (second != NULL)
        freeaddrinfo(second);
    if (addresses->lookup != NULL)
        leave_lookup(addresses->lookup);
    else
        freeaddrinfo(addresses->list);
}
