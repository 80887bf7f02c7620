/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slots of a group: one per kind of memory, with its backend.
 */
#ifndef SYMC_RUN_SLOT_H
#define SYMC_RUN_SLOT_H

#include "backend/backend.h"

#include <pthread.h>
#include <stdatomic.h>

struct symc_runner;
struct symc_slot_memory;

/* Time given to a backend to release buffers before they are left to it, and
 * the pause between two attempts. */
#define SYMC_SLOT_CANCEL_NS SYMC_NS_PER_S
#define SYMC_SLOT_NAP_NS (SYMC_NS_PER_S / 1000)

/* Time for operations on a device to end before a split; they may wait for what
 * the program enqueues after the call. */
#define SYMC_SLOT_QUIET_NS SYMC_NS_PER_S

/* An operation that a backend could not be made to release. */
struct symc_owned {
    struct symc_owned *next;
    void *token;
    char call[SYMC_OP_PLACED_TEXT]; /* the call, with its stream */
};

/* The reason why a slot or something for it was refused. */
struct symc_refusal {
    symmcoll_status_t status; /* OK: no refusal */
    int64_t at_ns;            /* time of the refusal */
    char call[SYMC_OP_TEXT];  /* the refused call */
    char reason[SYMC_DETAIL_MAX / 2];
};

/* The backend of one kind of memory.  INVARIANT: all members have opened it, or
 * none. */
struct symc_slot {
    const struct symc_backend *backend; /* NULL: not open */
    void *state;
    _Atomic bool open; /* open, as read by threads without the ticket */
    struct symc_refusal refusal;
    struct symc_refusal lack; /* the reason of a failed prepare() */
    uint32_t lacks;           /* failures of prepare() since its last success */
    /* Held during calls of the backend except mark(), unmark() and abort(). A
     * call that enqueues may hold it as long as a device is busy: see
     * slot.c. */
    pthread_mutex_t lock;
    pthread_mutex_t noted;        /* protects what follows; held for moments */
    const struct symc_op *inside; /* operation being enqueued, or NULL */
    bool has_ticket;              /* the ticket's holder enqueues it */
    int64_t entered_ns;           /* time of its entry */
    _Atomic int64_t lost_ns; /* time of the backend's first PEER; 0: never */
    struct symc_owned *owned, *owned_tail; /* oldest first */
    int nowned; /* kept operations, also those without an entry */
};

/* ---- slot_open.c ---- */

/* Opens the backend of host memory, before the group is used. */
symmcoll_status_t symc_slot_open_host(struct symc_runner *runner);

/* Opens the backend of an operation's memory if it is not open.  All members
 * have compared the operation and take part, within timeouts.init or the
 * operation's timeout, whichever is longer.  joins: memory to be joined next,
 * or NULL; the backend takes its context if the stream is a default one.  Binds
 * the group to the operation's device.  Errors: the same on all members; after
 * INVALID (a member uses another device by now) a later call may try again. */
symmcoll_status_t symc_slot_open(struct symc_runner *runner,
    const struct symc_op *op, const struct symc_slot_memory *joins);

/* Binds the group to a device of this rank.  first (out): it had none before.
 * Returns false if it is bound to another one, *found. */
bool symc_slot_take_device(
    struct symc_runner *runner, int device, int *found, bool *first);

/* Returns whether an operation can start at once: its backend is open and has
 * what the operation needs, or does without it. */
bool symc_slot_is_ready(struct symc_runner *runner, const struct symc_op *op);
/* Collective, with the ticket: has the open backend create what the operation
 * can use; if that fails, all members do without.  Errors: those of an
 * operation with missing members. */
symmcoll_status_t symc_slot_prepare(
    struct symc_runner *runner, const struct symc_op *op);

/* Collective, with the ticket: has the open backend of devices split what
 * prepare() has created; own: an error if this member cannot.  Errors: the same
 * on all members. */
symmcoll_status_t symc_slot_split(struct symc_runner *runner,
    const struct symc_op *op, const struct symc_heir *heir,
    symmcoll_status_t own, void **made);

/* A member's memory to be joined. */
struct symc_slot_memory {
    const struct symc_backend
        *backend; /* backend that allocated or imported it */
    void *memory;

    /* Memory joined before, or NULL: the addresses of both are stored in this
     * member's part from byte table_at on. */
    const struct symc_joined *other;
    size_t table_at;
};

/*
 * Collective, with the ticket: maps the memory of every member, from the
 * backend of devices, whose slot is open.  On all members or on none; joined
 * (out) is released with leave() of that backend.
 *
 * Errors: an error of this member or another one, which is named, also INVALID
 * (memory of another backend); a status common to all members; those of an
 * operation with missing members.
 */
symmcoll_status_t symc_slot_join(struct symc_runner *runner,
    const struct symc_op *op, struct symc_slot_memory memory,
    int64_t deadline_ns, struct symc_joined **joined);

/* See struct symc_core; also used outside the opening of a slot. */
symmcoll_status_t symc_slot_exchange(void *runner, int fd, int *fds);
symmcoll_status_t symc_slot_gather(
    void *runner, const void *mine, void *all, size_t nbytes);

/* Enters a backend of device memory without enqueuing.  Returns false if a call
 * is stuck in it. */
bool symc_slot_enter(struct symc_slot *slot);
void symc_slot_leave(struct symc_slot *slot);

/* Enters a backend to enqueue an operation, until symc_slot_enqueued(). Errors:
 * those of a failed group; a call stuck in the backend fails it. */
symmcoll_status_t symc_slot_enqueue(struct symc_runner *runner,
    struct symc_slot *slot, const struct symc_op *op, bool has_ticket);
void symc_slot_enqueued(struct symc_slot *slot);

/* Fails the group if a call has been in the backend for limit_ns or longer than
 * its operation's timeout.  Returns whether it did. */
bool symc_slot_expire_inside(
    struct symc_runner *runner, struct symc_slot *slot, int64_t limit_ns);

/* Returns whether the ticket's holder is stuck in a backend: for longer than an
 * operation may take, or at all if the caller's deadline has passed (expired).
 * The group has failed then.  Needs neither the ticket nor the running_lock. */
bool symc_slot_stands(struct symc_runner *runner, bool expired);

symmcoll_status_t symc_slot_refuse(
    struct symc_runner *runner, const struct symc_op *op);

/* Calls mark(arg) if the ticket's holder is still inside, before it can come
 * back.  Returns mark()'s result, or false. */
bool symc_slot_mark_inside(
    struct symc_runner *runner, bool (*mark)(void *arg), void *arg);

/* Formats the operation that a thread is inside for, and the driver or library.
 * Returns false if there is none. */
bool symc_slot_format_inside(
    struct symc_runner *runner, char *buffer, size_t nbytes);

/* Adds to the error of a call that the backend still has its buffers. */
symmcoll_status_t symc_slot_fail_owned(struct symc_runner *runner,
    const struct symc_op *op, const struct symc_error *error);

/* Keeps a token that a backend has not released until the group is closed.
 * Adds the buffers to the error of its call. */
symmcoll_status_t symc_slot_keep(struct symc_runner *runner,
    const struct symc_op *op, void *token, const struct symc_error *error);

/* Tries once more, without waiting, to reclaim what is kept.  Returns how many
 * operations the backend still has. */
int symc_slot_reclaim(struct symc_runner *runner, unsigned int memory);
/* Returns how many operations are kept. */
int symc_slot_owned(struct symc_runner *runner, unsigned int memory);

/* Formats them: "symm_put_data on stream 0x1234, and 2 more". */
#define SYMC_OWNED_TEXT (SYMC_OP_PLACED_TEXT + 32)
const char *symc_slot_format_owned(struct symc_runner *runner,
    unsigned int memory, char buffer[SYMC_OWNED_TEXT]);

/* Reclaims what all slots keep, until until_ns.  Errors: DEVICE (the buffers a
 * backend still owns): the group's memory then stays for the backend until
 * symc_groups_close_left(). */
symmcoll_status_t symc_slots_reclaim(
    struct symc_runner *runner, int64_t until_ns);

/* Forgets what is kept. */
void symc_slot_forget_owned(struct symc_slot *slot);

/* Closes all slots.  Buffers that a backend has not released remain its own. */
void symc_slots_close(struct symc_runner *runner);

/* Returns the open backend of a kind of memory, or NULL.  Needs no ticket. */
const struct symc_backend *symc_slot_backend(
    const struct symc_runner *runner, unsigned int memory);

/* Returns whether an open backend has a kind of operation. */
bool symc_slot_serves(const struct symc_slot *slot, enum symc_kind kind);

/* Returns the state of the device-memory backend for further requests to it, or
 * NULL if the slot is not open or another backend serves it. */
void *symc_slot_device_state(const struct symc_runner *runner);

/* Checks a call in the backend.  Needs no ticket. */
symmcoll_status_t symc_slot_check(
    struct symc_runner *runner, const struct symc_op *op);

/* Checks that the backend reaches an address on the group's device; OK if none
 * is open.  Needs no ticket. */
symmcoll_status_t symc_slot_reach(struct symc_runner *runner, const char *where,
    const char *what, const void *at);

/* Records how far the operation's stream is at the call.  Needs no ticket.
 * Returns the backend's mark, or NULL if it has none. */
void *symc_slot_mark(struct symc_runner *runner, const struct symc_op *op);
/* Releases the mark of an operation that will not be started; mark may be
 * NULL. */
void symc_slot_unmark(
    struct symc_runner *runner, unsigned int memory, void *mark);

/* Starts an operation in the backend of its memory, which takes the mark.
 * IN_PROGRESS: with a token. */
symmcoll_status_t symc_slot_start(struct symc_runner *runner,
    const struct symc_op *op, void *mark, void **token);

/* Starts what this rank does alone.  OK: without a token. */
symmcoll_status_t symc_slot_access(
    struct symc_runner *runner, const struct symc_access *access, void **token);

/* The end of an operation. */
struct symc_slot_end {
    /* the backend has the token again; false: it must be cancelled, since the
     * group has failed */
    bool ended;
    int64_t took_ns; /* time on the device; 0: not measured */
};

/* Tests an operation: IN_PROGRESS or its status.  token NULL: the token is in
 * use, so the backend is not called. */
symmcoll_status_t symc_slot_test(struct symc_runner *runner,
    const struct symc_op *op, void *token, enum symc_advance how,
    struct symc_slot_end *end);

/* Orders the operation's stream after it.  Its token must not end during the
 * call.  IN_PROGRESS: not possible.  Errors: INVALID (the caller's stream),
 * those of a failed group. */
symmcoll_status_t symc_slot_follow(
    struct symc_runner *runner, const struct symc_op *op, void *token);

/* Has a backend cancel a token once.  Returns whether it has released it. */
bool symc_slot_cancel(
    struct symc_runner *runner, unsigned int memory, void *token);

/* Checks kernels started without a call, and fails the group if one has failed.
 * Needs no ticket.  Returns whether there may be more later. */
bool symc_slot_watch(struct symc_runner *runner);

/* Stops what the open backends of a failed group wait for.  For any thread. */
void symc_slots_stop(struct symc_runner *runner);

/* Create and destroy the locks of all slots, open or not. */
void symc_slots_init(struct symc_runner *runner);
void symc_slots_destroy(struct symc_runner *runner);

#endif
