/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What running the operations of a group needs: its members, operation queue
 * and numbers, the backends, and the core passed to them.
 *
 * INVARIANT: an operation enters this module once, with its checked arguments,
 * and leaves it once, as a status or a work.
 */
#ifndef SYMC_RUN_RUNNER_H
#define SYMC_RUN_RUNNER_H

#include "backend/backend.h"
#include "run/slot.h"
#include "segment/shared.h"
#include "world/world.h"

#include <symmcoll/group.h>

struct symc_listeners;
struct symc_queue;

/* The group's data on an operation in flight. */
struct symc_flight {
    struct symc_trace_entry *entry; /* NULL: not recorded, or not yet */
};

/* A member's message while a slot is opened or groups are created: OK, or the
 * reason why not. */
struct symc_verdict {
    int32_t status;
    uint32_t round;  /* round of opening; the last one once it is open */
    uint32_t nbytes; /* bytes that it sends next; 0: a descriptor */
    char backend[24];
    char text[220];
};

/* Flags for work at the end of an operation besides recording it. */
enum symc_at_end {
    SYMC_AT_END_NOTED = 1, /* no operation succeeded since a noted error */
    SYMC_AT_END_TELL = 2   /* functions of the program must be called */
};

/* An object that a backend has created for a group from its parent's. */
struct symc_inherited {
    const struct symc_backend *backend;
    void *made; /* NULL: none, or taken by the slot */
};

struct symc_runner {
    struct symmcoll_world *world;
    const char *name; /* of the group, with the world's */
    const char *id;   /* number of the group within its world */
    int rank; /* negative: not a member, and only size and global are set */
    int size;
    int *global; /* world rank of each member */
    struct symc_members members;
    struct symc_queue *queue;
    _Atomic uint64_t seq[SYMC_COUNTERS]; /* latest sequence numbers */
    /* latest number over all operations of all members */
    uint64_t wire;
    _Atomic uint32_t paired;    /* works of sends and receives in flight */
    _Atomic uint32_t at_end;    /* enum symc_at_end; usually 0 */
    _Atomic uint64_t completed; /* latest successful collective of this rank */
    /* first collective on a device that failed after its start; 0: none */
    _Atomic uint64_t lost;
    _Atomic(struct symc_listeners *) listeners; /* NULL: never had any */
    _Atomic int64_t timeout_ns;
    int64_t trace; /* reference in the recorder, or SYMC_TRACE_NO_GROUP */
    bool of_world; /* of the group of all ranks */
    struct symc_segment *segment;
    size_t staging_at;     /* offset in each member's part */
    size_t staging_nbytes; /* bytes that all members have */
    bool reserved;         /* this rank's staging is backed by memory */
    uint32_t exchanges;    /* exchanges of descriptors until now */
    /* symmetric memory: see shared.h */
    struct symc_shared_table shared;
    struct symc_flight flights[SYMC_FLIGHTS];
    struct symc_agreed compared; /* of the latest operation on device memory */
    struct symc_slot slots[SYMC_MEMORY_KINDS]; /* host memory is always open */
    _Atomic int32_t device; /* 1 + the device of all calls; 0: none yet */
    /* stream of calls without one; NULL: default stream */
    _Atomic(void *) stream;
    struct symc_inherited inherited;

    /* While a slot is opened.  Needs the ticket. */
    struct symc_verdict *verdicts;     /* all members' */
    const struct symc_backend *opened; /* backend being opened */
    enum symc_kind opening;            /* kind of its rounds, in messages */
    uint32_t rounds;          /* rounds of opening; 0: none is being opened */
    bool decided;             /* the last round is over */
    symmcoll_status_t agreed; /* status that all members read then */
    int64_t opening_until_ns; /* deadline of the rounds */

    /* For backends. */
    struct symc_settings settings;
    struct symc_core core;
    struct symc_peers peers;
    struct symc_doorbell **doorbells;
    void **channels;
    void **staging;
};

/* Returns the runner of a group's failure state. */
static inline struct symc_runner *symc_runner_of(struct symc_members *members)
{
    return (void *)((char *)members - offsetof(struct symc_runner, members));
}

/* Returns whether the group is known to have failed.  symc_members_failed()
 * also reads the records of other members. */
static inline bool symc_run_has_failed(const struct symc_runner *runner)
{
    return atomic_load_explicit(
               &runner->members.stopped, memory_order_acquire) != 0;
}

/* ---- host_op.c ---- */

/* Runs one operation with the ticket, to its end, or to IN_PROGRESS if it can
 * be issued and waits for a peer.  One on device memory is only compared. */
symmcoll_status_t symc_run_op(struct symc_runner *runner, struct symc_op *op);

/* Begins an operation without waiting.  Needs the ticket.  Returns false if that
 * is not possible, or the group has failed and running it returns the error. */
bool symc_run_issue(struct symc_runner *runner, struct symc_op *op);

/* Ends the oldest issued operation if possible.  Needs the ticket.  Returns
 * IN_PROGRESS or its status. */
symmcoll_status_t symc_run_advance(struct symc_runner *runner,
    const struct symc_op *op, enum symc_advance how);

/* Waits until symc_run_advance() may progress, or the budget is spent. */
static inline void symc_run_await_progress(const struct symc_runner *runner,
    const struct symc_op *op, struct symc_wait_budget *budget)
{
    const struct symc_slot *host = &runner->slots[SYMC_MEMORY_HOST];

    host->backend->host->await_progress(host->state, op, budget);
}

/* Fails the group: a wait for a work has expired in blocking-wait mode. */
void symc_run_expire(struct symc_runner *runner, const struct symc_op *op);

/* Ends an operation: records it and calls listeners.  Needs the ticket. */
void symc_run_finish(struct symc_runner *runner, const struct symc_op *op,
    symmcoll_status_t status);

/* Ends an operation that was captured, successfully for this rank.  Needs the
 * ticket. */
void symc_run_capture(struct symc_runner *runner, const struct symc_op *op);

/* Notes that a running operation has been started: this rank has gone on after
 * an error, whose note is withdrawn.  Needs the ticket. */
void symc_run_go_on(struct symc_runner *runner);

static inline struct symc_flight *symc_run_flight(
    struct symc_runner *runner, const struct symc_op *op)
{
    return &runner->flights[op->flight];
}

/*
 * Holds a round with the group's ticket: each member sends nbytes bytes and
 * reads those of all members (all: size * nbytes). Errors: as for an operation;
 * MISMATCH (other members call something else, whose number it takes).
 */
symmcoll_status_t symc_run_round(struct symc_runner *runner,
    enum symc_kind kind, const void *mine, void *all, size_t nbytes,
    int64_t timeout_ns);

/* ---- ended.c ---- */

/* Queues a call of each of the program's functions for an ended operation, with
 * its recorder entry or NULL. */
void symc_run_notify(struct symc_runner *runner, const struct symc_op *op,
    const struct symc_trace_entry *entry, symmcoll_status_t status);

/* Adds a function of the program.  Errors: INVALID (it has been added before,
 * or no times are recorded), NO_MEMORY, those of symc_callbacks_start(). */
symmcoll_status_t symc_run_listen(
    struct symc_runner *runner, symmcoll_operation_fn fn, void *arg);
/* Removes a function, after its running call.  Errors: INVALID (no such
 * function). */
symmcoll_status_t symc_run_unlisten(
    struct symc_runner *runner, symmcoll_operation_fn fn, void *arg);

/* Frees the list when the group is released. */
void symc_run_free_listeners(struct symc_runner *runner);

/* ---- sends and receives ---- */

/* Count a work of a send or receive, and its end. */
static inline void symc_run_add_pair(struct symc_runner *runner)
{
    atomic_fetch_add(&runner->paired, 1);
}

static inline void symc_run_end_pair(struct symc_runner *runner)
{
    atomic_fetch_sub(&runner->paired, 1);
}

/* Returns the number of the next send or receive.  Needs the lock of the rank's
 * messages, so a plain increment suffices. */
static inline uint64_t symc_run_next_pair(struct symc_runner *runner)
{
    _Atomic uint64_t *last = &runner->seq[SYMC_COUNT_P2P];
    uint64_t number = atomic_load_explicit(last, memory_order_relaxed) + 1;

    atomic_store_explicit(last, number, memory_order_relaxed);
    return number;
}

/* Records the start of a send or receive; NULL: not recorded. */
static inline struct symc_trace_entry *symc_run_record_pair(
    const struct symc_runner *runner, const struct symc_op *op)
{
    return runner->trace >= 0
               ? symc_trace_start(&runner->world->trace, runner->trace, op)
               : NULL;
}

/* Returns whether hooks run at the end of an operation. */
static inline bool symc_run_notifies(const struct symc_runner *runner)
{
    return __builtin_expect(
        atomic_load_explicit(&runner->at_end, memory_order_relaxed) != 0, 0);
}

/* ---- exchange.c ---- */

/* See struct symc_core. */
symmcoll_status_t symc_run_exchange(void *runner, int fd, int *fds);

/* Exchanges descriptors until a deadline of the caller. */
symmcoll_status_t symc_run_exchange_until(
    struct symc_runner *runner, int fd, int64_t deadline_ns, int *fds);

/* ---- core.c ---- */

/* Fills in the functions that the backend may call. */
void symc_run_make_core(struct symc_runner *runner);

/* See inherit() of struct symc_core. */
void *symc_run_inherit(void *runner);

/* Waits until ready(arg) is true, for anything that a member writes.  See
 * wait() in struct symc_core. */
enum symc_wait_end symc_run_wait_until(struct symc_runner *runner, int member,
    bool (*ready)(void *arg), void *arg, struct symc_wait_budget *budget);

#endif
