/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Built-in communication hooks that keep a bucket's element type.
 */
#include "base/base.h"
#include "base/dtype.h"
#include "base/reduce.h"
#include "ddp/reducer.h"

#include <symmcoll/collectives.h>
#include <symmcoll/group.h>

symmcoll_status_t symmcoll_hook_all_reduce(struct symmcoll_group *group,
    const struct symmcoll_bucket *given, void *arg, struct symmcoll_work **work)
{
    struct symmcoll_bucket bucket;
    struct symc_reduction scaling = {
        .op = SYMMCOLL_PREMUL_SUM, .block = 1, .factors = NULL};
    const struct symc_dtype *dtype;
    const void *src[1];
    symmcoll_status_t status;
    double factor;

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
    factor = 1.0 / symmcoll_group_size(group);
    scaling.dtype = bucket.dtype;
    scaling.factors = &factor;
    src[0] = bucket.buffer;
    if (bucket.count > 0)
        symc_reduce(&scaling, bucket.buffer, NULL, src, 1, bucket.count, false);
    return symmcoll_all_reduce(group, bucket.buffer, bucket.buffer,
        bucket.count, bucket.dtype, SYMMCOLL_SUM, NULL, work);
}
