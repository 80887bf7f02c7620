/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests gradients that are passed as tensors: with any strides, and what is
 * refused.  Gradients are small integers times the number of ranks, so that every
 * average is exact.
 */
#include "model.h"

#include <string.h>

#define ROWS 2
#define CHANNELS 3
#define WIDTH 4
#define COUNT (ROWS * CHANNELS * WIDTH)

/* Returns a tensor of three dimensions whose strides are in the order of dims, the
 * largest first. */
static struct symmcoll_tensor cube(float *data, const int *dims)
{
    struct symmcoll_tensor tensor = {.size = sizeof(tensor),
        .data = data,
        .dtype = SYMMCOLL_FLOAT32,
        .ndim = 3,
        .shape = {ROWS, CHANNELS, WIDTH}};
    int64_t stride = 1;

    for (int d = 2; d >= 0; d--) {
        tensor.strides[dims[d]] = stride;
        stride *= tensor.shape[dims[d]];
    }
    return tensor;
}

static const int row_major[] = {0, 1, 2}, channels_last[] = {0, 2, 1},
                 reversed[] = {2, 1, 0};

static float *element(const struct symmcoll_tensor *tensor, int i)
{
    int row = i / (CHANNELS * WIDTH), channel = i / WIDTH % CHANNELS,
        column = i % WIDTH;

    return (float *)tensor->data + row * tensor->strides[0] +
           channel * tensor->strides[1] + column * tensor->strides[2];
}

/* Runs a local pass and one that averages, twice. */
static int averages(struct symmcoll_group *group, int rank, const int *of_param,
    const int *of_grad, const struct symmcoll_reducer_args *args)
{
    float values[COUNT] = {0}, grads[COUNT];
    struct symmcoll_tensor param = cube(values, of_param),
                           grad = cube(grads, of_grad),
                           view = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_reducer *reducer = NULL;
    int size = symmcoll_group_size(group), right;

    right = symmcoll_reducer_create(group, &param, 1, args, &reducer) ==
            SYMMCOLL_OK;
    for (int pass = 0; right && pass < 4; pass++) {
        int sync = pass % 2;

        for (int i = 0; i < COUNT; i++)
            *element(&grad, i) = (float)size * model_term(rank, 0, i, pass);
        right =
            symmcoll_reducer_begin(reducer, sync) == SYMMCOLL_OK &&
            symmcoll_reducer_ready_tensor(reducer, 0, &grad) == SYMMCOLL_OK &&
            symmcoll_reducer_finish(reducer) == SYMMCOLL_OK &&
            symmcoll_reducer_grad(reducer, 0, &view) == SYMMCOLL_OK;
        for (int i = 0; right && sync && i < COUNT; i++) {
            float sum = 0;

            for (int r = 0; r < size; r++)
                sum +=
                    model_term(r, 0, i, pass) + model_term(r, 0, i, pass - 1);
            right = *element(&view, i) == sum;
        }
        if (sync)
            symmcoll_reducer_zero(reducer);
    }
    if (!right)
        diag("%s", symmcoll_last_error());
    symmcoll_reducer_free(reducer);
    return right;
}

static int any_strides(struct symmcoll_group *group, int rank)
{
    const int *orders[] = {row_major, channels_last, reversed};
    int right = 1;

    for (int p = 0; p < 3; p++)
        for (int g = 0; g < 3; g++)
            right = right && averages(group, rank, orders[p], orders[g], NULL);
    return right;
}

/* Passes tensors with the strides of the parameters, in the caller's memory or in
 * the buckets. */
static int same_strides(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_reducer *reducer = NULL;
    struct model model;
    int size = symmcoll_group_size(group), right;

    model_make(&model, rank);
    args.gradient_as_bucket_view = 1;
    right = symmcoll_reducer_create(group, model.params, MODEL_PARAMS, &args,
                &reducer) == SYMMCOLL_OK;
    for (int step = 0; right && step < 3; step++) {
        model_fill(&model, rank, size, step);
        right = symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK;
        for (int p = 0; right && p < MODEL_PARAMS; p++) {
            struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;

            right = symmcoll_reducer_grad(reducer, p, &view) == SYMMCOLL_OK;
            memcpy(
                view.data, model.grads[p], model_count(&view) * sizeof(float));
            right = right && symmcoll_reducer_ready_tensor(reducer, p, &view) ==
                                 SYMMCOLL_OK;
        }
        right = right && symmcoll_reducer_finish(reducer) == SYMMCOLL_OK &&
                model_views_hold(reducer, &model, size, step, step);
        symmcoll_reducer_zero(reducer);
    }
    symmcoll_reducer_free(reducer);
    return right;
}

/* ---- what is refused ---- */

/* Passes one tensor, which is refused here and in finish, and not on the other
 * ranks, which average it as zeros. */
static int is_refused(struct symmcoll_group *group, int rank,
    const struct symmcoll_reducer_args *args, const struct symmcoll_tensor *bad,
    const char *text)
{
    static _Thread_local float values[COUNT], grads[COUNT];
    struct symmcoll_tensor param = cube(values, row_major),
                           grad = cube(grads, row_major),
                           view = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_reducer *reducer = NULL;
    symmcoll_status_t expected = rank == 1 ? SYMMCOLL_ERR_INVALID : SYMMCOLL_OK;
    int right;

    for (int i = 0; i < COUNT; i++)
        grads[i] = 6.0f;
    right = symmcoll_reducer_create(group, &param, 1, args, &reducer) ==
                SYMMCOLL_OK &&
            symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK;
    if (args->gradient_as_bucket_view && rank != 1) {
        right =
            right && symmcoll_reducer_grad(reducer, 0, &view) == SYMMCOLL_OK;
        memcpy(view.data, grads, sizeof(grads));
        grad = view;
    }
    right = right &&
            symmcoll_reducer_ready_tensor(
                reducer, 0, rank == 1 ? bad : &grad) == expected &&
            (rank != 1 || model_error_says(text));
    right = right && symmcoll_reducer_finish(reducer) == expected &&
            (rank != 1 || model_error_says(text)) &&
            symmcoll_reducer_grad(reducer, 0, &view) == SYMMCOLL_OK &&
            ((float *)view.data)[COUNT - 1] == 3.0f;
    symmcoll_reducer_free(reducer);
    return right;
}

static int bad_tensors(struct symmcoll_group *group, int rank)
{
    static _Thread_local float grads[COUNT];
    struct symmcoll_reducer_args args = model_args(0);
    struct symmcoll_tensor bad = cube(grads, row_major);
    int right;

    args.names = NULL;
    bad.shape[0] = CHANNELS;
    bad.shape[1] = ROWS;
    right = is_refused(group, rank, &args, &bad,
        "parameter 0: expected a gradient of shape [2, 3, 4], found "
        "[3, 2, 4]");
    bad = cube(grads, row_major);
    bad.dtype = SYMMCOLL_INT32;
    right = right && is_refused(group, rank, &args, &bad,
                         "expected a gradient of float32, found int32");
    bad = cube(grads, row_major);
    bad.strides[0] = 0;
    right = right &&
            is_refused(group, rank, &args, &bad, "elements overlap in memory");
    bad = cube(NULL, row_major);
    return right && is_refused(group, rank, &args, &bad,
                        "expected data for shape [2, 3, 4], found NULL");
}

static int kept_memory_has_strides(struct symmcoll_group *group, int rank)
{
    static _Thread_local float grads[COUNT];
    struct symmcoll_reducer_args args = model_args(0);
    struct symmcoll_tensor bad = cube(grads, reversed);

    args.names = NULL;
    args.gradient_as_bucket_view = 1;
    return is_refused(group, rank, &args, &bad,
        "expected the strides [12, 4, 1] with gradient_as_bucket_view, found "
        "[1, 2, 6]");
}

static int bad_calls(struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_reducer *reducer = model_begin(group, rank, &model, 64);
    int right = reducer != NULL &&
                symmcoll_reducer_ready_tensor(reducer, 0, NULL) ==
                    SYMMCOLL_ERR_INVALID &&
                symmcoll_reducer_ready_tensor(NULL, 0, model.params) ==
                    SYMMCOLL_ERR_INVALID &&
                symmcoll_reducer_ready_tensor(reducer, 0, model.params) ==
                    SYMMCOLL_ERR_INVALID &&
                model_error_says("no backward has begun") &&
                symmcoll_reducer_ready_tensor(reducer, MODEL_PARAMS,
                    model.params) == SYMMCOLL_ERR_INVALID;

    symmcoll_reducer_free(reducer);
    return right;
}

static const struct model_point points[] = {
    {any_strides, 2, "D15: gradients with other strides are averaged"},
    {any_strides, 4, "D15: so are those of four ranks"},
    {same_strides, 3, "D15: a view is passed as a tensor"},
    {bad_tensors, 2, "D15: another shape, type or memory is refused"},
    {kept_memory_has_strides, 2,
        "D15: other strides are refused where the memory is kept"},
    {bad_calls, 2, "a tensor outside a backward is refused"},
};

int main(void)
{
    return model_run_points(points, sizeof(points) / sizeof(points[0]));
}
