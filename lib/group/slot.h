/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slots of a group: one for each kind of memory, with the backend that serves
 * it.
 */
#ifndef SYMC_GROUP_SLOT_H
#define SYMC_GROUP_SLOT_H

#include "backend/backend.h"

#include <pthread.h>
#include <stdatomic.h>

struct symmcoll_group;
struct symc_slot_memory;

/* For how long a backend is asked to let go of buffers before they are given up,
 * and the pause between two times. */
#define SYMC_SLOT_CANCEL_NS SYMC_NS_PER_S
#define SYMC_SLOT_NAP_NS (SYMC_NS_PER_S / 1000)

/* What a backend could not be made to let go of. */
struct symc_owned {
    struct symc_owned *next;
    void *token;
    char call[SYMC_OP_PLACED_TEXT]; /* and its stream */
};

/* Why a slot is not opened, or something is not made for it. */
struct symc_refusal {
    symmcoll_status_t status; /* OK: nobody has refused */
    int64_t at_ns;            /* when that was */
    char call[SYMC_OP_TEXT];  /* in which call */
    char reason[SYMC_DETAIL_MAX / 2];
};

/* What serves the operations of one kind of memory.  INVARIANT: all members
 * have opened it, or none has. */
struct symc_slot {
    const struct symc_backend *backend; /* NULL: not open */
    void *state;
    _Atomic bool open; /* for threads without the ticket: it is */
    struct symc_refusal refusal;
    struct symc_refusal lack; /* why prepare() has failed */
    uint32_t lacks; /* how often it has failed since it has succeeded */
    /* Around the calls of another memory's backend, except mark(), unmark() and
     * abort(); one that enqueues may hold it for as long as a device is busy: see
     * slot_enter.c. */
    pthread_mutex_t lock;
    pthread_mutex_t noted;        /* of what follows, for moments */
    const struct symc_op *inside; /* what is being enqueued, or NULL */
    bool has_ticket;              /* by the ticket's holder */
    int64_t entered_ns;           /* since when */
    _Atomic int64_t lost_ns; /* when the backend first said PEER; 0: never */
    struct symc_owned *owned, *owned_tail; /* the oldest first */
    int nowned; /* of them, and of those without an entry */
};

/* ---- slot_open.c ---- */

/* Open the backend of host memory, before the group is used. */
symmcoll_status_t symc_slot_open_host(struct symmcoll_group *group);

/* Open that of an operation's memory where it is not: all members are here, for
 * they have compared it.  It may take timeouts.init, where that is longer than the
 * operation's timeout.  joins: memory that is joined next, whose context the backend
 * takes where the stream is a default one; or NULL.  The group is on the operation's device
 * from then on.
 * Errors: the same on all members: also INVALID (a member is on another device by
 * now), after which it can be tried again. */
symmcoll_status_t symc_slot_open(struct symmcoll_group *group,
    const struct symc_op *op, const struct symc_slot_memory *joins);

/* The group is on this device of this rank from now on, and was on none before
 * (first, out); false: it is on another one, whose number is found (out). */
bool symc_slot_take_device(
    struct symmcoll_group *group, int device, int *found, bool *first);

/* ---- slot_make.c ---- */

/* Whether an operation could be started at once: its backend is open, and has
 * what that needs, or does without it. */
bool symc_slot_is_ready(struct symmcoll_group *group, const struct symc_op *op);
/* Collective, under the ticket: have the backend, which is open, make what the
 * operation has a use for; where that cannot be made all do without it.  Errors: those of
 * an operation whose members do not come. */
symmcoll_status_t symc_slot_prepare(
    struct symmcoll_group *group, const struct symc_op *op);

/* Collective, under the ticket: have the backend of devices, which is open, split what
 * prepare() has made; own: not OK where this member cannot.  Errors: alike on all
 * members. */
symmcoll_status_t symc_slot_split(struct symmcoll_group *group,
    const struct symc_op *op, const struct symc_heir *heir,
    symmcoll_status_t own, void **made);

/* What a member has to join. */
struct symc_slot_memory {
    const struct symc_backend
        *backend; /* whose allocate() or import() made it */
    void *memory;

    /* Joined before it, if the addresses of both are to be in it, in this member's
     * part from a byte on; or NULL. */
    const struct symc_joined *other;
    size_t table_at;
};

/*
 * Collective, under the ticket: map what every member has got from the backend of
 * devices, whose slot is open.  On all members or on none; joined (out) is released
 * with leave() of that backend.
 * Errors: this member's or another's own, with whose: also INVALID (it is of
 * another backend); where all came to one status, that; those of an operation whose
 * members do not come.
 */
symmcoll_status_t symc_slot_join(struct symmcoll_group *group,
    const struct symc_op *op, struct symc_slot_memory memory,
    int64_t deadline_ns, struct symc_joined **joined);

/* As of struct symc_core, while a slot is opened, memory is joined, or at any
 * other time. */
symmcoll_status_t symc_slot_exchange(void *group, int fd, int *fds);
symmcoll_status_t symc_slot_gather(
    void *group, const void *mine, void *all, size_t nbytes);

/* ---- slot_enter.c ---- */

/* Enter a backend of device memory without enqueuing; false: a call stands in it. */
bool symc_slot_enter(struct symc_slot *slot);
void symc_slot_leave(struct symc_slot *slot);

/* The same to enqueue an operation, which stays until symc_slot_enqueued().  Errors:
 * those of a group that has failed, also by the next one. */
symmcoll_status_t symc_slot_enqueue(struct symmcoll_group *group,
    struct symc_slot *slot, const struct symc_op *op, bool has_ticket);
void symc_slot_enqueued(struct symc_slot *slot);

/* Fail the group where a call has stood in the backend for so long, or for longer
 * than its operation may take; whether it has. */
bool symc_slot_expire_inside(
    struct symmcoll_group *group, struct symc_slot *slot, int64_t limit_ns);

/* As of struct symc_queue_ops. */
bool symc_slot_stands(struct symmcoll_group *group, bool expired);

symmcoll_status_t symc_slot_refuse(
    struct symmcoll_group *group, const struct symc_op *op);

/* Whether the ticket's holder is still inside, and something has been marked before he
 * comes back: what mark() returns. */
bool symc_slot_mark_inside(
    struct symmcoll_group *group, bool (*mark)(void *arg), void *arg);

/* What a thread is inside for, and in what driver or library; false: none is. */
bool symc_slot_format_inside(
    struct symmcoll_group *group, char *buffer, size_t nbytes);

/* ---- slot_owned.c ---- */

/* The status of an operation whose call ends while the backend has its buffers: the
 * detail, and whose they are. */
symmcoll_status_t symc_slot_fail_owned(struct symmcoll_group *group,
    const struct symc_op *op, symmcoll_status_t status, const char *detail);

/* A backend has not let go of a token: keep it until the group is closed.  Returns
 * the status, and the detail with whose the buffers are. */
symmcoll_status_t symc_slot_keep(struct symmcoll_group *group,
    const struct symc_op *op, void *token, symmcoll_status_t status,
    const char *detail);

/* Ask once more, without waiting, for what is kept so.  Returns how many the backend
 * still has. */
int symc_slot_reclaim(struct symmcoll_group *group, unsigned int memory);
/* Without asking. */
int symc_slot_owned(struct symc_slot *slot);

/* What that is, where there is any: "symm_put_data on stream 0x1234, and 2 more". */
#define SYMC_OWNED_TEXT (SYMC_OP_PLACED_TEXT + 32)
const char *symc_slot_format_owned(
    struct symc_slot *slot, char buffer[SYMC_OWNED_TEXT]);

/* The same of all slots, until then.  Errors: DEVICE (whose buffers a backend
 * still owns).  The group stays as it is then, released or not, for what the backend
 * has of it: symc_groups_close_left(). */
symmcoll_status_t symc_slots_reclaim(
    struct symmcoll_group *group, int64_t until_ns);

/* Nobody asks any more. */
void symc_slot_forget_owned(struct symc_slot *slot);

/* ---- slot.c ---- */

/* Close all.  What a backend has not let go of stays its. */
void symc_slots_close(struct symmcoll_group *group);

/* Whether a backend that is open has a kind. */
bool symc_slot_serves(const struct symc_slot *slot, enum symc_kind kind);

/* The state of the backend that has memory of devices, for whoever asks it for more;
 * NULL: the slot is not open, or another one serves it. */
void *symc_slot_device_state(const struct symmcoll_group *group);

/* At a call, without the ticket: what the backend finds wrong in it. */
symmcoll_status_t symc_slot_check(
    struct symmcoll_group *group, const struct symc_op *op);

/* The same of an address of the device that the group is on, beside other operations: whether
 * the backend reaches it; OK where none is open. */
symmcoll_status_t symc_slot_reach(struct symmcoll_group *group,
    const char *where, const char *what, const void *at);

/* At a call, without the ticket: what the backend has marked for it, or NULL. */
void *symc_slot_mark(struct symmcoll_group *group, const struct symc_op *op);
/* It will not be started; mark may be NULL. */
void symc_slot_unmark(
    struct symmcoll_group *group, unsigned int memory, void *mark);

/* Start an operation in the backend of its memory, which takes the mark.
 * IN_PROGRESS: with a token. */
symmcoll_status_t symc_slot_start(struct symmcoll_group *group,
    const struct symc_op *op, void *mark, void **token);

/* The same of what this rank does alone; OK: there is no token. */
symmcoll_status_t symc_slot_access(struct symmcoll_group *group,
    const struct symc_access *access, void **token);

/* What has become of an operation. */
struct symc_slot_end {
    bool ended;      /* the token is the backend's again; else it has to be
                        cancelled, for the group has failed */
    int64_t took_ns; /* on its device; 0: that was not measured */
};

/* Test one: IN_PROGRESS, or its status.  token NULL: it is used, so the backend is
 * not asked for its end. */
symmcoll_status_t symc_slot_test(struct symmcoll_group *group,
    const struct symc_op *op, void *token, enum symc_advance how,
    struct symc_slot_end *end);

/* Order the operation's stream after it, whose token nobody ends meanwhile;
 * IN_PROGRESS: that cannot be done.  Errors: INVALID (the caller's, about its
 * stream), those of a group that has failed. */
symmcoll_status_t symc_slot_follow(
    struct symmcoll_group *group, const struct symc_op *op, void *token);

/* Ask a backend once to let go of a token; whether it has. */
bool symc_slot_cancel(
    struct symmcoll_group *group, unsigned int memory, void *token);

/* Without the ticket: whether kernels that are started without a call have failed;
 * then the group does.  Returns whether there may be some, later. */
bool symc_slot_watch(struct symmcoll_group *group);

/* The group has failed: what its backends wait for is in vain.  Any thread may call
 * it, as long as they are open. */
void symc_slots_stop(struct symmcoll_group *group);

/* Wait until what has a token may have got further, or until then. */
void symc_slot_doze(struct symmcoll_group *group, int64_t until_ns);

/* Release what slots hold, open or not. */
void symc_slots_init(struct symmcoll_group *group);
void symc_slots_destroy(struct symmcoll_group *group);

#endif
