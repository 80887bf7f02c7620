/* SPDX-License-Identifier: BSD-3-Clause */
/* Inheritance of a group from its parent.  Private to this directory. */
#ifndef SYMC_GROUP_INHERIT_H
#define SYMC_GROUP_INHERIT_H

#include "backend/backend.h"

/* Time for operations on a device to end before a split; they may wait for what
 * the program enqueues after the call. */
#define SYMC_GROUP_QUIET_NS SYMC_NS_PER_S

struct symc_partition;
struct symmcoll_group;

/* An object that a backend has created for a group from its parent's. */
struct symc_inherited {
    const struct symc_backend *backend;
    void *made; /* NULL: none, or taken by the slot */
};

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

/* symc_group_inherit(): see struct symc_core.  symc_group_drop_inherited()
 * releases what was not taken. */
void *symc_group_inherit(void *group);
void symc_group_drop_inherited(struct symmcoll_group *group);

#endif
