/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Works on device memory.  Private to this directory.
 */
#ifndef SYMC_RUN_DEVICE_H
#define SYMC_RUN_DEVICE_H

#include "run/runner.h"
#include "run/work.h"

/* Compares and starts a work.  Needs the ticket.  Returns IN_PROGRESS if it
 * runs now, else it has ended. */
symmcoll_status_t symc_device_run(
    struct symc_runner *runner, struct symmcoll_work *work);

/* Starts a work that was compared with status `compared` (OK: the members
 * agree), as symc_device_run(). */
symmcoll_status_t symc_device_begin(struct symc_runner *runner,
    struct symmcoll_work *work, symmcoll_status_t compared);

/* Starts what this rank does alone, without comparing and without the
 * ticket. */
symmcoll_status_t symc_device_enqueue(struct symc_runner *runner,
    struct symmcoll_work *work, const struct symc_access *access);

/* Tests a running work: IN_PROGRESS or its final status.  Needs the queue's
 * running_lock. */
symmcoll_status_t symc_device_test(struct symc_runner *runner,
    struct symmcoll_work *work, enum symc_advance how);

/* Waits until ready(arg), which a running work may cause.  Needs neither the
 * ticket nor running_lock. */
void symc_device_nap(struct symc_runner *runner, bool (*ready)(void *arg),
    void *arg, struct symc_wait_budget *budget);

/* Returns the error of a call that stops waiting for a stuck holder of the
 * ticket.  owned: the backend may still use the call's memory. */
symmcoll_status_t symc_device_refuse(
    struct symc_runner *runner, const struct symc_op *op, bool owned);

/* Gives up a work that has begun while the ticket's holder is stuck: the
 * caller's memory is not used afterwards, unless the holder is starting the
 * work (work->owned, out).  Returns false if the holder has come back, or is
 * starting the work from data in the call's stack frame. */
bool symc_device_give_up(
    struct symc_runner *runner, struct symmcoll_work *work);

#endif
