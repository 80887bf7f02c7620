/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The gradient reducer of data-parallel training: gradients are gathered into
 * buckets and averaged over the ranks while backward still runs.
 *
 * One step: symmcoll_reducer_begin(), then for each gradient as it is produced
 * symmcoll_reducer_ready(), then symmcoll_reducer_finish().  All calls of one
 * reducer come from one thread at a time.
 * Source: torch.nn.parallel.DistributedDataParallel.
 * Manual: symmcoll_reducer_create(3).
 */
#ifndef SYMMCOLL_DDP_H
#define SYMMCOLL_DDP_H

#include <symmcoll/tensor.h>
#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_group;
struct symmcoll_reducer;
struct symmcoll_work;

/* One bucket as a hook sees it. */
struct symmcoll_bucket {
    size_t size;  /* sizeof(struct symmcoll_bucket) */
    int index;    /* 0 is launched first */
    int is_last;  /* the highest index */
    void *buffer; /* count elements, all gradients of the bucket */
    size_t count;
    enum symmcoll_dtype dtype;
    int ngrads;        /* how many gradients it holds */
    const int *params; /* their parameters' numbers, ngrads of them */
};
#define SYMMCOLL_BUCKET_INIT                                                   \
    {                                                                          \
        sizeof(struct symmcoll_bucket), 0, 0, NULL, 0, SYMMCOLL_UINT8, 0, NULL \
    }

/*
 * What to do with a bucket whose gradients are all there: start the
 * communication and return its work in *work, or NULL where it is complete
 * already.  A hook divides by itself; the reducer divides only where there is
 * none.
 */
typedef symmcoll_status_t (*symmcoll_bucket_fn)(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work);

struct symmcoll_reducer_args {
    size_t size;             /* sizeof(struct symmcoll_reducer_args) */
    size_t bucket_cap;       /* bytes; 0: the setting ddp.bucket_cap */
    size_t first_bucket_cap; /* bytes; 0: bucket_cap where that is given, else
                                the setting ddp.first_bucket_cap */
    int gradient_as_bucket_view; /* gradients live in the buckets, no copy */
    int no_init_sync;            /* skip verification and broadcast */
    symmcoll_bucket_fn hook;     /* NULL: divide, then all_reduce the sum */
    void *hook_arg;              /* borrowed */
    const char *const *names; /* of the parameters, for messages; may be NULL;
                                 borrowed during creation */
    int write_back; /* gradients live in the caller's memory: backward adds to
                       it, and the averages are written there; excludes
                       gradient_as_bucket_view */
};
#define SYMMCOLL_REDUCER_ARGS_INIT                                            \
    {                                                                         \
        sizeof(struct symmcoll_reducer_args), 0, 0, 0, 0, NULL, NULL, NULL, 0 \
    }

/*
 * Make a reducer.  Collective: compares the parameters' number, shapes and
 * strides with rank 0's, then broadcasts rank 0's values into all ranks'.
 *
 * params  nparams tensors in the order of forward, of floats or complex
 *         numbers, params[0].size apart; data borrowed until free
 *
 * Errors: INVALID (no parameter, a NULL, a shape, shared memory), UNSUPPORTED
 * (an element type, device memory), MISMATCH on every rank (names the parameter
 * and both shapes; no parameter is touched), NO_MEMORY, and those of
 * collectives.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_create(struct symmcoll_group *group,
    const struct symmcoll_tensor *params, int nparams,
    const struct symmcoll_reducer_args *args,
    struct symmcoll_reducer **reducer);

/* Release a reducer; NULL is fine.  Not collective; waits for buckets in
 * flight. */
SYMMCOLL_API
void symmcoll_reducer_free(struct symmcoll_reducer *reducer);

/*
 * Begin a backward.  sync 0 only accumulates, without communication; the next
 * synchronising backward reduces what has accumulated.
 * Errors: INVALID (the one before has not finished: names the parameters).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_begin(
    struct symmcoll_reducer *reducer, int sync);

/*
 * One parameter's gradient is complete: grad holds it, dense, in the
 * parameter's own order of elements.  It is added to what has accumulated.
 *
 * param  its number; each once in a backward
 * grad   borrowed for the call: it has been copied when that returns and may be
 *        reused at once
 *
 * With gradient_as_bucket_view grad is the data of symmcoll_reducer_grad(), to
 * which backward has added, and nothing else; it is the reducer's until finish.
 * With write_back it is the caller's gradient, to which backward has added, and
 * is written: borrowed until the finish of the next synchronised backward (or
 * symmcoll_reducer_zero(), or free), and what the caller writes there before
 * that is overwritten by the average.
 *
 * Errors: INVALID (a number out of range; a parameter marked twice; memory that
 * is or is not the view; with write_back, in the first backwards, memory of
 * another gradient), and those of the hook.  A gradient that is refused does
 * not count, and finish reports it again.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_ready(
    struct symmcoll_reducer *reducer, int param, const void *grad);

/*
 * End the backward: wait for all buckets; afterwards the averaged gradients are
 * to be read through symmcoll_reducer_grad(), and with write_back where the
 * gradients were.  With sync 0 it only notes the end.  A parameter never marked
 * counts as a gradient of zeros.
 *
 * Errors: those of the collectives and the hook; the first refusal of a
 * gradient in this backward, although the buckets have been reduced with the
 * others.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_finish(struct symmcoll_reducer *reducer);

/*
 * The gradient of a parameter: a view of its bucket, with the parameter's shape
 * and strides; grad's size is set before: SYMMCOLL_TENSOR_INIT.  Borrowed; the place may move at the first begin after the first
 * reduction, when buckets are rebuilt in the order in which gradients came.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_grad(
    struct symmcoll_reducer *reducer, int param, struct symmcoll_tensor *grad);

/* Set all gradients to zero, as between optimizer steps.  Without it averages
 * add up.  With write_back the caller's memory is the caller's to zero.  During
 * a backward it does nothing. */
SYMMCOLL_API
void symmcoll_reducer_zero(struct symmcoll_reducer *reducer);

/* How the parameters are spread: bucket count, and a bucket's description, of
 * which size is set before: SYMMCOLL_BUCKET_INIT. */
SYMMCOLL_API
int symmcoll_reducer_bucket_count(const struct symmcoll_reducer *reducer);
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_bucket(
    const struct symmcoll_reducer *reducer, int index,
    struct symmcoll_bucket *bucket);

/* Times of the latest synchronised backward, in seconds; 0 before there was
 * one.  size is set before: SYMMCOLL_REDUCER_TIMES_INIT. */
struct symmcoll_reducer_times {
    size_t size;     /* sizeof(struct symmcoll_reducer_times) */
    double backward; /* begin to finish's entry */
    double comm;     /* first bucket launched to last bucket done */
    double exposed;  /* finish's entry to its return */
};
#define SYMMCOLL_REDUCER_TIMES_INIT                    \
    {                                                  \
        sizeof(struct symmcoll_reducer_times), 0, 0, 0 \
    }
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_get_times(
    const struct symmcoll_reducer *reducer,
    struct symmcoll_reducer_times *times);

/* A hook for reference and for wrapping: divide by the size, all_reduce. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_hook_all_reduce(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work);

SYMMCOLL_END_DECLS

#endif
