/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of buckets: one array of the program, which has the gradients in the
 * order of the parameters; or symmetric memory, where processes reduce without
 * copies to staging; or memory of each bucket.
 */
#include "ddp/reducer.h"

#include "config/config.h"
#include "group/group.h"

#include <symmcoll/group.h>
#include <symmcoll/symm_mem.h>

#include <stdlib.h>

#define ALIGN ((size_t)64) /* of a bucket in symmetric memory: a cache line */

/* ---- the program's ---- */

/* Checks that all gradients are of one type, and counts their elements (out). */
static symmcoll_status_t count_elements(
    const struct symmcoll_reducer *reducer, size_t *count)
{
    const struct symc_param *first = &reducer->params[0];
    char text[SYMC_PARAM_TEXT];

    *count = 0;
    for (int i = 0; i < reducer->nparams; i++) {
        const struct symc_param *param = &reducer->params[i];

        if (param->grad_dtype != first->grad_dtype)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "reducer: %s: with memory, expected gradients of one type, %s, "
                "found %s",
                symc_number_text(reducer, param->number, text),
                symmcoll_dtype_name(first->grad_dtype),
                symmcoll_dtype_name(param->grad_dtype));
        if (!symc_add(*count, param->count, count))
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "reducer: %d gradients have no size", reducer->nparams);
    }
    return SYMMCOLL_OK;
}

/* Checks that the program's array shares no memory with parameters or buffers. */
static symmcoll_status_t check_apart(
    const struct symmcoll_reducer *reducer, const struct symmcoll_tensor *flat)
{
    struct symc_param memory = {0};
    char text[SYMC_PARAM_TEXT];
    symmcoll_status_t status =
        symc_param_init(&memory, flat, 0, false, "memory");

    if (status != SYMMCOLL_OK)
        return status;
    for (int i = 0; i < reducer->nparams; i++)
        if (symc_params_overlap(&reducer->params[i], &memory))
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "reducer: expected memory apart from the parameters, found that "
                "it has elements of %s",
                symc_number_text(reducer, reducer->params[i].number, text));
    for (int i = 0; i < reducer->buffers.n; i++)
        if (symc_params_overlap(&reducer->buffers.tensors[i], &memory))
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "reducer: expected memory apart from the buffers, found that it "
                "has elements of buffer %d",
                i);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_memory_take(
    struct symmcoll_reducer *reducer, const struct symmcoll_reducer_args *args)
{
    struct symmcoll_tensor flat = reducer->params[0].tensor;
    size_t count, align = symc_param_align(&reducer->params[0]);
    char *at = args->memory;
    symmcoll_status_t status;

    if (at == NULL)
        return SYMMCOLL_OK;
    if (args->write_back)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer: expected memory or write_back, found both");
    status = count_elements(reducer, &count);
    if (status != SYMMCOLL_OK)
        return status;
    if (reducer->site != NULL && (uintptr_t)at % align != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer: expected memory at a multiple of %zu, found %p", align,
            args->memory);
    flat.data = at;
    flat.dtype = reducer->params[0].grad_dtype;
    flat.ndim = 1;
    flat.shape[0] = (int64_t)count;
    flat.strides[0] = 1;
    status = symc_site_check("reducer: memory", reducer->group, &flat);
    if (status == SYMMCOLL_OK)
        status = check_apart(reducer, &flat);
    if (status != SYMMCOLL_OK)
        return status;
    for (int i = 0; i < reducer->nparams; i++) {
        reducer->params[i].home = at;
        at += reducer->params[i].grad_nbytes;
    }
    return SYMMCOLL_OK;
}

/* ---- symmetric memory ---- */

int64_t symc_memory_private_most(const struct symmcoll_reducer *reducer)
{
    const struct symmcoll_world *world = symc_group_world(reducer->group);
    const struct symc_config *config = symc_group_config(reducer->group);

    if (reducer->memory != NULL || reducer->site != NULL || reducer->alone ||
        reducer->size == 1 || world->threads || world->fake != NULL ||
        !config->host_symmetric)
        return INT64_MAX;
    return (int64_t)config->host_small_max;
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
    struct symmcoll_world *world = symc_group_world(reducer->group);
    struct symmcoll_symm *handle = NULL;
    void *at = NULL;
    size_t nbytes;
    symmcoll_status_t status;

    *memory = (struct symc_bucket_memory){.at = NULL};
    if (!count_nbytes(reducer, nbuckets, &nbytes) ||
        (int64_t)nbytes <= symc_memory_private_most(reducer))
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

/* Returns whether symmetric memory is there: the end of its world frees it. */
static bool is_there(const struct symc_bucket_memory *memory)
{
    void *at;

    return symmcoll_symm_buffer(memory->handle, 0, 0, 0, &at) == SYMMCOLL_OK;
}

symmcoll_status_t symc_bucket_memory_check(
    const struct symc_bucket_memory *memory, const char *where)
{
    if (memory->handle == NULL || is_there(memory))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected a reducer whose world is there, found that it has been "
        "finalized, or a fork of the process",
        where);
}

void symc_memory_free(struct symc_bucket_memory *memory)
{
    bool there;

    if (memory->handle == NULL)
        return;
    there = is_there(memory);
    symmcoll_symm_release(memory->handle);
    if (there)
        (void)symmcoll_symm_free(memory->world, memory->at);
    *memory = (struct symc_bucket_memory){.at = NULL};
}
