/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Built-in communication hooks that keep a bucket's element type.
 */
#include "base/base.h"
#include "base/dtype.h"
#include "ddp/reducer.h"

#include <symmcoll/collectives.h>
#include <symmcoll/group.h>

/* In the memory of the bucket; whether its stream is captured, too (out). */
static symmcoll_status_t scale(const struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, const struct symc_local_sum *scaling,
    bool *captured)
{
    const struct symmcoll_tensor buffer = {.data = bucket->buffer,
        .device = bucket->device,
        .device_index = bucket->device_index};
    struct symc_site *site = NULL;
    symmcoll_status_t status =
        symc_site_check("hook_all_reduce", group, &buffer);

    if (status == SYMMCOLL_OK && bucket->device == SYMMCOLL_CUDA)
        status = symc_site_open("hook_all_reduce", group, bucket->device_index,
            bucket->stream, true, &site);
    if (status == SYMMCOLL_OK)
        status = symc_site_ask_captured(site, bucket->stream, captured);
    if (status == SYMMCOLL_OK)
        status = symc_site_add(site, scaling);
    symc_site_close(site);
    return status;
}

symmcoll_status_t symmcoll_hook_all_reduce(struct symmcoll_group *group,
    const struct symmcoll_bucket *given, void *arg, struct symmcoll_work **work)
{
    struct symmcoll_bucket bucket;
    struct symc_local_sum scaling = {.n = 1};
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    char label[SYMC_BUCKET_TEXT];
    bool captured = false;
    const struct symc_dtype *dtype;
    symmcoll_status_t status;

    (void)arg;
    if (group == NULL || given == NULL || work == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "hook_all_reduce: expected a group, a bucket and a work, found "
            "NULL");
    status =
        symc_sized_read(&symc_bucket_kind, "hook_all_reduce", given, &bucket);
    if (status != SYMMCOLL_OK)
        return status;
    dtype = symc_dtype_find(bucket.dtype);
    if (dtype == NULL || !symc_dtype_reduces(dtype, SYMMCOLL_PREMUL_SUM))
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "hook_all_reduce: gradients of %s have no average",
            dtype != NULL ? dtype->name : "an unknown type");
    scaling.dtype = bucket.dtype;
    scaling.elem = dtype->size;
    scaling.out = bucket.buffer;
    scaling.in[0] = bucket.buffer;
    scaling.count = bucket.count;
    scaling.factor = 1.0 / symmcoll_group_size(group);
    status = scale(group, &bucket, &scaling, &captured);
    if (status != SYMMCOLL_OK)
        return status;
    if (captured)
        *work = NULL;
    call.label = symc_bucket_text(bucket.index, label);
    if (bucket.device == SYMMCOLL_CUDA)
        call.stream = bucket.stream;
    return symmcoll_all_reduce(group, bucket.buffer, bucket.buffer,
        bucket.count, bucket.dtype, SYMMCOLL_SUM, &call,
        captured ? NULL : work);
}
