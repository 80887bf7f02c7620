/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests buckets of the gradient reducer, and views of gradients in them. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

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

/* Rank 0 passes its gradients last parameter first, the others in the opposite
 * order. */
static int buckets_are_rebuilt_once(struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_reducer *reducer = model_begin(group, rank, &model, 48);
    int size = symmcoll_group_size(group), right = reducer != NULL;

    right = right && symmcoll_reducer_bucket_count(reducer) == 1 &&
            bucket_holds(reducer, 0, 4, 0);
    model_fill(&model, rank, size, 0);
    right = right && symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK;
    for (int i = 0; right && i < MODEL_PARAMS; i++) {
        int p = rank == 0 ? MODEL_PARAMS - 1 - i : i;

        right =
            symmcoll_reducer_ready(reducer, p, model.grads[p]) == SYMMCOLL_OK;
    }
    right = right && symmcoll_reducer_finish(reducer) == SYMMCOLL_OK &&
            symmcoll_reducer_bucket_count(reducer) == 1;
    /* Begin rebuilds the buckets and moves the averages. */
    right = right && symmcoll_reducer_begin(reducer, 0) == SYMMCOLL_OK &&
            symmcoll_reducer_finish(reducer) == SYMMCOLL_OK &&
            model_views_hold(reducer, &model, size, 0, 0) &&
            symmcoll_reducer_bucket_count(reducer) == 2 &&
            bucket_holds(reducer, 0, 2, 3) && bucket_holds(reducer, 1, 2, 1);
    symmcoll_reducer_zero(reducer);
    model_fill(&model, rank, size, 7);
    right = right && model_run_backward(reducer, &model, 1) == SYMMCOLL_OK &&
            model_views_hold(reducer, &model, size, 7, 7) &&
            symmcoll_reducer_bucket_count(reducer) == 2;
    symmcoll_reducer_free(reducer);
    return right;
}

static int views_have_the_strides_of_parameters(
    struct symmcoll_group *group, int rank)
{
    double columns[6] = {0};
    uint16_t halves[4] = {0};
    struct symmcoll_tensor params[2] = {
        model_matrix(columns, SYMMCOLL_FLOAT64, 2, 3),
        model_vector(halves, SYMMCOLL_FLOAT16, 4)};
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

/* Uses images, channels, rows and columns, with the channels of a pixel
 * adjacent. */
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
        right = model_view_is(
            reducer, 0, i, (float)(size * i + size * (size - 1) / 2));
    symmcoll_reducer_free(reducer);
    return right;
}

static int complex_gradients_are_averaged(
    struct symmcoll_group *group, int rank)
{
    float single[4] = {0};
    double twice[2] = {0};
    struct symmcoll_tensor params[] = {
        model_vector(single, SYMMCOLL_COMPLEX64, 2),
        model_vector(twice, SYMMCOLL_COMPLEX128, 1)};
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
        right = model_view_is(reducer, 0, i, sum + (float)(size * i));
    symmcoll_reducer_free(reducer);
    return right;
}

/* Uses 2^15 in half precision, 3 in bfloat16, and one each of all other float
 * types. */
static int types_keep_to_themselves(struct symmcoll_group *group, int rank)
{
    uint16_t half[2] = {0}, brain[2] = {0};
    float single[2] = {0};
    double twice[2] = {0};
    struct symmcoll_tensor params[] = {model_vector(half, SYMMCOLL_FLOAT16, 2),
        model_vector(brain, SYMMCOLL_BFLOAT16, 2),
        model_vector(single, SYMMCOLL_FLOAT32, 2),
        model_vector(twice, SYMMCOLL_FLOAT64, 2)};
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

/* Checks gradient_as_bucket_view: backward writes directly into the bucket. */
static int gradients_may_live_in_the_buckets(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_reducer *reducer = NULL;
    int size = symmcoll_group_size(group), right;
    struct symmcoll_tensor grad = SYMMCOLL_TENSOR_INIT;
    struct model model;

    model_make(&model, rank);
    args.gradient_as_bucket_view = 1;
    right = symmcoll_reducer_create(group, model.params, MODEL_PARAMS, &args,
                &reducer) == SYMMCOLL_OK;
    for (int step = 0; right && step < 3; step++) {
        right = symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK;
        for (int p = MODEL_PARAMS - 1; right && p >= 0; p--) {
            right = symmcoll_reducer_grad(reducer, p, &grad) == SYMMCOLL_OK;
            for (int i = 0; right && i < (int)model_count(&grad); i++)
                ((float *)grad.data)[i] +=
                    (float)size * model_term(rank, p, i, step);
            right = right && symmcoll_reducer_ready(reducer, p, grad.data) ==
                                 SYMMCOLL_OK;
        }
        right = right && symmcoll_reducer_finish(reducer) == SYMMCOLL_OK &&
                model_views_hold(reducer, &model, size, step, step);
        symmcoll_reducer_zero(reducer);
    }
    right = right && symmcoll_reducer_begin(reducer, 0) == SYMMCOLL_OK &&
            symmcoll_reducer_ready(reducer, 0, model.grads[0]) ==
                SYMMCOLL_ERR_INVALID &&
            model_error_says("parameter 0 (fc1.weight): expected the view");
    symmcoll_reducer_free(reducer);
    return right;
}

/* Runs two backwards without synchronisation, then one that synchronises. */
static int views_accumulate_without_synchronisation(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_reducer *reducer = NULL;
    int size = symmcoll_group_size(group), right;
    struct symmcoll_tensor grad = SYMMCOLL_TENSOR_INIT;
    struct model model;

    model_make(&model, rank);
    args.gradient_as_bucket_view = 1;
    right = symmcoll_reducer_create(group, model.params, MODEL_PARAMS, &args,
                &reducer) == SYMMCOLL_OK;
    for (int step = 0; right && step < 6; step++) {
        uint64_t before = symmcoll_group_sequence(group);
        int sync = step % 3 == 2;

        right = symmcoll_reducer_begin(reducer, sync) == SYMMCOLL_OK;
        for (int p = MODEL_PARAMS - 1; right && p >= 0; p--) {
            right = symmcoll_reducer_grad(reducer, p, &grad) == SYMMCOLL_OK;
            for (int i = 0; right && i < (int)model_count(&grad); i++)
                ((float *)grad.data)[i] +=
                    (float)size * model_term(rank, p, i, step);
            right = right && symmcoll_reducer_ready(reducer, p, grad.data) ==
                                 SYMMCOLL_OK;
        }
        right = right && symmcoll_reducer_finish(reducer) == SYMMCOLL_OK;
        if (!sync) /* step 3 rebuilds the buckets */
            right = right && symmcoll_group_sequence(group) ==
                                 before + (step == 3 ? MODEL_REBUILD : 0);
        else
            right = right &&
                    model_views_hold(reducer, &model, size, step - 2, step);
        if (sync)
            symmcoll_reducer_zero(reducer);
    }
    symmcoll_reducer_free(reducer);
    return right;
}

static const struct model_point points[] = {
    {buckets_are_rebuilt_once, 3,
        "buckets are rebuilt once, in rank 0's order of arrival"},
    {views_have_the_strides_of_parameters, 2,
        "a view has its parameter's strides"},
    {channels_last_is_an_order, 2,
        "a view has the strides of a parameter with channels last (T10)"},
    {complex_gradients_are_averaged, 3, "complex gradients are averaged"},
    {types_keep_to_themselves, 4,
        "each type has its buckets, and half precision does not overflow"},
    {gradients_may_live_in_the_buckets, 2,
        "gradients may live in the buckets, and nowhere else then"},
    {views_accumulate_without_synchronisation, 2,
        "gradients that live in the buckets accumulate there too"},
};

int main(void)
{
    return model_run_points(points, sizeof(points) / sizeof(points[0]));
}
