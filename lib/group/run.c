/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Execution of operations: numbers, recorder, and the choice of backends.  All
 * members compare their arguments in the backend of host memory, which also
 * moves data in host memory.  For other memory all members start the operation
 * in its backend (slot.c) once they agree.
 */
#include "group/device.h"
#include "group/group.h"

#include <stdio.h>
#include <string.h>

/* Publishes the note of an error that all ranks have got, so that a rank's exit
 * because of it can be explained.  The first success after it withdraws the
 * note: the rank has gone on. */
static void note_end(struct symmcoll_group *group, const struct symc_op *op,
    symmcoll_status_t status)
{
    bool missed = status == SYMMCOLL_ERR_TIMEOUT &&
                  symc_kind_has(op->kind, SYMC_MONITORED);

    if (status == SYMMCOLL_OK) {
        if ((atomic_fetch_and(&group->at_end, ~(uint32_t)SYMC_AT_END_NOTED) &
                SYMC_AT_END_NOTED) != 0)
            symc_members_withdraw_note(&group->members);
    } else if (group->size > 1 &&
               (status == SYMMCOLL_ERR_MISMATCH ||
                   status == SYMMCOLL_ERR_NO_MEMORY || missed)) {
        symc_members_note(&group->members, status, op);
        atomic_fetch_or(&group->at_end, SYMC_AT_END_NOTED);
    }
}

/* The rarely needed part of an operation's end. */
static __attribute__((noinline)) void end_with_more(
    struct symmcoll_group *group, const struct symc_op *op,
    symmcoll_status_t status)
{
    if (status < 0)
        symc_error_set_call(group->name, op->kind, op->seq);
    symc_group_tell(group, op, symc_group_flight(group, op)->entry, status);
    note_end(group, op, status);
}

/* Ends an operation; the only place where that is recorded. */
static inline void end(struct symmcoll_group *group, const struct symc_op *op,
    symmcoll_status_t status)
{
    struct symc_flight *flight = symc_group_flight(group, op);

    if (__builtin_expect(
            status != SYMMCOLL_OK ||
                atomic_load_explicit(&group->at_end, memory_order_relaxed) != 0,
            0))
        end_with_more(group, op, status);
    if (flight->entry != NULL)
        symc_trace_end(
            &group->world->trace, flight->entry, status == SYMMCOLL_OK);
    flight->entry = NULL;
    if (status == SYMMCOLL_OK &&
        symc_kinds[op->kind].counter == SYMC_COUNT_COLLECTIVE)
        atomic_store_explicit(&group->completed, op->seq, memory_order_relaxed);
}

void symc_group_finish(struct symmcoll_group *group, const struct symc_op *op,
    symmcoll_status_t status)
{
    end(group, op, status);
}

void symc_group_capture(struct symmcoll_group *group, const struct symc_op *op)
{
    struct symc_flight *flight = symc_group_flight(group, op);

    if (atomic_load_explicit(&group->at_end, memory_order_relaxed) != 0)
        end_with_more(group, op, SYMMCOLL_OK);
    if (flight->entry != NULL)
        symc_trace_capture(&group->world->trace, flight->entry);
    flight->entry = NULL;
    if (symc_kinds[op->kind].counter == SYMC_COUNT_COLLECTIVE)
        atomic_store_explicit(&group->completed, op->seq, memory_order_relaxed);
}

void symc_group_go_on(struct symmcoll_group *group)
{
    note_end(group, NULL, SYMMCOLL_OK);
}

/* Take and store the numbers of the next operation.  Need the group's ticket,
 * so no other thread writes them. */
static inline void take_numbers(
    const struct symmcoll_group *group, struct symc_op *op)
{
    unsigned int counter = symc_kinds[op->kind].counter;

    symc_op_set_seq(op,
        atomic_load_explicit(&group->seq[counter], memory_order_relaxed) + 1);
    op->wire = group->wire + 1;
    op->flight = (uint8_t)(op->wire % SYMC_FLIGHTS);
}

static inline void keep_numbers(
    struct symmcoll_group *group, const struct symc_op *op)
{
    unsigned int counter = symc_kinds[op->kind].counter;

    atomic_store_explicit(&group->seq[counter], op->seq, memory_order_relaxed);
    group->wire = op->wire;
}

/* Prepares an operation on device memory once it is compared.  The first one
 * opens the backend.  The queue starts the operation afterwards. */
static __attribute__((noinline)) symmcoll_status_t prepare_device(
    struct symmcoll_group *group, const struct symc_op *op,
    symmcoll_status_t status)
{
    if (status == SYMMCOLL_IN_PROGRESS)
        status = symc_group_await(group, op);
    if (status == SYMMCOLL_OK && op->kind != SYMC_BARRIER)
        status = symc_slot_open(group, op, NULL);
    if (status == SYMMCOLL_OK && op->kind != SYMC_BARRIER)
        status = symc_slot_prepare(group, op);
    if (status != SYMMCOLL_OK)
        end(group, op, status);
    return status;
}

/* Returns whether an operation continues in a failed group: a monitored barrier
 * that reports all missing ranks, when one has died. */
static bool goes_on(
    const struct symmcoll_group *group, const struct symc_op *op)
{
    const struct symc_monitored *monitored = op->out;

    return op->kind == SYMC_MONITORED_BARRIER && monitored->wait_all &&
           group->members.own.status == SYMMCOLL_ERR_PEER;
}

/* Ends the record of an attempt whose number belongs to a monitored barrier
 * that the other members have given up. */
static void pass_missed(struct symmcoll_group *group, const struct symc_op *op)
{
    struct symc_flight *flight = symc_group_flight(group, op);

    if (flight->entry != NULL)
        symc_trace_end(&group->world->trace, flight->entry, false);
    flight->entry = NULL;
}

/* Begins an operation with the next number, skipping those of monitored
 * barriers that the other members have given up without this rank. */
static inline symmcoll_status_t start_next(
    struct symmcoll_group *group, struct symc_op *op)
{
    const struct symc_slot *host = &group->slots[SYMC_MEMORY_HOST];

    for (;;) {
        symmcoll_status_t status;

        take_numbers(group, op);
        keep_numbers(group, op);
        status = host->backend->host->start(host->state, op);
        if (__builtin_expect(status != SYMC_MISSED, 1))
            return status;
        pass_missed(group, op);
    }
}

symmcoll_status_t symc_group_run(
    struct symmcoll_group *group, struct symc_op *op)
{
    symmcoll_status_t status;

    if (__builtin_expect(atomic_load_explicit(&group->members.stopped,
                             memory_order_acquire) != 0,
            0) &&
        !goes_on(group, op)) {
        /* an attempt to issue it may have set the number */
        symc_op_set_seq(op, 0);
        return symc_members_status(&group->members, op);
    }
    status = start_next(group, op);
    if (__builtin_expect(
            op->memory != SYMC_MEMORY_HOST || status == SYMMCOLL_IN_PROGRESS,
            0))
        return op->memory == SYMC_MEMORY_HOST
                   ? status
                   : prepare_device(group, op, status);
    end(group, op, status);
    return status;
}

/* ---- functions for the queue ---- */

static bool has_failed(void *context)
{
    struct symmcoll_group *group = context;

    return atomic_load_explicit(
               &group->members.stopped, memory_order_acquire) != 0;
}

/* Begins an operation without waiting.  Returns false if that is not possible,
 * or the group has failed and running it returns the error. */
static bool issue_in_queue(void *context, struct symc_op *op)
{
    struct symmcoll_group *group = context;
    const struct symc_slot *host = &group->slots[SYMC_MEMORY_HOST];

    if (has_failed(group) ||
        (op->memory != SYMC_MEMORY_HOST && !symc_slot_is_ready(group, op)))
        return false;
    take_numbers(group, op);
    if (!host->backend->host->issue(host->state, op))
        return false;
    keep_numbers(group, op);
    return true;
}

static symmcoll_status_t advance_in_queue(
    void *context, const struct symc_op *op, enum symc_advance how)
{
    struct symmcoll_group *group = context;
    const struct symc_slot *host = &group->slots[SYMC_MEMORY_HOST];
    symmcoll_status_t status =
        host->backend->host->advance(host->state, op, how);

    /* On device memory the operation has only been compared. */
    if (status < 0 || (status == SYMMCOLL_OK && op->memory == SYMC_MEMORY_HOST))
        end(group, op, status);
    return status;
}

static void await_progress(
    void *context, const struct symc_op *op, struct symc_wait_budget *budget)
{
    struct symmcoll_group *group = context;
    const struct symc_slot *host = &group->slots[SYMC_MEMORY_HOST];

    host->backend->host->await_progress(host->state, op, budget);
}

static symmcoll_status_t run_in_queue(void *group, struct symc_op *op)
{
    return symc_group_run(group, op);
}

static void expire_in_queue(void *context, const struct symc_op *op)
{
    struct symmcoll_group *group = context;
    /* Without the number, which a progress thread may be about to write. */
    struct symc_op known = {.kind = op->kind};
    char text[SYMC_OP_TEXT], who[SYMC_RANK_TEXT];

    memcpy(known.label, op->label, sizeof(known.label));
    symc_members_raise(&group->members, SYMMCOLL_ERR_TIMEOUT, &known, NULL,
        "%s timed out waiting for %s of group %s, with errors.blocking_wait on",
        symc_format_rank(&group->members.ranks, group->rank, SYMC_NO_PID, who),
        symc_op_format(known.kind, 0, known.label, text, sizeof(text)),
        group->name);
}

struct symc_queue_ops symc_group_queue_ops(struct symmcoll_group *group)
{
    const struct symc_slot *host = &group->slots[SYMC_MEMORY_HOST];
    struct symc_queue_ops ops = {.run = run_in_queue,
        .expire = expire_in_queue,
        .has_failed = has_failed,
        .group = group,
        .size = group->size};

    if (host->backend->host->issue == NULL)
        return ops;
    ops.issue = issue_in_queue;
    ops.advance = advance_in_queue;
    ops.await_progress = await_progress;
    ops.await_pairs = symc_group_await_pairs;
    ops.wake_pairs = symc_group_wake_pairs;
    return ops;
}
