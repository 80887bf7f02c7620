/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests mistakes of one rank, and ranks that differ, in the gradient reducer.
 */
#include "model.h"

#include "ddp/reducer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors of one rank ---- */

static int marking_twice_is_refused(struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_reducer *reducer = model_begin(group, rank, &model, 0);
    int right =
        reducer != NULL &&
        symmcoll_reducer_ready(reducer, 2, model.grads[2]) ==
            SYMMCOLL_ERR_INVALID &&
        model_error_says("no backward has begun") &&
        symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK &&
        symmcoll_reducer_ready(reducer, 2, model.grads[2]) == SYMMCOLL_OK &&
        symmcoll_reducer_ready(reducer, 2, model.grads[2]) ==
            SYMMCOLL_ERR_INVALID &&
        model_error_says("parameter 2 (fc2.weight)") &&
        model_error_says("marked twice") &&
        symmcoll_reducer_ready(reducer, 4, model.grads[3]) ==
            SYMMCOLL_ERR_INVALID &&
        model_error_says("from 0 to 3, found 4");

    right = right && symmcoll_reducer_finish(reducer) == SYMMCOLL_ERR_INVALID;
    symmcoll_reducer_free(reducer);
    return right;
}

/* Checks parameter 2 without rank 1's gradient, and parameter 3 with it. */
static int averages_lack_rank_1(
    struct symmcoll_reducer *reducer, int size, int step)
{
    float without = 0, with = 0;

    for (int r = 0; r < size; r++) {
        without += r == 1 ? 0 : model_term(r, 2, 5, step);
        with += model_term(r, 3, 3, step);
    }
    return model_view_is(reducer, 2, 5, without) &&
           model_view_is(reducer, 3, 3, with);
}

/* Rank 1 passes NULL for one gradient, and a number out of range later; its
 * valid calls count, and the other ranks are not delayed. */
static int refusals_are_told_by_finish(struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_reducer *reducer = model_begin(group, rank, &model, 64);
    int size = symmcoll_group_size(group), right = reducer != NULL;

    for (int step = 0; right && step < 4; step++) {
        int sync = step != 1; /* the rebuild is in step 1, on all ranks */
        int refused = rank == 1 && step < 3;

        model_fill(&model, rank, size, step);
        right = symmcoll_reducer_begin(reducer, sync) == SYMMCOLL_OK;
        for (int p = 0; right && p < MODEL_PARAMS; p++) {
            const void *grad = refused && p == 2 ? NULL : model.grads[p];

            right = (symmcoll_reducer_ready(reducer, p, grad) == SYMMCOLL_OK) ==
                    (grad != NULL);
        }
        if (refused)
            right = right &&
                    symmcoll_reducer_ready(reducer, 9, model.grads[0]) ==
                        SYMMCOLL_ERR_INVALID &&
                    symmcoll_reducer_finish(reducer) == SYMMCOLL_ERR_INVALID &&
                    model_error_says("a gradient was refused: ") &&
                    model_error_says("parameter 2 (fc2.weight)");
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
    struct symmcoll_reducer *reducer = model_begin(group, rank, &model, 0);
    int right =
        reducer != NULL &&
        symmcoll_reducer_finish(reducer) == SYMMCOLL_ERR_INVALID &&
        symmcoll_reducer_begin(reducer, 0) == SYMMCOLL_OK &&
        symmcoll_reducer_ready(reducer, 0, model.grads[0]) == SYMMCOLL_OK &&
        symmcoll_reducer_ready(reducer, 2, model.grads[2]) == SYMMCOLL_OK &&
        symmcoll_reducer_begin(reducer, 0) == SYMMCOLL_ERR_INVALID &&
        model_error_says("parameter 1 (fc1.bias), parameter 3 (fc2.bias)") &&
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
           reducer == NULL && model_error_says(why);
}

static int bad_parameters_are_refused(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(0);
    struct symmcoll_reducer *reducer = NULL;
    struct symmcoll_tensor bad = SYMMCOLL_TENSOR_INIT;
    struct model model;
    int right;

    model_make(&model, rank);
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
    right = right && is_refused(group, &bad, 1, "device 0");
    bad = model.params[0];
    bad.device_index = 3;
    right = right && is_refused(group, &bad, 1, "device index 0");
    model.params[2].data = model.params[0].data;
    right = right && is_refused(group, model.params, MODEL_PARAMS,
                         "shares memory with parameter 0");
    args.size = 1;
    right = right && symmcoll_reducer_create(group, model.params, 2, &args,
                         &reducer) == SYMMCOLL_ERR_INVALID;
    return right;
}

/* Passes the numbers before the first parameter and after the last. */
static int parameters_have_a_range(struct symmcoll_group *group, int rank)
{
    struct symmcoll_tensor grad = SYMMCOLL_TENSOR_INIT;
    struct model model;
    struct symmcoll_reducer *reducer = model_begin(group, rank, &model, 0);
    int right = reducer != NULL;

    for (int i = 0; right && i < 2; i++) {
        int param = i == 0 ? -1 : MODEL_PARAMS;
        char text[64];

        snprintf(text, sizeof(text), "from 0 to %d, found %d", MODEL_PARAMS - 1,
            param);
        right = symmcoll_reducer_grad(reducer, param, &grad) ==
                    SYMMCOLL_ERR_INVALID &&
                model_error_says(text) &&
                symmcoll_reducer_ready(reducer, param, NULL) ==
                    SYMMCOLL_ERR_INVALID &&
                model_error_says(text);
    }
    symmcoll_reducer_free(reducer);
    return right;
}

/* ---- differing ranks ---- */

/* Checks that every rank gets the error, that its parameters are unchanged,
 * and that the group still works. */
static int differs(struct symmcoll_group *group, int rank, struct model *model,
    int nparams, const char *why)
{
    struct symmcoll_reducer_args args = model_args(0);
    struct symmcoll_reducer *reducer = NULL;
    int32_t one = 1, size = 0;

    return symmcoll_reducer_create(group, model->params, nparams, &args,
               &reducer) == SYMMCOLL_ERR_MISMATCH &&
           reducer == NULL && model_error_says(why) &&
           model->values[0][1] == (float)(1000 * rank + 1) &&
           model->values[3][3] == (float)(1000 * rank + 303) &&
           symmcoll_all_reduce(group, &size, &one, 1, SYMMCOLL_INT32,
               SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK &&
           size == symmcoll_group_size(group);
}

static int another_count_names_its_rank(struct symmcoll_group *group, int rank)
{
    struct model model;

    model_make(&model, rank);
    return differs(
        group, rank, &model, rank == 1 ? 3 : 4, "rank 1 has 3, rank 0 has 4");
}

static int another_shape_names_its_rank(struct symmcoll_group *group, int rank)
{
    struct model model;

    model_make(&model, rank);
    if (rank == 2)
        model.params[2] = model_matrix(model.values[2], SYMMCOLL_FLOAT32, 8, 4);
    return differs(group, rank, &model, MODEL_PARAMS,
        "reducer: parameter 2 (fc2.weight): rank 2 has shape [8, 4], rank 0 "
        "has [4, 8]");
}

static int other_strides_name_their_rank(struct symmcoll_group *group, int rank)
{
    struct model model;

    model_make(&model, rank);
    if (rank == 1) {
        model.params[0].strides[0] = 1;
        model.params[0].strides[1] = 8;
    }
    return differs(group, rank, &model, MODEL_PARAMS,
        "parameter 0 (fc1.weight): rank 1 has strides [1, 8], rank 0 has "
        "[4, 1]");
}

static int another_type_names_its_rank(struct symmcoll_group *group, int rank)
{
    struct model model;

    model_make(&model, rank);
    if (rank == 2)
        model.params[1] = model_vector(model.values[1], SYMMCOLL_FLOAT64, 8);
    return differs(group, rank, &model, MODEL_PARAMS,
        "parameter 1 (fc1.bias): rank 2 has element type float64, rank 0 has "
        "float32");
}

/* ---- shared failures ---- */

/* Rank 1's parameter is refused: all ranks return that error at once. */
static int a_refusal_names_its_rank(struct symmcoll_group *group, int rank)
{
    struct model model;

    model_make(&model, rank);
    if (rank == 1)
        model.params[2].data = NULL;
    return is_refused(group, model.params, MODEL_PARAMS,
               "parameter 2: expected data") &&
           (rank == 1 || model_error_says("rank 1: "));
}

/* Rank 1 passes no parameters, then no array, then arguments without a size:
 * all ranks return that error at once. */
static int bad_arguments_name_their_rank(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(0);
    struct symmcoll_reducer *reducer = NULL;
    struct model model;
    int odd = rank == 1;

    model_make(&model, rank);
    if (!is_refused(group, model.params, odd ? 0 : MODEL_PARAMS,
            "rank 1: reducer: expected at least one parameter, found 0") ||
        !is_refused(group, odd ? NULL : model.params, MODEL_PARAMS,
            "rank 1: reducer: expected parameters and a reducer, found NULL"))
        return 0;
    if (odd)
        args.size = 1;
    return symmcoll_reducer_create(group, model.params, MODEL_PARAMS, &args,
               &reducer) == SYMMCOLL_ERR_INVALID &&
           model_error_says("rank 1: reducer: ");
}

/* Rank 0 has its own error, and the group fails before the other ranks learn
 * of it. */
static int an_own_error_outlives_the_group(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer reducer = {
        .group = group, .size = symmcoll_group_size(group)};
    symmcoll_status_t own = SYMMCOLL_OK, status;

    symmcoll_group_abort(group, "no more");
    if (rank == 0)
        own = symc_fail(SYMMCOLL_ERR_NO_MEMORY, "of rank 0 alone");
    status = symc_share_failure(&reducer, own);
    return rank == 0
               ? status == SYMMCOLL_ERR_NO_MEMORY &&
                     model_error_says("of rank 0 alone")
               : status == SYMMCOLL_ERR_ABORTED && model_error_says("no more");
}

/* Checks that all ranks return the error of the lowest failing rank. */
static int the_lowest_error_is_shared(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer reducer = {
        .group = group, .size = symmcoll_group_size(group)};
    symmcoll_status_t own = SYMMCOLL_OK;

    if (rank > 0)
        own =
            symc_fail(rank == 1 ? SYMMCOLL_ERR_NO_MEMORY : SYMMCOLL_ERR_SYSTEM,
                "of rank %d", rank);
    return symc_share_failure(&reducer, own) == SYMMCOLL_ERR_NO_MEMORY &&
           model_error_says("reducer: rank 1: of rank 1") &&
           symc_share_failure(&reducer, SYMMCOLL_OK) == SYMMCOLL_OK;
}

static const struct model_point points[] = {
    {marking_twice_is_refused, 2, "a gradient marked twice is refused by name"},
    {refusals_are_told_by_finish, 3,
        "a gradient refused on one rank is told by its finish alone"},
    {an_unfinished_backward_is_named, 2,
        "a backward begun too early names the gradients that did not come"},
    {bad_parameters_are_refused, 1, "bad parameters are refused"},
    {parameters_have_a_range, 1, "so are numbers that no parameter has"},
    {the_lowest_error_is_shared, 3,
        "of ranks that have failed alone the lowest is named on all"},
    {an_own_error_outlives_the_group, 2,
        "a rank's own error is returned if the group fails meanwhile"},
    {a_refusal_names_its_rank, 3,
        "a rank whose parameters are refused is named on all"},
    {bad_arguments_name_their_rank, 3, "so is one without parameters"},
    {another_count_names_its_rank, 3,
        "a differing number of parameters names its rank on all"},
    {another_shape_names_its_rank, 3,
        "a differing shape names its rank and both shapes on all"},
    {other_strides_name_their_rank, 2,
        "differing strides name their rank on all"},
    {another_type_names_its_rank, 3,
        "a differing element type names its rank on all"},
};

int main(void)
{
    return model_run_points(points, sizeof(points) / sizeof(points[0]));
}
