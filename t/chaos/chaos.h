/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults at random, and what every rank that survives one must then find.  A
 * case is a function of its seed: how many ranks, what becomes of one of them,
 * and when.  Its ranks are the test program itself, executed once more.
 *
 * chaos.c    the test: runs cases one after another and starts their ranks
 * draw.c     from a seed to a case, and its description
 * rank.c     a rank, and the fault within it
 * operate.c  operations of all kinds in a group, and their results
 * symm.c     operations on symmetric memory
 * groups.c   groups that overlap, and what is left of them after the fault
 * judge.c    what the ranks and the launcher said, and what they left behind
 */
#ifndef T_CHAOS_CHAOS_H
#define T_CHAOS_CHAOS_H

#include <symmcoll.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CHAOS_RANKS 16
#define CHAOS_GROUPS 4 /* of a case with groups; the first is the world's */

enum chaos_fault {
    CHAOS_KILL,
    CHAOS_STOP,   /* and continue, long before a timeout */
    CHAOS_FREEZE, /* stop until the others have run into their timeouts */
    CHAOS_EXIT,
    CHAOS_ABORT,
    CHAOS_EXEC,
    CHAOS_FORK,   /* the child outlives the operation */
    CHAOS_CANCEL, /* the thread that calls the library */
    CHAOS_CLOSE,  /* all descriptors but the standard ones; others take their
                     numbers */
    CHAOS_LIMIT,  /* files, file sizes or memory */
    CHAOS_FAULTS
};

enum chaos_moment {
    CHAOS_INIT,
    CHAOS_OPERATIONS,
    CHAOS_DUMP,
    CHAOS_FINALIZE,
    CHAOS_MOMENTS
};

struct chaos_case {
    uint64_t seed;
    int size;
    bool launcher;
    enum chaos_fault fault;
    enum chaos_moment moment;
    int victim;
    int before;   /* operations before the fault */
    int delay_us; /* from that moment to the fault */
    int limit;    /* CHAOS_LIMIT: which */
    int works;    /* of 4: how many operations are asynchronous */
    bool groups;  /* in several groups, and of all kinds */
    bool symm;    /* on symmetric memory, too */
};

/* What a rank says of itself. */
struct chaos_line {
    _Atomic int pid;
    _Atomic int stopping;  /* about to stop */
    _Atomic int completed; /* operations */
    _Atomic int wrong;     /* values */
    _Atomic int ended;     /* it came to its own end */
    symmcoll_status_t status;
    symmcoll_status_t finalized;
    char detail[1024];
    /* Of the group of those that are left; IN_PROGRESS: nothing was tried. */
    symmcoll_status_t left;
    char left_detail[1024];
    int left_size;
    uint64_t left_last; /* collective */
};

/* In a file that the test and its ranks map. */
struct chaos_board {
    struct chaos_case drawn;
    char world[48];
    int slower;           /* by which times are longer */
    _Atomic int finished; /* ranks that have completed all operations */
    struct chaos_line lines[CHAOS_RANKS];
};

/* ---- draw.c ---- */

void chaos_draw(uint64_t seed, struct chaos_case *drawn);
void chaos_describe(const struct chaos_case *drawn, char *text, size_t nbytes);
/* The n-th number of a case's own sequence. */
uint64_t chaos_random(uint64_t seed, uint64_t n);

/* Whether the process ends by a fault. */
bool chaos_ends_rank(enum chaos_fault fault);
/* Whether the victim's end is one that its peers must notice. */
bool chaos_is_fatal(const struct chaos_case *drawn);
/* Whether operations go on until one fails. */
bool chaos_has_no_end(const struct chaos_case *drawn);

/* ---- operate.c ---- */

/* A rank that operates. */
struct chaos_rank {
    const struct chaos_case *drawn;
    struct chaos_line *line;
    int rank;
    double seconds; /* of a local creation */
    struct symmcoll_world *world;
    struct symmcoll_group *groups[CHAOS_GROUPS];
    /* Of the operation that failed: whether its group is without the victim,
     * and its detail where other calls came after it. */
    bool spared;
    char reason[1024];
};

/* The i-th operation of the case. */
symmcoll_status_t chaos_operate(struct chaos_rank *self, int i);
/* One of each kind that does not need the whole world, in a group. */
symmcoll_status_t chaos_operate_all(
    struct chaos_rank *self, struct symmcoll_group *group);

/* ---- symm.c ---- */

/* The i-th operation, of so many elements, in symmetric memory. */
symmcoll_status_t chaos_operate_symm(
    struct chaos_rank *self, struct symmcoll_group *group, int i, size_t count);

/* ---- groups.c ---- */

symmcoll_status_t chaos_make_groups(struct chaos_rank *self);
/* After a failure of this rank, whose status and detail are given: let the
 * others know in all groups.  Returns what is to be noted. */
symmcoll_status_t chaos_give_up(struct chaos_rank *self,
    symmcoll_status_t status, char *detail, size_t nbytes);
/* Go on with those that are left. */
void chaos_go_on(struct chaos_rank *self);

/* ---- rank.c ---- */

/* Be the rank that the environment names, of the case on a board; the exit
 * status. */
int chaos_be_rank(const char *board);

/* ---- judge.c ---- */

/* How the processes of a case ended, as of waitpid(). */
struct chaos_ends {
    int ranks[CHAOS_RANKS]; /* without a launcher */
    int launcher;
    char *said; /* standard error of the launcher */
};

/* Whether all is as it must be; says with diag() what is not. */
bool chaos_judge(
    const struct chaos_board *board, const struct chaos_ends *ends);
/* Whether no process holds memory of the world and no socket is left. */
bool chaos_is_clean(const struct chaos_board *board, bool own_network);

#endif
