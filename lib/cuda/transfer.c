/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of messages: their stream, the staging memory that other ranks read, and the
 * staging memory of other ranks.  If all ranks are threads, staging comes from the pool
 * of its device, where an allocation waits for nothing.  Other processes can only open
 * memory of cuMemAlloc(), which may wait for running work of the device, as cuMemFree()
 * does.
 */
#include "cuda/transfer.h"
#include "cuda/device_group.h"
#include "cuda/local.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The handle of staging memory between threads. */
struct pooled {
    CUmemoryPool pool;
    CUdevice device;
};

_Static_assert(sizeof(struct pooled) <= SYMC_STAGING_HANDLE, "it has room");
_Static_assert(sizeof(CUipcMemHandle) == SYMC_STAGING_HANDLE, "it is that");

/* Another rank's staging memory. */
struct reached {
    struct reached *next;
    struct symc_staging staging;
    CUdeviceptr opened; /* by IPC; 0: it belongs to this process */
    void *at;
};

struct transfer {
    struct symc_cuda_context context;
    symc_cuda_fail_fn fail;
    bool threads;
    CUstream stream;
    struct reached *others;
    pthread_mutex_t making;  /* protects own */
    struct symc_staging own; /* at: 0 if not allocated */
    pthread_mutex_t lock;    /* protects unused */
    struct symc_cuda_event *unused;
};

#define fail_transfer(transfer, result, ...)                           \
    symc_cuda_fail((transfer)->context.cuda, (transfer)->fail, result, \
        (int)(transfer)->context.device, __VA_ARGS__)

static symmcoll_status_t enter(
    const struct transfer *transfer, struct symc_cuda_entered *entered)
{
    return symc_cuda_enter_or_fail(&transfer->context, transfer->fail, entered);
}

/* ---- opening and closing ---- */

/* Creates the stream for copies.  It has the highest priority: another rank may be
 * waiting for its copies. */
static symmcoll_status_t make_stream(struct transfer *transfer)
{
    const struct symc_cuda *cuda = transfer->context.cuda;
    struct symc_cuda_entered entered;
    int least = 0, greatest = 0;
    struct symc_cuda_called called;
    symmcoll_status_t status = enter(transfer, &entered);

    if (status != SYMMCOLL_OK)
        return status;
    called = symc_cuda_called("cuCtxGetStreamPriorityRange",
        cuda->ctx_get_stream_priority_range(&least, &greatest));
    if (called.result == CUDA_SUCCESS)
        called = symc_cuda_called("cuStreamCreateWithPriority",
            cuda->stream_create_with_priority(
                &transfer->stream, CU_STREAM_NON_BLOCKING, greatest));
    if (called.result != CUDA_SUCCESS) {
        transfer->stream = NULL;
        status = fail_transfer(
            transfer, called.result, "%s for copies of messages", called.name);
    }
    symc_cuda_leave(&entered);
    return status;
}

static void release_staging(struct transfer *transfer)
{
    const struct symc_cuda *cuda = transfer->context.cuda;

    if (transfer->own.at == 0)
        return;
    if (transfer->threads)
        (void)cuda->mem_free_async(
            (CUdeviceptr)transfer->own.at, transfer->stream);
    else
        (void)cuda->mem_free((CUdeviceptr)transfer->own.at);
}

/* Forgets all other ranks' staging.  entered: the context is current; otherwise it is
 * gone and only host memory is freed. */
static void leave_others(struct transfer *transfer, bool entered)
{
    while (transfer->others != NULL) {
        struct reached *first = transfer->others;

        transfer->others = first->next;
        if (first->opened != 0 && entered)
            (void)transfer->context.cuda->ipc_close_mem_handle(first->opened);
        free(first);
    }
}

static void destroy_events(struct transfer *transfer, bool entered)
{
    while (transfer->unused != NULL) {
        struct symc_cuda_event *first = transfer->unused;

        transfer->unused = first->next;
        if (entered)
            (void)transfer->context.cuda->event_destroy(first->event);
        free(first);
    }
}

static bool enter_to_close(
    const struct transfer *transfer, struct symc_cuda_entered *entered)
{
    return transfer->context.cuda != NULL &&
           symc_cuda_enter(&transfer->context, entered).result == CUDA_SUCCESS;
}

static void leave(void *state)
{
    struct symc_cuda_entered entered;
    bool inside = enter_to_close(state, &entered);

    leave_others(state, inside);
    if (inside)
        symc_cuda_leave(&entered);
}

/* Closes a transfer.  If the context is gone, so is all that was created in it. */
static void close_transfer(void *state, bool keep)
{
    struct transfer *transfer = state;
    struct symc_cuda_entered entered;
    bool inside = enter_to_close(transfer, &entered);

    leave_others(transfer, inside);
    destroy_events(transfer, inside);
    if (inside) {
        if (!keep)
            release_staging(transfer);
        if (transfer->stream != NULL)
            (void)transfer->context.cuda->stream_destroy(transfer->stream);
        symc_cuda_leave(&entered);
    }
    symc_cuda_context_close(&transfer->context);
    pthread_mutex_destroy(&transfer->lock);
    pthread_mutex_destroy(&transfer->making);
    free(transfer);
}

static symmcoll_status_t open_transfer(
    const struct symc_memory_request *request, void **transfer)
{
    struct transfer *made = calloc(1, sizeof(*made));
    symmcoll_status_t status;

    if (made == NULL)
        return request->fail(
            SYMMCOLL_ERR_NO_MEMORY, "no memory for copies of messages");
    pthread_mutex_init(&made->lock, NULL);
    pthread_mutex_init(&made->making, NULL);
    made->fail = request->fail;
    made->threads = request->threads;
    status = symc_cuda_request_open(request, &made->context);
    if (status == SYMMCOLL_OK)
        status = make_stream(made);
    if (status == SYMMCOLL_OK)
        *transfer = made;
    else
        close_transfer(made, false);
    return status;
}

static bool serves(const void *state, const struct symc_memory_request *request)
{
    const struct transfer *transfer = state;

    return request->device == (int)transfer->context.device &&
           symc_cuda_request_serves(request, &transfer->context);
}

/* ---- staging ---- */

static struct symc_cuda_called make_pooled(const struct transfer *transfer,
    size_t nbytes, struct symc_staging *staging)
{
    struct pooled pooled = {.device = transfer->context.device};
    CUdeviceptr at = 0;
    struct symc_cuda_called called =
        symc_cuda_pool_of(&transfer->context, &pooled.pool);

    if (called.result == CUDA_SUCCESS)
        called = symc_cuda_called("cuMemAllocFromPoolAsync",
            transfer->context.cuda->mem_alloc_from_pool_async(
                &at, nbytes, pooled.pool, transfer->stream));
    memcpy(staging->handle, &pooled, sizeof(pooled));
    staging->at = (uint64_t)at;
    return called;
}

static struct symc_cuda_called make_opened(const struct transfer *transfer,
    size_t nbytes, struct symc_staging *staging)
{
    const struct symc_cuda *cuda = transfer->context.cuda;
    CUipcMemHandle handle;
    CUdeviceptr at = 0;
    struct symc_cuda_called called =
        symc_cuda_called("cuMemAlloc", cuda->mem_alloc(&at, nbytes));

    if (called.result != CUDA_SUCCESS)
        return called;
    called = symc_cuda_called(
        "cuIpcGetMemHandle", cuda->ipc_get_mem_handle(&handle, at));
    if (called.result != CUDA_SUCCESS) {
        (void)cuda->mem_free(at);
        return called;
    }
    memcpy(staging->handle, &handle, sizeof(handle));
    staging->at = (uint64_t)at;
    return called;
}

/* Allocates this rank's staging.  Called with `making` held. */
static symmcoll_status_t make_own(struct transfer *transfer, size_t nbytes)
{
    struct symc_staging made = {.at = 0};
    struct symc_cuda_entered entered;
    struct symc_cuda_called called;
    symmcoll_status_t status = enter(transfer, &entered);
    char text[32];

    if (status != SYMMCOLL_OK)
        return status;
    called = transfer->threads ? make_pooled(transfer, nbytes, &made)
                               : make_opened(transfer, nbytes, &made);
    if (called.result == CUDA_SUCCESS)
        transfer->own = made;
    else
        status = fail_transfer(transfer, called.result, "%s of %s for messages",
            called.name, symc_cuda_format_nbytes(nbytes, text));
    symc_cuda_leave(&entered);
    return status;
}

static symmcoll_status_t make_staging(
    void *state, size_t nbytes, struct symc_staging *staging)
{
    struct transfer *transfer = state;
    symmcoll_status_t status = SYMMCOLL_OK;

    pthread_mutex_lock(&transfer->making);
    if (transfer->own.at == 0)
        status = make_own(transfer, nbytes);
    *staging = transfer->own;
    pthread_mutex_unlock(&transfer->making);
    return status;
}

/* Grants this device access to another device's pool. */
static symmcoll_status_t reach_pool(
    const struct transfer *transfer, const struct symc_staging *staging)
{
    struct pooled pooled;
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
                                  .id = transfer->context.device},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result;

    memcpy(&pooled, staging->handle, sizeof(pooled));
    if (pooled.device == transfer->context.device)
        return SYMMCOLL_OK;
    result =
        transfer->context.cuda->mem_pool_set_access(pooled.pool, &access, 1);
    return result == CUDA_SUCCESS
               ? SYMMCOLL_OK
               : fail_transfer(transfer, result,
                     "cuMemPoolSetAccess to messages from device %d",
                     (int)pooled.device);
}

static symmcoll_status_t open_other(
    const struct transfer *transfer, struct reached *reached)
{
    const struct symc_cuda *cuda = transfer->context.cuda;
    CUipcMemHandle handle;
    CUresult result;

    memcpy(&handle, reached->staging.handle, sizeof(handle));
    result = cuda->ipc_open_mem_handle(
        &reached->opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (result != CUDA_SUCCESS) {
        reached->opened = 0;
        return fail_transfer(transfer, result,
            "cuIpcOpenMemHandle of another rank's memory for messages");
    }
    reached->at = (void *)(uintptr_t)reached->opened;
    return SYMMCOLL_OK;
}

static symmcoll_status_t reach(
    void *state, const struct symc_staging *staging, bool threads, void **at)
{
    struct transfer *transfer = state;
    struct reached *found = transfer->others;
    struct symc_cuda_entered entered;
    symmcoll_status_t status;

    while (found != NULL &&
           memcmp(&found->staging, staging, sizeof(*staging)) != 0)
        found = found->next;
    if (found != NULL) {
        *at = found->at;
        return SYMMCOLL_OK;
    }
    found = calloc(1, sizeof(*found));
    if (found == NULL)
        return transfer->fail(
            SYMMCOLL_ERR_NO_MEMORY, "no memory for another rank's messages");
    found->staging = *staging;
    found->at = (void *)(uintptr_t)staging->at;
    status = enter(transfer, &entered);
    if (status == SYMMCOLL_OK) {
        status = threads ? reach_pool(transfer, staging)
                         : open_other(transfer, found);
        symc_cuda_leave(&entered);
    }
    if (status != SYMMCOLL_OK) {
        free(found);
        return status;
    }
    found->next = transfer->others;
    transfer->others = found;
    *at = found->at;
    return SYMMCOLL_OK;
}

/* ---- marks ---- */

static struct symc_cuda_event *take_event(struct transfer *transfer)
{
    struct symc_cuda_event *taken;

    pthread_mutex_lock(&transfer->lock);
    taken = transfer->unused;
    if (taken != NULL)
        transfer->unused = taken->next;
    pthread_mutex_unlock(&transfer->lock);
    return taken;
}

static void unmark(void *state, void *mark)
{
    struct transfer *transfer = state;
    struct symc_cuda_event *event = mark;

    if (event == NULL)
        return;
    pthread_mutex_lock(&transfer->lock);
    event->next = transfer->unused;
    transfer->unused = event;
    pthread_mutex_unlock(&transfer->lock);
}

/* Returns an unused event (out), or a new one.  The context must be current. */
static symmcoll_status_t make_event(
    struct transfer *transfer, struct symc_cuda_event **made)
{
    struct symc_cuda_event *event = take_event(transfer);
    CUresult result;

    *made = event;
    if (event != NULL)
        return SYMMCOLL_OK;
    event = calloc(1, sizeof(*event));
    if (event == NULL)
        return transfer->fail(SYMMCOLL_ERR_NO_MEMORY, "no memory for an event");
    result = transfer->context.cuda->event_create(
        &event->event, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS) {
        *made = event;
        return SYMMCOLL_OK;
    }
    free(event);
    return fail_transfer(transfer, result, "cuEventCreate for a message");
}

/* Records an event on a stream, as a mark (out).  The context must be current. */
static symmcoll_status_t record(struct transfer *transfer, CUstream stream,
    struct symc_cuda_event *event, void **mark)
{
    CUresult result =
        transfer->context.cuda->event_record(event->event, stream);

    if (result == CUDA_SUCCESS) {
        *mark = event;
        return SYMMCOLL_OK;
    }
    unmark(transfer, event);
    return fail_transfer(transfer, result,
        "cuEventRecord to note how far stream %p is", (void *)stream);
}

static symmcoll_status_t mark(void *state, void *stream, void **mark)
{
    struct transfer *transfer = state;
    struct symc_cuda_event *event = NULL;
    struct symc_cuda_entered entered;
    symmcoll_status_t status = enter(transfer, &entered);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_cuda_check_stream(
        &transfer->context, transfer->fail, stream, "a message");
    if (status == SYMMCOLL_OK)
        status = make_event(transfer, &event);
    if (status == SYMMCOLL_OK)
        status = record(transfer, stream, event, mark);
    symc_cuda_leave(&entered);
    return status;
}

/* Enqueues a copy and a mark (out) after it.  The context must be current. */
static symmcoll_status_t begin_copy(struct transfer *transfer, CUdeviceptr to,
    CUdeviceptr from, size_t nbytes, void **mark)
{
    const struct symc_cuda *cuda = transfer->context.cuda;
    struct symc_cuda_event *event = NULL;
    symmcoll_status_t status = make_event(transfer, &event);
    CUresult result;

    if (status != SYMMCOLL_OK)
        return status;
    result = cuda->memcpy_async(to, from, nbytes, transfer->stream);
    if (result != CUDA_SUCCESS) {
        unmark(transfer, event);
        return fail_transfer(transfer, result,
            "cuMemcpyAsync of %zu bytes from %p to %p", nbytes,
            (void *)(uintptr_t)from, (void *)(uintptr_t)to);
    }
    status = record(transfer, transfer->stream, event, mark);
    /* Without a mark, no caller could wait for the copy. */
    if (status != SYMMCOLL_OK)
        (void)cuda->stream_synchronize(transfer->stream);
    return status;
}

static symmcoll_status_t copy(
    void *state, void *to, const void *from, size_t nbytes, void **mark)
{
    struct transfer *transfer = state;
    struct symc_cuda_entered entered;
    symmcoll_status_t status = enter(transfer, &entered);

    if (status != SYMMCOLL_OK)
        return status;
    status = begin_copy(transfer, (CUdeviceptr)(uintptr_t)to,
        (CUdeviceptr)(uintptr_t)from, nbytes, mark);
    symc_cuda_leave(&entered);
    return status;
}

static symmcoll_status_t reached(void *state, void *mark)
{
    struct transfer *transfer = state;
    const struct symc_cuda_event *event = mark;
    struct symc_cuda_entered entered;
    CUresult result;
    symmcoll_status_t status = enter(transfer, &entered);

    if (status != SYMMCOLL_OK)
        return status;
    result = transfer->context.cuda->event_query(event->event);
    if (result == CUDA_ERROR_NOT_READY)
        status = SYMMCOLL_IN_PROGRESS;
    else if (result != CUDA_SUCCESS)
        status = fail_transfer(transfer, result, "cuEventQuery of a copy");
    symc_cuda_leave(&entered);
    return status;
}

const struct symc_transfer_ops symc_cuda_transfer_ops = {.open = open_transfer,
    .leave = leave,
    .close = close_transfer,
    .serves = serves,
    .stage = make_staging,
    .reach = reach,
    .mark = mark,
    .copy = copy,
    .reached = reached,
    .unmark = unmark};
