/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of the driver by name, for programs that are not linked with it:
 * each is looked up in libcuda.so.1 at its first call. The functions of
 * lib/cuda/driver.h are in its table, too; these are the additional ones that
 * tests call, all in CUDA since 12.0 or earlier.
 */
#include "t/tap.h"

#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* cuda.h defines versioned names as macros: this is the resulting symbol. */
#define NAME(function) NAME_OF(function)
#define NAME_OF(symbol) #symbol

/* clang-format off */
#define EACH(what) \
    what(cuInit) what(cuDeviceGet) \
    what(cuDeviceGetCount) what(cuDevicePrimaryCtxRetain) \
    what(cuCtxSetCurrent) what(cuCtxGetDevice) what(cuCtxSynchronize) \
    what(cuMemAlloc) what(cuMemFree) what(cuMemsetD32Async) \
    what(cuMemsetD8Async) what(cuMemcpyAsync) \
    what(cuMemGetAllocationGranularity) what(cuMemCreate) what(cuMemRelease) \
    what(cuMemAddressReserve) what(cuMemAddressFree) what(cuMemMap) \
    what(cuMemUnmap) what(cuMemSetAccess) what(cuStreamCreate) \
    what(cuStreamDestroy) what(cuStreamSynchronize) \
    what(cuStreamQuery) what(cuStreamWaitValue32) \
    what(cuOccupancyMaxActiveBlocksPerMultiprocessor) what(cuLaunchHostFunc) \
    what(cuStreamBeginCapture) what(cuStreamEndCapture) \
    what(cuGraphInstantiate) what(cuGraphLaunch) \
    what(cuGraphDestroy) what(cuGraphExecDestroy)
/* clang-format on */

#define POINTER(function) __typeof__(&(function)) function##_found;
static struct {
    EACH(POINTER)
} table;

static void find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);

    if (found == NULL) {
        diag("the driver has no %s", name);
        exit(1);
    }
    memcpy(function, &found, sizeof(found));
}

static void load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        diag("%s", dlerror());
        exit(1);
    }
#define FIND(function) find(library, NAME(function), &table.function##_found);
    EACH(FIND)
}

static pthread_once_t loaded = PTHREAD_ONCE_INIT;

#define FORWARD(function, parameters, ...)          \
    CUresult CUDAAPI function parameters            \
    {                                               \
        pthread_once(&loaded, load);                \
        return table.function##_found(__VA_ARGS__); \
    }

FORWARD(cuInit, (unsigned int flags), flags)
FORWARD(cuDeviceGet, (CUdevice * device, int ordinal), device, ordinal)
FORWARD(cuDeviceGetCount, (int *count), count)
FORWARD(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device),
    context, device)
FORWARD(cuCtxSetCurrent, (CUcontext context), context)
FORWARD(cuCtxGetDevice, (CUdevice * device), device)
FORWARD(cuCtxSynchronize, (void), )
FORWARD(cuMemAlloc, (CUdeviceptr * at, size_t nbytes), at, nbytes)
FORWARD(cuMemFree, (CUdeviceptr at), at)
FORWARD(cuMemsetD32Async,
    (CUdeviceptr at, unsigned int value, size_t n, CUstream stream), at, value,
    n, stream)
FORWARD(cuMemsetD8Async,
    (CUdeviceptr at, unsigned char value, size_t n, CUstream stream), at, value,
    n, stream)
FORWARD(cuMemcpyAsync,
    (CUdeviceptr to, CUdeviceptr from, size_t nbytes, CUstream stream), to,
    from, nbytes, stream)
FORWARD(cuMemGetAllocationGranularity,
    (size_t * granularity, const CUmemAllocationProp *properties,
        CUmemAllocationGranularity_flags which),
    granularity, properties, which)
FORWARD(cuMemCreate,
    (CUmemGenericAllocationHandle * handle, size_t nbytes,
        const CUmemAllocationProp *properties, unsigned long long flags),
    handle, nbytes, properties, flags)
FORWARD(cuMemRelease, (CUmemGenericAllocationHandle handle), handle)
FORWARD(cuMemAddressReserve,
    (CUdeviceptr * at, size_t nbytes, size_t alignment, CUdeviceptr wanted,
        unsigned long long flags),
    at, nbytes, alignment, wanted, flags)
FORWARD(cuMemAddressFree, (CUdeviceptr at, size_t nbytes), at, nbytes)
FORWARD(cuMemMap,
    (CUdeviceptr at, size_t nbytes, size_t offset,
        CUmemGenericAllocationHandle handle, unsigned long long flags),
    at, nbytes, offset, handle, flags)
FORWARD(cuMemUnmap, (CUdeviceptr at, size_t nbytes), at, nbytes)
FORWARD(cuMemSetAccess,
    (CUdeviceptr at, size_t nbytes, const CUmemAccessDesc *access, size_t n),
    at, nbytes, access, n)
FORWARD(cuStreamCreate, (CUstream * stream, unsigned int flags), stream, flags)
FORWARD(cuStreamDestroy, (CUstream stream), stream)
FORWARD(cuStreamSynchronize, (CUstream stream), stream)
FORWARD(cuStreamQuery, (CUstream stream), stream)
FORWARD(cuStreamWaitValue32,
    (CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned int flags),
    stream, at, value, flags)
FORWARD(cuOccupancyMaxActiveBlocksPerMultiprocessor,
    (int *blocks, CUfunction function, int threads, size_t nbytes), blocks,
    function, threads, nbytes)
FORWARD(cuLaunchHostFunc, (CUstream stream, CUhostFn call, void *data), stream,
    call, data)
FORWARD(cuStreamBeginCapture, (CUstream stream, CUstreamCaptureMode mode),
    stream, mode)
FORWARD(cuStreamEndCapture, (CUstream stream, CUgraph *graph), stream, graph)
FORWARD(cuGraphInstantiate,
    (CUgraphExec * exec, CUgraph graph, unsigned long long flags), exec, graph,
    flags)
FORWARD(cuGraphLaunch, (CUgraphExec exec, CUstream stream), exec, stream)
FORWARD(cuGraphDestroy, (CUgraph graph), graph)
FORWARD(cuGraphExecDestroy, (CUgraphExec exec), exec)
