/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operations of symmcoll-perf: the call, and the share of the data that
 * crosses the bus.
 */
#include "perf.h"

#include <stdlib.h>
#include <string.h>

static symmcoll_status_t run_all_reduce(const struct perf_case *it)
{
    return symmcoll_all_reduce(it->rank->group, it->out, it->in, it->count,
        it->dtype, it->op, it->rank->call, NULL);
}

static symmcoll_status_t run_all_gather(const struct perf_case *it)
{
    return symmcoll_all_gather(it->rank->group, it->out, it->in, it->count,
        it->dtype, it->rank->call, NULL);
}

static symmcoll_status_t run_reduce_scatter(const struct perf_case *it)
{
    return symmcoll_reduce_scatter(it->rank->group, it->out, it->in, it->count,
        it->dtype, it->op, it->rank->call, NULL);
}

/* The root sends its input; the others receive into their output. */
static symmcoll_status_t run_broadcast(const struct perf_case *it)
{
    void *buf = it->rank->rank == 0 ? it->in : it->out;

    return symmcoll_broadcast(
        it->rank->group, buf, it->count, it->dtype, 0, it->rank->call, NULL);
}

static symmcoll_status_t run_reduce(const struct perf_case *it)
{
    return symmcoll_reduce(it->rank->group, it->out, it->in, it->count,
        it->dtype, it->op, 0, it->rank->call, NULL);
}

static symmcoll_status_t run_gather(const struct perf_case *it)
{
    return symmcoll_gather(it->rank->group, it->out, it->in, it->count,
        it->dtype, 0, it->rank->call, NULL);
}

static symmcoll_status_t run_scatter(const struct perf_case *it)
{
    return symmcoll_scatter(it->rank->group, it->out, it->in, it->count,
        it->dtype, 0, it->rank->call, NULL);
}

static symmcoll_status_t run_all_to_all(const struct perf_case *it)
{
    return symmcoll_all_to_all(it->rank->group, it->out, it->in, it->count,
        it->dtype, it->rank->call, NULL);
}

/* Gathers objects of all ranks, whose bytes are then copied to the result. */
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

/* With counts, which are compared and here equal. */
static symmcoll_status_t run_all_to_all_v(const struct perf_case *it)
{
    size_t whole = it->count * (size_t)it->rank->size;

    return symmcoll_all_to_all_v(it->rank->group, it->out, whole, NULL, it->in,
        whole, NULL, it->dtype, it->rank->call, NULL);
}

static symmcoll_status_t run_barrier(const struct perf_case *it)
{
    return symmcoll_barrier(it->rank->group, it->rank->call, NULL);
}

static symmcoll_status_t run_monitored_barrier(const struct perf_case *it)
{
    return symmcoll_monitored_barrier(it->rank->group, 0, NULL, NULL, NULL);
}

/* Bus factors as defined by nccl-tests. */
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
        .device = true,
        .run = run_all_reduce,
        .bus_factor = both_ways,
    },
    {
        .name = "all_gather",
        .in = PERF_ONE,
        .out = PERF_ONE_PER_RANK,
        .in_place = true,
        .dirty = true,
        .device = true,
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
        .device = true,
        .run = run_reduce_scatter,
        .bus_factor = all_but_own,
    },
    {
        .name = "broadcast",
        .in = PERF_ONE,
        .out = PERF_ONE,
        .rooted = true,
        .dirty = true,
        .device = true,
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
        .device = true,
        .run = run_reduce,
        .bus_factor = whole,
    },
    {
        .name = "gather",
        .in = PERF_ONE,
        .out = PERF_ONE_PER_RANK,
        .rooted = true,
        .dirty = true,
        .device = true,
        .run = run_gather,
        .bus_factor = all_but_own,
    },
    {
        .name = "scatter",
        .in = PERF_ONE_PER_RANK,
        .out = PERF_ONE,
        .rooted = true,
        .dirty = true,
        .device = true,
        .run = run_scatter,
        .bus_factor = all_but_own,
    },
    {
        .name = "all_to_all",
        .in = PERF_ONE_PER_RANK,
        .out = PERF_ONE_PER_RANK,
        .dirty = true,
        .device = true,
        .run = run_all_to_all,
        .bus_factor = all_but_own,
    },
    {
        .name = "all_to_all_v",
        .in = PERF_ONE_PER_RANK,
        .out = PERF_ONE_PER_RANK,
        .dirty = true,
        .device = true,
        .run = run_all_to_all_v,
        .bus_factor = all_but_own,
    },
    {
        .name = "barrier",
        .in = PERF_NO_BUFFER,
        .out = PERF_NO_BUFFER,
        .device = true,
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
        .run = perf_run_coalesced,
        .bus_factor = both_ways,
    },
    {
        .name = "separate",
        .in = PERF_ONE,
        .out = PERF_ONE,
        .reduces = true,
        .in_place = true,
        .dirty = true,
        .run = perf_run_separate,
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
        .run = perf_run_region,
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
        .device = true,
        .dirty = true,
        .rare = true,
        .pair = true,
        .parts = 2,
        .run = perf_run_sendrecv,
        .bus_factor = whole,
    },
    {
        .name = "send_recv_both",
        .in = PERF_ONE,
        .out = PERF_ONE,
        .device = true,
        .dirty = true,
        .rare = true,
        .pair = true,
        .run = perf_run_send_recv_both,
        .bus_factor = whole,
    },
    {
        .name = "group_create",
        .in = PERF_NO_BUFFER,
        .out = PERF_NO_BUFFER,
        .rare = true,
        .run = perf_run_group_create,
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
        .run = perf_run_store,
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
        .run = perf_run_buckets,
        .bus_factor = both_ways,
    },
    {.name = NULL},
};

const struct perf_op *perf_ops(void)
{
    return operations;
}
