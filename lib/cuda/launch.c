/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds kernels by their names in the image, loads and launches them.
 */
#include "cuda/launch.h"

#include <pthread.h>
#include <stdio.h>

#define KERNEL_NAME 64

/* image.S: the image of all.cu. */
extern const unsigned char symc_image[] __attribute__((visibility("hidden")));

static const char *const names[SYMC_KERNEL_COUNT] = {
    [SYMC_KERNEL_PACKETS] = "symc_packets",
    [SYMC_KERNEL_ONE_SHOT] = "symc_one_shot",
    [SYMC_KERNEL_TWO_SHOT] = "symc_two_shot",
    [SYMC_KERNEL_REDUCE_SCATTER] = "symc_reduce_scatter",
    [SYMC_KERNEL_REDUCE_ROWS] = "symc_reduce_rows",
    [SYMC_KERNEL_MULTIMEM_ONE_SHOT] = "symc_multimem_one_shot",
    [SYMC_KERNEL_MULTIMEM_TWO_SHOT] = "symc_multimem_two_shot",
    [SYMC_KERNEL_MULTIMEM_ALL_GATHER] = "symc_multimem_all_gather",
    [SYMC_KERNEL_PULL] = "symc_pull",
    [SYMC_KERNEL_EXCHANGE] = "symc_exchange",
    [SYMC_KERNEL_PLAN] = "symc_plan",
    [SYMC_KERNEL_PLAN_RUN] = "symc_plan_run",
    [SYMC_KERNEL_PUSH_ROWS] = "symc_push_rows",
    [SYMC_KERNEL_BARRIER] = "symc_barrier",
    [SYMC_KERNEL_PUT_SIGNAL] = "symc_put_signal",
    [SYMC_KERNEL_WAIT_SIGNAL] = "symc_wait_signal",
    [SYMC_KERNEL_SIGNAL_BARRIER] = "symc_signal_barrier",
    [SYMC_KERNEL_WAIT32] = "symc_wait32",
    [SYMC_KERNEL_WRITE32] = "symc_write32",
    [SYMC_KERNEL_FILL32] = "symc_fill32",
    [SYMC_KERNEL_NAN_SCAN] = "symc_nan_scan",
    [SYMC_KERNEL_TO_F16] = "symc_convert_f32_f16",
    [SYMC_KERNEL_TO_BF16] = "symc_convert_f32_bf16",
    [SYMC_KERNEL_FROM_F16] = "symc_convert_f16_f32",
    [SYMC_KERNEL_FROM_BF16] = "symc_convert_bf16_f32",
    [SYMC_KERNEL_FLATTEN] = "symc_flatten",
    [SYMC_KERNEL_UNFLATTEN] = "symc_unflatten"};

/* The suffixes of kernels' names, by element type.  Complex numbers are reduced as twice
 * as many floats; the other missing types are not reduced. */
static const char *const ends[SYMMCOLL_DTYPE_COUNT] = {[SYMMCOLL_UINT8] = "u8",
    [SYMMCOLL_INT8] = "i8",
    [SYMMCOLL_INT16] = "i16",
    [SYMMCOLL_INT32] = "i32",
    [SYMMCOLL_INT64] = "i64",
    [SYMMCOLL_FLOAT16] = "f16",
    [SYMMCOLL_BFLOAT16] = "bf16",
    [SYMMCOLL_FLOAT32] = "f32",
    [SYMMCOLL_FLOAT64] = "f64",
    [SYMMCOLL_BOOL] = "bool",
    [SYMMCOLL_UINT16] = "u16",
    [SYMMCOLL_UINT32] = "u32",
    [SYMMCOLL_UINT64] = "u64"};

static bool has_types(enum symc_kernel kernel)
{
    return kernel < SYMC_KERNEL_MULTIMEM_ALL_GATHER;
}

bool symc_kernel_has_type(enum symc_kernel kernel, enum symmcoll_dtype dtype)
{
    if (kernel != SYMC_KERNEL_MULTIMEM_ONE_SHOT &&
        kernel != SYMC_KERNEL_MULTIMEM_TWO_SHOT)
        return ends[dtype] != NULL;
    return dtype == SYMMCOLL_FLOAT16 || dtype == SYMMCOLL_BFLOAT16 ||
           dtype == SYMMCOLL_FLOAT32;
}

/* Formats a kernel's name in the image, "symc_one_shot_f32", into a buffer of
 * KERNEL_NAME bytes. */
static const char *format_name(
    enum symc_kernel kernel, enum symmcoll_dtype dtype, char *buffer)
{
    bool typed = has_types(kernel);

    snprintf(buffer, KERNEL_NAME, "%s%s%s", names[kernel], typed ? "_" : "",
        typed ? ends[dtype] : "");
    return buffer;
}

/* ---- loading ---- */

/* Loads the image once per process: a library of the driver belongs to no context, and
 * its code is loaded into each context at the first use there. */
static CUresult load_image(const struct symc_cuda *cuda, CUlibrary *library)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static CUlibrary loaded;
    CUresult result = CUDA_SUCCESS;

    pthread_mutex_lock(&lock);
    if (loaded == NULL)
        result = cuda->library_load_data(
            &loaded, symc_image, NULL, NULL, 0, NULL, NULL, 0);
    if (result != CUDA_SUCCESS)
        loaded = NULL;
    *library = loaded;
    pthread_mutex_unlock(&lock);
    return result;
}

static struct symc_cuda_called load_function(const struct symc_cuda *cuda,
    CUlibrary library, const char *name, CUfunction *function)
{
    CUkernel kernel;
    int registers = 0;
    struct symc_cuda_called called = symc_cuda_called(
        "cuLibraryGetKernel", cuda->library_get_kernel(&kernel, library, name));

    if (called.result == CUDA_SUCCESS)
        called = symc_cuda_called(
            "cuKernelGetFunction", cuda->kernel_get_function(function, kernel));
    if (called.result != CUDA_SUCCESS)
        return called;
    if (cuda->func_load != NULL)
        return symc_cuda_called("cuFuncLoad", cuda->func_load(*function));
    return symc_cuda_called(
        "cuFuncGetAttribute", cuda->func_get_attribute(&registers,
                                  CU_FUNC_ATTRIBUTE_NUM_REGS, *function));
}

static symmcoll_status_t load_kind(
    CUlibrary library, enum symc_kernel kind, struct symc_kernels *kernels)
{
    int ntypes = has_types(kind) ? SYMMCOLL_DTYPE_COUNT : 1;
    char name[KERNEL_NAME];

    for (int type = 0; type < ntypes; type++) {
        struct symc_cuda_called called;

        if (!symc_kernel_has_type(kind, (enum symmcoll_dtype)type))
            continue;
        format_name(kind, (enum symmcoll_dtype)type, name);
        called = load_function(
            kernels->cuda, library, name, &kernels->functions[kind][type]);
        if (called.result != CUDA_SUCCESS)
            return symc_cuda_fail(kernels->cuda, kernels->fail, called.result,
                kernels->device, "%s of kernel %s", called.name, name);
    }
    return SYMMCOLL_OK;
}

static symmcoll_status_t load_kinds(const struct symc_cuda *cuda,
    symc_cuda_fail_fn fail, int device, int first, int last,
    struct symc_kernels *kernels)
{
    CUlibrary library;
    CUresult result = load_image(cuda, &library);
    symmcoll_status_t status = SYMMCOLL_OK;

    kernels->cuda = cuda;
    kernels->fail = fail;
    kernels->device = device;
    if (result != CUDA_SUCCESS)
        return symc_cuda_fail(
            cuda, fail, result, device, "cuLibraryLoadData of the kernels");
    for (int kind = first; kind <= last && status == SYMMCOLL_OK; kind++)
        status = load_kind(library, (enum symc_kernel)kind, kernels);
    return status;
}

symmcoll_status_t symc_kernels_load(const struct symc_cuda *cuda,
    symc_cuda_fail_fn fail, int device, struct symc_kernels *kernels)
{
    *kernels = (struct symc_kernels){.cuda = cuda};
    return load_kinds(
        cuda, fail, device, 0, (int)SYMC_KERNEL_COUNT - 1, kernels);
}

symmcoll_status_t symc_kernels_load_kind(const struct symc_cuda *cuda,
    symc_cuda_fail_fn fail, int device, enum symc_kernel kind,
    struct symc_kernels *kernels)
{
    return load_kinds(cuda, fail, device, (int)kind, (int)kind, kernels);
}

/* ---- launch ---- */

symmcoll_status_t symc_kernel_launch(const struct symc_kernels *kernels,
    enum symc_kernel kernel, enum symmcoll_dtype dtype, struct symc_grid grid,
    CUstream stream, const void *args)
{
    int type = has_types(kernel) ? (int)dtype : 0;
    void *parameters[] = {(void *)(uintptr_t)args};
    CUlaunchConfig config = {.gridDimX = grid.blocks,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = grid.threads,
        .blockDimY = 1,
        .blockDimZ = 1,
        .hStream = stream};
    CUresult result = kernels->cuda->launch_kernel_ex(
        &config, kernels->functions[kernel][type], parameters, NULL);
    char name[KERNEL_NAME];

    if (result == CUDA_SUCCESS)
        return SYMMCOLL_OK;
    return symc_cuda_fail(kernels->cuda, kernels->fail, result, kernels->device,
        "cuLaunchKernelEx of %s with %u blocks of %u threads",
        format_name(kernel, dtype, name), grid.blocks, grid.threads);
}
