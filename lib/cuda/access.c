/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided operations: accesses of one rank to symmetric memory on a caller's stream.
 * The driver copies and writes words; kernels fill words, put signals and wait.
 *
 * An access uses neither the staging buffers nor the counters of the group's operations.
 * It is therefore ordered by its stream alone and runs beside the operations: an
 * operation must not wait for a signal that its peer puts after the same operation.
 */
#include "cuda/access.h"
#include "cuda/calls.h"
#include "cuda/device_launch.h"
#include "cuda/joined.h"

#define FILL_THREADS 256
#define FILL_WORDS 4 /* of a thread at a time */

/* ---- launches ---- */

static symmcoll_status_t copy_on(const struct symc_cuda_group *group,
    const struct symc_access *access, CUstream stream)
{
    CUresult result =
        group->cuda->memcpy_async((CUdeviceptr)(uintptr_t)access->out,
            (CUdeviceptr)(uintptr_t)access->in, access->count, stream);

    return result == CUDA_SUCCESS
               ? SYMMCOLL_OK
               : symc_cuda_group_fail(group, result,
                     "cuMemcpyAsync of %zu bytes from %p to %p", access->count,
                     access->in, access->out);
}

/* Copies bytes.  If a part of the copy may have been left on the stream aside by an
 * error, a token is recorded on that stream, too (order.beside). */
static symmcoll_status_t copy(struct symc_cuda_group *group,
    const struct symc_access *access, CUstream stream)
{
    const CUstream aside = group->order.aside;
    symmcoll_status_t status;

    if (!symc_cuda_is_aside(group, stream))
        return copy_on(group, access, stream);
    status = symc_cuda_order_after(group, aside, stream);
    if (status == SYMMCOLL_OK)
        status = copy_on(group, access, aside);
    if (status == SYMMCOLL_OK)
        status = symc_cuda_order_after(group, stream, aside);
    if (status != SYMMCOLL_OK)
        group->order.beside = aside;
    return status;
}

static symmcoll_status_t launch(const struct symc_cuda_group *group,
    enum symc_kernel kernel, struct symc_grid grid, CUstream stream,
    const void *args)
{
    return symc_kernel_launch(
        &group->kernels, kernel, SYMMCOLL_UINT8, grid, stream, args);
}

static symmcoll_status_t fill(const struct symc_cuda_group *group,
    const struct symc_access *access, CUstream stream)
{
    const struct symc_fill_args args = {
        .at = access->out, .count = access->count, .value = access->value};
    uint64_t each = (uint64_t)FILL_THREADS * FILL_WORDS;
    uint64_t blocks = (access->count - 1) / each + 1;
    struct symc_grid grid = {
        blocks < group->limits.blocks ? (uint32_t)blocks : group->limits.blocks,
        FILL_THREADS};

    return launch(group, SYMC_KERNEL_FILL32, grid, stream, &args);
}

/* Returns whether the driver cannot do this on the device or address.  A kernel can. */
static bool is_refusal(CUresult result)
{
    return result == CUDA_ERROR_NOT_SUPPORTED ||
           result == CUDA_ERROR_NOT_PERMITTED ||
           result == CUDA_ERROR_INVALID_VALUE;
}

/* Writes a word with the driver, which needs no room on the device: waiting kernels may
 * occupy it all.  Like the kernel's write, the driver's has a system-wide release fence
 * before it.  Under capture the kernel is used, as a refusal by the driver would end the
 * capture. */
static symmcoll_status_t write_word(const struct symc_cuda_group *group,
    const struct symc_access *access, bool captured, CUstream stream)
{
    const struct symc_fill_args args = {
        .at = access->out, .count = 1, .value = access->value};
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;

    if (!captured && group->cuda->stream_write_value32 != NULL)
        result = group->cuda->stream_write_value32(stream,
            (CUdeviceptr)(uintptr_t)access->out, access->value,
            CU_STREAM_WRITE_VALUE_DEFAULT);
    if (is_refusal(result))
        return launch(group, SYMC_KERNEL_WRITE32, (struct symc_grid){1, 1},
            stream, &args);
    return result == CUDA_SUCCESS ? SYMMCOLL_OK
                                  : symc_cuda_group_fail(group, result,
                                        "cuStreamWriteValue32 of %u at %p",
                                        access->value, access->out);
}

/* Returns the group for the kernel of an access.  A wait for one peer ends only when that
 * peer leaves, not when another member does. */
static struct symc_device_group make_group(
    const struct symc_cuda_group *group, const struct symc_access *access)
{
    struct symc_device_group made = symc_cuda_make_group(group, access->op);

    if (access->kind != SYMC_ACCESS_BARRIER)
        made.aborted = &group->device_words->left[access->peer];
    return made;
}

static symmcoll_status_t await_word(struct symc_cuda_group *group,
    const struct symc_access *access, CUstream stream)
{
    struct symc_wait_args args = {.group = make_group(group, access),
        .at = access->in,
        .value = access->value,
        .peer = (uint32_t)access->peer};

    return launch(
        group, SYMC_KERNEL_WAIT32, (struct symc_grid){1, 1}, stream, &args);
}

static symmcoll_status_t signal_peers(struct symc_cuda_group *group,
    const struct symc_access *access, CUstream stream)
{
    struct symc_signal_args args = {.group = make_group(group, access),
        .pads = symc_cuda_joined_data(access->joined, access->pad_at),
        .channel = (uint32_t)access->channel,
        .peer = (uint32_t)access->peer};
    struct symc_grid grid = {1, 1};
    enum symc_kernel kernel = SYMC_KERNEL_WAIT_SIGNAL;

    if (access->kind == SYMC_ACCESS_PUT_SIGNAL)
        kernel = SYMC_KERNEL_PUT_SIGNAL;
    if (access->kind == SYMC_ACCESS_BARRIER) {
        kernel = SYMC_KERNEL_SIGNAL_BARRIER;
        grid.threads = (uint32_t)group->size;
    }
    return launch(group, kernel, grid, stream, &args);
}

static symmcoll_status_t enqueue(struct symc_cuda_group *group,
    const struct symc_access *access, bool captured, CUstream stream)
{
    switch (access->kind) {
    case SYMC_ACCESS_COPY:
        return copy(group, access, stream);
    case SYMC_ACCESS_FILL32:
        return fill(group, access, stream);
    case SYMC_ACCESS_WRITE32:
        return write_word(group, access, captured, stream);
    case SYMC_ACCESS_WAIT32:
        return await_word(group, access, stream);
    default:
        return signal_peers(group, access, stream);
    }
}

/* ---- one access ---- */

/* Enqueues an access.  Sets the token (out) on an error as well, for the work that may be
 * on the stream already.  The context must be current. */
static symmcoll_status_t enqueue_all(struct symc_cuda_group *group,
    const struct symc_access *access, bool captured,
    struct symc_cuda_token **token)
{
    CUstream stream = access->op->stream;
    symmcoll_status_t status = enqueue(group, access, captured, stream);

    if (captured)
        return status;
    if (status == SYMMCOLL_OK)
        status = symc_cuda_order_beside(group, access->op, stream, token);
    if (status != SYMMCOLL_OK)
        *token = symc_cuda_order_abandon(group, access->op, stream);
    return status;
}

static symmcoll_status_t start(struct symc_cuda_group *group,
    const struct symc_access *access, struct symc_cuda_token **token)
{
    bool captured = false;
    symmcoll_status_t status =
        symc_cuda_query_captured(group, access->op->stream, &captured);

    if (status != SYMMCOLL_OK)
        goto end_call;
    if (!captured) {
        status = symc_cuda_order_take(group, access->op->stream);
        if (status != SYMMCOLL_OK)
            goto end_call;
    }
    status = symc_cuda_call_begin(group, access->op, access, captured);
    if (status == SYMMCOLL_OK)
        status = enqueue_all(group, access, captured, token);
end_call:
    symc_cuda_call_end(group, *token);
    return status;
}

symmcoll_status_t symc_cuda_access(
    void *state, const struct symc_access *access, void **token)
{
    struct symc_cuda_group *group = state;
    struct symc_cuda_entered entered;
    struct symc_cuda_token *started = NULL;
    symmcoll_status_t status;

    if (symc_cuda_gave_up(group))
        return symc_cuda_explain(group, access->op);
    status = symc_cuda_group_enter(group, &entered);
    if (status != SYMMCOLL_OK)
        return symc_cuda_of_one(status);
    status = start(group, access, &started);
    symc_cuda_leave(&entered);
    *token = started;
    if (status != SYMMCOLL_OK)
        return symc_cuda_of_one(status);
    return started != NULL ? SYMMCOLL_IN_PROGRESS : SYMMCOLL_OK;
}
