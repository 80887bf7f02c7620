/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The threads of a world that complete works without a waiter: the pool, which
 * runs queued operations, the attendant, which completes issued ones, and the
 * callback thread.  The world and each of its queues hold them, and works hold
 * their queue, so that a work may be queried and released after finalize.
 */
#ifndef SYMC_RUN_ENGINE_H
#define SYMC_RUN_ENGINE_H

#include "run/callback.h"
#include "run/pool.h"
#include "world/world.h"

/* The attendant thread, and the queues with issued works. */
struct symc_attendant {
    pthread_mutex_t lock;
    /* a queue was listed or needs the thread, or stopping was set */
    pthread_cond_t changed;
    pthread_cond_t left; /* the thread has finished with a queue */
    struct symc_queue *head, *tail;
    int listed;                 /* number of listed queues */
    struct symc_queue *visited; /* the queue it is checking */
    pthread_t thread;
    bool running;
    bool requested; /* some queue needs it */
    bool stopping;
};

struct symc_engine {
    struct symc_origin origin; /* the world's part */
    struct symc_callbacks callbacks;
    struct symc_pool pool;
    struct symc_attendant attendant;
    _Atomic uint32_t holders;
};

/* Creates the threads' state with one holder; no thread is started.  Errors:
 * NO_MEMORY. */
symmcoll_status_t symc_engine_create(struct symc_engine **engine);

/* Returns the threads of a world. */
static inline struct symc_engine *symc_engine_of(
    const struct symmcoll_world *world)
{
    return (struct symc_engine *)world->origin;
}

/* Adds a holder. */
static inline void symc_engine_hold(struct symc_engine *engine)
{
    atomic_fetch_add_explicit(&engine->holders, 1, memory_order_relaxed);
}

/* Removes a holder; the last one frees the state.  The callbacks and threads
 * must have been stopped by then. */
void symc_engine_release(struct symc_engine *engine);

#endif
