/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a call to its result.  It is checked; then a blocking operation runs on
 * the caller's thread, a small non-blocking one is issued by the call, and
 * another one is queued for a progress thread.
 */
#include "coll/coll.h"
#include "work/work.h"

#include <string.h>

static const struct symmcoll_call default_call = SYMMCOLL_CALL_INIT;
static const struct symc_sized call_kind = {.name = "call",
    .macro = "SYMMCOLL_CALL_INIT",
    .defaults = &default_call,
    .nbytes = sizeof(default_call),
    .least = sizeof(default_call.size)};

/* Apply the options of a call; NULL for the defaults is the usual case. */
static symmcoll_status_t apply_call(
    const struct symmcoll_call *call, struct symc_op *op)
{
    struct symmcoll_call copy;

    if (call->size != sizeof(*call)) {
        symmcoll_status_t status =
            symc_sized_read(&call_kind, symc_kind_name(op->kind), call, &copy);

        if (status != SYMMCOLL_OK)
            return status;
        call = &copy;
    }
    if (call->flags != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected flags of 0, found 0x%x", symc_kind_name(op->kind),
            call->flags);
    if (call->stream != NULL && op->memory == SYMC_MEMORY_HOST)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: a stream is for device memory, the buffers are in host memory",
            symc_kind_name(op->kind));
    if (call->stream != NULL)
        op->stream = call->stream;
    if (call->label != NULL)
        strncpy(op->label, call->label, sizeof(op->label) - 1);
    return symc_timeout_read(symc_kind_name(op->kind), call->timeout,
        op->timeout_ns, &op->timeout_ns);
}

static inline symmcoll_status_t apply(struct symmcoll_group *group,
    struct symc_op *op, const struct symmcoll_call *call)
{
    op->timeout_ns =
        atomic_load_explicit(&group->timeout_ns, memory_order_relaxed);
    return call != NULL ? apply_call(call, op) : SYMMCOLL_OK;
}

symmcoll_status_t symc_coll_apply(struct symmcoll_group *group,
    struct symc_op *op, const struct symmcoll_call *call)
{
    return apply(group, op, call);
}

symmcoll_status_t symc_coll_prepare(struct symmcoll_group *group,
    struct symc_op *op, const struct symmcoll_call *call)
{
    symmcoll_status_t status = symc_coll_check(group, op);

    return status == SYMMCOLL_OK ? apply(group, op, call) : status;
}

symmcoll_status_t symc_coll_issue(struct symmcoll_group *group,
    struct symc_op *op, const struct symmcoll_call *call,
    struct symmcoll_work **work)
{
    symmcoll_status_t status = symc_coll_prepare(group, op, call);

    if (status == SYMMCOLL_OK &&
        __builtin_expect(
            atomic_load_explicit(&group->region, memory_order_relaxed) != NULL,
            0) &&
        symc_coll_keep(group, op, call, work, &status))
        return status;
    return status == SYMMCOLL_OK ? symc_coll_run(group, op, work)
                                 : symc_coll_refuse(status, work);
}

symmcoll_status_t symc_coll_run(struct symmcoll_group *group,
    struct symc_op *op, struct symmcoll_work **work)
{
    symmcoll_status_t status;
    uint64_t ticket;

    if (work != NULL)
        return symc_queue_submit(group->queue, op, work);
    if (symc_callbacks_inside_queue(
            &group->queue->origin->callbacks, group->queue))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected no blocking call on the callback thread, in a "
            "callback of the same group",
            symc_kind_name(op->kind));
    ticket = symc_queue_enter(group->queue);
    if (__builtin_expect(group->queue->issued != NULL, 0))
        symc_queue_settle(group->queue);
    status = symc_group_run(group, op);
    if (__builtin_expect(status == SYMMCOLL_IN_PROGRESS, 0))
        return symc_work_await(group->queue, op, ticket);
    symc_queue_leave(group->queue, ticket);
    return status;
}
