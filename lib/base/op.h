/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One call of an operation, in the form in which all layers from the recorder
 * up pass it on.
 */
#ifndef SYMC_BASE_OP_H
#define SYMC_BASE_OP_H

#include "base/kind.h"

#include <symmcoll/types.h>

#include <stddef.h>
#include <stdint.h>

/* The memory that buffers are in.  Travels between ranks: never renumbered. */
enum symc_memory {
    SYMC_MEMORY_HOST = 0,
    SYMC_MEMORY_DEVICE = 1,
    SYMC_MEMORY_KINDS = 2 /* at most 16 */
};

/* Returns "host memory" or the like, "unknown memory" for an unknown number; a
 * static string. */
const char *symc_memory_name(unsigned int memory);

#define SYMC_MEMORY_TEXT 48

/* Formats "device memory of device 3" or "host memory". */
const char *symc_memory_format(
    unsigned int memory, int device, char buffer[SYMC_MEMORY_TEXT]);

#define SYMC_LABEL_MAX 32

struct symc_ranks;

/*
 * The lists of buffers, or the separate counts for each rank, that some
 * operations have in addition to an op's other fields.  The arrays have an
 * entry for each rank of the group and are borrowed from the caller for the
 * time of the call: a work has copies.  Coalesced kinds on devices have an
 * entry for each buffer.
 */
struct symc_lists {
    void *const *outs;        /* NULL: contiguous parts at op->out */
    const void *const *ins;   /* NULL: contiguous parts at op->in */
    const size_t *out_counts; /* elements of each part; NULL: out_count each */
    const size_t *in_counts;
    size_t out_count;
    size_t in_count;
    size_t out_total; /* elements of all parts, or of the buffer */
    size_t in_total;
    bool out_unlike; /* the parts have different counts */
    bool in_unlike;
    double factor; /* PREMUL_SUM: this rank's */
};

struct symc_op {
    enum symc_kind kind;
    enum symmcoll_dtype dtype;
    symmcoll_op_t op; /* SUM ... PREMUL_SUM; SUM if nothing is reduced */
    union {           /* group rank, by kind; otherwise 0 */
        int root;
        int peer;
        int buffers; /* coalesced kinds: number of buffers */
    };
    size_t count; /* elements, as in the call; coalesced: of all buffers */
    void *out;    /* coalesced: an array of buffers, borrowed, as in; on a
                     device: the first buffer that is not empty, as in */
    const void *in;
    uint16_t elem;   /* bytes of an element; 1 for a barrier */
    bool listed;     /* `lists` is valid, instead of the members beside it */
    uint8_t memory;  /* enum symc_memory of both buffers, or of the one that
                        exists */
    uint8_t flight;  /* the group's index of its state */
    bool direct : 1; /* device: runs on `stream` itself, because the call has no
                        work; otherwise on a stream of the backend, ordered
                        after it */
    bool captured : 1; /* device: the stream is being captured */
    /* Device: symc_slot_check() has run for this call; `captured` is valid. */
    bool checked : 1;
    bool kept : 1;  /* its arrays belong to the library until the operation
                       ends */
    int16_t device; /* device number in that kind of memory */
    union {
        double factor; /* PREMUL_SUM: this rank's */
        int64_t tag;   /* sends and receives */
        struct symc_lists *lists;
    };
    uint64_t seq;    /* number in its group and counter, from 1; 0 before its
                        ticket is served.  See symc_op_set_seq() */
    uint64_t wire;   /* likewise, among all operations that the members run
                        together */
    uint64_t issued; /* symc_ticks() of the call; 0: set when it is recorded */
    union {
        void *stream; /* device: the caller's; NULL: the default stream */
        const size_t *counts; /* coalesced, host memory: elements of each
                                 buffer */
    };
    int64_t timeout_ns;         /* counted from its start; SYMC_NEVER */
    char label[SYMC_LABEL_MAX]; /* as passed by the caller, or "" */
};

_Static_assert(sizeof(struct symc_op) <= 128, "a work copies two lines");

/* Sets the sequence number of an operation; other threads may read it through
 * its work. */
static inline void symc_op_set_seq(struct symc_op *op, uint64_t seq)
{
    __atomic_store_n(&op->seq, seq, __ATOMIC_RELAXED);
}

static inline uint64_t symc_op_get_seq(const struct symc_op *op)
{
    return __atomic_load_n(&op->seq, __ATOMIC_RELAXED);
}

/* Return the bytes of a rank's input and output buffer in a group of size
 * ranks; for a rooted operation, those of the root. */
static inline size_t symc_op_in_nbytes(const struct symc_op *op, int size)
{
    return op->count * op->elem *
           symc_parts_count(symc_kinds[op->kind].in_parts, size);
}

static inline size_t symc_op_out_nbytes(const struct symc_op *op, int size)
{
    return op->count * op->elem *
           symc_parts_count(symc_kinds[op->kind].out_parts, size);
}

/* in one operation; records store it in 16 bits */
#define SYMC_BUFFERS_MAX INT16_MAX

/* Returns the elements of each buffer of a coalesced operation, in any
 * memory. */
static inline const size_t *symc_op_counts(const struct symc_op *op)
{
    return op->listed ? op->lists->in_counts : op->counts;
}

/* Return one buffer of a coalesced operation in host memory. */
static inline char *symc_op_out_of(const struct symc_op *op, int index)
{
    return ((void *const *)op->out)[index];
}

static inline const char *symc_op_in_of(const struct symc_op *op, int index)
{
    return ((const void *const *)op->in)[index];
}

/* Returns a coalesced operation's part for one buffer in host memory, as an
 * operation of its own. */
static inline struct symc_op symc_op_of(const struct symc_op *op, int index)
{
    struct symc_op one = *op;

    one.root = 0;
    one.count = op->counts[index];
    one.out = symc_op_out_of(op, index);
    one.in = symc_op_in_of(op, index);
    one.stream = NULL;
    return one;
}

/* As symc_op_of(), for device memory. */
static inline struct symc_op symc_op_of_listed(
    const struct symc_op *op, int index)
{
    struct symc_op one = *op;

    one.root = 0;
    one.count = op->lists->in_counts[index];
    one.out = op->lists->outs[index];
    one.in = op->lists->ins[index];
    one.listed = false;
    one.factor = op->lists->factor;
    return one;
}

/* The arguments of a monitored barrier, at op->out. missing (room for the
 * group's ranks) and count receive the missing ranks and their number; either
 * may be NULL. */
struct symc_monitored {
    bool wait_all;
    int *missing;
    int *count;
};

#define SYMC_MOVER_PAYLOAD 32 /* bytes, see moving.h */

/* Returns the factor of a PREMUL_SUM. */
static inline const double *symc_op_factor(const struct symc_op *op)
{
    return op->listed ? &op->lists->factor : &op->factor;
}

/* Return the elements of the part that this rank sends to a rank, and receives
 * from it. */
static inline size_t symc_op_in_count(const struct symc_op *op, int rank)
{
    if (!op->listed)
        return op->count;
    return op->lists->in_counts != NULL ? op->lists->in_counts[rank]
                                        : op->lists->in_count;
}

static inline size_t symc_op_out_count(const struct symc_op *op, int rank)
{
    if (!op->listed)
        return op->count;
    return op->lists->out_counts != NULL ? op->lists->out_counts[rank]
                                         : op->lists->out_count;
}

/* Return the address of a rank's part in a buffer of equal parts, or in the
 * list. */
static inline char *symc_op_out_at(const struct symc_op *op, int rank)
{
    if (op->listed && op->lists->outs != NULL)
        return op->lists->outs[rank];
    return (char *)op->out + (size_t)rank * op->count * op->elem;
}

static inline const char *symc_op_in_at(const struct symc_op *op, int rank)
{
    if (op->listed && op->lists->ins != NULL)
        return op->lists->ins[rank];
    return (const char *)op->in + (size_t)rank * op->count * op->elem;
}

#define SYMC_OP_TEXT 96 /* enough for any symc_op_format() */

/* Formats an operation as "all_reduce seq 17", with its label "all_reduce seq
 * 17 'loss'", and without a number if seq is 0 or its kind has none:
 * "all_reduce". */
const char *symc_op_format(enum symc_kind kind, uint64_t seq, const char *label,
    char *buffer, size_t nbytes);

/* Formats an operation on a device as "all_reduce seq 17 on stream 0x1234". */
#define SYMC_OP_PLACED_TEXT (SYMC_OP_TEXT + 32)
const char *symc_op_format_placed(
    const struct symc_op *op, char buffer[SYMC_OP_PLACED_TEXT]);

#endif
