/* SPDX-License-Identifier: BSD-3-Clause */
/* Implements model.h. */
#include "model.h"

#include <string.h>

const char *const model_names[MODEL_PARAMS] = {
    "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};

struct symmcoll_tensor model_matrix(
    void *data, enum symmcoll_dtype dtype, int64_t rows, int64_t columns)
{
    return (struct symmcoll_tensor){sizeof(struct symmcoll_tensor), data, dtype,
        SYMMCOLL_HOST, 0, 2, {rows, columns}, {columns, 1}};
}

struct symmcoll_tensor model_vector(
    void *data, enum symmcoll_dtype dtype, int64_t count)
{
    return (struct symmcoll_tensor){sizeof(struct symmcoll_tensor), data, dtype,
        SYMMCOLL_HOST, 0, 1, {count}, {1}};
}

void model_make(struct model *model, int rank)
{
    memset(model, 0, sizeof(*model));
    for (int p = 0; p < MODEL_PARAMS; p++)
        for (int i = 0; i < 32; i++)
            model->values[p][i] = (float)(1000 * rank + 100 * p + i);
    model->params[0] = model_matrix(model->values[0], SYMMCOLL_FLOAT32, 8, 4);
    model->params[1] = model_vector(model->values[1], SYMMCOLL_FLOAT32, 8);
    model->params[2] = model_matrix(model->values[2], SYMMCOLL_FLOAT32, 4, 8);
    model->params[3] = model_vector(model->values[3], SYMMCOLL_FLOAT32, 4);
}

size_t model_count(const struct symmcoll_tensor *tensor)
{
    size_t count = 1;

    for (int d = 0; d < tensor->ndim; d++)
        count *= (size_t)tensor->shape[d];
    return count;
}

uint64_t model_mix(uint64_t value)
{
    value += 0x9e3779b97f4a7c15;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
}

float model_term(int rank, int param, int i, int step)
{
    return (float)((rank + 1) * (param + 1) + i + 5 * step);
}

void model_fill(struct model *model, int rank, int size, int step)
{
    for (int p = 0; p < MODEL_PARAMS; p++)
        for (int i = 0; i < 32; i++)
            model->grads[p][i] = (float)size * model_term(rank, p, i, step);
}

int model_view_is(
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

int model_views_hold(struct symmcoll_reducer *reducer,
    const struct model *model, int size, int first, int last)
{
    for (int p = 0; p < MODEL_PARAMS; p++)
        for (int i = 0; i < (int)model_count(&model->params[p]); i++) {
            float sum = 0;

            for (int step = first; step <= last; step++)
                for (int r = 0; r < size; r++)
                    sum += model_term(r, p, i, step);
            if (!model_view_is(reducer, p, i, sum))
                return 0;
        }
    return 1;
}

symmcoll_status_t model_run_backward(
    struct symmcoll_reducer *reducer, struct model *model, int sync)
{
    symmcoll_status_t status = symmcoll_reducer_begin(reducer, sync);

    for (int p = MODEL_PARAMS - 1; status == SYMMCOLL_OK && p >= 0; p--)
        status = symmcoll_reducer_ready(reducer, p, model->grads[p]);
    return status == SYMMCOLL_OK ? symmcoll_reducer_finish(reducer) : status;
}

int model_error_says(const char *text)
{
    if (strstr(symmcoll_last_error(), text) != NULL)
        return 1;
    diag("expected \"%s\" in \"%s\"", text, symmcoll_last_error());
    return 0;
}

struct symmcoll_reducer_args model_args(size_t cap)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;

    args.bucket_cap = cap;
    args.names = model_names;
    return args;
}

struct symmcoll_reducer *model_begin(
    struct symmcoll_group *group, int rank, struct model *model, size_t cap)
{
    struct symmcoll_reducer_args args = model_args(cap);
    struct symmcoll_reducer *reducer;

    model_make(model, rank);
    if (symmcoll_reducer_create(
            group, model->params, MODEL_PARAMS, &args, &reducer) == SYMMCOLL_OK)
        return reducer;
    diag("%s", symmcoll_last_error());
    return NULL;
}

int model_run_points(const struct model_point *points, size_t npoints)
{
    plan(2 * (int)npoints);
    for (size_t i = 0; i < npoints; i++) {
        ok(ranks_run(points[i].ranks, points[i].body), "processes: %s",
            points[i].sentence);
        ok(threads_run(points[i].ranks, points[i].body), "threads: %s",
            points[i].sentence);
    }
    return done_testing();
}
