/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moving data of several ranks where it lies, in chunks: what operations on
 * symmetric memory and the host backend share.
 */
#ifndef SYMC_BASE_MOVING_H
#define SYMC_BASE_MOVING_H

#include "base/op.h"
#include "base/reduce.h"

struct symc_joined;           /* backend/memory.h */
struct symc_strided;          /* backend/one_rank.h */
struct symc_product_operands; /* base/product.h */
struct symc_launch;           /* below */

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

/* Elements in rows, at the same place of the memory of all ranks. */
struct symc_rows {
    size_t at;    /* byte of that memory where the first one begins */
    size_t count; /* elements of a row */
    size_t rows;  /* or 1: all one after another */
    size_t pitch, out_pitch; /* bytes from a row to the next, here and in out */
};

/* Rows of this rank, row i to row to[i] of the memory of rank ranks[i]. */
struct symc_pushed {
    size_t at; /* byte of that memory where row 0 begins */
    const void *in;
    size_t count;
    size_t nbytes; /* of each */
    const int *ranks;
    const size_t *to;
};

/*
 * How the data of an operation are moved on a device: each is enqueued.  After an
 * error, which is kept, nothing is.
 *
 * What multiplies has two streams: the operation's, which is current at first, and
 * one beside it, for what is to run meanwhile, which begins where it is current
 * first, after what the operation's has then.  Everything is enqueued on the
 * current one.  Where the operation ends both have ended.
 */
struct symc_enqueue {
    void (*copy)(void *state, void *out, const void *in, size_t nbytes);
    void (*reduce)(void *state, const struct symc_rows *rows, void *out);
    void (*strided)(void *state, const struct symc_strided *copy);
    void (*push)(void *state, const struct symc_pushed *rows);
    /* Reduce so many elements from a byte of the memory of all ranks on, which are
     * copied to memory of this rank first: no kernel reads that of the others. */
    void (*reduce_copies)(void *state, size_t at, size_t count, void *out);

    /* These only for a mover that multiplies. */
    void (*set_stream)(void *state, bool beside); /* the current one */
    /* What comes next is after what the other stream has so far. */
    void (*follow)(void *state);
    /* A barrier of all members: what they have enqueued before on the same stream
     * has been done. */
    void (*synchronise)(void *state);
    /* A kernel that synchronises before and after what it reads: no barrier is needed
     * beside it. */
    void (*launch)(void *state, const struct symc_launch *launch);
    void (*clear)(void *state, void *at, size_t nbytes);
    void (*multiply)(
        void *state, void *plan, const struct symc_product_operands *operands);
    /* Elements of float32 as float16 or bfloat16. */
    void (*round)(void *state, enum symmcoll_dtype dtype, void *out,
        const void *in, size_t count);
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
    const struct symc_enqueue *enqueue; /* NULL: the host moves; else exposed,
                                           sources and reduction are not there */
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

/* What a device has kernels for that synchronise by themselves. */
enum symc_launch_kind {
    SYMC_LAUNCH_ONE_SHOT, /* reduce the elements into out, or the root's */
    SYMC_LAUNCH_TWO_SHOT, /* the same in their place, and into out */
    SYMC_LAUNCH_REDUCE_SCATTER, /* this rank's slice of rows into out */
    SYMC_LAUNCH_ALL_GATHER,     /* in to the slice of this rank, of all ranks */
    SYMC_LAUNCH_PULL,     /* slices of some ranks into out, in their order */
    SYMC_LAUNCH_PLAN,     /* see what pieces there are */
    SYMC_LAUNCH_PLAN_RUN, /* move them */
    SYMC_LAUNCH_EXCHANGE  /* both */
};

/* Pieces, which are rows of `slice` bytes; how many they have is in the memory of
 * all ranks, as struct symmcoll_symm_exchange says. */
struct symc_launch_pieces {
    size_t in_splits; /* byte of that memory */
    void *out_splits;
    size_t in_rows, out_rows;
    size_t major_align;
    int experts;
    bool back;  /* the way back */
    void *plan; /* PLAN, PLAN_RUN: memory of the device for them */
};

/* Bytes of that memory, of so many pieces; a multiple of 16. */
static inline size_t symc_launch_plan_nbytes(size_t pieces)
{
    return 256 + pieces * 32;
}

/* One operation of those; counts are of its op. */
struct symc_launch {
    enum symc_launch_kind kind;
    size_t at; /* byte of the memory of all ranks: elements, rows, slices */
    const void *in; /* what this rank copies there first, a slice of it in PULL;
                       NULL: nothing */
    void *out;      /* NULL: none, or of no bytes */
    struct symc_rows rows; /* REDUCE_SCATTER: of the first rank's slice */
    size_t slice;          /* bytes of a slice; from one to the next */
    int first, sources;    /* PULL: so many ranks from that one on */
    struct symc_launch_pieces pieces;
};

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
 *
 * On a device the ranks compare the payloads alike, in the backend of host memory,
 * which check() cannot read more of than that.  move() enqueues; where it multiplies
 * it is not run between two synchronisations, but has its own.
 */
struct symc_mover {
    unsigned char payload[SYMC_MOVER_PAYLOAD];
    struct symc_joined *joined; /* of a device: the memory that is moved in */
    const struct symc_launch
        *launch;   /* likewise: in place of move(); or NULL */
    void *compute; /* likewise: what multiplies, see struct symc_compute_ops;
                      NULL: nothing does */
    symmcoll_status_t (*check)(struct symc_mover *mover,
        const struct symc_moving *moving, const void *const *payloads);
    void (*move)(struct symc_mover *mover, const struct symc_moving *moving);
};

#endif
