/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rounds in which members do something together: functions shared by the slot
 * files.
 */
#ifndef SYMC_RUN_SLOT_ROUNDS_H
#define SYMC_RUN_SLOT_ROUNDS_H

#include "run/runner.h"

/* Begins the rounds of a call; a member waits for the others until the
 * deadline, over all rounds.  They have the call's kind if it is one with
 * rounds of its own. */
void symc_slot_begin_rounds(struct symc_runner *runner,
    const struct symc_op *op, const struct symc_backend *backend,
    int64_t deadline_ns);

/* Holds the last round with this member's status.  Returns the status common to
 * all. */
symmcoll_status_t symc_slot_end_rounds(
    struct symc_runner *runner, symmcoll_status_t own);

/* Adds the call to the error of a failed group if it does not name it. */
symmcoll_status_t symc_slot_name_call(
    const struct symc_op *op, symmcoll_status_t status);

/* Keeps an error and its detail for later calls, and returns it. */
symmcoll_status_t symc_slot_keep_refusal(const struct symc_runner *runner,
    const struct symc_op *op, symmcoll_status_t status,
    struct symc_refusal *refusal);

#endif
