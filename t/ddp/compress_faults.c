/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests mistakes of programs and failures in hooks that reduce buckets in 16
 * bits.
 */
#include "model.h"

#include <stdlib.h>

/* ---- mistakes ---- */

/* Runs one backward of three elements with a hook. Returns the status of
 * finish. */
static symmcoll_status_t finish_with(struct symmcoll_group *group,
    enum symmcoll_dtype dtype, symmcoll_bucket_fn hook, void *arg)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct symmcoll_reducer *reducer = NULL;
    double values[6] = {0}, grads[6] = {0};
    struct symmcoll_tensor param = model_vector(values, dtype, 3);
    symmcoll_status_t status;

    args.hook = hook;
    args.hook_arg = arg;
    status = symmcoll_reducer_create(group, &param, 1, &args, &reducer);
    if (status == SYMMCOLL_OK)
        status = symmcoll_reducer_begin(reducer, 1);
    if (status == SYMMCOLL_OK)
        (void)!symmcoll_reducer_ready(reducer, 0, grads);
    if (status == SYMMCOLL_OK)
        status = symmcoll_reducer_finish(reducer);
    symmcoll_reducer_free(reducer);
    return status;
}

static int other_types_are_refused(struct symmcoll_group *group, int rank)
{
    (void)rank;
    return finish_with(group, SYMMCOLL_FLOAT64, symmcoll_hook_fp16_compress,
               NULL) == SYMMCOLL_ERR_UNSUPPORTED &&
           model_error_says("hook_fp16_compress: expected gradients of float32 "
                            "or float16, found float64") &&
           finish_with(group, SYMMCOLL_FLOAT16, symmcoll_hook_bf16_compress,
               NULL) == SYMMCOLL_ERR_UNSUPPORTED &&
           model_error_says("hook_bf16_compress: expected gradients of float32 "
                            "or bfloat16, found float16");
}

static int wrappers_want_a_hook(struct symmcoll_group *group, int rank)
{
    struct symmcoll_hook_wrapped wrapped = SYMMCOLL_HOOK_WRAPPED_INIT,
                                 unsized = {0};

    (void)rank;
    return finish_with(group, SYMMCOLL_FLOAT32, symmcoll_hook_fp16_wrapper,
               NULL) == SYMMCOLL_ERR_INVALID &&
           model_error_says("hook_fp16_wrapper: expected a struct "
                            "symmcoll_hook_wrapped with a hook") &&
           finish_with(group, SYMMCOLL_FLOAT32, symmcoll_hook_bf16_wrapper,
               &wrapped) == SYMMCOLL_ERR_INVALID &&
           model_error_says("hook_bf16_wrapper: expected a struct") &&
           finish_with(group, SYMMCOLL_FLOAT32, symmcoll_hook_bf16_wrapper,
               &unsized) == SYMMCOLL_ERR_INVALID &&
           model_error_says("use SYMMCOLL_HOOK_WRAPPED_INIT");
}

/* Starts two sums in the same memory. */
static symmcoll_status_t compress_twice(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    symmcoll_status_t status =
        symmcoll_hook_fp16_compress(group, bucket, arg, work);
    struct symmcoll_work *second;

    return status == SYMMCOLL_OK
               ? symmcoll_hook_fp16_compress(group, bucket, arg, &second)
               : status;
}

/* Passes half of the bucket. */
static symmcoll_status_t compress_less(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    struct symmcoll_bucket less = *bucket;

    less.count /= 2;
    return symmcoll_hook_bf16_compress(group, &less, arg, work);
}

/* Passes a bucket that no hook was called with. */
static symmcoll_status_t compress_described(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    struct symmcoll_bucket described = *bucket;

    described.reducer = NULL;
    return symmcoll_hook_bf16_compress(group, &described, arg, work);
}

static int other_buckets_are_refused(struct symmcoll_group *group, int rank)
{
    (void)rank;
    return finish_with(group, SYMMCOLL_FLOAT32, compress_twice, NULL) ==
               SYMMCOLL_ERR_INVALID &&
           model_error_says("expected bucket 0 to be compressed once") &&
           finish_with(group, SYMMCOLL_FLOAT32, compress_less, NULL) ==
               SYMMCOLL_ERR_INVALID &&
           model_error_says("bucket 0 as the hook was called with it") &&
           finish_with(group, SYMMCOLL_FLOAT32, compress_described, NULL) ==
               SYMMCOLL_ERR_INVALID &&
           model_error_says("that a reducer calls a hook with");
}

/* ---- failures ---- */

struct failing {
    int fails;
};

/* Fails after it has started its work, or before. */
static symmcoll_status_t fail_or_sum(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    const struct failing *failing = arg;
    symmcoll_status_t status =
        symmcoll_hook_all_reduce(group, bucket, NULL, work);

    return failing->fails ? SYMMCOLL_ERR_CANCELED : status;
}

static int inner_failure_ends_the_backward(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_hook_wrapped wrapped = SYMMCOLL_HOOK_WRAPPED_INIT;
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_reducer *reducer = NULL;
    struct failing failing = {1};
    struct model model;
    int size = symmcoll_group_size(group), right;

    model_make(&model, rank);
    model_fill(&model, rank, size, 0);
    wrapped.hook = fail_or_sum;
    wrapped.arg = &failing;
    args.hook = symmcoll_hook_fp16_wrapper;
    args.hook_arg = &wrapped;
    right = symmcoll_reducer_create(group, model.params, MODEL_PARAMS, &args,
                &reducer) == SYMMCOLL_OK &&
            model_run_backward(reducer, &model, 1) == SYMMCOLL_ERR_CANCELED &&
            symmcoll_reducer_finish(reducer) == SYMMCOLL_ERR_CANCELED;
    symmcoll_reducer_zero(reducer);
    failing.fails = 0;
    right = right && model_run_backward(reducer, &model, 1) == SYMMCOLL_OK &&
            model_views_hold(reducer, &model, size, 0, 0);
    symmcoll_reducer_free(reducer);
    return right;
}

/* Rank 1 leaves in the middle of a backward: rank 0's sums end, and the
 * reducer releases their memory. */
static int peers_that_leave(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group_args options = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_reducer *reducer = NULL;
    struct symmcoll_group *group = NULL;
    int ranks[2] = {0, 1}, right;
    struct model model;

    model_make(&model, rank);
    model_fill(&model, rank, 2, 0);
    options.ranks = ranks;
    options.nranks = 2;
    args.hook = symmcoll_hook_fp16_compress;
    right = symmcoll_group_create(
                symmcoll_group_world(all), &options, &group) == SYMMCOLL_OK &&
            symmcoll_reducer_create(group, model.params, MODEL_PARAMS, &args,
                &reducer) == SYMMCOLL_OK &&
            model_run_backward(reducer, &model, 1) == SYMMCOLL_OK &&
            symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK;
    if (rank == 0) {
        for (int p = 0; right && p < MODEL_PARAMS; p++)
            (void)!symmcoll_reducer_ready(reducer, p, model.grads[p]);
        right = right &&
                symmcoll_reducer_finish(reducer) == SYMMCOLL_ERR_PEER &&
                model_error_says("reducer: bucket 0 of 2: rank 1 ");
    }
    symmcoll_reducer_free(reducer);
    (void)!symmcoll_group_free(group);
    return right;
}

static const struct model_point points[] = {
    {other_types_are_refused, 2, "another type is refused, with its name"},
    {wrappers_want_a_hook, 2, "a wrapper without a hook is refused"},
    {other_buckets_are_refused, 2,
        "a bucket that is not the hook's, or comes twice, is refused"},
    {inner_failure_ends_the_backward, 2,
        "an inner hook's failure is the backward's, and another may begin"},
    {peers_that_leave, 2,
        "where a peer leaves the backward ends, and memory is returned"},
};

int main(void)
{
    return model_run_points(points, sizeof(points) / sizeof(points[0]));
}
