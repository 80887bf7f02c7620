/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slices of sharded updates, as of ZeRO 1 and 2: buckets are reduce-scattered,
 * each rank updates its slices of the parameters, and these are all-gathered, which
 * gather.c starts.
 *
 * A bucket is divided into as many parts of equal size as there are ranks.  Each
 * rank has one part of each bucket, and so at most one slice of a parameter.
 * When gradients are not needed any more, the memory of their bucket is that
 * through which its parameters are gathered: element i of the gradients becomes
 * slot i, as large as the largest element of the bucket's parameters.
 */
#include "ddp/reducer.h"

#include <symmcoll/collectives.h>
#include <symmcoll/group.h>

#include <stdio.h>
#include <stdlib.h>

/* ---- options ---- */

symmcoll_status_t symc_shard_check_args(
    const struct symmcoll_reducer_args *args)
{
    const char *found = NULL;

    if (!args->shard)
        return SYMMCOLL_OK;
    if (args->write_back)
        found = "write_back";
    else if (args->hook != NULL)
        found = "a hook";
    return found == NULL
               ? SYMMCOLL_OK
               : symc_fail(SYMMCOLL_ERR_INVALID,
                     "reducer: expected shard or %s, found both", found);
}

/* ---- slices ---- */

/* A range of a bucket's elements. */
struct range {
    size_t first;
    size_t count;
};

/* Returns the elements of a bucket that are a rank's. */
static struct range part_of(const struct symc_ddp_bucket *bucket, int rank)
{
    size_t first = (size_t)rank * bucket->part;
    size_t left = first < bucket->count ? bucket->count - first : 0;

    return (struct range){first, left < bucket->part ? left : bucket->part};
}

/* Returns the elements of a bucket that are this rank's. */
static struct range own_range(const struct symmcoll_reducer *reducer,
    const struct symc_ddp_bucket *bucket)
{
    return part_of(bucket, symmcoll_group_rank(reducer->group));
}

/* Returns the elements of a range that are a parameter's; at (out): the element
 * of the parameter that is the first of them. */
static struct range cut(const struct symc_ddp_bucket *bucket,
    const struct symc_param *param, struct range range, size_t *at)
{
    size_t start = (size_t)(param->view - bucket->buffer) /
                   symmcoll_dtype_size(bucket->dtype);
    size_t first = start > range.first ? start : range.first;
    size_t end = range.first + range.count;

    if (end > start + param->count)
        end = start + param->count;
    *at = first - start;
    return (struct range){first, end > first ? end - first : 0};
}

symmcoll_status_t symc_shard_list(struct symmcoll_reducer *reducer)
{
    char text[SYMC_PARAM_TEXT];
    size_t size = (size_t)reducer->size, at;

    if (!reducer->shard)
        return SYMMCOLL_OK;
    free(reducer->slices);
    free(reducer->slice_pieces);
    free(reducer->parts.at);
    free(reducer->parts.counts);
    reducer->slices =
        symc_alloc((size_t)reducer->nparams, sizeof(*reducer->slices));
    reducer->slice_pieces = symc_alloc(
        (size_t)reducer->nparams + size, sizeof(*reducer->slice_pieces));
    reducer->parts.at = symc_alloc(size, sizeof(*reducer->parts.at));
    reducer->parts.counts = symc_alloc(size, sizeof(*reducer->parts.counts));
    if (reducer->slices == NULL || reducer->slice_pieces == NULL ||
        reducer->parts.at == NULL || reducer->parts.counts == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    reducer->nslices = 0;
    for (int i = 0; i < reducer->nparams; i++) {
        const struct symc_param *param = &reducer->params[i];
        const struct symc_ddp_bucket *bucket =
            &reducer->layout.buckets[param->bucket];

        if (!param->dense)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "reducer: %s: with shard, expected a parameter whose elements "
                "are contiguous, found gaps",
                symc_number_text(reducer, param->number, text));
        if (cut(bucket, param, own_range(reducer, bucket), &at).count > 0)
            reducer->slices[reducer->nslices++] = i;
    }
    return SYMMCOLL_OK;
}

int symmcoll_reducer_shard_count(const struct symmcoll_reducer *reducer)
{
    return reducer != NULL ? reducer->nslices : 0;
}

static const struct symmcoll_shard default_shard = SYMMCOLL_SHARD_INIT;
static const struct symc_sized shard_kind = {.name = "shard",
    .macro = "SYMMCOLL_SHARD_INIT",
    .defaults = &default_shard,
    .nbytes = sizeof(default_shard),
    .least = sizeof(default_shard.size)};

symmcoll_status_t symc_shard_check(
    const struct symmcoll_reducer *reducer, const char *where)
{
    if (reducer == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "%s: expected a reducer, found NULL", where);
    if (!reducer->shard)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a reducer with shard, found one without", where);
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_reducer_shard(const struct symmcoll_reducer *reducer,
    int index, struct symmcoll_shard *shard)
{
    const struct symc_ddp_bucket *bucket;
    const struct symc_param *param;
    struct symmcoll_shard made = SYMMCOLL_SHARD_INIT;
    struct range range;
    symmcoll_status_t status = symc_shard_check(reducer, "reducer_shard");

    if (status != SYMMCOLL_OK)
        return status;
    if (shard == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_shard: expected a shard, found NULL");
    if (index < 0 || index >= reducer->nslices)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_shard: expected a slice below %d, the number of this rank's, "
            "found %d",
            reducer->nslices, index);
    param = &reducer->params[reducer->slices[index]];
    bucket = &reducer->layout.buckets[param->bucket];
    range = cut(bucket, param, own_range(reducer, bucket), &made.offset);
    made.param = param->number;
    made.count = range.count;
    made.dtype = param->tensor.dtype;
    made.data = (char *)param->tensor.data +
                made.offset * symmcoll_dtype_size(made.dtype);
    made.grad_dtype = param->grad_dtype;
    made.grad =
        param->view + made.offset * symmcoll_dtype_size(made.grad_dtype);
    return symc_sized_write(&shard_kind, "reducer_shard", &made, shard);
}

/* ---- gradients ---- */

/* Returns whether a bucket has memory for parts of equal size.  The caller's
 * memory has the next bucket where the last part would end. */
static bool is_even(const struct symmcoll_reducer *reducer,
    const struct symc_ddp_bucket *bucket)
{
    return reducer->memory == NULL ||
           bucket->count % (size_t)reducer->size == 0;
}

/* Lists the parts of a bucket with elements of elem bytes. */
static void list_parts(const struct symmcoll_reducer *reducer,
    const struct symc_ddp_bucket *bucket, size_t elem)
{
    for (int r = 0; r < reducer->size; r++) {
        struct range part = part_of(bucket, r);

        reducer->parts.counts[r] = part.count;
        reducer->parts.at[r] =
            part.count > 0 ? bucket->buffer + part.first * elem : NULL;
    }
}

symmcoll_status_t symc_shard_reduce(const struct symmcoll_reducer *reducer,
    struct symc_ddp_bucket *bucket, const struct symmcoll_call *call)
{
    const struct symc_shard_parts *parts = &reducer->parts;
    size_t elem = symmcoll_dtype_size(bucket->dtype);
    int rank = symmcoll_group_rank(reducer->group);
    struct symmcoll_work **work = reducer->captured ? NULL : &bucket->work;

    if (is_even(reducer, bucket))
        return symmcoll_reduce_scatter(reducer->group,
            bucket->buffer + part_of(bucket, rank).first * elem, bucket->buffer,
            bucket->part, bucket->dtype, SYMMCOLL_SUM, call, work);
    list_parts(reducer, bucket, elem);
    return symmcoll_reduce_scatter_list(reducer->group, parts->at[rank],
        parts->counts[rank], (const void *const *)parts->at, parts->counts,
        bucket->dtype, SYMMCOLL_SUM, call, work);
}

/* ---- parameters ---- */

/* Returns the bytes of a slot of a bucket. */
static size_t slot_nbytes(const struct symmcoll_reducer *reducer,
    const struct symc_ddp_bucket *bucket)
{
    size_t nbytes = 0;

    for (int i = 0; i < bucket->ngrads; i++) {
        size_t elem = symmcoll_dtype_size(
            reducer->params[bucket->params[i]].tensor.dtype);

        nbytes = elem > nbytes ? elem : nbytes;
    }
    return nbytes;
}

/* Adds the pieces of parameters that are in a rank's part of a bucket.  Elements
 * that are smaller than their slots are contiguous within a part. */
static void add_pieces(const struct symmcoll_reducer *reducer,
    const struct symc_ddp_bucket *bucket, struct range range,
    struct symc_local_pieces *pieces)
{
    size_t slot = slot_nbytes(reducer, bucket), at;

    for (int i = 0; i < bucket->ngrads; i++) {
        const struct symc_param *param = &reducer->params[bucket->params[i]];
        size_t elem = symmcoll_dtype_size(param->tensor.dtype);
        struct range own = cut(bucket, param, range, &at);

        if (own.count > 0)
            reducer->slice_pieces[pieces->n++] = (struct symc_local_piece){
                (char *)param->tensor.data + at * elem, own.first * slot,
                own.count * elem};
    }
}

symmcoll_status_t symc_shard_spread(
    const struct symmcoll_reducer *reducer, struct symc_ddp_bucket *bucket)
{
    struct symc_local_pieces pieces = {.buffer = bucket->buffer,
        .pieces = reducer->slice_pieces,
        .spread = true};
    int own = symmcoll_group_rank(reducer->group);
    symmcoll_status_t status;

    for (int r = 0; r < reducer->size; r++)
        if (r != own)
            add_pieces(reducer, bucket, part_of(bucket, r), &pieces);
    status = symc_site_move_pieces(reducer->site, &pieces);
    bucket->gathers = status != SYMMCOLL_OK;
    return status;
}

/* Starts to gather the slots of a bucket, of nbytes each. */
static symmcoll_status_t gather(const struct symmcoll_reducer *reducer,
    struct symc_ddp_bucket *bucket, size_t nbytes,
    const struct symmcoll_call *call)
{
    const struct symc_shard_parts *parts = &reducer->parts;
    int rank = symmcoll_group_rank(reducer->group);

    if (is_even(reducer, bucket))
        return symmcoll_all_gather(reducer->group, bucket->buffer,
            bucket->buffer + part_of(bucket, rank).first * nbytes,
            bucket->part * nbytes, SYMMCOLL_UINT8, call, &bucket->work);
    list_parts(reducer, bucket, nbytes);
    for (int r = 0; r < reducer->size; r++)
        parts->counts[r] *= nbytes;
    return symmcoll_all_gather_list(reducer->group, parts->at, parts->counts,
        parts->at[rank], parts->counts[rank], SYMMCOLL_UINT8, call,
        &bucket->work);
}

symmcoll_status_t symc_shard_gather(
    const struct symmcoll_reducer *reducer, struct symc_ddp_bucket *bucket)
{
    size_t slot = slot_nbytes(reducer, bucket);
    struct range own = own_range(reducer, bucket);
    struct symc_local_pieces pieces = {
        .buffer = bucket->buffer, .pieces = reducer->slice_pieces};
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    char label[48];
    symmcoll_status_t status;

    add_pieces(reducer, bucket, own, &pieces);
    status = symc_site_move_pieces(reducer->site, &pieces);
    if (status != SYMMCOLL_OK)
        return status;
    snprintf(label, sizeof(label), "parameters of bucket %d",
        (int)(bucket - reducer->layout.buckets));
    bucket->stream = symc_site_stream(reducer->site);
    call.label = label;
    call.stream = bucket->stream;
    status = gather(reducer, bucket, slot, &call);
    bucket->gathers = status == SYMMCOLL_OK;
    return status;
}
