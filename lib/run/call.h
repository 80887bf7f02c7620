/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions for all modules that call an operation of a group: reading the
 * options of a call, and running it on the caller's thread.
 */
#ifndef SYMC_RUN_CALL_H
#define SYMC_RUN_CALL_H

#include "run/work.h"

/* Description of struct symmcoll_call. */
extern const struct symc_sized symc_call_kind;

/* Applies the options of a call, which is not NULL, to an operation with
 * default options and known memory.  Errors: INVALID, UNSUPPORTED (a
 * stream). */
symmcoll_status_t symc_run_read_call(
    const struct symmcoll_call *call, struct symc_op *op);

/* Stores the sequence number of a call's work or operation in call->sequence.
 * call may be NULL. */
void symc_run_put_sequence(const struct symmcoll_call *call,
    const struct symc_op *op, const struct symmcoll_work *work);

/* Takes the group's ticket for the rounds of a call.  Errors: those of a group
 * that has failed while the ticket's holder was stuck in a backend. */
symmcoll_status_t symc_run_take_ticket(
    struct symc_runner *runner, enum symc_kind kind, uint64_t *ticket);

/* Runs a checked operation when its ticket is served, and waits for its end. */
static inline symmcoll_status_t symc_run_call(
    struct symc_runner *runner, struct symc_op *op)
{
    symmcoll_status_t status;
    uint64_t ticket;

    if (symc_queue_in_callback(runner->queue))
        return symc_callbacks_refuse(symc_kind_name(op->kind));
    if (!symc_queue_enter(runner->queue, op, &ticket))
        return symc_slot_refuse(runner, op);
    if (__builtin_expect(runner->queue->issued != NULL, 0))
        symc_queue_settle(runner->queue);
    status = symc_run_op(runner, op);
    if (__builtin_expect(status == SYMMCOLL_IN_PROGRESS, 0))
        return symc_work_await(runner->queue, op, ticket);
    symc_queue_leave(runner->queue, ticket);
    return status;
}

/* Calls a checked operation on device memory: with a work, or until it is
 * enqueued on the call's stream. */
symmcoll_status_t symc_run_call_device(struct symc_runner *runner,
    struct symc_op *op, struct symmcoll_work **work);

/* Returns whether the group uses this device on this rank, or none yet.  If it
 * returns false, *found is the device in use. */
bool symc_run_is_on_device(struct symc_runner *runner, int device, int *found);

/* Binds the group to an operation's device.  Errors: INVALID (it uses another
 * one). */
symmcoll_status_t symc_run_take_device(
    struct symc_runner *runner, const struct symc_op *op);

/* Enqueues what this rank does alone with joined memory, in the backend that
 * has joined it; op is access->op.  Returns OK once it is enqueued.  Errors:
 * the backend's, and those of a failed group. */
symmcoll_status_t symc_run_access(
    struct symc_runner *runner, const struct symc_access *access);

/* Runs a checked operation: with a work, or, without one (NULL), until it has
 * ended, or is enqueued on its stream. */
static inline symmcoll_status_t symc_run_start(
    struct symc_runner *runner, struct symc_op *op, struct symmcoll_work **work)
{
    if (__builtin_expect(op->memory != SYMC_MEMORY_HOST, 0))
        return symc_run_call_device(runner, op, work);
    if (work != NULL)
        return symc_queue_submit(runner->queue, op, NULL, work);
    return symc_run_call(runner, op);
}

#endif
