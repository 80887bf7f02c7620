/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on device memory.
 */
#ifndef SYMC_RUN_DEVICE_H
#define SYMC_RUN_DEVICE_H

#include "run/runner.h"

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

/* Ends an operation that was captured, successfully for this rank.  Needs the
 * ticket.  See symc_run_finish(). */
void symc_run_capture(struct symc_runner *runner, const struct symc_op *op);

/* Adds the queue's functions for device memory. */
void symc_device_add_ops(struct symc_queue_ops *ops);

#endif
