/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/cuda/members.h"

#include <pthread.h>
#include <stdbool.h>
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

/* Memory that was freed, and is given out again: cuMemFree() waits for all that runs on
 * the device, where a kernel of another rank may wait for this one. */
static struct {
    pthread_mutex_t lock;
    int count;
    struct kept {
        CUdeviceptr at;
        CUdevice device;
        size_t words;
        bool freed;
    } all[4096];
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool keeps(void)
{
    return getenv(DEVICE_KEEPS) != NULL;
}

static CUdeviceptr take_kept(CUdevice device, size_t words)
{
    CUdeviceptr at = 0;

    pthread_mutex_lock(&kept.lock);
    for (int i = 0; i < kept.count && at == 0; i++) {
        struct kept *one = &kept.all[i];

        if (one->freed && one->device == device && one->words == words) {
            one->freed = false;
            at = one->at;
        }
    }
    pthread_mutex_unlock(&kept.lock);
    return at;
}

static void note_kept(CUdevice device, CUdeviceptr at, size_t words)
{
    pthread_mutex_lock(&kept.lock);
    if (kept.count == (int)(sizeof(kept.all) / sizeof(kept.all[0])))
        abort();
    kept.all[kept.count++] = (struct kept){at, device, words, false};
    pthread_mutex_unlock(&kept.lock);
}

static CUdeviceptr alloc_kept(size_t words)
{
    CUdevice device;
    CUdeviceptr at;

    check(cuCtxGetDevice(&device), "cuCtxGetDevice");
    at = take_kept(device, words);
    if (at == 0) {
        check(cuMemAlloc(&at, words * sizeof(uint32_t)), "cuMemAlloc");
        note_kept(device, at, words);
    }
    return at;
}

static void free_kept(CUdeviceptr at)
{
    pthread_mutex_lock(&kept.lock);
    for (int i = 0; i < kept.count; i++)
        if (kept.all[i].at == at)
            kept.all[i].freed = true;
    pthread_mutex_unlock(&kept.lock);
}

void *device_alloc(size_t nbytes)
{
    CUdeviceptr at;

    if (keeps())
        at = alloc_kept(words_of(nbytes));
    else
        check(
            cuMemAlloc(&at, words_of(nbytes) * sizeof(uint32_t)), "cuMemAlloc");
    check(cuMemsetD32Async(at, 0, words_of(nbytes), CU_STREAM_PER_THREAD),
        "cuMemsetD32Async");
    device_wait(CU_STREAM_PER_THREAD);
    return (void *)(uintptr_t)at;
}

void device_free(void *at)
{
    if (keeps())
        free_kept((CUdeviceptr)(uintptr_t)at);
    else
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
