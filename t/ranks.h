/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs test bodies on several ranks. Each call creates new processes, so that
 * a crash, a hang or a leak in one point cannot affect the next; the test
 * program itself stays single-threaded, and only it prints points. Standard
 * output of the bodies is redirected to standard error.
 *
 * A call that lasts longer than 120 seconds, or 480 under a sanitizer, fails:
 * all its ranks are killed. RANKS_TIMEOUT overrides the limit.
 */
#ifndef T_RANKS_H
#define T_RANKS_H

struct symmcoll_group;

/* The body of a rank, called with the group of all ranks. Non-zero: success. */
typedef int (*rank_fn)(struct symmcoll_group *group, int rank);

/*
 * Runs body on n ranks that are processes, each between symmcoll_init() and
 * symmcoll_finalize(). Returns true if all returned true and ended with status
 * 0.
 */
int ranks_run(int n, rank_fn body);

/* Runs body as ranks_run() does, on n threads of one new process, which join
 * through a hash store. */
int threads_run(int n, rank_fn body);

/* A check without ranks. Non-zero: success. */
typedef int (*check_fn)(void);

/* Runs a check in a new process; the check may create worlds itself. */
int process_run(check_fn check);

/* The body of a rank that does not call symmcoll_init(). Returns the exit
 * status. */
typedef int (*raw_rank_fn)(int rank, int size, void *arg);

/*
 * Forks n processes with RANK, WORLD_SIZE and the rest in the environment,
 * runs body in each and waits for all of them.
 *
 *   statuses  out: n exit statuses as waitpid() returns them; may be NULL
 *
 * Returns false if the processes had to be killed or could not be created.
 */
int ranks_spawn(int n, raw_rank_fn body, void *arg, int *statuses);

/*
 * Prepares the environment for a new set of ranks: a MASTER_ADDR and
 * MASTER_PORT that no other call and no concurrent test uses, and no variables
 * of other launchers. ranks_spawn() calls it.
 */
void ranks_environment(void);

/* Sets the variables of one rank, in its process, after ranks_environment(). */
void ranks_environment_rank(int rank, int size);

/* Returns a name for worlds of threads of this process, unique per call. */
const char *ranks_unique_name(void);

#endif
