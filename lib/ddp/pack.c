/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of float32 buckets in 16 bits, which hooks reduce, and which are
 * converted back when the hook's work has ended.
 *
 * The memory of a copy lives as long as the layout, because a graph uses it at
 * each launch; and none can be allocated during a capture.  So once a hook has
 * packed a bucket, rebuilt buckets have the memory from the beginning, and if
 * one rank lacks it, rebuilding fails on all.
 */
#include "ddp/reducer.h"

#include "base/dtype.h"
#include "base/reduce.h"

#define PACKED_NBYTES 2 /* bytes of an element */

symmcoll_status_t symc_packed_alloc(
    const struct symmcoll_reducer *reducer, struct symc_ddp_bucket *bucket)
{
    if (bucket->packed != NULL || bucket->dtype != SYMMCOLL_FLOAT32)
        return SYMMCOLL_OK;
    return symc_site_alloc("reducer: a bucket in 16 bits", reducer->site,
        bucket->count, PACKED_NBYTES, &bucket->packed);
}

static symmcoll_status_t check_types(
    const char *where, enum symmcoll_dtype from, enum symmcoll_dtype to)
{
    const struct symc_dtype *found = symc_dtype_find(from);

    if (found != NULL && symc_is_convertible(from, to))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
        "%s: expected gradients of float32 or %s, found %s", where,
        symmcoll_dtype_name(to),
        found != NULL ? found->name : "an unknown type");
}

/* Finds the bucket (out) for which the hook was called with seen. */
static symmcoll_status_t find_bucket(const char *where,
    const struct symmcoll_bucket *seen, struct symc_ddp_bucket **bucket)
{
    const struct symmcoll_reducer *reducer = seen->reducer;
    struct symc_ddp_bucket *found;

    if (reducer == NULL || seen->index != reducer->launched ||
        seen->index >= reducer->layout.nbuckets)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected the bucket that a reducer calls a hook with, found "
            "another one",
            where);
    found = &reducer->layout.buckets[seen->index];
    if (seen->buffer != found->buffer || seen->count != found->count ||
        seen->dtype != found->dtype)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected bucket %d as the hook was called with it, found "
            "other elements",
            where, seen->index);
    if (found->packing != SYMC_PACKING_NONE)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected bucket %d to be compressed once, found it is already",
            where, seen->index);
    *bucket = found;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_pack_bucket(const char *where,
    const struct symmcoll_bucket *seen, enum symmcoll_dtype dtype,
    double factor, struct symmcoll_bucket *packed)
{
    struct symc_ddp_bucket *bucket = NULL;
    struct symc_conversion conversion;
    symmcoll_status_t status = check_types(where, seen->dtype, dtype);

    if (status == SYMMCOLL_OK)
        status = find_bucket(where, seen, &bucket);
    if (status != SYMMCOLL_OK)
        return status;
    seen->reducer->packs = true;
    status = symc_packed_alloc(seen->reducer, bucket);
    if (status != SYMMCOLL_OK)
        return status;
    bucket->packing = SYMC_PACKING_BEGUN;
    bucket->packed_dtype = dtype;
    conversion = (struct symc_conversion){bucket->dtype, dtype, bucket->packed,
        bucket->buffer, bucket->count, factor};
    *packed = *seen;
    packed->buffer = bucket->packed;
    packed->dtype = dtype;
    return symc_site_convert(seen->reducer->site, bucket->stream, &conversion);
}

void symc_keep_packed(const struct symmcoll_bucket *seen)
{
    seen->reducer->layout.buckets[seen->index].packing = SYMC_PACKING_DONE;
}

symmcoll_status_t symc_unpack_bucket(
    const struct symmcoll_reducer *reducer, struct symc_ddp_bucket *bucket)
{
    const struct symc_conversion conversion = {bucket->packed_dtype,
        bucket->dtype, bucket->buffer, bucket->packed, bucket->count, 1.0};

    if (bucket->packing != SYMC_PACKING_DONE)
        return SYMMCOLL_OK;
    bucket->packing = SYMC_PACKING_NONE;
    if (reducer->failure.status != SYMMCOLL_OK)
        return SYMMCOLL_OK;
    return symc_site_convert(reducer->site, bucket->stream, &conversion);
}
