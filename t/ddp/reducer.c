/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the gradient reducer: parameters, averages, accumulation, times. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

/* ---- basic functions ---- */

static int parameters_become_those_of_rank_0(
    struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_reducer *reducer = model_begin(group, rank, &model, 0);
    int right = reducer != NULL;

    for (int p = 0; p < MODEL_PARAMS; p++)
        for (int i = 0; i < (int)model_count(&model.params[p]); i++)
            right = right && model.values[p][i] == (float)(100 * p + i);
    symmcoll_reducer_free(reducer);
    return right;
}

static int without_init_sync_parameters_stay(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(0);
    struct symmcoll_reducer *reducer = NULL;
    uint64_t before = symmcoll_group_sequence(group);
    struct model model;
    int right;

    model_make(&model, rank);
    args.no_init_sync = 1;
    right = symmcoll_reducer_create(group, model.params, MODEL_PARAMS, &args,
                &reducer) == SYMMCOLL_OK &&
            model.values[1][3] == (float)(1000 * rank + 103) &&
            symmcoll_group_sequence(group) == before;
    symmcoll_reducer_free(reducer);
    return right;
}

/* Broadcasts the elements of a parameter with gaps; the gaps are not part of
 * it. */
static int strided_parameters_are_broadcast(
    struct symmcoll_group *group, int rank)
{
    float values[2][5];
    struct symmcoll_tensor param = model_matrix(values, SYMMCOLL_FLOAT32, 2, 3);
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
    struct symmcoll_reducer *reducer = model_begin(group, rank, &model, 64);
    int size = symmcoll_group_size(group), right = reducer != NULL;

    for (int step = 0; right && step < 4; step++) {
        model_fill(&model, rank, size, step);
        right = model_run_backward(reducer, &model, 1) == SYMMCOLL_OK &&
                model_views_hold(reducer, &model, size, step, step);
        symmcoll_reducer_zero(reducer);
    }
    right = right && model_view_is(reducer, 0, 0, 0.0f);
    symmcoll_reducer_free(reducer);
    return right;
}

static int unsynchronised_backwards_accumulate(
    struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_reducer *reducer = model_begin(group, rank, &model, 64);
    int size = symmcoll_group_size(group), right = reducer != NULL;

    for (int round = 0; right && round < 2; round++) {
        uint64_t before = symmcoll_group_sequence(group);

        for (int step = 0; right && step < 2; step++) {
            model_fill(&model, rank, size, step);
            right = model_run_backward(reducer, &model, 0) == SYMMCOLL_OK;
        }
        /* In the second round, the first begin rebuilds. */
        right = right && symmcoll_group_sequence(group) ==
                             before + (uint64_t)(round * MODEL_REBUILD);
        model_fill(&model, rank, size, 2);
        right = right &&
                model_run_backward(reducer, &model, 1) == SYMMCOLL_OK &&
                model_views_hold(reducer, &model, size, 0, 2);
        symmcoll_reducer_zero(reducer);
    }
    symmcoll_reducer_free(reducer);
    return right;
}

/* Without zero() in between, the second average is added to the first. */
static int averages_add_up(struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_reducer *reducer = model_begin(group, rank, &model, 0);
    int size = symmcoll_group_size(group), right = reducer != NULL;

    for (int step = 0; right && step < 2; step++) {
        /* Multiples of size * size, which are divided twice. */
        for (int p = 0; p < MODEL_PARAMS; p++)
            for (int i = 0; i < 32; i++)
                model.grads[p][i] =
                    (float)(size * size) * model_term(rank, p, i, step);
        right = model_run_backward(reducer, &model, 1) == SYMMCOLL_OK;
    }
    for (int i = 0; i < 4; i++) {
        float sum = 0;

        for (int r = 0; r < size; r++)
            sum +=
                (float)size * (model_term(r, 3, i, 0) + model_term(r, 3, i, 1));
        right = right && model_view_is(reducer, 3, i, sum);
    }
    symmcoll_reducer_free(reducer);
    return right;
}

/* Rank 1 has an empty batch: it marks nothing but takes part. */
static int unmarked_parameters_count_as_zeros(
    struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_reducer *reducer = model_begin(group, rank, &model, 64);
    int size = symmcoll_group_size(group), right = reducer != NULL;

    for (int step = 0; right && step < 3; step++) {
        model_fill(&model, rank, size, 0);
        if (rank != 1)
            right = model_run_backward(reducer, &model, 1) == SYMMCOLL_OK;
        else
            right = symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK &&
                    symmcoll_reducer_finish(reducer) == SYMMCOLL_OK;
        for (int i = 0; i < 8; i++) {
            float sum = 0;

            for (int r = 0; r < size; r++)
                sum += r == 1 ? 0.0f : model_term(r, 1, i, 0);
            right = right && model_view_is(reducer, 1, i, sum);
        }
        symmcoll_reducer_zero(reducer);
    }
    symmcoll_reducer_free(reducer);
    return right;
}

/* ---- times ---- */

static int times_are_told(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_times times = {.size = sizeof(times)};
    struct model model;
    struct symmcoll_reducer *reducer = model_begin(group, rank, &model, 0);
    int right = reducer != NULL &&
                symmcoll_reducer_get_times(reducer, &times) == SYMMCOLL_OK &&
                times.backward == 0.0 &&
                model_run_backward(reducer, &model, 1) == SYMMCOLL_OK &&
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
    struct symmcoll_reducer *first = model_begin(group, rank, &model, 64);
    struct symmcoll_reducer *second;
    int size = symmcoll_group_size(group), right = first != NULL;

    model_fill(&model, rank, size, 1);
    right = right && model_run_backward(first, &model, 1) == SYMMCOLL_OK;
    symmcoll_reducer_free(first);
    second = model_begin(group, rank, &model, 64);
    model_fill(&model, rank, size, 1);
    right = right && second != NULL &&
            model_run_backward(second, &model, 1) == SYMMCOLL_OK &&
            model_views_hold(second, &model, size, 1, 1);
    symmcoll_reducer_free(second);
    return right;
}

static const struct model_point points[] = {
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
    {times_are_told, 2, "the times of a backward are told"},
    {two_reducers_share_parameters, 2,
        "after a reducer is freed another takes its parameters"},
};

int main(void)
{
    return model_run_points(points, sizeof(points) / sizeof(points[0]));
}
