/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accesses of one rank to joined device memory. A call enqueues the access on
 * the group's current stream, or on the stream it is given, in program order,
 * and returns. The library does not wait for it; later work on the stream does.
 * The thread that monitors the group's operations detects a failure, and then
 * the group fails.
 */
#include "base/cancel.h"
#include "run/call.h"
#include "symm_mem/symm_mem.h"

/* Reads the timeout of a waiting kernel. A kernel cannot poll once and return,
 * so 0 is INVALID. */
static symmcoll_status_t read_timeout(const struct symmcoll_symm *handle,
    enum symc_kind kind, double timeout, int64_t *timeout_ns)
{
    struct symc_wait_budget budget;
    symmcoll_status_t status =
        symc_symm_read_timeout(handle, kind, timeout, &budget);

    *timeout_ns = budget.timeout_ns;
    if (status != SYMMCOLL_OK || *timeout_ns > 0)
        return status;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected a timeout of more than 0 s for %p in memory of CUDA "
        "device %d, found 0",
        symc_kind_name(kind), (void *)handle->at[handle->rank],
        handle->share->device_index);
}

/* Returns whether an access is to the pads, not to the data. */
static bool has_words(const struct symc_access *access)
{
    return access->kind == SYMC_ACCESS_PUT_SIGNAL ||
           access->kind == SYMC_ACCESS_WAIT_SIGNAL ||
           access->kind == SYMC_ACCESS_BARRIER;
}

static symmcoll_status_t enqueue(struct symmcoll_symm *handle,
    enum symc_kind kind, void *stream, double timeout,
    const struct symc_access *access)
{
    struct symc_op op = {.kind = kind,
        .memory = SYMC_MEMORY_DEVICE,
        .device = (int16_t)handle->share->device_index,
        .direct = true,
        .in = access->in,
        .out = access->out,
        .elem = 1};
    struct symc_access made = *access;
    symmcoll_status_t status = symc_symm_enter(handle, kind);

    if (status != SYMMCOLL_OK)
        return status;
    status = read_timeout(handle, kind, timeout, &op.timeout_ns);
    op.stream = stream;
    made.op = &op;
    made.joined = has_words(access) ? handle->share->joined_pads
                                    : handle->share->shared.joined;
    if (status == SYMMCOLL_OK)
        status = symc_run_access(symc_group_runner(handle->group), &made);
    symc_symm_leave(handle);
    return status;
}

symmcoll_status_t symc_symm_access_on(struct symmcoll_symm *handle,
    enum symc_kind kind, void *stream, double timeout,
    const struct symc_access *access)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = enqueue(handle, kind, stream, timeout, access);

    symc_cancel_restore(cancel);
    return status;
}

symmcoll_status_t symc_symm_access(struct symmcoll_symm *handle,
    enum symc_kind kind, double timeout, const struct symc_access *access)
{
    return symc_symm_access_on(
        handle, kind, symmcoll_group_stream(handle->group), timeout, access);
}

symmcoll_status_t symc_symm_enqueue_signal(struct symmcoll_symm *handle,
    enum symc_kind kind, int peer, int channel, double timeout)
{
    const struct symc_share *share = handle->share;
    struct symc_access access = {
        .kind = SYMC_ACCESS_PUT_SIGNAL, .peer = peer, .channel = channel};

    if (kind == SYMC_SYMM_WAIT_SIGNAL)
        access.kind = SYMC_ACCESS_WAIT_SIGNAL;
    if (kind == SYMC_SYMM_BARRIER) {
        access.kind = SYMC_ACCESS_BARRIER;
        access.pad_at = share->barrier_at;
    }
    return symc_symm_access(handle, kind, timeout, &access);
}

symmcoll_status_t symc_symm_enqueue_copy(struct symmcoll_symm *handle,
    enum symc_kind kind, void *out, const void *in, const void *buffer,
    size_t nbytes)
{
    struct symc_access access = {
        .kind = SYMC_ACCESS_COPY, .out = out, .in = in, .count = nbytes};
    symmcoll_status_t status = symc_symm_check_memory(
        handle, symc_kind_name(kind), "a buffer", buffer, nbytes);

    if (status != SYMMCOLL_OK)
        return status;
    if (symc_overlap(out, nbytes, in, nbytes))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected buffers of CUDA device %d that do not overlap, found "
            "%zu bytes at %p and at %p",
            symc_kind_name(kind), handle->share->device_index, nbytes, in, out);
    return symc_symm_access(handle, kind, -1, &access);
}
