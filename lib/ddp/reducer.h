/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reducer's data structures, and the functions that its source files call
 * in each other.
 *
 * numbers.c, param.c, overlap.c   the parameters
 * verify.c, failure.c             comparison of the ranks at creation
 * broadcast.c, buffers.c          broadcast of tensors; buffers
 * memory.c, layout.c, rebuild.c   the buckets' memory, and rebuilding them once
 * flight.c, pack.c                start and end of buckets; buckets in 16 bits
 * ready.c, ready_tensor.c          gradients
 * step.c, outcome.c               a backward; its errors
 * widen.c, write_back.c           gradients in float32, in the caller's memory
 * used.c, static_graph.c          unused parameters, static graphs
 * stream.c, times.c, stats.c      streams, times, statistics
 * hook.c, hook_*.c, codecs.c      hooks
 * shard.c, gather.c               slices of gradients and parameters
 * join.c, uneven.c                exchange of calls; training with uneven inputs
 * move.c                          going on with another group
 */
#ifndef SYMC_DDP_REDUCER_H
#define SYMC_DDP_REDUCER_H

#include "base/base.h"
#include "ddp/bucket.h"
#include "group/site.h"

#include <symmcoll/ddp.h>

#include <pthread.h>

#define SYMC_SHAPE_TEXT 192 /* bytes of a shape as text */
#define SYMC_PARAM_TEXT 96  /* bytes of "parameter 3 (fc2.weight)" */
#define SYMC_BUCKET_TEXT 24 /* bytes of "bucket 3" */

/* An index in the caller's array of parameters. */
struct symc_number {
    char *name;   /* NULL: the caller passed none */
    int param;    /* index in params; -1: ignored */
    int came;     /* calls of ready in this backward */
    int wanted;   /* calls expected in each backward: 1, or as counted in the
                   first of a static graph */
    bool skipped; /* in this backward */
};

/* One parameter and where its gradient is. */
struct symc_param {
    struct symmcoll_tensor tensor; /* copied from the caller's */
    int number; /* the lowest of its numbers in the caller's array */
    size_t count;
    size_t nbytes;
    enum symmcoll_dtype grad_dtype; /* type of the gradient in the bucket */
    size_t grad_nbytes;
    size_t extent; /* bytes from the first element to the end of the last */
    bool dense;    /* the elements fill the extent without gaps, in any order */
    int bucket;    /* index of the bucket that holds its gradient */
    char *view;    /* the gradient in the bucket's buffer */
    int wanted; /* calls of ready expected in a backward, for all its numbers */
    int left;   /* calls still expected in this backward; 0: complete */
    bool came;  /* in this backward */
    bool has_accumulated; /* the next gradient is added to the view; else it
                             replaces it */
    bool used;            /* a gradient came since the last synchronised
                             backward or zero */
    bool was_used;        /* by any rank, in the last synchronised backward */
    char *kept; /* a copy of the gradient, for the case that no rank uses it;
                      NULL: no memory for one */
    const void *known; /* the last gradient that symc_check_gradient() found in
                          host memory */
    void *origin;      /* write_back: the caller's gradient that is not averaged
                          yet; NULL: none */
    void *home;        /* write_back, memory: the caller's gradient in every
                          pass; NULL: each call of ready passes it */
};

enum symc_packing {
    SYMC_PACKING_NONE,
    SYMC_PACKING_BEGUN, /* a hook uses the bucket's elements in 16 bits */
    SYMC_PACKING_DONE   /* when the work ends, they are converted back into the
                           bucket */
};

/* A bucket.  Its gradients are contiguous, in the order of params. */
struct symc_ddp_bucket {
    char *buffer;
    size_t count;
    size_t part; /* shard: elements of each rank's part; the last parts may end
                    after count, in elements that are zero, or in the caller's
                    memory are smaller.  Else 0 */
    enum symmcoll_dtype dtype;
    int ngrads;
    const int *params;          /* into the params of its symc_layout */
    const int *numbers;         /* their numbers in the caller's array */
    int pending;                /* parameters that are not complete in this
                                   backward */
    struct symmcoll_work *work; /* in flight, or NULL */
    void *stream;               /* on a device: the stream on which the work was
                                   started */
    bool goes_on;               /* the last call of hook_end started another
                                   work */
    bool awaited;               /* the work was waited for; on a device, by the
                                   stream */
    bool gathers; /* the work gathers parameters, which are not yet in the
                     caller's memory */
    bool failed;  /* a work of the bucket failed in this backward */
    void *packed; /* memory for its elements in 16 bits; NULL: not needed yet */
    enum symmcoll_dtype packed_dtype;
    enum symc_packing packing; /* in this backward */
};

/* Symmetric memory for all buckets of a layout. */
struct symc_bucket_memory {
    void *at; /* NULL: none; each bucket has memory of its own, or that of the
                 program */
    struct symmcoll_world *world;
    struct symmcoll_symm *handle;
};

/* All buckets of a reducer. */
struct symc_layout {
    struct symc_bucket_memory memory;
    struct symc_ddp_bucket *buckets;
    int nbuckets;
    int *params;
    int *numbers;
};

/* A built-in hook's state, as a reducer sees it. */
struct symc_hook_pass {
    struct symc_hook_pass *next; /* of the reducer's pass */
    /* From the pass's first bucket to the end of finish; NULL: in no pass. */
    const struct symmcoll_reducer *reducer;
};

enum symc_backward {
    SYMC_BACKWARD_NONE,
    SYMC_BACKWARD_LOCAL,
    SYMC_BACKWARD_SYNC
};

/* The assumption on how often each gradient comes in a backward. */
enum symc_graph {
    SYMC_GRAPH_DYNAMIC, /* at most once for each number */
    SYMC_GRAPH_FIRST,   /* static; this backward counts the gradients */
    SYMC_GRAPH_KNOWN    /* static; as often as counted in the first backward */
};

enum symc_rebuild {
    SYMC_REBUILD_LATER, /* no synchronised backward has ended */
    SYMC_REBUILD_DUE,   /* at the next begin */
    SYMC_REBUILD_DONE
};

/* The moments of a synchronised backward that are measured. */
enum symc_moment {
    SYMC_MOMENT_BEGIN,
    SYMC_MOMENT_LAUNCH, /* start of the first bucket */
    SYMC_MOMENT_FINISH, /* finish is called */
    SYMC_MOMENT_END,    /* finish returns */
    SYMC_MOMENTS
};

/* Sums of the times of the passes that count for the averages. */
struct symc_sums {
    uint64_t measured;
    int64_t backward_ns, comm_ns, overlap_ns;
};

/* The time of each moment: ns by the host's clock, or marks in a device's
 * streams. */
struct symc_timing {
    int64_t ns[SYMC_MOMENTS];
    void *marks[SYMC_MOMENTS];
    bool measures; /* this backward is measured, on a device */
    bool pending;  /* the marks are all set, and not read yet */
    struct symmcoll_reducer_times times; /* of the last backward measured */
    uint64_t npasses;                    /* backwards measured */
    uint64_t rate; /* after the first backwards, one in rate of them enters the
                      sums */
    struct symc_sums sums;
};

/* Memory for broadcasts: a buffer for copies of tensors, and scratch. */
struct symc_ddp_staging {
    char *buffer;
    size_t room; /* most bytes that are copied together; the buffer is smaller
                    if all tensors are */
    struct symc_local_piece *pieces; /* one for each tensor */
};

/* Tensors without gradients, which forward broadcasts. */
struct symc_ddp_buffers {
    struct symc_param *tensors; /* an ignored one is empty, with number -1 */
    char **names;               /* NULL: the caller passed none */
    int n;
    struct symc_ddp_staging staging;
    bool skips; /* the next forward does not broadcast */
};

/* A call of a rank within a join; the words are exchanged. */
struct symc_join_call {
    int64_t state;   /* enum symc_join_state */
    int64_t kind;    /* enum symc_join_kind */
    int64_t reducer; /* index */
    int64_t sync;
};

enum symc_join_state {
    SYMC_JOIN_ACTIVE,
    SYMC_JOIN_ENDED, /* no more inputs */
    SYMC_JOIN_FAILED
};

enum symc_join_kind {
    SYMC_JOIN_FORWARD,
    SYMC_JOIN_BEGIN
};

/* Training with uneven inputs. */
struct symmcoll_join {
    struct symmcoll_group *group;
    struct symmcoll_reducer **reducers;
    int nreducers;
    struct symc_ddp_staging *stagings; /* for each reducer's parameters */
    bool divides_by_active, stops_early;
    struct symc_join_call *calls; /* of all ranks, at the latest exchange */
    int nactive;                  /* ranks with inputs at the latest exchange */
    int source;                   /* the highest rank that had inputs last */
    int nshadows;            /* passes of other ranks that this one has made */
    struct symc_error error; /* of an exchange, which has ended the join */
};

/* Scratch for the parts of a bucket, one for each rank. */
struct symc_shard_parts {
    void **at;
    size_t *counts;
};

struct symmcoll_reducer {
    pthread_mutex_t lock; /* held while a gradient is processed */
    struct symmcoll_group *group;
    struct symc_site *site; /* of parameters, gradients and buckets; NULL: host
                               memory. Its stream is the group's at the latest
                               call */
    int size;               /* of the group */
    double factor;          /* applied to each gradient before the sum: 1 /
                               size, or 1 with a hook */
    struct symc_number *numbers;
    int nnumbers;
    struct symc_param *params; /* each once, in the order of their lowest
                                  numbers */
    int nparams;
    struct symc_local_piece *pieces; /* scratch, one for each parameter */
    struct symc_ddp_buffers buffers;
    struct symmcoll_join *join; /* NULL: none */
    bool alone;                 /* not compared with the other ranks */
    bool unmoved; /* the latest symmcoll_reducer_move() has failed */
    bool mixed; /* a synchronised pass has begun and not ended well: views have
                   gradients of this rank, averages, or neither */
    bool shadows;     /* makes a pass of other ranks, without own gradients */
    size_t limits[2]; /* bytes of a rebuilt bucket: the first, all others */
    bool views;       /* gradient_as_bucket_view */
    char *memory;     /* the caller's gradients, one after another, of which
                         buckets are slices; NULL: none */
    bool write_back;  /* averages are written over the gradients */
    bool shard;       /* buckets are reduce-scattered */
    bool averaged;    /* shard: a synchronised pass has begun since the
                         gradients were zero */
    bool gathered;    /* shard: the buckets hold parameters and not gradients,
                         until the next begin */
    int *slices;      /* shard: the parameters of which this rank has a slice */
    int nslices;
    struct symc_local_piece *slice_pieces; /* shard: scratch, one for each
                                              parameter and rank */
    struct symc_shard_parts parts;
    symmcoll_bucket_fn hook;
    symmcoll_bucket_fn hook_end; /* called after the hook's work; NULL: none */
    void *hook_arg;
    struct symc_hook_pass *hook_passes; /* states in the pass */
    bool has_begun;                     /* a backward was begun at least once */
    enum symmcoll_dtype reduce_dtype;   /* 0: the type of the parameters */
    void *wide; /* scratch for one gradient in reduce_dtype; NULL: not needed */
    void *
        arranged; /* scratch for one gradient with other strides; NULL: none came */
    bool find_unused;
    enum symc_graph graph;
    struct symc_used *used; /* NULL: unused parameters are not searched for */
    bool packs; /* new buckets of float32 also have memory for 16 bits */
    struct symc_layout layout;

    enum symc_rebuild rebuild;
    int *arrival; /* parameters in the order in which they were complete; all of
                     them after the first synchronised backward */
    int narrived;

    uint64_t sent_nbytes; /* passed to collectives by the library for the
                             buckets of the latest synchronised backward */
    uint64_t npasses; /* synchronised backwards that ended without a failure */
    enum symc_backward backward;
    bool captured; /* the backward began on a stream that was being captured */
    int launched;  /* buckets before this index were started */
    int done;      /* buckets before this index are known to have ended */
    struct symc_error failure; /* the first of this backward, or OK */
    struct symc_error refusal; /* the first refused call of it, or OK */
    struct symc_error zeroing; /* of the latest symmcoll_reducer_zero(), or OK;
                                  begin returns it */

    int64_t done_ns; /* when the host last found a bucket ended */
    struct symc_timing *timing;
};

/* ---- numbers.c ---- */

/* Copies the caller's parameters, and args->names, which may be NULL.  Errors:
 * INVALID, UNSUPPORTED, NO_MEMORY. */
symmcoll_status_t symc_numbers_take(struct symmcoll_reducer *reducer,
    const struct symmcoll_tensor *params, int nparams,
    const struct symmcoll_reducer_args *args);
void symc_numbers_free(struct symmcoll_reducer *reducer);

/* Checks that a number is that of a parameter that is not ignored; where begins
 * the detail.  Errors: INVALID. */
symmcoll_status_t symc_number_check(
    const struct symmcoll_reducer *reducer, const char *where, int number);

/* Returns whether a parameter or buffer of that name, which may be NULL, is
 * ignored. */
bool symc_is_ignored(
    const struct symmcoll_reducer_args *args, const char *name);

/* Checks that each ignored name is that of one of nparams parameters or of a
 * buffer.  Errors: INVALID. */
symmcoll_status_t symc_check_ignored(
    const struct symmcoll_reducer_args *args, int nparams);

/* Checks that a tensor is in the memory that it specifies, and that this is also
 * the first parameter's; text names it.  Errors: INVALID. */
symmcoll_status_t symc_check_memory(const struct symmcoll_reducer *reducer,
    const struct symmcoll_tensor *tensor, const char *text);

/* Returns whether the caller's number is that of an ignored parameter. */
static inline bool symc_number_is_ignored(
    const struct symmcoll_reducer *reducer, int number)
{
    return reducer->numbers[number].param < 0;
}

/* Returns the parameter of a valid number. */
static inline struct symc_param *symc_number_param(
    const struct symmcoll_reducer *reducer, int number)
{
    return &reducer->params[reducer->numbers[number].param];
}

/* Formats a parameter, "parameter 3 (fc2.weight)", into a buffer of
 * SYMC_PARAM_TEXT. */
const char *symc_number_text(
    const struct symmcoll_reducer *reducer, int number, char *buffer);

/* Formats the list of the numbers for which a filter returns true, or its
 * beginning if the buffer is too small.  Returns false if there are none. */
typedef bool (*symc_number_filter_fn)(
    const struct symmcoll_reducer *reducer, int number);
bool symc_numbers_list(const struct symmcoll_reducer *reducer,
    symc_number_filter_fn is_listed, char *buffer, size_t nbytes);

/* Checks that a gradient is in the same memory as the parameters, and at an
 * address that kernels accept.  where begins the detail.  An address in host
 * memory is not checked again until the gradient moves, since most passes reuse
 * it; one on a device is checked each time, because it may have been freed. */
symmcoll_status_t symc_check_gradient(const struct symmcoll_reducer *reducer,
    const char *where, int number, const void *grad);

/* ---- param.c ---- */

/* Copies a tensor, at index number of the caller's array, checks it and
 * computes the fields that follow from it; text names it.  averages: the type
 * must have averages.  Does not check that the data is in the memory that the
 * tensor claims.  Errors: INVALID, UNSUPPORTED. */
symmcoll_status_t symc_param_init(struct symc_param *param,
    const struct symmcoll_tensor *tensors, int number, bool averages,
    const char *text);

/* Returns the alignment in bytes that kernels need for the parameter's
 * elements. */
size_t symc_param_align(const struct symc_param *param);

/* Returns the parameter's gradient in the bucket, as a tensor. */
struct symmcoll_tensor symc_param_view(const struct symc_param *param);

/* Formats dimensions, "[4, 8]", into a buffer of SYMC_SHAPE_TEXT. */
const char *symc_format_dims(const int64_t *dims, int ndim, char *buffer);

/* Copy elements from a tensor that is not dense to a row-major array, and back. */
symmcoll_status_t symc_param_pack(
    const struct symc_site *site, const struct symc_param *param, char *out);
symmcoll_status_t symc_param_unpack(const struct symc_site *site,
    const struct symc_param *param, const char *in);

/* ---- overlap.c ---- */

/* Returns whether an element of one parameter shares memory with one of the
 * other. */
bool symc_params_overlap(
    const struct symc_param *a, const struct symc_param *b);

/* ---- failure.c ---- */

/* Agrees on one status: returns OK if own is OK on all ranks, otherwise, on
 * every rank, the error of the lowest rank that failed, with the detail of its
 * symmcoll_last_error().  Collective. */
symmcoll_status_t symc_share_failure(
    const struct symmcoll_reducer *reducer, symmcoll_status_t own);

/* ---- outcome.c ---- */

/* Returns the status of a function of the program, and makes an error of it
 * unless the function has caused one: errors is symc_error_count() before the
 * call. */
symmcoll_status_t symc_hook_status(
    symmcoll_status_t status, uint64_t errors, const char *name);

/* Records the thread's error as the failure of a bucket, or of -1 for none, if
 * it is the first of this backward.  Returns the status. */
symmcoll_status_t symc_keep_failure(
    struct symmcoll_reducer *reducer, int bucket, symmcoll_status_t status);
/* Returns the recorded failure, as the thread's error again. */
symmcoll_status_t symc_repeat_failure(const struct symmcoll_reducer *reducer);

/* Records the refusal of a call for finish to return, if it is the first of
 * this backward; the format is that of the detail.  Returns the status. */
symmcoll_status_t symc_keep_refusal(struct symmcoll_reducer *reducer,
    symmcoll_status_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Returns the recorded refusal, or OK.  A backward with a refusal has run the
 * same operations as on the other ranks. */
symmcoll_status_t symc_report_refusal(const struct symmcoll_reducer *reducer);

/* ---- verify.c ---- */

/* Compares all ranks' parameters with rank 0's, then copies rank 0's values to
 * all ranks through a buffer of nbytes.  own: this rank's status before; unless
 * it is OK on all ranks, nothing is compared.  Collective; an error of the
 * comparison leaves the parameters unchanged. */
symmcoll_status_t symc_synchronise_params(
    const struct symmcoll_reducer *reducer, size_t nbytes,
    symmcoll_status_t own);

/* Compares the number of parameters, the memory and the options of all ranks
 * again, after a change (own: its status on this rank).  Collective. */
symmcoll_status_t symc_compare_options(
    const struct symmcoll_reducer *reducer, symmcoll_status_t own);

/* ---- broadcast.c ---- */

/* Allocates the memory to broadcast n tensors, with a buffer of at most nbytes,
 * or the size of the largest tensor that is copied if that is more; what begins
 * the detail.  Close it after an error, too.  Errors: NO_MEMORY, those of
 * symc_site_alloc(). */
symmcoll_status_t symc_ddp_staging_open(const char *what,
    struct symc_site *site, const struct symc_param *tensors, int n,
    size_t nbytes, struct symc_ddp_staging *staging);
void symc_ddp_staging_close(
    struct symc_site *site, struct symc_ddp_staging *staging);

/* Copies the root's elements of n tensors to all ranks.  Collective; all ranks
 * have tensors of the same sizes, types and strides. */
symmcoll_status_t symc_broadcast_tensors(const struct symmcoll_reducer *reducer,
    const struct symc_param *tensors, int n, int root,
    const struct symc_ddp_staging *staging);

/* ---- buffers.c ---- */

/* Copies the caller's buffers and their names, and allocates the memory to
 * broadcast them through at most nbytes.  Errors: INVALID, UNSUPPORTED,
 * NO_MEMORY, those of symc_site_alloc(). */
symmcoll_status_t symc_buffers_take(struct symmcoll_reducer *reducer,
    const struct symmcoll_reducer_args *args, size_t nbytes);
void symc_buffers_free(struct symmcoll_reducer *reducer);

/* Allocates the memory to broadcast the buffers through, if there are any. */
symmcoll_status_t symc_buffers_stage(
    struct symmcoll_reducer *reducer, size_t nbytes);

/* Formats a buffer, "buffer 3 (bn.running_mean)", into a buffer of
 * SYMC_PARAM_TEXT. */
const char *symc_buffer_text(
    const struct symmcoll_reducer *reducer, int number, char *buffer);

/* Broadcasts the buffers of a rank to all.  Collective. */
symmcoll_status_t symc_buffers_send(
    const struct symmcoll_reducer *reducer, int root);

/* ---- join.c ---- */

/* Exchanges this rank's call within a join.  call (out): that of the ranks with
 * inputs, if there are any.  After an error, which all ranks have unless the
 * group has failed, each further call returns it.  Collective. */
symmcoll_status_t symc_join_exchange(struct symmcoll_join *join,
    const struct symc_join_call *own, struct symc_join_call *call);

/* Checks, before an exchange, that the group's stream is not captured: no graph
 * repeats the exchange.  where begins the detail.  Errors: UNSUPPORTED, those of
 * symc_take_stream(). */
symmcoll_status_t symc_join_check_stream(
    struct symmcoll_reducer *reducer, const char *where);

/* Exchanges a call of forward or begin on a reducer, if it is in a join, and
 * sets what the pass divides by. */
symmcoll_status_t symc_join_take_turn(
    struct symmcoll_reducer *reducer, enum symc_join_kind kind, int sync);

/* ---- reducer.c ---- */

/* Forgets the gradients that have accumulated. */
void symc_drop_gradients(struct symmcoll_reducer *reducer);

/* ---- step.c ---- */

/* Fails because a backward has begun and not finished, or a move has failed;
 * where begins the detail. */
symmcoll_status_t symc_refuse_unfinished(
    const struct symmcoll_reducer *reducer, const char *where);

/* Broadcast the buffers, and begin a backward, after the exchange of the call
 * within a join.  Collective. */
symmcoll_status_t symc_forward(struct symmcoll_reducer *reducer, int sync);
symmcoll_status_t symc_begin(struct symmcoll_reducer *reducer, int sync);

/* ---- memory.c ---- */

/* Takes args->memory, if it is set, in which each gradient gets its place.
 * Errors: INVALID. */
symmcoll_status_t symc_memory_take(
    struct symmcoll_reducer *reducer, const struct symmcoll_reducer_args *args);

/* Allocates symmetric memory (out) for all buckets, on all ranks, if they are
 * then reduced in place; none if not, or if a rank has none.  Collective.
 * Errors: those that fail the group. */
symmcoll_status_t symc_memory_share(const struct symmcoll_reducer *reducer,
    int nbuckets, struct symc_bucket_memory *memory);
void symc_memory_free(struct symc_bucket_memory *memory);

/* Returns the most bytes of all buckets that are in private memory: larger ones
 * are reduced in place in symmetric memory.  INT64_MAX: they never are.  Ranks
 * compare it. */
int64_t symc_memory_private_most(const struct symmcoll_reducer *reducer);

/* Checks that symmetric memory, if buckets have any, is still there.  Errors:
 * INVALID. */
symmcoll_status_t symc_bucket_memory_check(
    const struct symc_bucket_memory *memory, const char *where);

/* Returns the place of a bucket in symmetric memory, and advances to the next
 * bucket's. */
char *symc_memory_next(char **at, size_t nbytes);

/* ---- layout.c ---- */

/* Makes the buckets of an assignment, the last one first if reversed, with all
 * elements zero, except for those in the caller's memory.  Takes the memory, if
 * it is some, unless it fails.  Errors: NO_MEMORY, those of symc_site_alloc(). */
symmcoll_status_t symc_layout_make(const struct symmcoll_reducer *reducer,
    const struct symc_assignment *assignment, bool reversed,
    struct symc_bucket_memory *memory, struct symc_layout *layout);
void symc_layout_free(
    const struct symmcoll_reducer *reducer, struct symc_layout *layout);

/* Copies the gradients in the reducer's buckets, if it has any, to another
 * layout. */
symmcoll_status_t symc_layout_fill(
    const struct symmcoll_reducer *reducer, const struct symc_layout *layout);

/* Makes (out) one bucket for each type, until the order of arrival is known.  If
 * buckets are never rebuilt, makes those of the size limits.  The last
 * parameters are in the first bucket.  Takes the memory as symc_layout_make(). */
symmcoll_status_t symc_layout_first(const struct symmcoll_reducer *reducer,
    struct symc_bucket_memory *memory, struct symc_layout *layout);

/* Replaces the reducer's layout by this one, which is taken. */
void symc_layout_adopt(
    struct symmcoll_reducer *reducer, const struct symc_layout *layout);

/* Returns the items for symc_assign_buckets(); release them with free(). */
struct symc_bucket_item *symc_list_items(
    const struct symmcoll_reducer *reducer);

/* Formats a bucket, "bucket 3", which is also its operation's label, into a
 * buffer of SYMC_BUCKET_TEXT. */
const char *symc_bucket_text(int index, char *buffer);

/* Sets all buckets to zero. */
symmcoll_status_t symc_layout_clear(const struct symmcoll_reducer *reducer);

/* Returns a bucket as it is passed to hooks; reducer is not set. */
extern const struct symc_sized symc_bucket_kind;
struct symmcoll_bucket symc_describe_bucket(
    const struct symmcoll_reducer *reducer, int index);

/* ---- ready.c ---- */

/* Takes the gradient of a number, as symmcoll_reducer_ready(), with the lock held. */
symmcoll_status_t symc_pass_gradient(
    struct symmcoll_reducer *reducer, int number, const void *grad);

/* Records the refusal of a gradient.  Returns the status. */
symmcoll_status_t symc_refuse_gradient(
    struct symmcoll_reducer *reducer, int number, symmcoll_status_t status);

/* Completes a parameter that gets no gradient, or no further one, in this
 * backward. */
symmcoll_status_t symc_complete_param(
    struct symmcoll_reducer *reducer, struct symc_param *param);

/* ---- widen.c ---- */

/* Makes the gradients of 16-bit parameters float32 if dtype is; 0 leaves them
 * in the parameter's type.  Errors: UNSUPPORTED, those of symc_site_alloc(). */
symmcoll_status_t symc_widen_open(
    struct symmcoll_reducer *reducer, enum symmcoll_dtype dtype);
/* Releases the scratch memory of gradients. */
void symc_widen_close(struct symmcoll_reducer *reducer);

/* Returns whether the gradient in the bucket has another type than the parameter. */
bool symc_is_wide(const struct symc_param *param);

/* Converts a gradient.  If the view has accumulated, into scratch memory, which
 * the caller then adds to the view (added, out); otherwise into the view,
 * multiplied by factor, and added is NULL. */
symmcoll_status_t symc_widen(const struct symmcoll_reducer *reducer,
    const struct symc_param *param, const void *grad, double factor,
    const void **added);

/* Converts the gradient in the bucket to the parameter's type. */
symmcoll_status_t symc_narrow(const struct symmcoll_reducer *reducer,
    const struct symc_param *param, void *to);

/* ---- used.c ---- */

/* Create and free the state for finding unused parameters.  symc_used_close()
 * waits for sums in flight; it does nothing if there is no state.  Errors:
 * NO_MEMORY, those of symc_site_alloc(). */
symmcoll_status_t symc_used_open(struct symmcoll_reducer *reducer);
void symc_used_close(struct symmcoll_reducer *reducer);

/* Prepares for a synchronised pass: waits for the sums of the pass before.
 * Errors: UNSUPPORTED (the pass is captured), those of the sums. */
symmcoll_status_t symc_used_begin(struct symmcoll_reducer *reducer);

/* Copies the gradient of a parameter that this rank has not used, before the
 * gradient is divided, so that symc_used_restore() can bring it back. */
symmcoll_status_t symc_used_keep(
    const struct symmcoll_reducer *reducer, const struct symc_param *param);

/* Starts the sums of the ranks' marks, once in a backward, after the last
 * bucket. */
symmcoll_status_t symc_used_start(struct symmcoll_reducer *reducer);

/* Finds which parameters any rank has used.  Waits for the sums only if this
 * rank has not used all parameters.  An error is recorded as a failure of the
 * backward. */
symmcoll_status_t symc_used_await(struct symmcoll_reducer *reducer);

/* Returns whether no rank has used a parameter; false if usage is not searched. */
bool symc_used_nowhere(
    const struct symmcoll_reducer *reducer, const struct symc_param *param);

/* Restores, after the reduction, the gradients of parameters that no rank has
 * used. */
symmcoll_status_t symc_used_restore(struct symmcoll_reducer *reducer);

/* ---- static_graph.c ---- */

/* Returns whether this backward counts gradients for a static graph. */
bool symc_graph_is_counted(const struct symmcoll_reducer *reducer);

/* Returns whether this backward finds which parameters are used. */
bool symc_used_is_sought(const struct symmcoll_reducer *reducer);

/* Forgets what earlier passes have found: the next one is the first. */
void symc_graph_reset(struct symmcoll_reducer *reducer);

/* Sets how many gradients each parameter expects in this backward. */
void symc_graph_begin(const struct symmcoll_reducer *reducer);

/* Checks that a static graph expects one more gradient of a number; in a local
 * pass, that it expects any.  Errors: INVALID. */
symmcoll_status_t symc_graph_check(
    const struct symmcoll_reducer *reducer, int number);

/* Counts a refused gradient in the first backward, so that later ones expect
 * it.  In this one it contributes nothing. */
void symc_graph_count_refused(struct symmcoll_reducer *reducer, int number);

/* Records a refusal if a number had fewer gradients than in the first backward. */
void symc_graph_refuse_change(struct symmcoll_reducer *reducer);

/* Makes the counts of the first backward those that later ones expect. */
void symc_graph_take(struct symmcoll_reducer *reducer);

/* ---- write_back.c ---- */

/* Stores the addresses of the caller's gradients for all passes; NULL: each
 * call of ready passes one.  Errors: INVALID, NO_MEMORY. */
symmcoll_status_t symc_take_homes(
    struct symmcoll_reducer *reducer, void *const *grads);

/* Checks that a gradient is at the address given earlier, if any, and shares no
 * memory with another gradient, since their averages would overwrite each
 * other.  Errors: INVALID. */
symmcoll_status_t symc_check_origin(
    const struct symmcoll_reducer *reducer, int number, const void *grad);

/* Records a refusal if an average has no memory to be written back to. */
void symc_refuse_unplaced(struct symmcoll_reducer *reducer);

/* Writes the averages of a bucket to the caller's gradients, unless the
 * backward has failed, and forgets the addresses that ready passed. */
void symc_return_averages(struct symmcoll_reducer *reducer, int index);

/* ---- pack.c ---- */

/* Allocates memory for the elements of a float32 bucket in 16 bits, which lives
 * as long as the layout.  Errors: those of symc_site_alloc(). */
symmcoll_status_t symc_packed_alloc(
    const struct symmcoll_reducer *reducer, struct symc_ddp_bucket *bucket);

/* Converts the bucket of a hook's call (seen), times factor, to a 16-bit type,
 * and describes the result as a bucket (packed) that only this call may use.
 * Errors: those of symmcoll_hook_fp16_compress(). */
symmcoll_status_t symc_pack_bucket(const char *where,
    const struct symmcoll_bucket *seen, enum symmcoll_dtype dtype,
    double factor, struct symmcoll_bucket *packed);

/* Marks that the packed elements are converted back when the hook's work has
 * ended. */
void symc_keep_packed(const struct symmcoll_bucket *seen);

/* Converts packed elements back into the bucket, on the bucket's stream, unless
 * the backward has failed. */
symmcoll_status_t symc_unpack_bucket(
    const struct symmcoll_reducer *reducer, struct symc_ddp_bucket *bucket);

/* ---- hook.c ---- */

/* Checks the arguments of a built-in hook, and copies the bucket. */
symmcoll_status_t symc_hook_read(const char *where,
    const struct symmcoll_group *group, const struct symmcoll_bucket *given,
    struct symmcoll_work *const *work, struct symmcoll_bucket *bucket);

/* Sums a bucket over the ranks, with its label.  If its stream is captured, the
 * sum belongs to the graph, and *work is NULL. */
symmcoll_status_t symc_hook_sum(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, bool captured,
    struct symmcoll_work **work);

/* ---- hook_end.c ---- */

/* Returns the factor of gradients that are averaged over n ranks: 1 if a hook
 * divides. */
double symc_hook_factor(const struct symmcoll_reducer *reducer, int n);

/* Sets the reducer's hook and hook_end, either of which may be NULL. */
void symc_hook_use(struct symmcoll_reducer *reducer, symmcoll_bucket_fn hook,
    symmcoll_bucket_fn hook_end, void *arg);

/* Calls hook_end, if there is one, for each bucket when its work has ended,
 * until it starts no more works.  An error is recorded as a failure of the
 * backward. */
void symc_end_hooks(struct symmcoll_reducer *reducer);

/* ---- hook_pass.c ---- */

/* Reads the bucket (out) of a reducer's call of a hook, as symc_hook_read().
 * Errors: INVALID, also for a bucket that no reducer has passed. */
symmcoll_status_t symc_hook_read_call(const char *where,
    const struct symmcoll_group *group, const struct symmcoll_bucket *given,
    struct symmcoll_work *const *work, struct symmcoll_bucket *bucket);

/* Returns an array of states of buckets, of nbytes each, with more than index
 * elements (count), in place of a shorter one, which it frees; NULL: no memory. */
void *symc_hook_grow(void *states, int *count, size_t nbytes, int index);

/* Enters a pass of a reducer with a hook's state.  Errors: INVALID (it is in a pass
 * of another reducer). */
symmcoll_status_t symc_hook_enter(const char *where,
    struct symc_hook_pass *pass, struct symmcoll_reducer *reducer);

/* Ends the pass for all states in it, of which no work is in flight then. */
void symc_hooks_leave(struct symmcoll_reducer *reducer);

/* Fails because a state in a pass cannot be loaded.  Returns INVALID. */
static inline symmcoll_status_t symc_hook_refuse_load(const char *where)
{
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected a hook that is in no pass, found one between its first "
        "bucket and the end of symmcoll_reducer_finish()",
        where);
}

/* ---- hook_compress.c ---- */

/* Copies the argument of a wrapper (arg).  Errors: INVALID. */
symmcoll_status_t symc_hook_read_wrapped(
    const char *where, const void *arg, struct symmcoll_hook_wrapped *wrapped);

/* ---- hook_kinds.c ---- */

/* Returns whether a hook, with its argument, reduces float32 buckets in 16 bits. */
bool symc_hook_packs(symmcoll_bucket_fn hook, const void *arg);

/* ---- stream.c ---- */

/* Opens the device of the parameters, if they are on one: the group's, if it
 * has one already.  Errors: INVALID, those of symc_site_open(). */
symmcoll_status_t symc_open_site(struct symmcoll_reducer *reducer);

/* Moves the reducer to the group's current stream, before a pass; where begins
 * the detail.  Later work is ordered after the work on the previous stream,
 * unless the current stream is in a capture that the previous one is not in.
 * Errors: INVALID (the previous one is captured, and the current one is not). */
symmcoll_status_t symc_take_stream(
    struct symmcoll_reducer *reducer, const char *where);

/* Moves the reducer to the group's current stream within a pass.  Errors:
 * INVALID (the stream is captured and the pass did not begin so, or the
 * reverse). */
symmcoll_status_t symc_keep_stream(const struct symmcoll_reducer *reducer);

/* Orders the reducer's later work after the work on that stream.  Errors:
 * INVALID (the reducer's stream is captured, and that one is not). */
symmcoll_status_t symc_follow_stream(
    const struct symmcoll_reducer *reducer, void *stream);

/* ---- times.c ---- */

/* Sets which passes count for the averages; 0: the default.  Errors: INVALID. */
symmcoll_status_t symc_times_open(
    const struct symmcoll_reducer *reducer, int rate);

/* Records the time of a moment.  Moments come in their order; a backward that
 * fails has no END, and does not count. */
void symc_times_note(
    const struct symmcoll_reducer *reducer, enum symc_moment moment);

/* Reads, on a device, the times of the measured backward, if the device has
 * finished it. */
void symc_times_take(const struct symmcoll_reducer *reducer);

/* Releases the marks, and ends a measurement without a result. */
void symc_times_drop(const struct symmcoll_reducer *reducer);

/* ---- rebuild.c ---- */

/* Returns whether the buckets are rebuilt after the first synchronised
 * backward. */
bool symc_rebuild_is_wanted(const struct symmcoll_reducer *reducer);

/* Moves buckets that are never rebuilt to symmetric memory, where that is used
 * in place, on all ranks or on none.  Collective. */
symmcoll_status_t symc_rebuild_shared(struct symmcoll_reducer *reducer);

/* Rebuilds the buckets in rank 0's order of arrival, on all ranks or on none
 * (own: this rank's status before).  Collective. */
symmcoll_status_t symc_rebuild_buckets(
    struct symmcoll_reducer *reducer, symmcoll_status_t own);

/* ---- shard.c ---- */

/* Checks that shard is set with options that it can be combined with, before a
 * reducer is made.  Errors: INVALID. */
symmcoll_status_t symc_shard_check_args(
    const struct symmcoll_reducer_args *args);

/* Checks that a reducer has shard; where begins the detail.  Errors: INVALID. */
symmcoll_status_t symc_shard_check(
    const struct symmcoll_reducer *reducer, const char *where);

/* Lists the slices of this rank, after the layout has changed.  Errors: INVALID
 * (a parameter with gaps), NO_MEMORY. */
symmcoll_status_t symc_shard_list(struct symmcoll_reducer *reducer);

/* Starts the sums of a bucket, of which each rank receives its part. */
symmcoll_status_t symc_shard_reduce(const struct symmcoll_reducer *reducer,
    struct symc_ddp_bucket *bucket, const struct symmcoll_call *call);

/* Starts to gather the parameters of a bucket, through its memory. */
symmcoll_status_t symc_shard_gather(
    const struct symmcoll_reducer *reducer, struct symc_ddp_bucket *bucket);

/* Copies the other ranks' parts of the parameters from a bucket to the caller's
 * memory, after they have been gathered. */
symmcoll_status_t symc_shard_spread(
    const struct symmcoll_reducer *reducer, struct symc_ddp_bucket *bucket);

/* ---- flight.c ---- */

/* Starts the buckets that are ready, in the order of their index. */
symmcoll_status_t symc_launch_buckets(struct symmcoll_reducer *reducer);

/* Finds, in host memory, which buckets have ended, for the times.  Their
 * failures are returned by finish. */
void symc_poll_buckets(struct symmcoll_reducer *reducer);

/* Blocks until a bucket is reduced and its elements are in its buffer; on a
 * device only the stream waits.  On failure symmcoll_last_error() has the
 * reason. */
symmcoll_status_t symc_await_bucket(
    const struct symmcoll_reducer *reducer, struct symc_ddp_bucket *bucket);

/* Waits for every bucket that is in flight, on a device by the stream.  Returns
 * the first failure of the backward, with its detail set.  averages: writes
 * those of the reduced buckets to the caller's gradients.  On a device works
 * are kept for symc_settle_buckets(), as is any work that is in flight and
 * cannot be waited for now. */
symmcoll_status_t symc_drain_buckets(
    struct symmcoll_reducer *reducer, bool averages);

/* Returns whether no bucket's work has failed, after symc_drain_buckets(). */
bool symc_buckets_ended_well(const struct symmcoll_reducer *reducer);

/* Waits for parameters that are gathered, and releases the works that
 * symc_drain_buckets() kept.  Returns the first error: of a work that failed
 * since, or that still cannot be waited for, which is kept.  where begins the
 * detail. */
symmcoll_status_t symc_settle_buckets(
    struct symmcoll_reducer *reducer, const char *where);

/* Releases all works, when the buckets are no longer written to, or only before
 * the stream's later work.  A bucket whose work cannot be waited for loses its
 * buffers, which are not freed. */
void symc_abandon_buckets(struct symmcoll_reducer *reducer);

#endif
