/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of a group's operations on a device: streams and events.
 *
 * All operations of a group use its staging and its counters, so on each device they run
 * one after the other, in the order in which they are started, which is the same on all
 * members.  If two consecutive operations are on different streams, the second stream
 * waits for an event of the first.  It also waits if the streams may differ: an equal
 * handle may belong to a new stream after the program has destroyed the old one.  An
 * operation that is captured in a graph is ordered by the caller's stream alone, at each
 * launch of the graph.
 *
 * With the setting trace.timing an operation also has an event before its first kernel,
 * and both events are timed; a captured operation has none.
 */
#include "cuda/device_group.h"

#include <stdlib.h>

#define QUICK CU_EVENT_DISABLE_TIMING

/* ---- opening and closing ---- */

static struct symc_cuda_called create_streams(struct symc_cuda_group *group)
{
    int least = 0, greatest = 0;
    struct symc_cuda_called called =
        symc_cuda_called("cuCtxGetStreamPriorityRange",
            group->cuda->ctx_get_stream_priority_range(&least, &greatest));

    if (called.result != CUDA_SUCCESS)
        return called;
    called = symc_cuda_called("cuStreamCreateWithPriority",
        group->cuda->stream_create_with_priority(
            &group->order.own, CU_STREAM_NON_BLOCKING, greatest));
    if (called.result != CUDA_SUCCESS)
        group->order.own = NULL;
    return called.result == CUDA_SUCCESS && group->across
               ? symc_cuda_aside_open(group, greatest)
               : called;
}

static void free_token(
    const struct symc_cuda_group *group, struct symc_cuda_token *token)
{
    if (token->begun != NULL)
        group->cuda->event_destroy(token->begun);
    if (token->event != NULL)
        group->cuda->event_destroy(token->event);
    free(token);
}

symmcoll_status_t symc_cuda_order_open(struct symc_cuda_group *group)
{
    struct symc_cuda_called called = create_streams(group);

    if (called.result == CUDA_SUCCESS)
        return SYMMCOLL_OK;
    return symc_cuda_group_fail(group, called.result, "%s", called.name);
}

void symc_cuda_order_close(struct symc_cuda_group *group)
{
    struct symc_cuda_order *order = &group->order;

    if (order->taken != NULL)
        symc_cuda_order_put(group, order->taken);
    while (order->unused != NULL) {
        struct symc_cuda_token *token = order->unused;

        order->unused = token->next;
        free_token(group, token);
    }
    while (group->marks != NULL) {
        struct symc_cuda_event *mark = group->marks;

        group->marks = mark->next;
        group->cuda->event_destroy(mark->event);
        free(mark);
    }
    if (order->own != NULL)
        group->cuda->stream_destroy(order->own);
    order->own = NULL;
    symc_cuda_aside_close(group);
}

/* ---- marks on the caller's stream at the call ---- */

/* Fails because an event could not be had.  If `called` names no call, host memory was
 * short. */
static symmcoll_status_t fail_event(const struct symc_cuda_group *group,
    struct symc_cuda_called called, CUstream stream)
{
    return called.name != NULL
               ? symc_cuda_group_fail(group, called.result, "%s for stream %p",
                     called.name, (void *)stream)
               : group->core->fail(
                     SYMMCOLL_ERR_NO_MEMORY, "no memory for another operation");
}

static struct symc_cuda_called take_mark(
    struct symc_cuda_group *group, struct symc_cuda_event **taken)
{
    struct symc_cuda_called called = {NULL, CUDA_ERROR_OUT_OF_MEMORY};
    struct symc_cuda_event *mark;

    pthread_mutex_lock(&group->lock);
    mark = group->marks;
    if (mark != NULL)
        group->marks = mark->next;
    pthread_mutex_unlock(&group->lock);
    if (mark == NULL) {
        mark = calloc(1, sizeof(*mark));
        if (mark != NULL)
            called = symc_cuda_called("cuEventCreate",
                group->cuda->event_create(&mark->event, QUICK));
        if (called.result != CUDA_SUCCESS) {
            free(mark);
            return called;
        }
    }
    *taken = mark;
    return symc_cuda_called("cuEventCreate", CUDA_SUCCESS);
}

void symc_cuda_unmark(void *state, void *mark)
{
    struct symc_cuda_group *group = state;
    struct symc_cuda_event *event = mark;

    if (event == NULL)
        return;
    pthread_mutex_lock(&group->lock);
    event->next = group->marks;
    group->marks = event;
    pthread_mutex_unlock(&group->lock);
}

/* Returns whether a stream is being captured, or cannot be queried: start()
 * fails then. */
static bool is_captured(const struct symc_cuda_group *group, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    return group->cuda->stream_is_capturing(stream, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

symmcoll_status_t symc_cuda_query_captured(
    const struct symc_cuda_group *group, CUstream stream, bool *captured)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = group->cuda->stream_is_capturing(stream, &status);

    *captured = status != CU_STREAM_CAPTURE_STATUS_NONE;
    return result == CUDA_SUCCESS
               ? SYMMCOLL_OK
               : symc_cuda_group_fail(group, result,
                     "cuStreamIsCapturing of stream %p", (void *)stream);
}

/* Returns whether a stream is the default stream that another rank shares. */
static bool is_common(const struct symc_cuda_group *group, CUstream stream)
{
    return group->one_default && (stream == NULL || stream == CU_STREAM_LEGACY);
}

symmcoll_status_t symc_cuda_check_order(
    const struct symc_cuda_group *group, const struct symc_op *op)
{
    if ((CUstream)op->stream == CU_STREAM_PER_THREAD)
        return group->core->fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a stream, or NULL for the device's default one, found "
            "the default stream of a thread (%p), which is another one on the "
            "library's threads",
            group->core->kinds[op->kind].name, op->stream);
    if (!op->direct || !is_common(group, op->stream))
        return SYMMCOLL_OK;
    return group->core->fail(SYMMCOLL_ERR_INVALID,
        "%s: expected a stream of this rank's own, for ranks that are threads "
        "share device %d, found the default stream, on which its kernels would "
        "wait for those that others enqueue later",
        group->core->kinds[op->kind].name, group->device);
}

/* Records a mark (out) on a stream.  The context must be current. */
static struct symc_cuda_called record_mark(struct symc_cuda_group *group,
    CUstream stream, struct symc_cuda_event **mark)
{
    struct symc_cuda_called called = take_mark(group, mark);

    if (called.result != CUDA_SUCCESS)
        return called;
    called = symc_cuda_called(
        "cuEventRecord", group->cuda->event_record((*mark)->event, stream));
    if (called.result != CUDA_SUCCESS) {
        symc_cuda_unmark(group, *mark);
        *mark = NULL;
    }
    return called;
}

void *symc_cuda_mark(void *state, const struct symc_op *op)
{
    struct symc_cuda_group *group = state;
    struct symc_cuda_entered entered;
    struct symc_cuda_event *mark = NULL;

    if (symc_cuda_enter(&group->context, &entered).result != CUDA_SUCCESS)
        return NULL;
    if (!is_captured(group, op->stream))
        (void)record_mark(group, op->stream, &mark); /* start() reports it */
    symc_cuda_leave(&entered);
    return mark;
}

/* ---- one operation ---- */

static symmcoll_status_t wait_for(
    const struct symc_cuda_group *group, CUstream stream, CUevent event)
{
    CUresult result = group->cuda->stream_wait_event(stream, event, 0);

    return result == CUDA_SUCCESS
               ? SYMMCOLL_OK
               : symc_cuda_group_fail(group, result, "cuStreamWaitEvent");
}

/* Lets the group's stream wait for the caller's work before the call; takes the mark. */
static symmcoll_status_t wait_for_caller(
    struct symc_cuda_group *group, const struct symc_op *op, void *marked)
{
    struct symc_cuda_event *mark = marked;
    struct symc_cuda_called called = {NULL, CUDA_SUCCESS};
    symmcoll_status_t status;

    if (mark == NULL)
        called = record_mark(group, op->stream, &mark);
    if (called.result != CUDA_SUCCESS)
        return fail_event(group, called, op->stream);
    status = wait_for(group, group->order.own, mark->event);
    symc_cuda_unmark(group, mark);
    return status;
}

/* Creates a token's events; an event that could not be created is NULL. */
static struct symc_cuda_called create_events(
    const struct symc_cuda_group *group, struct symc_cuda_token *token)
{
    const unsigned int flags = group->timed ? CU_EVENT_DEFAULT : QUICK;
    CUresult result = group->cuda->event_create(&token->event, flags);

    if (result != CUDA_SUCCESS)
        token->event = NULL;
    else if (group->timed)
        result = group->cuda->event_create(&token->begun, flags);
    if (result != CUDA_SUCCESS)
        token->begun = NULL;
    return symc_cuda_called("cuEventCreate", result);
}

/* Takes an unused token, or creates one (out). */
static symmcoll_status_t take_token(struct symc_cuda_group *group,
    CUstream stream, struct symc_cuda_token **taken)
{
    struct symc_cuda_order *order = &group->order;
    struct symc_cuda_token *token = order->unused;
    struct symc_cuda_called called = {NULL, CUDA_ERROR_OUT_OF_MEMORY};

    if (token != NULL) {
        order->unused = token->next;
        if (order->event == token->event) /* its operation has ended */
            order->event = NULL;
        *taken = token;
        return SYMMCOLL_OK;
    }
    token = calloc(1, sizeof(*token));
    if (token != NULL)
        called = create_events(group, token);
    if (called.result != CUDA_SUCCESS) {
        if (token != NULL)
            free_token(group, token);
        return fail_event(group, called, stream);
    }
    *taken = token;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_cuda_order_take(
    struct symc_cuda_group *group, CUstream stream)
{
    struct symc_cuda_order *order = &group->order;

    return order->taken != NULL ? SYMMCOLL_OK
                                : take_token(group, stream, &order->taken);
}

/* Records the event before the operation's first kernel. */
static symmcoll_status_t begin_timing(
    struct symc_cuda_group *group, struct symc_cuda_place place)
{
    CUresult result =
        group->cuda->event_record(group->order.taken->begun, place.stream);

    return result == CUDA_SUCCESS
               ? SYMMCOLL_OK
               : symc_cuda_group_fail(group, result,
                     "cuEventRecord on stream %p", (void *)place.stream);
}

/* Returns the unique id of a stream; 0 if it is unknown. */
static unsigned long long find_id(
    const struct symc_cuda_group *group, CUstream stream)
{
    unsigned long long id = 0;

    if (group->cuda->stream_get_id == NULL ||
        group->cuda->stream_get_id(stream, &id) != CUDA_SUCCESS)
        return 0;
    return id;
}

/* Returns whether a place's stream certainly is the one of the previous operation. */
static bool is_last(
    const struct symc_cuda_group *group, const struct symc_cuda_place *place)
{
    const struct symc_cuda_order *order = &group->order;

    return order->last == place->stream &&
           (place->stream == order->own ||
               (place->id != 0 && place->id == order->last_id));
}

/* Finds whether an operation is to be captured (out).  An operation with a work is not:
 * if it has a mark, the mark precedes any capture.  The stream is not queried then, as
 * the program may have destroyed it since the call. */
static symmcoll_status_t find_captured(const struct symc_cuda_group *group,
    const struct symc_op *op, bool marked, bool *captured)
{
    symmcoll_status_t status;

    *captured = false;
    if (!op->direct && marked)
        return SYMMCOLL_OK;
    status = symc_cuda_query_captured(group, op->stream, captured);
    if (status != SYMMCOLL_OK || op->direct || !*captured)
        return status;
    *captured = false;
    return group->core->fail(SYMMCOLL_ERR_INVALID,
        "expected stream %p not to be captured before the group's first "
        "operation has begun, found that it is",
        op->stream);
}

symmcoll_status_t symc_cuda_order_begin(struct symc_cuda_group *group,
    const struct symc_op *op, void *mark, struct symc_cuda_place *place)
{
    struct symc_cuda_order *order = &group->order;
    symmcoll_status_t status =
        find_captured(group, op, mark != NULL, &place->captured);

    if (status != SYMMCOLL_OK) {
        symc_cuda_unmark(group, mark);
        return status;
    }
    place->aside =
        op->direct && !place->captured && symc_cuda_is_aside(group, op->stream);
    place->stream = (op->direct && !place->aside) || place->captured
                        ? (CUstream)op->stream
                        : order->own;
    place->id = !place->captured && place->stream != order->own
                    ? find_id(group, place->stream)
                    : 0;
    if (place->captured || op->direct)
        symc_cuda_unmark(group, mark);
    else
        status = wait_for_caller(group, op, mark);
    if (status != SYMMCOLL_OK || place->captured)
        return status;
    if (place->aside) {
        status = symc_cuda_order_after(group, place->stream, op->stream);
        if (status != SYMMCOLL_OK)
            return status;
    }
    if (order->event != NULL && !is_last(group, place)) {
        status = wait_for(group, place->stream, order->event);
        if (status != SYMMCOLL_OK)
            return status;
    }
    status = symc_cuda_order_take(group, place->stream);
    if (status != SYMMCOLL_OK || !group->timed)
        return status;
    return begin_timing(group, *place);
}

/* Records the taken token's event on a stream: it covers all work enqueued there. */
static CUresult record(struct symc_cuda_group *group, const struct symc_op *op,
    CUstream stream, struct symc_cuda_token **token)
{
    struct symc_cuda_order *order = &group->order;
    CUresult result = group->cuda->event_record(order->taken->event, stream);

    if (result != CUDA_SUCCESS)
        return result;
    *token = order->taken;
    order->taken = NULL;
    (*token)->op = *op; /* symc_cuda_call_end() removes pointers of the call */
    (*token)->endless = false;
    (*token)->beside = NULL;
    order->running++;
    return result;
}

symmcoll_status_t symc_cuda_order_beside(struct symc_cuda_group *group,
    const struct symc_op *op, CUstream stream, struct symc_cuda_token **token)
{
    CUresult result = record(group, op, stream, token);

    return result == CUDA_SUCCESS
               ? SYMMCOLL_OK
               : symc_cuda_group_fail(group, result,
                     "cuEventRecord on stream %p", (void *)stream);
}

/* Records the end of an operation, after which the next is ordered.  INVARIANT:
 * order->event belongs to a token whose end has not been detected; until then the event
 * is not recorded again. */
symmcoll_status_t symc_cuda_order_end(struct symc_cuda_group *group,
    const struct symc_op *op, struct symc_cuda_place place,
    struct symc_cuda_token **token)
{
    struct symc_cuda_order *order = &group->order;
    symmcoll_status_t status;

    if (place.captured)
        return SYMMCOLL_OK;
    status = symc_cuda_order_beside(group, op, place.stream, token);
    if (status != SYMMCOLL_OK)
        return status;
    order->last = place.stream;
    order->last_id = place.id;
    order->event = (*token)->event;
    return SYMMCOLL_OK;
}

struct symc_cuda_token *symc_cuda_order_abandon(
    struct symc_cuda_group *group, const struct symc_op *op, CUstream stream)
{
    struct symc_cuda_order *order = &group->order;
    struct symc_cuda_token *token = NULL;

    if (record(group, op, stream, &token) != CUDA_SUCCESS) {
        token = order->taken;
        order->taken = NULL;
        token->op = *op;
        token->endless = true;
        order->running++;
    }
    token->beside = order->beside;
    order->beside = NULL;
    return token;
}

void symc_cuda_order_put(
    struct symc_cuda_group *group, struct symc_cuda_token *token)
{
    token->next = group->order.unused;
    group->order.unused = token;
}

/* ---- waits of the caller's stream ---- */

/* Returns IN_PROGRESS for a stream that another rank shares: the other rank's kernels of
 * the same operation, enqueued later, would wait for the end of this one.  A mark is
 * recorded at the start there. */
symmcoll_status_t symc_cuda_follow(void *state, void *token, void *stream)
{
    struct symc_cuda_group *group = state;
    const struct symc_cuda_token *followed = token;
    struct symc_cuda_entered entered;
    symmcoll_status_t status;
    bool captured = false;

    if (is_common(group, stream))
        return SYMMCOLL_IN_PROGRESS;
    status = symc_cuda_group_enter(group, &entered);
    if (status != SYMMCOLL_OK)
        return symc_cuda_of_one(status);
    status =
        symc_cuda_of_one(symc_cuda_query_captured(group, stream, &captured));
    if (captured)
        status = group->core->fail(SYMMCOLL_ERR_INVALID,
            "stream %p is being captured: expected a wait before that, or an "
            "operation that is captured too",
            stream);
    else if (status == SYMMCOLL_OK)
        status = wait_for(group, stream, followed->event);
    symc_cuda_leave(&entered);
    return status;
}
