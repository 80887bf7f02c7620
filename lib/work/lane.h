/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A lane is the order of a group's operations: each takes a ticket, in the
 * order of calls, and runs when its number comes up.  Blocking operations run
 * on the caller's thread; queued ones on the lane's progress thread, which
 * starts with the first of them.
 */
#ifndef SYMC_WORK_LANE_H
#define SYMC_WORK_LANE_H

#include "base/base.h"
#include "base/op.h"
#include "segment/bell.h"

#include <symmcoll/work.h>

#include <pthread.h>
#include <stdatomic.h>

struct symc_origin;

/* What a lane needs of its group. */
struct symc_lane_ops {
    /* Run one operation to its end. */
    symmcoll_status_t (*run)(void *group, struct symc_op *op);
    /* A wait for work has expired in blocking-wait mode: fail the group. */
    void (*expire)(void *group, const struct symc_op *op);
    void *group;
};

struct symc_lane {
    _Atomic uint64_t next;    /* ticket of the next call */
    _Atomic uint64_t serving; /* the ticket whose turn it is */
    struct symc_bell bell;    /* for those who wait for their turn */
    struct symc_lane_ops ops;
    struct symc_origin *origin; /* of its works; borrowed */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    struct symmcoll_work *head, *tail;
    pthread_t thread;
    bool running; /* the progress thread */
    bool stopping;
};

void symc_lane_init(struct symc_lane *lane, const struct symc_lane_ops *ops,
    struct symc_origin *origin);

/* Let queued work end and stop the progress thread: no work is taken any more.
 */
void symc_lane_stop(struct symc_lane *lane);

/* Release, after symc_lane_stop(). */
void symc_lane_destroy(struct symc_lane *lane);

/* Wait until all turns taken so far are over; false when the time has passed.
 */
bool symc_lane_drain(struct symc_lane *lane, int64_t deadline_ns);

/* Queue an operation, which is copied.  Errors: NO_MEMORY, SYSTEM. */
symmcoll_status_t symc_lane_submit(struct symc_lane *lane,
    const struct symc_op *op, struct symmcoll_work **work);

/* Wait for the turn of a new ticket; gives the ticket. */
uint64_t symc_lane_wait(struct symc_lane *lane, uint64_t ticket);

/* Take a ticket and wait for its turn. */
static inline uint64_t symc_lane_enter(struct symc_lane *lane)
{
    uint64_t ticket =
        atomic_fetch_add_explicit(&lane->next, 1, memory_order_acquire);

    if (__builtin_expect(atomic_load_explicit(
                             &lane->serving, memory_order_acquire) == ticket,
            1))
        return ticket;
    return symc_lane_wait(lane, ticket);
}

static inline void symc_lane_leave(struct symc_lane *lane, uint64_t ticket)
{
    atomic_store_explicit(&lane->serving, ticket + 1, memory_order_release);
    symc_bell_touch(&lane->bell);
}

#endif
