/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The callback thread: one per world, started with the first callback.
 */
#ifndef SYMC_RUN_CALLBACK_H
#define SYMC_RUN_CALLBACK_H

#include "base/base.h"

#include <pthread.h>
#include <stdatomic.h>

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

#endif
