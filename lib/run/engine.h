/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The threads of a world that complete works without a waiter: the pool, which
 * runs queued operations, the attendant, which completes issued ones, and the
 * callback thread.  The world and each of its queues hold them, and works hold
 * their queue, so that a work may be queried and released after finalize.
 */
#ifndef SYMC_RUN_ENGINE_H
#define SYMC_RUN_ENGINE_H

#include "base/base.h"
#include "world/world.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- callback.c ---- */

struct symc_queue;

struct symc_callback {
    struct symc_callback *next;
    /* Calls the user's function and releases the callback. */
    void (*run)(struct symc_callback *callback);
    /* The work's queue; only compared, since it may have been freed. */
    const struct symc_queue *queue;
};

/* A running callback, and the one that it was called from, if any; both are on
 * the callback thread's stack. */
struct symc_calling {
    const struct symc_queue *queue; /* the work's queue */
    const struct symc_calling *outer;
};

struct symc_callbacks {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct symc_callback *head, *tail;
    pthread_t thread;
    _Atomic bool running;
    /* NULL: none; written by the callback thread only, under the lock */
    const struct symc_calling *calling;
    bool stopping;
    bool over; /* no more callbacks will run */
};

void symc_callbacks_init(struct symc_callbacks *callbacks);

/* Waits until no callback of a queue's works, or of any work (NULL), is queued
 * or running.  Returns false if the deadline has passed. */
bool symc_callbacks_drain(struct symc_callbacks *callbacks,
    const struct symc_queue *queue, int64_t deadline_ns);

/* Runs the queued callbacks, then stops the thread; later callbacks are
 * refused. */
void symc_callbacks_stop(struct symc_callbacks *callbacks);

/* Releases the resources, after symc_callbacks_stop(). */
void symc_callbacks_destroy(struct symc_callbacks *callbacks);

/* Starts the thread if it is not running; `where` names the call in messages.
 * Errors: ABORTED (the thread has been stopped), SYSTEM. */
symmcoll_status_t symc_callbacks_start(
    struct symc_callbacks *callbacks, const char *where);

/* Queues a callback and takes ownership of it; the thread must have been
 * started.  Returns false if the thread has been stopped: the callback remains
 * the caller's. */
bool symc_callbacks_push(
    struct symc_callbacks *callbacks, struct symc_callback *callback);

/* Returns whether the caller runs on the callback thread. */
bool symc_callbacks_inside(struct symc_callbacks *callbacks);

/* Returns whether a callback of one of the queue's works is running.  For the
 * callback thread, or under the lock. */
bool symc_callbacks_is_calling(
    const struct symc_callbacks *callbacks, const struct symc_queue *queue);

/* Returns INVALID for a blocking call inside a callback of the same queue. */
symmcoll_status_t symc_callbacks_refuse(const char *where);

/* Runs the queued callbacks of another queue's works from inside a callback, as
 * this thread cannot wait for itself. */
void symc_callbacks_run_queue(
    struct symc_callbacks *callbacks, const struct symc_queue *queue);

/* ---- pool.c ---- */

/*
 * INVARIANT: a task never waits for a thread of the pool.  A task runs the
 * queued operations of one group, which may block until those of another group
 * have ended on another rank; so each task gets a thread at once, an idle or a
 * new one.  A world therefore has at most one thread per group with queued
 * operations, plus those that became idle within the last second, one that
 * stays, and the attendant.
 */

/* A task of the pool.  The thread calls run() and does not access the task
 * afterwards. */
struct symc_task {
    void (*run)(struct symc_task *task);
};

struct symc_pool_thread;

struct symc_pool {
    pthread_mutex_t lock;
    struct symc_pool_thread *idle;  /* latest first */
    struct symc_pool_thread *ended; /* to be joined */
    int threads;                    /* threads that have not ended */
    bool stopping;
};

/* Runs a task on an idle or new thread.  Errors: NO_MEMORY, SYSTEM. */
symmcoll_status_t symc_pool_run(struct symc_pool *pool, struct symc_task *task);

void symc_pool_init(struct symc_pool *pool);

/* Ends all threads; no task may be running. */
void symc_pool_stop(struct symc_pool *pool);

/* Releases the resources, after symc_pool_stop(). */
void symc_pool_destroy(struct symc_pool *pool);

/* ---- engine.c ---- */

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
