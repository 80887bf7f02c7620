/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/cuda/members.h"
#include "t/cuda/kernels.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES 8

/* ---- before all ranks ---- */

void device_begin(void)
{
    const char *build = getenv("T_BUILDDIR");
    char folder[PATH_MAX];

    snprintf(
        folder, sizeof(folder), "%s/t/cuda/.libs", build != NULL ? build : ".");
    setenv("SYMMCOLL_MODULE_DIR", folder, 1);
    setenv("SYMMCOLL_CUDA_STAGING", "4KiB", 1);
    setenv("SYMMCOLL_CUDA_PACKETS_MAX", "64", 1);
    setenv("SYMMCOLL_CUDA_ONE_SHOT_MAX", "256", 1);
    setenv("SYMMCOLL_CUDA_ONE_SHOT_MAX_TWO", "256", 1);
    setenv("SYMMCOLL_CUDA_BLOCKS", "2", 1);
    kernels_register();
    if (!fake_configure("devices=8 memory=256M granularity=4K"))
        diag("the fake driver does not take its settings");
}

void on_both(int n, rank_fn body, const char *what)
{
    ok(ranks_run(n, body), "%s (%d processes)", what, n);
    ok(threads_run(n, body), "%s (%d threads)", what, n);
}

/* ---- a rank's device ---- */

static void check(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    diag("%s: error %d", what, (int)result);
    abort();
}

void device_use(int device)
{
    CUcontext context;
    CUdevice found;

    check(cuInit(0), "cuInit");
    check(cuDeviceGet(&found, device % DEVICES), "cuDeviceGet");
    check(cuDevicePrimaryCtxRetain(&context, found), "primary context");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

static size_t words_of(size_t nbytes)
{
    return nbytes / sizeof(uint32_t) + 1;
}

void *device_alloc(size_t nbytes)
{
    CUdeviceptr at;

    check(cuMemAlloc(&at, words_of(nbytes) * sizeof(uint32_t)), "cuMemAlloc");
    check(cuMemsetD32Async(at, 0, words_of(nbytes), CU_STREAM_PER_THREAD),
        "cuMemsetD32Async");
    device_wait(CU_STREAM_PER_THREAD);
    return (void *)(uintptr_t)at;
}

void device_free(void *at)
{
    check(cuMemFree((CUdeviceptr)(uintptr_t)at), "cuMemFree");
}

static void copy(void *to, const void *from, size_t nbytes)
{
    if (nbytes == 0)
        return;
    check(cuMemcpyAsync((CUdeviceptr)(uintptr_t)to,
              (CUdeviceptr)(uintptr_t)from, nbytes, CU_STREAM_PER_THREAD),
        "cuMemcpyAsync");
    device_wait(CU_STREAM_PER_THREAD);
}

void device_write(void *to, const void *from, size_t nbytes)
{
    copy(to, from, nbytes);
}

void device_read(void *to, const void *from, size_t nbytes)
{
    copy(to, from, nbytes);
}

CUstream device_stream(void)
{
    CUstream stream;

    check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    return stream;
}

void device_wait(CUstream stream)
{
    check(cuStreamSynchronize(stream), "cuStreamSynchronize");
}

void device_end_stream(CUstream stream)
{
    check(cuStreamDestroy(stream), "cuStreamDestroy");
}

/* ---- saying what is not as expected ---- */

int say(int right, const char *what)
{
    if (!right)
        diag("%s: %s", what, symmcoll_last_error());
    return right;
}

int ended(symmcoll_status_t found, symmcoll_status_t expected, const char *text)
{
    if (found == expected && strstr(symmcoll_last_error(), text) != NULL)
        return 1;
    diag("expected %s and '%s', found %s: %s", symmcoll_status_name(expected),
        text, symmcoll_status_name(found), symmcoll_last_error());
    return 0;
}
