/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on device memory.
 */
#ifndef SYMC_GROUP_DEVICE_H
#define SYMC_GROUP_DEVICE_H

#include "group/group.h"

/* Call an operation on device memory that has been checked: with a work, or until
 * it has been enqueued on the stream of the call. */
symmcoll_status_t symc_group_call_device(struct symmcoll_group *group,
    struct symc_op *op, struct symmcoll_work **work);

/* Whether the group is on this device of this rank, or on none so far; false: the
 * number of the one that it is on is found (out). */
bool symc_group_is_on_device(
    struct symmcoll_group *group, int device, int *found);

/* Have the group on the device of an operation of this rank; INVALID: it is on another
 * one. */
symmcoll_status_t symc_group_take_device(
    struct symmcoll_group *group, const struct symc_op *op);

/* Enqueue what this rank does alone with joined memory, in the backend that has
 * joined it; op is access->op.  OK: it has been enqueued.  Errors: those of the
 * backend, and of a group that has failed. */
symmcoll_status_t symc_group_access(
    struct symmcoll_group *group, const struct symc_access *access);

/* Under the ticket, as symc_group_finish() (run.c): an operation has been captured, so
 * for this rank it has ended well. */
void symc_group_capture(struct symmcoll_group *group, const struct symc_op *op);

/* Add what the queue may ask of them. */
void symc_device_add_ops(struct symc_queue_ops *ops);

#endif
