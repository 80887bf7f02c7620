/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One call of an operation, as every layer from the recorder upwards passes it on.
 */
#ifndef SYMC_BASE_OP_H
#define SYMC_BASE_OP_H

#include "base/kind.h"

#include <symmcoll/types.h>

#include <stddef.h>
#include <stdint.h>

/* Where buffers are.  Travels between ranks: never renumbered. */
enum symc_memory {
    SYMC_MEMORY_HOST = 0,
    SYMC_MEMORY_DEVICE = 1,
    SYMC_MEMORY_KINDS = 2 /* at most 16 */
};

/* "host memory"; "unknown memory" for an unknown number.  Static. */
const char *symc_memory_name(unsigned int memory);

#define SYMC_MEMORY_TEXT 48

/* "device memory of device 3", "host memory". */
const char *symc_memory_format(
    unsigned int memory, int device, char buffer[SYMC_MEMORY_TEXT]);

#define SYMC_LABEL_MAX 32

struct symc_ranks;

/*
 * What forms with lists of buffers, or with counts of their own for each rank,
 * pass beside an op's other fields.  The arrays have an entry for each rank of
 * the group and are the caller's, for the time of the call: a work has copies.
 * Coalesced kinds have them on devices, with an entry for each buffer.
 */
struct symc_lists {
    void *const *outs;        /* NULL: one part after another at op->out */
    const void *const *ins;   /* NULL: the same of op->in */
    const size_t *out_counts; /* elements of each part; NULL: out_count each */
    const size_t *in_counts;
    size_t out_count;
    size_t in_count;
    size_t out_total; /* elements of all parts; of the buffer if it has one */
    size_t in_total;
    bool out_unlike; /* parts have different counts */
    bool in_unlike;
    double factor; /* PREMUL_SUM: this rank's */
};

struct symc_op {
    enum symc_kind kind;
    enum symmcoll_dtype dtype;
    symmcoll_op_t op; /* SUM ... PREMUL_SUM; SUM where nothing is reduced */
    union {           /* group ranks, by kind; 0 where there is none */
        int root;
        int peer;
        int buffers; /* how many; of the coalesced kinds */
    };
    size_t count; /* as the call's: elements; coalesced: of all buffers */
    void *out;    /* coalesced: an array of buffers, the caller's, as in; of a
                     device: the first one that has a byte, as in */
    const void *in;
    uint16_t elem;   /* bytes of an element; 1 for a barrier */
    bool listed;     /* `lists` is valid, and nothing beside it */
    uint8_t memory;  /* enum symc_memory: of both buffers, or of none */
    uint8_t flight;  /* the group's: where it keeps what it knows of it */
    bool direct : 1; /* of a device: to run on `stream` itself, for the call has
                        no work; else on one of the backend's, ordered after
                        it */
    bool captured : 1; /* of a device: the stream is being captured */
    /* Of a device: before the call, by symc_slot_check(); `captured` is known. */
    bool checked : 1;
    bool kept : 1;  /* its arrays are the library's, until it has ended */
    int16_t device; /* which device of that kind of memory */
    union {
        double factor; /* PREMUL_SUM: this rank's */
        int64_t tag;   /* of a pair's */
        struct symc_lists *lists;
    };
    uint64_t seq;  /* of its counter in its group, from 1; 0 until its ticket is
                        served.  See symc_op_set_seq() */
    uint64_t wire; /* the same, of all that the members do together */
    uint64_t issued; /* symc_ticks() of the call; 0: now */
    union {
        void *stream; /* the caller's, of a device; NULL: its default one */
        const size_t *counts; /* coalesced, in host memory: of each buffer */
    };
    int64_t timeout_ns;         /* from the moment it starts; SYMC_NEVER */
    char label[SYMC_LABEL_MAX]; /* the caller's, or "" */
};

_Static_assert(sizeof(struct symc_op) <= 128, "a work copies two lines");

/* Set the number of an operation, which any thread may read through its work. */
static inline void symc_op_set_seq(struct symc_op *op, uint64_t seq)
{
    __atomic_store_n(&op->seq, seq, __ATOMIC_RELAXED);
}

static inline uint64_t symc_op_get_seq(const struct symc_op *op)
{
    return __atomic_load_n(&op->seq, __ATOMIC_RELAXED);
}

/* Bytes of a rank's two buffers, in a group of so many ranks; of a root's where
 * there is one. */
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

#define SYMC_BUFFERS_MAX INT16_MAX /* of one operation: as a record keeps it */

/* Elements of each of several buffers, in any memory. */
static inline const size_t *symc_op_counts(const struct symc_op *op)
{
    return op->listed ? op->lists->in_counts : op->counts;
}

/* One of several buffers in host memory. */
static inline char *symc_op_out_of(const struct symc_op *op, int index)
{
    return ((void *const *)op->out)[index];
}

static inline const char *symc_op_in_of(const struct symc_op *op, int index)
{
    return ((const void *const *)op->in)[index];
}

/* An operation on one of several buffers, as if it were alone. */
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

/* The same on a device. */
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

/* What a monitored barrier is asked, at op->out, and where it answers: room for
 * the group's ranks, and how many they are; both or one may be NULL. */
struct symc_monitored {
    bool wait_all;
    int *missing;
    int *count;
};

#define SYMC_MOVER_PAYLOAD 32 /* bytes, see moving.h */

/* The factor of a PREMUL_SUM. */
static inline const double *symc_op_factor(const struct symc_op *op)
{
    return op->listed ? &op->lists->factor : &op->factor;
}

/* Elements of this rank's part for a rank, and of that rank's for it. */
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

/* Where a rank's part is in a buffer of all parts, which are alike. */
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

#define SYMC_OP_TEXT 96 /* room for any symc_op_format() */

/* One operation in a sentence: "all_reduce seq 17", with its label where it has
 * one: "all_reduce seq 17 'loss'".  seq 0, not begun, and of a kind without
 * numbers: "all_reduce". */
const char *symc_op_format(enum symc_kind kind, uint64_t seq, const char *label,
    char *buffer, size_t nbytes);

/* One on a device: "all_reduce seq 17 on stream 0x1234". */
#define SYMC_OP_PLACED_TEXT (SYMC_OP_TEXT + 32)
const char *symc_op_format_placed(
    const struct symc_op *op, char buffer[SYMC_OP_PLACED_TEXT]);

#endif
