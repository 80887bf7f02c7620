/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of one rank and copies in it, in the order of a caller's stream.  They use no
 * kernel, so nothing is loaded while a kernel of this rank waits for another rank, and no
 * call waits for the device.  Sums, conversions and pieces of a buffer use kernels, which
 * are loaded when a device is opened for them.
 */
#include "cuda/local.h"
#include "cuda/device_group.h"

#include <stdlib.h>

#define PITCH_MOST INT64_C(0x7fffffff) /* bytes; the limit of all devices */

#define fail_local symc_cuda_local_fail

static void close_local(void *state)
{
    struct symc_cuda_local *local = state;

    symc_cuda_context_close(&local->context);
    free(local->kernels);
    free(local);
}

static symmcoll_status_t open_local(
    const struct symc_memory_request *request, void **local)
{
    struct symc_cuda_local *made = calloc(1, sizeof(*made));
    symmcoll_status_t status;

    if (made == NULL)
        return request->fail(SYMMCOLL_ERR_NO_MEMORY, "no memory for a device");
    made->fail = request->fail;
    status = symc_cuda_request_open(request, &made->context);
    if (status != SYMMCOLL_OK) {
        free(made);
        return status;
    }
    if (request->sums)
        status = symc_cuda_local_load(made);
    if (status == SYMMCOLL_OK)
        *local = made;
    else
        close_local(made);
    return status;
}

static bool serves(const void *state, const struct symc_memory_request *request)
{
    const struct symc_cuda_local *local = state;

    return symc_cuda_request_serves(request, &local->context);
}

/* ---- memory ---- */

/* Refuses to allocate under capture: memory that a graph allocates belongs to the graph
 * and does not outlive its launch. */
static symmcoll_status_t refuse_captured(
    const struct symc_cuda_local *local, CUstream stream)
{
    CUstreamCaptureStatus captured = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result =
        local->context.cuda->stream_is_capturing(stream, &captured);

    if (result != CUDA_SUCCESS)
        return fail_local(local, result, "cuStreamIsCapturing");
    if (captured == CU_STREAM_CAPTURE_STATUS_NONE)
        return SYMMCOLL_OK;
    return local->fail(SYMMCOLL_ERR_UNSUPPORTED,
        "expected memory of the caller's for what is captured, for a graph has "
        "none that lasts; found none");
}

static struct symc_cuda_called allocate_from_pool(
    const struct symc_cuda_local *local, CUstream stream, size_t nbytes,
    CUdeviceptr *made)
{
    CUmemoryPool pool = NULL;
    struct symc_cuda_called called = symc_cuda_pool_of(&local->context, &pool);

    return called.result != CUDA_SUCCESS
               ? called
               : symc_cuda_called("cuMemAllocFromPoolAsync",
                     local->context.cuda->mem_alloc_from_pool_async(
                         made, nbytes > 0 ? nbytes : 1, pool, stream));
}

static symmcoll_status_t allocate(
    void *state, void *stream, size_t nbytes, void **at)
{
    struct symc_cuda_local *local = state;
    struct symc_cuda_entered entered;
    CUdeviceptr made = 0;
    struct symc_cuda_called called;
    symmcoll_status_t status = symc_cuda_local_enter(local, &entered);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_cuda_check_stream(
        &local->context, local->fail, stream, "an allocation");
    if (status == SYMMCOLL_OK)
        status = refuse_captured(local, stream);
    if (status == SYMMCOLL_OK) {
        called = allocate_from_pool(local, stream, nbytes, &made);
        if (called.result != CUDA_SUCCESS)
            status = fail_local(
                local, called.result, "%s of %zu bytes", called.name, nbytes);
    }
    symc_cuda_leave(&entered);
    *at = (void *)(uintptr_t)made;
    return status;
}

static symmcoll_status_t release(void *state, void *stream, void *at)
{
    struct symc_cuda_local *local = state;
    struct symc_cuda_entered entered;
    CUresult result;
    symmcoll_status_t status = symc_cuda_local_enter(local, &entered);

    if (status != SYMMCOLL_OK)
        return status;
    result =
        local->context.cuda->mem_free_async((CUdeviceptr)(uintptr_t)at, stream);
    if (result != CUDA_SUCCESS)
        status = fail_local(local, result, "cuMemFreeAsync of %p", at);
    symc_cuda_leave(&entered);
    return status;
}

static symmcoll_status_t clear(
    void *state, void *stream, void *at, size_t nbytes)
{
    struct symc_cuda_local *local = state;
    struct symc_cuda_entered entered;
    CUresult result;
    symmcoll_status_t status = SYMMCOLL_OK;

    if (nbytes == 0)
        return status;
    status = symc_cuda_local_enter(local, &entered);
    if (status != SYMMCOLL_OK)
        return status;
    result = local->context.cuda->memset_d8_async(
        (CUdeviceptr)(uintptr_t)at, 0, nbytes, stream);
    if (result != CUDA_SUCCESS)
        status = fail_local(
            local, result, "cuMemsetD8Async of %zu bytes at %p", nbytes, at);
    symc_cuda_leave(&entered);
    return status;
}

/* ---- strided copies ---- */

/* The dimensions of a copy whose innermost rows are runs of contiguous bytes; strides in
 * bytes. */
struct rows {
    int ndim;
    int64_t shape[SYMC_STRIDED_DIMS];
    int64_t from[SYMC_STRIDED_DIMS], to[SYMC_STRIDED_DIMS];
    int64_t run;
};

static void swap_sides(struct rows *rows)
{
    for (int d = 0; d < rows->ndim; d++) {
        int64_t from = rows->from[d];

        rows->from[d] = rows->to[d];
        rows->to[d] = from;
    }
}

/* Merges dimensions that are contiguous on both sides; returns false if the tensor is
 * empty. */
static bool find_rows(const struct symc_strided *copy, struct rows *rows)
{
    int64_t elem = (int64_t)copy->elem, to = elem;
    int last = 0;

    *rows = (struct rows){.run = elem};
    for (int d = copy->ndim - 1; d >= 0; d--) {
        int64_t from = copy->strides[d] * elem;

        if (copy->shape[d] == 0)
            return false;
        if (copy->shape[d] == 1)
            continue;
        last = rows->ndim - 1;
        if (rows->ndim == 0 && from == rows->run) {
            rows->run *= copy->shape[d];
        } else if (rows->ndim > 0 &&
                   from == rows->from[last] * rows->shape[last]) {
            rows->shape[last] *= copy->shape[d];
        } else {
            rows->shape[rows->ndim] = copy->shape[d];
            rows->from[rows->ndim] = from;
            rows->to[rows->ndim++] = to;
        }
        to *= copy->shape[d];
    }
    if (copy->spread)
        swap_sides(rows);
    return true;
}

/* Removes the longest dimension that one 2D copy can cover; if there is none, the copy
 * has one row.  With unified addresses the driver finds the memory, another device's,
 * too. */
static void take_height(struct rows *rows, CUDA_MEMCPY2D *plane)
{
    int best = -1;

    *plane = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .WidthInBytes = (size_t)rows->run,
        .Height = 1,
        .srcPitch = (size_t)rows->run,
        .dstPitch = (size_t)rows->run};
    for (int d = 0; d < rows->ndim; d++)
        if (rows->from[d] >= rows->run && rows->from[d] <= PITCH_MOST &&
            rows->to[d] >= rows->run && rows->to[d] <= PITCH_MOST &&
            (best < 0 || rows->shape[d] > rows->shape[best]))
            best = d;
    if (best < 0)
        return;
    plane->Height = (size_t)rows->shape[best];
    plane->srcPitch = (size_t)rows->from[best];
    plane->dstPitch = (size_t)rows->to[best];
    rows->ndim--;
    for (int d = best; d < rows->ndim; d++) {
        rows->shape[d] = rows->shape[d + 1];
        rows->from[d] = rows->from[d + 1];
        rows->to[d] = rows->to[d + 1];
    }
}

static struct symc_cuda_called copy_plane(const struct symc_cuda *cuda,
    CUstream stream, const CUDA_MEMCPY2D *plane, int64_t from, int64_t to)
{
    CUDA_MEMCPY2D one = *plane;

    one.srcDevice += (CUdeviceptr)from;
    one.dstDevice += (CUdeviceptr)to;
    if (one.Height == 1)
        return symc_cuda_called(
            "cuMemcpyAsync", cuda->memcpy_async(one.dstDevice, one.srcDevice,
                                 one.WidthInBytes, stream));
    return symc_cuda_called(
        "cuMemcpy2DAsync", cuda->memcpy_2d_async(&one, stream));
}

struct symc_cuda_called symc_cuda_copy_strided(const struct symc_cuda *cuda,
    CUstream stream, const struct symc_strided *copy)
{
    int64_t index[SYMC_STRIDED_DIMS] = {0}, from = 0, to = 0;
    struct symc_cuda_called called = {NULL, CUDA_SUCCESS};
    CUDA_MEMCPY2D plane;
    struct rows rows;
    int d = 0;

    if (!find_rows(copy, &rows))
        return called;
    take_height(&rows, &plane);
    plane.srcDevice = (CUdeviceptr)(uintptr_t)copy->in;
    plane.dstDevice = (CUdeviceptr)(uintptr_t)copy->out;
    while (d < rows.ndim || rows.ndim == 0) {
        called = copy_plane(cuda, stream, &plane, from, to);
        if (called.result != CUDA_SUCCESS || rows.ndim == 0)
            break;
        for (d = 0; d < rows.ndim; d++) {
            from += rows.from[d];
            to += rows.to[d];
            if (++index[d] < rows.shape[d])
                break;
            from -= rows.from[d] * rows.shape[d];
            to -= rows.to[d] * rows.shape[d];
            index[d] = 0;
        }
    }
    return called;
}

static symmcoll_status_t copy(
    void *state, void *stream, const struct symc_strided *strided)
{
    struct symc_cuda_local *local = state;
    struct symc_cuda_entered entered;
    struct symc_cuda_called called;
    symmcoll_status_t status = symc_cuda_local_enter(local, &entered);

    if (status != SYMMCOLL_OK)
        return status;
    called = symc_cuda_copy_strided(local->context.cuda, stream, strided);
    if (called.result != CUDA_SUCCESS)
        status =
            fail_local(local, called.result, "%s of a tensor from %p to %p",
                called.name, strided->in, strided->out);
    symc_cuda_leave(&entered);
    return status;
}

/* ---- the stream ---- */

static symmcoll_status_t query_captured(
    void *state, void *stream, bool *captured)
{
    struct symc_cuda_local *local = state;

    return symc_cuda_context_query_captured(
        &local->context, local->fail, stream, captured);
}

/* Lets a stream wait for another's work.  The event is destroyed at once: the wait for it
 * has been enqueued. */
static symmcoll_status_t follow(void *state, void *stream, void *other)
{
    struct symc_cuda_local *local = state;
    const struct symc_cuda *cuda = local->context.cuda;
    struct symc_cuda_entered entered;
    CUevent event = NULL;
    struct symc_cuda_called called;
    symmcoll_status_t status = symc_cuda_local_enter(local, &entered);

    if (status != SYMMCOLL_OK)
        return status;
    called = symc_cuda_called(
        "cuEventCreate", cuda->event_create(&event, CU_EVENT_DISABLE_TIMING));
    if (called.result == CUDA_SUCCESS)
        called =
            symc_cuda_called("cuEventRecord", cuda->event_record(event, other));
    if (called.result == CUDA_SUCCESS)
        called = symc_cuda_called(
            "cuStreamWaitEvent", cuda->stream_wait_event(stream, event, 0));
    if (called.result != CUDA_SUCCESS)
        status = fail_local(local, called.result,
            "%s to have stream %p wait for stream %p", called.name, stream,
            other);
    if (event != NULL)
        (void)cuda->event_destroy(event);
    symc_cuda_leave(&entered);
    return status;
}

static symmcoll_status_t query(void *state, void *stream)
{
    struct symc_cuda_local *local = state;
    struct symc_cuda_entered entered;
    CUresult result;
    symmcoll_status_t status = symc_cuda_local_enter(local, &entered);

    if (status != SYMMCOLL_OK)
        return status;
    result = local->context.cuda->stream_query(stream);
    if (result == CUDA_ERROR_NOT_READY)
        status = SYMMCOLL_IN_PROGRESS;
    else if (result != CUDA_SUCCESS)
        status = fail_local(local, result, "cuStreamQuery");
    symc_cuda_leave(&entered);
    return status;
}

const struct symc_local_ops symc_cuda_local_ops = {.open = open_local,
    .close = close_local,
    .serves = serves,
    .allocate = allocate,
    .free = release,
    .copy = copy,
    .clear = clear,
    .move = symc_cuda_local_move,
    .add = symc_cuda_local_add,
    .convert = symc_cuda_local_convert,
    .follow = follow,
    .query = query,
    .query_captured = query_captured,
    .mark = symc_cuda_local_mark,
    .elapsed = symc_cuda_local_elapsed,
    .unmark = symc_cuda_local_unmark};
