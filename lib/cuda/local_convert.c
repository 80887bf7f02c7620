/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Conversion of one rank's elements between float32 and a 16-bit type.
 */
#include "base/reduce.h"
#include "cuda/device_choice.h"
#include "cuda/local.h"

static enum symc_kernel find_kernel(const struct symc_conversion *conversion)
{
    if (conversion->from == SYMMCOLL_FLOAT32)
        return conversion->to == SYMMCOLL_FLOAT16 ? SYMC_KERNEL_TO_F16
                                                  : SYMC_KERNEL_TO_BF16;
    return conversion->from == SYMMCOLL_FLOAT16 ? SYMC_KERNEL_FROM_F16
                                                : SYMC_KERNEL_FROM_BF16;
}

symmcoll_status_t symc_cuda_local_convert(
    void *state, void *stream, const struct symc_conversion *conversion)
{
    const struct symc_cuda_local *local = state;
    const struct symc_cuda_limits limits = {.blocks = local->blocks};
    const enum symc_kernel kernel = find_kernel(conversion);
    const struct symc_convert_args args = {.in = conversion->in,
        .out = conversion->out,
        .count = conversion->count,
        .factor = (float)conversion->factor};
    struct symc_cuda_entered entered;
    symmcoll_status_t status;

    if (conversion->count == 0)
        return SYMMCOLL_OK;
    status = symc_cuda_local_enter(local, &entered);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_kernel_launch(local->kernels, kernel, SYMMCOLL_FLOAT32,
        symc_cuda_grid(&limits, kernel, 1, args.count * sizeof(float)), stream,
        &args);
    symc_cuda_leave(&entered);
    return status;
}
