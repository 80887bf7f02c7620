/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A world is one rank's context: its settings, its number, its peers.  Nothing
 * else is global, so a process may hold several, and threads may be ranks.
 * Manual: symmcoll_init(3).
 */
#ifndef SYMMCOLL_WORLD_H
#define SYMMCOLL_WORLD_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_world;
struct symmcoll_group;
struct symmcoll_store;

/*
 * How to find the other ranks.  As initialised by SYMMCOLL_INIT_ARGS_INIT it
 * means: read the environment that symmcoll-run, torchrun, mpirun or srun set.
 */
struct symmcoll_init_args {
    size_t size;             /* sizeof(struct symmcoll_init_args) */
    const char *init_method; /* "env://", "file:///PATH", "tcp://HOST:PORT", or
                                a registered scheme's; NULL: env:// */
    struct symmcoll_store *store; /* borrowed until finalize; excludes
                                     init_method, wants world_size */
    int rank;                     /* this rank; read where world_size > 0 */
    int world_size;               /* number of ranks; 0: from the environment */
    const char *name;             /* of the world, when one set of ranks makes
                                     several, at most 63 bytes; NULL:
                                     "default" */
    double timeout; /* for the rendezvous and, later, for operations;
                       negative: the settings */
};
#define SYMMCOLL_INIT_ARGS_INIT                                         \
    {                                                                   \
        sizeof(struct symmcoll_init_args), NULL, NULL, 0, 0, NULL, -1.0 \
    }

/*
 * Join the other ranks.  Blocks until all have joined or the timeout has
 * passed.
 *
 * args   NULL for the environment
 * world  out: release with symmcoll_finalize()
 *
 * The ranks of a world are all processes or all threads of one process.
 *
 * Errors: INVALID, MISMATCH (world_size), CONFIG (a setting), TIMEOUT (names
 * the missing ranks), PEER (a rank died meanwhile), UNSUPPORTED (several
 * machines, or this kind of init_method), NO_MEMORY, SYSTEM.
 * Source: torch.distributed.init_process_group.
 * Manual: symmcoll_init(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_init(
    const struct symmcoll_init_args *args, struct symmcoll_world **world);

/*
 * Shut this rank down and release the world with all that belongs to it; NULL
 * is fine.  Queued operations are finished first, within the timeout of the
 * settings.  Other threads must have left the world's functions, but they may
 * wait for works and ask them afterwards.  It does not wait for the other
 * ranks.
 *
 * Errors: DEVICE (a backend still owns buffers), TIMEOUT (operations have not
 * ended; where it says that a thread stands in a device's driver, nothing has been
 * released: call again when it has returned); INVALID in a child after fork(), on the callback thread and in a
 * function that a call of the library has called: nothing is touched there.
 * Source: torch.distributed.destroy_process_group.
 */
SYMMCOLL_API
symmcoll_status_t symmcoll_finalize(struct symmcoll_world *world);

/* The group of all ranks.  Borrowed: it lives as long as the world. */
SYMMCOLL_API
struct symmcoll_group *symmcoll_world_group(struct symmcoll_world *world);

/* This rank's number, from 0. */
SYMMCOLL_API
int symmcoll_world_rank(const struct symmcoll_world *world);

/* How many ranks there are. */
SYMMCOLL_API
int symmcoll_world_size(const struct symmcoll_world *world);

/* The store of the rendezvous, borrowed; NULL where none was needed.  In a fake
 * world it is a fake store. */
SYMMCOLL_API
struct symmcoll_store *symmcoll_world_store(const struct symmcoll_world *world);

/*
 * Make an operation that multiplies this rank's input by its own factor before
 * the sum.  Each rank makes its own; the number is good in this world only,
 * until it is released, at the latest by finalize.  Errors: INVALID, NO_MEMORY.
 * Source: torch.distributed._make_nccl_premul_sum.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_op_create_premul(
    struct symmcoll_world *world, double factor, symmcoll_op_t *op);

/*
 * Release such an operation; calls made before keep its factor.  Its number is
 * refused from then on.  Errors: INVALID (no such operation).
 */
SYMMCOLL_API
symmcoll_status_t symmcoll_op_free(
    struct symmcoll_world *world, symmcoll_op_t op);

SYMMCOLL_END_DECLS

#endif
