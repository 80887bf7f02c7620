/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives of a group: what starts them, and what their files share.
 */
#ifndef SYMC_PAIR_PAIR_H
#define SYMC_PAIR_PAIR_H

#include "group/group.h"

/* ---- pair.c ---- */

/*
 * Start a send or receive, whose arguments have been checked and which, of device
 * memory, has been placed; and wait for it, where work is NULL.
 *
 * source  out, at the end of a receive: whom it is from; may be NULL
 */
symmcoll_status_t symc_group_pair(struct symmcoll_group *group,
    struct symc_op *op, int *source, struct symmcoll_work **work);

/* Send a small message at once, by a blocking call without options; false: that
 * cannot be done, nothing has happened, and the call is to be checked and to take
 * the way above. */
bool symc_group_send_small(struct symmcoll_group *group, const void *buf,
    size_t count, enum symmcoll_dtype dtype, int peer, int64_t tag);

/* Several of them, with one work and one number.  create() returns one with
 * room for so many, NULL where there is no memory; its operations are to be
 * filled in.  start() takes it. */
struct symc_batch;
struct symc_batch *symc_batch_create(
    struct symmcoll_group *group, size_t count, enum symc_pair_space space);
struct symc_op *symc_batch_op(struct symc_batch *batch, size_t index);
void symc_batch_free(struct symc_batch *batch);
symmcoll_status_t symc_batch_start(struct symc_batch *batch,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/* ---- pair_device.c ---- */

/* A send or receive of device memory is to be made: its stream, where the call has none,
 * is the group's.  Errors: INVALID (the group is on another device), UNSUPPORTED (the
 * stream is captured). */
symmcoll_status_t symc_group_place_pair(
    struct symmcoll_group *group, struct symc_op *op);

/* What copies an operation's message on a device (out), whose order on the stream of
 * the call is that of this call; NULL: of host memory, or of no bytes.  Without the
 * lock.  Errors: this rank's own. */
symmcoll_status_t symc_group_begin_copying(struct symmcoll_group *group,
    struct symc_op *op, struct symc_copying **copying);

/* ---- here: under the lock of the rank's messages ---- */

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
