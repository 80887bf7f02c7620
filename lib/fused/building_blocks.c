/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exchange of chunks for functions of the caller.
 */
#include "fused/fused.h"
#include "group/site.h"

#include <string.h>

static void describe(const void *context, struct symc_fused_args *args)
{
    const size_t *nbytes = context;

    symc_fused_describe(args, "%zu bytes", *nbytes);
}

/* Checks the arguments of both calls, and adds the size of a chunk to those that
 * the ranks compare. given: no pointer is NULL. each: bytes of a chunk; the
 * caller keeps it until the call ends. */
static symmcoll_status_t check(
    struct symc_fused_call *begun, bool given, const size_t *each)
{
    size_t nbytes = *each;
    int size = symc_group_size(begun->fused->group);
    size_t all;

    begun->args.describe = describe;
    begun->args.context = each;
    symc_fused_compare(&begun->args, (int64_t)nbytes);
    if (!given)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a buffer and a function, found NULL",
            begun->args.name);
    if (!symc_multiply(nbytes, (size_t)size, &all) || all > PTRDIFF_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: %zu bytes on %d ranks are more than memory has",
            begun->args.name, nbytes, size);
    return SYMMCOLL_OK;
}

/* Checks that a buffer is in host memory, since the host accesses it. */
static symmcoll_status_t check_host(
    const struct symc_fused_call *begun, const void *at, size_t nbytes)
{
    const struct symmcoll_tensor bytes = {.data = (void *)(uintptr_t)at,
        .dtype = SYMMCOLL_UINT8,
        .device = SYMMCOLL_HOST};

    return nbytes == 0
               ? SYMMCOLL_OK
               : symc_site_check(begun->args.name, begun->fused->group, &bytes);
}

/* Checks that the shard is at its place in out, or does not overlap out. */
static symmcoll_status_t check_place(const struct symc_fused_call *begun,
    const char *shard, size_t nbytes, const char *out)
{
    size_t size = (size_t)symc_group_size(begun->fused->group);
    size_t rank = (size_t)symc_group_rank(begun->fused->group);

    if (out == NULL || nbytes == 0 || shard == out + rank * nbytes ||
        (uintptr_t)shard >= (uintptr_t)out + size * nbytes ||
        (uintptr_t)out >= (uintptr_t)shard + nbytes)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected shard in other memory than out, or at byte %zu of that, "
        "found it at byte %td",
        begun->args.name, rank * nbytes, shard - out);
}

/* A caller's function that consumes shards. */
struct consumed {
    symmcoll_consume_fn consume;
    void *context;
};

/* Passes a shard to the caller's function. */
static symmcoll_status_t use(void *context, int rank, const void *shard)
{
    const struct consumed *consumed = context;
    symmcoll_status_t status =
        consumed->consume(consumed->context, rank, shard);

    return status == SYMMCOLL_OK
               ? status
               : symc_fail(status,
                     "all_gather_and_consume: the function returned %d for the "
                     "shard of rank %d",
                     (int)status, rank);
}

/* Checks the buffers of a gathering. */
static symmcoll_status_t check_gather(struct symc_fused_call *begun,
    const void *shard, size_t *nbytes, const void *out)
{
    symmcoll_status_t status =
        check(begun, shard != NULL || *nbytes == 0, nbytes);

    if (status != SYMMCOLL_OK)
        return status;
    status = check_place(begun, shard, *nbytes, out);
    if (status != SYMMCOLL_OK)
        return status;
    status = check_host(begun, shard, *nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    return check_host(begun, out, *nbytes);
}

symmcoll_status_t symmcoll_all_gather_and_consume(struct symmcoll_group *group,
    const void *shard, size_t nbytes, symmcoll_consume_fn consume,
    void *context, const struct symmcoll_call *call, void *out)
{
    struct symc_fused_call begun;
    struct consumed consumed = {consume, context};
    struct symc_fused_gather gather = {.args = &begun.args,
        .call = &begun.options,
        .data = shard,
        .elem = 1,
        .nbytes = nbytes,
        .out = out,
        .consume = consume != NULL ? use : NULL,
        .context = &consumed};
    symmcoll_status_t status = symc_fused_begin(
        &begun, group, SYMC_ALL_GATHER, "all_gather_and_consume", call);

    if (status != SYMMCOLL_OK)
        return status;
    status = check_gather(&begun, shard, &nbytes, out);
    status = status == SYMMCOLL_OK ? symc_fused_all_gather(begun.fused, &gather)
                                   : symc_fused_confirm(begun.fused,
                                         &begun.args, &begun.options, status);
    return symc_fused_end(&begun, status);
}

/* A caller's function that makes chunks; this rank's own is made in place. */
struct made {
    struct symc_fused *fused;
    symmcoll_produce_fn produce;
    void *context;
    size_t nbytes;
    char *out;
};

/* Makes a chunk with the caller's function. */
static symmcoll_status_t make(void *context, int rank, void *chunk)
{
    struct made *made = context;
    bool own = rank == symc_group_rank(made->fused->group);
    symmcoll_status_t status = made->produce(made->context, rank,
        own ? made->out + (size_t)rank * made->nbytes : chunk);

    return status == SYMMCOLL_OK
               ? status
               : symc_fail(status,
                     "produce_and_all_to_all: the function returned %d for the "
                     "chunk of rank %d",
                     (int)status, rank);
}

/* Copies the chunks of other ranks to the result. */
static symmcoll_status_t take(void *context, const void *const *chunks)
{
    struct made *made = context;

    for (int r = 0; r < symc_group_size(made->fused->group); r++) {
        if (r != symc_group_rank(made->fused->group) && made->nbytes > 0)
            memcpy(
                made->out + (size_t)r * made->nbytes, chunks[r], made->nbytes);
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_produce_and_all_to_all(struct symmcoll_group *group,
    size_t nbytes, symmcoll_produce_fn produce, void *context,
    const struct symmcoll_call *call, void *out)
{
    struct symc_fused_call begun;
    struct made made = {
        .produce = produce, .context = context, .nbytes = nbytes, .out = out};
    struct symc_fused_scatter scatter = {.args = &begun.args,
        .call = &begun.options,
        .nbytes = nbytes,
        .produce = make,
        .finish = take,
        .context = &made};
    symmcoll_status_t status = symc_fused_begin(
        &begun, group, SYMC_ALL_TO_ALL, "produce_and_all_to_all", call);

    if (status != SYMMCOLL_OK)
        return status;
    made.fused = begun.fused;
    status =
        check(&begun, produce != NULL && (out != NULL || nbytes == 0), &nbytes);
    if (status == SYMMCOLL_OK)
        status = check_host(&begun, out, nbytes);
    status = status == SYMMCOLL_OK
                 ? symc_fused_all_to_all(begun.fused, &scatter)
                 : symc_fused_confirm(
                       begun.fused, &begun.args, &begun.options, status);
    return symc_fused_end(&begun, status);
}
