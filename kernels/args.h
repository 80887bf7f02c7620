/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arguments of kernels, and the data at the beginning of each rank's device
 * segment.  The host fills them in; each kernel takes one struct by value.
 */
#ifndef SYMC_KERNELS_ARGS_H
#define SYMC_KERNELS_ARGS_H

#include <stdint.h>

#define SYMC_KERNEL_RANKS 64    /* of a group on devices of one machine */
#define SYMC_KERNEL_BLOCKS 64   /* of a kernel that synchronises ranks */
#define SYMC_KERNEL_THREADS 512 /* of a block, at most; at least one a rank */

#define SYMC_PACKET_THREADS 256  /* of a block that sends packets */
#define SYMC_PACKET_NBYTES 16384 /* of a rank's elements sent in packets */

/* Bytes of a segment for packets: two halves, each with those of all ranks, of
 * which one half of each packet is data. */
#define SYMC_PACKETS_NBYTES(size) ((uint64_t)4 * (size)*SYMC_PACKET_NBYTES)

/* For members that name a rank: no one, so all of them. */
#define SYMC_KERNEL_ALL UINT32_MAX

/* ---- a group ---- */

/* Why a kernel gave up. */
enum symc_device_reason {
    SYMC_DEVICE_NONE,
    SYMC_DEVICE_TIMEOUT, /* a peer's signal did not arrive in time */
    SYMC_DEVICE_ABORTED, /* by the host */
    SYMC_DEVICE_SPLITS   /* `peer` has invalid splits: see plan.h */
};

/* Faults in a rank's splits, the same as those of symc_exchange_verify(). */
enum symc_device_wrong {
    SYMC_WRONG_SPLIT,  /* a split is less than `expected`, 0 */
    SYMC_WRONG_OFFSET, /* a place is, on the way back */
    SYMC_WRONG_END,    /* a piece ends after row `expected` of the input */
    SYMC_WRONG_ROOM,   /* the result has fewer than `expected` rows */
    SYMC_WRONGS
};

struct symc_device_splits {
    uint32_t wrong; /* enum symc_device_wrong */
    uint32_t unused;
    uint64_t piece; /* of the splits, or of the result */
    int64_t expected, found;
};

/* The first thread that gives up writes why: in memory of the host, which reads it
 * while the kernel runs. */
struct symc_device_failure {
    uint32_t reason; /* claimed by a compare and swap of 0 */
    uint32_t peer;   /* that did not signal; valid when complete is 1 */
    uint32_t block;
    uint32_t number; /* struct symc_device_group's */
    uint32_t complete;
    uint32_t unused;
    struct symc_device_splits splits; /* of SYMC_DEVICE_SPLITS */
};

/*
 * The beginning of a device segment.  Zero when the segment is new.
 *
 * signal[b][p] is written by block b of rank p, and counts how often that block
 * has synchronised: a number that grows and wraps around.  The counters are this
 * rank's own, in device memory and advanced by the kernels, so that a captured
 * graph can be started again.
 */
struct symc_device_pad {
    uint32_t signal[SYMC_KERNEL_BLOCKS][SYMC_KERNEL_RANKS];
    uint32_t synchronised[SYMC_KERNEL_BLOCKS];
    uint32_t packets_sent[SYMC_KERNEL_BLOCKS];
};

/* A group, as the kernels of one rank see it. */
struct symc_device_group {
    unsigned char *base; /* of rank 0's segment, as this rank has it mapped */
    uint64_t stride;     /* bytes from one rank's segment to the next one's */
    uint64_t packets;    /* offset of the packets in a segment */
    const uint32_t *aborted; /* memory of the host; not 0: give up */
    struct symc_device_failure *failure;
    uint64_t timeout_ns; /* for each wait; UINT64_MAX: for ever */
    uint32_t rank, size;
    uint32_t number; /* of the launch, for its failure; 0: none */
};

/*
 * Memory of all ranks that this one has mapped, each at a multiple of 16: a row,
 * in which rank r's begins at base + r * stride + offset, or places of their own,
 * where it begins at table[r] + offset.  Staging in the segments of the group, or
 * the caller's symmetric memory in others.
 */
struct symc_device_data {
    unsigned char *base;
    uint64_t stride;
    uint64_t offset;
    unsigned char *multicast; /* that of all ranks as one, of base; or NULL */
    unsigned char *const *table; /* in device memory; NULL: a row */
};

/* ---- operations of a group ---- */

/*
 * A reduction: all-reduce, reduce and reduce-scatter.  Element types and
 * operations are symmcoll's numbers; complex numbers are passed as twice as many
 * floats.
 *
 *                   slices   out and count of
 *   all-reduce      1        each rank
 *   reduce          1        the root; count is the same on all ranks
 *   reduce-scatter  R        each rank: a slice
 *
 * A reduce-scatter takes slices: the slice of rank r is at r * data_pitch in data
 * and at r * in_pitch in `in`.  A slice of several rows is a range of columns of a
 * matrix with rows row_pitch bytes apart; out has its rows one after another.  Rows
 * are only for elements that are in data already.
 *
 * One rank alone (reduce_rows.h) reduces rows of all ranks' data, row_pitch bytes
 * apart, into rows of out, out_pitch bytes apart.
 */
struct symc_reduce_args {
    struct symc_device_group group;
    struct symc_device_data data;
    const void *in; /* copied to data first; NULL: the elements are there */
    void *out;      /* NULL: the result stays in data, in its place */
    uint64_t count; /* of elements of a row, or of the result */
    uint64_t rows, row_pitch;      /* reduce-scatter, rows; else 1 and any */
    uint64_t out_pitch;            /* rows */
    uint64_t data_pitch, in_pitch; /* bytes from one slice to the next one */
    uint32_t root; /* one-shot and packets: the rank with a result, or ALL */
    uint32_t op;
    double factors[SYMC_KERNEL_RANKS]; /* PREMUL_SUM: each rank's */
};

/*
 * Moving bytes: each rank writes slices of nbytes to its data, and reads one
 * slice each from a row of ranks.
 *
 *                slices of in      sources  first     begin
 *   all-gather   1                 R        0         0
 *   all-to-all   R                 R        0         rank * data_pitch
 *   broadcast    1; root           1        the root  0
 *   scatter      R; root           1        the root  rank * data_pitch
 *   gather       1                 R; root  0         0
 *
 * Where only the root passes or receives something, slices or sources of the
 * others are 0.
 */
struct symc_move_args {
    struct symc_device_group group;
    struct symc_device_data data;
    const void *in; /* copied to data first; NULL: the bytes are there */
    void *out;
    uint64_t nbytes; /* of a slice; the same on all ranks */
    uint64_t in_pitch, data_pitch, out_pitch; /* from one slice to the next */
    uint64_t begin;                           /* of the slice that is read */
    uint32_t slices, first, sources;
};

/*
 * Moving bytes where sizes differ: each rank writes the bytes for rank r to slot r
 * of its data, and reads slot `rank` of all ranks.  No slot overflows: larger
 * transfers take several launches, equally many on all ranks.
 */
struct symc_exchange_args {
    struct symc_device_group group;
    struct symc_device_data data;
    const unsigned char *in;
    unsigned char *out;
    uint64_t pitch; /* bytes of a slot */
    uint64_t send_at[SYMC_KERNEL_RANKS], send_nbytes[SYMC_KERNEL_RANKS];
    uint64_t receive_at[SYMC_KERNEL_RANKS], receive_nbytes[SYMC_KERNEL_RANKS];
};

/*
 * Pieces with sizes in device memory (symmcoll/symm_exchange.h): one kernel plans
 * them, another one moves them, any number of times.  in_splits has size * experts
 * words, on the way back twice that number.
 */
struct symc_plan_piece {
    uint64_t source; /* rank */
    uint64_t from;   /* row of its input */
    uint64_t rows;
    uint64_t to; /* row of this rank's result */
};

struct symc_plan_args {
    struct symc_device_group group;
    struct symc_device_data in_splits; /* int64_t of each rank's pieces */
    int64_t *out_splits;               /* (out) sizes, then places */
    int64_t *gathered; /* (scratch) size times the words of in_splits */
    struct symc_plan_piece *pieces; /* (out) size * experts */
    uint64_t *wrong; /* (out) 0, or 1 + the first rank with splits that are
                        negative or more than in_rows, else the first with a
                        result of more than out_rows; the same on all ranks, as
                        is the failure then reported */
    uint64_t in_rows, out_rows;
    uint64_t major_align;
    uint32_t experts;
    uint32_t back; /* the way back: in_splits has sizes and places */
};

struct symc_plan_run_args {
    struct symc_device_group group;
    struct symc_device_data data; /* rows that each rank sends */
    const struct symc_plan_piece *pieces;
    const uint64_t *wrong; /* not 0: nothing is moved */
    unsigned char *out;
    uint64_t npieces;
    uint64_t row_nbytes;
};

/* A signal of a channel: uint32 number channel * size + source of the
 * destination's pad is 1 from the put to the wait. */
struct symc_signal_args {
    struct symc_device_group group;
    struct symc_device_data pads;
    uint32_t channel;
    uint32_t peer; /* put: the destination; wait: the source; barrier: any */
};

/* Until a word of this rank's is value: peer stores it. */
struct symc_wait_args {
    struct symc_device_group group;
    const uint32_t *at;
    uint32_t value;
    uint32_t peer;
};

#define SYMC_KERNEL_PUSHED 448 /* rows of a launch */

/* Rows that this rank writes to others, each to a place of its own: row i of in to
 * row to[i] % 2^48 of the data of rank to[i] / 2^48. */
struct symc_push_args {
    struct symc_device_data data;
    const unsigned char *in;
    uint64_t row_nbytes;
    uint64_t count;
    uint64_t to[SYMC_KERNEL_PUSHED];
};
#define SYMC_PUSH_TO(rank, row) ((uint64_t)(rank) << 48 | (row))

/* ---- of one rank ---- */

/* Elements converted and multiplied by a factor. */
struct symc_convert_args {
    const void *in;
    void *out;
    uint64_t count;
    float factor;
};

/* The elements that are NaN; the caller stores UINT64_MAX and 0 first. */
struct symc_device_nan {
    uint64_t first; /* index of the first */
    uint64_t count;
};

struct symc_nan_args {
    const void *in;
    uint64_t count;
    uint32_t type;
    struct symc_device_nan *found; /* added to */
};

#define SYMC_KERNEL_PIECES 128  /* of a launch */
#define SYMC_KERNEL_CHUNK 16384 /* bytes of a bucket for a block, in turn */

/* A tensor of a bucket; offsets ascend, and pieces do not overlap. */
struct symc_bucket_piece {
    unsigned char *at;
    uint64_t offset; /* in the bucket */
    uint64_t nbytes;
};

struct symc_bucket_args {
    unsigned char *bucket;
    uint64_t nbytes; /* of the bucket, to the end of the last piece */
    uint64_t npieces;
    struct symc_bucket_piece pieces[SYMC_KERNEL_PIECES];
};

/* count words from at on become value. */
struct symc_fill_args {
    uint32_t *at;
    uint64_t count;
    uint32_t value;
};

#endif
