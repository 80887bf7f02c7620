/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An operation on symmetric memory, from its allocation to its end: each rank
 * writes to the next one's buffer, with a signal, passes a barrier and reduces
 * its buffer in place.
 */
#include "t/chaos/chaos.h"

#include <symmcoll/symm_ops.h>

#include <stdio.h>
#include <string.h>

#define CHANNELS 8

struct shared {
    struct chaos_rank *self;
    struct symmcoll_group *group;
    struct symmcoll_symm *handle;
    float *data; /* count elements, and one that the previous rank writes */
    size_t count;
    int i;
    int rank, size; /* in the group */
};

static void expect(const struct shared *shared, float found, float wanted)
{
    if (found != wanted)
        atomic_fetch_add(&shared->self->line->wrong, 1);
}

static symmcoll_status_t exchange(const struct shared *shared)
{
    int size = shared->size, next = (shared->rank + 1) % size;
    int before = (shared->rank + size - 1) % size;
    int channel = shared->i % CHANNELS;
    float mine = (float)(1000 * shared->i + shared->rank);
    symmcoll_status_t status = symmcoll_symm_put_with_signal(shared->handle,
        next, shared->count * sizeof(float), &mine, sizeof(mine), channel, -1);

    if (status == SYMMCOLL_OK)
        status = symmcoll_symm_wait_signal(shared->handle, before, channel, -1);
    if (status == SYMMCOLL_OK)
        expect(shared, shared->data[shared->count],
            (float)(1000 * shared->i + before));
    if (status == SYMMCOLL_OK)
        status = symmcoll_symm_barrier(shared->handle, channel, -1);
    return status;
}

static symmcoll_status_t reduce(const struct shared *shared)
{
    float sum = (float)(shared->size * (shared->size + 1)) / 2;
    symmcoll_status_t status;

    for (size_t j = 0; j < shared->count; j++)
        shared->data[j] = (float)(shared->rank + 1) * (float)(1 + j % 5);
    status = symmcoll_all_reduce(shared->group, shared->data, shared->data,
        shared->count, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, NULL);
    for (size_t j = 0; status == SYMMCOLL_OK && j < shared->count; j++)
        expect(shared, shared->data[j], sum * (float)(1 + j % 5));
    return status;
}

/* Allocates from a pool or directly. A rank without memory still takes part,
 * so that the others get the error. */
static void allocate(struct shared *shared)
{
    struct symmcoll_world *world = shared->self->world;
    size_t nbytes = (shared->count + 1) * sizeof(float);
    struct symmcoll_symm_pool *pool;
    void *data = NULL;
    symmcoll_status_t status;

    if (shared->i % 2 == 0)
        status = symmcoll_symm_alloc(world, nbytes, NULL, &data);
    else if ((status = symmcoll_symm_default_pool(world, &pool)) == SYMMCOLL_OK)
        status = symmcoll_symm_pool_alloc(pool, nbytes, &data);
    shared->data = status == SYMMCOLL_OK ? data : NULL;
}

symmcoll_status_t chaos_operate_symm(
    struct chaos_rank *self, struct symmcoll_group *group, int i, size_t count)
{
    struct shared shared = {.self = self,
        .group = group,
        .count = count,
        .i = i,
        .rank = symmcoll_group_rank(group),
        .size = symmcoll_group_size(group)};
    symmcoll_status_t status;

    allocate(&shared);
    status = symmcoll_symm_rendezvous(group, shared.data, NULL, &shared.handle);
    if (status == SYMMCOLL_OK)
        status = exchange(&shared);
    /* This timeout fails no group and names the rank that this one waits for,
     * which may wait for another one; the group's barrier names the missing
     * ranks. */
    if (status == SYMMCOLL_ERR_TIMEOUT)
        status = symmcoll_barrier(group, NULL, NULL);
    else if (status == SYMMCOLL_OK)
        status = reduce(&shared);
    if (status != SYMMCOLL_OK)
        snprintf(
            self->reason, sizeof(self->reason), "%s", symmcoll_last_error());
    symmcoll_symm_release(shared.handle);
    if (symmcoll_symm_free(self->world, shared.data) != SYMMCOLL_OK)
        atomic_fetch_add(&self->line->wrong, 1);
    return status;
}
