/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hooks that reduce buckets of float32 in 16 bits, by a sum or by another hook.
 * The result is converted back when the reducer awaits the bucket (pack.c), so
 * no hook blocks.
 */
#include "ddp/reducer.h"

#include <symmcoll/group.h>

/* A hook's name for messages, and its 16-bit type. */
struct form {
    const char *where;
    enum symmcoll_dtype dtype;
};

/* ---- hooks that sum ---- */

/* Sums a bucket in 16 bits.  Elements are divided while they are rounded, so
 * that the sum does not overflow if the average does not. */
static symmcoll_status_t compress(const struct form *form,
    struct symmcoll_group *group, const struct symmcoll_bucket *given,
    struct symmcoll_work **work)
{
    struct symmcoll_bucket bucket, packed;
    symmcoll_status_t status =
        symc_hook_read(form->where, group, given, work, &bucket);

    if (status != SYMMCOLL_OK)
        return status;
    if (bucket.dtype == form->dtype)
        return symmcoll_hook_all_reduce(group, &bucket, NULL, work);
    status = symc_pack_bucket(form->where, &bucket, form->dtype,
        1.0 / symmcoll_group_size(group), &packed);
    if (status == SYMMCOLL_OK)
        status = symc_hook_sum(group, &packed, bucket.reducer->captured, work);
    if (status == SYMMCOLL_OK)
        symc_keep_packed(&bucket);
    return status;
}

symmcoll_status_t symmcoll_hook_fp16_compress(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    static const struct form form = {"hook_fp16_compress", SYMMCOLL_FLOAT16};

    (void)arg;
    return compress(&form, group, bucket, work);
}

symmcoll_status_t symmcoll_hook_bf16_compress(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    static const struct form form = {"hook_bf16_compress", SYMMCOLL_BFLOAT16};

    (void)arg;
    return compress(&form, group, bucket, work);
}

/* ---- hooks that call another hook ---- */

static const struct symmcoll_hook_wrapped default_wrapped =
    SYMMCOLL_HOOK_WRAPPED_INIT;
static const struct symc_sized wrapped_kind = {.name = "arg",
    .macro = "SYMMCOLL_HOOK_WRAPPED_INIT",
    .defaults = &default_wrapped,
    .nbytes = sizeof(default_wrapped),
    .least = sizeof(default_wrapped)};

symmcoll_status_t symc_hook_read_wrapped(
    const char *where, const void *arg, struct symmcoll_hook_wrapped *wrapped)
{
    symmcoll_status_t status =
        symc_sized_read(&wrapped_kind, where, arg, wrapped);

    if (status == SYMMCOLL_OK && wrapped->hook == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a struct symmcoll_hook_wrapped with a hook, found "
            "NULL",
            where);
    return status;
}

static symmcoll_status_t wrap(const struct form *form,
    struct symmcoll_group *group, const struct symmcoll_bucket *given,
    const void *arg, struct symmcoll_work **work)
{
    struct symmcoll_hook_wrapped wrapped;
    struct symmcoll_bucket bucket, packed;
    symmcoll_status_t status =
        symc_hook_read(form->where, group, given, work, &bucket);

    if (status == SYMMCOLL_OK)
        status = symc_hook_read_wrapped(form->where, arg, &wrapped);
    if (status != SYMMCOLL_OK)
        return status;
    if (bucket.dtype == form->dtype)
        return wrapped.hook(group, &bucket, wrapped.arg, work);
    status = symc_pack_bucket(form->where, &bucket, form->dtype, 1.0, &packed);
    if (status != SYMMCOLL_OK)
        return status;
    status = wrapped.hook(group, &packed, wrapped.arg, work);
    if (status != SYMMCOLL_OK)
        return status;
    symc_keep_packed(&bucket);
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_hook_fp16_wrapper(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    static const struct form form = {"hook_fp16_wrapper", SYMMCOLL_FLOAT16};

    return wrap(&form, group, bucket, arg, work);
}

symmcoll_status_t symmcoll_hook_bf16_wrapper(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    static const struct form form = {"hook_bf16_wrapper", SYMMCOLL_BFLOAT16};

    return wrap(&form, group, bucket, arg, work);
}

symmcoll_status_t symmcoll_hook_wrapper_end(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    struct symmcoll_hook_wrapped wrapped;
    symmcoll_status_t status =
        symc_sized_read(&wrapped_kind, "hook_wrapper_end", arg, &wrapped);

    if (status != SYMMCOLL_OK)
        return status;
    if (wrapped.hook_end == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "hook_wrapper_end: expected a struct symmcoll_hook_wrapped with a "
            "hook_end, found NULL");
    return wrapped.hook_end(group, bucket, wrapped.arg, work);
}
