/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all collectives share: checks of arguments, before anything changes, and
 * running the operation in the group.  Private to this directory.
 */
#ifndef SYMC_COLL_COLL_H
#define SYMC_COLL_COLL_H

#include "group/group.h"

#include <symmcoll/collectives.h>

/* Check what the caller has filled in, kind, type, reduction, root, count and
 * buffers, against the table of kinds; and fill in what follows from it. */
symmcoll_status_t symc_coll_check(
    struct symmcoll_group *group, struct symc_op *op);

/* The same where the buffers are the library's own, in memory of the host, and what is
 * in them is no number: where they are is not asked for. */
symmcoll_status_t symc_coll_check_own(
    struct symmcoll_group *group, struct symc_op *op);

/* The same of an op that has lists, after its other arguments. */
symmcoll_status_t symc_coll_check_lists(
    struct symmcoll_group *group, struct symc_op *op);

/* The same for several buffers, as they are in host memory; on a device the op has
 * these lists (out) from then on. */
symmcoll_status_t symc_coll_check_coalesced(
    struct symmcoll_group *group, struct symc_op *op, struct symc_lists *lists);

/* The same for those of a region, each of which has been checked. */
symmcoll_status_t symc_coll_check_kept(
    struct symmcoll_group *group, struct symc_op *op, struct symc_lists *lists);

/* errors.nan_check, of an op that has been checked.  Errors: INVALID (it would
 * send what is not a number). */
symmcoll_status_t symc_coll_inspect(
    struct symmcoll_group *group, const struct symc_op *op);

/* The kind that does several of one kind at once; 0: there is none. */
enum symc_kind symc_coll_coalesced_kind(enum symc_kind kind);

/* Whether the calling thread has an open region of the group. */
bool symc_coll_in_region(const struct symmcoll_group *group);

/* A region is open: whether it is this thread's, and the status of keeping the
 * operation there instead of running it. */
bool symc_coll_keep(struct symmcoll_group *group, const struct symc_op *op,
    const struct symmcoll_call *call, struct symmcoll_work **work,
    symmcoll_status_t *status);

/* The status of a call that is not started; a rank that is no member has no
 * work of it. */
static inline symmcoll_status_t symc_coll_refuse(
    symmcoll_status_t status, struct symmcoll_work **work)
{
    if (status == SYMMCOLL_NOT_MEMBER && work != NULL)
        *work = NULL;
    return status;
}

/* What has no buffers is on the device of the group's operations, if it has had
 * one there. */
void symc_coll_take_device(struct symmcoll_group *group, struct symc_op *op);

/* Where a buffer is, with a byte or more.  Errors: INVALID (in memory that is no
 * more), UNSUPPORTED (on a device, and no backend is for these). */
symmcoll_status_t symc_coll_find(struct symmcoll_group *group,
    const struct symc_op *op, const char *buffer, const void *at,
    enum symc_memory *memory, int16_t *device);

/* Apply the options of a call to what has been checked. */
symmcoll_status_t symc_coll_apply(struct symmcoll_group *group,
    struct symc_op *op, const struct symmcoll_call *call);

/* Check it and apply the options of the call, before anything changes. */
symmcoll_status_t symc_coll_prepare(struct symmcoll_group *group,
    struct symc_op *op, const struct symmcoll_call *call);

/* Then run it now, or queue it; the call is that of the options. */
symmcoll_status_t symc_coll_run(struct symmcoll_group *group,
    struct symc_op *op, const struct symmcoll_call *call,
    struct symmcoll_work **work);

/* Both. */
symmcoll_status_t symc_coll_issue(struct symmcoll_group *group,
    struct symc_op *op, const struct symmcoll_call *call,
    struct symmcoll_work **work);

/* The peer of a send or receive: another member; `where` is the call's name. */
symmcoll_status_t symc_coll_check_peer(const struct symmcoll_group *group,
    const char *where, bool sends, int peer);

/* The same of an op that has been prepared, and its size; one of device memory is
 * placed. */
symmcoll_status_t symc_coll_check_pair(
    struct symmcoll_group *group, struct symc_op *op);

#endif
