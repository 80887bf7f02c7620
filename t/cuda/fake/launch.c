/* SPDX-License-Identifier: BSD-3-Clause */
/* Libraries and kernels of the fake driver. */
#include "t/cuda/fake/state.h"

#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 1024 /* of a block */
#define RESIDENT 2048    /* threads of a multiprocessor */

/* A library consists of its image; its kernels are those that tests
 * register. */
struct CUlib_st {
    struct CUlib_st *next;
    const void *image;
};

static CUlibrary libraries;

static bool is_library(CUlibrary library)
{
    CUlibrary at = libraries;

    while (at != NULL && at != library)
        at = at->next;
    return library != NULL && at != NULL;
}

FAKE_API CUresult cuLibraryLoadData(CUlibrary *library, const void *image,
    CUjit_option *jit, void **jit_values, unsigned int njit,
    CUlibraryOption *options, void **values, unsigned int n)
{
    CUresult result = fake_enter(__func__, FAKE_INIT | FAKE_UNSAFE);

    (void)jit, (void)jit_values, (void)options, (void)values;
    if (result != CUDA_SUCCESS)
        return result;
    if (image == NULL || njit != 0 || n != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *library = fake_alloc(sizeof(**library));
    fake_lock();
    **library = (struct CUlib_st){libraries, image};
    libraries = *library;
    fake.live[FAKE_LIBRARIES]++;
    fake_unlock();
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuLibraryUnload(CUlibrary library)
{
    CUresult result = fake_enter(__func__, FAKE_INIT | FAKE_UNSAFE);
    CUlibrary *at = &libraries;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    if (is_library(library)) {
        while (*at != library)
            at = &(*at)->next;
        *at = library->next;
        fake.live[FAKE_LIBRARIES]--;
        free(library);
    } else {
        result = fake_refuse_free(library, CUDA_ERROR_INVALID_HANDLE);
    }
    fake_unlock();
    return result;
}

FAKE_API CUresult cuLibraryGetKernel(
    CUkernel *kernel, CUlibrary library, const char *name)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);
    CUfunction at;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    at = fake.functions;
    while (at != NULL && strcmp(at->name, name) != 0)
        at = at->next;
    if (!is_library(library))
        result = CUDA_ERROR_INVALID_HANDLE;
    else if (at == NULL)
        result = CUDA_ERROR_NOT_FOUND;
    else
        *kernel = (CUkernel)at;
    fake_unlock();
    return result;
}

/* Called with the lock. */
static CUfunction find_function(CUfunction kernel, CUcontext context)
{
    CUfunction at = kernel->functions;

    while (at != NULL && at->context != context)
        at = at->next;
    if (at == NULL) {
        at = fake_alloc(sizeof(*at));
        *at = *kernel;
        at->next = kernel->functions;
        at->functions = NULL;
        at->context = context;
        kernel->functions = at;
    }
    return at;
}

FAKE_API CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    *function = find_function((CUfunction)kernel, fake_current());
    fake_unlock();
    return CUDA_SUCCESS;
}

/* ---- loading ---- */

static void note_loaded(CUfunction function)
{
    fake_lock();
    function->loaded = true;
    fake_unlock();
}

FAKE_API CUresult cuFuncLoad(CUfunction function)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT | FAKE_UNSAFE);

    if (result == CUDA_SUCCESS)
        note_loaded(function);
    return result;
}

FAKE_API CUresult cuFuncGetAttribute(
    int *value, CUfunction_attribute attribute, CUfunction function)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);

    if (result != CUDA_SUCCESS)
        return result;
    note_loaded(function);
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = THREADS_MAX;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 32;
        break;
    default:
        *value = 0;
    }
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(
    int *blocks, CUfunction function, int threads, size_t shared)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);

    (void)function;
    (void)shared;
    if (result != CUDA_SUCCESS)
        return result;
    if (threads <= 0 || threads > THREADS_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *blocks = RESIDENT / threads;
    return CUDA_SUCCESS;
}

static bool is_idle(const void *arg)
{
    const struct CUctx_st *context = arg;

    for (CUstream at = fake.streams; at != NULL; at = at->next)
        if (at->context == context && at->completed < at->enqueued)
            return false;
    return true;
}

/* Loads a function at its first launch, which may wait for all work of the
 * context; here it always waits. Called with the lock. */
static void load_late(CUfunction function, CUcontext context)
{
    if (!function->loaded)
        fake_wait_until(is_idle, context);
    function->loaded = true;
}

/* ---- launches ---- */

FAKE_API CUresult cuLaunchKernelEx(const CUlaunchConfig *config,
    CUfunction function, void **parameters, void **extra)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);
    struct fake_work work = {.kind = FAKE_KERNEL, .function = function};

    if (result != CUDA_SUCCESS)
        return result;
    work.blocks = config->gridDimX * config->gridDimY * config->gridDimZ;
    work.threads = config->blockDimX * config->blockDimY * config->blockDimZ;
    if (work.blocks == 0 || work.threads == 0 || work.threads > THREADS_MAX ||
        parameters == NULL || extra != NULL)
        return CUDA_ERROR_INVALID_VALUE;
    work.args = parameters[0];
    fake_lock_handles(config->hStream, NULL);
    if (function->context == fake_current()) {
        load_late(function, fake_current());
        fake.first_uses += !function->launched;
        function->launched = true;
        result = fake_enqueue_here(config->hStream, &work);
    } else {
        result = CUDA_ERROR_INVALID_HANDLE;
    }
    fake_unlock();
    return result;
}

FAKE_API CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x,
    unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
    unsigned int block_y, unsigned int block_z, unsigned int shared,
    CUstream stream, void **parameters, void **extra)
{
    const CUlaunchConfig config = {.gridDimX = grid_x,
        .gridDimY = grid_y,
        .gridDimZ = grid_z,
        .blockDimX = block_x,
        .blockDimY = block_y,
        .blockDimZ = block_z,
        .sharedMemBytes = shared,
        .hStream = stream};

    return cuLaunchKernelEx(&config, function, parameters, extra);
}
