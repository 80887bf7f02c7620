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
 * The body of one rank.  symmcoll_threads_run() calls symmcoll_init() before it
 * and symmcoll_finalize() after it.  The body ends all threads and operations
 * that it has started before it returns.  It returns OK, SKIPPED, or any other
 * value for a failure.  world is borrowed for the call.
 */
typedef symmcoll_status_t (*symmcoll_rank_fn)(
    struct symmcoll_world *world, void *arg);

struct symmcoll_threads_args {
    size_t size;                 /* sizeof(struct symmcoll_threads_args) */
    const char *name;            /* as in struct symmcoll_init_args */
    double timeout;              /* as in struct symmcoll_init_args */
    symmcoll_status_t *statuses; /* out: the result of each rank's body;
                                    ABORTED if it ended because another rank
                                    failed or skipped; NULL: not wanted */
};
#define SYMMCOLL_THREADS_ARGS_INIT                              \
    {                                                           \
        sizeof(struct symmcoll_threads_args), NULL, -1.0, NULL, \
    }

/*
 * Runs body(world, arg) on size new threads, the ranks 0 to size - 1 of one
 * world, and waits until all have returned.
 *
 * arg   borrowed, and passed to all
 * args  NULL for the defaults
 *
 * When a rank fails or skips, operations of the other ranks in its groups end
 * with CANCELED or ABORTED, and their waits in the world's store with CANCELED.
 * A rank that fails because of that does not count as failed.
 *
 * Returns OK if every rank did.  If ranks have failed, it returns the status of
 * the lowest one (PEER if that value is no error of the library), and
 * symmcoll_last_error() has the errors of all ranks that failed.  Else SKIPPED,
 * if a rank skipped.  Own errors: INVALID, NO_MEMORY, SYSTEM (a thread cannot
 * be created), and those of symmcoll_init() and symmcoll_finalize().
 * Source: torch.testing._internal.common_distributed,
 * spawn_threads_and_init_comms.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_threads_run(int size, symmcoll_rank_fn body,
    void *arg, const struct symmcoll_threads_args *args);

/*
 * Compares this rank's elements with those of the root, bit by bit.
 * Collective: one broadcast for each 16 KiB and, if there is more than one, an
 * all_reduce of the counts before them.
 *
 * buf    count elements, read only
 * count  the same on all ranks
 * root   the group's number of the rank to compare with
 * call   as for collectives
 * equal  out: 1 if the elements are the same, else 0; 1 at the root
 *
 * Errors: those of symmcoll_broadcast(); MISMATCH on all ranks if counts
 * differ.
 * Source: MultiThreadedTestCase.assertEqualOnRank.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_compare(struct symmcoll_group *group,
    const void *buf, size_t count, enum symmcoll_dtype dtype, int root,
    const struct symmcoll_call *call, int *equal);

SYMMCOLL_END_DECLS

#endif
