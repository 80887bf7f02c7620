/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moving data of several ranks where it lies, in chunks: what operations on
 * symmetric memory and the host backend share.
 */
#ifndef SYMC_BASE_MOVING_H
#define SYMC_BASE_MOVING_H

#include "base/op.h"
#include "base/reduce.h"

struct symc_joined; /* backend/backend.h */

/* A rank's buffers that others use where they lie. */
struct symc_exposed {
    const char *in;
    char *out;
};

/* Whose results a sum is written to: of so many ranks from the first on, after
 * the last of the group rank 0. */
struct symc_targets {
    int first;
    int count;
};

/* What those who move the data of an operation are given. */
struct symc_moving {
    const struct symc_op *op;
    int rank, size;
    const char *group;                      /* its name, for messages */
    const struct symc_ranks *ranks;         /* likewise */
    const struct symc_reduction *reduction; /* of one that reduces */
    struct symc_exposed
        *exposed; /* room for one of each rank, as sources, while
                                  data is moved */
    const void **sources;
    /* Non-temporal stores are faster from so many bytes of a rank's on: of what
     * is summed or written to others, and of what is copied from them. */
    size_t stream_pushed;
    size_t stream_pulled;
    /* A chunk of so many bytes of a rank's buffers is to be used next, or, where
     * rank is the size, of everybody's.  False: it may not be used any more.
     * NULL: it always may. */
    bool (*step)(void *state, int rank, size_t nbytes);
    void *state;
    bool *streamed; /* set where non-temporal stores have been used: before what
                       they have written is published they need a fence */
};

#define SYMC_MOVING_CHUNK ((size_t)256 * 1024)

/*
 * Reduce elements [lo, hi) of the inputs of all ranks into the results of
 * targets, the same elements of these.  False: it has been stopped.
 */
bool symc_moving_reduce(const struct symc_moving *moving,
    struct symc_targets targets, size_t lo, size_t hi, bool streaming);

/* Copy from or to a rank's buffer; equal addresses are valid. */
bool symc_moving_copy(const struct symc_moving *moving, int rank, void *out,
    const void *in, size_t nbytes, bool streaming);

/*
 * What an operation of a kind with SYMC_MOVES passes at op->out.  Its functions
 * run on all ranks, between two synchronisations: nobody is in them before all
 * have called the operation, or goes on before all have left them.  They do not
 * wait for anything.
 *
 * payload  what all others see of this rank
 * check    compare the payloads, by rank: all ranks come to the same status, for
 *          they look at the same.  Where it is not OK nothing is moved
 * move     by the functions above; it may go on where one has been stopped, for
 *          what follows is stopped, too, and the operation fails
 */
struct symc_mover {
    unsigned char payload[SYMC_MOVER_PAYLOAD];
    struct symc_joined *joined; /* of a device: the memory that is moved in */
    symmcoll_status_t (*check)(struct symc_mover *mover,
        const struct symc_moving *moving, const void *const *payloads);
    void (*move)(struct symc_mover *mover, const struct symc_moving *moving);
};

#endif
