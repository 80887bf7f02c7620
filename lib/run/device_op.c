/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on device memory: their calls, and the queue's functions for
 * compared operations.  Sends and receives are in lib/pair.
 */
#include "registry/registry.h"
#include "run/call.h"
#include "run/device.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- functions for the queue ---- */

/* Ends a running operation; took_ns is its time on the device, 0 if unknown.
 * The ticket is not held, so shared fields are written atomically. */
static void finish(struct symc_runner *runner, struct symmcoll_work *work,
    symmcoll_status_t status, int64_t took_ns)
{
    const struct symc_op *op = &work->op;
    bool right = status == SYMMCOLL_OK;
    _Atomic uint64_t *word = right ? &runner->completed : &runner->lost;
    uint64_t found = atomic_load(word);

    if (took_ns > 0 && work->entry != NULL)
        symc_trace_set_duration(&runner->world->trace, work->entry, took_ns);
    symc_run_notify(runner, op, work->entry, status);
    if (symc_kinds[op->kind].counter == SYMC_COUNT_NONE)
        symc_trace_end_beside(&runner->world->trace, work->entry,
            right ? SYMC_TRACE_COMPLETED : SYMC_TRACE_FAILED);
    else if (work->entry != NULL)
        symc_trace_end_running(&runner->world->trace, work->entry, right);
    work->entry = NULL;
    if (symc_kinds[op->kind].counter != SYMC_COUNT_COLLECTIVE)
        return;
    /* Keeps the highest number that succeeded and the lowest that failed. */
    while ((right ? found < op->seq : found == 0 || found > op->seq) &&
           !atomic_compare_exchange_weak(word, &found, op->seq))
        ;
}

/* Returns whether a compared barrier is complete without a device.  All members
 * find the same, as the slot is open on all or on none. */
static bool is_host_barrier(
    const struct symc_runner *runner, const struct symc_op *op)
{
    const struct symc_slot *slot = &runner->slots[op->memory];

    return op->kind == SYMC_BARRIER &&
           (slot->backend == NULL || !symc_slot_serves(slot, op->kind));
}

static symmcoll_status_t begin(
    void *context, struct symmcoll_work *work, symmcoll_status_t compared)
{
    struct symc_runner *runner = context;
    const struct symc_op *op = &work->op;
    struct symc_flight *flight = symc_run_flight(runner, op);
    symmcoll_status_t status;

    if (compared == SYMMCOLL_OK && work->given_up) {
        compared = symc_members_status(&runner->members, op);
        symc_run_finish(runner, op, compared);
    }
    if (compared != SYMMCOLL_OK || is_host_barrier(runner, op)) {
        symc_slot_unmark(runner, op->memory, work->mark);
        if (compared == SYMMCOLL_OK)
            symc_run_finish(runner, op, compared);
        return compared;
    }
    status = symc_slot_start(runner, op, work->mark, &work->token);
    if (status == SYMMCOLL_OK) {
        symc_run_capture(runner, op);
        return status;
    }
    if (status != SYMMCOLL_IN_PROGRESS) {
        symc_run_finish(runner, op, status);
        return status;
    }
    symc_run_go_on(runner);
    work->entry = flight->entry;
    flight->entry = NULL;
    work->deadline_ns = symc_deadline_ns(symc_now_ns(), op->timeout_ns);
    return status;
}

/* Records an access, with details of its kind as the label.  It has no sequence
 * number but that of the collective before it. */
static struct symc_trace_entry *record_access(
    struct symc_runner *runner, const struct symc_access *access)
{
    struct symc_op op = *access->op;
    const struct symc_ranks *ranks = &runner->members.ranks;
    int peer =
        ranks->global != NULL ? ranks->global[access->peer] : access->peer;

    op.seq = atomic_load(&runner->seq[SYMC_COUNT_COLLECTIVE]);
    op.dtype = SYMMCOLL_UINT8;
    op.issued = symc_ticks();
    if (access->kind == SYMC_ACCESS_COPY)
        snprintf(op.label, sizeof(op.label), "%zu bytes", access->count);
    else if (access->kind == SYMC_ACCESS_FILL32)
        snprintf(op.label, sizeof(op.label), "%zu words", access->count);
    else if (access->kind == SYMC_ACCESS_BARRIER)
        snprintf(op.label, sizeof(op.label), "channel %d", access->channel);
    else if (access->kind == SYMC_ACCESS_WRITE32)
        snprintf(op.label, sizeof(op.label), "value %u", access->value);
    else if (access->kind == SYMC_ACCESS_WAIT32)
        snprintf(op.label, sizeof(op.label), "rank %d value %u", peer,
            access->value);
    else
        snprintf(op.label, sizeof(op.label), "rank %d channel %d", peer,
            access->channel);
    return symc_trace_start_beside(&runner->world->trace, runner->trace, &op);
}

/* Enqueues an access, which the members do not compare. */
static symmcoll_status_t enqueue(
    void *context, struct symmcoll_work *work, const void *access)
{
    struct symc_runner *runner = context;
    struct symc_trace_entry *entry = record_access(runner, access);
    symmcoll_status_t status = symc_slot_access(runner, access, &work->token);

    /* The kernel has the timeout, which begins when the stream reaches it. */
    work->deadline_ns = SYMC_NEVER;
    work->entry = status == SYMMCOLL_IN_PROGRESS ? entry : NULL;
    if (status != SYMMCOLL_IN_PROGRESS)
        symc_trace_end_beside(&runner->world->trace, entry,
            status == SYMMCOLL_OK ? SYMC_TRACE_CAPTURED : SYMC_TRACE_FAILED);
    return status;
}

/* Ends a work with an error, after its buffers no longer change. */
static void give_up(struct symmcoll_work *work, symmcoll_status_t status)
{
    symc_error_keep(&work->error, status);
    work->cancel_ns = symc_now_ns() + SYMC_SLOT_CANCEL_NS;
}

/* Cancels a given-up work.  Returns IN_PROGRESS, or its error: its buffers no
 * longer change, or the detail says that the backend still owns them. */
static symmcoll_status_t cancel(
    struct symc_runner *runner, struct symmcoll_work *work)
{
    const struct symc_op *op = &work->op;

    if (work->followers == 0 &&
        symc_slot_cancel(runner, op->memory, work->token))
        return symc_error_return(&work->error);
    if (symc_now_ns() < work->cancel_ns)
        return SYMMCOLL_IN_PROGRESS;
    return symc_slot_keep(runner, op, work->token, &work->error);
}

static symmcoll_status_t test(
    void *context, struct symmcoll_work *work, enum symc_advance how)
{
    struct symc_runner *runner = context;
    symmcoll_status_t status = SYMMCOLL_OK;
    struct symc_slot_end end = {.took_ns = 0};

    if (work->cancel_ns == 0) {
        status = symc_slot_test(runner, &work->op,
            work->followers == 0 ? work->token : NULL, how, &end);
        if (status == SYMMCOLL_IN_PROGRESS)
            return status;
        if (!end.ended)
            give_up(work, status);
    }
    if (work->cancel_ns != 0)
        status = cancel(runner, work);
    if (status != SYMMCOLL_IN_PROGRESS)
        finish(runner, work, status, end.took_ns);
    return status;
}

static symmcoll_status_t follow(void *context, struct symmcoll_work *work)
{
    return symc_slot_follow(context, &work->op, work->token);
}

static void nap(void *context, bool (*ready)(void *arg), void *arg,
    struct symc_wait_budget *budget)
{
    struct timespec pause = {.tv_nsec = SYMC_SLOT_NAP_NS};

    /* In a failed group a backend may take a while to stop. */
    if (symc_run_wait_until(context, -1, ready, arg, budget) ==
        SYMC_WAIT_STOPPED)
        nanosleep(&pause, NULL);
}

static bool watch(void *context)
{
    return symc_slot_watch(context);
}

static bool stands(void *context, bool expired)
{
    return symc_slot_stands(context, expired);
}

static symmcoll_status_t refuse(
    void *context, const struct symc_op *op, bool owned)
{
    symmcoll_status_t status = symc_slot_refuse(context, op);
    struct symc_error error;

    if (!owned || status >= 0)
        return status;
    symc_error_keep(&error, status);
    return symc_slot_fail_owned(context, op, &error);
}

/* An operation on device memory, and its slot. */
struct begun {
    const struct symc_slot *slot;
    struct symmcoll_work *work;
};

/* Marks a begun work as given up.  Needs slot->noted.  A work that is being
 * started and moves data described in its caller's stack frame is not given up:
 * the call waits for it like the thread that starts it. */
static bool mark_given_up(void *arg)
{
    const struct begun *begun = arg;
    struct symmcoll_work *work = begun->work;
    bool starts = begun->slot->inside == &work->op;

    if (starts && symc_kind_has(work->op.kind, SYMC_MOVES))
        return false;
    work->given_up = true;
    work->owned = starts;
    return true;
}

/* An issued operation on host memory, and its slot. */
struct issued {
    const struct symc_slot *host;
    const struct symc_op *op;
};

static bool mark_issued(void *arg)
{
    const struct issued *issued = arg;

    issued->host->backend->host->give_up(issued->host->state, issued->op);
    return true;
}

static bool give_up_waiting(void *context, struct symmcoll_work *work)
{
    struct symc_runner *runner = context;
    struct issued issued = {&runner->slots[SYMC_MEMORY_HOST], &work->op};
    struct begun begun = {&runner->slots[SYMC_MEMORY_DEVICE], work};

    if (symc_queue_runs(&work->op))
        return symc_slot_mark_inside(runner, mark_given_up, &begun);
    return symc_slot_mark_inside(runner, mark_issued, &issued);
}

void symc_device_add_ops(struct symc_queue_ops *ops)
{
    ops->begin = begin;
    ops->enqueue = enqueue;
    ops->test = test;
    ops->follow = follow;
    ops->nap = nap;
    ops->watch = watch;
    ops->stands = stands;
    ops->refuse = refuse;
    ops->give_up = give_up_waiting;
}

/* ---- calls ---- */

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
    status = symc_queue_submit_device(runner->queue, op, mark, work);
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
    return status == SYMMCOLL_OK ? symc_queue_enqueue(runner->queue, op, access)
                                 : status;
}
