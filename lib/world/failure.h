/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a group fails.  Each rank keeps a failure record in its part of the group's
 * segment; the rank that finds a reason first writes it there, and the others
 * adopt it.  The first reason stays.  No lock is taken anywhere.
 */
#ifndef SYMC_WORLD_FAILURE_H
#define SYMC_WORLD_FAILURE_H

#include "base/base.h"
#include "base/op.h"
#include "base/ranks.h"
#include "segment/doorbell.h"

#include <stdatomic.h>

#define SYMC_FAILURE_RANKS 4096 /* group ranks that `late` can name */
#define SYMC_FAILURE_TEXT 400

struct symmcoll_world;

#define SYMC_FAILURE_VALID 2u /* symc_failure.raised of one to be read */

/*
 * Why a group has failed.  Each rank has its own in private memory, and a copy
 * for the others in shared memory, at the start of its part of the group's
 * segment: it remains readable when its writer has died.
 */
struct symc_failure {
    _Atomic uint32_t raised; /* 0: none, 1: being written, 2: valid */
    uint32_t sum;            /* of all that follows */
    int32_t status;
    int64_t at_ns; /* symc_now_ns() when the reason was found */
    uint64_t seq;  /* of the operation, 0: none, or it had not begun */
    uint32_t kind; /* enum symc_kind; 0: no operation */
    int32_t rank;  /* group rank that found the reason */
    char label[SYMC_LABEL_MAX];
    uint8_t late[SYMC_FAILURE_RANKS / 8]; /* TIMEOUT: ranks that had not come */
    char text[SYMC_FAILURE_TEXT]; /* names the group; the same for all ranks */
};

/*
 * After it there is a second one, the note: how an operation ended that failed
 * on all ranks and left the group usable, as a mismatch does, as long as the
 * rank has ended none with success since.  A rank that exits meanwhile has most
 * likely done so because of that.
 */
#define SYMC_NOTE_AT 1024

/*
 * In the part of the group of all ranks there is a third one: the first failure
 * of any other group of this rank, for the launcher, which knows that part
 * alone.  It says who was late in its text only.
 */
#define SYMC_OTHER_AT 2048

/* Bytes reserved for all, before the backend's channel.  In the last of them is
 * how often the rank has shrunk the group. */
#define SYMC_FAILURE_ROOM 3072
#define SYMC_SHRUNK_AT (SYMC_FAILURE_ROOM - sizeof(uint64_t))
_Static_assert(SYMC_OTHER_AT + sizeof(struct symc_failure) <= SYMC_SHRUNK_AT,
    "the third record ends before that");
_Static_assert(sizeof(struct symc_failure) <= SYMC_NOTE_AT,
    "a failure record fits its room");

/* The failure state of one group.  Kept in the group, listed in its world. */
struct symc_members {
    struct symc_members *next;
    struct symmcoll_world *world;
    struct symmcoll_group *group; /* whose they are, in the layer above */
    /* Whether nothing is queued, issued or running there; NULL: there is no
     * queue yet.  Under the world's lock. */
    bool (*is_over)(struct symmcoll_group *group);
    /* The group has failed: what other devices than this processor wait for is in
     * vain.  Any thread calls it, once; NULL: there are none. */
    void (*stop)(struct symmcoll_group *group);
    const char *name;
    int rank; /* this rank's, in the group */
    int size;
    const int *global;                      /* global_rank of each member */
    struct symc_ranks ranks;                /* the same for messages */
    struct symc_doorbell *const *doorbells; /* of each member */
    struct symc_failure own;                /* as this rank goes by it */
    struct symc_failure **failures; /* as each has published it, or NULL */
    _Atomic uint32_t stopped;       /* this rank's record is valid */
    _Atomic uint32_t reported;      /* a call has returned the first reason */
};

/* Copy a published record; false where there is none, where it is not what its
 * writer has put there, and for NULL: of a rank on another machine. */
bool symc_failure_read(
    const struct symc_failure *published, struct symc_failure *copy);

/* Fail the group on this rank, and wake the others. op is the operation that
 * failed; it and late may be NULL.  Without effect where the group has failed
 * before. */
void symc_members_raise(struct symc_members *members, symmcoll_status_t status,
    const struct symc_op *op, const bool *late, const char *format, ...)
    SYMC_PRINTF(5, 6);

/* An operation has failed on all ranks, and the group has not: keep the
 * calling thread's detail where the others find it. */
void symc_members_note(struct symc_members *members, symmcoll_status_t status,
    const struct symc_op *op);
void symc_members_withdraw_note(struct symc_members *members);

/* Copy any member's note of an operation; false where there is none. */
bool symc_members_find_note(const struct symc_members *members, uint64_t seq,
    struct symc_failure *note);

/* Copy that of another group, after a published record of the group of all ranks;
 * false where there is none. */
bool symc_failure_read_other(
    const struct symc_failure *published, struct symc_failure *other);

/* Copies the first failure that a rank has had in any group, or the note of how
 * an operation of the group of all ranks ended there: why it has ended since, most
 * likely.  False where there is none. */
bool symc_failure_find_cause(
    const struct symmcoll_world *world, int rank, struct symc_failure *cause);

/* Copy the note after a published record; false where there is none. */
bool symc_failure_read_note(
    const struct symc_failure *published, struct symc_failure *note);

/* Whether this rank's record names it as one that had not come. */
bool symc_members_was_late(const struct symc_members *members);

/* Whether the group has failed on any rank; adopts what another has found, of
 * several reasons the earliest.  Ranks that have died count too: what they
 * found is why they ended. */
bool symc_members_failed(struct symc_members *members);

/*
 * The status of a call on a failed group, with its detail: the first reason's
 * for the call it interrupts, ABORTED for later ones. op NULL: a query, which
 * returns the first reason and does not count as reporting it.
 */
symmcoll_status_t symc_members_status(
    struct symc_members *members, const struct symc_op *op);

/* The same for a call without a number that had begun when the group failed: an
 * abort has interrupted it. */
symmcoll_status_t symc_members_interrupted(
    struct symc_members *members, const struct symc_op *op);

/* The same for any call that had begun when the group failed: the reason, also
 * where others have been told. */
symmcoll_status_t symc_members_cut_short(
    struct symc_members *members, const struct symc_op *op);

#endif
