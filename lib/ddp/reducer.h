/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the sources of the reducer share: parameters (numbers.c, param.c, overlap.c), what
 * is compared and broadcast at creation (verify.c), failures of one rank there
 * (failure.c), errors of a backward (outcome.c), the buckets' memory (layout.c),
 * rebuilding them once (rebuild.c), buckets from their start to their end (flight.c), and
 * in 16 bits (pack.c), times (times.c, stats.c), streams (stream.c), gradients in the caller's
 * memory (write_back.c), and in float32 (widen.c), parameters that are not used (used.c), graphs that do not change
 * (static_graph.c), one gradient (ready.c), a backward pass (step.c).  Hooks
 * (hook.c, hook_compress.c, hook_end.c) have a part of it.
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

/* A number that the caller has for a parameter. */
struct symc_number {
    char *name; /* NULL where none was given */
    int param;  /* which it is, in params */
    int came;   /* calls of ready in this backward */
    int wanted; /* those of each backward: 1, or as in the first of a static graph */
    bool skipped; /* in this backward */
};

/* One parameter and where its gradient is. */
struct symc_param {
    struct symmcoll_tensor tensor; /* the caller's, of our size */
    int number; /* the caller's, the lowest where it has more */
    size_t count;
    size_t nbytes;
    enum symmcoll_dtype grad_dtype; /* of the gradient in the bucket */
    size_t grad_nbytes;
    size_t extent; /* bytes from the first to the end of the last element */
    bool dense;    /* elements fill their memory in some order */
    int bucket;    /* which holds its gradient */
    char *view;    /* the gradient in the bucket's buffer */
    int wanted;    /* calls of ready in a backward, of all its numbers */
    int left;      /* those to come in this backward; 0: complete */
    bool came;     /* in this backward */
    bool has_accumulated; /* the view is to be added to, not overwritten */
    bool used;            /* a gradient has come since the last backward that
                      synchronised, or zero */
    bool was_used; /* by any rank, in the last backward that synchronised */
    char *kept;    /* memory for the gradient if no rank uses it; NULL: none */
    const void *known; /* a gradient that was found to be in host memory */
    void *origin;      /* write_back: the caller's gradient, which has not
                             been averaged yet; NULL: none */
    void *home;        /* write_back: where the caller's gradient is in every
                             pass; NULL: ready says so */
};

enum symc_packing {
    SYMC_PACKING_NONE,
    SYMC_PACKING_BEGUN, /* the bucket's elements in 16 bits are a hook's */
    SYMC_PACKING_DONE   /* what they are at the end becomes the bucket's */
};

/* One bucket.  Its members are contiguous, in the order of params. */
struct symc_ddp_bucket {
    char *buffer;
    size_t count;
    enum symmcoll_dtype dtype;
    int ngrads;
    const int *params;          /* part of symc_layout's */
    const int *numbers;         /* the caller's, of the same */
    int pending;                /* gradients not ready in this backward */
    struct symmcoll_work *work; /* in flight, or NULL */
    void *stream;               /* on a device: on which it was started */
    bool goes_on;               /* hook_end has started another work */
    bool awaited;               /* on a device: the stream waits for the work */
    bool failed;                /* a work of this backward has */
    void *packed; /* its elements in 16 bits; NULL: never so far */
    enum symmcoll_dtype packed_dtype;
    enum symc_packing packing; /* in this backward */
};

/* All buckets of a reducer. */
struct symc_layout {
    struct symc_ddp_bucket *buckets;
    int nbuckets;
    int *params;
    int *numbers;
};

enum symc_backward {
    SYMC_BACKWARD_NONE,
    SYMC_BACKWARD_LOCAL,
    SYMC_BACKWARD_SYNC
};

/* Whether gradients come alike in each backward. */
enum symc_graph {
    SYMC_GRAPH_DYNAMIC, /* once each, or not */
    SYMC_GRAPH_FIRST,   /* static; how often is counted in this backward */
    SYMC_GRAPH_KNOWN    /* static, and as often as in the first one */
};

enum symc_rebuild {
    SYMC_REBUILD_LATER, /* no synchronised backward has ended yet */
    SYMC_REBUILD_DUE,   /* at the next begin */
    SYMC_REBUILD_DONE
};

/* Moments of a backward that synchronises. */
enum symc_moment {
    SYMC_MOMENT_BEGIN,
    SYMC_MOMENT_LAUNCH, /* of the first bucket */
    SYMC_MOMENT_FINISH, /* has been called */
    SYMC_MOMENT_END,    /* of finish */
    SYMC_MOMENTS
};

/* Times of the passes that count for the averages. */
struct symc_sums {
    uint64_t measured;
    int64_t backward_ns, comm_ns, overlap_ns;
};

/* When they were, by the host's clock, or where in its streams a device was then. */
struct symc_timing {
    int64_t ns[SYMC_MOMENTS];
    void *marks[SYMC_MOMENTS];
    bool measures; /* this backward, on a device */
    bool
        pending; /* the device has not come to the last mark, as far as we know */
    struct symmcoll_reducer_times times; /* of the latest that was measured */
    uint64_t npasses;                    /* that were */
    uint64_t rate; /* after the first ones every so many-th is in the sums */
    struct symc_sums sums;
};

struct symmcoll_reducer {
    pthread_mutex_t lock; /* of one gradient after another */
    struct symmcoll_group *group;
    struct symc_site *site; /* of parameters, gradients and buckets; on the
                               group's stream as of the latest call */
    int size;               /* of the group */
    double factor;          /* a gradient's before the sum: 1 / size, 1 with a
                      hook */
    struct symc_number *numbers;
    int nnumbers;
    struct symc_param *params; /* each once, in the order of their numbers */
    int nparams;
    struct symc_local_piece *pieces; /* scratch: of each parameter */
    size_t limits[2]; /* of the rebuilt buckets: the first, all others */
    bool views;       /* gradient_as_bucket_view */
    bool write_back;  /* averages are written over the gradients */
    symmcoll_bucket_fn hook;
    symmcoll_bucket_fn hook_end; /* after the hook's work; NULL: none */
    void *hook_arg;
    bool has_begun;                   /* a backward, ever */
    enum symmcoll_dtype reduce_dtype; /* 0: as the parameters */
    void *wide; /* scratch: a gradient in it; NULL: none is added */
    bool find_unused;
    enum symc_graph graph;
    struct symc_used *used; /* NULL: nothing is asked about it */
    bool packs; /* buckets of float32 are made with memory for 16 bits, too */
    struct symc_layout layout;

    enum symc_rebuild rebuild;
    int *arrival; /* parameters in the order they were ready; all of
                     them after the first synchronised backward */
    int narrived;

    uint64_t npasses; /* that have synchronised and ended */
    enum symc_backward backward;
    bool captured; /* it began on a stream that was being captured */
    int launched;  /* buckets before this one have started */
    int done;      /* buckets before this one were seen to have ended */
    symmcoll_status_t failure; /* the first of this backward */
    char failure_detail[SYMC_DETAIL_MAX];
    symmcoll_status_t refusal; /* the first of a gradient in this backward */
    char refusal_detail[SYMC_DETAIL_MAX];
    symmcoll_status_t zeroing; /* of the latest zero, which begin returns */
    char zeroing_detail[SYMC_DETAIL_MAX];

    int64_t done_ns; /* its latest bucket's end, as seen by the host */
    struct symc_timing *timing;
};

/* ---- numbers.c ---- */

/* Takes the caller's parameters, and names, which may be NULL.
 * Errors: INVALID, UNSUPPORTED, NO_MEMORY. */
symmcoll_status_t symc_numbers_take(struct symmcoll_reducer *reducer,
    const struct symmcoll_tensor *params, int nparams,
    const char *const *names);
void symc_numbers_free(struct symmcoll_reducer *reducer);

/* Checks a number; where begins the detail.  Errors: INVALID. */
symmcoll_status_t symc_number_check(
    const struct symmcoll_reducer *reducer, const char *where, int number);

/* The parameter of a number that is in range. */
static inline struct symc_param *symc_number_param(
    const struct symmcoll_reducer *reducer, int number)
{
    return &reducer->params[reducer->numbers[number].param];
}

/* "parameter 3 (fc2.weight)"; into a buffer of SYMC_PARAM_TEXT. */
const char *symc_number_text(
    const struct symmcoll_reducer *reducer, int number, char *buffer);

/* Lists the numbers that a filter returns true for; false if there are none. */
typedef bool (*symc_number_filter_fn)(
    const struct symmcoll_reducer *reducer, int number);
bool symc_numbers_list(const struct symmcoll_reducer *reducer,
    symc_number_filter_fn is_listed, char *buffer, size_t nbytes);

/* Checks that a gradient is where the parameters are, and at an address that kernels
 * take.  The driver is asked once about memory of the host, which most passes use
 * again, and each time about that of a device, which may have been freed.
 * where begins the detail. */
symmcoll_status_t symc_check_gradient(const struct symmcoll_reducer *reducer,
    const char *where, int number, const void *grad);

/* ---- param.c ---- */

/* Check a tensor, of that number in the caller's array, and fill in what
 * follows from it; text is the parameter's.  Whether it is where it says is not looked
 * at.  Errors: INVALID, UNSUPPORTED. */
symmcoll_status_t symc_param_init(struct symc_param *param,
    const struct symmcoll_tensor *tensors, int number, const char *text);

/* Addresses of its elements on a device are multiples of this. */
size_t symc_param_align(const struct symc_param *param);

/* The gradient in the bucket. */
struct symmcoll_tensor symc_param_view(const struct symc_param *param);

/* Numbers as "[4, 8]"; into a buffer of SYMC_SHAPE_TEXT. */
const char *symc_format_dims(const int64_t *dims, int ndim, char *buffer);

/* Copy elements between the memory of a tensor that is not dense and a row-major
 * array. */
symmcoll_status_t symc_param_pack(
    const struct symc_site *site, const struct symc_param *param, char *out);
symmcoll_status_t symc_param_unpack(const struct symc_site *site,
    const struct symc_param *param, const char *in);

/* ---- overlap.c ---- */

/* Whether two parameters have an element's memory in common. */
bool symc_params_overlap(
    const struct symc_param *a, const struct symc_param *b);

/* ---- failure.c ---- */

/* Go on together or not at all: with OK on all ranks, or with the error of the lowest
 * one that has failed, whose detail is last_error() there.  Collective. */
symmcoll_status_t symc_share_failure(
    const struct symmcoll_reducer *reducer, symmcoll_status_t own);

/* ---- outcome.c ---- */

/* Keep the first failure of this backward, of a bucket or -1, and return the
 * status. */
symmcoll_status_t symc_keep_failure(struct symmcoll_reducer *reducer,
    int bucket, symmcoll_status_t status, const char *detail);
/* Return it once more. */
symmcoll_status_t symc_repeat_failure(const struct symmcoll_reducer *reducer);

/* Keep the first refusal of this backward for its finish, and return the status; the
 * format is that of the detail. */
symmcoll_status_t symc_keep_refusal(struct symmcoll_reducer *reducer,
    symmcoll_status_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Returns it: all ranks have done the same operations, and this one may have refused a
 * gradient meanwhile. */
symmcoll_status_t symc_report_refusal(const struct symmcoll_reducer *reducer);

/* ---- verify.c ---- */

/* Compare the parameters with rank 0's, and write its values into all ranks', through a
 * buffer of nbytes, where all ranks could make their buckets (own: whether this one
 * could).  Collective; an error of the comparison touches no user memory. */
symmcoll_status_t symc_synchronise_params(
    const struct symmcoll_reducer *reducer, size_t nbytes,
    symmcoll_status_t own);

/* Compares what the ranks compare before their parameters, once more (own: whether this
 * one is ready for that).  Collective. */
symmcoll_status_t symc_compare_options(
    const struct symmcoll_reducer *reducer, symmcoll_status_t own);

/* ---- layout.c ---- */

/* Make the buckets of an assignment, the last bucket first where reversed;
 * buffers are zero.  Errors: NO_MEMORY, those of symc_site_alloc(). */
symmcoll_status_t symc_layout_make(const struct symmcoll_reducer *reducer,
    const struct symc_assignment *assignment, bool reversed,
    struct symc_layout *layout);
void symc_layout_free(
    const struct symmcoll_reducer *reducer, struct symc_layout *layout);

/* Copy the reducer's gradients, where it has some, to another layout. */
symmcoll_status_t symc_layout_fill(
    const struct symmcoll_reducer *reducer, const struct symc_layout *layout);

/* Use this layout for the reducer's gradients from now on; takes it. */
void symc_layout_adopt(
    struct symmcoll_reducer *reducer, const struct symc_layout *layout);

/* The items for symc_assign_buckets(); release with free(). */
struct symc_bucket_item *symc_list_items(
    const struct symmcoll_reducer *reducer);

/* "bucket 3", the label of its operation; into a buffer of SYMC_BUCKET_TEXT. */
const char *symc_bucket_text(int index, char *buffer);

/* A bucket as hooks see it. */
extern const struct symc_sized symc_bucket_kind;
struct symmcoll_bucket symc_describe_bucket(
    const struct symmcoll_reducer *reducer, int index);

/* ---- ready.c ---- */

/* Completes a parameter of which no gradient, or no other one, comes in this backward. */
symmcoll_status_t symc_complete_param(
    struct symmcoll_reducer *reducer, struct symc_param *param);

/* ---- widen.c ---- */

/* Has gradients of 16-bit parameters in float32, where that is dtype; 0: as they are.
 * Errors: UNSUPPORTED, those of symc_site_alloc(). */
symmcoll_status_t symc_widen_open(
    struct symmcoll_reducer *reducer, enum symmcoll_dtype dtype);
void symc_widen_close(struct symmcoll_reducer *reducer);

/* Returns whether the gradient in the bucket has another type than the parameter. */
bool symc_is_wide(const struct symc_param *param);

/* Converts a gradient, to be added to the view (added, out), or, where nothing has
 * accumulated, into the view, multiplied; then added is NULL. */
symmcoll_status_t symc_widen(const struct symmcoll_reducer *reducer,
    const struct symc_param *param, const void *grad, double factor,
    const void **added);

/* Converts a view to the parameter's type. */
symmcoll_status_t symc_narrow(const struct symmcoll_reducer *reducer,
    const struct symc_param *param, void *to);

/* ---- used.c ---- */

/* Makes what finding unused parameters takes.  Errors: NO_MEMORY, those of
 * symc_site_alloc().  close() waits for sums in flight; NULL is fine. */
symmcoll_status_t symc_used_open(struct symmcoll_reducer *reducer);
void symc_used_close(struct symmcoll_reducer *reducer);

/* Before a pass that synchronises: ends the sums of the one before.
 * Errors: UNSUPPORTED (it is captured), those of the sums. */
symmcoll_status_t symc_used_begin(struct symmcoll_reducer *reducer);

/* Keeps the gradient of a parameter that this rank has not used, before it is divided. */
symmcoll_status_t symc_used_keep(
    const struct symmcoll_reducer *reducer, const struct symc_param *param);

/* Starts the sums, once in a backward, when all buckets have been started. */
symmcoll_status_t symc_used_start(struct symmcoll_reducer *reducer);

/* Finds which parameters any rank has used; waits for the sums where this rank has not
 * used all.  An error is a failure of the backward. */
symmcoll_status_t symc_used_await(struct symmcoll_reducer *reducer);

/* Returns whether no rank has used a parameter, where that is looked for. */
bool symc_used_nowhere(
    const struct symmcoll_reducer *reducer, const struct symc_param *param);

/* Writes back the gradients of those, after the reduction. */
symmcoll_status_t symc_used_restore(struct symmcoll_reducer *reducer);

/* ---- static_graph.c ---- */

/* Returns whether this backward counts gradients. */
bool symc_graph_is_counted(const struct symmcoll_reducer *reducer);

/* Returns whether this backward finds which parameters are used. */
bool symc_used_is_sought(const struct symmcoll_reducer *reducer);

/* Sets how often the gradient of each parameter is to come. */
void symc_graph_begin(const struct symmcoll_reducer *reducer);

/* Checks that a gradient that comes has come as often before.  Errors: INVALID. */
symmcoll_status_t symc_graph_check(
    const struct symmcoll_reducer *reducer, int number);

/* Counts a gradient that is refused in the first backward, where later ones have it: it
 * comes, as zeros. */
void symc_graph_count_refused(struct symmcoll_reducer *reducer, int number);

/* Keeps, as a refusal, that one has come less often than before. */
void symc_graph_refuse_change(struct symmcoll_reducer *reducer);

/* Takes the counts of the first backward. */
void symc_graph_take(struct symmcoll_reducer *reducer);

/* ---- write_back.c ---- */

/* Takes where the caller's gradients are in all passes; NULL: ready says so.
 * Errors: INVALID, NO_MEMORY. */
symmcoll_status_t symc_take_homes(
    struct symmcoll_reducer *reducer, void *const *grads);

/* Returns whether the caller's memory of a gradient is another one than has been named,
 * or also that of another gradient, where the averages would overwrite each other.
 * Errors: INVALID. */
symmcoll_status_t symc_check_origin(
    const struct symmcoll_reducer *reducer, int number, const void *grad);

/* Keeps, as a refusal, that averages cannot be written back. */
void symc_refuse_unplaced(struct symmcoll_reducer *reducer);

/* Writes the averages of a bucket where its gradients came from, unless the backward has
 * failed, and forgets where that is. */
void symc_return_averages(struct symmcoll_reducer *reducer, int index);

/* ---- pack.c ---- */

/* Memory for a bucket's elements in 16 bits, where it may be packed, until the layout
 * is freed.  Errors: those of symc_site_alloc(). */
symmcoll_status_t symc_packed_alloc(
    const struct symmcoll_reducer *reducer, struct symc_ddp_bucket *bucket);

/* The bucket of a hook's call (seen) with its elements, multiplied, in such a type
 * (packed), for that hook alone.  Errors: those of symmcoll_hook_fp16_compress(). */
symmcoll_status_t symc_pack_bucket(const char *where,
    const struct symmcoll_bucket *seen, enum symmcoll_dtype dtype,
    double factor, struct symmcoll_bucket *packed);

/* What is there at the end of the hook's work is the bucket's. */
void symc_keep_packed(const struct symmcoll_bucket *seen);

/* Write it into the bucket, in the order of the bucket's stream, unless the backward
 * has failed. */
symmcoll_status_t symc_unpack_bucket(
    const struct symmcoll_reducer *reducer, struct symc_ddp_bucket *bucket);

/* ---- hook.c ---- */

/* Check the arguments of a hook of the library, and copy the bucket. */
symmcoll_status_t symc_hook_read(const char *where,
    const struct symmcoll_group *group, const struct symmcoll_bucket *given,
    struct symmcoll_work *const *work, struct symmcoll_bucket *bucket);

/* Sum a bucket over the ranks, with its label; where it is captured without a work. */
symmcoll_status_t symc_hook_sum(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, bool captured,
    struct symmcoll_work **work);

/* ---- hook_end.c ---- */

/* Has the reducer call a hook, and what comes after it, or none. */
void symc_hook_use(struct symmcoll_reducer *reducer, symmcoll_bucket_fn hook,
    symmcoll_bucket_fn hook_end, void *arg);

/* Calls hook_end, where there is one, for each bucket when its work has ended, until all
 * have ended; an error is a failure of the backward. */
void symc_end_hooks(struct symmcoll_reducer *reducer);

/* ---- hook_compress.c ---- */

/* Whether a hook packs buckets. */
bool symc_hook_packs(symmcoll_bucket_fn hook);

/* ---- stream.c ---- */

/* What comes from now on is on the group's current stream: before a pass; where
 * begins the detail.  After what has come on the stream before, unless this one is
 * captured in a graph.  Errors: INVALID (the one before is, and this one is not). */
symmcoll_status_t symc_take_stream(
    struct symmcoll_reducer *reducer, const char *where);

/* The same in a pass.  Errors: INVALID (it is captured, and the pass began otherwise,
 * or the other way round). */
symmcoll_status_t symc_keep_stream(const struct symmcoll_reducer *reducer);

/* What comes from now on is after what has come on that stream.  Errors: INVALID (its
 * stream is captured, and that one is not). */
symmcoll_status_t symc_follow_stream(
    const struct symmcoll_reducer *reducer, void *stream);

/* ---- times.c ---- */

/* Takes which passes count for the averages; 0: the default.  Errors: INVALID. */
symmcoll_status_t symc_times_open(
    const struct symmcoll_reducer *reducer, int rate);

/* Note one moment after the other; those after a failure do not count. */
void symc_times_note(
    const struct symmcoll_reducer *reducer, enum symc_moment moment);

/* On a device: take the times of the backward that has been measured, if it has
 * come to its end. */
void symc_times_take(const struct symmcoll_reducer *reducer);

/* Release what measures. */
void symc_times_drop(const struct symmcoll_reducer *reducer);

/* ---- rebuild.c ---- */

/* Rebuild the buckets in rank 0's order of arrival, on all ranks or on none (own:
 * whether this one can begin).  Collective. */
symmcoll_status_t symc_rebuild_buckets(
    struct symmcoll_reducer *reducer, symmcoll_status_t own);

/* ---- flight.c ---- */

/* Start the buckets that are ready, in the order of their index. */
symmcoll_status_t symc_launch_buckets(struct symmcoll_reducer *reducer);

/* Notice which buckets have ended meanwhile; failures show in finish. */
void symc_poll_buckets(struct symmcoll_reducer *reducer);

/* Wait for a bucket, or have the stream wait, until its elements are in it; last_error()
 * is the reason where that fails. */
symmcoll_status_t symc_await_bucket(
    const struct symmcoll_reducer *reducer, struct symc_ddp_bucket *bucket);

/* Wait for every bucket that is in flight; returns the first failure, with its
 * detail set.  averages: those of buckets that have been reduced are written where
 * their gradients came from.  On a device the stream waits, and works stay, to be
 * asked later, and so does one that is in flight and cannot be waited for now. */
symmcoll_status_t symc_drain_buckets(
    struct symmcoll_reducer *reducer, bool averages);

/* Returns whether no work of a bucket has failed, after symc_drain_buckets(). */
bool symc_buckets_ended_well(const struct symmcoll_reducer *reducer);

/* Release the works that have stayed; the error of one that has failed since, or that
 * still cannot be waited for, and stays. */
symmcoll_status_t symc_settle_buckets(struct symmcoll_reducer *reducer);

/* Release all works, once nothing writes to the buckets, or only what comes before what
 * the stream has later.  A bucket for which that cannot be had loses its buffer, which
 * is not freed. */
void symc_abandon_buckets(struct symmcoll_reducer *reducer);

#endif
