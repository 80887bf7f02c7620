/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of the fake driver. Each record has a number, and a wait is for the
 * record that was the latest at the call.
 */
#include "t/cuda/fake/order.h"
#include "t/cuda/fake/state.h"

#include <stdlib.h>

static CUevent destroyed; /* destroyed events, the handles of which are not
                           * reused */

CUevent fake_find_any_event(CUevent handle)
{
    CUevent at = fake.events;

    while (at != NULL && at != handle)
        at = at->next;
    if (at == NULL)
        at = destroyed;
    while (at != NULL && at != handle)
        at = at->next;
    return at;
}

bool fake_is_event(CUevent event)
{
    CUevent found = fake_find_any_event(event);

    return found != NULL && !found->destroyed;
}

void fake_drop_event(CUevent event)
{
    if (--event->uses == 0 && event->destroyed)
        free(event);
}

FAKE_API CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);
    CUevent made;

    if (result != CUDA_SUCCESS)
        return result;
    made = fake_alloc(sizeof(*made));
    made->context = fake_current();
    made->flags = flags;
    fake_lock();
    made->next = fake.events;
    fake.events = made;
    fake.live[FAKE_EVENTS]++;
    fake_unlock();
    *event = made;
    return CUDA_SUCCESS;
}

/* Called with the lock. */
static void destroy(CUevent event)
{
    CUevent *at = &fake.events;

    fake.live[FAKE_EVENTS]--;
    event->destroyed = true;
    event->uses++;
    while (*at != event)
        at = &(*at)->next;
    *at = event->next;
    if (fake.settings.reuse) {
        fake_drop_event(event);
        return;
    }
    event->next = destroyed;
    destroyed = event;
}

FAKE_API CUresult cuEventDestroy(CUevent event)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock_handles(NULL, event);
    if (fake_is_event(event)) {
        fake_check_unused(event, event->users);
        destroy(event);
    } else {
        result = fake_refuse_free(event, CUDA_ERROR_INVALID_HANDLE);
    }
    fake_unlock();
    return result;
}

/* Called with the lock. */
static CUresult record(CUevent event, CUstream handle)
{
    CUstream stream = fake_find_stream(handle);
    const struct fake_work work = {
        .kind = FAKE_RECORD, .event = event, .number = event->recorded + 1};
    CUresult result;

    if (stream == NULL || stream->context != event->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (fake_is_skipped())
        return CUDA_SUCCESS;
    if (stream->capture != NULL)
        return fake_capture_record(stream, event);
    result = fake_enqueue(handle, &work);
    if (result != CUDA_SUCCESS)
        return result;
    event->recorded++;
    event->capture = NULL;
    event->in_graph = false;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuEventRecord(CUevent event, CUstream stream)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock_handles(stream, event);
    result = fake_is_event(event) ? record(event, stream)
                                  : CUDA_ERROR_INVALID_HANDLE;
    fake_unlock();
    return result;
}

/* Called with the lock. */
static CUresult wait_event(CUstream handle, CUevent event)
{
    const struct fake_work work = {
        .kind = FAKE_WAIT_EVENT, .event = event, .number = event->recorded};
    CUstream stream = fake_find_stream(handle);
    bool captured = false;
    CUresult result;

    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (fake_is_skipped())
        return CUDA_SUCCESS;
    result = fake_capture_wait(stream, event, &captured);
    if (result != CUDA_SUCCESS || captured)
        return result;
    return fake_enqueue(handle, &work);
}

FAKE_API CUresult cuStreamWaitEvent(
    CUstream stream, CUevent event, unsigned int flags)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);

    if (result != CUDA_SUCCESS)
        return result;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    fake_lock_handles(stream, event);
    result = fake_is_event(event) ? wait_event(stream, event)
                                  : CUDA_ERROR_INVALID_HANDLE;
    fake_unlock();
    return result;
}

/* ---- questions ---- */

/* Called with the lock. */
static CUresult judge(CUevent event)
{
    CUresult result;

    if (!fake_is_event(event))
        return CUDA_ERROR_INVALID_HANDLE;
    result = fake_ask_event(event);
    return result != CUDA_SUCCESS ? result : event->context->broken;
}

FAKE_API CUresult cuEventQuery(CUevent event)
{
    CUresult result = fake_enter(__func__, FAKE_INIT | FAKE_UNSAFE);

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock_handles(NULL, event);
    result = judge(event);
    if (result == CUDA_SUCCESS && event->completed < event->recorded)
        result = CUDA_ERROR_NOT_READY;
    if (result == CUDA_SUCCESS)
        fake_acquire(&event->record);
    fake_unlock();
    return result;
}

FAKE_API CUresult cuEventSynchronize(CUevent event)
{
    CUresult result = fake_enter(__func__, FAKE_INIT | FAKE_UNSAFE);

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock_handles(NULL, event);
    result = judge(event);
    if (result == CUDA_SUCCESS) {
        const uint64_t until = event->recorded;

        event->uses++;
        event->users++;
        fake_wait_for_count(&event->completed, until);
        event->users--;
        result = event->context->broken;
        fake_acquire(&event->record);
        fake_drop_event(event);
    }
    fake_unlock();
    return result;
}

FAKE_API CUresult cuEventElapsedTime(float *ms, CUevent begin, CUevent end)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock_handles(NULL, begin);
    if (!fake_is_event(begin) || !fake_is_event(end) ||
        begin->context != end->context || begin->recorded == 0 ||
        end->recorded == 0 ||
        ((begin->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0)
        result = CUDA_ERROR_INVALID_HANDLE;
    else if (begin->completed < begin->recorded ||
             end->completed < end->recorded)
        result = CUDA_ERROR_NOT_READY;
    else if (fake.settings.elapsed > 0)
        *ms = (float)fake.settings.elapsed / 1e3F;
    else
        *ms = (float)(end->completed_ns - begin->completed_ns) / 1e6F;
    /* Then both have completed, as in cuEventQuery(). */
    if (result == CUDA_SUCCESS) {
        fake_acquire(&begin->record);
        fake_acquire(&end->record);
    }
    fake_unlock();
    return result;
}
