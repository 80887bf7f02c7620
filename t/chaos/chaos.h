/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random faults, and the state that every surviving rank must find. A case is
 * a function of its seed: the number of ranks, the fault of one of them, and
 * its time. Its ranks are the test program itself, executed again.
 *
 *   chaos.c    the test: runs cases one after another and starts their ranks
 *   draw.c     from a seed to a case, and its description
 *   rank.c     a rank, and the fault within it
 *   operate.c  operations of all kinds in a group, and their results
 *   symm.c     operations on symmetric memory
 *   groups.c   overlapping groups, and shrinking them after the fault
 *   judge.c    checks of the ranks' and the launcher's messages, and of leftovers
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

/* The report of a rank. */
struct chaos_line {
    _Atomic int pid;
    _Atomic int stopping;  /* about to stop */
    _Atomic int completed; /* operations */
    _Atomic int wrong;     /* values */
    _Atomic int ended;     /* it came to its own end */
    symmcoll_status_t status;
    symmcoll_status_t finalized;
    char detail[1024];
    /* The group of the remaining ranks; IN_PROGRESS: not tried. */
    symmcoll_status_t left;
    char left_detail[1024];
    int left_size;
    uint64_t left_last; /* collective */
};

/* The state in a file that the test and its ranks map. */
struct chaos_board {
    struct chaos_case drawn;
    char world[48];
    int slower;           /* factor by which times are longer */
    _Atomic int finished; /* ranks that have completed all operations */
    struct chaos_line lines[CHAOS_RANKS];
};

/* ---- draw.c ---- */

void chaos_draw(uint64_t seed, struct chaos_case *drawn);
void chaos_describe(const struct chaos_case *drawn, char *text, size_t nbytes);
/* Returns the n-th number of a case's own sequence. */
uint64_t chaos_random(uint64_t seed, uint64_t n);

/* Returns whether the fault ends the process. */
bool chaos_ends_rank(enum chaos_fault fault);
/* Returns whether peers must detect the victim's end. */
bool chaos_is_fatal(const struct chaos_case *drawn);
/* Returns whether operations continue until one fails. */
bool chaos_has_no_end(const struct chaos_case *drawn);

/* ---- operate.c ---- */

/* A rank that runs operations. */
struct chaos_rank {
    const struct chaos_case *drawn;
    struct chaos_line *line;
    int rank;
    double seconds; /* of a local creation */
    struct symmcoll_world *world;
    struct symmcoll_group *groups[CHAOS_GROUPS];
    /* For the operation that failed: whether its group excludes the victim,
     * and its detail if other calls followed. */
    bool spared;
    char reason[1024];
};

/* Runs the i-th operation of the case. */
symmcoll_status_t chaos_operate(struct chaos_rank *self, int i);
/* Runs one operation of each kind that does not need the whole world. */
symmcoll_status_t chaos_operate_all(
    struct chaos_rank *self, struct symmcoll_group *group);

/* ---- symm.c ---- */

/* Runs the i-th operation, of count elements, in symmetric memory. */
symmcoll_status_t chaos_operate_symm(
    struct chaos_rank *self, struct symmcoll_group *group, int i, size_t count);

/* ---- groups.c ---- */

symmcoll_status_t chaos_make_groups(struct chaos_rank *self);
/* Makes the other ranks see a failure of this rank, in all groups. Returns the
 * status to record. */
symmcoll_status_t chaos_give_up(struct chaos_rank *self,
    symmcoll_status_t status, char *detail, size_t nbytes);
/* Continues with the remaining ranks. */
void chaos_go_on(struct chaos_rank *self);

/* ---- rank.c ---- */

/* Runs the rank that the environment names, in the case on a board. Returns
 * the exit status. */
int chaos_be_rank(const char *board);

/* ---- judge.c ---- */

/* The exit statuses of a case's processes, as waitpid() returns them. */
struct chaos_ends {
    int ranks[CHAOS_RANKS]; /* without a launcher */
    int launcher;
    char *said; /* standard error of the launcher */
};

/* Checks the whole case, and prints each difference with diag(). */
bool chaos_judge(
    const struct chaos_board *board, const struct chaos_ends *ends);
/* Checks that no process holds memory of the world and that no socket
 * remains. */
bool chaos_is_clean(const struct chaos_board *board, bool own_network);

#endif
