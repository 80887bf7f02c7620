/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * First uses.  For the first kernel, memset or copy of its kind in a context, the driver
 * may wait for all work of the device, or make its streams wait for each other.  If
 * ranks are threads, a kernel of another rank that waits for this rank's next operation
 * may be running: both would wait until the deadline.  Each kind is therefore used once
 * before any operation of the group begins: kernels as in a group of one rank with
 * nothing to move, in scratch memory that is freed afterwards.  Without scratch memory,
 * none is used.
 */
#include "cuda/device_group.h"
#include "cuda/local.h"

#define WIDTH_MOST 16 /* bytes of a row; each power of two up to it is used */
#define HEIGHT 4
#define PITCH 64
#define HALF ((size_t)HEIGHT * PITCH)

/* Device memory, zeroed first. */
struct scratch {
    struct symc_device_pad pad;
    struct symc_device_failure failure;
    uint32_t aborted;
    _Alignas(WIDTH_MOST) unsigned char from[HALF], to[HALF];
};

/* Arguments of kernels that synchronise members begin with `common`; the others are all
 * zero. */
union args {
    struct {
        struct symc_device_group group;
        struct symc_device_data data;
    } common;
    struct symc_reduce_args reduce;
    struct symc_move_args move;
    struct symc_exchange_args exchange;
    struct symc_plan_args plan;
    struct symc_plan_run_args plan_run;
    struct symc_signal_args signal;
    struct symc_wait_args wait;
    struct symc_push_args push;
    struct symc_convert_args convert;
    struct symc_nan_args nan;
    struct symc_bucket_args bucket;
    struct symc_fill_args fill;
};

/* ---- driver calls ---- */

static struct symc_cuda_called use_width(const struct symc_cuda *cuda,
    CUdeviceptr from, CUdeviceptr to, size_t width, CUstream stream)
{
    const CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = from,
        .srcPitch = PITCH,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = to,
        .dstPitch = PITCH,
        .WidthInBytes = width,
        .Height = HEIGHT};
    struct symc_cuda_called called = symc_cuda_called(
        "cuMemsetD8Async", cuda->memset_d8_async(from, 0, width, stream));

    if (called.result == CUDA_SUCCESS)
        called = symc_cuda_called(
            "cuMemcpyAsync", cuda->memcpy_async(to, from, width, stream));
    return called.result == CUDA_SUCCESS
               ? symc_cuda_called(
                     "cuMemcpy2DAsync", cuda->memcpy_2d_async(&rows, stream))
               : called;
}

static struct symc_cuda_called use_driver(
    const struct symc_cuda *cuda, CUdeviceptr at, CUstream stream)
{
    const CUdeviceptr from = at + offsetof(struct scratch, from),
                      to = at + offsetof(struct scratch, to);
    struct symc_cuda_called called = symc_cuda_called("cuMemsetD8Async",
        cuda->memset_d8_async(at, 0, sizeof(struct scratch), stream));

    for (size_t width = 1; width <= WIDTH_MOST && called.result == CUDA_SUCCESS;
         width *= 2)
        called = use_width(cuda, from, to, width, stream);
    return called;
}

/* ---- kernels ---- */

static void make_args(
    const struct scratch *at, enum symc_kernel kernel, union args *args)
{
    unsigned char *const base = (unsigned char *)(uintptr_t)at;
    void *const zeros = base + offsetof(struct scratch, from);

    *args = (union args){.push = {.count = 0}};
    switch (kernel) {
    case SYMC_KERNEL_TO_F16:
    case SYMC_KERNEL_TO_BF16:
    case SYMC_KERNEL_FROM_F16:
    case SYMC_KERNEL_FROM_BF16:
    case SYMC_KERNEL_FLATTEN:
    case SYMC_KERNEL_UNFLATTEN:
    case SYMC_KERNEL_NAN_SCAN:
    case SYMC_KERNEL_PUSH_ROWS:
        return;
    case SYMC_KERNEL_FILL32:
    case SYMC_KERNEL_WRITE32:
        args->fill.at = zeros;
        return;
    default:
        break;
    }
    args->common.group = (struct symc_device_group){.base = base,
        .aborted = &at->aborted,
        .failure = (struct symc_device_failure *)(uintptr_t)&at->failure,
        .timeout_ns = SYMC_NS_PER_S,
        .size = 1};
    if (kernel == SYMC_KERNEL_WAIT32)
        args->wait.at = zeros;
    else if (kernel != SYMC_KERNEL_BARRIER)
        args->common.data.base = zeros;
    if (kernel == SYMC_KERNEL_PLAN) {
        args->plan.gathered = zeros;
        args->plan.wrong = zeros;
    } else if (kernel == SYMC_KERNEL_PLAN_RUN) {
        args->plan_run.wrong = zeros;
    }
}

static bool is_used(const struct symc_cuda_group *group,
    enum symc_kernel kernel, enum symmcoll_dtype dtype)
{
    bool by_switch = kernel == SYMC_KERNEL_MULTIMEM_ONE_SHOT ||
                     kernel == SYMC_KERNEL_MULTIMEM_TWO_SHOT ||
                     kernel == SYMC_KERNEL_MULTIMEM_ALL_GATHER;

    return group->kernels.functions[kernel][dtype] != NULL &&
           (group->multicast || !by_switch);
}

static symmcoll_status_t use_kernels(
    const struct symc_cuda_group *group, const struct scratch *at)
{
    const struct symc_grid grid = {.blocks = 1, .threads = 32};
    symmcoll_status_t status = SYMMCOLL_OK;
    union args args;

    for (int kind = 0; kind < SYMC_KERNEL_COUNT; kind++) {
        const enum symc_kernel kernel = (enum symc_kernel)kind;

        make_args(at, kernel, &args);
        for (int i = 0; i < SYMMCOLL_DTYPE_COUNT; i++)
            if (status == SYMMCOLL_OK &&
                is_used(group, kernel, (enum symmcoll_dtype)i))
                status = symc_kernel_launch(&group->kernels, kernel,
                    (enum symmcoll_dtype)i, grid, group->order.own, &args);
    }
    return status;
}

/* ---- all first uses ---- */

symmcoll_status_t symc_cuda_use_first(const struct symc_cuda_group *group)
{
    const struct symc_cuda *cuda = group->cuda;
    const CUstream stream = group->order.own;
    CUmemoryPool pool = NULL;
    CUdeviceptr at = 0;
    struct symc_cuda_called called;
    symmcoll_status_t status = SYMMCOLL_OK;

    if (!group->threads || group->size == 1 ||
        symc_cuda_pool_of(&group->context, &pool).result != CUDA_SUCCESS ||
        cuda->mem_alloc_from_pool_async(
            &at, sizeof(struct scratch), pool, stream) != CUDA_SUCCESS)
        return SYMMCOLL_OK;
    called = use_driver(cuda, at, stream);
    if (called.result == CUDA_SUCCESS)
        status = use_kernels(group, (const struct scratch *)(uintptr_t)at);
    (void)cuda->mem_free_async(at, stream);
    if (called.result == CUDA_SUCCESS && status == SYMMCOLL_OK)
        called = symc_cuda_called(
            "cuStreamSynchronize", cuda->stream_synchronize(stream));
    if (called.result != CUDA_SUCCESS)
        return symc_cuda_group_fail(group, called.result,
            "%s for what operations use first", called.name);
    return status;
}
