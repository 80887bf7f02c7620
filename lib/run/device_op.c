/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on device memory: opening, starting, testing, cancelling and giving
 * up.  host_op.c compares them.  Sends and receives are in lib/pair.
 */
#include "run/device.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

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

/* Opens the backend of an operation's memory, with what the operation needs,
 * once the members have compared it. */
static symmcoll_status_t prepare(
    struct symc_runner *runner, const struct symc_op *op)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    if (op->kind == SYMC_BARRIER)
        return SYMMCOLL_OK;
    status = symc_slot_open(runner, op, NULL);
    if (status == SYMMCOLL_OK)
        status = symc_slot_prepare(runner, op);
    if (status != SYMMCOLL_OK)
        symc_run_finish(runner, op, status);
    return status;
}

symmcoll_status_t symc_device_run(
    struct symc_runner *runner, struct symmcoll_work *work)
{
    symmcoll_status_t status = symc_run_op(runner, &work->op);

    if (status == SYMMCOLL_OK)
        status = prepare(runner, &work->op);
    return symc_device_begin(runner, work, status);
}

symmcoll_status_t symc_device_begin(struct symc_runner *runner,
    struct symmcoll_work *work, symmcoll_status_t compared)
{
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
symmcoll_status_t symc_device_enqueue(struct symc_runner *runner,
    struct symmcoll_work *work, const struct symc_access *access)
{
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

symmcoll_status_t symc_device_test(struct symc_runner *runner,
    struct symmcoll_work *work, enum symc_advance how)
{
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

void symc_device_nap(struct symc_runner *runner, bool (*ready)(void *arg),
    void *arg, struct symc_wait_budget *budget)
{
    struct timespec pause = {.tv_nsec = SYMC_SLOT_NAP_NS};

    /* In a failed group a backend may take a while to stop. */
    if (symc_run_wait_until(runner, -1, ready, arg, budget) ==
        SYMC_WAIT_STOPPED)
        nanosleep(&pause, NULL);
}

symmcoll_status_t symc_device_refuse(
    struct symc_runner *runner, const struct symc_op *op, bool owned)
{
    symmcoll_status_t status = symc_slot_refuse(runner, op);
    struct symc_error error;

    if (!owned || status >= 0)
        return status;
    symc_error_keep(&error, status);
    return symc_slot_fail_owned(runner, op, &error);
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

bool symc_device_give_up(struct symc_runner *runner, struct symmcoll_work *work)
{
    struct issued issued = {&runner->slots[SYMC_MEMORY_HOST], &work->op};
    struct begun begun = {&runner->slots[SYMC_MEMORY_DEVICE], work};

    if (symc_queue_runs(&work->op))
        return symc_slot_mark_inside(runner, mark_given_up, &begun);
    return symc_slot_mark_inside(runner, mark_issued, &issued);
}
