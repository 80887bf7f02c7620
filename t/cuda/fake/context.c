/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts of the fake driver: each thread has a stack of them. */
#include "t/cuda/fake/state.h"

#include <stdlib.h>

#define PUSHED 32

static _Thread_local CUcontext stack[PUSHED];
static _Thread_local int pushed;
static _Thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CUcontext fake_current(void)
{
    return pushed > 0 ? stack[pushed - 1] : NULL;
}

int fake_pushed(void)
{
    return pushed;
}

CUstreamCaptureMode *fake_capture_mode(void)
{
    return &mode;
}

bool fake_is_context(CUcontext context)
{
    CUcontext other = fake.contexts;

    for (int i = 0; i < fake.settings.devices; i++)
        if (context == &fake.devices[i].primary)
            return true;
    while (other != NULL && other != context)
        other = other->next;
    return context != NULL && other != NULL;
}

static CUresult enter_device(const char *function, CUdevice device)
{
    CUresult result = fake_enter(function, FAKE_INIT);

    if (result == CUDA_SUCCESS &&
        (device < 0 || device >= fake.settings.devices))
        result = CUDA_ERROR_INVALID_DEVICE;
    return result;
}

/* ---- a device's primary context ---- */

FAKE_API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    CUresult result = enter_device(__func__, device);

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    fake.devices[device].retained++;
    fake.live[FAKE_CONTEXTS]++;
    *context = &fake.devices[device].primary;
    fake_unlock();
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    CUresult result = enter_device(__func__, device);
    CUcontext context;

    if (result != CUDA_SUCCESS)
        return result;
    context = &fake.devices[device].primary;
    fake_lock();
    if (fake.devices[device].retained == 0) {
        fake_unlock();
        return fake_refuse_free(context, CUDA_ERROR_INVALID_CONTEXT);
    }
    fake.live[FAKE_CONTEXTS]--;
    if (--fake.devices[device].retained == 0) {
        if (context->legacy != NULL)
            fake_end_stream(context->legacy);
        context->legacy = NULL;
        context->peers = 0;
        context->broken = CUDA_SUCCESS;
    }
    fake_unlock();
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuDevicePrimaryCtxGetState(
    CUdevice device, unsigned int *flags, int *active)
{
    CUresult result = enter_device(__func__, device);

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    *flags = 0;
    *active = fake.devices[device].retained > 0;
    fake_unlock();
    return CUDA_SUCCESS;
}

/* ---- contexts of the caller ---- */

FAKE_API CUresult cuCtxCreate(CUcontext *context, CUctxCreateParams *parameters,
    unsigned int flags, CUdevice device)
{
    CUresult result = enter_device(__func__, device);
    CUcontext made;

    if (result != CUDA_SUCCESS)
        return result;
    if (parameters != NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    made = fake_alloc(sizeof(*made));
    if (made == NULL || pushed == PUSHED)
        fake_die("no room for a context");
    made->device = device;
    fake_lock();
    made->next = fake.contexts;
    fake.contexts = made;
    fake.live[FAKE_CONTEXTS]++;
    fake_unlock();
    stack[pushed++] = made;
    *context = made;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuCtxDestroy(CUcontext context)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);
    CUcontext *at;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    for (at = &fake.contexts; *at != NULL && *at != context;)
        at = &(*at)->next;
    if (*at == NULL) {
        fake_unlock();
        return fake_refuse_free(context, CUDA_ERROR_INVALID_CONTEXT);
    }
    *at = context->next;
    fake.live[FAKE_CONTEXTS]--;
    for (CUstream stream = fake.streams; stream != NULL; stream = stream->next)
        if (stream->context == context && !stream->legacy)
            fake_die("a context is destroyed that has streams");
    if (context->legacy != NULL)
        fake_end_stream(context->legacy);
    fake_unlock();
    if (fake_current() == context)
        pushed--;
    fake_finish();
    free(context);
    return CUDA_SUCCESS;
}

/* ---- the current context ---- */

FAKE_API CUresult cuCtxPushCurrent(CUcontext context)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    if (!fake_is_context(context))
        result = CUDA_ERROR_INVALID_CONTEXT;
    fake_unlock();
    if (result != CUDA_SUCCESS)
        return result;
    if (pushed == PUSHED)
        fake_die("contexts are pushed and not popped");
    stack[pushed++] = context;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuCtxPopCurrent(CUcontext *context)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);

    if (result != CUDA_SUCCESS)
        return result;
    if (pushed == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    pushed--;
    if (context != NULL)
        *context = stack[pushed];
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuCtxSetCurrent(CUcontext context)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);

    if (result != CUDA_SUCCESS)
        return result;
    if (pushed > 0)
        pushed--;
    if (context != NULL)
        stack[pushed++] = context;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuCtxGetCurrent(CUcontext *context)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);

    if (result == CUDA_SUCCESS)
        *context = fake_current();
    return result;
}

FAKE_API CUresult cuCtxGetDevice(CUdevice *device)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);

    if (result == CUDA_SUCCESS && fake_current() == NULL)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (result == CUDA_SUCCESS)
        *device = fake_current()->device;
    return result;
}

FAKE_API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);

    if (result != CUDA_SUCCESS)
        return result;
    *least = 0;
    *greatest = -5;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuThreadExchangeStreamCaptureMode(
    CUstreamCaptureMode *exchanged)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);
    CUstreamCaptureMode before = mode;

    if (result != CUDA_SUCCESS)
        return result;
    mode = *exchanged;
    *exchanged = before;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);
    CUcontext context = fake_current();

    if (result != CUDA_SUCCESS)
        return result;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    fake_lock();
    if (!fake_is_context(peer) || peer == context)
        result = CUDA_ERROR_INVALID_CONTEXT;
    else if (peer->device == context->device)
        result = CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    else if ((context->peers >> peer->device & 1) != 0)
        result = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    else
        context->peers |= UINT32_C(1) << peer->device;
    fake_unlock();
    return result;
}
