/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The gradient reducer of data-parallel training: collects gradients in buckets
 * and averages each bucket over the ranks while backward still runs.
 *
 * One pass: symmcoll_reducer_begin(), then symmcoll_reducer_ready() for each gradient
 * as it becomes complete, then symmcoll_reducer_finish().  Between begin and finish any
 * number of threads may call symmcoll_reducer_ready() and symmcoll_reducer_skip()
 * concurrently; all other calls on one reducer are made by one thread at a time.
 * Source: torch.nn.parallel.DistributedDataParallel.
 * Manual: symmcoll_reducer_create(3).
 */
#ifndef SYMMCOLL_DDP_H
#define SYMMCOLL_DDP_H

#include <symmcoll/tensor.h>
#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_group;
struct symmcoll_join;
struct symmcoll_reducer;
struct symmcoll_work;

/* A bucket, as passed to hooks and returned by symmcoll_reducer_bucket(). */
struct symmcoll_bucket {
    size_t size;  /* sizeof(struct symmcoll_bucket) */
    int index;    /* buckets are reduced in this order, from 0 */
    int is_last;  /* 1 for the highest index, else 0 */
    void *buffer; /* all gradients of the bucket, count elements */
    size_t count;
    enum symmcoll_dtype dtype;
    int ngrads;        /* gradients in the bucket */
    const int *params; /* ngrads parameter numbers; the lower number of a
                          parameter that has two */
    enum symmcoll_device device; /* device of buffer */
    int device_index;
    void *stream; /* CUDA: the gradients are complete in stream order */
    struct symmcoll_reducer *reducer; /* in a hook: the reducer; else NULL */
    int round; /* hook_end: earlier calls for this bucket in this pass */
};
#define SYMMCOLL_BUCKET_INIT                                              \
    {                                                                     \
        sizeof(struct symmcoll_bucket), 0, 0, NULL, 0, SYMMCOLL_UINT8, 0, \
            NULL, SYMMCOLL_HOST, 0, NULL, NULL, 0                         \
    }

/*
 * Hook that is called with a bucket of complete gradients.  Starts the communication
 * and sets *work to its work, which the reducer waits for and frees, or to NULL if
 * the communication is already complete.  With a hook the reducer does not divide by
 * the number of ranks: the hook does.
 *
 * On a device the hook enqueues its operations on the bucket's stream.  *work is the
 * work of an operation that was called on that stream; the reducer makes the stream
 * wait for it.
 *
 * A hook must not call symmcoll_reducer_ready() or symmcoll_reducer_skip() on its
 * reducer.  It must return: it throws no exception, does not end its thread and does
 * not enable cancellation.
 */
typedef symmcoll_status_t (*symmcoll_bucket_fn)(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work);

/* Return (out) the gradient or the parameter of member i of a hook's bucket, i from 0
 * to ngrads - 1.  The tensor must be initialised with SYMMCOLL_TENSOR_INIT.  The
 * gradient is a part of bucket->buffer and has the bucket's element type.
 * Errors: INVALID (NULL; not the bucket of a hook call; i out of range). */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_bucket_grad(
    const struct symmcoll_bucket *bucket, int i, struct symmcoll_tensor *grad);
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_bucket_param(
    const struct symmcoll_bucket *bucket, int i, struct symmcoll_tensor *param);

/* Options of symmcoll_reducer_create().  Flags are off if 0. */
struct symmcoll_reducer_args {
    size_t size;             /* sizeof(struct symmcoll_reducer_args) */
    size_t bucket_cap;       /* bytes; 0: the setting ddp.bucket_cap */
    size_t first_bucket_cap; /* bytes; 0: bucket_cap if that is not 0, else the
                                setting ddp.first_bucket_cap */
    int gradient_as_bucket_view; /* backward writes gradients into the buckets */
    int no_init_sync; /* do not compare parameters and options, and do not
                         broadcast the parameters of rank 0 */
    symmcoll_bucket_fn hook;  /* NULL: divide, then all-reduce the sum */
    void *hook_arg;           /* borrowed */
    const char *const *names; /* parameters' names for messages; copied; or
                                 NULL */
    int write_back;     /* backward adds gradients to the caller's memory, and
                           finish overwrites them with the averages; excludes
                           gradient_as_bucket_view */
    void *const *grads; /* with write_back: the address of each parameter's
                           gradient, borrowed until free; NULL: the addresses
                           are passed to ready */
    int find_unused;    /* a parameter may have no gradient in a pass; if it has
                           none on any rank its previous gradient is kept */
    int static_graph;   /* every synchronising pass has the same gradients, each
                           passed as often as in the first one */
    enum symmcoll_dtype
        reduce_dtype; /* SYMMCOLL_FLOAT32: gradients of float16 and bfloat16
                         parameters are accumulated, reduced and averaged in
                         float32; 0: in the parameter's type */
    symmcoll_bucket_fn
        hook_end;   /* called by finish with hook_arg for each bucket, in index
                       order, when the bucket's work has ended; if it starts
                       another work, called again when that has ended.
                       NULL: none.  If it fails on one rank before it starts
                       a work that other ranks start, all ranks must free the
                       reducer */
    int stats_rate; /* symmcoll_reducer_get_stats() averages the first 10 passes
                       and every stats_rate-th pass after these; 0: 100 */
    const struct symmcoll_tensor
        *buffers; /* nbuffers tensors without gradients, such as running means,
                     of any element type, in the memory of the parameters,
                     buffers[0].size bytes apart; data borrowed until free */
    int nbuffers;
    const char *const *buffer_names; /* for messages; copied; or NULL */
    const char *const *ignored; /* nignored names, in names or buffer_names:
                                   these are not compared, broadcast or reduced,
                                   and a tensor without data is accepted */
    int nignored;
    int shard;    /* each rank receives the averages of its slices only, see
                  symmcoll_reducer_shard(); excludes hooks, write_back and
                  joins */
    void *memory; /* one array with the gradients of all parameters, one after
                    another in the order of their numbers, of one type: buckets
                    are slices of it, and gradient_as_bucket_view is implied.
                    Borrowed until free; excludes write_back */
};
#define SYMMCOLL_REDUCER_ARGS_INIT                                             \
    {                                                                          \
        sizeof(struct symmcoll_reducer_args), 0, 0, 0, 0, NULL, NULL, NULL, 0, \
            NULL, 0, 0, SYMMCOLL_UINT8, NULL, 0, NULL, 0, NULL, NULL, 0, 0,    \
            NULL                                                               \
    }

/*
 * Create a reducer.  Collective: compares the number, element types, shapes and
 * strides of the parameters and buffers with those of rank 0, then broadcasts the
 * values of rank 0 to all ranks.
 *
 * params  nparams tensors of real or complex floating-point elements in the order in
 *         which forward uses them, params[0].size bytes apart; data borrowed until
 *         free; all in host memory or all on one device.  Two tensors with the same
 *         data, type, shape and strides (tied weights) are one parameter with two
 *         numbers; its gradient is the sum of the gradients passed for both
 *
 * If the parameters are on a device, so are gradients and buckets.  The reducer
 * enqueues its operations on the group's current stream at each call, and no call
 * waits for the device; see symmcoll_group_set_stream().  A pass is captured in a
 * CUDA graph from begin to finish or not at all, else INVALID.
 *
 * Errors: INVALID (no parameter, a NULL, a bad shape, overlapping memory, parameters
 * on two devices or on another device than the group's), UNSUPPORTED (an element
 * type, a device without a backend), MISMATCH on every rank (names the parameter and
 * both values; no parameter is changed), NO_MEMORY, and those of collectives.  An
 * error on one rank is returned on every rank, unless no_init_sync is set, and its
 * detail names that rank.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_create(struct symmcoll_group *group,
    const struct symmcoll_tensor *params, int nparams,
    const struct symmcoll_reducer_args *args,
    struct symmcoll_reducer **reducer);

/*
 * Set the hook of a reducer that was created without one, before its first pass.
 * Collective: all ranks pass a hook, and either all or none pass hook_end.  On an error
 * all ranks return it and no reducer is changed.
 *
 * hook_end  as in struct symmcoll_reducer_args; may be NULL
 * arg       for both hooks; borrowed
 *
 * Errors: INVALID on all ranks if on any (a NULL; the reducer has a hook; a pass has
 * begun), MISMATCH, NO_MEMORY.
 * Source: torch.nn.parallel.DistributedDataParallel.register_comm_hook.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_set_hook(struct symmcoll_reducer *reducer,
    symmcoll_bucket_fn hook, symmcoll_bucket_fn hook_end, void *arg);

/* Options of symmcoll_reducer_move(). */
enum symmcoll_move_flags {
    /* Keep the gradients that have accumulated since the last average.  Without
     * it they are set to zero. */
    SYMMCOLL_MOVE_KEEP = 1
};

/*
 * Continue with another group: the one that remains after a death, see
 * symmcoll_group_shrink(), or one with ranks that had no part before.  Collective over
 * the new group: ranks without a reducer call symmcoll_reducer_create() instead, with the
 * same options.  Ends a pass that has begun and waits for its buckets in flight, compares
 * parameters, buffers and options as at creation, and copies those of rank 0 of the new
 * group to all; with no_init_sync it does neither.  The next pass is like the first one
 * after creation: its buckets are rebuilt, and a static graph is counted again.
 *
 * group  borrowed; the old one may be released afterwards
 * flags  of enum symmcoll_move_flags
 *
 * After an error, on any rank, the reducer must be moved again, with this or another
 * group, or freed.
 *
 * Errors: INVALID on this rank alone, without an effect (a NULL); INVALID on all ranks if
 * on any (unknown flags; within a join; SYMMCOLL_MOVE_KEEP after a synchronising pass has
 * begun and not ended well, which leaves gradients undefined), MISMATCH, NO_MEMORY, and
 * those of collectives.
 * Source: Reducer::update_process_group, reset_state.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_move(struct symmcoll_reducer *reducer,
    struct symmcoll_group *group, uint32_t flags);

/* Free a reducer after waiting for its buckets in flight.  Accepts NULL.  Not
 * collective.  Device memory is freed in the order of the stream that was the group's
 * at the reducer's last call. */
SYMMCOLL_API
void symmcoll_reducer_free(struct symmcoll_reducer *reducer);

/*
 * Broadcast the buffers of rank 0 to all ranks, before a forward pass.  Collective.
 * Outside a join it has no effect if the reducer has no buffers, or if sync was 0 in
 * the previous call: buffers are not broadcast between micro-batches whose gradients
 * only accumulate.
 *
 * sync  that of the symmcoll_reducer_begin() that follows; the same on all ranks
 *
 * Within a join the call is first compared over the ranks, and the buffers are those of
 * the highest rank that has inputs.
 *
 * On a device the broadcast is enqueued on the group's current stream.
 *
 * Errors: INVALID (a NULL; within a pass, or that of another reducer of the join), and
 * those of collectives.
 * Source: torch.nn.parallel.DistributedDataParallel, broadcast_buffers.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_forward(
    struct symmcoll_reducer *reducer, int sync);

/*
 * Begin a backward pass.  If sync is 0 gradients only accumulate, without
 * communication; the next pass with another sync (a synchronising pass) averages
 * their sum.
 * Errors: INVALID (the previous pass has not finished, the detail lists the missing
 * gradients; another reducer of the join is in a pass; the capture that the previous
 * call's stream is in has not ended), UNSUPPORTED (a captured pass that has to find
 * unused parameters, or within a join), NO_MEMORY (on all ranks if on any, while the
 * buckets are rebuilt); on a device, the error of a bucket
 * of the previous pass that failed after finish, or of symmcoll_reducer_zero().
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_begin(
    struct symmcoll_reducer *reducer, int sync);

/*
 * Pass the complete gradient of one parameter.  It is added to the gradient that has
 * accumulated.
 *
 * param  the parameter's number.  Each number is passed once in a pass, both numbers
 *        of a parameter that has two; with static_graph as often as in the first
 *        synchronising pass, and the gradient is the sum
 * grad   the gradient's elements, of the parameter's type, contiguous in the order of
 *        the parameter's strides; borrowed for the call
 *
 * With gradient_as_bucket_view, backward adds to the tensor of symmcoll_reducer_grad()
 * and grad must be its data, which belongs to the reducer until finish.  With
 * write_back, grad is the caller's memory, to which backward has added.  It is borrowed
 * until the finish of the next synchronising pass, which overwrites it with the
 * average, or until symmcoll_reducer_zero() or free.  With args.grads, grad is the
 * address given there, or NULL for that address.
 *
 * Errors: INVALID (a number out of range; a gradient passed twice; memory that the
 * options do not allow; with write_back, until a synchronising pass has ended, memory
 * of another gradient; with static_graph, more often than in the first synchronising
 * pass), and those of the hook.  A refused gradient counts as zeros, and finish
 * returns the error again.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_ready(
    struct symmcoll_reducer *reducer, int param, const void *grad);

/*
 * Pass the complete gradient of one parameter as a tensor, which is compared with the
 * parameter; otherwise as symmcoll_reducer_ready().
 *
 * grad  a tensor of the parameter's type and shape in the same memory, whose elements do
 *       not overlap; borrowed as its data.  One with other strides than
 *       symmcoll_reducer_grad() returns is copied, and the first one is logged; with
 *       gradient_as_bucket_view, args.memory or write_back it is INVALID
 *
 * Errors: INVALID (also another type, shape or memory), UNSUPPORTED (a first copy in a
 * captured pass), NO_MEMORY.  finish returns the error again.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_ready_tensor(
    struct symmcoll_reducer *reducer, int param,
    const struct symmcoll_tensor *grad);

/*
 * Declare that parameters have no gradient in this pass, so that their buckets can be
 * reduced before finish.  Requires find_unused.  finish skips the gradients that were
 * neither passed nor skipped.  Has no effect with static_graph.
 *
 * params  n parameter numbers
 *
 * Errors: INVALID (no find_unused; not in a pass; a number out of range; a gradient
 * that was passed), and those of the hook.  finish returns the error again.
 * Source: torch.nn.parallel.DistributedDataParallel, find_unused_parameters.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_skip(
    struct symmcoll_reducer *reducer, const int *params, int n);

/*
 * Set *used (out) to 1 if any rank passed a gradient of the parameter for the latest
 * average, that is in the latest synchronising pass or in a pass before it that only
 * accumulated, else to 0.  All ranks get the same value.  Requires find_unused or
 * static_graph; with the latter the first synchronising pass determines the value.
 *
 * Errors: INVALID (neither option; no synchronising pass has finished; a number out
 * of range).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_was_used(
    const struct symmcoll_reducer *reducer, int param, int *used);

/*
 * End the backward pass after waiting for all buckets.  symmcoll_reducer_grad() then
 * returns the averages, and with write_back they replace the gradients.  A pass
 * with sync 0 has nothing to wait for.
 *
 * A gradient that was not passed counts as zeros and receives the average; with
 * find_unused or static_graph, a gradient that no rank has passed is unchanged.  With
 * static_graph, a gradient that was passed less often than in the first synchronising
 * pass is INVALID.  With write_back but without args.grads, the average of a gradient
 * that was not passed cannot be written: the buckets are reduced, and this rank gets
 * INVALID with the names of the parameters.
 *
 * On a device the stream waits for the buckets; the host waits until all ranks have
 * started the buckets' operations.
 *
 * Errors: those of the collectives and the hooks; the first error of
 * symmcoll_reducer_ready() or symmcoll_reducer_skip() in this pass, although the
 * buckets were reduced with the other gradients.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_finish(struct symmcoll_reducer *reducer);

/*
 * Return (out) a parameter's gradient, a tensor in its bucket's memory.  It has the
 * parameter's shape, the parameter's strides (row-major if those have gaps) and the
 * parameter's type or reduce_dtype.  grad must be initialised with
 * SYMMCOLL_TENSOR_INIT.  Borrowed: the memory may move once, in the begin that follows
 * the first synchronising pass, which rebuilds the buckets in the order in which
 * gradients became complete.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_grad(
    struct symmcoll_reducer *reducer, int param, struct symmcoll_tensor *grad);

/* Set all gradients to zero, as after a step of the optimizer; otherwise the next
 * pass adds to the averages.  With write_back the caller zeroes its own memory as
 * well.  Has no effect during a backward pass. */
SYMMCOLL_API
void symmcoll_reducer_zero(struct symmcoll_reducer *reducer);

/* A slice of a parameter: elements that this rank updates.  Initialise it with
 * SYMMCOLL_SHARD_INIT. */
struct symmcoll_shard {
    size_t size; /* sizeof(struct symmcoll_shard) */
    int param;   /* the parameter's number, the lower one of two */
    enum symmcoll_dtype dtype; /* of the parameter */
    size_t offset; /* elements of the parameter before the slice, in the order
                      of its strides */
    size_t count;  /* elements of the slice, at least 1 */
    void *data;    /* the slice in the parameter's memory */
    void *grad;    /* its average, from finish until gather or zero */
    enum symmcoll_dtype grad_dtype; /* of the average */
};
#define SYMMCOLL_SHARD_INIT                                                 \
    {                                                                       \
        sizeof(struct symmcoll_shard), 0, SYMMCOLL_UINT8, 0, 0, NULL, NULL, \
            SYMMCOLL_UINT8                                                  \
    }

/*
 * Return the number of slices of this rank (0 for NULL), and describe one of them,
 * in the order of the parameters' numbers.  Requires args.shard: symmcoll_reducer_finish()
 * returns when the averages of this rank's slices are complete, and other elements of
 * gradients are undefined.  The slices of all ranks are all elements of all parameters,
 * each once.  Slices and their memory change only by symmcoll_reducer_move().
 *
 * Errors: INVALID (a NULL; no shard; index out of range).
 * Source: ZeRO (Rajbhandari et al., 2020); torch.distributed.optim.ZeroRedundancyOptimizer.
 */
SYMMCOLL_API
int symmcoll_reducer_shard_count(const struct symmcoll_reducer *reducer);
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_shard(const struct symmcoll_reducer *reducer,
    int index, struct symmcoll_shard *shard);

/*
 * Start to copy each rank's slices of the parameters to all ranks, after the optimizer's
 * step, and set all gradients to zero.  Collective.  Buckets are gathered one after
 * another, those of the first parameters first, while forward runs;
 * symmcoll_reducer_gather_wait() waits for one parameter.  Until then the parameter,
 * and until the next symmcoll_reducer_begin(), which waits for all of them, the
 * gradients belong to the reducer.  On a device only the stream waits.
 *
 * After a pass that synchronises, symmcoll_reducer_begin() returns INVALID before this
 * call or symmcoll_reducer_zero().
 *
 * Errors: INVALID (a NULL; no shard; within a pass; gradients have accumulated without
 * sync; a number out of range), UNSUPPORTED (the stream is captured), and those of
 * symmcoll_all_gather(), after which parameters are undefined.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_gather(struct symmcoll_reducer *reducer);
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_gather_wait(
    struct symmcoll_reducer *reducer, int param);

/* The options of symmcoll_join_begin().  Initialise it with
 * SYMMCOLL_JOIN_ARGS_INIT. */
struct symmcoll_join_args {
    size_t size;          /* sizeof(struct symmcoll_join_args) */
    int divide_by_active; /* 1: averages are over the ranks that have inputs,
                             which requires reducers without a hook; 0: over
                             all ranks of the group */
    int stop_early; /* 1: all ranks stop when the first has no more inputs */
};
#define SYMMCOLL_JOIN_ARGS_INIT                 \
    {                                           \
        sizeof(struct symmcoll_join_args), 0, 0 \
    }

/*
 * Begin training with uneven inputs: until symmcoll_join_end() each rank may make a
 * different number of passes.  Collective.  Each symmcoll_reducer_forward() and
 * symmcoll_reducer_begin() first compares the call over the ranks; a rank without
 * more inputs calls symmcoll_join_end(), which takes part in the passes of the other
 * ranks with zeros.  One reducer at a time is in a pass, and the program calls its own
 * collectives on another group.
 *
 * reducers  n reducers of one group, borrowed until the end; not in another join
 * args      the same on all ranks; NULL for the defaults
 * join      out: release with symmcoll_join_end()
 *
 * Errors: INVALID on all ranks if on any (reducers of two groups, in a pass or in
 * another join; divide_by_active with a hook; static_graph before the first
 * synchronising pass), MISMATCH (other args or numbers of reducers), NO_MEMORY, and
 * those of collectives.
 * Source: torch.distributed.algorithms.join.Join.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_join_begin(struct symmcoll_reducer *const *reducers,
    int n, const struct symmcoll_join_args *args, struct symmcoll_join **join);

/*
 * End a join on this rank, which has no more inputs, and release it, after an error,
 * too.  Blocks until no rank has inputs, and makes the passes of the other ranks with
 * gradients of zero, after which the gradients of all reducers of the join are zero on
 * this rank, except for the program's with write_back.  Then all ranks get the
 * parameters and buffers of the highest rank that had inputs last.
 *
 * If a call within the join has returned an error that all ranks have, such as that of
 * stop_early, returns it at once.  Called within a pass, after a failed one, or while the
 * group's stream is captured, ends the join on all ranks: the others get CANCELED, or
 * MISMATCH in their own pass.  After an error nothing is copied: ranks without inputs have
 * the parameters of their last step.
 *
 * Errors: CANCELED (with stop_early: "rank 2 has no more inputs", on all ranks, and by
 * symmcoll_reducer_begin() or _forward() on those with inputs), MISMATCH (ranks with
 * inputs made different calls), INVALID (NULL; within a pass), and those of
 * collectives.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_join_end(struct symmcoll_join *join);

/* Return the number of buckets (0 for NULL), and describe one of them in a struct that
 * was initialised with SYMMCOLL_BUCKET_INIT. */
SYMMCOLL_API
int symmcoll_reducer_bucket_count(const struct symmcoll_reducer *reducer);
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_bucket(
    const struct symmcoll_reducer *reducer, int index,
    struct symmcoll_bucket *bucket);

/* Times of the latest synchronising pass in seconds; 0 before the first one.  On a
 * device, times of the stream in the latest pass that was measured and has ended there.
 * Initialise with SYMMCOLL_REDUCER_TIMES_INIT. */
struct symmcoll_reducer_times {
    size_t size;     /* sizeof(struct symmcoll_reducer_times) */
    double backward; /* from begin to the call of finish */
    double comm; /* from the start of the first bucket to the end of the last */
    double exposed; /* within finish */
};
#define SYMMCOLL_REDUCER_TIMES_INIT                    \
    {                                                  \
        sizeof(struct symmcoll_reducer_times), 0, 0, 0 \
    }
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_get_times(
    const struct symmcoll_reducer *reducer,
    struct symmcoll_reducer_times *times);

/* Averages over the passes that args.stats_rate selects; comm is overlap + exposed.
 * Initialise with SYMMCOLL_REDUCER_STATS_INIT. */
struct symmcoll_reducer_stats {
    size_t size;       /* sizeof(struct symmcoll_reducer_stats) */
    uint64_t passes;   /* synchronising passes without a failed bucket */
    uint64_t measured; /* passes in the averages */
    double backward;   /* seconds, from begin to the call of finish */
    double comm; /* from the start of the first bucket to the end of the last */
    double overlap; /* the part of comm before the call of finish */
    double exposed; /* the part of comm after the call of finish */
    size_t nbytes;  /* bytes in all buckets, reduced in each pass */
    size_t
        unused_nbytes; /* bytes of the parameters that no rank used in the latest
                             pass, with find_unused or static_graph; else 0 */
    size_t
        sent_nbytes; /* bytes that this rank has passed to collectives for the
                           buckets of the latest pass; by a built-in hook that
                           compresses, fewer than nbytes.  Without those of a hook of
                           the program */
};
#define SYMMCOLL_REDUCER_STATS_INIT                                      \
    {                                                                    \
        sizeof(struct symmcoll_reducer_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_get_stats(
    const struct symmcoll_reducer *reducer,
    struct symmcoll_reducer_stats *stats);

/* Return (out) a JSON object with the reducer's options, parameters, buckets and
 * statistics; release with free().  Must not be called during a pass.
 * Errors: INVALID (a NULL), NO_MEMORY. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_reducer_describe(
    const struct symmcoll_reducer *reducer, char **json);

/* Hook that divides a bucket by the number of ranks and all-reduces the sum.  Other
 * hooks may call it. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_hook_all_reduce(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work);

/*
 * Hooks that send half as many bytes: they divide float32 elements by the number of
 * ranks and round them to 16 bits, in one pass over the bucket, then all-reduce the
 * sum, which symmcoll_reducer_finish() converts back into the bucket.  A bucket that
 * already has the 16-bit type is reduced as by symmcoll_hook_all_reduce().  Another
 * hook may call one of them, once, with the bucket that it was called with; *work
 * then ends when the 16-bit sum is complete.
 *
 * The 16-bit buffers take half the memory of the float32 buckets.  They are allocated
 * with the reducer if its hook is one of these, else at the first call, and kept until
 * the reducer is freed.
 *
 * Errors: INVALID (a NULL; not the bucket of the hook call; a second call),
 * UNSUPPORTED (another element type; the first call in a captured pass), NO_MEMORY,
 * and those of symmcoll_all_reduce().
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

/* Argument of symmcoll_hook_fp16_wrapper() and symmcoll_hook_bf16_wrapper(): the hook
 * that they call. */
struct symmcoll_hook_wrapped {
    size_t size; /* sizeof(struct symmcoll_hook_wrapped) */
    symmcoll_bucket_fn hook;
    void *arg;                   /* borrowed; for both hooks */
    symmcoll_bucket_fn hook_end; /* called by symmcoll_hook_wrapper_end() */
};
#define SYMMCOLL_HOOK_WRAPPED_INIT                             \
    {                                                          \
        sizeof(struct symmcoll_hook_wrapped), NULL, NULL, NULL \
    }

/*
 * Hooks that call another hook with a bucket of 16-bit elements, rounded from float32
 * and not divided.  symmcoll_reducer_finish() converts the 16-bit result back into the
 * float32 bucket.
 *
 * arg  a struct symmcoll_hook_wrapped, read in each pass
 *
 * A bucket that already has the 16-bit type is passed on unchanged.  The 16-bit buffer
 * is valid until finish has converted it back.
 *
 * Errors: those of symmcoll_hook_fp16_compress() and of the other hook.
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

/*
 * The hook_end of a reducer with a wrapper: calls the hook_end of the struct
 * symmcoll_hook_wrapped with the float32 bucket.
 * Errors: INVALID (a NULL; no hook_end), and those of the other hook.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_hook_wrapper_end(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work);

struct symmcoll_powersgd;

/* Options of symmcoll_powersgd_create(); the same on all ranks.  Flags are off if
 * 0. */
struct symmcoll_powersgd_args {
    size_t size; /* sizeof(struct symmcoll_powersgd_args) */
    int rank;  /* columns of a factor, at most as many as the matrix has rows or
                    columns; 0: 1 */
    int start; /* synchronising passes that average without compression, at least
                    1, or 2 with error feedback or warm start; 0: 1000 */
    double
        min_rate; /* a matrix is compressed if this many times fewer elements are
                        sent; 0: 2 */
    double
        epsilon;   /* added to the norm of a column before the division by it */
    uint64_t seed; /* of the first factors */
    int no_error_feedback; /* what an approximation lacks is not added to the next
                              gradients */
    int no_warm_start;     /* draw new factors in each pass */
    int batched; /* compress each bucket as one square matrix, whatever min_rate */
};
#define SYMMCOLL_POWERSGD_ARGS_INIT                                   \
    {                                                                 \
        sizeof(struct symmcoll_powersgd_args), 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/*
 * Create the state of symmcoll_hook_powersgd() for one reducer.  Collective: compares
 * the options of all ranks.  The state does not refer to the group afterwards.
 *
 * args   NULL for the defaults
 * state  out: release with symmcoll_powersgd_free(), after the reducer
 *
 * Errors: INVALID (a NULL; a value out of range), MISMATCH, NO_MEMORY, and those of
 * collectives.  An error on one rank is returned on every rank.
 * Source: powerSGD_hook.PowerSGDState.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_powersgd_create(struct symmcoll_group *group,
    const struct symmcoll_powersgd_args *args,
    struct symmcoll_powersgd **state);

/* Free a state.  Accepts NULL.  Not collective. */
SYMMCOLL_API
void symmcoll_powersgd_free(struct symmcoll_powersgd *state);

/*
 * Return (out) a copy of a state as bytes, for symmcoll_powersgd_load() on a machine
 * with the same order of bytes; release with free().  Errors and factors of this rank:
 * each rank saves its own.  Must not be called during a pass.  Not collective.
 * Errors: INVALID (a NULL; a pass has not ended, or has failed), NO_MEMORY.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_powersgd_save(
    const struct symmcoll_powersgd *state, void **data, size_t *nbytes);

/*
 * Replace a state by a saved one with the same options.  Collective: compares the
 * number of passes and the factors of all ranks, so that a rank that had no part in the
 * training loads what another rank has saved.  An error leaves the state unchanged.
 * Errors: INVALID (a NULL; bytes that symmcoll_powersgd_save() has not made; other
 * options), MISMATCH, NO_MEMORY, and those of collectives.  An error on one rank is
 * returned on every rank.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_powersgd_load(struct symmcoll_powersgd *state,
    struct symmcoll_group *group, const void *data, size_t nbytes);

/*
 * Hooks that send two thin factors of each gradient matrix instead of the matrix
 * (PowerSGD), as hook and hook_end of one reducer.  The average is approximated; what
 * an approximation lacks is added to the gradients of the next pass.  All ranks have
 * the same bits.
 *
 * arg  a struct symmcoll_powersgd of this reducer alone
 *
 * A matrix has the outermost dimension of a gradient as rows and the others as columns.
 * Gradients that would not become smaller, such as vectors, are averaged exactly.
 * Gradients are float32, float16 or bfloat16 in host memory, and the factors are sent in
 * the same type.  Finite gradients have finite results: sums are limited to the type's
 * range, and a column of zeros remains zero.
 *
 * After a failed pass all ranks must load a saved state.
 *
 * Errors: INVALID (a NULL; not the bucket of a hook call; a reducer without hook_end; a
 * state after a failed pass), UNSUPPORTED (another element type; a device), NO_MEMORY, and
 * those of symmcoll_all_reduce().
 * Source: powerSGD_hook.powerSGD_hook, batched_powerSGD_hook.
 * Manual: symmcoll_hook_powersgd(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_hook_powersgd(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work);
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_hook_powersgd_end(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work);

/* ---- hooks by name ---- */

struct symmcoll_hook;

/*
 * Function of the program that uses a complete average, such as an optimizer's step.
 *
 * param  the parameter's number; the lower one of a parameter that has two
 * grad   the average, a part of the bucket
 *
 * Returns OK or an error, which symmcoll_reducer_finish() returns.  Must not call
 * functions of the reducer.  On a device it enqueues its work on the group's stream.
 */
typedef symmcoll_status_t (*symmcoll_step_fn)(
    void *arg, int param, const struct symmcoll_tensor *grad);

/* Options of symmcoll_hook_create().  An option that a hook does not have is INVALID
 * unless it is 0. */
struct symmcoll_hook_args {
    size_t size;      /* sizeof(struct symmcoll_hook_args) */
    const char *name; /* of symmcoll_hook_name() */
    int start; /* post_local_sgd, top_k, one_bit: synchronising passes that average
                  over all ranks, without compression; 0: 1000 with
                  post_local_sgd, else 1 */
    struct symmcoll_group
        *subgroup;        /* post_local_sgd: the ranks to average over
                                        after start, borrowed; NULL: those of
                                        the group on this machine */
    int no_local_average; /* post_local_sgd: do not average after start */
    double ratio; /* top_k: the part of a bucket's elements that is sent, up to
                     1; 0: 0.01 */
    symmcoll_step_fn step; /* step: called for each parameter with an average */
    void *step_arg;        /* borrowed */
    const struct symmcoll_hook_wrapped
        *inner; /* fp16_wrapper, bf16_wrapper, step: the hook that is called,
                   copied; NULL: symmcoll_hook_all_reduce() */
    const struct symmcoll_powersgd_args
        *powersgd; /* powersgd; NULL: defaults */
};
#define SYMMCOLL_HOOK_ARGS_INIT                                             \
    {                                                                       \
        sizeof(struct symmcoll_hook_args), NULL, 0, NULL, 0, 0, NULL, NULL, \
            NULL, NULL                                                      \
    }

/* Returns the name of built-in hook i, from 0; NULL: there are no more. */
SYMMCOLL_API
const char *symmcoll_hook_name(int i);

/*
 * Create a built-in hook for one reducer.  Collective: compares the options of all
 * ranks.  The reducer has symmcoll_hook_run() as hook, symmcoll_hook_end() as hook_end
 * and the hook as hook_arg; so has a struct symmcoll_hook_wrapped.
 *
 *   noop              none: gradients remain this rank's
 *   all_reduce        symmcoll_hook_all_reduce()
 *   fp16_compress     symmcoll_hook_fp16_compress()
 *   bf16_compress     symmcoll_hook_bf16_compress()
 *   fp16_wrapper      symmcoll_hook_fp16_wrapper() around inner
 *   bf16_wrapper      symmcoll_hook_bf16_wrapper() around inner
 *   step              inner, then args.step for each parameter
 *   post_local_sgd    average over all ranks, after args.start passes over the subgroup
 *   quantize_tensor   8 bits for each element, with one scale for a bucket
 *   quantize_channel  8 bits for each element, with a scale for each 512
 *   top_k             the elements of largest magnitude; the others are added to the
 *                     next gradients
 *   one_bit           the signs, with a mean magnitude for each 512 elements; what is
 *                     lost is added to the next gradients
 *   powersgd          symmcoll_hook_powersgd()
 *
 * All ranks get the same bits, except from noop and post_local_sgd.  Quantised, top_k and
 * one_bit gradients are float32, float16 or bfloat16 in host memory; one that is not
 * finite makes its element or channel NaN on all ranks.
 *
 * hook  out: release with symmcoll_hook_free(), after the reducer
 *
 * Errors: INVALID (a NULL; an unknown name; an option of another hook or out of range),
 * MISMATCH, NO_MEMORY, and those of collectives.  An error on one rank is returned on
 * every rank.  Errors of the hooks: INVALID (a NULL; not the bucket of a reducer; a reducer
 * without hook_end), UNSUPPORTED (another element type; a device), NO_MEMORY, and those of
 * collectives.
 * Source: torch.distributed.algorithms.ddp_comm_hooks.
 * Manual: symmcoll_hook_create(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_hook_create(struct symmcoll_group *group,
    const struct symmcoll_hook_args *args, struct symmcoll_hook **hook);
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_hook_run(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work);
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_hook_end(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work);

/* Free a hook.  Accepts NULL.  Not collective. */
SYMMCOLL_API
void symmcoll_hook_free(struct symmcoll_hook *hook);

/*
 * Save and load a hook, as symmcoll_powersgd_save() and symmcoll_powersgd_load(): its
 * number of passes and what this rank has still to add to its gradients.  A hook within
 * another one is saved by itself.
 * Errors: as those functions; load also INVALID between a pass's first bucket and the
 * end of symmcoll_reducer_finish() on any rank.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_hook_save(
    const struct symmcoll_hook *hook, void **data, size_t *nbytes);
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_hook_load(struct symmcoll_hook *hook,
    struct symmcoll_group *group, const void *data, size_t nbytes);

SYMMCOLL_END_DECLS

#endif
