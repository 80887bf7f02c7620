/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rounds in which members do something together: what the sources of slots share.
 */
#ifndef SYMC_GROUP_SLOT_ROUNDS_H
#define SYMC_GROUP_SLOT_ROUNDS_H

#include "group/group.h"

/* The rounds of a call begin; a member waits for others until then, in all of them.
 * They are of its kind where that has rounds itself. */
void symc_slot_begin_rounds(struct symmcoll_group *group,
    const struct symc_op *op, const struct symc_backend *backend,
    int64_t deadline_ns);

/* The last round: how this member has ended, what all come to. */
symmcoll_status_t symc_slot_end_rounds(
    struct symmcoll_group *group, symmcoll_status_t own);

/* In a group that has failed: the call, where the reason does not name it. */
symmcoll_status_t symc_slot_name_call(
    const struct symc_op *op, symmcoll_status_t status);

/* Keep an error and its detail for later calls, and return it in this one. */
symmcoll_status_t symc_slot_keep_refusal(const struct symmcoll_group *group,
    const struct symc_op *op, symmcoll_status_t status,
    struct symc_refusal *refusal);

/* An earlier call has been refused something, and this one does not try. */
symmcoll_status_t symc_slot_tell_refusal(const struct symmcoll_group *group,
    const struct symc_op *op, const struct symc_refusal *refusal,
    const char *what);

#endif
