/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that fail, and the test that makes them fail: the test starts
 * processes, reads their progress from a board in shared memory, opens gates
 * for them, sends signals, and reads their notes.
 *
 * Bounds allow for a machine with ten times as much work as it has processors,
 * and for sanitizers: reaching a bound is a failure. t/world/death.c measures
 * how soon a death is detected.
 */
#ifndef T_WORLD_FAULTS_H
#define T_WORLD_FAULTS_H

#include "t/sanitized.h"

#include <symmcoll.h>

#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#define FAULTS_RANKS 32
#define FAULTS_NOTES 4

/* Seconds within which a death is detected on any machine and waits for the
 * dead rank have ended; less than any timeout. */
#define FAULTS_KNOWN (SANITIZED ? 30.0 : 10.0)
/* Seconds after which a test no longer waits for a rank. */
#define FAULTS_WAIT_MAX (SANITIZED ? 180.0 : 60.0)

/* The result of one call of a rank. */
struct faults_note {
    symmcoll_status_t status;
    char detail[1024];
    double at; /* faults_now() */
};

/* One rank's line on the board. */
struct faults_line {
    _Atomic int step; /* progress */
    _Atomic int notes;
    struct faults_note note[FAULTS_NOTES];
    char rendezvous[96]; /* name of its rendezvous */
};

struct faults_board {
    _Atomic int gate; /* steps that ranks may pass */
    _Atomic int any;  /* a counter for the test */
    struct faults_line lines[FAULTS_RANKS];
};

/* A rank, as seen by itself. */
struct faults_rank {
    struct faults_board *board;
    struct faults_line *line;
    int rank;
    int size;
    const char *world_name;
    const void *arg;
    struct symmcoll_world *world;
    struct symmcoll_group *group;
};

/* The body of a rank; returns the exit status. It starts before init. */
typedef int (*faults_fn)(struct faults_rank *self);

/* A set of ranks, as seen by the test. */
struct faults_job {
    struct faults_board *board;
    int size;
    pid_t pids[FAULTS_RANKS];
    pid_t running[FAULTS_RANKS]; /* 0: reaped */
    int statuses[FAULTS_RANKS];  /* of waitpid() */
    double killed_at;
    char world_name[64];
};

double faults_now(void);
/* Sleeps for a moment between two polls. */
void faults_rest(void);

/* Blocks until the group has failed on this rank. Returns its status. */
static inline symmcoll_status_t faults_await_failure(
    struct symmcoll_group *group)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    for (double until = faults_now() + FAULTS_WAIT_MAX;
         status == SYMMCOLL_OK && faults_now() < until; faults_rest())
        status = symmcoll_group_error(group);
    return status;
}

/* ---- the test ---- */

/* Creates a scratch folder for dumps; called once, before all jobs. */
void faults_begin(void);
/* Removes the scratch folder. */
void faults_end(void);
/* Returns the scratch folder. */
const char *faults_folder(void);

/* Starts `size` ranks, which may read arg. */
void faults_start(
    struct faults_job *job, int size, faults_fn body, const void *arg);
/* Opens a gate for the ranks. */
void faults_open(struct faults_job *job, int step);
/* Wait until a rank, or all ranks, have reached a step; false: timed out. */
bool faults_await(const struct faults_job *job, int rank, int step);
bool faults_await_all(const struct faults_job *job, int step);
/* Waits for a step as faults_await() does, and then until all threads of the
 * rank sleep in a call. */
bool faults_await_asleep(const struct faults_job *job, int rank, int step);
/* Sends a signal and records its time; for SIGSTOP also waits until all
 * threads are stopped. A killed rank is not reaped before the end of the job,
 * so that every kernel can report how it ended. */
void faults_signal(struct faults_job *job, int rank, int sig);

/* Waits until a killed rank has ended: its memory and its sockets are gone. */
void faults_await_death(const struct faults_job *job, int rank);
/* Blocks until all other ranks have ended. Returns whether the first note of
 * each says that the victim was killed, soon after the signal. */
bool faults_kill_is_known(struct faults_job *job, int victim);
/* Waits until a rank ends by itself. */
void faults_reap(struct faults_job *job, int rank);
/*
 * Waits for the end of all ranks and releases the job. Returns true if each
 * except those in `bad` (bits) ended with status 0, and left no process, no
 * descriptor or mapping of their memory, and no socket.
 */
bool faults_finish(struct faults_job *job, unsigned bad);

/* Returns a rank's n-th note, from 0; one with status 1: none. */
const struct faults_note *faults_told(
    const struct faults_job *job, int rank, int n);
/* Checks that a note has a status and contains all texts up to NULL; prints
 * the difference if not. */
bool faults_said(const struct faults_note *note, symmcoll_status_t status, ...);
/* Returns a name such as "rank 2 (pid 123)". */
const char *faults_name(const struct faults_job *job, int rank, char *buffer);

/* Checks that a rank's dump exists and is valid JSON that contains a text
 * (NULL: any). */
bool faults_dumped(int rank, const char *text);
/* Checks that the folder contains only dumps, at most `most`; removes them. */
bool faults_clear_dumps(int most);

/* ---- a rank ---- */

/* Calls symmcoll_init() in the job's world; records a failure. */
bool faults_init(struct faults_rank *self);
/* Finalizes. Returns the exit status. */
int faults_finalize(struct faults_rank *self);
/* faults_reach() publishes this rank's progress; faults_pass() waits for a
 * gate. */
void faults_reach(struct faults_rank *self, int step);
void faults_pass(const struct faults_rank *self, int step);
/* Records the status of a call, and returns it. */
symmcoll_status_t faults_note(
    struct faults_rank *self, symmcoll_status_t status);
/* Run a barrier, or an all_reduce of `count` ones, with default options. */
symmcoll_status_t faults_barrier(struct faults_rank *self);
symmcoll_status_t faults_sum(struct faults_rank *self, float *x, size_t count);
/* Returns options with a timeout in seconds. */
struct symmcoll_call faults_timeout(double seconds);
/* Ends the process with a status and without finalize. */
_Noreturn void faults_exit(int status);

#endif
