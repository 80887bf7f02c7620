/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The internals of fused operations: what a group keeps for them, the checks,
 * the exchange of chunks (exchange.c) that both are made of, and layouts.
 */
#ifndef SYMC_FUSED_FUSED_H
#define SYMC_FUSED_FUSED_H

#include "functional/functional.h"
#include "fused/matmul.h"

#include <symmcoll/collectives.h>
#include <symmcoll/fused.h>

/* ---- state.c: what a group keeps from call to call ---- */

/* What a rank publishes when an operation begins. */
struct symc_fused_word {
    uint64_t digest;  /* of the arguments that have to be the same */
    uint64_t number;  /* of the memory that it has its chunks in; of a device:
                        bytes that it needs */
    uint64_t offset;  /* where in that; of a device: the stream */
    int32_t status;   /* why this rank cannot go on; or OK */
    uint8_t state;    /* enum symc_fused_ready */
    uint8_t plain;    /* it wants the plain sequence */
    uint8_t large;    /* of a device: it has as much memory as it needs */
    uint8_t captured; /* of a device: the stream is being captured */
    uint8_t cold[2];  /* of a device: it has products of a form (enum
                         symc_fused_form) that have not been tried */
    uint8_t unused[6];
};

enum symc_fused_ready {
    SYMC_FUSED_NOT_READY, /* chunks are not in shared memory yet */
    SYMC_FUSED_READY,     /* they are, in the group's memory for this */
    SYMC_FUSED_IN_PLACE   /* they are where the caller has them */
};

struct symc_shared;
struct symc_fused_device;
struct symmcoll_symm;

/* Scratch memory by use. */
enum symc_fused_scratch {
    SYMC_FUSED_PACKED,   /* an operand in another order */
    SYMC_FUSED_GATHERED, /* of all ranks, or received from them */
    SYMC_FUSED_SUMS,     /* before they are rounded */
    SYMC_FUSED_CHUNKS,   /* for all ranks, in the plain sequence */
    SYMC_FUSED_FACTORS,  /* of scaled products */
    SYMC_FUSED_SCRATCHES
};

/* Symmetric memory of the group for chunks: two halves, used in turn.  INVARIANT:
 * a rank writes to a half that no other reads.  What was read of a half in an
 * operation was read before its rank published its word in the next one, and this
 * rank has collected that when it comes to the half again. */
struct symc_fused_memory {
    char *data;    /* NULL: none yet */
    size_t nbytes; /* of a half */
    int half;      /* that was published last */
    struct symmcoll_symm *handle;
};

struct symc_fused {
    struct symc_group_extension extension; /* first */
    struct symc_fused *next;               /* of the world's */
    struct symc_fused_states *states;      /* NULL: the world is finalized */
    struct symmcoll_group *group;
    _Atomic uint32_t plain;
    pthread_mutex_t lock; /* of what follows: one call at a time */
    bool in_plain;        /* of a call: `plain`, read once, when it began */
    bool loaded;          /* the world's BLAS, in matmul */
    struct symc_matmul matmul;
    struct symc_scratch scratch[SYMC_FUSED_SCRATCHES];
    struct symc_fused_memory memory;
    struct symc_fused_device *device; /* NULL: not used so far */
    const struct symc_shared *shared; /* that has this rank's chunks */
    struct symc_fused_word mine;
    struct symc_fused_word *all; /* of every rank */
    const void **sources;        /* likewise */
};

/* Have the library of fused.blas.  Errors: CONFIG. */
symmcoll_status_t symc_fused_load(struct symc_fused *fused);

void *symc_fused_take(
    struct symc_fused *fused, enum symc_fused_scratch use, size_t nbytes);

/* ---- agree.c ---- */

/* What a call passes, for comparison and for messages. */
struct symc_fused_args {
    const char *name; /* "fused_all_gather_matmul" */
    uint64_t digest;  /* of what has to be the same on all ranks */
    /* Describe that: called where it is not the same.  INVARIANT: what differs in
     * the digest differs in the text, of which only the message has need. */
    void (*describe)(const void *context, struct symc_fused_args *args);
    const void *context;
    char text[192];
};

/* A call that has begun: one at a time in a group. */
struct symc_fused_call {
    struct symc_fused *fused;
    struct symmcoll_call options;
    struct symc_fused_args args;
    int cancel; /* the thread's cancellation, until it ends */
};

/*
 * Begin a call.  What fails here is of this rank alone; what fails later is
 * confirmed.
 *
 * Errors: INVALID (options; no group; in a callback of the group, or a function of
 * a call of it), NO_MEMORY, those of a group that cannot be used.
 */
symmcoll_status_t symc_fused_begin(struct symc_fused_call *begun,
    struct symmcoll_group *group, enum symc_kind kind, const char *name,
    const struct symmcoll_call *call);

/* End it; returns its status. */
symmcoll_status_t symc_fused_end(
    const struct symc_fused_call *begun, symmcoll_status_t status);

/* Add to what is compared. */
void symc_fused_compare(struct symc_fused_args *args, int64_t number);
void symc_fused_compare_shape(
    struct symc_fused_args *args, const struct symmcoll_tensor *tensor);

/* Add to the text. */
void symc_fused_describe(struct symc_fused_args *args, const char *format, ...)
    SYMC_PRINTF(2, 3);
void symc_fused_describe_shape(
    struct symc_fused_args *args, const struct symmcoll_tensor *tensor);

/* Publish fused->mine, and start to wait for the words of all ranks; or, work
 * NULL, wait for them. */
symmcoll_status_t symc_fused_publish(struct symc_fused *fused,
    const struct symc_fused_args *args, const struct symmcoll_call *call,
    struct symmcoll_work **work);

/* Wait for these, fused->all, and compare.  plain (out): some rank wants the plain
 * sequence.  Errors: that of a rank that cannot go on, MISMATCH, and those of
 * collectives. */
symmcoll_status_t symc_fused_collect(struct symc_fused *fused,
    const struct symc_fused_args *args, const struct symmcoll_call *call,
    struct symmcoll_work *work, bool *plain);

/*
 * Publish that this rank can go on, or that it cannot and why, and collect the
 * words of all: so all know at once.
 *
 * Errors: this rank's status, with its detail, and those of
 * symc_fused_collect().
 */
symmcoll_status_t symc_fused_confirm(struct symc_fused *fused,
    const struct symc_fused_args *args, const struct symmcoll_call *call,
    symmcoll_status_t status);

/* ---- memory.c: chunks in memory that all ranks map ---- */

/* Whether the group has none at all. */
bool symc_fused_is_alone(const struct symc_fused *fused);

/* Release the memory that this group shares. */
void symc_fused_shrink(struct symc_fused *fused);

/* The next half, of so many bytes or more; NULL: there is none yet. */
char *symc_fused_next_half(struct symc_fused *fused, size_t nbytes);

/* This rank has published that its chunks are in the next half: that is the one
 * used last now.  Not before: without publishing it has collected nothing either,
 * and the other half may still be read. */
void symc_fused_use_half(struct symc_fused *fused);

/* Note in fused->mine where this rank's chunks are; false where that is no
 * memory of all ranks. */
bool symc_fused_locate(
    struct symc_fused *fused, const void *chunks, size_t nbytes);

/* Allocate this rank's halves of so many bytes, which become the group's memory
 * when all ranks have theirs and map them; where that fails, or is not called,
 * data is to be freed.  Errors: those of symmcoll_symm_alloc(), of
 * symmcoll_symm_rendezvous(). */
symmcoll_status_t symc_fused_alloc(struct symc_fused *fused, const char *name,
    size_t nbytes, struct symc_fused_memory *made);
symmcoll_status_t symc_fused_map(struct symc_fused *fused,
    struct symc_fused_memory *made, const struct symmcoll_call *call);

/* Whether all ranks are ready in the same way; then store where their chunks are
 * in fused->sources, `shift` bytes from where their words say. */
bool symc_fused_find_sources(
    struct symc_fused *fused, size_t shift, size_t nbytes);

/* ---- exchange.c: chunks of all ranks ---- */

/* Gather chunks: this rank's is of a view of memory, contiguous in its order. */
struct symc_fused_gather {
    const struct symc_fused_args *args;
    const struct symmcoll_call *call;
    const void *data;
    const struct symc_f_view *view; /* NULL: contiguous */
    size_t elem;
    size_t nbytes; /* of each chunk */
    void *out;     /* of all; NULL: not wanted */
    /* More of each rank, contiguous, that is in `tails` before its chunk is
     * consumed; NULL: nothing. */
    const void *tail;
    size_t tail_nbytes;
    void *tails;
    bool in_order; /* consume in the order of ranks, not this rank's first */
    symmcoll_consume_fn consume;
    void *context;
};
symmcoll_status_t symc_fused_all_gather(
    struct symc_fused *fused, const struct symc_fused_gather *gather);

/* Make chunks for all ranks, then look at what they have made for this one. */
struct symc_fused_scatter {
    const struct symc_fused_args *args;
    const struct symmcoll_call *call;
    size_t nbytes; /* of each chunk */
    symmcoll_produce_fn produce;
    /* Instead of produce: all chunks at once, one after the other. */
    symmcoll_status_t (*produce_all)(void *context, void *chunks);
    /* Where some rank wants the plain sequence: all there is to do. */
    symmcoll_status_t (*plain)(void *context);
    /* With the chunks for this rank, in the order of ranks. */
    symmcoll_status_t (*finish)(void *context, const void *const *chunks);
    void *context;
};
symmcoll_status_t symc_fused_all_to_all(
    struct symc_fused *fused, const struct symc_fused_scatter *scatter);

/* ---- layout.c ---- */

/* All elements with one dimension first, the others after it in order. */
struct symc_f_view symc_fused_view_first(
    const struct symmcoll_tensor *tensor, int dim);

/* Give a tensor, whose shape is set, the strides of one that is contiguous with
 * that dimension first. */
void symc_fused_stride_first(struct symmcoll_tensor *tensor, int dim);

/* Check and fill in a result whose shape and strides are set: the caller's
 * memory, or the library's (made: it is to be released where the call fails).
 * Errors: INVALID, NO_MEMORY, those of symc_site_alloc(). */
struct symc_fused_result {
    struct symmcoll_tensor tensor;
    bool made;
    struct symc_fused *fused; /* NULL: whose memory it is is not asked */
    struct symc_site *site;   /* NULL: host memory */
};
symmcoll_status_t symc_fused_result_make(const char *where, const char *name,
    const struct symmcoll_tensor *place, struct symc_fused_result *result);
void symc_fused_result_release(struct symc_fused_result *result);

/* Elements of a tensor that has been checked, up to a dimension. */
int64_t symc_fused_count(const struct symmcoll_tensor *tensor, int ndim);

/* Multiply a tensor of any strides by a matrix: the rows of c, contiguous, are
 * in the order of the tensor's leading dimensions. */
symmcoll_status_t symc_fused_multiply(struct symc_fused *fused,
    const struct symmcoll_tensor *a, const struct symc_matrix *b, void *c,
    enum symmcoll_dtype c_dtype);

#define SYMC_FUSED_SHAPE_TEXT 96

/* "[2, 3]" */
const char *symc_fused_format_shape(
    const struct symmcoll_tensor *tensor, char text[SYMC_FUSED_SHAPE_TEXT]);

/* A tensor of two dimensions as a matrix. */
struct symc_matrix symc_fused_matrix(const struct symmcoll_tensor *tensor);

/* ---- args.c ---- */

/* Whether the lengths other than 0 of a tensor have a product that can be counted
 * in bytes, of any type: so have any of them.  Errors: INVALID. */
symmcoll_status_t symc_fused_check_lengths(
    const char *where, const char *name, const struct symmcoll_tensor *tensor);

/* Checks the lengths likewise.  A tensor without elements gets contiguous strides. */
symmcoll_status_t symc_fused_check_elements(const char *where, const char *name,
    struct symmcoll_tensor *tensor, size_t count);

/* Read the tensors of a call: a of 2 dimensions or more, b of 2, the at-th of an
 * array and the index-th of the call.  scaled: 8-bit floats.  Errors: INVALID,
 * UNSUPPORTED. */
symmcoll_status_t symc_fused_read_a(const char *where,
    const struct symmcoll_tensor *a, bool scaled, struct symmcoll_tensor *copy);
symmcoll_status_t symc_fused_read_b(const char *where,
    const struct symmcoll_tensor *bs, int at, int index,
    const struct symmcoll_tensor *a, int64_t depth,
    struct symmcoll_tensor *copy);
symmcoll_status_t symc_fused_check_dim(
    const char *where, const struct symmcoll_tensor *a, int dim);

/* A tensor for a message: "b 2", or its name alone where index is -1. */
struct symc_fused_named {
    const char *name;
    int index;
    const struct symmcoll_tensor *tensor;
};

/* A status; the detail of an error, which begins with what failed, has the name before
 * it. */
symmcoll_status_t symc_fused_name_error(
    const char *where, symmcoll_status_t status);

/* Whether a tensor says that it is where a is.  Errors: INVALID (its name, its
 * address, both places). */
symmcoll_status_t symc_fused_check_beside(const char *where,
    const struct symc_fused_named *named, const struct symmcoll_tensor *a);

/* Whether it is, from the first byte to the last, where it says.  Errors: those of
 * symc_site_check(), with its name. */
symmcoll_status_t symc_fused_check_memory(const char *where,
    const struct symmcoll_group *group, const struct symc_fused_named *named);

/* Whether what multiplies on a device, which is open, reaches it; and both.  Errors: INVALID
 * (its name, and the contexts). */
symmcoll_status_t symc_fused_check_reach(const char *where,
    const struct symc_fused *fused, const struct symc_fused_named *named);
symmcoll_status_t symc_fused_check_tensor(const char *where,
    const struct symc_fused *fused, const struct symc_fused_named *named);

/* Whether what is written shares no byte, from the first to the last, with
 * another tensor.  Errors: INVALID. */
symmcoll_status_t symc_fused_check_apart(const char *where,
    const struct symc_fused_named *written,
    const struct symc_fused_named *other);

/* errors.nan_check, of what this rank sends: contiguous elements of a tensor.
 * Errors: INVALID (some is not a number). */
symmcoll_status_t symc_fused_inspect(const struct symc_fused *fused,
    const char *where, const char *what, enum symmcoll_dtype dtype,
    const void *data, size_t count);
symmcoll_status_t symc_fused_inspect_tensor(struct symc_fused *fused,
    const char *where, const char *what, const struct symmcoll_tensor *tensor);

/* ---- scales.c: of products of 8-bit floats ---- */

enum symc_fused_scale_mode {
    SYMC_FUSED_SCALE_ONE,      /* for all */
    SYMC_FUSED_SCALE_ROWS,     /* for each row of this rank's A */
    SYMC_FUSED_SCALE_ALL_ROWS, /* for each row of the gathered A */
    SYMC_FUSED_SCALE_BLOCKS    /* for blocks of this rank's A */
};

/* Of A. */
struct symc_fused_scale {
    struct symmcoll_tensor tensor;
    enum symc_fused_scale_mode mode;
};

/* Of a matrix and its product. */
struct symc_fused_scaled {
    struct symmcoll_tensor cols, bias;
    bool by_column, by_block, biased;
    bool factored; /* the result has a factor: */
    float factor;
    enum symmcoll_dtype out_dtype;
    struct symc_scaling scaling; /* set by symc_fused_place_factors() */
};

/* whole: A, gathered along a dimension; NULL: there is none.  Errors: INVALID,
 * UNSUPPORTED. */
symmcoll_status_t symc_fused_read_a_scale(const char *where,
    const struct symmcoll_tensor *given, const struct symmcoll_tensor *a,
    const struct symmcoll_tensor *whole, int dim,
    struct symc_fused_scale *scale);

/* Whether what is passed for scales of A are those of blocks. */
bool symc_fused_has_blocks(const struct symmcoll_tensor *given);

/* A matrix of an array and all that belongs to it; blocks: with scales of these. */
symmcoll_status_t symc_fused_read_scaled(const char *where,
    const struct symmcoll_scaled_matrix *bs, int index, bool blocks,
    const struct symmcoll_tensor *a, int64_t depth, struct symmcoll_tensor *b,
    struct symc_fused_scaled *scaled);

/* Add how many floats the factors of a matrix need, in whose memory scales of
 * blocks are too; false: it overflows. */
bool symc_fused_count_factors(
    const struct symc_fused_scaled *scaled, int64_t columns, size_t *count);

/* Store them, and set scaled->scaling but for its rows; returns where the next
 * are to be. */
float *symc_fused_place_factors(
    struct symc_fused_scaled *scaled, int64_t columns, float *at);

/* Store the scales of blocks, or else the factors of rows: one, or all with a
 * dimension first. */
void symc_fused_place_rows(
    const struct symc_fused_scale *scale, int dim, void *to);

#endif
