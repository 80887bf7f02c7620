/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks for tests.  Each call makes new processes, so that a crash, a hang or a
 * leak in one point cannot spoil the next; the test program itself stays
 * single-threaded and alone prints points.  Bodies run with standard output
 * joined to standard error.
 *
 * A call that lasts longer than 120 seconds, or 480 under a sanitizer, is killed
 * with all its ranks and has failed; RANKS_TIMEOUT overrides.
 */
#ifndef T_RANKS_H
#define T_RANKS_H

struct symmcoll_group;

/* What a rank does, in the group of all ranks; non-zero is success. */
typedef int (*rank_fn)(struct symmcoll_group *group, int rank);

/*
 * Run body on n ranks that are processes, each between symmcoll_init() and
 * symmcoll_finalize().  True when all returned true and ended with status 0.
 */
int ranks_run(int n, rank_fn body);

/* The same on n threads of one new process, which join through a hash store. */
int threads_run(int n, rank_fn body);

/* What is checked without ranks; non-zero is success. */
typedef int (*check_fn)(void);

/* Run a check in a process of its own, which may make worlds by itself. */
int process_run(check_fn check);

/* What a bare rank does, without symmcoll_init(); returns the exit status. */
typedef int (*raw_rank_fn)(int rank, int size, void *arg);

/*
 * Fork n processes that find RANK, WORLD_SIZE and the rest in the environment
 * and run body; wait for all.
 *
 * statuses  out, n of them as of waitpid(); NULL where nobody asks
 *
 * False when they had to be killed, or could not be made.
 */
int ranks_spawn(int n, raw_rank_fn body, void *arg, int *statuses);

/*
 * Make the environment that of a fresh set of ranks: a MASTER_ADDR and
 * MASTER_PORT that no other call and no test running beside this one uses, and
 * no variable of another launcher.  ranks_spawn() calls it.
 */
void ranks_environment(void);

/* Then, in a process that is to be a rank: which one. */
void ranks_environment_rank(int rank, int size);

/* The names of a world made by threads of this process: unique per call. */
const char *ranks_unique_name(void);

#endif
