/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests hooks that reduce buckets of float32 in 16 bits: the bits are those of
 * single conversions and a sum in the order of ranks.
 */
#include "model.h"

#include "base/reduce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is expected ---- */

/* Rounds to a 16-bit type. */
static float round_to(enum symmcoll_dtype dtype, float value)
{
    return dtype == SYMMCOLL_FLOAT16
               ? symc_half_to_float(symc_float_to_half(value))
               : symc_bfloat16_to_float(symc_float_to_bfloat16(value));
}

/* Returns a gradient that no 16-bit type can represent. */
static float gradient(int rank, int param, int i, int step)
{
    return (float)((rank + 1) * (param + 7) + 3 * step) / (float)(i + 3) - 2.3f;
}

static float divide(float value, int size)
{
    return value * (float)(1.0 / size);
}

/* Returns the sum over up to three ranks, in that order, rounded once. */
static float expect(enum symmcoll_dtype dtype, int size, bool rounded_first,
    float (*of)(int, int, int, int), int param, int i, int step)
{
    float sum = 0;

    for (int r = 0; r < size; r++) {
        float value = of(r, param, i, step);

        if (rounded_first)
            value = round_to(dtype, value);
        value = round_to(dtype, divide(value, size));
        sum = r == 0 ? value : sum + value;
    }
    return round_to(dtype, sum);
}

/* ---- backwards ---- */

struct run {
    struct symmcoll_reducer_args args;
    enum symmcoll_dtype dtype;
    bool rounded_first;
    float (*of)(int, int, int, int);
};

static void fill(struct model *model, const struct run *run, int rank, int step)
{
    for (int p = 0; p < MODEL_PARAMS; p++)
        for (int i = 0; i < 32; i++)
            model->grads[p][i] = run->of(rank, p, i, step);
}

/* Runs one backward with gradients in the caller's memory, or in the
 * buckets. */
static symmcoll_status_t run_backward(
    struct symmcoll_reducer *reducer, struct model *model, bool views)
{
    symmcoll_status_t status = symmcoll_reducer_begin(reducer, 1);

    for (int p = MODEL_PARAMS - 1; status == SYMMCOLL_OK && p >= 0; p--) {
        struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;

        if (!views) {
            status = symmcoll_reducer_ready(reducer, p, model->grads[p]);
            continue;
        }
        status = symmcoll_reducer_grad(reducer, p, &view);
        if (status != SYMMCOLL_OK)
            break;
        memcpy(view.data, model->grads[p],
            model_count(&model->params[p]) * sizeof(float));
        status = symmcoll_reducer_ready(reducer, p, view.data);
    }
    return status == SYMMCOLL_OK ? symmcoll_reducer_finish(reducer) : status;
}

/* Checks the averages, in the views or written back. */
static int holds(struct symmcoll_reducer *reducer, const struct model *model,
    const struct run *run, int size, int step)
{
    for (int p = 0; p < MODEL_PARAMS; p++)
        for (int i = 0; i < (int)model_count(&model->params[p]); i++) {
            float expected = expect(
                run->dtype, size, run->rounded_first, run->of, p, i, step);

            if (!model_view_is(reducer, p, i, expected) ||
                (run->args.write_back && model->grads[p][i] != expected))
                return 0;
        }
    return 1;
}

/* Runs four steps, with one bucket and then with several. */
static int run_steps(
    struct symmcoll_group *group, int rank, const struct run *run)
{
    struct symmcoll_reducer *reducer = NULL;
    int size = symmcoll_group_size(group), right;
    struct model model;

    model_make(&model, rank);
    right = symmcoll_reducer_create(group, model.params, MODEL_PARAMS,
                &run->args, &reducer) == SYMMCOLL_OK;
    for (int step = 0; right && step < 4; step++) {
        fill(&model, run, rank, step);
        right = run_backward(reducer, &model,
                    run->args.gradient_as_bucket_view != 0) == SYMMCOLL_OK &&
                holds(reducer, &model, run, size, step) &&
                (step == 0 || symmcoll_reducer_bucket_count(reducer) > 1);
        symmcoll_reducer_zero(reducer);
    }
    if (!right)
        diag("%s", symmcoll_last_error());
    symmcoll_reducer_free(reducer);
    return right;
}

static struct run make_run(symmcoll_bucket_fn hook, enum symmcoll_dtype dtype)
{
    struct run run = {.args = model_args(64), .dtype = dtype, .of = gradient};

    run.args.hook = hook;
    return run;
}

/* ---- sums in 16 bits ---- */

static int fp16_sums(struct symmcoll_group *group, int rank)
{
    struct run run = make_run(symmcoll_hook_fp16_compress, SYMMCOLL_FLOAT16);

    return run_steps(group, rank, &run);
}

static int bf16_sums(struct symmcoll_group *group, int rank)
{
    struct run run = make_run(symmcoll_hook_bf16_compress, SYMMCOLL_BFLOAT16);

    return run_steps(group, rank, &run);
}

static int sums_in_views(struct symmcoll_group *group, int rank)
{
    struct run run = make_run(symmcoll_hook_fp16_compress, SYMMCOLL_FLOAT16);

    run.args.gradient_as_bucket_view = 1;
    return run_steps(group, rank, &run);
}

static int sums_written_back(struct symmcoll_group *group, int rank)
{
    struct run run = make_run(symmcoll_hook_bf16_compress, SYMMCOLL_BFLOAT16);

    run.args.write_back = 1;
    return run_steps(group, rank, &run);
}

/* Returns values that are multiplied beyond the range of half: three times
 * 60000, and 150000. */
static float large(int rank, int param, int i, int step)
{
    (void)i;
    (void)step;
    if (param == 0)
        return rank == 1 ? 150000.0f : 0.0f;
    return 60000.0f;
}

static int large_gradients(struct symmcoll_group *group, int rank)
{
    struct run run = make_run(symmcoll_hook_fp16_compress, SYMMCOLL_FLOAT16);
    int size = symmcoll_group_size(group);

    run.of = large;
    return isfinite(expect(SYMMCOLL_FLOAT16, size, false, large, 0, 0, 0)) &&
           isfinite(expect(SYMMCOLL_FLOAT16, size, false, large, 1, 0, 0)) &&
           run_steps(group, rank, &run);
}

/* A hook that has other work, and requests the compression only when it is
 * called. */
static symmcoll_status_t call_compress(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    return symmcoll_hook_fp16_compress(group, bucket, arg, work);
}

static int called_by_a_hook(struct symmcoll_group *group, int rank)
{
    struct run run = make_run(call_compress, SYMMCOLL_FLOAT16);

    return run_steps(group, rank, &run);
}

/* ---- wrapped hooks ---- */

static int wrapped_sums(struct symmcoll_group *group, int rank,
    symmcoll_bucket_fn wrapper, enum symmcoll_dtype dtype)
{
    struct symmcoll_hook_wrapped wrapped = SYMMCOLL_HOOK_WRAPPED_INIT;
    struct run run = make_run(wrapper, dtype);

    wrapped.hook = symmcoll_hook_all_reduce;
    run.args.hook_arg = &wrapped;
    run.rounded_first = true;
    if (!run_steps(group, rank, &run))
        return 0;
    run.args.gradient_as_bucket_view = 1;
    return run_steps(group, rank, &run);
}

static int both_wrapped(struct symmcoll_group *group, int rank)
{
    return wrapped_sums(
               group, rank, symmcoll_hook_fp16_wrapper, SYMMCOLL_FLOAT16) &&
           wrapped_sums(
               group, rank, symmcoll_hook_bf16_wrapper, SYMMCOLL_BFLOAT16);
}

/* The arguments of an inner hook. */
struct seen {
    struct symmcoll_reducer *reducer;
    int right;
};

/* Passes a bucket with another memory and type to a hook that writes a half to
 * every element. */
static symmcoll_status_t put_half(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    struct symmcoll_bucket outer = SYMMCOLL_BUCKET_INIT;
    struct seen *seen = arg;
    uint16_t *at = bucket->buffer;

    (void)group;
    seen->right =
        seen->right &&
        symmcoll_reducer_bucket(seen->reducer, bucket->index, &outer) ==
            SYMMCOLL_OK &&
        bucket->dtype == SYMMCOLL_FLOAT16 && bucket->buffer != outer.buffer &&
        bucket->count == outer.count && bucket->ngrads == outer.ngrads &&
        bucket->params == outer.params && bucket->is_last == outer.is_last &&
        at[0] == symc_float_to_half(((const float *)outer.buffer)[0]);
    for (size_t i = 0; i < bucket->count; i++)
        at[i] = 0x3800;
    *work = NULL;
    return SYMMCOLL_OK;
}

static int inner_hook_sees_halves(struct symmcoll_group *group, int rank)
{
    struct symmcoll_hook_wrapped wrapped = SYMMCOLL_HOOK_WRAPPED_INIT;
    struct seen seen = {.right = 1};
    struct run run = make_run(symmcoll_hook_fp16_wrapper, SYMMCOLL_FLOAT16);
    struct model model;
    int right;

    model_make(&model, rank);
    fill(&model, &run, rank, 0);
    wrapped.hook = put_half;
    wrapped.arg = &seen;
    run.args.hook_arg = &wrapped;
    right = symmcoll_reducer_create(group, model.params, MODEL_PARAMS,
                &run.args, &seen.reducer) == SYMMCOLL_OK;
    for (int step = 0; right && step < 3; step++)
        right = run_backward(seen.reducer, &model, false) == SYMMCOLL_OK &&
                seen.right && model_view_is(seen.reducer, 0, 31, 0.5f) &&
                model_view_is(seen.reducer, 3, 0, 0.5f);
    symmcoll_reducer_free(seen.reducer);
    return right;
}

/* ---- buckets of that type ---- */

/* Runs one backward of 9 halves, and returns the bits. */
static int reduce_halves(struct symmcoll_group *group, int rank,
    symmcoll_bucket_fn hook, void *arg, uint16_t *found)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct symmcoll_reducer *reducer = NULL;
    uint16_t values[9] = {0}, grads[9];
    struct symmcoll_tensor param = model_vector(values, SYMMCOLL_FLOAT16, 9),
                           view = SYMMCOLL_TENSOR_INIT;
    int right;

    for (int i = 0; i < 9; i++)
        grads[i] = symc_float_to_half(gradient(rank, 0, i, 0));
    args.hook = hook;
    args.hook_arg = arg;
    right = symmcoll_reducer_create(group, &param, 1, &args, &reducer) ==
                SYMMCOLL_OK &&
            symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK &&
            symmcoll_reducer_ready(reducer, 0, grads) == SYMMCOLL_OK &&
            symmcoll_reducer_finish(reducer) == SYMMCOLL_OK &&
            symmcoll_reducer_grad(reducer, 0, &view) == SYMMCOLL_OK;
    if (right)
        memcpy(found, view.data, sizeof(grads));
    symmcoll_reducer_free(reducer);
    return right;
}

static int halves_are_reduced_as_they_are(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_hook_wrapped wrapped = SYMMCOLL_HOOK_WRAPPED_INIT;
    uint16_t plain[9], compressed[9], inner[9];

    wrapped.hook = symmcoll_hook_all_reduce;
    return reduce_halves(group, rank, symmcoll_hook_all_reduce, NULL, plain) &&
           reduce_halves(
               group, rank, symmcoll_hook_fp16_compress, NULL, compressed) &&
           reduce_halves(
               group, rank, symmcoll_hook_fp16_wrapper, &wrapped, inner) &&
           memcmp(plain, compressed, sizeof(plain)) == 0 &&
           memcmp(plain, inner, sizeof(plain)) == 0;
}

/* ---- while other ranks compute ---- */

/* Rank 1 begins after rank 0 has passed all gradients. */
static int nobody_waits_in_ready(struct symmcoll_group *group, int rank)
{
    struct run run = make_run(symmcoll_hook_bf16_compress, SYMMCOLL_BFLOAT16);
    struct symmcoll_reducer *reducer = NULL;
    struct model model;
    char token = 0;
    int right;

    model_make(&model, rank);
    fill(&model, &run, rank, 0);
    right = symmcoll_reducer_create(group, model.params, MODEL_PARAMS,
                &run.args, &reducer) == SYMMCOLL_OK;
    if (rank == 1)
        right = right && symmcoll_recv(group, &token, 1, SYMMCOLL_UINT8, 0, 0,
                             NULL, NULL, NULL) == SYMMCOLL_OK;
    right = right && symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK;
    for (int p = 0; right && p < MODEL_PARAMS; p++)
        right =
            symmcoll_reducer_ready(reducer, p, model.grads[p]) == SYMMCOLL_OK;
    if (rank == 0)
        right = right && symmcoll_send(group, &token, 1, SYMMCOLL_UINT8, 1, 0,
                             NULL, NULL) == SYMMCOLL_OK;
    right = right && symmcoll_reducer_finish(reducer) == SYMMCOLL_OK &&
            holds(reducer, &model, &run, 2, 0);
    symmcoll_reducer_free(reducer);
    return right;
}

static const struct model_point points[] = {
    {fp16_sums, 3,
        "D66: gradients are divided, rounded to float16, summed, and back"},
    {bf16_sums, 3, "D66: so are they with bfloat16"},
    {bf16_sums, 2, "D66: so are they by two ranks"},
    {sums_in_views, 3, "D64 D66: so are gradients in the buckets"},
    {sums_written_back, 2, "D64 D66: so are they written back"},
    {large_gradients, 3, "D66: a sum overflows no earlier than the average"},
    {called_by_a_hook, 2, "D68: another hook may call one"},
    {both_wrapped, 3,
        "D67: a hook in 16 bits averages, and its result is converted back"},
    {inner_hook_sees_halves, 2,
        "D67: a hook in 16 bits sees the bucket in another memory and type"},
    {halves_are_reduced_as_they_are, 2,
        "D66 D67: a bucket of that type is reduced as it is"},
    {nobody_waits_in_ready, 2,
        "ready does not wait for what is converted back"},
};

int main(void)
{
    return model_run_points(points, sizeof(points) / sizeof(points[0]));
}
