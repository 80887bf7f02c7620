/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exchange of chunks for callers with functions of their own.
 */
#include "base/cancel.h"
#include "fused/fused.h"

#include <string.h>

static symmcoll_status_t check(const char *where,
    const struct symmcoll_group *group, bool given, size_t nbytes)
{
    size_t all;

    if (group == NULL || !given)
        return symc_fail(SYMMCOLL_ERR_INVALID, "%s: expected %s, found NULL",
            where, group == NULL ? "a group" : "a buffer and a function");
    if (!symc_multiply(nbytes, (size_t)group->size, &all) || all > PTRDIFF_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: %zu bytes on %d ranks are more than memory has", where, nbytes,
            group->size);
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_all_gather_and_consume(struct symmcoll_group *group,
    const void *shard, size_t nbytes, symmcoll_consume_fn consume,
    void *context, const struct symmcoll_call *call, void *out)
{
    struct symmcoll_call options;
    struct symc_fused_args args = {.name = "all_gather_and_consume"};
    struct symc_fused_gather gather = {.args = &args,
        .call = &options,
        .data = shard,
        .elem = 1,
        .nbytes = nbytes,
        .out = out,
        .consume = consume,
        .context = context};
    struct symc_fused *fused;
    symmcoll_status_t status = symc_fused_read_call(args.name, call, &options);
    int cancel;

    if (status == SYMMCOLL_OK)
        status = check(args.name, group, shard != NULL || nbytes == 0, nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    if (*group->alive != 1)
        return symc_group_refuse(group, SYMC_ALL_GATHER);
    symc_fused_describe(&args, "%zu bytes", nbytes);
    cancel = symc_cancel_disable();
    status = symc_fused_find(group, &fused);
    if (status == SYMMCOLL_OK)
        status = symc_fused_enter(fused, args.name, false);
    if (status == SYMMCOLL_OK) {
        status = symc_fused_all_gather(fused, &gather);
        symc_fused_leave(fused);
    }
    symc_cancel_restore(cancel);
    return status;
}

/* Chunks of a caller's function; the own one is made where it is to be. */
struct made {
    struct symc_fused *fused;
    symmcoll_produce_fn produce;
    void *context;
    size_t nbytes;
    char *out;
};

static symmcoll_status_t make(void *context, int rank, void *chunk)
{
    struct made *made = context;
    bool own = rank == made->fused->group->rank;

    return made->produce(made->context, rank,
        own ? made->out + (size_t)rank * made->nbytes : chunk);
}

static symmcoll_status_t take(void *context, const void *const *chunks)
{
    struct made *made = context;

    for (int r = 0; r < made->fused->group->size; r++) {
        if (r != made->fused->group->rank && made->nbytes > 0)
            memcpy(
                made->out + (size_t)r * made->nbytes, chunks[r], made->nbytes);
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_produce_and_all_to_all(struct symmcoll_group *group,
    size_t nbytes, symmcoll_produce_fn produce, void *context,
    const struct symmcoll_call *call, void *out)
{
    struct symmcoll_call options;
    struct symc_fused_args args = {.name = "produce_and_all_to_all"};
    struct made made = {
        .produce = produce, .context = context, .nbytes = nbytes, .out = out};
    struct symc_fused_scatter scatter = {.args = &args,
        .call = &options,
        .nbytes = nbytes,
        .produce = make,
        .finish = take,
        .context = &made};
    symmcoll_status_t status = symc_fused_read_call(args.name, call, &options);
    int cancel;

    if (status == SYMMCOLL_OK)
        status = check(args.name, group,
            produce != NULL && (out != NULL || nbytes == 0), nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    if (*group->alive != 1)
        return symc_group_refuse(group, SYMC_ALL_TO_ALL);
    symc_fused_describe(&args, "%zu bytes", nbytes);
    cancel = symc_cancel_disable();
    status = symc_fused_find(group, &made.fused);
    if (status == SYMMCOLL_OK)
        status = symc_fused_enter(made.fused, args.name, false);
    if (status == SYMMCOLL_OK) {
        status = symc_fused_all_to_all(made.fused, &scatter);
        symc_fused_leave(made.fused);
    }
    symc_cancel_restore(cancel);
    return status;
}
