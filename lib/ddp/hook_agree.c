/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of built-in hooks with a state: that all ranks have the same one, and
 * that a bucket is of elements that they can compute with.
 */
#include "ddp/hook_state.h"

#include <symmcoll/collectives.h>
#include <symmcoll/group.h>

#include <stdlib.h>

/* Makes an open coalescing region of the thread refuse the collective. */
static const struct symmcoll_call outside = SYMMCOLL_CALL_INIT;

/* The values of a rank. */
struct terms {
    int64_t status; /* of the rank */
    double values[SYMC_HOOK_TERMS];
};

static symmcoll_status_t compare(const char *where, const struct terms *all,
    int size, const char *const *names, int n)
{
    for (int r = 0; r < size; r++)
        if (all[r].status != SYMMCOLL_OK)
            return symc_fail((symmcoll_status_t)all[r].status,
                "%s: expected no error on any rank, found one on rank %d",
                where, r);
    for (int r = 1; r < size; r++)
        for (int t = 0; t < n; t++)
            if (all[r].values[t] != all[0].values[t])
                return symc_fail(SYMMCOLL_ERR_MISMATCH,
                    "%s: %s differs: rank 0 has %.17g, rank %d has %.17g",
                    where, names[t], all[0].values[t], r, all[r].values[t]);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_hook_agree(const char *where,
    struct symmcoll_group *group, const char *const *names,
    const double *values, int n, symmcoll_status_t own)
{
    int size = symmcoll_group_size(group);
    struct terms mine = {.status = own}, *all;
    struct symc_error error;
    symmcoll_status_t status;

    all = symc_alloc((size_t)size, sizeof(*all));
    if (all == NULL)
        own = SYMMCOLL_ERR_NO_MEMORY;
    symc_error_keep(&error, own);
    if (own == SYMMCOLL_OK)
        memcpy(mine.values, values, (size_t)n * sizeof(*values));
    /* Without memory this rank takes part, and the call fails on all. */
    status = symmcoll_all_gather(group, all, &mine,
        all != NULL ? sizeof(mine) : 0, SYMMCOLL_UINT8, &outside, NULL);
    if (own != SYMMCOLL_OK)
        status = symc_error_return(&error);
    else if (status == SYMMCOLL_OK)
        status = compare(where, all, size, names, n);
    free(all);
    return status;
}

symmcoll_status_t symc_hook_check_floats(
    const char *where, const struct symmcoll_bucket *bucket)
{
    const char *name = symmcoll_dtype_name(bucket->dtype);

    if (bucket->device != SYMMCOLL_HOST)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: expected gradients in host memory, found them on device %d",
            where, bucket->device_index);
    if (bucket->dtype == SYMMCOLL_FLOAT32 ||
        bucket->dtype == SYMMCOLL_FLOAT16 || bucket->dtype == SYMMCOLL_BFLOAT16)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
        "%s: expected gradients of float32, float16 or bfloat16, found %s",
        where, name != NULL ? name : "an unknown type");
}
