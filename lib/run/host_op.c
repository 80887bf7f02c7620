/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations in the backend of host memory: numbers, recorder, execution.  All
 * members compare their arguments there, also those of operations on other
 * memory, which are started afterwards (device_op.c).  Rounds exchange data for
 * the library itself: no program has called them, and they are not recorded.
 */
#include "run/runner.h"

#include <stdio.h>
#include <string.h>

/* Publishes the note of an error that all ranks have got, so that a rank's exit
 * because of it can be explained.  The first success after it withdraws the
 * note: the rank has gone on. */
static void note_end(struct symc_runner *runner, const struct symc_op *op,
    symmcoll_status_t status)
{
    bool missed = status == SYMMCOLL_ERR_TIMEOUT &&
                  symc_kind_has(op->kind, SYMC_MONITORED);

    if (status == SYMMCOLL_OK) {
        if ((atomic_fetch_and(&runner->at_end, ~(uint32_t)SYMC_AT_END_NOTED) &
                SYMC_AT_END_NOTED) != 0)
            symc_members_withdraw_note(&runner->members);
    } else if (runner->size > 1 &&
               (status == SYMMCOLL_ERR_MISMATCH ||
                   status == SYMMCOLL_ERR_NO_MEMORY || missed)) {
        symc_members_note(&runner->members, status, op);
        atomic_fetch_or(&runner->at_end, SYMC_AT_END_NOTED);
    }
}

/* The rarely needed part of an operation's end. */
static __attribute__((noinline)) void end_with_more(struct symc_runner *runner,
    const struct symc_op *op, symmcoll_status_t status)
{
    if (status < 0)
        symc_error_set_call(runner->name, op->kind, op->seq);
    symc_run_notify(runner, op, symc_run_flight(runner, op)->entry, status);
    note_end(runner, op, status);
}

/* Ends an operation; the only place where that is recorded. */
static inline void end(struct symc_runner *runner, const struct symc_op *op,
    symmcoll_status_t status)
{
    struct symc_flight *flight = symc_run_flight(runner, op);

    if (__builtin_expect(
            status != SYMMCOLL_OK || atomic_load_explicit(&runner->at_end,
                                         memory_order_relaxed) != 0,
            0))
        end_with_more(runner, op, status);
    if (flight->entry != NULL)
        symc_trace_end(
            &runner->world->trace, flight->entry, status == SYMMCOLL_OK);
    flight->entry = NULL;
    if (status == SYMMCOLL_OK &&
        symc_kinds[op->kind].counter == SYMC_COUNT_COLLECTIVE)
        atomic_store_explicit(
            &runner->completed, op->seq, memory_order_relaxed);
}

void symc_run_finish(struct symc_runner *runner, const struct symc_op *op,
    symmcoll_status_t status)
{
    end(runner, op, status);
}

void symc_run_capture(struct symc_runner *runner, const struct symc_op *op)
{
    struct symc_flight *flight = symc_run_flight(runner, op);

    if (atomic_load_explicit(&runner->at_end, memory_order_relaxed) != 0)
        end_with_more(runner, op, SYMMCOLL_OK);
    if (flight->entry != NULL)
        symc_trace_capture(&runner->world->trace, flight->entry);
    flight->entry = NULL;
    if (symc_kinds[op->kind].counter == SYMC_COUNT_COLLECTIVE)
        atomic_store_explicit(
            &runner->completed, op->seq, memory_order_relaxed);
}

void symc_run_go_on(struct symc_runner *runner)
{
    note_end(runner, NULL, SYMMCOLL_OK);
}

/* Take and store the numbers of the next operation.  Need the group's ticket,
 * so no other thread writes them. */
static inline void take_numbers(
    const struct symc_runner *runner, struct symc_op *op)
{
    unsigned int counter = symc_kinds[op->kind].counter;

    symc_op_set_seq(op,
        atomic_load_explicit(&runner->seq[counter], memory_order_relaxed) + 1);
    op->wire = runner->wire + 1;
    op->flight = (uint8_t)(op->wire % SYMC_FLIGHTS);
}

static inline void keep_numbers(
    struct symc_runner *runner, const struct symc_op *op)
{
    unsigned int counter = symc_kinds[op->kind].counter;

    atomic_store_explicit(&runner->seq[counter], op->seq, memory_order_relaxed);
    runner->wire = op->wire;
}

/* Waits, with the ticket, for an operation that the backend of host memory has
 * begun.  Returns its status. */
static symmcoll_status_t await(
    struct symc_runner *runner, const struct symc_op *op)
{
    const struct symc_slot *host = &runner->slots[SYMC_MEMORY_HOST];
    struct symc_wait_budget budget = {
        .deadline_ns = symc_deadline_ns(symc_now_ns(), op->timeout_ns)};
    symmcoll_status_t status;

    for (;;) {
        status = host->backend->host->advance(host->state, op,
            symc_now_ns() >= budget.deadline_ns ? SYMC_ADVANCE_EXPIRED
                                                : SYMC_ADVANCE_LOOK);
        if (status != SYMMCOLL_IN_PROGRESS)
            return status;
        symc_run_await_progress(runner, op, &budget);
    }
}

/* Waits until the members have compared an operation on device memory. */
static __attribute__((noinline)) symmcoll_status_t compare(
    struct symc_runner *runner, const struct symc_op *op,
    symmcoll_status_t status)
{
    if (status == SYMMCOLL_IN_PROGRESS)
        status = await(runner, op);
    if (status != SYMMCOLL_OK)
        end(runner, op, status);
    return status;
}

/* Returns whether an operation continues in a failed group: a monitored barrier
 * that reports all missing ranks, when one has died. */
static bool goes_on(const struct symc_runner *runner, const struct symc_op *op)
{
    const struct symc_monitored *monitored = op->out;

    return op->kind == SYMC_MONITORED_BARRIER && monitored->wait_all &&
           runner->members.own.status == SYMMCOLL_ERR_PEER;
}

/* Ends the record of an attempt whose number belongs to a monitored barrier
 * that the other members have given up. */
static void pass_missed(struct symc_runner *runner, const struct symc_op *op)
{
    struct symc_flight *flight = symc_run_flight(runner, op);

    if (flight->entry != NULL)
        symc_trace_end(&runner->world->trace, flight->entry, false);
    flight->entry = NULL;
}

/* Begins an operation with the next number, skipping those of monitored
 * barriers that the other members have given up without this rank. */
static inline symmcoll_status_t start_next(
    struct symc_runner *runner, struct symc_op *op)
{
    const struct symc_slot *host = &runner->slots[SYMC_MEMORY_HOST];

    for (;;) {
        symmcoll_status_t status;

        take_numbers(runner, op);
        keep_numbers(runner, op);
        status = host->backend->host->start(host->state, op);
        if (__builtin_expect(status != SYMC_MISSED, 1))
            return status;
        pass_missed(runner, op);
    }
}

symmcoll_status_t symc_run_op(struct symc_runner *runner, struct symc_op *op)
{
    symmcoll_status_t status;

    if (__builtin_expect(atomic_load_explicit(&runner->members.stopped,
                             memory_order_acquire) != 0,
            0) &&
        !goes_on(runner, op)) {
        /* an attempt to issue it may have set the number */
        symc_op_set_seq(op, 0);
        return symc_members_status(&runner->members, op);
    }
    status = start_next(runner, op);
    if (__builtin_expect(
            op->memory != SYMC_MEMORY_HOST || status == SYMMCOLL_IN_PROGRESS,
            0))
        return op->memory == SYMC_MEMORY_HOST ? status
                                              : compare(runner, op, status);
    end(runner, op, status);
    return status;
}

/* ---- operations that are issued ---- */

bool symc_run_issue(struct symc_runner *runner, struct symc_op *op)
{
    const struct symc_slot *host = &runner->slots[SYMC_MEMORY_HOST];

    if (host->backend->host->issue == NULL || symc_run_has_failed(runner))
        return false;
    take_numbers(runner, op);
    if (!host->backend->host->issue(host->state, op))
        return false;
    keep_numbers(runner, op);
    return true;
}

symmcoll_status_t symc_run_advance(
    struct symc_runner *runner, const struct symc_op *op, enum symc_advance how)
{
    const struct symc_slot *host = &runner->slots[SYMC_MEMORY_HOST];
    symmcoll_status_t status =
        host->backend->host->advance(host->state, op, how);

    /* On device memory the operation has only been compared. */
    if (status < 0 || (status == SYMMCOLL_OK && op->memory == SYMC_MEMORY_HOST))
        end(runner, op, status);
    return status;
}

void symc_run_expire(struct symc_runner *runner, const struct symc_op *op)
{
    /* Without the number, which a progress thread may be about to write. */
    struct symc_op known = {.kind = op->kind};
    char text[SYMC_OP_TEXT], who[SYMC_RANK_TEXT];

    memcpy(known.label, op->label, sizeof(known.label));
    symc_members_raise(&runner->members, SYMMCOLL_ERR_TIMEOUT, &known, NULL,
        "%s timed out waiting for %s of group %s, with errors.blocking_wait on",
        symc_format_rank(
            &runner->members.ranks, runner->rank, SYMC_NO_PID, who),
        symc_op_format(known.kind, 0, known.label, text, sizeof(text)),
        runner->name);
}

/* ---- rounds ---- */

symmcoll_status_t symc_run_round(struct symc_runner *runner,
    enum symc_kind kind, const void *mine, void *all, size_t nbytes,
    int64_t timeout_ns)
{
    const struct symc_slot *host = &runner->slots[SYMC_MEMORY_HOST];
    struct symc_op op = {.kind = kind,
        .dtype = SYMMCOLL_UINT8,
        .count = nbytes,
        .elem = 1,
        .in = mine,
        .out = all,
        .timeout_ns = timeout_ns};
    symmcoll_status_t status;

    do {
        op.wire = ++runner->wire;
        status = host->backend->host->start(host->state, &op);
        if (status == SYMMCOLL_IN_PROGRESS)
            status = await(runner, &op);
        if (status == SYMC_MISSED)
            atomic_fetch_add(&runner->seq[SYMC_COUNT_COLLECTIVE], 1);
    } while (status == SYMC_MISSED);
    return status;
}
