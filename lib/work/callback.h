/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The callback thread: one for each world, started with the first callback.
 */
#ifndef SYMC_WORK_CALLBACK_H
#define SYMC_WORK_CALLBACK_H

#include "base/base.h"

#include <pthread.h>
#include <stdatomic.h>

struct symc_queue;

struct symc_callback {
    struct symc_callback *next;
    /* Release it, after it has called what it is to call. */
    void (*run)(struct symc_callback *callback);
    /* Of its work: only to compare, for the queue may be gone. */
    const struct symc_queue *queue;
};

/* A callback that runs, and the one that has called it; both are on the callback
 * thread's stack. */
struct symc_calling {
    const struct symc_queue *queue; /* of its work */
    const struct symc_calling *outer;
};

struct symc_callbacks {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct symc_callback *head, *tail;
    pthread_t thread;
    _Atomic bool running;
    const struct symc_calling *calling; /* NULL: none; written by the thread
                                           alone, under the lock */
    bool stopping;
    bool over; /* nothing will be run any more */
};

void symc_callbacks_init(struct symc_callbacks *callbacks);

/* Wait until nothing is queued or running, of that queue's works or of any
 * (NULL); false when the time has passed. */
bool symc_callbacks_drain(struct symc_callbacks *callbacks,
    const struct symc_queue *queue, int64_t deadline_ns);

/* Run what is queued, then stop the thread; what comes later is refused. */
void symc_callbacks_stop(struct symc_callbacks *callbacks);

/* Release, after symc_callbacks_stop(). */
void symc_callbacks_destroy(struct symc_callbacks *callbacks);

/* Start the thread if need be, for that call.  Errors: ABORTED (it has been
 * stopped), SYSTEM. */
symmcoll_status_t symc_callbacks_start(
    struct symc_callbacks *callbacks, const char *where);

/* Queue a callback, which is taken; the thread must have been started.  False
 * where it has been stopped: then the callback remains the caller's. */
bool symc_callbacks_push(
    struct symc_callbacks *callbacks, struct symc_callback *callback);

/* Whether the caller is the callback thread. */
bool symc_callbacks_inside(struct symc_callbacks *callbacks);

/* Whether a callback of a work of this queue runs, for the callback thread or
 * under the lock. */
bool symc_callbacks_is_calling(
    const struct symc_callbacks *callbacks, const struct symc_queue *queue);

/* Whether the caller is a callback of a work of this queue: it must not wait
 * for what the queue has not ended yet. */
static inline bool symc_callbacks_inside_queue(
    struct symc_callbacks *callbacks, const struct symc_queue *queue)
{
    return __builtin_expect(
               atomic_load_explicit(&callbacks->running, memory_order_acquire),
               0) &&
           symc_callbacks_inside(callbacks) &&
           symc_callbacks_is_calling(callbacks, queue);
}

/* INVALID: the caller is inside that queue, and the call blocks. */
symmcoll_status_t symc_callbacks_refuse(const char *where);

/* In a callback: run what is queued of another queue's works now, since this
 * thread cannot wait for it. */
void symc_callbacks_run_queue(
    struct symc_callbacks *callbacks, const struct symc_queue *queue);

#endif
