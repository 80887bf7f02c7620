/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The internals of a work handle.
 */
#ifndef SYMC_WORK_WORK_H
#define SYMC_WORK_WORK_H

#include "message/message.h"
#include "work/origin.h"
#include "work/queue.h"

/* In place of a work's callbacks: while they are queued, and afterwards. */
#define SYMC_CALLING ((struct symc_callback *)1)
#define SYMC_CALLED ((struct symc_callback *)2)

struct symmcoll_work {
    struct symmcoll_work *next; /* in its queue, or of those issued */
    struct symc_queue *queue;   /* a hold of it, kept while a spare */
    struct symc_origin *origin; /* the queue's */
    /* The latest first; from the end on SYMC_CALLING, SYMC_CALLED. */
    _Atomic(struct symc_callback *) callbacks;
    uint64_t ticket;          /* of a queued one */
    int64_t deadline_ns;      /* of an issued one, 0: has not begun; of one
                                 that runs, from its start */
    _Atomic uint64_t ended;   /* 1: status and detail are final */
    _Atomic uint32_t holders; /* the user's handle, and the queue */
    symmcoll_status_t status;
    bool issued; /* was not queued; does not change */
    bool paired; /* sends and receives, which the queue knows nothing of */
    int source; /* group rank that it has received from; -1: none, or not yet */
    struct symc_op op;
    struct symc_lists lists; /* of an op that has some */
    void *arrays;            /* copies of the caller's arrays; or NULL */
    struct symc_pair pair;   /* one send or receive, where it is that */
    void *entry;             /* the recorder's, of that, or while it runs */
    int *source_out;         /* or NULL */

    /* On device memory. */
    void *mark;    /* the backend's, until the start */
    void *token;   /* the backend's, while it runs */
    bool given_up; /* it is not to be started: its call has returned */
    bool owned;    /* given up while it was being started: its buffers are the
                          backend's */
    int64_t cancel_ns; /* it is being cancelled until then; 0: it is not */
    int followers;   /* threads that order a stream after it: its token does not
                          end; under the lock of running ones */
    uint64_t number; /* of all that have run, from its start */
    _Atomic uint64_t started; /* 1: it runs, or has ended */

    /* What a spare keeps. */
    struct symc_doorbell doorbell; /* for those who wait */
    char detail[SYMC_DETAIL_MAX];
};

/* The final status, with its detail for the asking thread. */
static inline symmcoll_status_t symc_work_result(
    const struct symmcoll_work *work)
{
    return work->status < 0 ? symc_fail(work->status, "%s", work->detail)
                            : work->status;
}

/* Whether this process may touch the work's queue: in a forked child it is a
 * copy. */
static inline bool symc_work_is_mine(const struct symmcoll_work *work)
{
    return *work->origin->alive == 1;
}

/* Enter the group of a work without the ticket; false where the work has ended,
 * for then the group may be gone.  It is not released as long as somebody is
 * inside. */
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

/* Whether what would go on with a work stands in a backend, in a group that has
 * failed: then it may not end.  And the error of a call that waits for it. */
bool symc_work_is_stuck(struct symmcoll_work *work);
symmcoll_status_t symc_work_refuse(struct symmcoll_work *work);

/* ---- work.c ---- */

/* Under the ticket, which is passed on: wait for an operation that has begun
 * and ends later. */
symmcoll_status_t symc_work_await(
    struct symc_queue *queue, const struct symc_op *op, uint64_t ticket);

/* A work on device memory that has just been submitted: if it has been issued,
 * start it if the members come within the time of polling, else have the
 * attendant do it as soon as they have. */
void symc_work_launch(struct symmcoll_work *work);

/* ---- running.c ---- */

/* Until when to sleep, between two looks at what runs: longer each time, from
 * *nap_ns of 0 on. */
int64_t symc_running_nap(int64_t *nap_ns, int64_t deadline_ns);

/* ---- handle.c ---- */

/* Made by a queue, from a spare where there is one: one holder is the caller,
 * one the queue. */
struct symmcoll_work *symc_work_create(
    struct symc_queue *queue, const struct symc_op *op);

/* The same for sends and receives: nobody else will end it. */
struct symmcoll_work *symc_work_create_paired(
    struct symc_queue *queue, const struct symc_op *op);

/* Copy the caller's arrays of an operation of a work, which has some, in a group of
 * so many ranks.  Errors: NO_MEMORY. */
symmcoll_status_t symc_work_copy_arrays(struct symmcoll_work *work, int size);

/* The operation has ended: keep its result, wake, call back. */
void symc_work_end(struct symmcoll_work *work, symmcoll_status_t status);

/* One hold more. */
static inline void symc_work_hold(struct symmcoll_work *work)
{
    atomic_fetch_add_explicit(&work->holders, 1, memory_order_relaxed);
}

/* Release one hold. */
void symc_work_release(struct symmcoll_work *work);

/* Nobody will wait for a work: have the attendant end it. */
void symc_work_entrust(struct symmcoll_work *work);

/* The queue is being closed: works are not kept any more, and its spares are
 * freed. */
void symc_work_drop_spares(struct symc_queue *queue);

#endif
