/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measurements of several calls: messages there and back, groups created and
 * freed, keys of a store, many buffers at once.
 */
#include "perf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Creates a group of all ranks and frees it. */
symmcoll_status_t perf_run_group_create(const struct perf_case *it)
{
    struct symmcoll_group *group;
    symmcoll_status_t status =
        symmcoll_group_create(it->rank->world, NULL, &group);

    if (status != SYMMCOLL_OK)
        return status;
    if (symmcoll_group_rank(group) != it->rank->rank ||
        symmcoll_group_size(group) != it->rank->size)
        status = SYMMCOLL_ERR_INTERNAL;
    return symmcoll_group_free(group) != SYMMCOLL_OK ? SYMMCOLL_ERR_INTERNAL
                                                     : status;
}

static symmcoll_status_t send_to_other(const struct perf_case *it)
{
    return symmcoll_send(it->rank->group, it->in, it->count, it->dtype,
        1 - it->rank->rank, 0, it->rank->call, NULL);
}

static symmcoll_status_t recv_from_other(const struct perf_case *it)
{
    return symmcoll_recv(it->rank->group, it->out, it->count, it->dtype,
        1 - it->rank->rank, 0, NULL, it->rank->call, NULL);
}

/* Sends a message there and back. */
symmcoll_status_t perf_run_sendrecv(const struct perf_case *it)
{
    bool first = it->rank->rank == 0;
    symmcoll_status_t status = first ? send_to_other(it) : recv_from_other(it);

    if (status != SYMMCOLL_OK)
        return status;
    return first ? recv_from_other(it) : send_to_other(it);
}

/* Sends messages both ways at once. */
symmcoll_status_t perf_run_send_recv_both(const struct perf_case *it)
{
    struct symmcoll_work *sent, *received;
    int peer = 1 - it->rank->rank;
    symmcoll_status_t first, second;

    first = symmcoll_recv(it->rank->group, it->out, it->count, it->dtype, peer,
        0, NULL, it->rank->call, &received);
    if (first != SYMMCOLL_OK)
        return first;
    second = symmcoll_send(it->rank->group, it->in, it->count, it->dtype, peer,
        0, it->rank->call, &sent);
    if (second == SYMMCOLL_OK) {
        second = symmcoll_work_wait(sent, -1);
        symmcoll_work_free(sent);
    }
    first = symmcoll_work_wait(received, -1);
    symmcoll_work_free(received);
    return second != SYMMCOLL_OK ? second : first;
}

/* Sets a key of this rank and reads it. */
symmcoll_status_t perf_run_store(const struct perf_case *it)
{
    struct symmcoll_store *store = symmcoll_world_store(it->rank->world);
    char key[32];
    void *value = NULL;
    size_t nbytes = 0;
    symmcoll_status_t status;

    snprintf(key, sizeof(key), "perf/%d", it->rank->rank);
    status = symmcoll_store_set(store, key, it->in, it->nbytes);
    if (status == SYMMCOLL_OK)
        status = symmcoll_store_get(store, key, &value, &nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    memcpy(it->out, value, nbytes < it->nbytes ? nbytes : it->nbytes);
    free(value);
    return SYMMCOLL_OK;
}

/* The case's elements in several buffers; the last one has the remainder. */
struct buffers {
    size_t counts[PERF_BUFFERS];
    void *outs[PERF_BUFFERS];
    const void *ins[PERF_BUFFERS];
};

static struct buffers divide(const struct perf_case *it)
{
    size_t elem = symmcoll_dtype_size(it->dtype);
    size_t each = it->count / PERF_BUFFERS;
    struct buffers buffers;

    for (size_t i = 0; i < PERF_BUFFERS; i++) {
        buffers.counts[i] = i + 1 < PERF_BUFFERS ? each : it->count - i * each;
        buffers.outs[i] = (char *)it->out + i * each * elem;
        buffers.ins[i] = (const char *)it->in + i * each * elem;
    }
    return buffers;
}

symmcoll_status_t perf_run_coalesced(const struct perf_case *it)
{
    struct buffers buffers = divide(it);

    return symmcoll_all_reduce_coalesced(it->rank->group, buffers.outs,
        buffers.ins, buffers.counts, PERF_BUFFERS, it->dtype, it->op, NULL,
        NULL);
}

symmcoll_status_t perf_run_separate(const struct perf_case *it)
{
    struct buffers buffers = divide(it);
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int i = 0; i < PERF_BUFFERS && status == SYMMCOLL_OK; i++)
        status = symmcoll_all_reduce(it->rank->group, buffers.outs[i],
            buffers.ins[i], buffers.counts[i], it->dtype, it->op, NULL, NULL);
    return status;
}

/* Makes the separate calls in a region. */
symmcoll_status_t perf_run_region(const struct perf_case *it)
{
    symmcoll_status_t status = symmcoll_coalesce_begin(it->rank->group);
    symmcoll_status_t last;

    if (status != SYMMCOLL_OK)
        return status;
    status = perf_run_separate(it);
    last = symmcoll_coalesce_end(it->rank->group, NULL, NULL);
    return status != SYMMCOLL_OK ? status : last;
}

static symmcoll_status_t average_bucket(
    const struct perf_case *it, int index, struct symmcoll_work **work)
{
    void *bucket = it->rank->buckets[index];

    return symmcoll_all_reduce(it->rank->group, bucket, bucket, it->count,
        it->dtype, SYMMCOLL_AVG, NULL, work);
}

/* Starts all buckets, then waits for each.  Started ones are always waited for,
 * because the library uses the buffers until then. */
static symmcoll_status_t average_buckets_async(const struct perf_case *it)
{
    struct symmcoll_work *works[PERF_BUCKETS];
    symmcoll_status_t status = SYMMCOLL_OK, first = SYMMCOLL_OK;
    int started = 0;

    while (started < PERF_BUCKETS && first == SYMMCOLL_OK) {
        first = average_bucket(it, started, &works[started]);
        if (first == SYMMCOLL_OK)
            started++;
    }
    for (int i = 0; i < started; i++) {
        status = symmcoll_work_wait(works[i], -1);
        if (first == SYMMCOLL_OK)
            first = status;
        symmcoll_work_free(works[i]);
    }
    return first;
}

symmcoll_status_t perf_run_buckets(const struct perf_case *it)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    if (it->choice->async)
        return average_buckets_async(it);
    for (int i = 0; i < PERF_BUCKETS && status == SYMMCOLL_OK; i++)
        status = average_bucket(it, i, NULL);
    return status;
}
