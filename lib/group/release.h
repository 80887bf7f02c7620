/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a group during and after its release.
 */
#ifndef SYMC_GROUP_RELEASE_H
#define SYMC_GROUP_RELEASE_H

#include "group/group.h"

/* Add and drop a holder of the group's struct, which the last holder frees.
 * After the group's release only its failure flag and timeout may be read. */
struct symmcoll_group *symc_group_hold_bytes(struct symmcoll_group *group);
void symc_group_drop_bytes(struct symmcoll_group *group);

/* Releases groups with buffers that a backend still used, after another attempt
 * to reclaim them; for finalize, when no group is listed.  Errors: DEVICE (the
 * buffers still in use). */
symmcoll_status_t symc_groups_close_left(struct symmcoll_world *world);

/* ---- drain.c ---- */

/*
 * Waits until the operations of all groups, their callbacks and what these
 * start have ended, within timeouts.finalize; aborts the groups that have not.
 * Stops all groups afterwards.
 *
 * inside  out: a thread is stuck in a backend: nothing has been stopped, and the
 *         call can be repeated
 *
 * Errors: TIMEOUT (what had not ended, and the positions of the other ranks).
 */
symmcoll_status_t symc_groups_drain(struct symmcoll_world *world, bool *inside);

/* Waits until the operations of one group have ended, or aborts it.  Errors:
 * TIMEOUT. */
symmcoll_status_t symc_group_drain(struct symmcoll_group *group);

/* Checks whether a thread is stuck in a backend, in an aborted group with
 * operations that have not ended; such a group cannot be released.  Errors:
 * TIMEOUT. */
symmcoll_status_t symc_group_check_inside(
    struct symmcoll_group *group, const char *where);

/* Stops a drained group whose extensions have been cut.  Operations that a call
 * enqueued on a device after the drain end first; at the deadline the group is
 * aborted.  Errors: TIMEOUT. */
symmcoll_status_t symc_group_stop(
    struct symmcoll_group *group, const char *where, int64_t deadline_ns);

#endif
