/* SPDX-License-Identifier: BSD-3-Clause */
/* The device's context for the thread that ends a communicator of NCCL. */
#include "cuda/nccl/nccl_run.h"

#include <stdlib.h>

static void call_inside(void *context, void (*call)(void *arg), void *arg)
{
    struct symc_cuda_entered entered;

    (void)symc_cuda_enter(context, &entered);
    call(arg);
    symc_cuda_leave(&entered);
}

static void release_context(void *context)
{
    symc_cuda_context_close(context);
    free(context);
}

symmcoll_status_t symc_cuda_find_where(
    const struct symc_cuda_group *group, struct symc_cuda_where *where)
{
    struct symc_cuda_context *context = malloc(sizeof(*context));
    CUresult result;

    if (context == NULL)
        return group->core->fail(
            SYMMCOLL_ERR_NO_MEMORY, "no memory for a communicator");
    result = symc_cuda_context_copy(&group->context, context);
    if (result != CUDA_SUCCESS) {
        free(context);
        return symc_cuda_group_fail(
            group, result, "cuDevicePrimaryCtxRetain for a communicator");
    }
    *where = (struct symc_cuda_where){context, call_inside, release_context};
    return SYMMCOLL_OK;
}
