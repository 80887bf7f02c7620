/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests parameters that are passed twice, as tied weights are: one parameter
 * with two numbers. Gradients are small integers times the number of ranks, so
 * that every average is exact.
 */
#include "model.h"

#include <stdbool.h>
#include <string.h>

#define TIED 4 /* the second number of parameter 0 */
#define NUMBERS (MODEL_PARAMS + 1)

static const char *const names[NUMBERS] = {
    "wte", "fc.bias", "fc.weight", "ln.bias", "lm_head"};

struct tied {
    struct model model;
    struct symmcoll_tensor params[NUMBERS];
    void *grads[NUMBERS]; /* of the model */
    float second[32];     /* the gradient of the tied number */
    struct symmcoll_reducer *reducer;
    int rank, size;
    bool views, write_back;
};

static symmcoll_status_t create(struct symmcoll_group *group, int rank,
    const struct symmcoll_reducer_args *given, struct tied *tied)
{
    struct symmcoll_reducer_args args = *given;

    *tied = (struct tied){.rank = rank,
        .size = symmcoll_group_size(group),
        .views = args.gradient_as_bucket_view != 0,
        .write_back = args.write_back != 0};
    model_make(&tied->model, rank);
    for (int p = 0; p < MODEL_PARAMS; p++) {
        tied->params[p] = tied->model.params[p];
        tied->grads[p] = tied->model.grads[p];
    }
    tied->params[TIED] = tied->params[0];
    tied->grads[TIED] = tied->grads[0];
    args.names = names;
    args.bucket_cap = 64;
    if (args.grads != NULL)
        args.grads = tied->grads;
    return symmcoll_reducer_create(
        group, tied->params, NUMBERS, &args, &tied->reducer);
}

/* Adds the terms of a number to its gradient, as backward does, and passes
 * it. */
static symmcoll_status_t pass(struct tied *tied, int number, int step)
{
    int p = number == TIED ? 0 : number;
    size_t count = model_count(&tied->params[number]);
    struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;
    float *grad = tied->model.grads[p];
    symmcoll_status_t status = SYMMCOLL_OK;

    if (tied->views) {
        status = symmcoll_reducer_grad(tied->reducer, number, &view);
        grad = view.data;
    } else if (!tied->write_back) {
        grad = number == TIED ? tied->second : grad;
        memset(grad, 0, count * sizeof(*grad));
    }
    for (size_t i = 0; i < count; i++)
        grad[i] +=
            (float)tied->size * model_term(tied->rank, number, (int)i, step);
    return status == SYMMCOLL_OK
               ? symmcoll_reducer_ready(tied->reducer, number, grad)
               : status;
}

/* Checks that an average is that of all ranks' terms. without: a rank that
 * passed no gradient for the tied number. */
static bool is_average(struct tied *tied, int number, int step, int without)
{
    struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;
    int p = number == TIED ? 0 : number;

    if (symmcoll_reducer_grad(tied->reducer, number, &view) != SYMMCOLL_OK)
        return false;
    for (int i = 0; i < (int)model_count(&tied->params[number]); i++) {
        float sum = 0, found = ((float *)view.data)[i];

        for (int r = 0; r < tied->size; r++) {
            sum += model_term(r, p, i, step);
            if (p == 0 && r != without)
                sum += model_term(r, TIED, i, step);
        }
        if (found != sum ||
            (tied->write_back && tied->model.grads[p][i] != sum)) {
            diag("number %d, element %d: expected %g, found %g", number, i,
                (double)sum, (double)found);
            return false;
        }
    }
    return true;
}

/* Runs one step, in which rank `without` passes nothing for the tied number. */
static bool run_step(struct tied *tied, int step, int without)
{
    bool right;

    if (tied->write_back)
        memset(tied->model.grads, 0, sizeof(tied->model.grads));
    else
        symmcoll_reducer_zero(tied->reducer);
    right = symmcoll_reducer_begin(tied->reducer, 1) == SYMMCOLL_OK;
    for (int n = NUMBERS - 1; right && n >= 0; n--)
        if (n != TIED || tied->rank != without)
            right = pass(tied, n, step) == SYMMCOLL_OK;
    right = right && symmcoll_reducer_finish(tied->reducer) == SYMMCOLL_OK;
    for (int n = 0; right && n < NUMBERS; n++)
        right = is_average(tied, n, step, without);
    return right;
}

/* Runs steps before and after the buckets are rebuilt; in one of them a rank
 * passes only one of the numbers. */
static bool run_steps(struct symmcoll_group *group, int rank,
    const struct symmcoll_reducer_args *args)
{
    struct tied tied;
    bool right = create(group, rank, args, &tied) == SYMMCOLL_OK;

    if (!right)
        diag("%s", symmcoll_last_error());
    for (int step = 0; right && step < 4; step++)
        right = run_step(&tied, step, step == 2 ? 1 : -1);
    symmcoll_reducer_free(tied.reducer);
    return right;
}

static int both_gradients_count(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;

    return run_steps(group, rank, &args);
}

static int views_are_one(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;

    args.gradient_as_bucket_view = 1;
    return run_steps(group, rank, &args);
}

static int averages_come_back(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    void *named[1] = {NULL};
    bool right;

    args.write_back = 1;
    right = run_steps(group, rank, &args);
    args.grads = named;
    return right && run_steps(group, rank, &args);
}

static int hooks_see_it_once(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct tied tied = {.reducer = NULL};
    int seen[NUMBERS] = {0};
    bool right;

    args.hook = symmcoll_hook_all_reduce;
    right = run_steps(group, rank, &args) &&
            create(group, rank, &args, &tied) == SYMMCOLL_OK;
    for (int step = 0; right && step < 2; step++) {
        memset(seen, 0, sizeof(seen));
        right = run_step(&tied, step, -1);
        for (int b = 0;
             right && b < symmcoll_reducer_bucket_count(tied.reducer); b++) {
            struct symmcoll_bucket bucket = SYMMCOLL_BUCKET_INIT;

            right = symmcoll_reducer_bucket(tied.reducer, b, &bucket) ==
                    SYMMCOLL_OK;
            for (int i = 0; right && i < bucket.ngrads; i++)
                seen[bucket.params[i]]++;
        }
        right = right && seen[0] == 1 && seen[1] == 1 && seen[2] == 1 &&
                seen[3] == 1 && seen[TIED] == 0;
    }
    symmcoll_reducer_free(tied.reducer);
    return right;
}

/* ---- mistakes ---- */

static int two_places_are_refused(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct tied tied;
    bool right;

    args.write_back = 1;
    right = create(group, rank, &args, &tied) == SYMMCOLL_OK &&
            symmcoll_reducer_begin(tied.reducer, 1) == SYMMCOLL_OK &&
            symmcoll_reducer_ready(tied.reducer, TIED, tied.second) ==
                SYMMCOLL_OK &&
            symmcoll_reducer_ready(tied.reducer, 0, tied.grads[0]) ==
                SYMMCOLL_ERR_INVALID &&
            model_error_says("parameter 0 (wte): expected its gradient at ") &&
            model_error_says("as before in this backward") &&
            symmcoll_reducer_ready(tied.reducer, TIED, tied.second) ==
                SYMMCOLL_ERR_INVALID &&
            model_error_says("parameter 4 (lm_head)") &&
            model_error_says("marked twice");
    symmcoll_reducer_free(tied.reducer);
    tied.grads[TIED] = tied.second;
    args.grads = tied.grads;
    return right &&
           symmcoll_reducer_create(group, tied.params, NUMBERS, &args,
               &tied.reducer) == SYMMCOLL_ERR_INVALID &&
           model_error_says("parameter 4: expected its gradient at ") &&
           model_error_says("as of parameter 0, which is the same parameter");
}

static int other_strides_are_refused(struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_tensor params[2];
    struct symmcoll_reducer *reducer;

    model_make(&model, rank);
    params[0] = model.params[0];
    params[1] = model_matrix(model.values[0], SYMMCOLL_FLOAT32, 4, 8);
    return symmcoll_reducer_create(group, params, 2, NULL, &reducer) ==
               SYMMCOLL_ERR_INVALID &&
           model_error_says("parameter 1 shares memory with parameter 0");
}

/* The second parameter of rank 1 is its first one again. */
static int ranks_share_alike(struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_tensor params[2];
    struct symmcoll_reducer *reducer;

    model_make(&model, rank);
    params[0] = model.params[0];
    params[1] =
        model_matrix(model.values[rank == 1 ? 0 : 2], SYMMCOLL_FLOAT32, 8, 4);
    return symmcoll_reducer_create(group, params, 2, NULL, &reducer) ==
               SYMMCOLL_ERR_MISMATCH &&
           model_error_says("parameter 1: on rank 1 it is parameter 0, on rank "
                            "0 one of its own");
}

static const struct model_point points[] = {
    {both_gradients_count, 3,
        "D3 D17: the gradients of a parameter with two numbers are added"},
    {views_are_one, 2, "D17: so are those in the buckets"},
    {averages_come_back, 2, "D17: so are those of the caller's memory"},
    {hooks_see_it_once, 2, "a bucket holds a parameter with two numbers once"},
    {two_places_are_refused, 1, "its gradient is at one place, once a number"},
    {other_strides_are_refused, 1,
        "the same memory with other strides is refused"},
    {ranks_share_alike, 3, "a rank that shares parameters otherwise is named"},
};

int main(void)
{
    return model_run_points(points, sizeof(points) / sizeof(points[0]));
}
