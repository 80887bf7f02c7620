/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests graphs that do not change, with static_graph: gradients that are
 * passed several times, or never. Gradients are small integers times the
 * number of ranks, so that every average is exact.
 */
#include "model.h"

#include <stdbool.h>
#include <string.h>

/* How often each gradient is passed in a pass; parameter 3 never. */
static const int times[MODEL_PARAMS] = {1, 2, 3, 0};

struct graph {
    struct model model;
    struct symmcoll_reducer *reducer;
    bool views, write_back;
    int rank, size;
};

static symmcoll_status_t create(struct symmcoll_group *group, int rank,
    const struct symmcoll_reducer_args *given, struct graph *graph)
{
    struct symmcoll_reducer_args args = *given;
    void *grads[MODEL_PARAMS];

    *graph = (struct graph){.rank = rank,
        .size = symmcoll_group_size(group),
        .views = args.gradient_as_bucket_view != 0,
        .write_back = args.write_back != 0};
    model_make(&graph->model, rank);
    for (int p = 0; p < MODEL_PARAMS; p++)
        grads[p] = graph->model.grads[p];
    if (args.write_back)
        args.grads = grads;
    args.static_graph = 1;
    args.bucket_cap = 64;
    args.names = model_names;
    return symmcoll_reducer_create(
        group, graph->model.params, MODEL_PARAMS, &args, &graph->reducer);
}

static float *find_gradient(struct graph *graph, int p)
{
    struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;

    if (graph->write_back)
        return graph->model.grads[p];
    return symmcoll_reducer_grad(graph->reducer, p, &view) == SYMMCOLL_OK
               ? view.data
               : NULL;
}

static symmcoll_status_t pass(struct graph *graph, int p, int step)
{
    float *grad = graph->model.grads[p];

    if (graph->views)
        grad = find_gradient(graph, p);
    for (int i = 0; i < (int)model_count(&graph->model.params[p]); i++)
        grad[i] = (graph->views || graph->write_back ? grad[i] : 0) +
                  (float)graph->size * model_term(graph->rank, p, i, step);
    return symmcoll_reducer_ready(graph->reducer, p, grad);
}

/* Passes each gradient as often as given, in several rounds. Returns the
 * status of the first failing call. */
static symmcoll_status_t run_pass(
    struct graph *graph, int sync, int step, const int *often)
{
    symmcoll_status_t status = symmcoll_reducer_begin(graph->reducer, sync);

    for (int round = 0; status == SYMMCOLL_OK && round < 3; round++)
        for (int p = 0; status == SYMMCOLL_OK && p < MODEL_PARAMS; p++)
            if (round < often[p])
                status = pass(graph, p, step);
    return status == SYMMCOLL_OK ? symmcoll_reducer_finish(graph->reducer)
                                 : status;
}

static void clear(struct graph *graph)
{
    if (graph->write_back)
        memset(graph->model.grads, 0, sizeof(graph->model.grads));
    else
        symmcoll_reducer_zero(graph->reducer);
    if (!graph->write_back)
        find_gradient(graph, 3)[0] = 0;
}

/* The first element of the gradient that never comes. No average has its bits. */
static float find_kept(const struct graph *graph)
{
    return 0.1f * (float)(graph->rank + 1);
}

/* Checks that gradients are the sums of npasses passes of a step. */
static bool is_right(struct graph *graph, int step, int npasses)
{
    for (int p = 0; p < MODEL_PARAMS; p++)
        for (int i = 0; i < (int)model_count(&graph->model.params[p]); i++) {
            float found = find_gradient(graph, p)[i];
            float sum = p == 3 && i == 0 ? find_kept(graph) : 0;

            for (int r = 0; r < graph->size; r++)
                sum += (float)(npasses * times[p]) * model_term(r, p, i, step);
            if (memcmp(&found, &sum, sizeof(sum)) != 0) {
                diag("step %d, parameter %d, element %d: expected %g, found %g",
                    step, p, i, (double)sum, (double)found);
                return false;
            }
        }
    return true;
}

static bool run_steps(struct symmcoll_group *group, int rank,
    const struct symmcoll_reducer_args *args)
{
    struct graph graph;
    int used = 1;
    bool right = create(group, rank, args, &graph) == SYMMCOLL_OK;

    for (int step = 0; right && step < 5; step++) {
        clear(&graph);
        find_gradient(&graph, 3)[0] = find_kept(&graph);
        if (step == 3)
            right = run_pass(&graph, 0, step, times) == SYMMCOLL_OK;
        right = right && run_pass(&graph, 1, step, times) == SYMMCOLL_OK &&
                is_right(&graph, step, step == 3 ? 2 : 1);
    }
    right = right &&
            symmcoll_reducer_was_used(graph.reducer, 3, &used) == SYMMCOLL_OK &&
            !used && symmcoll_reducer_bucket_count(graph.reducer) > 1;
    if (!right)
        diag("%s", symmcoll_last_error());
    symmcoll_reducer_free(graph.reducer);
    return right;
}

static int gradients_come_several_times(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;

    return run_steps(group, rank, &args);
}

static int so_do_those_in_buckets(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;

    args.gradient_as_bucket_view = 1;
    return run_steps(group, rank, &args);
}

static int so_do_those_of_the_caller(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;

    args.write_back = 1;
    return run_steps(group, rank, &args);
}

static int hooks_reduce_them(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;

    args.hook = symmcoll_hook_all_reduce;
    return run_steps(group, rank, &args);
}

/* The order in which buckets are reduced, and the number of gradients
 * before. */
struct log {
    int nready;
    int at_first; /* gradients when the first bucket started */
};

static symmcoll_status_t note(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    struct log *log = arg;

    if (bucket->index == 0)
        log->at_first = log->nready;
    return symmcoll_hook_all_reduce(group, bucket, NULL, work);
}

/* Checks that in the first pass nothing is reduced before finish, and that
 * later a bucket is reduced when its parameters have been passed as often. */
static int later_passes_overlap(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct log log = {0};
    struct graph graph;
    bool right;

    args.hook = note;
    args.hook_arg = &log;
    right = create(group, rank, &args, &graph) == SYMMCOLL_OK;
    for (int step = 0; right && step < 3; step++) {
        log.nready = 0;
        right = symmcoll_reducer_begin(graph.reducer, 1) == SYMMCOLL_OK;
        for (int round = 0; right && round < 3; round++)
            for (int p = 0; right && p < MODEL_PARAMS; p++)
                if (round < times[p]) {
                    log.nready++;
                    right = pass(&graph, p, step) == SYMMCOLL_OK;
                }
        right = right && log.nready == 6;
        log.nready++; /* finish */
        right = right &&
                symmcoll_reducer_finish(graph.reducer) == SYMMCOLL_OK &&
                (step == 0 ? log.at_first == 7 : log.at_first == 1);
    }
    if (!right)
        diag("the first bucket started at gradient %d", log.at_first);
    symmcoll_reducer_free(graph.reducer);
    return right;
}

/* The graph of rank 1 changes in steps 1 and 2: it gets the error, and the
 * others continue. */
static int changes_are_named(struct symmcoll_group *group, int rank)
{
    static const int fewer[MODEL_PARAMS] = {1, 2, 1, 0};
    static const int more[MODEL_PARAMS] = {1, 3, 3, 0};
    static const int other[MODEL_PARAMS] = {1, 2, 3, 1};
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct graph graph;
    bool odd = rank == 1;
    bool right = create(group, rank, &args, &graph) == SYMMCOLL_OK &&
                 run_pass(&graph, 1, 0, times) == SYMMCOLL_OK;

    right = right && (run_pass(&graph, 1, 1, odd ? fewer : times) ==
                         (odd ? SYMMCOLL_ERR_INVALID : SYMMCOLL_OK));
    right = right &&
            (!odd || model_error_says("reducer_finish: the graph has changed: "
                                      "parameter 2 (fc2.weight) came 1 time, 3 "
                                      "before"));
    right = right && (run_pass(&graph, 1, 2, odd ? more : times) ==
                         (odd ? SYMMCOLL_ERR_INVALID : SYMMCOLL_OK));
    right = right &&
            (!odd || (model_error_says("the graph has changed: parameter 1 "
                                       "(fc1.bias) came 3 times, 2 before") &&
                         symmcoll_reducer_finish(graph.reducer) ==
                             SYMMCOLL_ERR_INVALID));
    right = right && (run_pass(&graph, 0, 2, odd ? other : times) ==
                         (odd ? SYMMCOLL_ERR_INVALID : SYMMCOLL_OK));
    right = right &&
            (!odd || (model_error_says("parameter 3 (fc2.bias) came 1 time, 0 "
                                       "before") &&
                         symmcoll_reducer_finish(graph.reducer) ==
                             SYMMCOLL_ERR_INVALID));
    clear(&graph);
    right = right && run_pass(&graph, 1, 3, times) == SYMMCOLL_OK;
    symmcoll_reducer_free(graph.reducer);
    return right;
}

/* Rank 1's only gradient of parameter 3, which no other rank has, is refused in
 * the first pass: it comes in later ones. */
static int refused_ones_come_later(struct symmcoll_group *group, int rank)
{
    static const int with[MODEL_PARAMS] = {1, 2, 3, 1};
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct graph graph;
    bool odd = rank == 1;
    int used = 0;
    bool right =
        create(group, rank, &args, &graph) == SYMMCOLL_OK &&
        symmcoll_reducer_begin(graph.reducer, 1) == SYMMCOLL_OK &&
        (!odd || (symmcoll_reducer_ready(graph.reducer, 3, NULL) ==
                         SYMMCOLL_ERR_INVALID &&
                     model_error_says("expected a gradient, found NULL")));

    for (int p = 0; right && p < MODEL_PARAMS; p++)
        for (int round = 0; right && round < times[p]; round++)
            right = pass(&graph, p, 0) == SYMMCOLL_OK;
    right = right &&
            symmcoll_reducer_finish(graph.reducer) ==
                (odd ? SYMMCOLL_ERR_INVALID : SYMMCOLL_OK) &&
            model_view_is(graph.reducer, 3, 2, 0) &&
            symmcoll_reducer_was_used(graph.reducer, 3, &used) == SYMMCOLL_OK &&
            used;
    for (int step = 1; right && step < 3; step++) {
        symmcoll_reducer_zero(graph.reducer);
        right = run_pass(&graph, 1, step, odd ? with : times) == SYMMCOLL_OK &&
                model_view_is(graph.reducer, 3, 2, model_term(1, 3, 2, step));
    }
    if (!right)
        diag("%s", symmcoll_last_error());
    symmcoll_reducer_free(graph.reducer);
    return right;
}

static const struct model_point points[] = {
    {gradients_come_several_times, 3,
        "D25 D35: a gradient that comes several times is the sum, one that never "
        "comes stays"},
    {so_do_those_in_buckets, 2, "D25 D35: so is one in the buckets"},
    {so_do_those_of_the_caller, 2, "D25 D35: so is one of the caller's memory"},
    {hooks_reduce_them, 2, "D25: hooks reduce them"},
    {later_passes_overlap, 2,
        "D25: the first pass reduces at its end, later ones as early as they can"},
    {changes_are_named, 3, "D25: a graph that changes is named on its rank"},
    {refused_ones_come_later, 3,
        "D25: a gradient refused in the first pass may come in later ones"},
};

int main(void)
{
    return model_run_points(points, sizeof(points) / sizeof(points[0]));
}
