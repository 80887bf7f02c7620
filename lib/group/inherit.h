/* SPDX-License-Identifier: BSD-3-Clause */
/* What groups have of the one that they were made of.  Private to this directory. */
#ifndef SYMC_GROUP_INHERIT_H
#define SYMC_GROUP_INHERIT_H

#include "backend/backend.h"

/* How long what runs on a device may take to end, before what it uses is split: it may
 * wait for what the program enqueues after the call. */
#define SYMC_GROUP_QUIET_NS SYMC_NS_PER_S

struct symc_partition;
struct symmcoll_group;

/* What a backend has made for a group of the one that it was made of. */
struct symc_inherited {
    const struct symc_backend *backend;
    void *made; /* NULL: nothing, or its slot has taken it */
};

/*
 * Collective, under the parent's ticket, after its groups have been made: have the
 * backend of devices split what its operations use, where all have told it to.  own is
 * this rank's group; NULL: none.  What fails is logged, and the groups make their own.
 */
void symc_groups_inherit(struct symmcoll_group *parent, enum symc_kind kind,
    const struct symc_partition *partition, struct symmcoll_group *own,
    int64_t timeout_ns);

/* What is left of a group, without these members of it, has what its backend of devices
 * hands on. */
void symc_group_hand_on(struct symmcoll_group *old, struct symmcoll_group *made,
    const bool *excluded);

/* As of struct symc_core; and what nobody has taken is released. */
void *symc_group_inherit(void *group);
void symc_group_drop_inherited(struct symmcoll_group *group);

#endif
