/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operation queue of a group: each operation takes a ticket, in the order
 * of calls, and runs when its ticket is served.  Blocking operations run on the
 * caller's thread; asynchronous ones on a thread of the world's pool, which
 * serves the queue until nothing is queued (progress.h).
 *
 * Small operations are issued instead of queued, where nothing is queued ahead:
 * the call publishes what the peers need and passes the ticket on.  They end in
 * the order of issue, by whoever takes the ticket and finds that the peers'
 * contributions are there: a waiter, the next blocking operation, or, where
 * nobody asks for some milliseconds, the world's attendant (attend.c).  A small
 * one that runs is like those that are issued from the moment in which it would
 * sleep: only what runs to its end without a pause keeps its ticket.
 *
 * An operation on device memory is issued like those, of whatever size; once the
 * members have compared it, it is started, and is *running* then: out of the way
 * of what comes after it, in a list that has a lock of its own (running.c).
 *
 * INVARIANT: no thread that holds the ticket waits for a work that was issued
 * after the oldest.
 */
#ifndef SYMC_WORK_QUEUE_H
#define SYMC_WORK_QUEUE_H

#include "backend/backend.h"
#include "base/base.h"
#include "base/op.h"
#include "segment/doorbell.h"
#include "work/progress.h"

#include <symmcoll/work.h>

#include <pthread.h>
#include <stdatomic.h>

struct symc_origin;
struct symmcoll_work;

#define SYMC_SPARES 8 /* works that are kept for use again */

/* What a queue needs of its group. */
struct symc_queue_ops {
    /* Run one operation to its end; or IN_PROGRESS, as if it had been issued. */
    symmcoll_status_t (*run)(void *group, struct symc_op *op);
    /* A wait for work has expired in blocking-wait mode: fail the group. */
    void (*expire)(void *group, const struct symc_op *op);
    /* Whether the group has failed: then running ends at once. */
    bool (*has_failed)(void *group);
    /* As of struct symc_coll_ops. */
    bool (*issue)(void *group, struct symc_op *op);
    symmcoll_status_t (*advance)(
        void *group, const struct symc_op *op, enum symc_advance how);
    void (*doze)(
        void *group, const struct symc_op *op, struct symc_wait_budget *budget);
    /* Sends and receives, of which the queue knows nothing: wait for a word that
     * the end of one writes, or look once (until_ns 0); and have a thread look
     * after them. */
    void (*await_pairs)(
        void *group, const _Atomic uint64_t *word, int64_t until_ns);
    void (*ask_pairs)(void *group);
    /* Works on device memory, for which run() and advance() return OK once the
     * members have compared them.  Under the ticket: start one that they have
     * compared with that status.  IN_PROGRESS: it runs; else it has ended. */
    symmcoll_status_t (*begin)(
        void *group, struct symmcoll_work *work, symmcoll_status_t compared);
    /* The same without the ticket and without comparing: what a rank does alone,
     * access being the group's. */
    symmcoll_status_t (*enqueue)(
        void *group, struct symmcoll_work *work, const void *access);
    /* Under the lock of running ones: IN_PROGRESS, or the final status. */
    symmcoll_status_t (*test)(
        void *group, struct symmcoll_work *work, enum symc_advance how);
    /* Without both, while it has a follower: order the caller's stream after it.
     * IN_PROGRESS: there is no way to do so. */
    symmcoll_status_t (*follow)(void *group, struct symmcoll_work *work);
    /* Without both: wait until ready(arg), which one that runs may cause. */
    void (*nap)(void *group, bool (*ready)(void *arg), void *arg,
        struct symc_wait_budget *budget);
    /* Without both: whether the ticket's holder stands in a backend for longer than
     * an operation may take, or for a moment where who asks has waited to his deadline
     * (expired): then the group has failed of that.  NULL: that cannot be. */
    bool (*stands)(void *group, bool expired);
    /* Then: the error of a call that does not wait any more; whether the backend has
     * its memory all the same. */
    symmcoll_status_t (*refuse)(
        void *group, const struct symc_op *op, bool owned);
    /* Then, of one that has begun: it will not use the caller's memory, unless it is
     * what the holder starts (work->owned, out).  False: the holder has come back, or
     * starts this one by what is in the frame of its call. */
    bool (*give_up)(void *group, struct symmcoll_work *work);
    /* Without both, of the attendant: look at what was started without a call.
     * Returns whether to do so again, now and then. */
    bool (*watch)(void *group);
    void *group;
    int size; /* ranks of the group */
};

/* A ticket that its owner has given up: it is passed on when it is served. */
struct symc_given_up {
    struct symc_given_up *next;
    uint64_t ticket;
};

struct symc_queue {
    _Atomic uint64_t next;         /* ticket of the next call */
    _Atomic uint64_t serving;      /* the ticket that may run */
    struct symc_doorbell doorbell; /* of threads that wait for their ticket */
    struct symc_queue_ops ops;
    struct symc_origin *origin; /* held */

    /* Under the ticket: issued and not ended, the oldest first. */
    struct symmcoll_work *issued, *issued_tail;

    pthread_mutex_t lock; /* of what follows; flags are read without */
    pthread_cond_t changed;
    struct symmcoll_work *head, *tail;
    _Atomic(struct symc_given_up *) given_up;
    struct symc_task task; /* to run them */
    bool served;           /* a thread of the pool does */
    /* Works on device memory from their start to their end, in the order of
     * start. */
    pthread_mutex_t running_lock; /* after the ticket, where both are taken */
    struct symmcoll_work *running, *running_tail;
    _Atomic uint32_t nrunning;
    _Atomic uint64_t begun; /* how many have ever run */
    _Atomic bool ready;     /* the attendant has been started */
    _Atomic bool stopping;

    /* Under the attendant's lock; the flag is read without. */
    struct symc_queue *next_listed;
    bool listed;           /* with the attendant */
    _Atomic bool attended; /* it checks issued works now and then */
    bool asked;            /* it is to look at once */
    bool left;             /* it will not be listed any more */
    /* The attendant's own. */
    bool watched;     /* it is listed, as there may be what is not issued */
    int quiet;        /* times it has found nothing, in a row */
    uint64_t stalled; /* the oldest that it found the last time; 0: none */

    /* Not in a line that waiting threads read. */
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint32_t holders;
    /* Threads in the group without the ticket, through a work: the group is not
     * released before they have left. */
    _Atomic uint32_t visitors;
    _Alignas(SYMC_LINE) _Atomic(struct symmcoll_work *) spares[SYMC_SPARES];
};

/* Make a queue, which its group and its works hold.  Errors: NO_MEMORY. */
symmcoll_status_t symc_queue_create(const struct symc_queue_ops *ops,
    struct symc_origin *origin, struct symc_queue **queue);

/* Let queued work end and leave the world's threads: no work is accepted any
 * more.  What runs on a device may still do so, and no attendant looks at it. */
void symc_queue_stop(struct symc_queue *queue);

/* The group's release, after symc_queue_stop() and the end of callbacks: works
 * that hold the queue do not reach the group any more. */
void symc_queue_close(struct symc_queue *queue);

/* Wait until all tickets taken so far have been served; false when the time has
 * passed. */
bool symc_queue_drain(struct symc_queue *queue, int64_t deadline_ns);

/* Whether nothing is queued, issued or running. */
bool symc_queue_is_over(struct symc_queue *queue);

/* Issue or queue an operation, which is copied, with its arrays.  Errors: NO_MEMORY, SYSTEM. */
symmcoll_status_t symc_queue_submit(struct symc_queue *queue,
    const struct symc_op *op, struct symmcoll_work **work);

/* The same for an operation on device memory, with what the backend has marked
 * for it, or NULL.  Where this fails, the mark is the caller's; else
 * symc_work_launch() comes next. */
symmcoll_status_t symc_queue_submit_device(struct symc_queue *queue,
    const struct symc_op *op, void *mark, struct symmcoll_work **work);

/* The same without a work: until it has been started, or where that is asked
 * for, until it has ended.  OK, or the status with which it has ended.  op has the
 * number that it has taken (out). */
symmcoll_status_t symc_queue_run_device(
    struct symc_queue *queue, struct symc_op *op, bool to_the_end);

/* Enqueue what this rank alone does on device memory, without the ticket: nobody
 * waits for it, and whoever looks at what runs ends it.  OK: it has been
 * enqueued.  Errors: NO_MEMORY, SYSTEM, and those of ops.enqueue(). */
symmcoll_status_t symc_queue_enqueue(
    struct symc_queue *queue, const struct symc_op *op, const void *access);

/* Have the attendant there, before an operation runs that nobody waits for.
 * Errors: SYSTEM. */
symmcoll_status_t symc_queue_prepare(struct symc_queue *queue);

/* Wait until a ticket is served.  False: its holder stands in a backend, and the
 * group has failed; the ticket has been given up, and ops.refuse() is the error.  op
 * NULL: never. */
bool symc_queue_wait(
    struct symc_queue *queue, const struct symc_op *op, uint64_t ticket);

/* Take a ticket and wait until it is served, likewise. */
static inline bool symc_queue_enter(
    struct symc_queue *queue, const struct symc_op *op, uint64_t *ticket)
{
    *ticket = atomic_fetch_add_explicit(&queue->next, 1, memory_order_acquire);
    if (__builtin_expect(atomic_load_explicit(
                             &queue->serving, memory_order_acquire) == *ticket,
            1))
        return true;
    return symc_queue_wait(queue, op, *ticket);
}

static inline void symc_queue_leave(struct symc_queue *queue, uint64_t ticket)
{
    atomic_store_explicit(&queue->serving, ticket + 1, memory_order_release);
    symc_doorbell_notify(&queue->doorbell);
}

/* Take the ticket where it is free. */
static inline bool symc_queue_try(struct symc_queue *queue, uint64_t *ticket)
{
    *ticket = atomic_load_explicit(&queue->serving, memory_order_acquire);
    uint64_t expected = *ticket;

    return atomic_compare_exchange_strong_explicit(&queue->next, &expected,
        expected + 1, memory_order_acquire, memory_order_relaxed);
}

/* ---- stuck.c ---- */

/* Give a ticket up.  False: it is served, or there is no memory to remember it. */
bool symc_queue_give_up(struct symc_queue *queue, uint64_t ticket);

/* Pass those on that have been given up, as far as they are served. */
void symc_queue_skip(struct symc_queue *queue);

/* ---- hold.c ---- */

/* One holder more. */
static inline void symc_queue_hold(struct symc_queue *queue)
{
    atomic_fetch_add_explicit(&queue->holders, 1, memory_order_relaxed);
}

/* One holder less; the last one frees it. */
void symc_queue_release(struct symc_queue *queue);

/* ---- depends.c ---- */

/* Under the ticket: whether an operation reads what an issued one is still to
 * write; then it has to wait for that, for issuing reads. */
bool symc_queue_depends(
    const struct symc_queue *queue, const struct symc_op *op);

/* ---- attend.c: issued works ---- */

/* Issue a work, if it can be done at once, or end it where the group has
 * failed. */
bool symc_queue_issue(struct symc_queue *queue, struct symmcoll_work *work);

/* Under the ticket: a work has begun, and is now the latest of those issued. */
void symc_queue_append(struct symc_queue *queue, struct symmcoll_work *work);

/* Under its ticket: issue a queued work, where others are issued and it need
 * not wait for them. */
bool symc_queue_follow(struct symc_queue *queue, struct symmcoll_work *work);

/* Under the ticket: end what can be ended.  Returns the deadline of the oldest
 * one that is left, 0 where it has none yet, SYMC_NEVER where none is left. */
int64_t symc_queue_advance(struct symc_queue *queue, enum symc_advance how);

/* Under the ticket: wait until all have ended. */
void symc_queue_settle(struct symc_queue *queue);

/* ---- running.c: works on device memory, from their start on ---- */

/* Whether an operation is one of those: sends and receives are not. */
static inline bool symc_queue_runs(const struct symc_op *op)
{
    return op->memory != SYMC_MEMORY_HOST &&
           !symc_kind_has(op->kind, SYMC_PAIR);
}

/* Under the ticket: the members have compared a work; it runs from now on, or
 * has ended.  The caller's hold of it is the queue's no more. */
void symc_queue_begin(struct symc_queue *queue, struct symmcoll_work *work,
    symmcoll_status_t compared);

/* One runs; the caller's hold of it is the queue's from now on. */
void symc_queue_add_running(
    struct symc_queue *queue, struct symmcoll_work *work);

/* What a look at those that run has found. */
struct symc_running {
    uint32_t count; /* that still run */
    bool awaited;   /* some have callbacks */
    int64_t until;  /* the first of their deadlines; SYMC_NEVER */
    uint64_t
        oldest; /* number of the one that was started first; 0: none runs */
};

/* Look at all that run, and end what can be ended. */
struct symc_running symc_queue_look(
    struct symc_queue *queue, enum symc_advance how);

/* The same of one work, if it runs. */
void symc_queue_look_at(struct symc_queue *queue, struct symmcoll_work *work,
    enum symc_advance how);

/* Order the stream of a work's call after it, if it runs.  IN_PROGRESS: that
 * cannot be done, or it has ended. */
symmcoll_status_t symc_queue_order(
    struct symc_queue *queue, struct symmcoll_work *work);

/* Wait until none runs, or until then; false when the time has passed. */
bool symc_queue_await_running(struct symc_queue *queue, int64_t deadline_ns);

/* Those that have been started so far have numbers up to this one.  The same wait
 * for those up to a number, whatever is started after them; and without waiting. */
uint64_t symc_queue_begun(const struct symc_queue *queue);
bool symc_queue_await_begun(
    struct symc_queue *queue, uint64_t number, int64_t deadline_ns);
bool symc_queue_has_ended(struct symc_queue *queue, uint64_t number);

/* When those up to a number will have ended: by their deadlines; what has none, by
 * the timeout of its call from now on.  Now, where none runs; or SYMC_NEVER. */
int64_t symc_queue_running_until(struct symc_queue *queue, uint64_t number);

/* "symm_put_data on stream 0x1234, and 2 more", of those up to a number. */
const char *symc_queue_format_running(
    struct symc_queue *queue, uint64_t number, char *buffer, size_t nbytes);

/* ---- attend.c ---- */

/* Wake the attendant: nobody will wait. */
void symc_queue_ask(struct symc_queue *queue);

/* Nothing of the queue is attended to any more, once this returns. */
void symc_queue_unlist(struct symc_queue *queue);

/* Start the attendant, where it is not running.  Errors: SYSTEM. */
symmcoll_status_t symc_attendant_start(struct symc_origin *origin);

/* Stop it; no queue may be listed any more. */
void symc_attendant_stop(struct symc_origin *origin);

#endif
