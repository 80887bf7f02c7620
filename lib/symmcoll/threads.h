/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads as ranks: a function runs on several threads of this process, each of
 * which is a rank with a world of its own.  Manual: symmcoll_threads_run(3).
 */
#ifndef SYMMCOLL_THREADS_H
#define SYMMCOLL_THREADS_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_world;
struct symmcoll_group;

/*
 * What a rank does between symmcoll_init() and symmcoll_finalize(), which the
 * runner calls; what it has started it ends before it returns.  Returns OK,
 * SKIPPED, or any other value where it has failed.  world is borrowed for the
 * call.
 */
typedef symmcoll_status_t (*symmcoll_rank_fn)(
    struct symmcoll_world *world, void *arg);

struct symmcoll_threads_args {
    size_t size;                 /* sizeof(struct symmcoll_threads_args) */
    const char *name;            /* as of struct symmcoll_init_args */
    double timeout;              /* likewise */
    symmcoll_status_t *statuses; /* out: what each rank has returned; ABORTED:
                                    ended because another one did; NULL */
};
#define SYMMCOLL_THREADS_ARGS_INIT                              \
    {                                                           \
        sizeof(struct symmcoll_threads_args), NULL, -1.0, NULL, \
    }

/*
 * Run body(world, arg) on size new threads, the ranks 0 to size - 1 of one
 * world, and wait until all have returned.
 *
 * arg   borrowed, and passed to all
 * args  NULL for the defaults
 *
 * A rank that fails or skips ends the waits of the others in its groups, with
 * CANCELED or ABORTED, and in the world's store.  Ranks that return after that
 * because a call was ended are not counted as failed.
 *
 * Returns OK where all returned OK; the status of the lowest rank that has
 * failed (PEER where its value is none of the library's errors), with the
 * errors of all that have failed as symmcoll_last_error(); else SKIPPED where a
 * rank has skipped.  Errors of its own: INVALID, NO_MEMORY, SYSTEM (no thread),
 * and those of symmcoll_init() and symmcoll_finalize().
 * Source: torch.testing._internal.common_distributed,
 * spawn_threads_and_init_comms.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_threads_run(int size, symmcoll_rank_fn body,
    void *arg, const struct symmcoll_threads_args *args);

/*
 * Compare this rank's elements with those of one rank, bit by bit.  Collective:
 * a broadcast for each 16 KiB and, of more than one, before them an all_reduce of
 * the counts, which have to be the same.
 *
 * buf    count elements, read only
 * root   the group's number of the rank to compare with
 * call   as for collectives
 * equal  out: 1 where they are the same, else 0; 1 at the root
 *
 * Errors: those of symmcoll_broadcast(), MISMATCH on all where counts differ.
 * Source: MultiThreadedTestCase.assertEqualOnRank.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_compare(struct symmcoll_group *group,
    const void *buf, size_t count, enum symmcoll_dtype dtype, int root,
    const struct symmcoll_call *call, int *equal);

SYMMCOLL_END_DECLS

#endif
