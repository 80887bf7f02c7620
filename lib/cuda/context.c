/* SPDX-License-Identifier: BSD-3-Clause */
#include "cuda/context.h"
#include "cuda/find.h"

#include <stdint.h>

/* Returns the device of a context; -1 if the driver cannot say. */
static int device_of(const struct symc_cuda *cuda, CUcontext context)
{
    CUdevice device = -1;
    CUcontext popped = NULL;

    if (cuda->ctx_push_current(context) != CUDA_SUCCESS)
        return -1;
    if (cuda->ctx_get_device(&device) != CUDA_SUCCESS)
        device = -1;
    (void)cuda->ctx_pop_current(&popped);
    return device;
}

/* Returns the calling thread's current context if it is on that device, else NULL. */
static CUcontext current_of(const struct symc_cuda *cuda, CUdevice device)
{
    CUcontext current = NULL;
    CUdevice found = -1;

    if (cuda->ctx_get_current(&current) != CUDA_SUCCESS || current == NULL ||
        cuda->ctx_get_device(&found) != CUDA_SUCCESS || found != device)
        return NULL;
    return current;
}

static symmcoll_status_t find_device(const struct symc_cuda *cuda,
    symc_cuda_fail_fn fail, int device, CUdevice *handle)
{
    int count = 0;
    CUresult result = cuda->device_get_count(&count);

    if (result != CUDA_SUCCESS)
        return symc_cuda_fail(cuda, fail, result, -1, "cuDeviceGetCount");
    if (device < 0 || device >= count)
        return fail(SYMMCOLL_ERR_INVALID,
            "CUDA: expected a device of 0 to %d, found %d", count - 1, device);
    result = cuda->device_get(handle, device);
    if (result != CUDA_SUCCESS)
        return symc_cuda_fail(cuda, fail, result, device, "cuDeviceGet");
    return SYMMCOLL_OK;
}

/* Returns the caller's context to use; NULL: use the primary one. */
static CUcontext choose(
    const struct symc_cuda *cuda, CUdevice device, CUcontext wanted)
{
    return wanted != NULL && device_of(cuda, wanted) == device
               ? wanted
               : current_of(cuda, device);
}

bool symc_cuda_context_is_chosen(
    const struct symc_cuda_context *context, CUcontext wanted)
{
    CUcontext chosen;

    if (wanted != NULL && wanted == context->context)
        return true;
    chosen = choose(context->cuda, context->device, wanted);
    return chosen != NULL ? chosen == context->context : context->retained;
}

symmcoll_status_t symc_cuda_context_open(const struct symc_cuda *cuda,
    symc_cuda_fail_fn fail, int device, CUcontext wanted,
    struct symc_cuda_context *context)
{
    CUcontext current, primary = NULL;
    unsigned int flags = 0;
    CUdevice handle = 0;
    int active = 0;
    CUresult result;
    symmcoll_status_t status = find_device(cuda, fail, device, &handle);

    *context = (struct symc_cuda_context){0};
    if (status != SYMMCOLL_OK)
        return status;
    current = choose(cuda, handle, wanted);
    /* If the caller made its own context, do not activate the primary one: that
     * would take device memory. */
    if (current != NULL &&
        cuda->device_primary_ctx_get_state(handle, &flags, &active) ==
            CUDA_SUCCESS &&
        active == 0) {
        *context = (struct symc_cuda_context){cuda, current, handle, false};
        return SYMMCOLL_OK;
    }
    result = cuda->device_primary_ctx_retain(&primary, handle);
    if (result != CUDA_SUCCESS)
        return symc_cuda_fail(
            cuda, fail, result, device, "cuDevicePrimaryCtxRetain");
    *context = (struct symc_cuda_context){cuda, primary, handle, true};
    if (current != NULL && current != primary) {
        (void)cuda->device_primary_ctx_release(handle);
        context->context = current;
        context->retained = false;
    }
    return SYMMCOLL_OK;
}

static bool is_default(CUstream stream)
{
    return stream == NULL || stream == CU_STREAM_LEGACY ||
           stream == CU_STREAM_PER_THREAD;
}

CUcontext symc_cuda_context_find(
    const struct symc_cuda *cuda, CUstream stream, const void *buffer)
{
    CUpointer_attribute name = CU_POINTER_ATTRIBUTE_CONTEXT;
    CUcontext context = NULL;
    void *value = &context;
    CUresult result = CUDA_SUCCESS;

    if (!is_default(stream))
        result = cuda->stream_get_ctx(stream, &context);
    else if (buffer != NULL)
        result = cuda->pointer_get_attributes(
            1, &name, &value, (CUdeviceptr)(uintptr_t)buffer);
    return result == CUDA_SUCCESS ? context : NULL;
}

bool symc_cuda_context_has(
    const struct symc_cuda_context *context, const void *buffer)
{
    CUcontext found = symc_cuda_context_find(context->cuda, NULL, buffer);

    return found == NULL || found == context->context;
}

CUresult symc_cuda_context_copy(
    const struct symc_cuda_context *context, struct symc_cuda_context *copy)
{
    CUcontext primary = NULL;
    CUresult result = CUDA_SUCCESS;

    if (context->retained)
        result =
            context->cuda->device_primary_ctx_retain(&primary, context->device);
    if (result == CUDA_SUCCESS)
        *copy = *context;
    return result;
}

void symc_cuda_context_close(struct symc_cuda_context *context)
{
    if (context->retained)
        (void)context->cuda->device_primary_ctx_release(context->device);
    *context = (struct symc_cuda_context){0};
}

struct symc_cuda_called symc_cuda_enter(
    const struct symc_cuda_context *context, struct symc_cuda_entered *entered)
{
    struct symc_cuda_called called = symc_cuda_called(
        "cuCtxPushCurrent", context->cuda->ctx_push_current(context->context));

    entered->in = NULL;
    if (called.result != CUDA_SUCCESS)
        return called;
    /* In the default mode, querying an event while any stream of the process is
     * captured is an error, and ends that capture. */
    entered->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    called = symc_cuda_called("cuThreadExchangeStreamCaptureMode",
        context->cuda->thread_exchange_stream_capture_mode(&entered->mode));
    if (called.result == CUDA_SUCCESS) {
        entered->in = context;
    } else {
        CUcontext popped = NULL;

        (void)context->cuda->ctx_pop_current(&popped);
    }
    return called;
}

symmcoll_status_t symc_cuda_enter_or_fail(
    const struct symc_cuda_context *context, symc_cuda_fail_fn fail,
    struct symc_cuda_entered *entered)
{
    struct symc_cuda_called called = symc_cuda_enter(context, entered);

    return called.result == CUDA_SUCCESS
               ? SYMMCOLL_OK
               : symc_cuda_fail(context->cuda, fail, called.result,
                     (int)context->device, "%s", called.name);
}

void symc_cuda_leave(struct symc_cuda_entered *entered)
{
    const struct symc_cuda_context *context = entered->in;
    CUcontext popped = NULL;

    if (context == NULL)
        return;
    (void)context->cuda->thread_exchange_stream_capture_mode(&entered->mode);
    (void)context->cuda->ctx_pop_current(&popped);
    entered->in = NULL;
}

symmcoll_status_t symc_cuda_check_stream(
    const struct symc_cuda_context *context, symc_cuda_fail_fn fail,
    CUstream stream, const char *where)
{
    const struct symc_cuda *cuda = context->cuda;
    char expected[SYMC_CUDA_NAME_MAX], found[SYMC_CUDA_NAME_MAX];
    CUcontext owner = NULL;
    CUresult result;
    int device;

    if (is_default(stream))
        return SYMMCOLL_OK;
    result = cuda->stream_get_ctx(stream, &owner);
    if (result != CUDA_SUCCESS)
        return symc_cuda_fail(cuda, fail, result, context->device,
            "%s: cuStreamGetCtx of stream %p", where, (void *)stream);
    if (owner == context->context)
        return SYMMCOLL_OK;
    device = device_of(cuda, owner);
    (void)symc_cuda_format_device(cuda, context->device, expected);
    if (device != context->device)
        return fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a stream of %s, found %p of %s", where, expected,
            (void *)stream, symc_cuda_format_device(cuda, device, found));
    return fail(SYMMCOLL_ERR_INVALID,
        "%s: expected a stream of the context in which the group was made on "
        "%s, found %p of another context",
        where, expected, (void *)stream);
}

bool symc_cuda_context_reaches(
    const struct symc_cuda_context *context, CUcontext owner, const void *at)
{
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
    unsigned int managed = 0;
    CUmemoryPool pool = NULL;
    void *values[] = {&managed, &pool};
    CUresult result;

    if (owner == NULL || owner == context->context)
        return true;
    result = context->cuda->pointer_get_attributes(
        2, names, values, (CUdeviceptr)(uintptr_t)at);
    return result != CUDA_SUCCESS || managed != 0 || pool != NULL;
}

symmcoll_status_t symc_cuda_refuse_reach(
    const struct symc_cuda_context *context, symc_cuda_fail_fn fail,
    const char *where, const char *what, CUcontext owner, const void *at)
{
    return fail(SYMMCOLL_ERR_INVALID,
        "%s: expected %s in memory of context %p, in which the group has begun on "
        "device %d, found %p of context %p",
        where, what, (void *)context->context, (int)context->device, at,
        (void *)owner);
}

symmcoll_status_t symc_cuda_check_reach(const struct symc_cuda_context *context,
    symc_cuda_fail_fn fail, const char *where, const char *what, const void *at)
{
    CUpointer_attribute name = CU_POINTER_ATTRIBUTE_CONTEXT;
    CUcontext owner = NULL;
    void *value = &owner;

    if (context->cuda->pointer_get_attributes(
            1, &name, &value, (CUdeviceptr)(uintptr_t)at) != CUDA_SUCCESS ||
        symc_cuda_context_reaches(context, owner, at))
        return SYMMCOLL_OK;
    return symc_cuda_refuse_reach(context, fail, where, what, owner, at);
}

bool symc_cuda_stream_is_captured(void *stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    struct symc_cuda_context context = {.cuda = symc_cuda_loaded()};
    struct symc_cuda_entered entered;

    /* A default stream is either never captured, or refused. */
    if (is_default(stream))
        return false;
    if ((context.cuda == NULL &&
            symc_cuda_load(NULL, &context.cuda) != SYMMCOLL_OK) ||
        context.cuda->stream_get_ctx(stream, &context.context) != CUDA_SUCCESS)
        return false;
    if (symc_cuda_enter(&context, &entered).result != CUDA_SUCCESS)
        return false;
    if (context.cuda->stream_is_capturing(stream, &status) != CUDA_SUCCESS)
        status = CU_STREAM_CAPTURE_STATUS_NONE;
    symc_cuda_leave(&entered);
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

symmcoll_status_t symc_cuda_context_query_captured(
    const struct symc_cuda_context *context, symc_cuda_fail_fn fail,
    CUstream stream, bool *captured)
{
    CUstreamCaptureStatus found = CU_STREAM_CAPTURE_STATUS_NONE;
    struct symc_cuda_entered entered;
    CUresult result;
    symmcoll_status_t status = symc_cuda_enter_or_fail(context, fail, &entered);

    if (status != SYMMCOLL_OK)
        return status;
    result = context->cuda->stream_is_capturing(stream, &found);
    if (result != CUDA_SUCCESS)
        status =
            symc_cuda_fail(context->cuda, fail, result, (int)context->device,
                "cuStreamIsCapturing of stream %p", (void *)stream);
    *captured = found != CU_STREAM_CAPTURE_STATUS_NONE;
    symc_cuda_leave(&entered);
    return status;
}
