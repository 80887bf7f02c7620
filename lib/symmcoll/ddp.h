/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The gradient reducer of data-parallel training: gradients are collected in
 * buckets and averaged over the ranks while backward still runs.
 *
 * One step: symmcoll_reducer_begin(), then for each gradient as it is produced
 * symmcoll_reducer_ready(), then symmcoll_reducer_finish().  Any threads of the rank
 * call ready, and symmcoll_reducer_skip(), at any time between begin and finish; other
 * calls of one reducer come from one thread at a time.
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

/* One bucket, for hooks and symmcoll_reducer_bucket(). */
struct symmcoll_bucket {
    size_t size;  /* sizeof(struct symmcoll_bucket) */
    int index;    /* 0 is reduced first */
    int is_last;  /* whether it has the highest index */
    void *buffer; /* count elements, all gradients of the bucket */
    size_t count;
    enum symmcoll_dtype dtype;
    int ngrads;        /* how many gradients it holds */
    const int *params; /* their parameters' numbers, ngrads of them; of
                                    one that has two the lower */
    enum symmcoll_device device; /* where the buffer is */
    int device_index;
    void *stream; /* on a device: the gradients are complete in its order */
    struct symmcoll_reducer
        *reducer; /* whose it is, where its hook is called, for
                                         hooks of the library; else NULL */
    int round;    /* of hook_end: how many of its calls came before */
};
#define SYMMCOLL_BUCKET_INIT                                              \
    {                                                                     \
        sizeof(struct symmcoll_bucket), 0, 0, NULL, 0, SYMMCOLL_UINT8, 0, \
            NULL, SYMMCOLL_HOST, 0, NULL, NULL, 0                         \
    }

/*
 * Called when all gradients of a bucket are complete: start the communication
 * and set *work to its work, or to NULL if it is complete already.  With a hook
 * the reducer does not divide by the number of ranks: the hook does.
 *
 * On a device the hook enqueues what it does on the bucket's stream; *work is of
 * an operation that was called on that stream, which the reducer has wait for it.
 *
 * It calls neither symmcoll_reducer_ready() nor skip of its reducer, and returns: it
 * throws no exception, and neither ends its thread nor enables its cancellation.
 */
typedef symmcoll_status_t (*symmcoll_bucket_fn)(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work);

/* The gradient, and the parameter, of a member of a hook's bucket, 0 to ngrads - 1: a
 * tensor (out) that begins as SYMMCOLL_TENSOR_INIT.  The gradient is part of
 * bucket->buffer, of its type.
 * Errors: INVALID (a NULL; not the bucket of a hook's call; a number out of range). */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_bucket_grad(
    const struct symmcoll_bucket *bucket, int i, struct symmcoll_tensor *grad);
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_bucket_param(
    const struct symmcoll_bucket *bucket, int i, struct symmcoll_tensor *param);

struct symmcoll_reducer_args {
    size_t size;             /* sizeof(struct symmcoll_reducer_args) */
    size_t bucket_cap;       /* bytes; 0: the setting ddp.bucket_cap */
    size_t first_bucket_cap; /* bytes; 0: bucket_cap where that is given, else
                                the setting ddp.first_bucket_cap */
    int gradient_as_bucket_view; /* not 0: gradients are in the buckets */
    int no_init_sync; /* not 0: compare neither parameters nor options, and broadcast
                         nothing */
    symmcoll_bucket_fn hook;  /* NULL: divide, then all_reduce the sum */
    void *hook_arg;           /* borrowed */
    const char *const *names; /* of the parameters, for messages; may be
                                    NULL; copied */
    int write_back;     /* not 0: gradients are in the caller's memory, to which
                       backward adds and averages are written; excludes
                       gradient_as_bucket_view */
    void *const *grads; /* with write_back: the caller's gradient of each
                           parameter, borrowed until free; NULL: ready passes
                           them */
    int find_unused;    /* not 0: parameters may have no gradient in a pass, and
                           keep theirs where no rank has one */
    int static_graph;   /* not 0: every pass that synchronises has the same
                           gradients, as often as the first one */
    enum symmcoll_dtype
        reduce_dtype; /* SYMMCOLL_FLOAT32: gradients of float16 and bfloat16
                           parameters are added, reduced and averaged in it;
                           0: in their type */
    symmcoll_bucket_fn
        hook_end;   /* called by finish with hook_arg for each bucket whose
                           work has ended, in their order, again when the work
                           that it starts has ended, until it starts none;
                           NULL: nothing is.  If it fails on one rank before
                           a work that the others start the reducer is to
                           be freed on all ranks */
    int stats_rate; /* the first 10 passes count for symmcoll_reducer_stats, then
                       every stats_rate-th; 0: 100 */
};
#define SYMMCOLL_REDUCER_ARGS_INIT                                             \
    {                                                                          \
        sizeof(struct symmcoll_reducer_args), 0, 0, 0, 0, NULL, NULL, NULL, 0, \
            NULL, 0, 0, SYMMCOLL_UINT8, NULL, 0                                \
    }

/*
 * Make a reducer.  Collective: compares the parameters' number, element types,
 * shapes and strides with those of rank 0, then copies the values of rank 0 to
 * all ranks.
 *
 * params  nparams tensors in the order of forward, of floats or complex
 *         numbers, params[0].size apart; data borrowed until free; all in host
 *         memory or all on one device.  The same data, type, shape and strides
 *         twice, as of tied weights, is one parameter with two numbers, whose
 *         gradient is the sum of what is passed for both
 *
 * On a device gradients and buckets are there, too; what the reducer does is
 * enqueued on the group's current stream at each call, and no call waits for the
 * device.  See symmcoll_group_set_stream().  A pass is captured in a graph from begin
 * to finish, or INVALID.
 *
 * Errors: INVALID (no parameter, a NULL, a shape, shared memory, two devices, a
 * device other than the group's), UNSUPPORTED (an element type, no backend for a
 * device), MISMATCH on every rank (names the parameter
 * and both shapes; no parameter is touched), NO_MEMORY, and those of collectives.  What
 * one rank alone is refused every rank returns, and names it.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_create(struct symmcoll_group *group,
    const struct symmcoll_tensor *params, int nparams,
    const struct symmcoll_reducer_args *args,
    struct symmcoll_reducer **reducer);

/*
 * Have a reducer that was made without a hook call one, before its first pass.
 * Collective: all ranks do, or MISMATCH and the reducer is as before.
 *
 * hook_end  as of struct symmcoll_reducer_args; may be NULL
 * arg       of both; borrowed
 *
 * Errors: INVALID (a NULL; it has one; a pass has begun), of any rank, on all; MISMATCH.
 * Source: torch.nn.parallel.DistributedDataParallel.register_comm_hook.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_set_hook(struct symmcoll_reducer *reducer,
    symmcoll_bucket_fn hook, symmcoll_bucket_fn hook_end, void *arg);

/* Release a reducer; NULL is fine.  Not collective; waits for buckets in
 * flight.  On a device memory is released in the order of the stream that was the
 * group's at the last call of the reducer. */
SYMMCOLL_API
void symmcoll_reducer_free(struct symmcoll_reducer *reducer);

/*
 * Begin a backward pass.  With sync 0 gradients only accumulate, without
 * communication; the next pass with another sync averages their sum.
 * Errors: INVALID (the pass before has not finished; names the parameters whose
 * gradients are missing); NO_MEMORY (of any rank, on all, when buckets are
 * rebuilt); on a device, of a bucket of the pass before that has failed after its
 * finish, or of symmcoll_reducer_zero().
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_begin(
    struct symmcoll_reducer *reducer, int sync);

/*
 * Pass one parameter's gradient, which is complete.  It is added to what has
 * accumulated.
 *
 * param  the parameter's number; each once in a pass, also where it has two; with
 *        static_graph as often as in the first pass, then the gradient is their sum
 * grad   the gradient's elements, of the parameter's type, without gaps, in the order
 *        of the parameter's strides; borrowed for the call
 *
 * With gradient_as_bucket_view grad has to be the data of
 * symmcoll_reducer_grad(), to which backward has added; it is the reducer's
 * until finish.  With write_back grad is the caller's gradient, to which
 * backward has added: it is borrowed until the finish of the next pass that
 * synchronises (or symmcoll_reducer_zero(), or free), which overwrites it with
 * the average.  With args.grads it is the address that was named there, or NULL
 * for that.
 *
 * Errors: INVALID (a number out of range; a gradient passed twice; memory that
 * the options do not allow; with write_back, in the first passes, memory of
 * another gradient; with static_graph one more than in the first synchronised pass), and those of the hook.  A gradient that is refused counts
 * as zeros, and finish returns the error again.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_ready(
    struct symmcoll_reducer *reducer, int param, const void *grad);

/*
 * Say of parameters that no gradient comes in this pass, so that their buckets need
 * not wait until finish; with find_unused.  A gradient that has neither been passed nor
 * skipped at finish counts as skipped.  With static_graph there is no effect.
 *
 * params  n numbers of parameters
 *
 * Errors: INVALID (no find_unused; not in a pass; a number out of range; a gradient that
 * has been passed), and those of the hook.  finish returns the error again.
 * Source: torch.nn.parallel.DistributedDataParallel, find_unused_parameters.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_skip(
    struct symmcoll_reducer *reducer, const int *params, int n);

/*
 * Whether a rank has passed a gradient of a parameter, used (out), since the
 * synchronised pass before the latest one; all ranks agree.  With find_unused, or
 * static_graph, for which it is fixed in the first pass.
 *
 * Errors: INVALID (neither option; no synchronised pass has finished; a number out of
 * range).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_was_used(
    const struct symmcoll_reducer *reducer, int param, int *used);

/*
 * End the backward pass: wait for all buckets.  Then symmcoll_reducer_grad()
 * returns the averages, and with write_back they replace the gradients.  With
 * sync 0 there is nothing to wait for.  With static_graph a gradient that came less often
 * than in the first synchronised pass is INVALID.  A gradient that was not passed counts
 * as zeros, and has the average of the others; with find_unused or static_graph one that
 * no rank has passed is not touched.  With write_back but without args.grads a missing one
 * is INVALID on this rank, which names the parameters, after the buckets have been
 * reduced: their averages have nowhere to be written.
 *
 * On a device it is the stream that waits: the host does until all ranks have
 * started the buckets' operations.
 *
 * Errors: those of the collectives and the hook; the first error of
 * symmcoll_reducer_ready() in this pass, although the buckets have been reduced
 * with the other gradients.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_finish(struct symmcoll_reducer *reducer);

/*
 * The gradient of a parameter, in the memory of its bucket, with the
 * parameter's shape and strides, and its type or reduce_dtype.  grad begins as SYMMCOLL_TENSOR_INIT.
 * Borrowed; the memory may move at the first begin after the first reduction,
 * when buckets are rebuilt in the order in which gradients became complete.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_grad(
    struct symmcoll_reducer *reducer, int param, struct symmcoll_tensor *grad);

/* Set all gradients to zero, as after a step of the optimizer; otherwise
 * averages add up.  With write_back the caller sets its memory to zero itself.
 * During a backward pass it has no effect. */
SYMMCOLL_API
void symmcoll_reducer_zero(struct symmcoll_reducer *reducer);

/* The number of buckets, and the description of one, which begins as
 * SYMMCOLL_BUCKET_INIT. */
SYMMCOLL_API
int symmcoll_reducer_bucket_count(const struct symmcoll_reducer *reducer);
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_bucket(
    const struct symmcoll_reducer *reducer, int index,
    struct symmcoll_bucket *bucket);

/* Times of the latest backward pass that synchronised, in seconds; 0 before
 * there was one.  On a device they are of its stream, and of the latest that was
 * measured and has ended there.  Begins as SYMMCOLL_REDUCER_TIMES_INIT. */
struct symmcoll_reducer_times {
    size_t size;     /* sizeof(struct symmcoll_reducer_times) */
    double backward; /* from begin to the call of finish */
    double comm;     /* from the first bucket's start to the last one's end */
    double exposed;  /* within finish */
};
#define SYMMCOLL_REDUCER_TIMES_INIT                    \
    {                                                  \
        sizeof(struct symmcoll_reducer_times), 0, 0, 0 \
    }
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_get_times(
    const struct symmcoll_reducer *reducer,
    struct symmcoll_reducer_times *times);

/* Averages over passes that have synchronised, see args.stats_rate: overlap + exposed is
 * comm.  Begins as SYMMCOLL_REDUCER_STATS_INIT. */
struct symmcoll_reducer_stats {
    size_t size;       /* sizeof(struct symmcoll_reducer_stats) */
    uint64_t passes;   /* that have synchronised and ended well */
    uint64_t measured; /* of these, in the averages */
    double backward;   /* seconds, from begin to the call of finish */
    double comm;       /* from the first bucket's start to the last one's end */
    double overlap;    /* of that before the call of finish */
    double exposed;    /* of that after it */
    size_t nbytes;     /* of all buckets, which a pass reduces */
    size_t unused_nbytes; /* of parameters that no rank used in the latest pass,
                             where that is looked for */
};
#define SYMMCOLL_REDUCER_STATS_INIT                                   \
    {                                                                 \
        sizeof(struct symmcoll_reducer_stats), 0, 0, 0, 0, 0, 0, 0, 0 \
    }
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_get_stats(
    const struct symmcoll_reducer *reducer,
    struct symmcoll_reducer_stats *stats);

/* What a reducer has been made with, its buckets and its statistics as an object of JSON
 * (out), to be released with free().  Not during a pass.
 * Errors: INVALID (a NULL), NO_MEMORY. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_describe(
    const struct symmcoll_reducer *reducer, char **json);

/* A hook that divides by the number of ranks and sums; other hooks may call
 * it. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_hook_all_reduce(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work);

/*
 * Hooks that send half as many bytes: float32 is divided by the number of ranks and
 * rounded to 16 bits, in one pass, then summed; symmcoll_reducer_finish() converts the
 * sum back into the bucket.  A bucket that has the 16-bit type already is reduced as by
 * symmcoll_hook_all_reduce().  Other hooks may call one of them, once, with the bucket
 * that they were called with; *work ends with the sum.
 *
 * The reducer has the memory for it, half of a bucket's, until it is released: from the
 * beginning where it is made with one of these hooks.
 *
 * Errors: INVALID (a NULL; not the bucket of a hook's call, or twice), UNSUPPORTED (of
 * another element type; the first time in a pass that is captured), NO_MEMORY, and
 * those of symmcoll_all_reduce().
 * Source: default_hooks.fp16_compress_hook, bf16_compress_hook.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_hook_fp16_compress(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work);
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_hook_bf16_compress(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work);

/* Another hook in 16 bits. */
struct symmcoll_hook_wrapped {
    size_t size; /* sizeof(struct symmcoll_hook_wrapped) */
    symmcoll_bucket_fn hook;
    void *arg; /* borrowed */
};
#define SYMMCOLL_HOOK_WRAPPED_INIT                       \
    {                                                    \
        sizeof(struct symmcoll_hook_wrapped), NULL, NULL \
    }

/*
 * Hooks that call another one with a bucket of 16-bit elements, rounded from float32 and
 * not divided; finish converts what that leaves in it back into the bucket itself.
 *
 * arg  a struct symmcoll_hook_wrapped
 *
 * arg is read in each pass.  A bucket of the 16-bit type already is passed on as it is;
 * the 16-bit buffer is valid until this bucket's part of finish.
 *
 * Errors: as above, and those of the other hook.
 * Source: default_hooks.fp16_compress_wrapper, bf16_compress_wrapper.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_hook_fp16_wrapper(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work);
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_hook_bf16_wrapper(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work);

SYMMCOLL_END_DECLS

#endif
