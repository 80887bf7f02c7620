/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operations that symmcoll-perf knows: how each is called, and how much of
 * the data has to cross the bus for it.
 */
#include "perf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static symmcoll_status_t run_all_reduce(const struct perf_case *it)
{
    return symmcoll_all_reduce(it->rank->group, it->out, it->in, it->count,
        it->dtype, it->op, NULL, NULL);
}

static symmcoll_status_t run_all_gather(const struct perf_case *it)
{
    return symmcoll_all_gather(
        it->rank->group, it->out, it->in, it->count, it->dtype, NULL, NULL);
}

static symmcoll_status_t run_reduce_scatter(const struct perf_case *it)
{
    return symmcoll_reduce_scatter(it->rank->group, it->out, it->in, it->count,
        it->dtype, it->op, NULL, NULL);
}

/* The root sends its input; the others receive into their output. */
static symmcoll_status_t run_broadcast(const struct perf_case *it)
{
    void *buf = it->rank->rank == 0 ? it->in : it->out;

    return symmcoll_broadcast(
        it->rank->group, buf, it->count, it->dtype, 0, NULL, NULL);
}

static symmcoll_status_t run_reduce(const struct perf_case *it)
{
    return symmcoll_reduce(it->rank->group, it->out, it->in, it->count,
        it->dtype, it->op, 0, NULL, NULL);
}

static symmcoll_status_t run_gather(const struct perf_case *it)
{
    return symmcoll_gather(
        it->rank->group, it->out, it->in, it->count, it->dtype, 0, NULL, NULL);
}

static symmcoll_status_t run_scatter(const struct perf_case *it)
{
    return symmcoll_scatter(
        it->rank->group, it->out, it->in, it->count, it->dtype, 0, NULL, NULL);
}

static symmcoll_status_t run_all_to_all(const struct perf_case *it)
{
    return symmcoll_all_to_all(
        it->rank->group, it->out, it->in, it->count, it->dtype, NULL, NULL);
}

/* The objects of all ranks, whose bytes are then copied to the result. */
static symmcoll_status_t run_object(const struct perf_case *it)
{
    size_t size = (size_t)it->rank->size;
    size_t nbytes = it->count * symmcoll_dtype_size(it->dtype);
    struct symmcoll_object in = {it->in, nbytes, 0};
    struct symmcoll_object *outs = calloc(size, sizeof(*outs));
    symmcoll_status_t status;

    if (outs == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    status = symmcoll_all_gather_object(it->rank->group, outs, &in, 0, NULL);
    for (size_t r = 0; status == SYMMCOLL_OK && nbytes > 0 && r < size; r++)
        memcpy((char *)it->out + r * nbytes, outs[r].data, nbytes);
    symmcoll_objects_free(outs, size);
    free(outs);
    return status;
}

/* With counts, which are compared, and here alike. */
static symmcoll_status_t run_all_to_all_v(const struct perf_case *it)
{
    size_t whole = it->count * (size_t)it->rank->size;

    return symmcoll_all_to_all_v(it->rank->group, it->out, whole, NULL, it->in,
        whole, NULL, it->dtype, NULL, NULL);
}

static symmcoll_status_t run_barrier(const struct perf_case *it)
{
    return symmcoll_barrier(it->rank->group, NULL, NULL);
}

static symmcoll_status_t run_monitored_barrier(const struct perf_case *it)
{
    return symmcoll_monitored_barrier(it->rank->group, 0, NULL, NULL, NULL);
}

/* Make a group of all ranks, and release it. */
static symmcoll_status_t run_group_create(const struct perf_case *it)
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
        1 - it->rank->rank, 0, NULL, NULL);
}

static symmcoll_status_t recv_from_other(const struct perf_case *it)
{
    return symmcoll_recv(it->rank->group, it->out, it->count, it->dtype,
        1 - it->rank->rank, 0, NULL, NULL, NULL);
}

/* There and back. */
static symmcoll_status_t run_sendrecv(const struct perf_case *it)
{
    bool first = it->rank->rank == 0;
    symmcoll_status_t status = first ? send_to_other(it) : recv_from_other(it);

    if (status != SYMMCOLL_OK)
        return status;
    return first ? recv_from_other(it) : send_to_other(it);
}

/* Both ways at once. */
static symmcoll_status_t run_send_recv_both(const struct perf_case *it)
{
    struct symmcoll_work *sent, *received;
    int peer = 1 - it->rank->rank;
    symmcoll_status_t first, second;

    first = symmcoll_recv(it->rank->group, it->out, it->count, it->dtype, peer,
        0, NULL, NULL, &received);
    if (first != SYMMCOLL_OK)
        return first;
    second = symmcoll_send(
        it->rank->group, it->in, it->count, it->dtype, peer, 0, NULL, &sent);
    if (second == SYMMCOLL_OK) {
        second = symmcoll_work_wait(sent, -1);
        symmcoll_work_free(sent);
    }
    first = symmcoll_work_wait(received, -1);
    symmcoll_work_free(received);
    return second != SYMMCOLL_OK ? second : first;
}

/* Set a key of this rank's own, and read it. */
static symmcoll_status_t run_store(const struct perf_case *it)
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

/* The case's elements in several buffers, one of which has what does not divide
 * evenly. */
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

static symmcoll_status_t run_coalesced(const struct perf_case *it)
{
    struct buffers buffers = divide(it);

    return symmcoll_all_reduce_coalesced(it->rank->group, buffers.outs,
        buffers.ins, buffers.counts, PERF_BUFFERS, it->dtype, it->op, NULL,
        NULL);
}

static symmcoll_status_t run_separate(const struct perf_case *it)
{
    struct buffers buffers = divide(it);
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int i = 0; i < PERF_BUFFERS && status == SYMMCOLL_OK; i++)
        status = symmcoll_all_reduce(it->rank->group, buffers.outs[i],
            buffers.ins[i], buffers.counts[i], it->dtype, it->op, NULL, NULL);
    return status;
}

/* The same calls, in a region. */
static symmcoll_status_t run_region(const struct perf_case *it)
{
    symmcoll_status_t status = symmcoll_coalesce_begin(it->rank->group);
    symmcoll_status_t last;

    if (status != SYMMCOLL_OK)
        return status;
    status = run_separate(it);
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

/* Start all buckets, then wait for each.  What was started is always waited
 * for, since the buffers are the library's until then. */
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

static symmcoll_status_t run_buckets(const struct perf_case *it)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    if (it->choice->async)
        return average_buckets_async(it);
    for (int i = 0; i < PERF_BUCKETS && status == SYMMCOLL_OK; i++)
        status = average_bucket(it, i, NULL);
    return status;
}

/* Bus factors as nccl-tests defines them. */
static double both_ways(int size)
{
    return 2.0 * (size - 1) / size;
}

static double all_but_own(int size)
{
    return (double)(size - 1) / size;
}

static double whole(int size)
{
    (void)size;
    return 1;
}

static const struct perf_op operations[] = {
    {
        .name = "all_reduce",
        .in = PERF_ONE,
        .out = PERF_ONE,
        .reduces = true,
        .in_place = true,
        .dirty = true,
        .run = run_all_reduce,
        .bus_factor = both_ways,
    },
    {
        .name = "all_gather",
        .in = PERF_ONE,
        .out = PERF_ONE_PER_RANK,
        .in_place = true,
        .dirty = true,
        .run = run_all_gather,
        .bus_factor = all_but_own,
    },
    {
        .name = "reduce_scatter",
        .in = PERF_ONE_PER_RANK,
        .out = PERF_ONE,
        .reduces = true,
        .in_place = true,
        .dirty = true,
        .run = run_reduce_scatter,
        .bus_factor = all_but_own,
    },
    {
        .name = "broadcast",
        .in = PERF_ONE,
        .out = PERF_ONE,
        .rooted = true,
        .dirty = true,
        .run = run_broadcast,
        .bus_factor = whole,
    },
    {
        .name = "reduce",
        .in = PERF_ONE,
        .out = PERF_ONE,
        .reduces = true,
        .rooted = true,
        .in_place = true,
        .dirty = true,
        .run = run_reduce,
        .bus_factor = whole,
    },
    {
        .name = "gather",
        .in = PERF_ONE,
        .out = PERF_ONE_PER_RANK,
        .rooted = true,
        .dirty = true,
        .run = run_gather,
        .bus_factor = all_but_own,
    },
    {
        .name = "scatter",
        .in = PERF_ONE_PER_RANK,
        .out = PERF_ONE,
        .rooted = true,
        .dirty = true,
        .run = run_scatter,
        .bus_factor = all_but_own,
    },
    {
        .name = "all_to_all",
        .in = PERF_ONE_PER_RANK,
        .out = PERF_ONE_PER_RANK,
        .dirty = true,
        .run = run_all_to_all,
        .bus_factor = all_but_own,
    },
    {
        .name = "all_to_all_v",
        .in = PERF_ONE_PER_RANK,
        .out = PERF_ONE_PER_RANK,
        .dirty = true,
        .run = run_all_to_all_v,
        .bus_factor = all_but_own,
    },
    {
        .name = "barrier",
        .in = PERF_NO_BUFFER,
        .out = PERF_NO_BUFFER,
        .run = run_barrier,
        .bus_factor = whole,
    },
    {
        .name = "coalesced",
        .in = PERF_ONE,
        .out = PERF_ONE,
        .reduces = true,
        .in_place = true,
        .dirty = true,
        .run = run_coalesced,
        .bus_factor = both_ways,
    },
    {
        .name = "separate",
        .in = PERF_ONE,
        .out = PERF_ONE,
        .reduces = true,
        .in_place = true,
        .dirty = true,
        .run = run_separate,
        .bus_factor = both_ways,
    },
    {
        .name = "region",
        .in = PERF_ONE,
        .out = PERF_ONE,
        .reduces = true,
        .in_place = true,
        .dirty = true,
        .rare = true,
        .run = run_region,
        .bus_factor = both_ways,
    },
    {
        .name = "monitored_barrier",
        .in = PERF_NO_BUFFER,
        .out = PERF_NO_BUFFER,
        .run = run_monitored_barrier,
        .bus_factor = whole,
    },
    {
        .name = "sendrecv",
        .in = PERF_ONE,
        .out = PERF_ONE,
        .dirty = true,
        .rare = true,
        .pair = true,
        .parts = 2,
        .run = run_sendrecv,
        .bus_factor = whole,
    },
    {
        .name = "send_recv_both",
        .in = PERF_ONE,
        .out = PERF_ONE,
        .dirty = true,
        .rare = true,
        .pair = true,
        .run = run_send_recv_both,
        .bus_factor = whole,
    },
    {
        .name = "group_create",
        .in = PERF_NO_BUFFER,
        .out = PERF_NO_BUFFER,
        .rare = true,
        .run = run_group_create,
        .bus_factor = whole,
    },
    {
        .name = "put_signal",
        .in = PERF_NO_BUFFER,
        .out = PERF_NO_BUFFER,
        .rare = true,
        .pair = true,
        .signals = true,
        .parts = 2,
        .run = perf_run_signal,
        .bus_factor = whole,
    },
    {
        .name = "symm_barrier",
        .in = PERF_NO_BUFFER,
        .out = PERF_NO_BUFFER,
        .rare = true,
        .signals = true,
        .run = perf_run_symm_barrier,
        .bus_factor = whole,
    },
    {
        .name = "object",
        .in = PERF_ONE,
        .out = PERF_ONE_PER_RANK,
        .dirty = true,
        .rare = true,
        .run = run_object,
        .bus_factor = all_but_own,
    },
    {
        .name = "store",
        .in = PERF_ONE,
        .out = PERF_ONE,
        .rare = true,
        .store = true,
        .most = PERF_STORE_MOST,
        .run = run_store,
        .bus_factor = whole,
    },
    {
        .name = "one_shot_all_reduce",
        .in = PERF_ONE,
        .out = PERF_ONE,
        .reduces = true,
        .dirty = true,
        .rare = true,
        .run = perf_run_one_shot,
        .bus_factor = both_ways,
    },
    {
        .name = "two_shot_all_reduce",
        .in = PERF_ONE,
        .out = PERF_ONE,
        .reduces = true,
        .dirty = true,
        .rare = true,
        .run = perf_run_two_shot,
        .bus_factor = both_ways,
    },
    {
        .name = "symm_reduce_scatter",
        .in = PERF_ONE_PER_RANK,
        .out = PERF_ONE,
        .reduces = true,
        .dirty = true,
        .rare = true,
        .run = perf_run_symm_reduce_scatter,
        .bus_factor = all_but_own,
    },
    {
        .name = "symm_all_gather",
        .in = PERF_ONE,
        .out = PERF_ONE_PER_RANK,
        .dirty = true,
        .rare = true,
        .run = perf_run_symm_all_gather,
        .bus_factor = all_but_own,
    },
    {
        .name = "all_to_all_vdev",
        .in = PERF_ONE_PER_RANK,
        .out = PERF_ONE_PER_RANK,
        .dirty = true,
        .rare = true,
        .run = perf_run_all_to_all_vdev,
        .bus_factor = all_but_own,
    },
    {
        .name = "bucket_avg",
        .in = PERF_NO_BUFFER,
        .out = PERF_NO_BUFFER,
        .reduces = true,
        .buckets = true,
        .run = run_buckets,
        .bus_factor = both_ways,
    },
    {.name = NULL},
};

const struct perf_op *perf_ops(void)
{
    return operations;
}
