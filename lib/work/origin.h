/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What works need of their world.  The world and each of its queues hold it, and
 * works hold their queue, so that a work may be asked and released after the
 * world has been finalized.
 */
#ifndef SYMC_WORK_ORIGIN_H
#define SYMC_WORK_ORIGIN_H

#include "segment/doorbell.h"
#include "work/callback.h"
#include "work/progress.h"

struct symc_origin {
    /* In lines of its own: waiting threads read it. */
    _Alignas(SYMC_FALSE_SHARING) const uint32_t *alive; /* 1; 0 in a fork */
    bool blocking_wait; /* a wait that expires fails the group */
    struct symc_waiting waiting;
    struct symc_callbacks callbacks;
    struct symc_pool pool;
    struct symc_attendant attendant;
    _Atomic uint32_t holders;
};

/* Make one with a single holder; blocking_wait and waiting are to be filled in.
 * Errors: NO_MEMORY. */
symmcoll_status_t symc_origin_create(struct symc_origin **origin);

/* One holder more. */
static inline void symc_origin_hold(struct symc_origin *origin)
{
    atomic_fetch_add_explicit(&origin->holders, 1, memory_order_relaxed);
}

/* One holder less; the last one frees it.  The callbacks and the threads must
 * have been stopped by then. */
void symc_origin_release(struct symc_origin *origin);

#endif
