/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moving the data of several ranks in place, in chunks, for operations on
 * symmetric memory and for the host backend.
 */
#ifndef SYMC_BASE_MOVING_H
#define SYMC_BASE_MOVING_H

#include "base/op.h"
#include "base/reduce.h"

struct symc_joined;           /* backend/memory.h */
struct symc_strided;          /* backend/one_rank.h */
struct symc_product_operands; /* base/product.h */
struct symc_launch;           /* below */

/* The buffers of a rank that other ranks access in place. */
struct symc_exposed {
    const char *in;
    char *out;
};

/* The ranks to whose results a sum is written: count ranks from first on; rank
 * 0 follows the last rank of the group. */
struct symc_targets {
    int first;
    int count;
};

/* Rows of elements, at the same offset in the memory of all ranks. */
struct symc_rows {
    size_t at;               /* offset in bytes of the first row */
    size_t count;            /* elements of a row */
    size_t rows;             /* number of rows; 1: contiguous */
    size_t pitch, out_pitch; /* bytes from row to row, here and in out */
};

/* Rows of this rank: row i is written to row to[i] of the memory of rank
 * ranks[i]. */
struct symc_pushed {
    size_t at; /* offset in bytes of row 0 in that memory */
    const void *in;
    size_t count;
    size_t nbytes; /* of each row */
    const int *ranks;
    const size_t *to;
};

/*
 * The operations with which a mover moves data on a device; each enqueues work.
 * After an error, which is kept, nothing more is enqueued.
 *
 * A mover that multiplies has two streams: the operation's, which is current at
 * first, and a side stream for concurrent work.  When the side stream first
 * becomes current, it begins after what the operation's stream has by then.
 * Work is enqueued on the current stream.  The operation ends when both streams
 * have ended.
 */
struct symc_enqueue {
    void (*copy)(void *state, void *out, const void *in, size_t nbytes);
    void (*reduce)(void *state, const struct symc_rows *rows, void *out);
    void (*strided)(void *state, const struct symc_strided *copy);
    void (*push)(void *state, const struct symc_pushed *rows);
    /* Reduces count elements from an offset in the memory of all ranks,
     * after copying them to memory of this rank: no kernel reads other
     * ranks' memory. */
    void (*reduce_copies)(void *state, size_t at, size_t count, void *out);

    /* The following functions are for movers that multiply. */
    void (*set_stream)(void *state, bool beside); /* selects the current
                                                     stream */
    /* Orders later work of the current stream after what the other stream has
     * so far. */
    void (*follow)(void *state);
    /* A barrier of all members: completes what they have enqueued before on the
     * same stream. */
    void (*synchronise)(void *state);
    /* Enqueues a kernel that synchronises the ranks before and after its
     * accesses; no further barrier is needed. */
    void (*launch)(void *state, const struct symc_launch *launch);
    void (*clear)(void *state, void *at, size_t nbytes);
    void (*multiply)(
        void *state, void *plan, const struct symc_product_operands *operands);
    /* Rounds float32 elements to float16 or bfloat16. */
    void (*round)(void *state, enum symmcoll_dtype dtype, void *out,
        const void *in, size_t count);
};

/* The arguments of the functions that move an operation's data. */
struct symc_moving {
    const struct symc_op *op;
    int rank, size;
    const char *group;                      /* its name, for messages */
    const struct symc_ranks *ranks;         /* its ranks, for messages */
    const struct symc_reduction *reduction; /* if the operation reduces */
    struct symc_exposed *exposed; /* scratch: one entry per rank, as sources */
    const void **sources;
    /* From this many bytes of a rank on, non-temporal stores are faster: for
     * data that is summed or written to other ranks, and for data that is
     * copied from them. */
    size_t stream_pushed;
    size_t stream_pulled;
    /* Called before a chunk of nbytes of a rank's buffers, or with rank == size
     * of all ranks' buffers, is accessed.  Returns false if it may no longer be
     * accessed.  NULL: always true. */
    bool (*step)(void *state, int rank, size_t nbytes);
    const struct symc_enqueue *enqueue; /* NULL: the host moves the data;
                                           otherwise exposed, sources and
                                           reduction are not valid */
    void *state;
    bool *streamed; /* set to true if non-temporal stores were used: a fence is
                       needed before their data is published */
};

#define SYMC_MOVING_CHUNK ((size_t)256 * 1024)

/*
 * Reduces elements [lo, hi) of the inputs of all ranks into the same elements
 * of the targets' results.  Returns false if step() stopped it.
 */
bool symc_moving_reduce(const struct symc_moving *moving,
    struct symc_targets targets, size_t lo, size_t hi, bool streaming);

/* Copies from or to a rank's buffer; equal addresses are valid.  Returns false
 * if step() stopped it. */
bool symc_moving_copy(const struct symc_moving *moving, int rank, void *out,
    const void *in, size_t nbytes, bool streaming);

/* Kernels of a device that synchronise the ranks themselves. */
enum symc_launch_kind {
    SYMC_LAUNCH_ONE_SHOT, /* reduce the elements into out, or the root's out */
    SYMC_LAUNCH_TWO_SHOT, /* reduce them in place, and into out */
    SYMC_LAUNCH_REDUCE_SCATTER, /* this rank's slice of rows into out */
    SYMC_LAUNCH_ALL_GATHER,     /* in to this rank's slice in all ranks'
                                   memory */
    SYMC_LAUNCH_PULL,     /* slices of some ranks into out, in rank order */
    SYMC_LAUNCH_PLAN,     /* compute the layout of the pieces */
    SYMC_LAUNCH_PLAN_RUN, /* move them */
    SYMC_LAUNCH_EXCHANGE  /* PLAN and PLAN_RUN */
};

/* Pieces of rows of `slice` bytes.  Their numbers of rows are in the memory of
 * all ranks, in the layout of struct symmcoll_symm_exchange. */
struct symc_launch_pieces {
    size_t in_splits; /* offset in bytes in that memory */
    void *out_splits;
    size_t in_rows, out_rows;
    size_t major_align;
    int experts;
    bool back;  /* reverse exchange */
    void *plan; /* PLAN, PLAN_RUN: device memory of symc_launch_plan_nbytes()
                   bytes */
};

/* Returns the bytes of a plan of that many pieces; a multiple of 16. */
static inline size_t symc_launch_plan_nbytes(size_t pieces)
{
    return 256 + pieces * 32;
}

/* The arguments of one such kernel; counts are those of its op. */
struct symc_launch {
    enum symc_launch_kind kind;
    size_t at; /* offset in bytes of the elements, rows or slices in the memory
                  of all ranks */
    const void *in; /* copied there first by this rank; a slice for PULL; NULL:
                       none */
    void *out;      /* NULL: none, or zero bytes */
    struct symc_rows rows; /* REDUCE_SCATTER: the first rank's slice */
    size_t slice;          /* bytes of a slice, also the distance between
                              slices */
    int first, sources;    /* PULL: `sources` ranks from `first` on */
    struct symc_launch_pieces pieces;
};

/*
 * The argument op->out of an operation of a kind with SYMC_MOVES.  Its
 * functions run on all ranks between two synchronisations: no rank runs them
 * before all ranks have called the operation, and no rank continues before all
 * have returned from them.  They must not wait.
 *
 * payload  data of this rank that all other ranks read
 * check    compares the payloads, by rank.  All ranks get the same status, because
 *          they read the same payloads.  If it is not OK no data is moved
 * move     moves the data with the functions above.  It may continue after one has
 *          returned false: the following ones also stop, and the operation fails
 *
 * For a device operation the payloads are compared in the same way through the
 * host backend, and check() can access nothing else.  move() enqueues.  A mover
 * that multiplies is not run between two synchronisations; it has its own.
 */
struct symc_mover {
    unsigned char payload[SYMC_MOVER_PAYLOAD];
    struct symc_joined *joined; /* device: the memory that is moved in */
    const struct symc_launch
        *launch;   /* device: used instead of move(); or NULL */
    void *compute; /* device: the plan of the product, see struct
                      symc_compute_ops; NULL: no product */
    symmcoll_status_t (*check)(struct symc_mover *mover,
        const struct symc_moving *moving, const void *const *payloads);
    void (*move)(struct symc_mover *mover, const struct symc_moving *moving);
};

#endif
