/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * broadcast_coalesced: many buffers in few broadcasts. Buffers of one element
 * type are packed one after the other into memory of limited size, type by
 * type. Two broadcasts are in flight, so that one is packed during the other. A
 * buffer that fills a broadcast alone, or is in other memory, is broadcast in
 * place.
 */
#include "coll/coll.h"
#include "run/work.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IN_FLIGHT 2

/* Arguments of the call. */
struct request {
    struct symmcoll_group *group;
    void *const *bufs;
    const size_t *counts;
    const enum symmcoll_dtype *dtypes;
    size_t n;
    size_t buffer_nbytes;
    int root;
    const struct symmcoll_call *call;
};

/* Buffers [begin, end) of one type that are broadcast together. */
struct bundle {
    enum symmcoll_dtype dtype;
    size_t begin;
    size_t end;
    size_t members;
    size_t count; /* elements of all members */
};

/* Position in the division into bundles. */
struct walk {
    size_t first; /* first buffer of the current type */
    size_t at;    /* position in the search for its next buffer */
};

struct flight {
    struct symmcoll_work *work; /* NULL: none */
    struct bundle bundle;
    char *packed; /* room for a bundle */
    bool in_place;
};

/* Returns whether no earlier buffer has the type of buffer i. */
static bool begins_type(const struct request *request, size_t i)
{
    for (size_t j = 0; j < i; j++) {
        if (request->dtypes[j] == request->dtypes[i])
            return false;
    }
    return true;
}

/* Returns whether buffer i is in memory that the host cannot pack. */
static bool is_elsewhere(const struct request *request, size_t i)
{
    const struct symc_registry *registry =
        &symc_group_world(request->group)->registry;
    int16_t device;

    return (registry->finds || registry->unserved) &&
           symc_registry_find(registry, request->bufs[i], &device) !=
               SYMC_MEMORY_HOST;
}

/* Adds the buffers of the type from `at` on that fit. */
static bool fill(
    const struct request *request, struct walk *walk, struct bundle *bundle)
{
    size_t elem = symmcoll_dtype_size(bundle->dtype);

    for (; walk->at < request->n; walk->at++) {
        size_t count = request->counts[walk->at];
        bool alone;

        if (request->dtypes[walk->at] != bundle->dtype || count == 0)
            continue;
        alone = is_elsewhere(request, walk->at);
        if (bundle->members > 0 &&
            (alone || (bundle->count + count) * elem > request->buffer_nbytes))
            break;
        if (bundle->members == 0)
            bundle->begin = walk->at;
        bundle->end = walk->at + 1;
        bundle->members++;
        bundle->count += count;
        if (alone) {
            walk->at++;
            break;
        }
    }
    return bundle->members > 0;
}

/* Returns the next bundle; false: no more. */
static bool find_next(
    const struct request *request, struct walk *walk, struct bundle *bundle)
{
    while (walk->first < request->n) {
        *bundle = (struct bundle){.dtype = request->dtypes[walk->first]};
        if (fill(request, walk, bundle))
            return true;
        do
            walk->first++;
        while (walk->first < request->n && !begins_type(request, walk->first));
        walk->at = walk->first;
    }
    return false;
}

/* Copies a bundle's elements between its buffers and the packed memory. */
static void copy_bundle(const struct request *request,
    const struct bundle *bundle, char *packed, bool pack)
{
    size_t elem = symmcoll_dtype_size(bundle->dtype);

    for (size_t i = bundle->begin; i < bundle->end; i++) {
        size_t nbytes = request->counts[i] * elem;

        if (request->dtypes[i] != bundle->dtype || nbytes == 0)
            continue;
        if (pack)
            memcpy(packed, request->bufs[i], nbytes);
        else
            memcpy(request->bufs[i], packed, nbytes);
        packed += nbytes;
    }
}

/* Starts the broadcast of a bundle, which the root packs first. */
static symmcoll_status_t start(
    const struct request *request, struct flight *flight)
{
    const struct bundle *bundle = &flight->bundle;
    void *buf = flight->packed;

    flight->in_place = bundle->members == 1;
    if (flight->in_place)
        buf = request->bufs[bundle->begin];
    else if (symc_group_rank(request->group) == request->root)
        copy_bundle(request, bundle, flight->packed, true);
    return symmcoll_broadcast(request->group, buf, bundle->count, bundle->dtype,
        request->root, request->call, &flight->work);
}

/* Waits for a broadcast, and copies its elements back. */
static symmcoll_status_t end(
    const struct request *request, struct flight *flight)
{
    symmcoll_status_t status;

    if (flight->work == NULL)
        return SYMMCOLL_OK;
    status = symmcoll_work_wait(flight->work, (double)INFINITY);
    symmcoll_work_free(flight->work);
    flight->work = NULL;
    if (status == SYMMCOLL_OK && !flight->in_place &&
        symc_group_rank(request->group) != request->root)
        copy_bundle(request, &flight->bundle, flight->packed, false);
    return status;
}

static symmcoll_status_t run(
    const struct request *request, struct flight *flights)
{
    struct walk walk = {0, 0};
    symmcoll_status_t status = SYMMCOLL_OK;
    size_t number = 0;

    for (;; number++) {
        struct flight *flight = &flights[number % IN_FLIGHT];

        status = end(request, flight);
        if (status != SYMMCOLL_OK ||
            !find_next(request, &walk, &flight->bundle))
            break;
        status = start(request, flight);
        if (status != SYMMCOLL_OK)
            break;
    }
    for (size_t i = 1; i < IN_FLIGHT; i++) {
        struct symc_error first;
        symmcoll_status_t last;

        symc_error_keep(&first, status);
        last = end(request, &flights[(number + i) % IN_FLIGHT]);
        status = status == SYMMCOLL_OK ? last : symc_error_return(&first);
    }
    return status;
}

/* Checks, before the first broadcast, everything that each of them would
 * check. */
static symmcoll_status_t check(const struct request *request)
{
    struct symc_op op = {
        .kind = SYMC_BROADCAST, .dtype = SYMMCOLL_UINT8, .root = request->root};
    symmcoll_status_t status = symc_coll_check(request->group, &op);

    if (status != SYMMCOLL_OK)
        return status;
    /* The broadcasts in flight use memory of this call, so the call has to
     * wait. */
    if (symc_queue_in_callback(symc_group_queue(request->group)))
        return symc_callbacks_refuse("broadcast_coalesced");
    if (request->buffer_nbytes == 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "broadcast_coalesced: expected a buffer of a byte or more, found "
            "0");
    if (request->n > 0 && (request->bufs == NULL || request->counts == NULL ||
                              request->dtypes == NULL))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "broadcast_coalesced: expected bufs, counts and dtypes of %zu "
            "buffers, found NULL",
            request->n);
    for (size_t i = 0; i < request->n; i++) {
        op = (struct symc_op){.kind = SYMC_BROADCAST,
            .dtype = request->dtypes[i],
            .root = request->root,
            .count = request->counts[i],
            .in = request->bufs[i],
            .out = request->bufs[i]};
        status = symc_coll_check(request->group, &op);
        if (status != SYMMCOLL_OK)
            return status;
    }
    return SYMMCOLL_OK;
}

/* Returns the bytes of the largest bundle that is packed. */
static size_t find_room(const struct request *request)
{
    struct walk walk = {0, 0};
    struct bundle bundle;
    size_t most = 0;

    while (find_next(request, &walk, &bundle)) {
        size_t nbytes = bundle.count * symmcoll_dtype_size(bundle.dtype);

        if (bundle.members > 1 && nbytes > most)
            most = nbytes;
    }
    return most;
}

symmcoll_status_t symmcoll_broadcast_coalesced(struct symmcoll_group *group,
    void *const *bufs, const size_t *counts, const enum symmcoll_dtype *dtypes,
    size_t n, size_t buffer_nbytes, int root, const struct symmcoll_call *call)
{
    struct request request = {.group = group,
        .bufs = bufs,
        .counts = counts,
        .dtypes = dtypes,
        .n = n,
        .buffer_nbytes = buffer_nbytes,
        .root = root,
        .call = call};
    struct flight flights[IN_FLIGHT] = {{.work = NULL}};
    symmcoll_status_t status = check(&request);
    size_t room;
    char *packed = NULL;

    if (status != SYMMCOLL_OK)
        return status;
    room = find_room(&request);
    if (room > 0) {
        packed = symc_alloc(IN_FLIGHT, room);
        if (packed == NULL)
            return SYMMCOLL_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < IN_FLIGHT && packed != NULL; i++)
        flights[i].packed = packed + i * room;
    status = run(&request, flights);
    free(packed);
    return status;
}
