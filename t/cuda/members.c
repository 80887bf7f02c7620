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

/* Freed memory, which is reused: cuMemFree() waits for all work of the device,
 * where a kernel of another rank may wait for this one. */
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

static const char *const things[] = {"memory", "streams", "copies"};

enum {
    MEMORY = 1,
    STREAMS = 2,
    COPIES = 4
};

static int kept_things; /* of these */

static void read_kept(void)
{
    const char *at = getenv(DEVICE_KEEPS);

    while (at != NULL && *at != '\0' && strcmp(at, "0") != 0) {
        size_t length = strcspn(at, ",");
        int i = 0;

        while (i < 3 && (strlen(things[i]) != length ||
                            strncmp(at, things[i], length) != 0))
            i++;
        if (i == 3) {
            diag("%s: expected memory, streams or copies, found %s",
                DEVICE_KEEPS, at);
            abort();
        }
        kept_things |= 1 << i;
        at += length + (at[length] == ',');
    }
}

static bool keeps(int what)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, read_kept);
    return (kept_things & what) != 0;
}

/* One stream for all ranks, since none of its work waits for another rank. */
static CUstream copying;

static void make_copying(void)
{
    check(cuStreamCreate(&copying, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

static CUstream copies(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (!keeps(COPIES))
        return CU_STREAM_PER_THREAD;
    pthread_once(&once, make_copying);
    return copying;
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

    if (keeps(MEMORY))
        at = alloc_kept(words_of(nbytes));
    else
        check(
            cuMemAlloc(&at, words_of(nbytes) * sizeof(uint32_t)), "cuMemAlloc");
    check(cuMemsetD32Async(at, 0, words_of(nbytes), copies()),
        "cuMemsetD32Async");
    device_wait(copies());
    return (void *)(uintptr_t)at;
}

void device_free(void *at)
{
    if (keeps(MEMORY))
        free_kept((CUdeviceptr)(uintptr_t)at);
    else
        check(cuMemFree((CUdeviceptr)(uintptr_t)at), "cuMemFree");
}

static void copy(void *to, const void *from, size_t nbytes)
{
    if (nbytes == 0)
        return;
    check(cuMemcpyAsync((CUdeviceptr)(uintptr_t)to,
              (CUdeviceptr)(uintptr_t)from, nbytes, copies()),
        "cuMemcpyAsync");
    device_wait(copies());
}

void device_write(void *to, const void *from, size_t nbytes)
{
    copy(to, from, nbytes);
}

void device_read(void *to, const void *from, size_t nbytes)
{
    copy(to, from, nbytes);
}

/* Ended streams, which are reused: a device has few queues for streams, each
 * new stream takes the next one, and of two streams in one queue the second is
 * blocked while the first one waits. */
static struct {
    pthread_mutex_t lock;
    int count;
    struct kept_stream {
        CUstream stream;
        CUdevice device;
        bool ended;
    } all[256];
} streams = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Takes an unused stream; NULL: none. Called with the lock. */
static CUstream take_stream(CUdevice device)
{
    CUstream stream = NULL;

    for (int i = 0; i < streams.count && stream == NULL; i++) {
        struct kept_stream *one = &streams.all[i];

        if (one->ended && one->device == device) {
            one->ended = false;
            stream = one->stream;
        }
    }
    return stream;
}

/* Called with the lock. */
static CUstream make_stream(CUdevice device)
{
    CUstream stream = NULL;

    if (streams.count == (int)(sizeof(streams.all) / sizeof(streams.all[0])))
        abort();
    check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    streams.all[streams.count++] = (struct kept_stream){stream, device, false};
    return stream;
}

CUstream device_stream(void)
{
    CUstream stream = NULL;
    CUdevice device;

    if (!keeps(STREAMS)) {
        check(
            cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
        return stream;
    }
    check(cuCtxGetDevice(&device), "cuCtxGetDevice");
    pthread_mutex_lock(&streams.lock);
    stream = take_stream(device);
    if (stream == NULL)
        stream = make_stream(device);
    pthread_mutex_unlock(&streams.lock);
    return stream;
}

void device_wait(CUstream stream)
{
    check(cuStreamSynchronize(stream), "cuStreamSynchronize");
}

void device_end_stream(CUstream stream)
{
    if (stream == NULL) /* the default stream, which is kept */
        return;
    if (!keeps(STREAMS)) {
        check(cuStreamDestroy(stream), "cuStreamDestroy");
        return;
    }
    pthread_mutex_lock(&streams.lock);
    for (int i = 0; i < streams.count; i++)
        if (streams.all[i].stream == stream)
            streams.all[i].ended = true;
    pthread_mutex_unlock(&streams.lock);
}

/* ---- reporting differences ---- */

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
