/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums of one rank's arrays, by the kernel that reduces rows of all ranks: two arrays of
 * this rank take the place of two ranks' rows.
 */
#include "cuda/device_choice.h"
#include "cuda/local.h"

#include <stdlib.h>

#define VECTOR 16 /* bytes that a thread loads at once */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The kernels of local operations. */
static const enum symc_kernel kinds[] = {SYMC_KERNEL_REDUCE_ROWS,
    SYMC_KERNEL_TO_F16, SYMC_KERNEL_TO_BF16, SYMC_KERNEL_FROM_F16,
    SYMC_KERNEL_FROM_BF16, SYMC_KERNEL_FLATTEN, SYMC_KERNEL_UNFLATTEN};

symmcoll_status_t symc_cuda_local_load(struct symc_cuda_local *local)
{
    const struct symc_cuda *cuda = local->context.cuda;
    struct symc_cuda_entered entered;
    int processors = 0;
    CUresult result = cuda->device_get_attribute(&processors,
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, local->context.device);
    symmcoll_status_t status;

    if (result != CUDA_SUCCESS)
        return symc_cuda_local_fail(
            local, result, "cuDeviceGetAttribute of its multiprocessors");
    local->blocks = SYMC_CUDA_BLOCKS_OF_PROCESSOR * (uint32_t)processors;
    local->kernels = calloc(1, sizeof(*local->kernels));
    if (local->kernels == NULL)
        return local->fail(SYMMCOLL_ERR_NO_MEMORY, "no memory for kernels");
    status = symc_cuda_local_enter(local, &entered);
    if (status != SYMMCOLL_OK)
        return status;
    for (size_t i = 0; status == SYMMCOLL_OK && i < COUNT(kinds); i++)
        status = symc_kernels_load_kind(cuda, local->fail,
            (int)local->context.device, kinds[i], local->kernels);
    symc_cuda_leave(&entered);
    return status;
}

/* Sums elements first to end - 1. */
static symmcoll_status_t launch(const struct symc_cuda_local *local,
    CUstream stream, const struct symc_local_sum *sum, uint64_t first,
    uint64_t end)
{
    const struct symc_cuda_limits limits = {.blocks = local->blocks};
    uint64_t elements = 1;
    enum symmcoll_dtype type = symc_cuda_reduced_type(sum->dtype, &elements);
    const uint64_t elem = sum->elem / elements;
    const unsigned char *low = sum->in[0], *high = sum->in[sum->n - 1];
    struct symc_reduce_args args = {.rows = 1,
        .out = (unsigned char *)sum->out + first * elem,
        .count = end - first,
        .op = sum->factor == 1.0 ? SYMMCOLL_SUM : SYMMCOLL_PREMUL_SUM,
        .root = SYMC_KERNEL_ALL,
        .factors = {sum->factor, sum->factor}};

    /* The two summands may be swapped. */
    if ((uintptr_t)low > (uintptr_t)high) {
        low = sum->in[1];
        high = sum->in[0];
    }
    args.group.size = (uint32_t)sum->n;
    args.data.base = (unsigned char *)(uintptr_t)low + first * elem;
    args.data.stride = (uintptr_t)high - (uintptr_t)low;
    return symc_kernel_launch(local->kernels, SYMC_KERNEL_REDUCE_ROWS, type,
        symc_cuda_grid(&limits, SYMC_KERNEL_REDUCE_ROWS, 1, args.count * elem),
        stream, &args);
}

/*
 * Sums arrays.  The kernel loads 16 bytes at once if the first array is 16-byte aligned:
 * in a group's memory the other array is then aligned, too.  Here it may not be; the
 * first element is then summed by itself, after which the first array is no longer
 * aligned.
 */
static symmcoll_status_t add(const struct symc_cuda_local *local,
    CUstream stream, const struct symc_local_sum *sum)
{
    uintptr_t a = (uintptr_t)sum->in[0], b = (uintptr_t)sum->in[sum->n - 1];
    uint64_t elements = 1, count, apart = 0;
    symmcoll_status_t status = SYMMCOLL_OK;

    (void)symc_cuda_reduced_type(sum->dtype, &elements);
    count = sum->count * elements;
    if ((a < b ? a : b) % VECTOR == 0 && (a < b ? b : a) % VECTOR != 0)
        apart = 1;
    if (apart > 0)
        status = launch(local, stream, sum, 0, apart);
    if (status == SYMMCOLL_OK && count > apart)
        status = launch(local, stream, sum, apart, count);
    return status;
}

symmcoll_status_t symc_cuda_local_add(
    void *state, void *stream, const struct symc_local_sum *sum)
{
    const struct symc_cuda_local *local = state;
    struct symc_cuda_entered entered;
    symmcoll_status_t status;

    if (sum->count == 0)
        return SYMMCOLL_OK;
    status = symc_cuda_local_enter(local, &entered);
    if (status != SYMMCOLL_OK)
        return status;
    status = add(local, stream, sum);
    symc_cuda_leave(&entered);
    return status;
}
