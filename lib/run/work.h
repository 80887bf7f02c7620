/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internals of a work handle.
 */
#ifndef SYMC_RUN_WORK_H
#define SYMC_RUN_WORK_H

#include "message/message.h"
#include "run/queue.h"

/* Values of a work's callbacks while they are being queued, and afterwards. */
#define SYMC_CALLING ((struct symc_callback *)1)
#define SYMC_CALLED ((struct symc_callback *)2)

struct symmcoll_work {
    /* in the queue, or among issued or running works */
    struct symmcoll_work *next;
    struct symc_queue *queue;   /* holds a reference, also as a spare */
    struct symc_engine *engine; /* the queue's */
    /* Latest first; SYMC_CALLING, then SYMC_CALLED, once the work has ended. */
    _Atomic(struct symc_callback *) callbacks;
    uint64_t ticket; /* ticket of a queued work */
    /* issued: 0 until the first look; running: from its start */
    int64_t deadline_ns;
    _Atomic uint64_t ended;   /* 1: status and error are final */
    _Atomic uint32_t holders; /* the user's handle and the queue */
    symmcoll_status_t status;
    bool issued; /* was not queued; never changes */
    bool paired; /* a send or receive, which is not in the queue */
    int source;  /* group rank it received from; -1: none, or not yet */
    struct symc_op op;
    struct symc_lists lists; /* copy of the op's lists, if any */
    void *arrays;            /* copies of the caller's arrays, or NULL */
    struct symc_pair pair;   /* a single send's or receive's state */
    /* recorder entry of a send, receive or running work */
    void *entry;
    int *source_out; /* caller's pointer, or NULL */

    /* For operations on device memory. */
    void *mark;    /* the backend's, until the start */
    void *token;   /* the backend's, while it runs */
    bool given_up; /* not to be started: its call has returned */
    /* given up during its start: the backend keeps its buffers */
    bool owned;
    /* deadline of its cancellation; 0: not being cancelled */
    int64_t cancel_ns;
    /* threads ordering a stream after it, which keep its token; needs
     * running_lock */
    int followers;
    uint64_t number;          /* position among all works ever started */
    _Atomic uint64_t started; /* 1: it runs or has ended */

    /* Kept by a spare. */
    struct symc_doorbell doorbell; /* wakes waiters */
    struct symc_error error;       /* set if status is one */
};

/* Returns the final status, and makes its error the calling thread's. */
static inline symmcoll_status_t symc_work_result(
    const struct symmcoll_work *work)
{
    return work->status < 0 ? symc_error_return(&work->error) : work->status;
}

/* Returns whether this process may use the work's queue; in a forked child the
 * queue is a copy. */
static inline bool symc_work_is_mine(const struct symmcoll_work *work)
{
    return *work->engine->origin.alive == 1;
}

/* Enters the group of a work without the ticket.  Returns false if the work has
 * ended, because the group may be freed then.  The group is not released while
 * a thread is inside. */
static inline bool symc_work_enter(struct symmcoll_work *work)
{
    atomic_fetch_add(&work->queue->visitors, 1);
    if (atomic_load(&work->ended) == 0)
        return true;
    atomic_fetch_sub(&work->queue->visitors, 1);
    return false;
}

static inline void symc_work_leave(struct symmcoll_work *work)
{
    atomic_fetch_sub(&work->queue->visitors, 1);
}

/* ---- stuck.c ---- */

/* symc_work_is_stuck() returns whether the thread that would complete a work is
 * stuck in a backend, in a failed group: the work may never end.
 * symc_work_refuse() returns the error of a call that waited for it. */
bool symc_work_is_stuck(struct symmcoll_work *work);
symmcoll_status_t symc_work_refuse(struct symmcoll_work *work);

/* ---- work.c ---- */

/* Waits for an operation that has begun and ends later.  Needs the ticket, and
 * passes it on. */
symmcoll_status_t symc_work_await(
    struct symc_queue *queue, const struct symc_op *op, uint64_t ticket);

/* Starts a work on device memory that was just submitted, if it was issued and
 * the members arrive within the polling time; otherwise the attendant starts it
 * when they have. */
void symc_work_launch(struct symmcoll_work *work);

/* ---- running.c ---- */

/* Returns the time until which to sleep between two tests of running works:
 * longer each time.  *nap_ns begins with 0. */
int64_t symc_running_nap(int64_t *nap_ns, int64_t deadline_ns);

/* ---- handle.c ---- */

/* Creates a work, from a spare if there is one.  It has two holders, the caller
 * and the queue. */
struct symmcoll_work *symc_work_create(
    struct symc_queue *queue, const struct symc_op *op);

/* Creates a work for a send or receive, which the queue does not complete. */
struct symmcoll_work *symc_work_create_paired(
    struct symc_queue *queue, const struct symc_op *op);

/* Copies the caller's arrays of a work's operation in a group of `size` ranks.
 * Errors: NO_MEMORY. */
symmcoll_status_t symc_work_copy_arrays(struct symmcoll_work *work, int size);

/* Completes a work: keeps its result, wakes waiters, queues callbacks. */
void symc_work_end(struct symmcoll_work *work, symmcoll_status_t status);

/* Adds a reference. */
static inline void symc_work_hold(struct symmcoll_work *work)
{
    atomic_fetch_add_explicit(&work->holders, 1, memory_order_relaxed);
}

/* Drops a reference. */
void symc_work_release(struct symmcoll_work *work);

/* Has the attendant complete a work without a waiter. */
void symc_work_entrust(struct symmcoll_work *work);

/* Frees the spares of a queue that is being closed; works are no longer
 * kept. */
void symc_work_drop_spares(struct symc_queue *queue);

#endif
