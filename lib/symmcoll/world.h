/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A world is the context of one rank: its settings, its number, its peers.  The
 * library has no other state, so a process may hold several worlds, and threads
 * may be ranks.  Manual: symmcoll_init(3).
 */
#ifndef SYMMCOLL_WORLD_H
#define SYMMCOLL_WORLD_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_world;
struct symmcoll_group;
struct symmcoll_store;

/*
 * How to join the other ranks.  The defaults, SYMMCOLL_INIT_ARGS_INIT, read the
 * environment that symmcoll-run, torchrun, mpirun or srun set.
 */
struct symmcoll_init_args {
    size_t size;             /* sizeof(struct symmcoll_init_args) */
    const char *init_method; /* "env://", "file:///PATH", "tcp://HOST:PORT", or
                                a URL with a registered scheme; NULL: env:// */
    struct symmcoll_store *store; /* borrowed until finalize; excludes
                                     init_method, requires world_size */
    int rank;                     /* this rank; read if world_size > 0 */
    int world_size;               /* number of ranks; 0: from the environment */
    const char *name;             /* of the world, at most 63 bytes, for
                                     ranks that make several; NULL:
                                     "default" */
    double timeout; /* of the rendezvous and, later, of operations;
                       negative: timeouts.init and timeouts.collective */
};
#define SYMMCOLL_INIT_ARGS_INIT                                         \
    {                                                                   \
        sizeof(struct symmcoll_init_args), NULL, NULL, 0, 0, NULL, -1.0 \
    }

/*
 * Joins the other ranks.  Blocks until all ranks have joined or the timeout has
 * passed.
 *
 * args   NULL for the environment
 * world  out: release with symmcoll_finalize()
 *
 * The ranks of a world are all processes or all threads of one process.
 *
 * Errors: INVALID, MISMATCH (world_size), CONFIG (a setting), TIMEOUT (the
 * detail names the missing ranks), PEER (a rank died during the call),
 * UNSUPPORTED (several machines, or an unknown init_method), NO_MEMORY, SYSTEM.
 * Source: torch.distributed.init_process_group.
 * Manual: symmcoll_init(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_init(
    const struct symmcoll_init_args *args, struct symmcoll_world **world);

/*
 * Shuts this rank down and releases the world with its groups; NULL is valid.
 * Waits for queued operations, at most timeouts.finalize, and not for the other
 * ranks.  No other thread may be in a function of the world, except that
 * threads may wait for works, and query and release them afterwards.
 *
 * Errors: DEVICE (a backend still owns buffers); TIMEOUT (operations had not
 * ended.  If the detail says that a thread is in a device's driver, nothing has
 * been released: call again after that thread has returned); INVALID, without
 * any effect, in a child after fork(), on the callback thread, and in a
 * function that a call of the library has called.
 * Source: torch.distributed.destroy_process_group.
 */
SYMMCOLL_API
symmcoll_status_t symmcoll_finalize(struct symmcoll_world *world);

/* Returns the group of all ranks.  Borrowed: valid as long as the world. */
SYMMCOLL_API
struct symmcoll_group *symmcoll_world_group(struct symmcoll_world *world);

/* Returns this rank's number, from 0. */
SYMMCOLL_API
int symmcoll_world_rank(const struct symmcoll_world *world);

/* Returns the number of ranks. */
SYMMCOLL_API
int symmcoll_world_size(const struct symmcoll_world *world);

/* Returns the store of the rendezvous, borrowed; NULL if the ranks joined
 * without one.  A fake world has a fake store. */
SYMMCOLL_API
struct symmcoll_store *symmcoll_world_store(const struct symmcoll_world *world);

/*
 * Creates an operation that multiplies this rank's input by a factor before the
 * sum.  Each rank creates its own, with its own factor.  The number is valid in
 * this world until symmcoll_op_free() or symmcoll_finalize().
 * Errors: INVALID, NO_MEMORY.
 * Source: torch.distributed._make_nccl_premul_sum.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_op_create_premul(
    struct symmcoll_world *world, double factor, symmcoll_op_t *op);

/*
 * Releases an operation of symmcoll_op_create_premul().  Calls made before keep
 * its factor; later calls with its number are refused.
 * Errors: INVALID (no such operation).
 */
SYMMCOLL_API
symmcoll_status_t symmcoll_op_free(
    struct symmcoll_world *world, symmcoll_op_t op);

SYMMCOLL_END_DECLS

#endif
