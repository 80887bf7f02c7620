/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operation queue of a group.  Each operation takes a ticket in the order
 * of calls and runs when its ticket is served: blocking operations on the
 * caller's thread, asynchronous ones on a thread of the world's pool, which
 * serves the queue until it is empty (pool.c).
 *
 * Small operations are issued instead of queued if none is queued before them:
 * the call publishes what the peers need and passes the ticket on.  They
 * complete in the order of issue, by any thread that takes the ticket and finds
 * the peers' contributions: a waiter, the next blocking operation, or, after
 * some milliseconds, the world's attendant (attend.c). A small blocking
 * operation becomes an issued one when it would sleep; it keeps its ticket only
 * if it completes without a pause.
 *
 * An operation on device memory is issued likewise, whatever its size.  Once
 * the members have compared it, it is started and is *running*: it no longer
 * delays later operations and is in a list with its own lock (running.c).
 *
 * INVARIANT: no thread that holds the ticket waits for a work that was issued
 * after the oldest.
 */
#ifndef SYMC_RUN_QUEUE_H
#define SYMC_RUN_QUEUE_H

#include "backend/backend.h"
#include "base/base.h"
#include "base/op.h"
#include "run/engine.h"
#include "run/runner.h"
#include "segment/doorbell.h"

#include <symmcoll/work.h>

#include <pthread.h>
#include <stdatomic.h>

struct symmcoll_work;

#define SYMC_SPARES 8 /* works kept for reuse */

/* A ticket given up by its owner; it is passed on when it is served. */
struct symc_given_up {
    struct symc_given_up *next;
    uint64_t ticket;
};

struct symc_queue {
    _Atomic uint64_t next;    /* ticket of the next call */
    _Atomic uint64_t serving; /* ticket that may run */
    struct symc_doorbell
        doorbell;               /* wakes threads that wait for their ticket */
    struct symc_runner *runner; /* of the group; not used once it is closed */
    struct symc_engine *engine; /* holds a reference */

    /* Issued works that have not ended, oldest first.  Need the ticket. */
    struct symmcoll_work *issued, *issued_tail;

    /* protects what follows; flags are also read without it */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct symmcoll_work *head, *tail;
    _Atomic(struct symc_given_up *) given_up;
    struct symc_task task; /* runs the queued works */
    bool served;           /* the task is running */
    /* Running works on device memory, in the order of their start. */
    /* taken after the ticket if both are needed */
    pthread_mutex_t running_lock;
    struct symmcoll_work *running, *running_tail;
    _Atomic uint32_t nrunning;
    _Atomic uint64_t begun; /* works ever started */
    _Atomic bool ready;     /* the attendant has been started */
    _Atomic bool stopping;

    /* Protected by the attendant's lock; `attended` is also read without it. */
    struct symc_queue *next_listed;
    bool listed;           /* in the attendant's list */
    _Atomic bool attended; /* the attendant checks issued works regularly */
    bool requested;        /* to be checked at once */
    bool left;             /* will not be listed any more */
    /* Used by the attendant thread only. */
    bool watched;     /* listed for captured calls, which are not issued */
    int quiet;        /* consecutive checks that found nothing */
    uint64_t stalled; /* oldest number in the last check; 0: none */

    /* On another cache line than those that waiting threads read. */
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint32_t holders;
    /* Threads in the group without the ticket, through a work.  The group is
     * not released before they have left. */
    _Atomic uint32_t visitors;
    _Alignas(SYMC_LINE) _Atomic(struct symmcoll_work *) spares[SYMC_SPARES];
};

/* Creates a queue, which its group and its works hold.  Errors: NO_MEMORY. */
symmcoll_status_t symc_queue_create(struct symc_runner *runner,
    struct symc_engine *engine, struct symc_queue **queue);

/* Completes queued and issued works and detaches the queue from the world's
 * threads; no work is accepted any more.  Works on a device may still run; the
 * attendant no longer checks them. */
void symc_queue_stop(struct symc_queue *queue);

/* Detaches the group when it is released, after symc_queue_stop() and the end
 * of callbacks: works that still hold the queue do not reach the group any
 * more. */
void symc_queue_close(struct symc_queue *queue);

/* Waits until no work of a send or receive of the group is left.  Returns false
 * if the deadline has passed. */
bool symc_queue_drain_pairs(struct symc_queue *queue, int64_t deadline_ns);

/* Waits until all tickets taken until now have been served and their works have
 * ended.  Returns false if the deadline has passed. */
bool symc_queue_drain(struct symc_queue *queue, int64_t deadline_ns);

/* Returns whether nothing is queued, issued or running; false while another
 * thread holds the ticket. */
bool symc_queue_is_over(struct symc_queue *queue);

/* Returns whether the caller is a callback of one of the queue's works.  Such a
 * caller must not wait for works that the queue has not completed. */
static inline bool symc_queue_in_callback(const struct symc_queue *queue)
{
    struct symc_callbacks *callbacks = &queue->engine->callbacks;

    return __builtin_expect(
               atomic_load_explicit(&callbacks->running, memory_order_acquire),
               0) &&
           symc_callbacks_inside(callbacks) &&
           symc_callbacks_is_calling(callbacks, queue);
}

/* Issues or queues an operation, which is copied with its arrays.  mark: the
 * backend's for an operation on device memory, or NULL; on failure it stays the
 * caller's, otherwise the caller calls symc_work_launch() next.  Errors:
 * NO_MEMORY, SYSTEM, ABORTED (the world is being finalized). */
symmcoll_status_t symc_queue_submit(struct symc_queue *queue,
    const struct symc_op *op, void *mark, struct symmcoll_work **work);

/* Runs an operation on device memory without a work handle, until it has been
 * started or, if to_the_end, until it has ended.  Returns OK or its final
 * status.  op gets its sequence number. */
symmcoll_status_t symc_queue_run_device(
    struct symc_queue *queue, struct symc_op *op, bool to_the_end);

/* Starts what this rank does alone on device memory, without the ticket.  It
 * has no waiter; any thread that tests running works ends it.  Returns OK once
 * it is enqueued.  Errors: NO_MEMORY, SYSTEM, and those of
 * symc_device_enqueue(). */
symmcoll_status_t symc_queue_enqueue(
    struct symc_queue *queue, const struct symc_access *access);

/* Starts the attendant if it is not running, for an operation without a waiter.
 * Errors: SYSTEM. */
symmcoll_status_t symc_queue_prepare(struct symc_queue *queue);

/* Waits until a ticket is served.  Returns false if its holder is stuck in a
 * backend and the group has failed: the ticket has been given up, and
 * symc_device_refuse() returns the error.  With op NULL it never gives up. */
bool symc_queue_wait(
    struct symc_queue *queue, const struct symc_op *op, uint64_t ticket);

/* Takes a ticket and waits for it as symc_queue_wait(). */
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

/* Takes the next ticket if no operation holds one. */
static inline bool symc_queue_try(struct symc_queue *queue, uint64_t *ticket)
{
    *ticket = atomic_load_explicit(&queue->serving, memory_order_acquire);
    uint64_t expected = *ticket;

    return atomic_compare_exchange_strong_explicit(&queue->next, &expected,
        expected + 1, memory_order_acquire, memory_order_relaxed);
}

/* ---- stuck.c ---- */

/* Gives up a ticket.  Returns false if it is being served or there is no memory
 * to record it. */
bool symc_queue_give_up(struct symc_queue *queue, uint64_t ticket);

/* Passes on the given-up tickets that are being served. */
void symc_queue_skip(struct symc_queue *queue);

/* ---- handle.c ---- */

/* Adds a holder. */
static inline void symc_queue_hold(struct symc_queue *queue)
{
    atomic_fetch_add_explicit(&queue->holders, 1, memory_order_relaxed);
}

/* Removes a holder; the last one frees the queue. */
void symc_queue_release(struct symc_queue *queue);

/* ---- issued.c ---- */

/* Appends a work that has begun to those issued.  Needs the ticket. */
void symc_queue_append(struct symc_queue *queue, struct symmcoll_work *work);

/* Issues a work, after completing the issued ones that it depends on if that
 * needs no wait.  Needs the ticket.  Returns false if it cannot be issued. */
bool symc_queue_issue(struct symc_queue *queue, struct symmcoll_work *work);

/* Issues a queued work, holding its ticket, if it need not wait for the issued
 * ones.  Returns false if it must be run. */
bool symc_queue_follow(struct symc_queue *queue, struct symmcoll_work *work);

/* Completes the issued works that can be.  Needs the ticket.  Returns the
 * deadline of the oldest one left, 0 if it has none yet, SYMC_NEVER if none is
 * left. */
int64_t symc_queue_advance(struct symc_queue *queue, enum symc_advance how);

/* Waits until all issued works have ended.  Needs the ticket. */
void symc_queue_settle(struct symc_queue *queue);

/* Runs a work after all issued ones, with the ticket, and takes the caller's
 * reference.  Returns whether it has not ended yet: it runs on a device, or is
 * issued. */
bool symc_queue_run(struct symc_queue *queue, struct symmcoll_work *work);

/* ---- running.c: started works on device memory ---- */

/* Returns whether an operation runs on device memory in this sense: sends and
 * receives do not. */
static inline bool symc_queue_runs(const struct symc_op *op)
{
    return op->memory != SYMC_MEMORY_HOST &&
           !symc_kind_has(op->kind, SYMC_PAIR);
}

/* Keeps a work that was started with this status among the running ones, or
 * ends it.  Takes the caller's reference. */
void symc_queue_keep(struct symc_queue *queue, struct symmcoll_work *work,
    symmcoll_status_t status);

/* Adds a work to the running ones.  Takes the caller's reference. */
void symc_queue_add_running(
    struct symc_queue *queue, struct symmcoll_work *work);

/* The result of a test of all running works. */
struct symc_running {
    uint32_t count;  /* works still running */
    bool awaited;    /* some have callbacks */
    int64_t until;   /* earliest deadline; SYMC_NEVER */
    uint64_t oldest; /* number of the oldest; 0: none runs */
};

/* Tests all running works and ends those that have finished. */
struct symc_running symc_queue_look(
    struct symc_queue *queue, enum symc_advance how);

/* Tests one work, if it runs, and ends it if it has finished. */
void symc_queue_look_at(struct symc_queue *queue, struct symmcoll_work *work,
    enum symc_advance how);

/* Orders the stream of a work's call after the work, if it runs.  Returns
 * IN_PROGRESS if that is not possible or the work has ended. */
symmcoll_status_t symc_queue_order(
    struct symc_queue *queue, struct symmcoll_work *work);

/* Waits until no work runs.  Returns false if the deadline has passed. */
bool symc_queue_await_running(struct symc_queue *queue, int64_t deadline_ns);

/* symc_queue_begun() returns the number of the work started last.
 * await_begun() waits for all works up to a number, whatever starts after them;
 * has_ended() checks that without waiting. */
uint64_t symc_queue_begun(const struct symc_queue *queue);
bool symc_queue_await_begun(
    struct symc_queue *queue, uint64_t number, int64_t deadline_ns);
bool symc_queue_has_ended(struct symc_queue *queue, uint64_t number);

/* Returns when the works up to a number will have ended at the latest, by their
 * deadlines; for works without one, by the call's timeout from now on.  Returns
 * the present time if none runs. */
int64_t symc_queue_running_until(struct symc_queue *queue, uint64_t number);

/* Formats the running works up to a number: "symm_put_data on stream 0x1234,
 * and 2 more". */
const char *symc_queue_format_running(
    struct symc_queue *queue, uint64_t number, char *buffer, size_t nbytes);

/* ---- attend.c ---- */

/* Wakes the attendant for a queue with works that have no waiter. */
void symc_queue_wake(struct symc_queue *queue);

/* Removes the queue from the attendant's list; the attendant does not use the
 * queue any more when this returns. */
void symc_queue_unlist(struct symc_queue *queue);

/* Starts the attendant if it is not running.  Errors: SYSTEM. */
symmcoll_status_t symc_attendant_start(struct symc_engine *engine);

/* Runs the queued callbacks and stops the threads of a world; no queue may be
 * listed or have works. */
void symc_engine_stop(struct symc_engine *engine);

#endif
