/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of operations: their options, and calls on device memory.
 */
#include "run/call.h"
#include "registry/registry.h"

#include <stddef.h>
#include <string.h>

static const struct symmcoll_call default_call = SYMMCOLL_CALL_INIT;
const struct symc_sized symc_call_kind = {.name = "call",
    .macro = "SYMMCOLL_CALL_INIT",
    .defaults = &default_call,
    .nbytes = sizeof(default_call),
    .least = sizeof(default_call.size)};

/* Returns whether an operation's buffers are empty, wherever they are.  The
 * library's own operations and those that move data without such buffers are
 * never empty. */
static bool is_empty(const struct symc_op *op)
{
    const struct symc_kind_info *info = &symc_kinds[op->kind];

    return op->count == 0 && info->counter != SYMC_COUNT_NONE &&
           (info->traits & SYMC_MOVES) == 0 &&
           (info->in_parts != SYMC_NO_PART ||
               info->out_parts != SYMC_NO_PART) &&
           (!op->listed || op->lists->out_total == 0);
}

/* Returns whether the host completes the operation before the call returns, on
 * device memory too. */
static bool is_round(enum symc_kind kind)
{
    return kind == SYMC_SYMM_RENDEZVOUS || kind == SYMC_SYMM_WORKSPACE;
}

/* Reads a call's stream, which orders work on a device.  An operation without
 * bytes enqueues nothing: it is only compared. */
static symmcoll_status_t read_stream(struct symc_op *op, void *stream)
{
    if (op->memory != SYMC_MEMORY_HOST)
        op->stream = stream;
    else if (is_round(op->kind))
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: expected no stream, for it enqueues nothing and returns when "
            "all ranks have joined, found %p",
            symc_kind_name(op->kind), stream);
    else if (op->kind == SYMC_BARRIER)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "barrier: expected no stream before the group's first operation on "
            "device memory, or barrier_devices, found %p",
            stream);
    else if (!is_empty(op))
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: expected no stream for host memory, found %p",
            symc_kind_name(op->kind), stream);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_run_read_call(
    const struct symmcoll_call *call, struct symc_op *op)
{
    symmcoll_status_t status = SYMMCOLL_OK;
    struct symmcoll_call copy;

    if (call->size != sizeof(*call)) {
        status = symc_sized_read(
            &symc_call_kind, symc_kind_name(op->kind), call, &copy);
        if (status != SYMMCOLL_OK)
            return status;
        call = &copy;
    }
    if (call->flags != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected flags of 0, found 0x%x", symc_kind_name(op->kind),
            call->flags);
    if (call->stream != NULL)
        status = read_stream(op, call->stream);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_timeout_read(symc_kind_name(op->kind), call->timeout,
        op->timeout_ns, &op->timeout_ns);
    if (status != SYMMCOLL_OK)
        return status;
    if (call->sequence != NULL)
        *call->sequence = 0;
    if (call->label != NULL)
        strncpy(op->label, call->label, sizeof(op->label) - 1);
    return SYMMCOLL_OK;
}

void symc_run_put_sequence(const struct symmcoll_call *call,
    const struct symc_op *op, const struct symmcoll_work *work)
{
    const size_t end =
        offsetof(struct symmcoll_call, sequence) + sizeof(call->sequence);

    /* An older program's struct ends before this member. */
    if (call == NULL || call->size < end || call->sequence == NULL)
        return;
    *call->sequence = work != NULL ? symmcoll_work_sequence(work) : op->seq;
}

symmcoll_status_t symc_run_take_ticket(
    struct symc_runner *runner, enum symc_kind kind, uint64_t *ticket)
{
    const struct symc_op op = {
        .kind = kind, .timeout_ns = atomic_load(&runner->timeout_ns)};

    return symc_queue_enter(runner->queue, &op, ticket)
               ? SYMMCOLL_OK
               : symc_slot_refuse(runner, &op);
}

/* ---- calls on device memory ---- */

bool symc_run_is_on_device(struct symc_runner *runner, int device, int *found)
{
    int32_t taken = atomic_load(&runner->device);

    *found = (int)taken - 1;
    return taken == 0 || taken == device + 1;
}

/* A group uses one device per rank, that of its first call. */
symmcoll_status_t symc_run_take_device(
    struct symc_runner *runner, const struct symc_op *op)
{
    bool first;
    int found;

    if (symc_slot_take_device(runner, op->device, &found, &first))
        return SYMMCOLL_OK;
    /* out belongs to the call, not the caller */
    if (symc_kind_has(op->kind, SYMC_MOVES))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected memory of device %d, as in earlier operations of "
            "group %s, found device %d",
            symc_kind_name(op->kind), found, runner->name, op->device);
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected memory of device %d, as in earlier operations of group "
        "%s, found device %d (in at %p, out at %p)",
        symc_kind_name(op->kind), found, runner->name, op->device, op->in,
        op->out);
}

symmcoll_status_t symc_run_call_device(
    struct symc_runner *runner, struct symc_op *op, struct symmcoll_work **work)
{
    bool blocks = work == NULL && (op->kind == SYMC_BARRIER ||
                                      runner->world->origin->blocking_wait);
    symmcoll_status_t status;
    void *mark = NULL;

    if (work == NULL && symc_queue_in_callback(runner->queue))
        return symc_callbacks_refuse(symc_kind_name(op->kind));
    status = symc_run_take_device(runner, op);
    if (status != SYMMCOLL_OK)
        return status;
    (void)symc_queue_look(runner->queue, SYMC_ADVANCE_PEEK);
    op->direct = work == NULL;
    if (op->stream == NULL)
        op->stream = atomic_load(&runner->stream);
    if (!op->checked)
        op->captured = op->stream != NULL &&
                       symc_registry_is_captured(&runner->world->registry,
                           (enum symc_memory)op->memory, op->stream);
    status = op->checked ? SYMMCOLL_OK : symc_slot_check(runner, op);
    if (status != SYMMCOLL_OK)
        return status;
    if (work == NULL)
        return symc_queue_run_device(runner->queue, op, blocks);
    status = symc_queue_prepare(runner->queue);
    if (status != SYMMCOLL_OK)
        return status;
    mark = symc_slot_mark(runner, op);
    status = symc_queue_submit(runner->queue, op, mark, work);
    if (status == SYMMCOLL_OK)
        symc_work_launch(*work);
    else
        symc_slot_unmark(runner, op->memory, mark);
    return status;
}

symmcoll_status_t symc_run_access(
    struct symc_runner *runner, const struct symc_access *access)
{
    const struct symc_op *op = access->op;
    symmcoll_status_t status;

    (void)symc_queue_look(runner->queue, SYMC_ADVANCE_PEEK);
    if (atomic_load_explicit(&runner->members.stopped, memory_order_acquire) !=
        0)
        return symc_members_status(&runner->members, op);
    status = symc_slot_check(runner, op);
    return status == SYMMCOLL_OK ? symc_queue_enqueue(runner->queue, access)
                                 : status;
}
