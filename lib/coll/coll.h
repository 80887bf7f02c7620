/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Common part of all collectives: checks of arguments before anything changes,
 * and running the operation in the group. Private to this directory.
 */
#ifndef SYMC_COLL_COLL_H
#define SYMC_COLL_COLL_H

#include "group/group.h"

#include <symmcoll/collectives.h>

/* Checks the arguments that the caller has filled in (kind, type, reduction,
 * root, count and buffers) against the table of kinds, and sets the members
 * that follow from them. */
symmcoll_status_t symc_coll_check(
    struct symmcoll_group *group, struct symc_op *op);

/* Checks an op like symc_coll_check(), for buffers of the library in host
 * memory: skips the search for the memory that they are in, and for NaN. */
symmcoll_status_t symc_coll_check_own(
    struct symmcoll_group *group, struct symc_op *op);

/* Checks the lists of an op, after its other arguments. */
symmcoll_status_t symc_coll_check_lists(
    struct symmcoll_group *group, struct symc_op *op);

/* Checks an op on several buffers; the arrays are in host memory. If the
 * buffers are on a device, op->lists points to lists (out) afterwards. */
symmcoll_status_t symc_coll_check_coalesced(
    struct symmcoll_group *group, struct symc_op *op, struct symc_lists *lists);

/* Checks the buffers of a region, each of which has been checked by itself. */
symmcoll_status_t symc_coll_check_kept(
    struct symmcoll_group *group, struct symc_op *op, struct symc_lists *lists);

/* Checks what a valid op would send for NaN, as errors.nan_check says.
 * Errors: INVALID (there is a NaN). */
symmcoll_status_t symc_coll_inspect(
    struct symmcoll_group *group, const struct symc_op *op);

/* Returns the kind for several operations of one kind at once; 0: none. */
enum symc_kind symc_coll_coalesced_kind(enum symc_kind kind);

/* Returns whether the calling thread has an open region of the group. */
bool symc_coll_in_region(const struct symmcoll_group *group);

/* Keeps an operation in an open region, instead of running it. Returns false if
 * the region is not this thread's; status (out): the status of the call. */
bool symc_coll_keep(struct symmcoll_group *group, const struct symc_op *op,
    const struct symmcoll_call *call, struct symmcoll_work **work,
    symmcoll_status_t *status);

/* Returns the status of a call that is not started. A rank that is no member
 * gets NULL as its work. */
static inline symmcoll_status_t symc_coll_refuse(
    symmcoll_status_t status, struct symmcoll_work **work)
{
    if (status == SYMMCOLL_NOT_MEMBER && work != NULL)
        *work = NULL;
    return status;
}

/* Places an op without buffers on the device of the group's operations, if it
 * has one. */
void symc_coll_take_device(struct symmcoll_group *group, struct symc_op *op);

/* Finds the memory of a buffer of 1 byte or more. Errors: INVALID (the memory
 * has been freed), UNSUPPORTED (device memory that no backend serves). */
symmcoll_status_t symc_coll_find(struct symmcoll_group *group,
    const struct symc_op *op, const char *buffer, const void *at,
    enum symc_memory *memory, int16_t *device);

/* Applies the options of a call to a checked op. */
symmcoll_status_t symc_coll_apply(struct symmcoll_group *group,
    struct symc_op *op, const struct symmcoll_call *call);

/* Checks an op and applies the options of the call, before anything changes. */
symmcoll_status_t symc_coll_prepare(struct symmcoll_group *group,
    struct symc_op *op, const struct symmcoll_call *call);

/* Runs or queues a prepared op; call has its options. */
symmcoll_status_t symc_coll_run(struct symmcoll_group *group,
    struct symc_op *op, const struct symmcoll_call *call,
    struct symmcoll_work **work);

/* Prepares and runs an op. */
symmcoll_status_t symc_coll_issue(struct symmcoll_group *group,
    struct symc_op *op, const struct symmcoll_call *call,
    struct symmcoll_work **work);

/* Checks the peer and the size of a prepared send or receive, and places one of
 * device memory. */
symmcoll_status_t symc_coll_check_pair(
    struct symmcoll_group *group, struct symc_op *op);

#endif
