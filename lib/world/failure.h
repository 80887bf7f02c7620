/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failure of groups.  Each rank has a failure record in its part of the group's
 * segment.  The rank that finds a reason first publishes it there, and the
 * others adopt it; the first reason stays.  No locks are taken.
 */
#ifndef SYMC_WORLD_FAILURE_H
#define SYMC_WORLD_FAILURE_H

#include "base/base.h"
#include "base/op.h"
#include "base/ranks.h"
#include "segment/doorbell.h"

#include <stdatomic.h>

#define SYMC_FAILURE_RANKS 4096 /* group ranks that `ranks` can represent */
#define SYMC_FAILURE_TEXT 400

struct symmcoll_world;

#define SYMC_FAILURE_VALID 2u /* symc_failure.raised of a valid record */

/*
 * The reason for a group's failure.  Each rank has its own copy in private
 * memory and publishes another at the start of its part of the group's segment,
 * which stays readable after the rank's death.
 */
struct symc_failure {
    _Atomic uint32_t raised; /* 0: none, 1: being written, 2: valid */
    uint32_t sum;            /* checksum of all that follows */
    int32_t status;
    int64_t at_ns; /* symc_now_ns() when the reason was found */
    uint64_t seq;  /* the operation's; 0: none, or not begun */
    uint32_t kind; /* enum symc_kind; 0: no operation */
    int32_t rank;  /* group rank that found the reason */
    char label[SYMC_LABEL_MAX];
    uint32_t late; /* 1: the ranks have not started the operation in time */
    uint8_t ranks[SYMC_FAILURE_RANKS / 8]; /* that the failure concerns */
    char text[SYMC_FAILURE_TEXT]; /* names the group; equal on all ranks */
};

/*
 * Offset of the note, a second record: the end of an operation that failed on
 * all ranks and left the group usable, as a mismatch does.  It stays until an
 * operation of this rank succeeds.  A rank that exits before that has most
 * likely exited because of it.
 */
#define SYMC_NOTE_AT 1024

/*
 * Offset of a third record, in the part of the group of all ranks only: the
 * first failure of any other group of this rank, for the launcher, which maps
 * only that part.  Its text alone names the ranks.
 */
#define SYMC_OTHER_AT 2048

/* Bytes reserved for the three records, before the backend's channel.  The last
 * word counts how often the rank has shrunk the group. */
#define SYMC_FAILURE_ROOM 3072
#define SYMC_SHRUNK_AT (SYMC_FAILURE_ROOM - sizeof(uint64_t))
_Static_assert(SYMC_OTHER_AT + sizeof(struct symc_failure) <= SYMC_SHRUNK_AT,
    "the third record ends before that");
_Static_assert(sizeof(struct symc_failure) <= SYMC_NOTE_AT,
    "a failure record fits its room");

/* The failure state of one group: a member of the group, listed in its
 * world. */
struct symc_members {
    struct symc_members *next;
    struct symmcoll_world *world;
    /* Returns whether nothing is queued, issued or running in the group.  NULL:
     * no queue yet.  Protected by the world's lock. */
    bool (*is_over)(struct symc_members *members);
    /* Called once, by any thread, when the group fails: stops what devices wait
     * for.  NULL: no device. */
    void (*stop)(struct symc_members *members);
    const char *name;
    int rank; /* this rank's rank in the group */
    int size;
    const int *global;                      /* global_rank of each member */
    struct symc_ranks ranks;                /* the same, for messages */
    struct symc_doorbell *const *doorbells; /* each member's */
    struct symc_failure own;                /* this rank's record */
    /* each member's published record, or NULL */
    struct symc_failure **failures;
    _Atomic uint32_t stopped;  /* this rank's record is valid */
    _Atomic uint32_t reported; /* a call has returned the first reason */
};

/* Copies a published record.  Returns false if there is none, if its checksum
 * is wrong, and for NULL (a rank on another machine). */
bool symc_failure_read(
    const struct symc_failure *published, struct symc_failure *copy);

/*
 * Fails the group on this rank and wakes the other members.  Does nothing if
 * the group has failed before.
 *
 * op     the operation that failed; NULL: none
 * ranks  the members that the failure concerns; NULL: not known
 */
void symc_members_raise(struct symc_members *members, symmcoll_status_t status,
    const struct symc_op *op, const bool *ranks, const char *format, ...)
    SYMC_PRINTF(5, 6);

/* As symc_members_raise(), with one member. */
void symc_members_raise_one(struct symc_members *members,
    symmcoll_status_t status, const struct symc_op *op, int member,
    const char *format, ...) SYMC_PRINTF(5, 6);

/*
 * Lists the members that an operation's failure on this rank concerns: those of
 * the thread's current error, else this rank, unless the status is about other
 * ranks.  Returns the list, or NULL if none is known.
 */
const bool *symc_members_concerned(const struct symc_members *members,
    symmcoll_status_t status, bool ranks[SYMC_RANKS_MAX]);

/* Returns whether a failure concerns a rank, and whether the rank has not
 * started the operation in time. */
static inline bool symc_failure_concerns(
    const struct symc_failure *failure, int rank)
{
    return rank < SYMC_FAILURE_RANKS &&
           (failure->ranks[rank / 8] >> (rank % 8) & 1) != 0;
}

static inline bool symc_failure_is_late(
    const struct symc_failure *failure, int rank)
{
    return failure->late != 0 && symc_failure_concerns(failure, rank);
}

/* Makes a copied record the thread's current error, with the ranks that it
 * concerns.  Returns its status. */
symmcoll_status_t symc_members_fail_as(
    const struct symc_members *members, const struct symc_failure *failure);

/* Publishes the calling thread's current error as the note: an operation has
 * failed on all ranks but the group has not.  symc_members_withdraw_note()
 * removes it. */
void symc_members_note(struct symc_members *members, symmcoll_status_t status,
    const struct symc_op *op);
void symc_members_withdraw_note(struct symc_members *members);

/* Copies any member's note of the operation `seq`. Returns false if there is
 * none. */
bool symc_members_find_note(const struct symc_members *members, uint64_t seq,
    struct symc_failure *note);

/* Copies the failure of another group that follows a published record of the
 * group of all ranks.  Returns false if there is none. */
bool symc_failure_read_other(
    const struct symc_failure *published, struct symc_failure *other);

/* Copies a rank's first failure in any group, or its note in the group of all
 * ranks: most likely the reason why it has ended.  Returns false if there is
 * neither. */
bool symc_failure_find_cause(
    const struct symmcoll_world *world, int rank, struct symc_failure *cause);

/* Copies the note that follows a published record.  Returns false if there is
 * none. */
bool symc_failure_read_note(
    const struct symc_failure *published, struct symc_failure *note);

/* Returns whether this rank's record lists this rank as missing. */
bool symc_members_was_late(const struct symc_members *members);

/* Returns whether the group has failed on any rank, and adopts that failure,
 * the earliest if there are several.  Records of dead ranks count, as they
 * explain their end. */
bool symc_members_failed(struct symc_members *members);

/*
 * Returns the status of a call on a failed group and sets its detail: the first
 * reason for the call that was interrupted, ABORTED for later calls.  op NULL:
 * a query, which returns the first reason and does not count as its report.
 */
symmcoll_status_t symc_members_status(
    struct symc_members *members, const struct symc_op *op);

/* Returns the status of a call without a sequence number that had begun when
 * the group failed, so that an abort has interrupted it. */
symmcoll_status_t symc_members_interrupted(
    struct symc_members *members, const struct symc_op *op);

/* Returns the first reason for any call that had begun when the group failed,
 * even if another call has reported it. */
symmcoll_status_t symc_members_cut_short(
    struct symc_members *members, const struct symc_op *op);

#endif
