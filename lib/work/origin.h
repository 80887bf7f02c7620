/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of a world that its works need.  The world and each of its queues
 * hold it, and works hold their queue, so that a work may be queried and
 * released after finalize.
 */
#ifndef SYMC_WORK_ORIGIN_H
#define SYMC_WORK_ORIGIN_H

#include "segment/doorbell.h"
#include "work/callback.h"
#include "work/progress.h"

struct symc_origin {
    /* On its own cache lines: waiting threads read it. */
    /* 1; 0 in a forked child */
    _Alignas(SYMC_FALSE_SHARING) const uint32_t *alive;
    bool blocking_wait; /* an expired wait fails the group */
    struct symc_waiting waiting;
    struct symc_callbacks callbacks;
    struct symc_pool pool;
    struct symc_attendant attendant;
    _Atomic uint32_t holders;
};

/* Creates an origin with one holder; the caller fills in blocking_wait and
 * waiting.  Errors: NO_MEMORY. */
symmcoll_status_t symc_origin_create(struct symc_origin **origin);

/* Adds a holder. */
static inline void symc_origin_hold(struct symc_origin *origin)
{
    atomic_fetch_add_explicit(&origin->holders, 1, memory_order_relaxed);
}

/* Removes a holder; the last one frees the origin.  Its callbacks and threads
 * must have been stopped by then. */
void symc_origin_release(struct symc_origin *origin);

#endif
