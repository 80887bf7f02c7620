/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internals of fused operations: the state of a group, checks of arguments, the
 * exchange of chunks (exchange.c) on which both operations are built, and
 * layouts.
 */
#ifndef SYMC_FUSED_FUSED_H
#define SYMC_FUSED_FUSED_H

#include "functional/functional.h"
#include "fused/matmul.h"

#include <symmcoll/collectives.h>
#include <symmcoll/fused.h>

/* ---- state.c: state that a group keeps between calls ---- */

/* The word that a rank publishes when an operation begins. */
/* On a device some members have another meaning, which is stated after
 * "device:". */
struct symc_fused_word {
    uint64_t digest; /* of the arguments that all ranks have to pass alike */
    /* number of the memory that holds the rank's chunks; device: bytes
     * needed */
    uint64_t number;
    uint64_t offset;  /* offset in that memory; device: the stream */
    int32_t status;   /* error of this rank, or OK */
    uint8_t state;    /* enum symc_fused_ready */
    uint8_t plain;    /* the rank requests the plain sequence */
    uint8_t large;    /* device: the rank has as much memory as it needs */
    uint8_t captured; /* device: the stream is being captured */
    /* device: by enum symc_fused_form: products are not loaded yet */
    uint8_t cold[2];
    uint8_t unused[6];
};

enum symc_fused_ready {
    SYMC_FUSED_NOT_READY, /* chunks are not in shared memory yet */
    /* chunks are in the group's memory for fused operations */
    SYMC_FUSED_READY,
    SYMC_FUSED_IN_PLACE /* chunks are in the caller's memory */
};

struct symc_shared;
struct symc_fused_device;
struct symmcoll_symm;

/* Scratch memory, by use. */
enum symc_fused_scratch {
    SYMC_FUSED_PACKED,   /* an operand in another order */
    SYMC_FUSED_GATHERED, /* chunks of all ranks, or received from them */
    SYMC_FUSED_SUMS,     /* sums before they are rounded */
    SYMC_FUSED_CHUNKS,   /* chunks for all ranks, in the plain sequence */
    SYMC_FUSED_FACTORS,  /* factors of scaled products */
    SYMC_FUSED_SCRATCHES
};

/* Symmetric memory of the group for chunks: two halves, used in turn.
 * INVARIANT: a rank writes to a half that no other rank reads. A peer reads a
 * half before it publishes its word of the next operation, and this rank has
 * collected that word before it uses the half again. */
struct symc_fused_memory {
    char *data;    /* NULL: none yet */
    size_t nbytes; /* bytes of a half */
    int half;      /* half that was published last */
    struct symmcoll_symm *handle;
};

struct symc_fused {
    struct symc_group_extension extension; /* first */
    struct symc_fused *next;               /* next in the world's list */
    struct symc_fused_states *states; /* NULL: the world has been finalized */
    struct symmcoll_group *group;
    _Atomic uint32_t plain;
    pthread_mutex_t lock; /* protects what follows: one call at a time */
    bool in_plain;        /* copy of `plain`, read once when the call began */
    bool loaded;          /* matmul has the world's BLAS */
    struct symc_matmul matmul;
    struct symc_scratch scratch[SYMC_FUSED_SCRATCHES];
    struct symc_fused_memory memory;
    struct symc_fused_device *device; /* NULL: not used yet */
    const struct symc_shared *shared; /* memory that holds this rank's chunks */
    struct symc_fused_word mine;
    struct symc_fused_word *all; /* words of every rank */
    const void **sources;        /* one address per rank */
};

/* Loads the library of fused.blas, once. Errors: CONFIG. */
symmcoll_status_t symc_fused_load(struct symc_fused *fused);

void *symc_fused_take(
    struct symc_fused *fused, enum symc_fused_scratch use, size_t nbytes);

/* ---- agree.c ---- */

/* Arguments of a call, for comparison and for messages. */
struct symc_fused_args {
    const char *name; /* "fused_all_gather_matmul" */
    uint64_t digest;  /* of the arguments that all ranks have to pass alike */
    /* Appends those arguments to text; called if the digests differ, since only
     * the message needs the text. INVARIANT: arguments that differ in the
     * digest differ in the text. */
    void (*describe)(const void *context, struct symc_fused_args *args);
    const void *context;
    char text[192];
};

/* A call in progress: one at a time in a group. */
struct symc_fused_call {
    struct symc_fused *fused;
    struct symmcoll_call options;
    struct symc_fused_args args;
    int cancel; /* state of the thread's cancellation before the call */
};

/*
 * Begins a call. A rank without memory for its state publishes that; another
 * error here is this rank's alone. Later errors are published to the other
 * ranks.
 *
 * Errors: INVALID (options; no group; called from a callback of the group, or
 * from a function passed to a call of the group), NO_MEMORY, those of a group
 * that cannot be used.
 */
symmcoll_status_t symc_fused_begin(struct symc_fused_call *begun,
    struct symmcoll_group *group, enum symc_kind kind, const char *name,
    const struct symmcoll_call *call);

/* Ends a call; returns its status. */
symmcoll_status_t symc_fused_end(
    const struct symc_fused_call *begun, symmcoll_status_t status);

/* Adds to the digest. */
void symc_fused_compare(struct symc_fused_args *args, int64_t number);
void symc_fused_compare_shape(
    struct symc_fused_args *args, const struct symmcoll_tensor *tensor);

/* Appends to the text. */
void symc_fused_describe(struct symc_fused_args *args, const char *format, ...)
    SYMC_PRINTF(2, 3);
void symc_fused_describe_shape(
    struct symc_fused_args *args, const struct symmcoll_tensor *tensor);

/* Publishes fused->mine, and starts to collect the words of all ranks; work
 * NULL: waits for them. */
symmcoll_status_t symc_fused_publish(struct symc_fused *fused,
    const struct symc_fused_args *args, const struct symmcoll_call *call,
    struct symmcoll_work **work);

/* Waits for the words, stores them in fused->all and compares them. plain
 * (out): some rank requests the plain sequence. Errors: that of a rank that
 * cannot go on, MISMATCH, and those of collectives. */
symmcoll_status_t symc_fused_collect(struct symc_fused *fused,
    const struct symc_fused_args *args, const struct symmcoll_call *call,
    struct symmcoll_work *work, bool *plain);

/*
 * Publishes that this rank can go on, or its error, and collects the words of
 * all ranks: one round after which every rank has the same verdict.
 *
 * Errors: this rank's status, with its detail, and those of
 * symc_fused_collect().
 */
symmcoll_status_t symc_fused_confirm(struct symc_fused *fused,
    const struct symc_fused_args *args, const struct symmcoll_call *call,
    symmcoll_status_t status);

/* ---- memory.c: chunks in memory that all ranks map ---- */

/* Returns whether the group has no shared memory. */
bool symc_fused_is_alone(const struct symc_fused *fused);

/* Releases the memory of this group for chunks. */
void symc_fused_shrink(struct symc_fused *fused);

/* Returns the next half, of nbytes or more; NULL: not allocated yet. */
char *symc_fused_next_half(struct symc_fused *fused, size_t nbytes);

/* Makes the next half the one used last. Called after this rank has published
 * that its chunks are there, and not earlier: until then it has not collected
 * the words that show that the other half is no longer read. */
void symc_fused_use_half(struct symc_fused *fused);

/* Stores in fused->mine where this rank's chunks are; false: the memory is not
 * shared with all ranks. */
bool symc_fused_locate(
    struct symc_fused *fused, const void *chunks, size_t nbytes);

/* Allocates this rank's halves of nbytes each. symc_fused_map() makes them the
 * group's memory, with every rank; if it fails or is not called, the caller
 * frees made->data.
 * Errors: those of symmcoll_symm_alloc() and symmcoll_symm_rendezvous(). */
symmcoll_status_t symc_fused_alloc(struct symc_fused *fused, const char *name,
    size_t nbytes, struct symc_fused_memory *made);
symmcoll_status_t symc_fused_map(struct symc_fused *fused,
    struct symc_fused_memory *made, const struct symmcoll_call *call);

/* Returns whether the chunks of all ranks are in the same kind of memory;
 * stores their addresses in fused->sources, `shift` bytes after the published
 * offsets. */
bool symc_fused_find_sources(
    struct symc_fused *fused, size_t shift, size_t nbytes);

/* ---- exchange.c: chunks of all ranks ---- */

/* A gather of chunks. This rank's chunk is a view of memory, stored
 * contiguously in the order of the view. */
struct symc_fused_gather {
    const struct symc_fused_args *args;
    const struct symmcoll_call *call;
    const void *data;
    const struct symc_f_view *view; /* NULL: contiguous */
    size_t elem;
    size_t nbytes; /* bytes of each chunk */
    void *out;     /* result of all ranks; NULL: not wanted */
    /* Additional contiguous data of each rank, stored in `tails` before the
     * rank's chunk is consumed; NULL: none. */
    const void *tail;
    size_t tail_nbytes;
    void *tails;
    bool in_order; /* consume in rank order, not this rank's chunk first */
    symmcoll_consume_fn consume;
    void *context;
};
symmcoll_status_t symc_fused_all_gather(
    struct symc_fused *fused, const struct symc_fused_gather *gather);

/* An exchange: this rank makes a chunk for each rank, and uses those made for
 * it. */
struct symc_fused_scatter {
    const struct symc_fused_args *args;
    const struct symmcoll_call *call;
    size_t nbytes; /* bytes of each chunk */
    symmcoll_produce_fn produce;
    /* Replaces produce: makes all chunks, one after the other. */
    symmcoll_status_t (*produce_all)(void *context, void *chunks);
    /* Replaces everything if some rank requests the plain sequence. */
    symmcoll_status_t (*plain)(void *context);
    /* Called with the chunks for this rank, in rank order. */
    symmcoll_status_t (*finish)(void *context, const void *const *chunks);
    void *context;
};
symmcoll_status_t symc_fused_all_to_all(
    struct symc_fused *fused, const struct symc_fused_scatter *scatter);

/* ---- layout.c ---- */

/* Returns a view of all elements with one dimension first, and the others in
 * order. */
struct symc_f_view symc_fused_view_first(
    const struct symmcoll_tensor *tensor, int dim);

/* Sets the strides of a contiguous tensor with one dimension first; its shape
 * is set. */
void symc_fused_stride_first(struct symmcoll_tensor *tensor, int dim);

/* Checks and completes a result with shape and strides: its memory is the
 * caller's, or is allocated (made: released if the call fails).
 * Errors: INVALID, NO_MEMORY, those of symc_site_alloc(). */
struct symc_fused_result {
    struct symmcoll_tensor tensor;
    bool made;
    struct symc_fused *fused; /* NULL: the memory is not checked */
    struct symc_site *site;   /* NULL: host memory */
};
symmcoll_status_t symc_fused_result_make(const char *where, const char *name,
    const struct symmcoll_tensor *place, struct symc_fused_result *result);
void symc_fused_result_release(struct symc_fused_result *result);

/* Returns the number of elements of a checked tensor, in its first ndim
 * dimensions. */
int64_t symc_fused_count(const struct symmcoll_tensor *tensor, int ndim);

/* Multiplies a tensor of any strides by a matrix. The rows of c are contiguous,
 * in the order of the tensor's leading dimensions. */
symmcoll_status_t symc_fused_multiply(struct symc_fused *fused,
    const struct symmcoll_tensor *a, const struct symc_matrix *b, void *c,
    enum symmcoll_dtype c_dtype);

#define SYMC_FUSED_SHAPE_TEXT 96

/* Formats a shape: "[2, 3]". */
const char *symc_fused_format_shape(
    const struct symmcoll_tensor *tensor, char text[SYMC_FUSED_SHAPE_TEXT]);

/* Returns a tensor of two dimensions as a matrix. */
struct symc_matrix symc_fused_matrix(const struct symmcoll_tensor *tensor);

/* ---- args.c ---- */

/* Checks that the product of a tensor's nonzero lengths can be counted in bytes
 * of the widest type; this holds for any subset of the lengths too. Errors:
 * INVALID. */
symmcoll_status_t symc_fused_check_lengths(
    const char *where, const char *name, const struct symmcoll_tensor *tensor);

/* Checks the lengths of a tensor; one without elements gets contiguous
 * strides. */
symmcoll_status_t symc_fused_check_elements(const char *where, const char *name,
    struct symmcoll_tensor *tensor, size_t count);

/* Reads the left tensor of a call, of 2 dimensions or more. scaled: 8-bit
 * floats. Errors: INVALID, UNSUPPORTED. */
symmcoll_status_t symc_fused_read_a(const char *where,
    const struct symmcoll_tensor *a, bool scaled, struct symmcoll_tensor *copy);
/* Reads a right tensor, of 2 dimensions: element `at` of an array, `index` of
 * the call. Errors: INVALID, UNSUPPORTED. */
symmcoll_status_t symc_fused_read_b(const char *where,
    const struct symmcoll_tensor *bs, int at, int index,
    const struct symmcoll_tensor *a, int64_t depth,
    struct symmcoll_tensor *copy);
symmcoll_status_t symc_fused_check_dim(
    const char *where, const struct symmcoll_tensor *a, int dim);

/* A tensor and its name in messages: "b 2", or the name alone if index is
 * -1. */
struct symc_fused_named {
    const char *name;
    int index;
    const struct symmcoll_tensor *tensor;
};

/* Returns a status; puts the operation's name before the detail of an error. */
symmcoll_status_t symc_fused_name_error(
    const char *where, symmcoll_status_t status);

/* Checks that a tensor names the same place as a. Errors: INVALID (with its
 * name, its address and both places). */
symmcoll_status_t symc_fused_check_beside(const char *where,
    const struct symc_fused_named *named, const struct symmcoll_tensor *a);

/* Checks that a tensor lies at the place that it names, from its first to its
 * last byte. Errors: those of symc_site_check(), with its name. */
symmcoll_status_t symc_fused_check_memory(const char *where,
    const struct symmcoll_group *group, const struct symc_fused_named *named);

/* Checks that the open compute library of a device can access a tensor. Errors:
 * INVALID (with its name and the contexts). */
symmcoll_status_t symc_fused_check_reach(const char *where,
    const struct symc_fused *fused, const struct symc_fused_named *named);
/* Checks a tensor with symc_fused_check_memory() and
 * symc_fused_check_reach(). */
symmcoll_status_t symc_fused_check_tensor(const char *where,
    const struct symc_fused *fused, const struct symc_fused_named *named);

/* Checks that a written tensor shares no byte with another one. Errors:
 * INVALID. */
symmcoll_status_t symc_fused_check_apart(const char *where,
    const struct symc_fused_named *written,
    const struct symc_fused_named *other);

/* Checks contiguous elements that this rank sends for NaN, as errors.nan_check
 * says. Errors: INVALID (there is a NaN). */
symmcoll_status_t symc_fused_inspect(const struct symc_fused *fused,
    const char *where, const char *what, enum symmcoll_dtype dtype,
    const void *data, size_t count);
symmcoll_status_t symc_fused_inspect_tensor(struct symc_fused *fused,
    const char *where, const char *what, const struct symmcoll_tensor *tensor);

/* ---- scales.c: products of 8-bit floats ---- */

enum symc_fused_scale_mode {
    SYMC_FUSED_SCALE_ONE,      /* one for all */
    SYMC_FUSED_SCALE_ROWS,     /* one per row of this rank's A */
    SYMC_FUSED_SCALE_ALL_ROWS, /* one per row of the gathered A */
    SYMC_FUSED_SCALE_BLOCKS    /* one per block of this rank's A */
};

/* Scales of A. */
struct symc_fused_scale {
    struct symmcoll_tensor tensor;
    enum symc_fused_scale_mode mode;
};

/* Scales of a matrix, and its product. */
struct symc_fused_scaled {
    struct symmcoll_tensor cols, bias;
    bool by_column, by_block, biased;
    bool factored; /* the result is multiplied by `factor` */
    float factor;
    enum symmcoll_dtype out_dtype;
    struct symc_scaling scaling; /* set by symc_fused_place_factors() */
};

/* Reads the scales of A. whole: A gathered along a dimension; NULL: none.
 * Errors: INVALID, UNSUPPORTED. */
symmcoll_status_t symc_fused_read_a_scale(const char *where,
    const struct symmcoll_tensor *given, const struct symmcoll_tensor *a,
    const struct symmcoll_tensor *whole, int dim,
    struct symc_fused_scale *scale);

/* Returns whether the tensor passed for scales of A has scales of blocks. */
bool symc_fused_has_blocks(const struct symmcoll_tensor *given);

/* Reads a matrix of an array with its scales, bias and factor; blocks: with
 * scales of blocks. */
symmcoll_status_t symc_fused_read_scaled(const char *where,
    const struct symmcoll_scaled_matrix *bs, int index, bool blocks,
    const struct symmcoll_tensor *a, int64_t depth, struct symmcoll_tensor *b,
    struct symc_fused_scaled *scaled);

/* Adds the number of floats that the factors of a matrix occupy, scales of
 * blocks included; false: overflow. */
bool symc_fused_count_factors(
    const struct symc_fused_scaled *scaled, int64_t columns, size_t *count);

/* Stores the factors of a matrix, and sets scaled->scaling except its rows.
 * Returns the place of the next factors. */
float *symc_fused_place_factors(
    struct symc_fused_scaled *scaled, int64_t columns, float *at);

/* Stores the scales of A: those of blocks, or the factors of rows: one, or all
 * with a dimension first. */
void symc_fused_place_rows(
    const struct symc_fused_scale *scale, int dim, void *to);

#endif
