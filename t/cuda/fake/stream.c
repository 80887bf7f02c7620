/* SPDX-License-Identifier: BSD-3-Clause */
/* The stream functions of the fake driver that callers use. */
#include "t/cuda/fake/order.h"
#include "t/cuda/fake/state.h"

#include <stdlib.h>

FAKE_API CUresult cuStreamCreateWithPriority(
    CUstream *stream, unsigned int flags, int priority)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);

    if (result != CUDA_SUCCESS)
        return result;
    if ((flags & ~(unsigned int)CU_STREAM_NON_BLOCKING) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    fake_lock();
    *stream = fake_make_stream(fake_current(), flags != 0, priority);
    fake.live[FAKE_STREAMS]++;
    fake_unlock();
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    return cuStreamCreateWithPriority(stream, flags, 0);
}

FAKE_API CUresult cuStreamDestroy(CUstream handle)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);
    CUstream stream;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock_handles(handle, NULL);
    stream = fake_find_stream(handle);
    if (handle == NULL || stream == NULL || stream->legacy ||
        stream->per_thread) {
        result = fake_refuse_free(handle, CUDA_ERROR_INVALID_HANDLE);
    } else {
        if (stream->capture != NULL)
            fake_die("a stream is destroyed that is captured");
        fake_check_unused(stream, stream->users);
        fake.live[FAKE_STREAMS]--;
        fake_end_stream(stream);
    }
    fake_unlock();
    return result;
}

/* Finds a stream for a query of its progress. Returns an error if it must not
 * be queried. Called with the lock. */
static CUresult find_for_question(CUstream handle, CUstream *stream)
{
    CUresult result;

    *stream = fake_find_stream(handle);
    if (*stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    result = fake_ask_stream(*stream);
    return result != CUDA_SUCCESS ? result : (*stream)->context->broken;
}

FAKE_API CUresult cuStreamQuery(CUstream handle)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT | FAKE_UNSAFE);
    CUstream stream;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock_handles(handle, NULL);
    result = find_for_question(handle, &stream);
    if (result == CUDA_SUCCESS && stream->completed < stream->enqueued)
        result = CUDA_ERROR_NOT_READY;
    if (result == CUDA_SUCCESS)
        fake_acquire(&stream->done);
    fake_unlock();
    return result;
}

FAKE_API CUresult cuStreamSynchronize(CUstream handle)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT | FAKE_UNSAFE);
    CUstream stream;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock_handles(handle, NULL);
    result = find_for_question(handle, &stream);
    if (result == CUDA_SUCCESS) {
        const uint64_t until = stream->enqueued;

        stream->users++;
        fake_wait_for_count(&stream->completed, until);
        stream->users--;
        result = stream->context->broken;
        fake_acquire(&stream->done);
    }
    fake_unlock();
    return result;
}

FAKE_API CUresult cuCtxSynchronize(void)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT | FAKE_UNSAFE);
    const CUcontext context = fake_current();

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    fake_await_context(context);
    result = context->broken;
    fake_unlock();
    return result;
}

FAKE_API CUresult cuStreamGetCtx(CUstream handle, CUcontext *context)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);
    CUstream stream;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock_handles(handle, NULL);
    stream = fake_find_stream(handle);
    if (stream != NULL)
        *context = stream->context;
    fake_unlock();
    return stream != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

FAKE_API CUresult cuStreamGetId(CUstream handle, unsigned long long *id)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);
    CUstream stream;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock_handles(handle, NULL);
    stream = fake_find_stream(handle);
    if (stream != NULL)
        *id = stream->id;
    fake_unlock();
    return stream != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

FAKE_API CUresult cuStreamGetPriority(CUstream handle, int *priority)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);
    CUstream stream;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock_handles(handle, NULL);
    stream = fake_find_stream(handle);
    if (stream != NULL)
        *priority = stream->priority;
    fake_unlock();
    return stream != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- work ---- */

static CUresult enqueue_by(
    CUresult (*enqueue)(CUstream handle, const struct fake_work *work),
    const char *function, CUstream stream, const struct fake_work *work)
{
    CUresult result = fake_enter(function, FAKE_CONTEXT);

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock_handles(stream, NULL);
    result = enqueue(stream, work);
    fake_unlock();
    return result;
}

/* Enqueues work that may be in a stream of any context: copies and host
 * functions. */
static CUresult enqueue(
    const char *function, CUstream stream, const struct fake_work *work)
{
    return enqueue_by(fake_enqueue, function, stream, work);
}

static CUresult enqueue_here(
    const char *function, CUstream stream, const struct fake_work *work)
{
    return enqueue_by(fake_enqueue_here, function, stream, work);
}

FAKE_API CUresult cuMemcpyAsync(
    CUdeviceptr to, CUdeviceptr from, size_t nbytes, CUstream stream)
{
    const struct fake_work work = {.kind = FAKE_COPY,
        .to = (void *)(uintptr_t)to,
        .from = (const void *)(uintptr_t)from,
        .nbytes = nbytes};

    return enqueue(__func__, stream, &work);
}

/* One call, with a copy for each row. */
FAKE_API CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);

    if (result != CUDA_SUCCESS)
        return result;
    if (copy->srcMemoryType != CU_MEMORYTYPE_UNIFIED ||
        copy->dstMemoryType != CU_MEMORYTYPE_UNIFIED ||
        copy->srcPitch < copy->WidthInBytes ||
        copy->dstPitch < copy->WidthInBytes)
        return CUDA_ERROR_INVALID_VALUE;
    fake_lock_handles(stream, NULL);
    for (size_t y = 0; y < copy->Height && result == CUDA_SUCCESS; y++) {
        const struct fake_work work = {.kind = FAKE_COPY,
            .to = (char *)(uintptr_t)copy->dstDevice + y * copy->dstPitch,
            .from =
                (const char *)(uintptr_t)copy->srcDevice + y * copy->srcPitch,
            .nbytes = copy->WidthInBytes};

        result = fake_enqueue(stream, &work);
    }
    fake_unlock();
    return result;
}

FAKE_API CUresult cuMemsetD8Async(
    CUdeviceptr to, unsigned char value, size_t n, CUstream stream)
{
    const struct fake_work work = {.kind = FAKE_SET_BYTES,
        .to = (void *)(uintptr_t)to,
        .value = value,
        .nbytes = n};

    return enqueue_here(__func__, stream, &work);
}

FAKE_API CUresult cuMemsetD32Async(
    CUdeviceptr to, unsigned int value, size_t n, CUstream stream)
{
    const struct fake_work work = {.kind = FAKE_SET,
        .to = (void *)(uintptr_t)to,
        .value = value,
        .nbytes = n};

    if (to % sizeof(uint32_t) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return enqueue_here(__func__, stream, &work);
}

FAKE_API CUresult cuStreamWriteValue32_v2(
    CUstream stream, CUdeviceptr to, cuuint32_t value, unsigned int flags)
{
    const struct fake_work work = {.kind = FAKE_WRITE_VALUE,
        .to = (void *)(uintptr_t)to,
        .value = value,
        .flags = flags};
    const struct fake_range *range;
    bool writable;

    fake_lock();
    range = fake_find_range((uintptr_t)to);
    writable = range != NULL && !range->managed;
    fake_unlock();
    /* CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER is not supported. */
    if (!writable || flags != CU_STREAM_WRITE_VALUE_DEFAULT ||
        to % sizeof(uint32_t) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return enqueue_here(__func__, stream, &work);
}

FAKE_API CUresult cuStreamWaitValue32_v2(
    CUstream stream, CUdeviceptr from, cuuint32_t value, unsigned int flags)
{
    const struct fake_work work = {.kind = FAKE_WAIT_VALUE,
        .from = (const void *)(uintptr_t)from,
        .value = value,
        .flags = flags};

    if (from % sizeof(uint32_t) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return enqueue_here(__func__, stream, &work);
}

FAKE_API CUresult cuLaunchHostFunc(CUstream stream, CUhostFn call, void *data)
{
    const struct fake_work work = {.kind = FAKE_CALL, .to = data, .call = call};

    return enqueue(__func__, stream, &work);
}
