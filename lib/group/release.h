/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is there of a group while it is released, and after that.
 */
#ifndef SYMC_GROUP_RELEASE_H
#define SYMC_GROUP_RELEASE_H

#include "group/group.h"

/* A holder more, and one less, of its struct, which the last one frees: after its
 * release it can be read whether it has failed, and its timeout; nothing else is
 * there. */
struct symmcoll_group *symc_group_hold_bytes(struct symmcoll_group *group);
void symc_group_drop_bytes(struct symmcoll_group *group);

/* For finalize, when no group is known any more: release what groups have left to a
 * backend, which is asked once more.  Errors: DEVICE (what it still owns). */
symmcoll_status_t symc_groups_close_left(struct symmcoll_world *world);

/* ---- drain.c ---- */

/*
 * Let the operations of all groups and their callbacks end, and what these
 * start, within timeouts.finalize; the groups that are not done by then are
 * aborted.  Takes no more operations afterwards.
 * inside  out: a thread stands in a backend: nothing has been stopped, and it can
 *         be called again
 * Errors: TIMEOUT (what had not ended, and where the others are).
 */
symmcoll_status_t symc_groups_drain(struct symmcoll_world *world, bool *inside);

/* Let those of one group end, or abort it.  Errors: as above. */
symmcoll_status_t symc_group_drain(struct symmcoll_group *group);

/* In a group that has been aborted, whose operations have not ended: whether a
 * thread stands in a backend, for then it cannot be released.  Errors: TIMEOUT. */
symmcoll_status_t symc_group_check_inside(
    struct symmcoll_group *group, const char *where);

/* Stop a group that has been drained and cut off.  What a call has enqueued on a
 * device between the two ends first: with a member that leaves, and at that time
 * at the latest, when the group is aborted.  Errors: TIMEOUT. */
symmcoll_status_t symc_group_stop(
    struct symmcoll_group *group, const char *where, int64_t deadline_ns);

#endif
