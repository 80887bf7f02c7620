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

/* ---- drain.c ---- */

/* Stop a group that has been drained and cut off.  What a call has enqueued on a
 * device between the two ends first: with a member that leaves, and at that time
 * at the latest, when the group is aborted.  Errors: TIMEOUT. */
symmcoll_status_t symc_group_stop(
    struct symmcoll_group *group, const char *where, int64_t deadline_ns);

#endif
