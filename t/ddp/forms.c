/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the forms of a backward: gradients from several threads, of several
 * losses, of no rank at all, and a rank without data.
 */
#include "model.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

/* ---- several threads ---- */

#define THREADS 4
#define EACH 16 /* parameters of each thread */
#define PARAMS (THREADS * EACH)
#define COUNT 5

struct engine {
    float values[PARAMS][COUNT];
    float grads[PARAMS][COUNT];
    struct symmcoll_reducer *reducer;
    pthread_barrier_t start; /* of a pass */
    int rank, size, step;
};

struct worker {
    struct engine *engine;
    pthread_t thread;
    int number;
    symmcoll_status_t status;
};

static float term(int rank, int param, int i, int step)
{
    return (float)((rank + 1) * (param + 1) + 3 * i + step);
}

/* Passes every THREADS-th parameter, the last ones first, as several streams
 * of an engine do. */
static void *run_worker(void *arg)
{
    struct worker *worker = arg;
    struct engine *engine = worker->engine;

    pthread_barrier_wait(&engine->start);
    for (int k = EACH - 1; worker->status == SYMMCOLL_OK && k >= 0; k--) {
        int p = THREADS * k + worker->number;

        for (int i = 0; i < COUNT; i++)
            engine->grads[p][i] =
                (float)engine->size * term(engine->rank, p, i, engine->step);
        worker->status =
            symmcoll_reducer_ready(engine->reducer, p, engine->grads[p]);
    }
    return NULL;
}

static bool run_threads(struct engine *engine)
{
    struct worker workers[THREADS];
    bool right = symmcoll_reducer_begin(engine->reducer, 1) == SYMMCOLL_OK;

    for (int t = 0; t < THREADS; t++) {
        workers[t] = (struct worker){.engine = engine, .number = t};
        pthread_create(&workers[t].thread, NULL, run_worker, &workers[t]);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(workers[t].thread, NULL);
        right = right && workers[t].status == SYMMCOLL_OK;
    }
    return symmcoll_reducer_finish(engine->reducer) == SYMMCOLL_OK && right;
}

static bool averages_hold(const struct engine *engine)
{
    for (int p = 0; p < PARAMS; p++)
        for (int i = 0; i < COUNT; i++) {
            float sum = 0;

            for (int r = 0; r < engine->size; r++)
                sum += term(r, p, i, engine->step);
            if (!model_view_is(engine->reducer, p, i, sum))
                return false;
        }
    return true;
}

static int threads_pass_gradients(struct symmcoll_group *group, int rank)
{
    static const struct symmcoll_reducer_args init = SYMMCOLL_REDUCER_ARGS_INIT;
    struct symmcoll_reducer_args args = init;
    struct symmcoll_tensor params[PARAMS];
    struct engine engine = {.rank = rank, .size = symmcoll_group_size(group)};
    bool right;

    for (int p = 0; p < PARAMS; p++)
        params[p] = model_vector(engine.values[p], SYMMCOLL_FLOAT32, COUNT);
    args.bucket_cap = 3 * COUNT * sizeof(float);
    pthread_barrier_init(&engine.start, NULL, THREADS);
    right = symmcoll_reducer_create(
                group, params, PARAMS, &args, &engine.reducer) == SYMMCOLL_OK;
    for (engine.step = 0; right && engine.step < 20; engine.step++) {
        right = run_threads(&engine) && averages_hold(&engine);
        symmcoll_reducer_zero(engine.reducer);
    }
    symmcoll_reducer_free(engine.reducer);
    pthread_barrier_destroy(&engine.start);
    return right;
}

/* ---- several losses ---- */

/* Passes the gradients of one output, then those of the other, in one pass. */
static bool run_two_backwards(struct symmcoll_reducer *reducer,
    struct model *model, int size, int step, bool views)
{
    bool right = symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK;

    for (int output = 0; output < 2; output++)
        for (int p = 1; right && p >= 0; p--) {
            int number = 2 * output + p;
            const void *grad = model->grads[number];
            struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;

            right =
                symmcoll_reducer_grad(reducer, number, &view) == SYMMCOLL_OK;
            if (right && views)
                grad = memcpy(view.data, model->grads[number],
                    model_count(&view) * sizeof(float));
            right = right && symmcoll_reducer_ready(reducer, number, grad) ==
                                 SYMMCOLL_OK;
        }
    return right && symmcoll_reducer_finish(reducer) == SYMMCOLL_OK &&
           model_views_hold(reducer, model, size, step, step);
}

static bool run_two_losses(struct symmcoll_group *group, int rank, bool views)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_reducer *reducer = NULL;
    struct model model;
    int size = symmcoll_group_size(group);
    bool right;

    model_make(&model, rank);
    args.gradient_as_bucket_view = views;
    right = symmcoll_reducer_create(group, model.params, MODEL_PARAMS, &args,
                &reducer) == SYMMCOLL_OK;
    for (int step = 0; right && step < 4; step++) {
        model_fill(&model, rank, size, step);
        right = run_two_backwards(reducer, &model, size, step, views);
        symmcoll_reducer_zero(reducer);
    }
    symmcoll_reducer_free(reducer);
    return right;
}

static int two_losses_are_one_pass(struct symmcoll_group *group, int rank)
{
    return run_two_losses(group, rank, false);
}

static int so_they_are_in_buckets(struct symmcoll_group *group, int rank)
{
    return run_two_losses(group, rank, true);
}

/* ---- without gradients ---- */

/* Runs a forward without gradients, as for an evaluation, which does not call
 * the reducer: nothing is sent, and accumulated gradients stay. */
static int evaluations_touch_nothing(struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_reducer *reducer = model_begin(group, rank, &model, 64);
    int size = symmcoll_group_size(group);
    uint64_t before, after;
    bool right = reducer != NULL;

    model_fill(&model, rank, size, 0);
    right = right && model_run_backward(reducer, &model, 0) == SYMMCOLL_OK;
    before = symmcoll_group_sequence(group);
    for (int p = 0; right && p < MODEL_PARAMS; p++)
        right = model_view_is(
            reducer, p, 0, (float)size * model_term(rank, p, 0, 0));
    after = symmcoll_group_sequence(group);
    right = right && before == after;
    model_fill(&model, rank, size, 1);
    right = right && model_run_backward(reducer, &model, 1) == SYMMCOLL_OK &&
            model_views_hold(reducer, &model, size, 0, 1);
    symmcoll_reducer_free(reducer);
    return right;
}

/* The batch of rank 1 is empty: it passes the zeros of an empty sum, or
 * nothing, and no average is NaN. */
static int empty_batches_take_part(struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_reducer *reducer = model_begin(group, rank, &model, 64);
    int size = symmcoll_group_size(group);
    bool right = reducer != NULL;

    for (int step = 0; right && step < 4; step++) {
        model_fill(&model, rank, size, step);
        if (rank == 1)
            memset(model.grads, 0, sizeof(model.grads));
        if (rank == 1 && step % 2 == 1)
            right = symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK &&
                    symmcoll_reducer_finish(reducer) == SYMMCOLL_OK;
        else
            right = model_run_backward(reducer, &model, 1) == SYMMCOLL_OK;
        for (int p = 0; right && p < MODEL_PARAMS; p++) {
            float sum = 0;

            for (int r = 0; r < size; r++)
                sum += r == 1 ? 0 : model_term(r, p, 2, step);
            right = !isnan(sum) && model_view_is(reducer, p, 2, sum);
        }
        symmcoll_reducer_zero(reducer);
    }
    symmcoll_reducer_free(reducer);
    return right;
}

static const struct model_point points[] = {
    {threads_pass_gradients, 2,
        "gradients of several threads are averaged, whatever order they have"},
    {threads_pass_gradients, 3, "so are those of three ranks"},
    {two_losses_are_one_pass, 2,
        "D26: two losses have their gradients in one pass"},
    {so_they_are_in_buckets, 2, "D26: so they have in the buckets"},
    {evaluations_touch_nothing, 2,
        "D27: without gradients nothing is sent, and what has accumulated stays"},
    {empty_batches_take_part, 3,
        "D36: a rank whose batch is empty takes part, and no average is NaN"},
};

int main(void)
{
    return model_run_points(points, sizeof(points) / sizeof(points[0]));
}
