/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The gradient reducer, with processes and with threads as ranks.  Gradients
 * are small integers times the number of ranks where they are divided, so that
 * every average is exact.
 */
#include "../ranks.h"
#include "../tap.h"

#include <symmcoll.h>

#include <stdlib.h>
#include <string.h>

/* ---- a small model ---- */

#define NPARAMS 4

static const char *const names[NPARAMS] = {
    "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};

/* Parameters and gradients of one rank. */
struct model {
    float values[NPARAMS][32];
    float grads[NPARAMS][32];
    struct symmcoll_tensor params[NPARAMS];
};

static struct symmcoll_tensor matrix(
    void *data, enum symmcoll_dtype dtype, int64_t rows, int64_t columns)
{
    return (struct symmcoll_tensor){sizeof(struct symmcoll_tensor), data, dtype,
        SYMMCOLL_HOST, 0, 2, {rows, columns}, {columns, 1}};
}

static struct symmcoll_tensor vector(
    void *data, enum symmcoll_dtype dtype, int64_t count)
{
    return (struct symmcoll_tensor){sizeof(struct symmcoll_tensor), data, dtype,
        SYMMCOLL_HOST, 0, 1, {count}, {1}};
}

static void make_model(struct model *model, int rank)
{
    memset(model, 0, sizeof(*model));
    for (int p = 0; p < NPARAMS; p++)
        for (int i = 0; i < 32; i++)
            model->values[p][i] = (float)(1000 * rank + 100 * p + i);
    model->params[0] = matrix(model->values[0], SYMMCOLL_FLOAT32, 8, 4);
    model->params[1] = vector(model->values[1], SYMMCOLL_FLOAT32, 8);
    model->params[2] = matrix(model->values[2], SYMMCOLL_FLOAT32, 4, 8);
    model->params[3] = vector(model->values[3], SYMMCOLL_FLOAT32, 4);
}

static size_t count_of(const struct symmcoll_tensor *tensor)
{
    size_t count = 1;

    for (int d = 0; d < tensor->ndim; d++)
        count *= (size_t)tensor->shape[d];
    return count;
}

/* What rank r's gradient of an element is in one step, times the size. */
static float term(int rank, int param, int i, int step)
{
    return (float)((rank + 1) * (param + 1) + i + 5 * step);
}

static void fill_grads(struct model *model, int rank, int size, int step)
{
    for (int p = 0; p < NPARAMS; p++)
        for (int i = 0; i < 32; i++)
            model->grads[p][i] = (float)size * term(rank, p, i, step);
}

static int view_is(
    struct symmcoll_reducer *reducer, int param, int i, float expected)
{
    struct symmcoll_tensor grad = SYMMCOLL_TENSOR_INIT;
    float found;

    if (symmcoll_reducer_grad(reducer, param, &grad) != SYMMCOLL_OK)
        return 0;
    found = ((const float *)grad.data)[i];
    if (found != expected)
        diag("parameter %d, element %d: expected %g, found %g", param, i,
            (double)expected, (double)found);
    return found == expected;
}

/* Whether all views hold the sums over ranks of the terms of steps first to
 * last, which is the average of the gradients. */
static int views_hold(struct symmcoll_reducer *reducer,
    const struct model *model, int size, int first, int last)
{
    for (int p = 0; p < NPARAMS; p++)
        for (int i = 0; i < (int)count_of(&model->params[p]); i++) {
            float sum = 0;

            for (int step = first; step <= last; step++)
                for (int r = 0; r < size; r++)
                    sum += term(r, p, i, step);
            if (!view_is(reducer, p, i, sum))
                return 0;
        }
    return 1;
}

/* One backward, the last parameter first. */
static symmcoll_status_t run_backward(
    struct symmcoll_reducer *reducer, struct model *model, int sync)
{
    symmcoll_status_t status = symmcoll_reducer_begin(reducer, sync);

    for (int p = NPARAMS - 1; status == SYMMCOLL_OK && p >= 0; p--)
        status = symmcoll_reducer_ready(reducer, p, model->grads[p]);
    return status == SYMMCOLL_OK ? symmcoll_reducer_finish(reducer) : status;
}

static int error_says(const char *text)
{
    if (strstr(symmcoll_last_error(), text) != NULL)
        return 1;
    diag("expected \"%s\" in \"%s\"", text, symmcoll_last_error());
    return 0;
}

static struct symmcoll_reducer_args make_args(size_t cap)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;

    args.bucket_cap = cap;
    args.names = names;
    return args;
}

/* A model and its reducer; NULL where that failed. */
static struct symmcoll_reducer *begin_test(
    struct symmcoll_group *group, int rank, struct model *model, size_t cap)
{
    struct symmcoll_reducer_args args = make_args(cap);
    struct symmcoll_reducer *reducer;

    make_model(model, rank);
    if (symmcoll_reducer_create(
            group, model->params, NPARAMS, &args, &reducer) == SYMMCOLL_OK)
        return reducer;
    diag("%s", symmcoll_last_error());
    return NULL;
}

/* ---- what it does ---- */

static int parameters_become_those_of_rank_0(
    struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_reducer *reducer = begin_test(group, rank, &model, 0);
    int right = reducer != NULL;

    for (int p = 0; p < NPARAMS; p++)
        for (int i = 0; i < (int)count_of(&model.params[p]); i++)
            right = right && model.values[p][i] == (float)(100 * p + i);
    symmcoll_reducer_free(reducer);
    return right;
}

static int without_init_sync_parameters_stay(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = make_args(0);
    struct symmcoll_reducer *reducer = NULL;
    uint64_t before = symmcoll_group_sequence(group);
    struct model model;
    int right;

    make_model(&model, rank);
    args.no_init_sync = 1;
    right = symmcoll_reducer_create(
                group, model.params, NPARAMS, &args, &reducer) == SYMMCOLL_OK &&
            model.values[1][3] == (float)(1000 * rank + 103) &&
            symmcoll_group_sequence(group) == before;
    symmcoll_reducer_free(reducer);
    return right;
}

/* The elements of a parameter with gaps; what is between them is not its. */
static int strided_parameters_are_broadcast(
    struct symmcoll_group *group, int rank)
{
    float values[2][5];
    struct symmcoll_tensor param = matrix(values, SYMMCOLL_FLOAT32, 2, 3);
    struct symmcoll_tensor grad = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_reducer *reducer = NULL;
    int right;

    param.strides[0] = 5;
    for (int i = 0; i < 10; i++)
        values[i / 5][i % 5] = (float)(100 * rank + i);
    right = symmcoll_reducer_create(group, &param, 1, NULL, &reducer) ==
            SYMMCOLL_OK;
    for (int i = 0; i < 10; i++)
        right = right && values[i / 5][i % 5] ==
                             (float)(i + (i % 5 < 3 ? 0 : 100 * rank));
    right = right && symmcoll_reducer_grad(reducer, 0, &grad) == SYMMCOLL_OK &&
            grad.strides[0] == 3 && grad.strides[1] == 1;
    symmcoll_reducer_free(reducer);
    return right;
}

static int gradients_are_averaged(struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_reducer *reducer = begin_test(group, rank, &model, 64);
    int size = symmcoll_group_size(group), right = reducer != NULL;

    for (int step = 0; right && step < 4; step++) {
        fill_grads(&model, rank, size, step);
        right = run_backward(reducer, &model, 1) == SYMMCOLL_OK &&
                views_hold(reducer, &model, size, step, step);
        symmcoll_reducer_zero(reducer);
    }
    right = right && view_is(reducer, 0, 0, 0.0f);
    symmcoll_reducer_free(reducer);
    return right;
}

static int unsynchronised_backwards_accumulate(
    struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_reducer *reducer = begin_test(group, rank, &model, 64);
    int size = symmcoll_group_size(group), right = reducer != NULL;

    for (int round = 0; right && round < 2; round++) {
        uint64_t before = symmcoll_group_sequence(group);

        for (int step = 0; right && step < 2; step++) {
            fill_grads(&model, rank, size, step);
            right = run_backward(reducer, &model, 0) == SYMMCOLL_OK;
        }
        /* In the second round, the first begin rebuilds by one broadcast. */
        right =
            right && symmcoll_group_sequence(group) == before + (uint64_t)round;
        fill_grads(&model, rank, size, 2);
        right = right && run_backward(reducer, &model, 1) == SYMMCOLL_OK &&
                views_hold(reducer, &model, size, 0, 2);
        symmcoll_reducer_zero(reducer);
    }
    symmcoll_reducer_free(reducer);
    return right;
}

/* Without zero() between them the second average is added to the first. */
static int averages_add_up(struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_reducer *reducer = begin_test(group, rank, &model, 0);
    int size = symmcoll_group_size(group), right = reducer != NULL;

    for (int step = 0; right && step < 2; step++) {
        /* Whole multiples of size * size: divided twice on their way. */
        for (int p = 0; p < NPARAMS; p++)
            for (int i = 0; i < 32; i++)
                model.grads[p][i] =
                    (float)(size * size) * term(rank, p, i, step);
        right = run_backward(reducer, &model, 1) == SYMMCOLL_OK;
    }
    for (int i = 0; i < 4; i++) {
        float sum = 0;

        for (int r = 0; r < size; r++)
            sum += (float)size * (term(r, 3, i, 0) + term(r, 3, i, 1));
        right = right && view_is(reducer, 3, i, sum);
    }
    symmcoll_reducer_free(reducer);
    return right;
}

/* Rank 1 has an empty batch: it marks nothing and takes part all the same. */
static int unmarked_parameters_count_as_zeros(
    struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_reducer *reducer = begin_test(group, rank, &model, 64);
    int size = symmcoll_group_size(group), right = reducer != NULL;

    for (int step = 0; right && step < 3; step++) {
        fill_grads(&model, rank, size, 0);
        if (rank != 1)
            right = run_backward(reducer, &model, 1) == SYMMCOLL_OK;
        else
            right = symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK &&
                    symmcoll_reducer_finish(reducer) == SYMMCOLL_OK;
        for (int i = 0; i < 8; i++) {
            float sum = 0;

            for (int r = 0; r < size; r++)
                sum += r == 1 ? 0.0f : term(r, 1, i, 0);
            right = right && view_is(reducer, 1, i, sum);
        }
        symmcoll_reducer_zero(reducer);
    }
    symmcoll_reducer_free(reducer);
    return right;
}

/* ---- buckets ---- */

static int bucket_holds(
    const struct symmcoll_reducer *reducer, int index, int ngrads, int first)
{
    struct symmcoll_bucket bucket = {.size = sizeof(bucket)};

    return symmcoll_reducer_bucket(reducer, index, &bucket) == SYMMCOLL_OK &&
           bucket.index == index && bucket.ngrads == ngrads &&
           bucket.params[0] == first &&
           bucket.is_last ==
               (index == symmcoll_reducer_bucket_count(reducer) - 1);
}

/* Rank 0's gradients come last parameter first, the others' the other way. */
static int buckets_are_rebuilt_once(struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_reducer *reducer = begin_test(group, rank, &model, 48);
    int size = symmcoll_group_size(group), right = reducer != NULL;

    right = right && symmcoll_reducer_bucket_count(reducer) == 1 &&
            bucket_holds(reducer, 0, 4, 0);
    fill_grads(&model, rank, size, 0);
    right = right && symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK;
    for (int i = 0; right && i < NPARAMS; i++) {
        int p = rank == 0 ? NPARAMS - 1 - i : i;

        right =
            symmcoll_reducer_ready(reducer, p, model.grads[p]) == SYMMCOLL_OK;
    }
    right = right && symmcoll_reducer_finish(reducer) == SYMMCOLL_OK &&
            symmcoll_reducer_bucket_count(reducer) == 1;
    /* Begin rebuilds; the averages move along. */
    right = right && symmcoll_reducer_begin(reducer, 0) == SYMMCOLL_OK &&
            symmcoll_reducer_finish(reducer) == SYMMCOLL_OK &&
            views_hold(reducer, &model, size, 0, 0) &&
            symmcoll_reducer_bucket_count(reducer) == 2 &&
            bucket_holds(reducer, 0, 2, 3) && bucket_holds(reducer, 1, 2, 1);
    symmcoll_reducer_zero(reducer);
    fill_grads(&model, rank, size, 7);
    right = right && run_backward(reducer, &model, 1) == SYMMCOLL_OK &&
            views_hold(reducer, &model, size, 7, 7) &&
            symmcoll_reducer_bucket_count(reducer) == 2;
    symmcoll_reducer_free(reducer);
    return right;
}

static int views_have_the_strides_of_parameters(
    struct symmcoll_group *group, int rank)
{
    double columns[6] = {0};
    uint16_t halves[4] = {0};
    struct symmcoll_tensor params[2] = {matrix(columns, SYMMCOLL_FLOAT64, 2, 3),
        vector(halves, SYMMCOLL_FLOAT16, 4)};
    double grad[6] = {1, 2, 3, 4, 5, 6};
    struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_reducer *reducer = NULL;
    int right;

    (void)rank;
    params[0].strides[0] = 1;
    params[0].strides[1] = 2;
    right = symmcoll_reducer_create(group, params, 2, NULL, &reducer) ==
                SYMMCOLL_OK &&
            symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK &&
            symmcoll_reducer_ready(reducer, 0, grad) == SYMMCOLL_OK &&
            symmcoll_reducer_finish(reducer) == SYMMCOLL_OK &&
            symmcoll_reducer_grad(reducer, 0, &view) == SYMMCOLL_OK &&
            view.strides[0] == 1 && view.strides[1] == 2 &&
            view.dtype == SYMMCOLL_FLOAT64 && ((double *)view.data)[5] == 6;
    symmcoll_reducer_free(reducer);
    return right;
}

/* Images, channels, rows, columns; the channels of a pixel lie together. */
static int channels_last_is_an_order(struct symmcoll_group *group, int rank)
{
    enum {
        COUNT = 2 * 3 * 4 * 5
    };
    static const int64_t strides[4] = {60, 1, 15, 3};
    float value[COUNT] = {0}, grad[COUNT];
    struct symmcoll_tensor param =
        SYMMCOLL_TENSOR_SHAPE(value, SYMMCOLL_FLOAT32, 2, 3, 4, 5);
    struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_reducer *reducer = NULL;
    int size = symmcoll_group_size(group), right;

    for (int i = 0; i < COUNT; i++)
        grad[i] = (float)(size * (i + rank));
    memcpy(param.strides, strides, sizeof(strides));
    right = symmcoll_reducer_create(group, &param, 1, NULL, &reducer) ==
                SYMMCOLL_OK &&
            symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK &&
            symmcoll_reducer_ready(reducer, 0, grad) == SYMMCOLL_OK &&
            symmcoll_reducer_finish(reducer) == SYMMCOLL_OK &&
            symmcoll_reducer_grad(reducer, 0, &view) == SYMMCOLL_OK &&
            view.ndim == 4 &&
            memcmp(view.strides, strides, sizeof(strides)) == 0;
    for (int i = 0; right && i < COUNT; i++)
        right =
            view_is(reducer, 0, i, (float)(size * i + size * (size - 1) / 2));
    symmcoll_reducer_free(reducer);
    return right;
}

static int complex_gradients_are_averaged(
    struct symmcoll_group *group, int rank)
{
    float single[4] = {0};
    double twice[2] = {0};
    struct symmcoll_tensor params[] = {vector(single, SYMMCOLL_COMPLEX64, 2),
        vector(twice, SYMMCOLL_COMPLEX128, 1)};
    int size = symmcoll_group_size(group), right;
    float single_grad[4];
    double twice_grad[2] = {size * rank, -size};
    struct symmcoll_tensor views[2] = {
        SYMMCOLL_TENSOR_INIT, SYMMCOLL_TENSOR_INIT};
    struct symmcoll_reducer *reducer = NULL;
    float sum = (float)(size * (size - 1) / 2);

    for (int i = 0; i < 4; i++)
        single_grad[i] = (float)(size * (rank + i));
    right = symmcoll_reducer_create(group, params, 2, NULL, &reducer) ==
                SYMMCOLL_OK &&
            symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK &&
            symmcoll_reducer_ready(reducer, 1, twice_grad) == SYMMCOLL_OK &&
            symmcoll_reducer_ready(reducer, 0, single_grad) == SYMMCOLL_OK &&
            symmcoll_reducer_finish(reducer) == SYMMCOLL_OK &&
            symmcoll_reducer_grad(reducer, 0, &views[0]) == SYMMCOLL_OK &&
            symmcoll_reducer_grad(reducer, 1, &views[1]) == SYMMCOLL_OK &&
            views[0].dtype == SYMMCOLL_COMPLEX64 &&
            ((double *)views[1].data)[0] == (double)sum &&
            ((double *)views[1].data)[1] == -size;
    for (int i = 0; right && i < 4; i++)
        right = view_is(reducer, 0, i, sum + (float)(size * i));
    symmcoll_reducer_free(reducer);
    return right;
}

/* 2^15 in half precision, and 3 in bfloat16: one each of all float types. */
static int types_keep_to_themselves(struct symmcoll_group *group, int rank)
{
    uint16_t half[2] = {0}, brain[2] = {0};
    float single[2] = {0};
    double twice[2] = {0};
    struct symmcoll_tensor params[] = {vector(half, SYMMCOLL_FLOAT16, 2),
        vector(brain, SYMMCOLL_BFLOAT16, 2),
        vector(single, SYMMCOLL_FLOAT32, 2),
        vector(twice, SYMMCOLL_FLOAT64, 2)};
    const uint16_t half_grad[2] = {0x7800, 0x7800};  /* 2^15 */
    const uint16_t brain_grad[2] = {0x4040, 0x4040}; /* 3 */
    const float single_grad[2] = {4, 8};
    const double twice_grad[2] = {16, 32};
    const void *grads[] = {half_grad, brain_grad, single_grad, twice_grad};
    struct symmcoll_tensor views[4] = {SYMMCOLL_TENSOR_INIT,
        SYMMCOLL_TENSOR_INIT, SYMMCOLL_TENSOR_INIT, SYMMCOLL_TENSOR_INIT};
    struct symmcoll_reducer *reducer = NULL;
    int right;

    (void)rank;
    right = symmcoll_reducer_create(group, params, 4, NULL, &reducer) ==
                SYMMCOLL_OK &&
            symmcoll_reducer_bucket_count(reducer) == 4;
    for (int step = 0; right && step < 2; step++) {
        right = symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK;
        for (int p = 3; right && p >= 0; p--)
            right = symmcoll_reducer_ready(reducer, p, grads[p]) == SYMMCOLL_OK;
        right = right && symmcoll_reducer_finish(reducer) == SYMMCOLL_OK;
        for (int p = 0; right && p < 4; p++)
            right =
                symmcoll_reducer_grad(reducer, p, &views[p]) == SYMMCOLL_OK &&
                memcmp(views[p].data, grads[p],
                    2 * symmcoll_dtype_size(views[p].dtype)) == 0;
        symmcoll_reducer_zero(reducer);
    }
    symmcoll_reducer_free(reducer);
    return right;
}

/* With gradient_as_bucket_view backward writes where the bucket is. */
static int gradients_may_live_in_the_buckets(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = make_args(64);
    struct symmcoll_reducer *reducer = NULL;
    int size = symmcoll_group_size(group), right;
    struct symmcoll_tensor grad = SYMMCOLL_TENSOR_INIT;
    struct model model;

    make_model(&model, rank);
    args.gradient_as_bucket_view = 1;
    right = symmcoll_reducer_create(
                group, model.params, NPARAMS, &args, &reducer) == SYMMCOLL_OK;
    for (int step = 0; right && step < 3; step++) {
        right = symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK;
        for (int p = NPARAMS - 1; right && p >= 0; p--) {
            right = symmcoll_reducer_grad(reducer, p, &grad) == SYMMCOLL_OK;
            for (int i = 0; right && i < (int)count_of(&grad); i++)
                ((float *)grad.data)[i] += (float)size * term(rank, p, i, step);
            right = right && symmcoll_reducer_ready(reducer, p, grad.data) ==
                                 SYMMCOLL_OK;
        }
        right = right && symmcoll_reducer_finish(reducer) == SYMMCOLL_OK &&
                views_hold(reducer, &model, size, step, step);
        symmcoll_reducer_zero(reducer);
    }
    right = right && symmcoll_reducer_begin(reducer, 0) == SYMMCOLL_OK &&
            symmcoll_reducer_ready(reducer, 0, model.grads[0]) ==
                SYMMCOLL_ERR_INVALID &&
            error_says("parameter 0 (fc1.weight): expected the view");
    symmcoll_reducer_free(reducer);
    return right;
}

/* Two backwards of one rank's own, then one that synchronises. */
static int views_accumulate_without_synchronisation(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = make_args(64);
    struct symmcoll_reducer *reducer = NULL;
    int size = symmcoll_group_size(group), right;
    struct symmcoll_tensor grad = SYMMCOLL_TENSOR_INIT;
    struct model model;

    make_model(&model, rank);
    args.gradient_as_bucket_view = 1;
    right = symmcoll_reducer_create(
                group, model.params, NPARAMS, &args, &reducer) == SYMMCOLL_OK;
    for (int step = 0; right && step < 6; step++) {
        uint64_t before = symmcoll_group_sequence(group);
        int sync = step % 3 == 2;

        right = symmcoll_reducer_begin(reducer, sync) == SYMMCOLL_OK;
        for (int p = NPARAMS - 1; right && p >= 0; p--) {
            right = symmcoll_reducer_grad(reducer, p, &grad) == SYMMCOLL_OK;
            for (int i = 0; right && i < (int)count_of(&grad); i++)
                ((float *)grad.data)[i] += (float)size * term(rank, p, i, step);
            right = right && symmcoll_reducer_ready(reducer, p, grad.data) ==
                                 SYMMCOLL_OK;
        }
        right = right && symmcoll_reducer_finish(reducer) == SYMMCOLL_OK;
        /* Step 3 rebuilds the buckets, by one broadcast. */
        if (!sync)
            right = right && symmcoll_group_sequence(group) ==
                                 before + (uint64_t)(step == 3);
        else
            right = right && views_hold(reducer, &model, size, step - 2, step);
        if (sync)
            symmcoll_reducer_zero(reducer);
    }
    symmcoll_reducer_free(reducer);
    return right;
}

/* ---- hooks ---- */

struct seen {
    int calls;
    int in_order;
};

/* Puts 2 into every gradient, and communicates nothing. */
static symmcoll_status_t put_two(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    struct seen *seen = arg;

    (void)group;
    for (size_t i = 0; i < bucket->count; i++)
        ((float *)bucket->buffer)[i] = 2.0f;
    if (bucket->index == 0)
        seen->calls = 0;
    seen->in_order = seen->in_order && bucket->index == seen->calls;
    seen->calls++;
    *work = NULL;
    return SYMMCOLL_OK;
}

static int what_a_hook_leaves_is_the_gradient(
    struct symmcoll_group *group, int rank)
{
    struct seen seen = {0, 1};
    struct symmcoll_reducer_args args = make_args(64);
    struct symmcoll_reducer *reducer = NULL;
    struct model model;
    int right;

    make_model(&model, rank);
    args.hook = put_two;
    args.hook_arg = &seen;
    right = symmcoll_reducer_create(
                group, model.params, NPARAMS, &args, &reducer) == SYMMCOLL_OK;
    for (int step = 0; right && step < 3; step++) {
        right = symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK;
        /* In no order that the buckets have. */
        for (int i = 0; right && i < NPARAMS; i++) {
            int p = (i * 3 + step) % NPARAMS;

            right = symmcoll_reducer_ready(reducer, p, model.grads[p]) ==
                    SYMMCOLL_OK;
        }
        right = right && symmcoll_reducer_finish(reducer) == SYMMCOLL_OK &&
                seen.calls == symmcoll_reducer_bucket_count(reducer) &&
                seen.in_order && view_is(reducer, 0, 31, 2.0f) &&
                view_is(reducer, 3, 0, 2.0f);
    }
    symmcoll_reducer_free(reducer);
    return right;
}

static int the_all_reduce_hook_averages(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = make_args(64);
    struct symmcoll_reducer *reducer = NULL;
    int size = symmcoll_group_size(group), right;
    struct model model;

    make_model(&model, rank);
    args.hook = symmcoll_hook_all_reduce;
    right = symmcoll_reducer_create(
                group, model.params, NPARAMS, &args, &reducer) == SYMMCOLL_OK;
    for (int step = 0; right && step < 3; step++) {
        fill_grads(&model, rank, size, step);
        right = run_backward(reducer, &model, 1) == SYMMCOLL_OK &&
                views_hold(reducer, &model, size, step, step);
        symmcoll_reducer_zero(reducer);
    }
    symmcoll_reducer_free(reducer);
    return right;
}

/* The sum, multiplied by 10 and then divided by 2. */
static symmcoll_status_t sum_then_scale(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    float *x = bucket->buffer;
    symmcoll_status_t status = symmcoll_all_reduce(
        group, x, x, bucket->count, bucket->dtype, SYMMCOLL_SUM, NULL, NULL);

    (void)arg;
    for (size_t i = 0; i < bucket->count; i++)
        x[i] *= 10;
    for (size_t i = 0; i < bucket->count; i++)
        x[i] /= 2;
    *work = NULL;
    return status;
}

static int a_hook_may_change_its_sum(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = make_args(64);
    struct symmcoll_reducer *reducer = NULL;
    int size = symmcoll_group_size(group), right;
    struct model model;

    make_model(&model, rank);
    args.hook = sum_then_scale;
    right = symmcoll_reducer_create(
                group, model.params, NPARAMS, &args, &reducer) == SYMMCOLL_OK;
    fill_grads(&model, rank, size, 0);
    right = right && run_backward(reducer, &model, 1) == SYMMCOLL_OK;
    for (int p = 0; p < NPARAMS; p++)
        for (int i = 0; right && i < (int)count_of(&model.params[p]); i++) {
            float sum = 0;

            for (int r = 0; r < size; r++)
                sum += (float)size * term(r, p, i, 0);
            right = view_is(reducer, p, i, 5 * sum);
        }
    symmcoll_reducer_free(reducer);
    return right;
}

static symmcoll_status_t ask_for_the_impossible(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    (void)arg;
    return symmcoll_all_reduce(group, bucket->buffer, NULL, bucket->count,
        bucket->dtype, SYMMCOLL_SUM, NULL, work);
}

static int a_failing_hook_ends_the_backward(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = make_args(64);
    struct symmcoll_reducer *reducer = NULL;
    struct model model;
    int right;

    make_model(&model, rank);
    args.hook = ask_for_the_impossible;
    right = symmcoll_reducer_create(
                group, model.params, NPARAMS, &args, &reducer) == SYMMCOLL_OK &&
            run_backward(reducer, &model, 1) == SYMMCOLL_ERR_INVALID &&
            error_says("reducer: bucket 0 of 1: ") &&
            symmcoll_reducer_finish(reducer) == SYMMCOLL_ERR_INVALID &&
            symmcoll_reducer_begin(reducer, 0) == SYMMCOLL_OK;
    symmcoll_reducer_free(reducer);
    return right;
}

/* ---- mistakes of one rank ---- */

static int marking_twice_is_refused(struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_reducer *reducer = begin_test(group, rank, &model, 0);
    int right =
        reducer != NULL &&
        symmcoll_reducer_ready(reducer, 2, model.grads[2]) ==
            SYMMCOLL_ERR_INVALID &&
        error_says("no backward has begun") &&
        symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK &&
        symmcoll_reducer_ready(reducer, 2, model.grads[2]) == SYMMCOLL_OK &&
        symmcoll_reducer_ready(reducer, 2, model.grads[2]) ==
            SYMMCOLL_ERR_INVALID &&
        error_says("parameter 2 (fc2.weight)") && error_says("marked twice") &&
        symmcoll_reducer_ready(reducer, 4, model.grads[3]) ==
            SYMMCOLL_ERR_INVALID &&
        error_says("from 0 to 3, found 4");

    right = right && symmcoll_reducer_finish(reducer) == SYMMCOLL_ERR_INVALID;
    symmcoll_reducer_free(reducer);
    return right;
}

/* Parameter 2 without rank 1's gradient, parameter 3 with it. */
static int averages_lack_rank_1(
    struct symmcoll_reducer *reducer, int size, int step)
{
    float without = 0, with = 0;

    for (int r = 0; r < size; r++) {
        without += r == 1 ? 0 : term(r, 2, 5, step);
        with += term(r, 3, 3, step);
    }
    return view_is(reducer, 2, 5, without) && view_is(reducer, 3, 3, with);
}

/* Rank 1 passes NULL for one gradient, and something out of range later; what
 * it did right counts, and the others are not held up. */
static int refusals_are_told_by_finish(struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_reducer *reducer = begin_test(group, rank, &model, 64);
    int size = symmcoll_group_size(group), right = reducer != NULL;

    for (int step = 0; right && step < 4; step++) {
        int sync = step != 1; /* the rebuild comes in step 1, on all ranks */
        int refused = rank == 1 && step < 3;

        fill_grads(&model, rank, size, step);
        right = symmcoll_reducer_begin(reducer, sync) == SYMMCOLL_OK;
        for (int p = 0; right && p < NPARAMS; p++) {
            const void *grad = refused && p == 2 ? NULL : model.grads[p];

            right = (symmcoll_reducer_ready(reducer, p, grad) == SYMMCOLL_OK) ==
                    (grad != NULL);
        }
        if (refused)
            right = right &&
                    symmcoll_reducer_ready(reducer, 9, model.grads[0]) ==
                        SYMMCOLL_ERR_INVALID &&
                    symmcoll_reducer_finish(reducer) == SYMMCOLL_ERR_INVALID &&
                    error_says("a gradient was refused: ") &&
                    error_says("parameter 2 (fc2.weight)");
        else
            right = right && symmcoll_reducer_finish(reducer) == SYMMCOLL_OK;
        if (right && sync && step < 3)
            right = averages_lack_rank_1(reducer, size, step);
        symmcoll_reducer_zero(reducer);
    }
    symmcoll_reducer_free(reducer);
    return right;
}

static int an_unfinished_backward_is_named(
    struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_reducer *reducer = begin_test(group, rank, &model, 0);
    int right =
        reducer != NULL &&
        symmcoll_reducer_finish(reducer) == SYMMCOLL_ERR_INVALID &&
        symmcoll_reducer_begin(reducer, 0) == SYMMCOLL_OK &&
        symmcoll_reducer_ready(reducer, 0, model.grads[0]) == SYMMCOLL_OK &&
        symmcoll_reducer_ready(reducer, 2, model.grads[2]) == SYMMCOLL_OK &&
        symmcoll_reducer_begin(reducer, 0) == SYMMCOLL_ERR_INVALID &&
        error_says("parameter 1 (fc1.bias), parameter 3 (fc2.bias)") &&
        symmcoll_reducer_finish(reducer) == SYMMCOLL_OK &&
        symmcoll_reducer_begin(reducer, 0) == SYMMCOLL_OK;

    symmcoll_reducer_free(reducer);
    return right;
}

static int is_refused(struct symmcoll_group *group,
    const struct symmcoll_tensor *params, int nparams, const char *why)
{
    struct symmcoll_reducer *reducer = NULL;

    return symmcoll_reducer_create(group, params, nparams, NULL, &reducer) !=
               SYMMCOLL_OK &&
           reducer == NULL && error_says(why);
}

static int bad_parameters_are_refused(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = make_args(0);
    struct symmcoll_reducer *reducer = NULL;
    struct symmcoll_tensor bad = SYMMCOLL_TENSOR_INIT;
    struct model model;
    int right;

    make_model(&model, rank);
    right = is_refused(group, model.params, 0, "at least one parameter");
    bad = model.params[0];
    bad.data = NULL;
    right = right && is_refused(group, &bad, 1, "expected data");
    bad = model.params[0];
    bad.dtype = SYMMCOLL_INT32;
    right = right && is_refused(group, &bad, 1, "int32");
    bad = model.params[0];
    bad.shape[1] = -4;
    right = right && is_refused(group, &bad, 1, "[8, -4]");
    bad = model.params[0];
    bad.strides[0] = 3;
    right = right && is_refused(group, &bad, 1, "overlap");
    bad = model.params[0];
    bad.ndim = 9;
    right = right && is_refused(group, &bad, 1, "found 9");
    bad = model.params[0];
    bad.device = SYMMCOLL_CUDA;
    right = right && is_refused(group, &bad, 1, "host memory");
    bad = model.params[0];
    bad.device_index = 3;
    right = right && is_refused(group, &bad, 1, "device index 0");
    model.params[2].data = model.params[0].data;
    right = right && is_refused(group, model.params, NPARAMS,
                         "shares memory with parameter 0");
    args.size = 1;
    right = right && symmcoll_reducer_create(group, model.params, 2, &args,
                         &reducer) == SYMMCOLL_ERR_INVALID;
    return right;
}

/* ---- ranks that differ ---- */

/* Whether every rank gets the error, its parameters are as they were, and the
 * group still works. */
static int differs(struct symmcoll_group *group, int rank, struct model *model,
    int nparams, const char *why)
{
    struct symmcoll_reducer_args args = make_args(0);
    struct symmcoll_reducer *reducer = NULL;
    int32_t one = 1, size = 0;

    return symmcoll_reducer_create(group, model->params, nparams, &args,
               &reducer) == SYMMCOLL_ERR_MISMATCH &&
           reducer == NULL && error_says(why) &&
           model->values[0][1] == (float)(1000 * rank + 1) &&
           model->values[3][3] == (float)(1000 * rank + 303) &&
           symmcoll_all_reduce(group, &size, &one, 1, SYMMCOLL_INT32,
               SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK &&
           size == symmcoll_group_size(group);
}

static int another_count_names_its_rank(struct symmcoll_group *group, int rank)
{
    struct model model;

    make_model(&model, rank);
    return differs(
        group, rank, &model, rank == 1 ? 3 : 4, "rank 1 has 3, rank 0 has 4");
}

static int another_shape_names_its_rank(struct symmcoll_group *group, int rank)
{
    struct model model;

    make_model(&model, rank);
    if (rank == 2)
        model.params[2] = matrix(model.values[2], SYMMCOLL_FLOAT32, 8, 4);
    return differs(group, rank, &model, NPARAMS,
        "reducer: parameter 2 (fc2.weight): rank 2 has shape [8, 4], rank 0 "
        "has [4, 8]");
}

static int other_strides_name_their_rank(struct symmcoll_group *group, int rank)
{
    struct model model;

    make_model(&model, rank);
    if (rank == 1) {
        model.params[0].strides[0] = 1;
        model.params[0].strides[1] = 8;
    }
    return differs(group, rank, &model, NPARAMS,
        "parameter 0 (fc1.weight): rank 1 has strides [1, 8], rank 0 has "
        "[4, 1]");
}

static int another_type_names_its_rank(struct symmcoll_group *group, int rank)
{
    struct model model;

    make_model(&model, rank);
    if (rank == 2)
        model.params[1] = vector(model.values[1], SYMMCOLL_FLOAT64, 8);
    return differs(group, rank, &model, NPARAMS,
        "parameter 1 (fc1.bias): rank 2 has element type float64, rank 0 has "
        "float32");
}

/* ---- times ---- */

static int times_are_told(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_times times = {.size = sizeof(times)};
    struct model model;
    struct symmcoll_reducer *reducer = begin_test(group, rank, &model, 0);
    int right = reducer != NULL &&
                symmcoll_reducer_get_times(reducer, &times) == SYMMCOLL_OK &&
                times.backward == 0.0 &&
                run_backward(reducer, &model, 1) == SYMMCOLL_OK &&
                symmcoll_reducer_get_times(reducer, &times) == SYMMCOLL_OK &&
                times.size == sizeof(times) && times.backward > 0.0 &&
                times.comm > 0.0 && times.exposed > 0.0;

    times.size = sizeof(times.size) - 1;
    right = right &&
            symmcoll_reducer_get_times(reducer, &times) == SYMMCOLL_ERR_INVALID;
    symmcoll_reducer_free(reducer);
    return right;
}

static int two_reducers_share_parameters(struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_reducer *first = begin_test(group, rank, &model, 64);
    struct symmcoll_reducer *second;
    int size = symmcoll_group_size(group), right = first != NULL;

    fill_grads(&model, rank, size, 1);
    right = right && run_backward(first, &model, 1) == SYMMCOLL_OK;
    symmcoll_reducer_free(first);
    second = begin_test(group, rank, &model, 64);
    fill_grads(&model, rank, size, 1);
    right = right && second != NULL &&
            run_backward(second, &model, 1) == SYMMCOLL_OK &&
            views_hold(second, &model, size, 1, 1);
    symmcoll_reducer_free(second);
    return right;
}

struct point {
    rank_fn body;
    int ranks;
    const char *sentence;
};

static const struct point points[] = {
    {parameters_become_those_of_rank_0, 3, "parameters become rank 0's"},
    {without_init_sync_parameters_stay, 2,
        "without initial synchronisation parameters stay, nothing is sent"},
    {strided_parameters_are_broadcast, 2,
        "of a parameter with gaps only its elements are broadcast"},
    {gradients_are_averaged, 1, "one rank averages with itself"},
    {gradients_are_averaged, 4, "gradients are averaged over four ranks"},
    {unsynchronised_backwards_accumulate, 2,
        "backwards without synchronisation accumulate and send nothing"},
    {averages_add_up, 2, "without zeroing averages add up"},
    {unmarked_parameters_count_as_zeros, 3,
        "a rank that marks nothing takes part with zeros"},
    {buckets_are_rebuilt_once, 3,
        "buckets are rebuilt once, in rank 0's order of arrival"},
    {views_have_the_strides_of_parameters, 2,
        "a view has its parameter's strides"},
    {channels_last_is_an_order, 2,
        "a view has the strides of a parameter with channels last"},
    {complex_gradients_are_averaged, 3, "complex gradients are averaged"},
    {types_keep_to_themselves, 4,
        "each type has its buckets, and half precision does not overflow"},
    {gradients_may_live_in_the_buckets, 2,
        "gradients may live in the buckets, and nowhere else then"},
    {views_accumulate_without_synchronisation, 2,
        "gradients that live in the buckets accumulate there too"},
    {what_a_hook_leaves_is_the_gradient, 2,
        "what a hook leaves in a bucket is the gradient"},
    {the_all_reduce_hook_averages, 4, "the all_reduce hook averages"},
    {a_hook_may_change_its_sum, 2,
        "a hook may change the sum before it is the gradient"},
    {a_failing_hook_ends_the_backward, 2,
        "a hook's failure is the backward's, and another may begin"},
    {marking_twice_is_refused, 2, "a gradient marked twice is refused by name"},
    {refusals_are_told_by_finish, 3,
        "a gradient refused on one rank is told by its finish alone"},
    {an_unfinished_backward_is_named, 2,
        "a backward begun too early names the gradients that did not come"},
    {bad_parameters_are_refused, 1, "bad parameters are refused"},
    {another_count_names_its_rank, 3,
        "a differing number of parameters names its rank on all"},
    {another_shape_names_its_rank, 3,
        "a differing shape names its rank and both shapes on all"},
    {other_strides_name_their_rank, 2,
        "differing strides name their rank on all"},
    {another_type_names_its_rank, 3,
        "a differing element type names its rank on all"},
    {times_are_told, 2, "the times of a backward are told"},
    {two_reducers_share_parameters, 2,
        "after a reducer is freed another takes its parameters"},
};

int main(void)
{
    const int npoints = (int)(sizeof(points) / sizeof(points[0]));

    plan(2 * npoints);
    for (int i = 0; i < npoints; i++) {
        ok(ranks_run(points[i].ranks, points[i].body), "processes: %s",
            points[i].sentence);
        ok(threads_run(points[i].ranks, points[i].body), "threads: %s",
            points[i].sentence);
    }
    return done_testing();
}
