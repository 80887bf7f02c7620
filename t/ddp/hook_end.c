/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the end of hooks, the bucket passed to hooks, and hooks that are set
 * after creation. Gradients are small integers times the number of ranks, so
 * that every average is exact.
 */
#include "model.h"

#include <stdbool.h>
#include <string.h>

/* The calls that the functions have received. */
struct seen {
    int calls;
    int order[32]; /* 10 * round + bucket */
    bool wrong;
};

static symmcoll_status_t multiply(
    const struct symmcoll_bucket *bucket, float factor)
{
    for (size_t i = 0; i < bucket->count; i++)
        ((float *)bucket->buffer)[i] *= factor;
    return SYMMCOLL_OK;
}

static void note(struct seen *seen, const struct symmcoll_bucket *bucket)
{
    if (seen->calls < 32)
        seen->order[seen->calls] = 10 * bucket->round + bucket->index;
    seen->calls++;
}

/* Multiplies by 10, then by 0.5. */
static symmcoll_status_t end_with_five(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    (void)group;
    note(arg, bucket);
    *work = NULL;
    multiply(bucket, 10.0f);
    return multiply(bucket, 0.5f);
}

/* Sums again, halves the result, and ends. */
static symmcoll_status_t end_with_sum(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    note(arg, bucket);
    *work = NULL;
    if (bucket->round > 0)
        return multiply(bucket, 0.5f);
    return symmcoll_all_reduce(group, bucket->buffer, bucket->buffer,
        bucket->count, bucket->dtype, SYMMCOLL_SUM, NULL, work);
}

static symmcoll_status_t end_badly(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    (void)group;
    *work = NULL;
    note(arg, bucket);
    return bucket->index == 1 ? SYMMCOLL_ERR_SYSTEM : SYMMCOLL_OK;
}

static struct symmcoll_reducer *create(struct symmcoll_group *group, int rank,
    struct model *model, symmcoll_bucket_fn hook, symmcoll_bucket_fn end,
    void *arg)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_reducer *reducer = NULL;

    model_make(model, rank);
    args.hook = hook;
    args.hook_end = end;
    args.hook_arg = arg;
    if (symmcoll_reducer_create(
            group, model->params, MODEL_PARAMS, &args, &reducer) != SYMMCOLL_OK)
        diag("%s", symmcoll_last_error());
    return reducer;
}

/* Checks that all averages are multiplied by a factor. */
static bool hold(struct symmcoll_reducer *reducer, const struct model *model,
    int size, int step, float factor)
{
    for (int p = 0; p < MODEL_PARAMS; p++)
        for (int i = 0; i < (int)model_count(&model->params[p]); i++) {
            float sum = 0;

            for (int r = 0; r < size; r++)
                sum += model_term(r, p, i, step);
            if (!model_view_is(reducer, p, i, factor * sum))
                return false;
        }
    return true;
}

/* Runs two passes, with a rebuild of the buckets in between, with this
 * function at the end. */
static bool run_passes(struct symmcoll_group *group, int rank,
    symmcoll_bucket_fn end, float factor, int rounds)
{
    struct model model;
    struct seen seen = {0};
    struct symmcoll_reducer *reducer =
        create(group, rank, &model, symmcoll_hook_all_reduce, end, &seen);
    int size = symmcoll_group_size(group);
    bool right = reducer != NULL;

    for (int step = 0; right && step < 3; step++) {
        int n = 0;

        seen = (struct seen){0};
        model_fill(&model, rank, size, step);
        right = model_run_backward(reducer, &model, 1) == SYMMCOLL_OK &&
                hold(reducer, &model, size, step, factor);
        for (int round = 0; right && round < rounds; round++)
            for (int b = 0; b < symmcoll_reducer_bucket_count(reducer); b++)
                right = right && seen.order[n++] == 10 * round + b;
        right = right && seen.calls == n;
        symmcoll_reducer_zero(reducer);
    }
    if (!right)
        diag("%d calls: %s", seen.calls, symmcoll_last_error());
    symmcoll_reducer_free(reducer);
    return right;
}

static int it_changes_the_average(struct symmcoll_group *group, int rank)
{
    return run_passes(group, rank, end_with_five, 5.0f, 1);
}

static int it_may_start_another_work(struct symmcoll_group *group, int rank)
{
    return run_passes(
        group, rank, end_with_sum, 0.5f * (float)symmcoll_group_size(group), 2);
}

/* Rank 1 passes its gradients after rank 0 has passed all: ready has not
 * waited. */
static bool run_one_after_the_other(struct symmcoll_reducer *reducer,
    struct symmcoll_group *signals, const struct model *model, int rank)
{
    bool right = symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK;

    if (rank == 1)
        right = right && symmcoll_barrier(signals, NULL, NULL) == SYMMCOLL_OK;
    for (int p = 0; right && p < MODEL_PARAMS; p++)
        right =
            symmcoll_reducer_ready(reducer, p, model->grads[p]) == SYMMCOLL_OK;
    if (rank == 0)
        right = right && symmcoll_barrier(signals, NULL, NULL) == SYMMCOLL_OK;
    return right && symmcoll_reducer_finish(reducer) == SYMMCOLL_OK;
}

static int ready_does_not_wait(struct symmcoll_group *group, int rank)
{
    struct symmcoll_group *signals = NULL;
    struct model model;
    struct seen seen = {0};
    struct symmcoll_reducer *reducer = create(
        group, rank, &model, symmcoll_hook_all_reduce, end_with_five, &seen);
    bool right =
        reducer != NULL && symmcoll_group_create(symmcoll_group_world(group),
                               NULL, &signals) == SYMMCOLL_OK;

    for (int step = 0; right && step < 2; step++) {
        model_fill(&model, rank, 2, step);
        right = run_one_after_the_other(reducer, signals, &model, rank) &&
                hold(reducer, &model, 2, step, 5.0f);
        symmcoll_reducer_zero(reducer);
    }
    symmcoll_reducer_free(reducer);
    symmcoll_group_free(signals);
    return right;
}

static int its_error_ends_the_pass(struct symmcoll_group *group, int rank)
{
    struct model model;
    struct seen seen = {0};
    struct symmcoll_reducer *reducer =
        create(group, rank, &model, symmcoll_hook_all_reduce, end_badly, &seen);
    bool right = reducer != NULL;

    for (int step = 0; right && step < 3; step++) {
        symmcoll_status_t status;

        seen = (struct seen){0};
        model_fill(&model, rank, 2, step);
        status = model_run_backward(reducer, &model, 1);
        right = symmcoll_reducer_bucket_count(reducer) == 1
                    ? status == SYMMCOLL_OK
                    : status == SYMMCOLL_ERR_SYSTEM && seen.calls == 2 &&
                          model_error_says("bucket 1 of ");
        symmcoll_reducer_zero(reducer);
    }
    right = right && symmcoll_reducer_bucket_count(reducer) > 1;
    symmcoll_reducer_free(reducer);
    return right;
}

/* Fails on rank 0, in the pass of this number. */
struct local {
    int rank, step, failing;
};

static symmcoll_status_t end_badly_on_0(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    const struct local *local = arg;

    (void)group;
    (void)bucket;
    *work = NULL;
    return local->rank == 0 && local->step == local->failing
               ? SYMMCOLL_ERR_SYSTEM
               : SYMMCOLL_OK;
}

/* The first pass fails on rank 0 after the sums: all ranks rebuild, and continue. */
static bool fail_alone(
    struct symmcoll_group *group, int rank, bool is_static, int failing)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_reducer *reducer = NULL;
    struct local local = {.rank = rank, .failing = failing};
    struct model model;
    int size = symmcoll_group_size(group);
    bool right;

    model_make(&model, rank);
    args.hook = symmcoll_hook_all_reduce;
    args.hook_end = end_badly_on_0;
    args.hook_arg = &local;
    args.static_graph = is_static;
    right = symmcoll_reducer_create(group, model.params, MODEL_PARAMS, &args,
                &reducer) == SYMMCOLL_OK;
    for (int step = 0; right && step < 4; step++) {
        symmcoll_status_t expected =
            rank == 0 && step == failing ? SYMMCOLL_ERR_SYSTEM : SYMMCOLL_OK;

        local.step = step;
        model_fill(&model, rank, size, step);
        right = model_run_backward(reducer, &model, 1) == expected &&
                (expected != SYMMCOLL_OK ||
                    hold(reducer, &model, size, step, 1.0f));
        symmcoll_reducer_zero(reducer);
    }
    right = right && symmcoll_reducer_bucket_count(reducer) > 1;
    if (!right)
        diag("step %d: %s", local.step, symmcoll_last_error());
    symmcoll_reducer_free(reducer);
    return right;
}

static int one_rank_fails_alone(struct symmcoll_group *group, int rank)
{
    return fail_alone(group, rank, false, 0) &&
           fail_alone(group, rank, true, 0) &&
           fail_alone(group, rank, false, 2);
}

/* ---- gradients that come too late ---- */

struct late {
    struct symmcoll_reducer *reducer;
    struct model model;
    bool refused;
};

/* Passes a gradient that finish has taken as zeros. */
static symmcoll_status_t pass_late(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    struct late *late = arg;

    (void)group;
    (void)bucket;
    *work = NULL;
    late->refused = symmcoll_reducer_ready(late->reducer, 2,
                        late->model.grads[2]) == SYMMCOLL_ERR_INVALID &&
                    model_error_says("parameter 2 (fc2.weight): ") &&
                    model_error_says("has been reduced already");
    return SYMMCOLL_OK;
}

/* A gradient comes during finish, which has reduced zeros for it. */
static int a_late_gradient_is_refused(struct symmcoll_group *group, int rank)
{
    struct late late = {0};
    struct symmcoll_reducer *reducer = create(
        group, rank, &late.model, symmcoll_hook_all_reduce, pass_late, &late);
    int size = symmcoll_group_size(group);
    bool right = reducer != NULL;

    late.reducer = reducer;
    for (int step = 0; right && step < 3; step++) {
        late.refused = false;
        model_fill(&late.model, rank, size, step);
        right = symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK;
        for (int p = 0; right && p < MODEL_PARAMS; p++)
            right = p == 2 || symmcoll_reducer_ready(reducer, p,
                                  late.model.grads[p]) == SYMMCOLL_OK;
        right = right &&
                symmcoll_reducer_finish(reducer) == SYMMCOLL_ERR_INVALID &&
                model_error_says("a gradient was refused: ") && late.refused;
        for (int p = 0; right && p < MODEL_PARAMS; p++) {
            float sum = 0;

            for (int r = 0; r < size && p != 2; r++)
                sum += model_term(r, p, 3, step);
            right = model_view_is(reducer, p, 3, sum);
        }
        symmcoll_reducer_zero(reducer);
    }
    symmcoll_reducer_free(reducer);
    return right;
}

/* ---- arguments of a hook ---- */

/* Checks the members of a bucket, and leaves their numbers in their gradients. */
static symmcoll_status_t write_numbers(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    const struct model *model = arg;

    (void)group;
    *work = NULL;
    for (int m = 0; m < bucket->ngrads; m++) {
        struct symmcoll_tensor grad = SYMMCOLL_TENSOR_INIT, param = grad;
        int number = bucket->params[m];
        symmcoll_status_t status = symmcoll_bucket_grad(bucket, m, &grad);

        if (status == SYMMCOLL_OK)
            status = symmcoll_bucket_param(bucket, m, &param);
        if (status != SYMMCOLL_OK)
            return status;
        if (param.data != model->params[number].data ||
            grad.dtype != bucket->dtype || grad.ndim != param.ndim ||
            grad.shape[0] != param.shape[0])
            return SYMMCOLL_ERR_INTERNAL;
        for (size_t i = 0; i < model_count(&grad); i++)
            if (grad.dtype == SYMMCOLL_FLOAT32)
                ((float *)grad.data)[i] = (float)number;
            else /* 0, 1, 2, 3 in bfloat16 */
                ((uint16_t *)grad.data)[i] = (uint16_t)(number == 0   ? 0
                                                        : number == 1 ? 0x3f80
                                                        : number == 2 ? 0x4000
                                                                      : 0x4040);
    }
    return SYMMCOLL_OK;
}

static bool see_members(struct symmcoll_group *group, int rank, bool in_16_bits)
{
    struct symmcoll_hook_wrapped wrapped = SYMMCOLL_HOOK_WRAPPED_INIT;
    struct symmcoll_bucket bucket = SYMMCOLL_BUCKET_INIT;
    struct symmcoll_tensor grad = SYMMCOLL_TENSOR_INIT;
    struct model model;
    struct symmcoll_reducer *reducer;
    bool right;

    wrapped.hook = write_numbers;
    wrapped.arg = &model;
    reducer = in_16_bits
                  ? create(group, rank, &model, symmcoll_hook_bf16_wrapper,
                        NULL, &wrapped)
                  : create(group, rank, &model, write_numbers, NULL, &model);
    right = reducer != NULL;
    for (int step = 0; right && step < 2; step++) {
        right = model_run_backward(reducer, &model, 1) == SYMMCOLL_OK;
        for (int p = 0; right && p < MODEL_PARAMS; p++)
            right = model_view_is(reducer, p, 3, (float)p);
    }
    right = right &&
            symmcoll_reducer_bucket(reducer, 0, &bucket) == SYMMCOLL_OK &&
            symmcoll_bucket_grad(&bucket, 0, &grad) == SYMMCOLL_ERR_INVALID &&
            model_error_says("that a reducer calls a hook with");
    if (!right)
        diag("%s", symmcoll_last_error());
    symmcoll_reducer_free(reducer);
    return right;
}

static int hooks_see_members(struct symmcoll_group *group, int rank)
{
    return see_members(group, rank, false) && see_members(group, rank, true);
}

/* ---- setting hooks ---- */

static int a_hook_is_set_once(struct symmcoll_group *group, int rank)
{
    struct model model;
    struct seen seen = {0};
    struct symmcoll_reducer *reducer = model_begin(group, rank, &model, 64);
    int size = symmcoll_group_size(group);
    bool right = reducer != NULL &&
                 symmcoll_reducer_set_hook(reducer, NULL, NULL, NULL) ==
                     SYMMCOLL_ERR_INVALID &&
                 model_error_says("expected a hook, found NULL") &&
                 symmcoll_reducer_set_hook(reducer, symmcoll_hook_all_reduce,
                     end_with_five, &seen) == SYMMCOLL_OK &&
                 symmcoll_reducer_set_hook(reducer, symmcoll_hook_all_reduce,
                     NULL, NULL) == SYMMCOLL_ERR_INVALID &&
                 model_error_says("without a hook");

    model_fill(&model, rank, size, 1);
    right = right && model_run_backward(reducer, &model, 1) == SYMMCOLL_OK &&
            hold(reducer, &model, size, 1, 5.0f);
    symmcoll_reducer_free(reducer);
    reducer = right ? model_begin(group, rank, &model, 64) : NULL;
    right = reducer != NULL &&
            model_run_backward(reducer, &model, 0) == SYMMCOLL_OK &&
            symmcoll_reducer_set_hook(reducer, symmcoll_hook_all_reduce, NULL,
                NULL) == SYMMCOLL_ERR_INVALID &&
            model_error_says("before its first backward");
    symmcoll_reducer_free(reducer);
    return right;
}

/* Rank 1 sets no function for the end; then all agree. */
static int all_ranks_set_it(struct symmcoll_group *group, int rank)
{
    struct model model;
    struct seen seen = {0};
    struct symmcoll_reducer *reducer = model_begin(group, rank, &model, 64);
    int size = symmcoll_group_size(group);
    bool right =
        reducer != NULL &&
        symmcoll_reducer_set_hook(reducer, symmcoll_hook_all_reduce,
            rank == 1 ? NULL : end_with_five, &seen) == SYMMCOLL_ERR_MISMATCH &&
        model_error_says("hook_end: rank 1 has 0, rank 0 has 1");

    model_fill(&model, rank, size, 1);
    right = right && model_run_backward(reducer, &model, 1) == SYMMCOLL_OK &&
            hold(reducer, &model, size, 1, 1.0f);
    symmcoll_reducer_free(reducer);
    return right;
}

static const struct model_point points[] = {
    {it_changes_the_average, 2,
        "D62: what comes after a hook's work changes the average"},
    {it_may_start_another_work, 3,
        "D62: it may start another work, in the same order on all ranks"},
    {ready_does_not_wait, 2, "D62: ready waits for no work of a hook"},
    {its_error_ends_the_pass, 2,
        "its error is that of finish, with the bucket"},
    {one_rank_fails_alone, 3,
        "after its error on one rank alone all ranks continue"},
    {a_late_gradient_is_refused, 2,
        "a gradient that comes during finish is refused"},
    {hooks_see_members, 2, "D61: a hook sees gradients and their parameters"},
    {a_hook_is_set_once, 2, "D63: a hook is set once, before the first pass"},
    {all_ranks_set_it, 3, "D63: all ranks set it, or none"},
};

int main(void)
{
    return model_run_points(points, sizeof(points) / sizeof(points[0]));
}
