/* SPDX-License-Identifier: BSD-3-Clause */
/* Inheritance of a group from its parent.  Private to this directory. */
#ifndef SYMC_GROUP_INHERIT_H
#define SYMC_GROUP_INHERIT_H

#include "backend/backend.h"

struct symc_partition;
struct symmcoll_group;

/*
 * Collective, with the parent's ticket, after its groups have been created: has
 * the backend of devices split what its operations use, if it can.  own is this
 * rank's group; NULL: none.  Failures are logged, and the groups create their
 * own.
 */
void symc_groups_inherit(struct symmcoll_group *parent, enum symc_kind kind,
    const struct symc_partition *partition, struct symmcoll_group *own,
    int64_t timeout_ns);

/* Passes what the backend of devices hands on from a group to its shrunk one,
 * which lacks the excluded members. */
void symc_group_hand_on(struct symmcoll_group *old, struct symmcoll_group *made,
    const bool *excluded);

/* Releases what was not taken. */
void symc_group_drop_inherited(struct symmcoll_group *group);

#endif
