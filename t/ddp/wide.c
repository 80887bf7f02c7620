/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests averages in float32 of 16-bit parameters, with reduce_dtype. The
 * ranks' gradients are 1 and some multiples of 2^-7, the last bit of a
 * bfloat16, so that sums and averages of 2 or 4 ranks are exact in float32 and
 * not in bfloat16.
 */
#include "model.h"

#include "base/reduce.h"

#include <stdbool.h>
#include <string.h>

#define PARAMS 3
#define COUNT 24

static const enum symmcoll_dtype dtypes[PARAMS] = {
    SYMMCOLL_BFLOAT16, SYMMCOLL_FLOAT32, SYMMCOLL_FLOAT16};

struct wide {
    float values[PARAMS][COUNT]; /* some have 16-bit elements */
    float grads[PARAMS][COUNT];
    struct symmcoll_tensor params[PARAMS];
    struct symmcoll_reducer *reducer;
    bool views, write_back;
    int rank, size;
};

static symmcoll_status_t create(struct symmcoll_group *group, int rank,
    const struct symmcoll_reducer_args *given, struct wide *wide)
{
    struct symmcoll_reducer_args args = *given;
    void *grads[PARAMS];

    *wide = (struct wide){.rank = rank,
        .size = symmcoll_group_size(group),
        .views = args.gradient_as_bucket_view != 0,
        .write_back = args.write_back != 0};
    for (int p = 0; p < PARAMS; p++) {
        wide->params[p] = model_matrix(wide->values[p], dtypes[p], 6, 4);
        grads[p] = wide->grads[p];
    }
    wide->params[2].strides[0] = 1; /* columns */
    wide->params[2].strides[1] = 6;
    if (args.write_back)
        args.grads = grads;
    args.bucket_cap = 100;
    return symmcoll_reducer_create(
        group, wide->params, PARAMS, &args, &wide->reducer);
}

static float term(int rank, int i, int step)
{
    return 1.0f + (float)((3 * rank + i + 5 * step) % 64) / 128;
}

static void put(enum symmcoll_dtype dtype, void *at, int i, float value)
{
    if (dtype == SYMMCOLL_FLOAT32)
        ((float *)at)[i] = value;
    else
        ((uint16_t *)at)[i] = dtype == SYMMCOLL_BFLOAT16
                                  ? symc_float_to_bfloat16(value)
                                  : symc_float_to_half(value);
}

static float get(enum symmcoll_dtype dtype, const void *at, int i)
{
    if (dtype == SYMMCOLL_FLOAT32)
        return ((const float *)at)[i];
    return dtype == SYMMCOLL_BFLOAT16
               ? symc_bfloat16_to_float(((const uint16_t *)at)[i])
               : symc_half_to_float(((const uint16_t *)at)[i]);
}

/* Passes a gradient; in views backward accumulates. */
static symmcoll_status_t pass(struct wide *wide, int p, int step)
{
    struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;
    symmcoll_status_t status = symmcoll_reducer_grad(wide->reducer, p, &view);

    for (int i = 0; status == SYMMCOLL_OK && i < COUNT; i++) {
        float value = term(wide->rank, i, step);

        if (wide->views)
            ((float *)view.data)[i] += value;
        else
            put(dtypes[p], wide->grads[p], i, value);
    }
    return status == SYMMCOLL_OK ? symmcoll_reducer_ready(wide->reducer, p,
                                       wide->views ? view.data : wide->grads[p])
                                 : status;
}

static symmcoll_status_t run_pass(struct wide *wide, int sync, int step)
{
    symmcoll_status_t status = symmcoll_reducer_begin(wide->reducer, sync);

    for (int p = 0; status == SYMMCOLL_OK && p < PARAMS; p++)
        status = pass(wide, p, step);
    return status == SYMMCOLL_OK ? symmcoll_reducer_finish(wide->reducer)
                                 : status;
}

/* Checks that averages are those of steps first to last, in float32. */
static bool hold(struct wide *wide, int first, int last)
{
    for (int p = 0; p < PARAMS; p++) {
        struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;

        if (symmcoll_reducer_grad(wide->reducer, p, &view) != SYMMCOLL_OK ||
            view.dtype != SYMMCOLL_FLOAT32 ||
            view.strides[1] != wide->params[p].strides[1])
            return false;
        for (int i = 0; i < COUNT; i++) {
            float sum = 0, found = ((float *)view.data)[i];
            uint16_t rounded[1] = {0};
            float wanted;

            for (int step = first; step <= last; step++)
                for (int r = 0; r < wide->size; r++)
                    sum += term(r, i, step);
            sum /= (float)wide->size;
            wanted = sum;
            if (dtypes[p] != SYMMCOLL_FLOAT32) {
                put(dtypes[p], rounded, 0, sum);
                wanted = get(dtypes[p], rounded, 0);
            }
            if (found == sum &&
                (!wide->write_back ||
                    get(dtypes[p], wide->grads[p], i) == wanted))
                continue;
            diag("parameter %d, element %d: expected %.9g, found %.9g", p, i,
                (double)sum, (double)found);
            return false;
        }
    }
    return true;
}

static bool run_steps(struct symmcoll_group *group, int rank,
    const struct symmcoll_reducer_args *given)
{
    struct symmcoll_reducer_args args = *given;
    struct wide wide;
    bool right;

    args.reduce_dtype = SYMMCOLL_FLOAT32;
    right = create(group, rank, &args, &wide) == SYMMCOLL_OK;
    for (int step = 0; right && step < 3; step++) {
        symmcoll_reducer_zero(wide.reducer);
        right =
            run_pass(&wide, 1, step) == SYMMCOLL_OK && hold(&wide, step, step);
    }
    symmcoll_reducer_zero(wide.reducer);
    for (int step = 0; right && !wide.write_back && step < 4; step++)
        right = run_pass(&wide, step == 3, step) == SYMMCOLL_OK;
    right = right && (wide.write_back || hold(&wide, 0, 3));
    if (!right)
        diag("%s", symmcoll_last_error());
    symmcoll_reducer_free(wide.reducer);
    return right;
}

static int averages_are_float32(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;

    return run_steps(group, rank, &args);
}

static int so_are_views(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;

    args.gradient_as_bucket_view = 1;
    return run_steps(group, rank, &args);
}

static int they_are_rounded_once(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;

    args.write_back = 1;
    return run_steps(group, rank, &args);
}

static int hooks_have_float32(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;

    args.hook = symmcoll_hook_all_reduce;
    return run_steps(group, rank, &args);
}

/* Checks that without the option the average of two ranks is rounded, so that
 * the test can fail. */
static int else_they_are_not(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;
    struct wide wide;
    bool right = create(group, rank, &args, &wide) == SYMMCOLL_OK &&
                 run_pass(&wide, 1, 0) == SYMMCOLL_OK &&
                 symmcoll_reducer_grad(wide.reducer, 0, &view) == SYMMCOLL_OK &&
                 view.dtype == SYMMCOLL_BFLOAT16 &&
                 get(SYMMCOLL_BFLOAT16, view.data, 0) !=
                     (term(0, 0, 0) + term(1, 0, 0)) / 2;

    symmcoll_reducer_free(wide.reducer);
    return right;
}

static int other_types_are_refused(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct wide wide;
    bool right;

    args.reduce_dtype = SYMMCOLL_FLOAT64;
    right = create(group, rank, &args, &wide) == SYMMCOLL_ERR_UNSUPPORTED &&
            model_error_says("reduce_dtype: expected float32");
    args.reduce_dtype = rank == 1 ? SYMMCOLL_FLOAT32 : SYMMCOLL_UINT8;
    return right &&
           create(group, rank, &args, &wide) == SYMMCOLL_ERR_MISMATCH &&
           model_error_says("reducer: reduce_dtype: rank 1 has ");
}

static const struct model_point points[] = {
    {averages_are_float32, 2,
        "D44: gradients of 16 bits are added and averaged in float32"},
    {averages_are_float32, 4, "D44: so are those of four ranks"},
    {so_are_views, 2, "D44: so are those that are in the buckets"},
    {they_are_rounded_once, 2,
        "D44: averages that are written back are rounded once"},
    {hooks_have_float32, 2, "D44: hooks have buckets of float32"},
    {else_they_are_not, 2, "without the option averages have their type"},
    {other_types_are_refused, 2,
        "another type is refused, and a rank with another one is named"},
};

int main(void)
{
    return model_run_points(points, sizeof(points) / sizeof(points[0]));
}
