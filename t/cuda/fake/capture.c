/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Captures of the fake driver. A graph is the list of captured work in the
 * order of the calls; it is launched into one stream.
 */
#include "t/cuda/fake/state.h"

#include <stdlib.h>
#include <string.h>

static void free_works(struct fake_work *work)
{
    while (work != NULL) {
        struct fake_work *next = work->next;

        fake_free_work(work);
        work = next;
    }
}

/* ---- events that invalidate a capture ---- */

static CUresult spoil(struct fake_capture *capture, CUresult result)
{
    capture->invalid = true;
    return result;
}

bool fake_disturbs_capture(CUstreamCaptureMode mode)
{
    bool disturbed = false;

    for (struct fake_capture *at = fake.captures; at != NULL; at = at->next) {
        const bool own = pthread_equal(at->thread, pthread_self()) != 0;

        if (mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
            at->mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
            (!own && (mode != CU_STREAM_CAPTURE_MODE_GLOBAL ||
                         at->mode != CU_STREAM_CAPTURE_MODE_GLOBAL)))
            continue;
        at->invalid = true;
        disturbed = true;
    }
    return disturbed;
}

/* Returns the capture of a blocking stream of a context; NULL: none. */
static struct fake_capture *find_blocking(CUcontext context)
{
    for (struct fake_capture *at = fake.captures; at != NULL; at = at->next)
        for (int i = 0; i < at->n; i++)
            if (at->streams[i]->context == context &&
                !at->streams[i]->nonblocking)
                return at;
    return NULL;
}

CUresult fake_use_legacy(CUcontext context)
{
    struct fake_capture *capture = find_blocking(context);

    return capture != NULL ? spoil(capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
                           : CUDA_SUCCESS;
}

CUresult fake_ask_stream(CUstream stream)
{
    if (stream->capture != NULL)
        return spoil(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return stream->legacy ? fake_use_legacy(stream->context) : CUDA_SUCCESS;
}

CUresult fake_ask_event(CUevent event)
{
    if (event->capture != NULL)
        return spoil(event->capture, CUDA_ERROR_CAPTURED_EVENT);
    return event->in_graph ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

/* ---- captured work ---- */

static void append(CUgraph graph, const struct fake_work *work)
{
    struct fake_work *copy = fake_copy_work(work);

    *graph->last = copy;
    graph->last = &copy->next;
}

/* Counts a piece of work of a stream. */
static void advance(struct fake_capture *capture, int stream)
{
    capture->seen[stream][stream] = ++capture->pieces[stream];
}

CUresult fake_capture_work(CUstream stream, const struct fake_work *work)
{
    if (stream->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (work->kind == FAKE_STALL)
        fake_die("a stream that is captured cannot be stalled");
    append(stream->capture->graph, work);
    advance(stream->capture, stream->captured);
    return CUDA_SUCCESS;
}

CUresult fake_capture_record(CUstream stream, CUevent event)
{
    struct fake_capture *capture = stream->capture;

    if (capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event->capture = capture;
    event->in_graph = true;
    memcpy(event->seen, capture->seen[stream->captured], sizeof(event->seen));
    return CUDA_SUCCESS;
}

/* Orders a stream after everything that the event has seen. */
static void merge(struct fake_capture *capture, int stream, CUevent event)
{
    for (int i = 0; i < capture->n; i++)
        if (capture->seen[stream][i] < event->seen[i])
            capture->seen[stream][i] = event->seen[i];
}

static void join(struct fake_capture *capture, CUstream stream)
{
    if (capture->n == FAKE_CAPTURED)
        fake_die("more streams than a capture has");
    stream->capture = capture;
    stream->captured = capture->n++;
    capture->streams[stream->captured] = stream;
    capture->pieces[stream->captured] = 0;
    memset(capture->seen[stream->captured], 0, sizeof(capture->seen[0]));
    /* The first stream must see that this one has joined. */
    if (stream->captured > 0)
        advance(capture, stream->captured);
}

CUresult fake_capture_wait(CUstream stream, CUevent event, bool *captured)
{
    struct fake_capture *capture = stream->capture;

    *captured = capture != NULL || event->in_graph;
    if (!*captured)
        return CUDA_SUCCESS;
    if (capture != NULL && capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (capture == NULL && event->capture == NULL)
        return CUDA_ERROR_INVALID_VALUE; /* of a capture that has ended */
    if (event->capture == NULL)
        return event->recorded == 0
                   ? CUDA_SUCCESS
                   : spoil(capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    if (event->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (capture == NULL && stream->legacy)
        return spoil(event->capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    if (capture == NULL) {
        join(event->capture, stream);
    } else if (capture != event->capture) {
        (void)spoil(event->capture, CUDA_SUCCESS);
        return spoil(capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    merge(stream->capture, stream->captured, event);
    return CUDA_SUCCESS;
}

/* ---- begin and end ---- */

FAKE_API CUresult cuStreamIsCapturing(
    CUstream handle, CUstreamCaptureStatus *status)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);
    CUstream stream;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock_handles(handle, NULL);
    stream = fake_find_stream(handle);
    if (stream == NULL)
        result = CUDA_ERROR_INVALID_HANDLE;
    else if (stream->legacy && find_blocking(stream->context) != NULL)
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    else if (stream->capture == NULL)
        *status = CU_STREAM_CAPTURE_STATUS_NONE;
    else
        *status = stream->capture->invalid
                      ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                      : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    fake_unlock();
    return result;
}

static CUgraph make_graph(void)
{
    CUgraph graph = fake_alloc(sizeof(*graph));

    graph->last = &graph->first;
    return graph;
}

FAKE_API CUresult cuStreamBeginCapture(
    CUstream handle, CUstreamCaptureMode mode)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);
    struct fake_capture *capture;
    CUstream stream;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock_handles(handle, NULL);
    stream = fake_find_stream(handle);
    if (stream == NULL)
        result = CUDA_ERROR_INVALID_HANDLE;
    else if (stream->legacy)
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    else if (stream->capture != NULL)
        result = CUDA_ERROR_ILLEGAL_STATE;
    if (result == CUDA_SUCCESS) {
        capture = fake_alloc(sizeof(*capture));
        capture->mode = mode;
        capture->thread = pthread_self();
        capture->graph = make_graph();
        capture->next = fake.captures;
        fake.captures = capture;
        join(capture, stream);
    }
    fake_unlock();
    return result;
}

/* Returns whether the first stream has seen all streams that have joined. */
static bool is_joined(const struct fake_capture *capture)
{
    for (int i = 1; i < capture->n; i++)
        if (capture->seen[0][i] < capture->pieces[i])
            return false;
    return true;
}

static void end_capture(struct fake_capture *capture)
{
    struct fake_capture **at = &fake.captures;

    while (*at != capture)
        at = &(*at)->next;
    *at = capture->next;
    for (int i = 0; i < capture->n; i++)
        capture->streams[i]->capture = NULL;
    for (CUevent event = fake.events; event != NULL; event = event->next)
        if (event->capture == capture)
            event->capture = NULL;
    free(capture);
}

FAKE_API CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);
    struct fake_capture *capture;
    CUstream stream;

    if (result != CUDA_SUCCESS)
        return result;
    *graph = NULL;
    fake_lock_handles(handle, NULL);
    stream = fake_find_stream(handle);
    capture = stream != NULL ? stream->capture : NULL;
    if (capture == NULL) {
        result = CUDA_ERROR_ILLEGAL_STATE;
    } else if (stream->captured != 0) {
        result = spoil(capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    } else if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
               !pthread_equal(capture->thread, pthread_self())) {
        result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    } else {
        if (capture->invalid)
            result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        else if (!is_joined(capture))
            result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
        if (result == CUDA_SUCCESS) {
            *graph = capture->graph;
        } else {
            free_works(capture->graph->first);
            free(capture->graph);
        }
        end_capture(capture);
    }
    fake_unlock();
    return result;
}

/* ---- graphs ---- */

FAKE_API CUresult cuGraphInstantiateWithFlags(
    CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);

    (void)flags;
    if (result != CUDA_SUCCESS)
        return result;
    *exec = fake_alloc(sizeof(**exec));
    (*exec)->graph.last = &(*exec)->graph.first;
    fake_lock();
    for (struct fake_work *at = graph->first; at != NULL; at = at->next)
        append(&(*exec)->graph, at);
    fake_unlock();
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);

    fake_lock_handles(stream, NULL);
    for (struct fake_work *at = exec->graph.first;
         at != NULL && result == CUDA_SUCCESS; at = at->next)
        result = fake_enqueue(stream, at);
    fake_unlock();
    return result;
}

FAKE_API CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    free_works(exec->graph.first);
    fake_unlock();
    free(exec);
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuGraphDestroy(CUgraph graph)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    free_works(graph->first);
    fake_unlock();
    free(graph);
    return CUDA_SUCCESS;
}
