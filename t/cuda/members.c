/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/cuda/members.h"

#include <stdlib.h>
#include <string.h>

/* ---- a rank's device ---- */

static void check(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    diag("%s: error %d", what, (int)result);
    abort();
}

int device_use(int device)
{
    CUcontext context;
    CUdevice found;
    int n = 0;

    check(cuInit(0), "cuInit");
    check(cuDeviceGetCount(&n), "cuDeviceGetCount");
    check(cuDeviceGet(&found, device % n), "cuDeviceGet");
    check(cuDevicePrimaryCtxRetain(&context, found), "primary context");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    return device % n;
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
    if (stream != NULL) /* else the default one, which stays */
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
