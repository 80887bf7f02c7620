/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Symmetric memory for buckets, where processes reduce without copies to staging.
 */
#include "ddp/reducer.h"

#include "config/config.h"
#include "group/group.h"

#include <symmcoll/group.h>
#include <symmcoll/symm_mem.h>

#include <stdlib.h>

#define ALIGN ((size_t)64) /* of a bucket in symmetric memory: a cache line */

/* Returns whether buckets of so many bytes are reduced in place in symmetric
 * memory, but not elsewhere; the same on all ranks. */
static bool is_useful(const struct symmcoll_reducer *reducer, size_t nbytes)
{
    const struct symmcoll_world *world = reducer->group->world;
    const struct symc_config *config = symc_group_config(reducer->group);

    if (reducer->site != NULL || reducer->alone || reducer->size == 1 ||
        world->threads || world->fake != NULL)
        return false;
    return config->host_symmetric && nbytes > config->host_small_max;
}

/* Counts the bytes (out) for a number of buckets, each of which begins at a
 * multiple of ALIGN and may end with elements for parts of equal size. */
static bool count_nbytes(
    const struct symmcoll_reducer *reducer, int nbuckets, size_t *nbytes)
{
    size_t extra = ALIGN, all;

    if (reducer->shard)
        extra += (size_t)reducer->size * sizeof(double _Complex);
    if (!symc_multiply(extra, (size_t)nbuckets, &all))
        return false;
    for (int i = 0; i < reducer->nparams; i++)
        if (!symc_add(all, reducer->params[i].grad_nbytes, &all))
            return false;
    *nbytes = all;
    return true;
}

symmcoll_status_t symc_memory_share(const struct symmcoll_reducer *reducer,
    int nbuckets, struct symc_bucket_memory *memory)
{
    struct symmcoll_world *world = reducer->group->world;
    struct symmcoll_symm *handle = NULL;
    void *at = NULL;
    size_t nbytes;
    symmcoll_status_t status;

    *memory = (struct symc_bucket_memory){.at = NULL};
    if (!count_nbytes(reducer, nbuckets, &nbytes) ||
        !is_useful(reducer, nbytes))
        return SYMMCOLL_OK;
    /* A rank without memory takes part, and the call fails on all. */
    if (symmcoll_symm_alloc(world, nbytes, NULL, &at) != SYMMCOLL_OK)
        at = NULL;
    status = symmcoll_symm_rendezvous(reducer->group, at, NULL, &handle);
    if (status == SYMMCOLL_OK) {
        *memory = (struct symc_bucket_memory){at, world, handle};
        return SYMMCOLL_OK;
    }
    (void)symmcoll_symm_free(world, at);
    return symmcoll_group_error(reducer->group) == SYMMCOLL_OK ? SYMMCOLL_OK
                                                               : status;
}

char *symc_memory_next(char **at, size_t nbytes)
{
    char *bucket = *at;

    *at += nbytes / ALIGN * ALIGN + (nbytes % ALIGN != 0 ? ALIGN : 0);
    return bucket;
}

void symc_memory_free(struct symc_bucket_memory *memory)
{
    if (memory->handle == NULL)
        return;
    symmcoll_symm_release(memory->handle);
    (void)symmcoll_symm_free(memory->world, memory->at);
    *memory = (struct symc_bucket_memory){.at = NULL};
}
