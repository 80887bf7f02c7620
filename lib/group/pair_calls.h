/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of a group's sends and receives share.  Private to them.  What is
 * not said to be without it is under the lock of the rank's sends and receives.
 */
#ifndef SYMC_GROUP_PAIR_CALLS_H
#define SYMC_GROUP_PAIR_CALLS_H

#include "group/group.h"

/* ---- pair_device.c ---- */

/* What copies an operation's message on a device (out), whose order on the stream of
 * the call is that of this call; NULL: of host memory, or of no bytes.  Without the
 * lock.  Errors: this rank's own. */
symmcoll_status_t symc_group_begin_copying(struct symmcoll_group *group,
    struct symc_op *op, struct symc_copying **copying);

/* ---- here ---- */

/* The number of the next one.  Nobody else counts them, so no exchange is
 * needed. */
static inline uint64_t symc_group_next_pair(struct symmcoll_group *group)
{
    _Atomic uint64_t *last = &group->seq[SYMC_COUNT_P2P];
    uint64_t number = atomic_load_explicit(last, memory_order_relaxed) + 1;

    atomic_store_explicit(last, number, memory_order_relaxed);
    return number;
}

/* Note one that starts; NULL where it is not recorded. */
static inline struct symc_trace_entry *symc_group_record_pair(
    const struct symmcoll_group *group, const struct symc_op *op)
{
    return group->trace >= 0
               ? symc_trace_start(&group->world->trace, group->trace, op)
               : NULL;
}

/* Whether there is more to do at the end of an operation. */
static inline bool symc_group_tells(const struct symmcoll_group *group)
{
    return __builtin_expect(
        atomic_load_explicit(&group->at_end, memory_order_relaxed) != 0, 0);
}

#endif
