/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Statistics of a reducer, and its description.
 */
#include "model.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool get(
    struct symmcoll_reducer *reducer, struct symmcoll_reducer_stats *stats)
{
    *stats = (struct symmcoll_reducer_stats)SYMMCOLL_REDUCER_STATS_INIT;
    return symmcoll_reducer_get_stats(reducer, stats) == SYMMCOLL_OK;
}

/* Checks how many of n passes count: the first 10, and every rate-th. */
static bool count_passes(
    struct symmcoll_group *group, int rank, int rate, int n, uint64_t expected)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_reducer_stats stats = SYMMCOLL_REDUCER_STATS_INIT;
    struct symmcoll_reducer *reducer = NULL;
    struct model model;
    bool right;

    model_make(&model, rank);
    args.stats_rate = rate;
    right = symmcoll_reducer_create(group, model.params, MODEL_PARAMS, &args,
                &reducer) == SYMMCOLL_OK &&
            get(reducer, &stats) && stats.passes == 0 && stats.measured == 0 &&
            stats.comm == 0;
    for (int i = 0; right && i < n; i++) {
        right = model_run_backward(reducer, &model, i % 7 != 3) == SYMMCOLL_OK;
        symmcoll_reducer_zero(reducer);
    }
    right = right && get(reducer, &stats) && stats.measured == expected &&
            stats.nbytes == (32 + 8 + 32 + 4) * sizeof(float) &&
            stats.sent_nbytes == stats.nbytes;
    if (!right)
        diag("%llu passes, %llu measured", (unsigned long long)stats.passes,
            (unsigned long long)stats.measured);
    symmcoll_reducer_free(reducer);
    return right;
}

static int some_passes_count(struct symmcoll_group *group, int rank)
{
    /* Of 70 passes 60 synchronise: 10, and 20, 40 and 60; or 10 and none. */
    return count_passes(group, rank, 20, 70, 13) &&
           count_passes(group, rank, 0, 70, 10) &&
           count_passes(group, rank, 1, 70, 60);
}

static int parts_make_the_whole(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_stats stats = SYMMCOLL_REDUCER_STATS_INIT;
    struct model model;
    struct symmcoll_reducer *reducer = model_begin(group, rank, &model, 64);
    bool right = reducer != NULL;

    for (int step = 0; right && step < 20; step++) {
        double parts;

        right = model_run_backward(reducer, &model, 1) == SYMMCOLL_OK &&
                get(reducer, &stats);
        parts = stats.overlap + stats.exposed - stats.comm;
        right = right && stats.passes == (uint64_t)step + 1 &&
                stats.backward > 0 && stats.comm > 0 && stats.overlap >= 0 &&
                stats.exposed >= 0 && stats.overlap <= stats.comm &&
                stats.exposed <= stats.comm && parts < 1e-9 && parts > -1e-9;
    }
    symmcoll_reducer_free(reducer);
    return right;
}

static bool has(const char *json, const char *text)
{
    if (strstr(json, text) != NULL)
        return true;
    diag("expected %s in %s", text, json);
    return false;
}

static int it_describes_itself(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(100);
    struct symmcoll_reducer *reducer = NULL;
    struct model model;
    char *json = NULL;
    bool right;

    model_make(&model, rank);
    args.find_unused = 1;
    right = symmcoll_reducer_create(group, model.params, MODEL_PARAMS, &args,
                &reducer) == SYMMCOLL_OK &&
            symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK &&
            symmcoll_reducer_ready(reducer, 2, model.grads[2]) == SYMMCOLL_OK &&
            symmcoll_reducer_ready(reducer, 0, model.grads[0]) == SYMMCOLL_OK &&
            symmcoll_reducer_finish(reducer) == SYMMCOLL_OK &&
            symmcoll_reducer_describe(reducer, &json) == SYMMCOLL_OK;
    right = right && json[0] == '{' && json[strlen(json) - 1] == '}' &&
            has(json, "\"world_size\": 2, ") &&
            has(json, rank == 1 ? "\"rank\": 1, " : "\"rank\": 0, ") &&
            has(json, "\"num_parameter_tensors\": 4, ") &&
            has(json, "\"total_parameter_size_bytes\": 304, ") &&
            has(json, "\"dtypes\": [\"float32\"], ") &&
            has(json, "\"comm_hook\": false, ") &&
            has(json, "\"find_unused_parameters\": true, ") &&
            has(json, "\"has_rebuilt_buckets\": false, ") &&
            has(json, "\"bucket_size_limits\": [100, 100], ") &&
            has(json, "\"bucket_sizes\": [16, 160, 128], ") &&
            has(json, "\"per_bucket_param_indices\": [[3], [1, 2], [0]], ") &&
            has(json, "\"prev_iteration_grad_ready_order_indices\": [2, 0, 3, "
                      "1], ") &&
            has(json, "\"iteration\": 1, ") &&
            has(json, "\"unused_parameter_size_bytes\": 48, ") &&
            has(json, "\"avg_backward_comm_time_ns\": ");
    free(json);
    symmcoll_reducer_free(reducer);
    return right;
}

static int a_bad_rate_is_refused(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(100);
    struct symmcoll_reducer_stats stats = SYMMCOLL_REDUCER_STATS_INIT;
    struct symmcoll_reducer *reducer;
    struct model model;
    char *json;

    model_make(&model, rank);
    args.stats_rate = -1;
    return symmcoll_reducer_create(group, model.params, MODEL_PARAMS, &args,
               &reducer) == SYMMCOLL_ERR_INVALID &&
           model_error_says("stats_rate: expected 1 or more") &&
           symmcoll_reducer_get_stats(NULL, &stats) == SYMMCOLL_ERR_INVALID &&
           symmcoll_reducer_describe(NULL, &json) == SYMMCOLL_ERR_INVALID;
}

static const struct model_point points[] = {
    {some_passes_count, 2,
        "D45: the first passes count for the averages, and then some"},
    {parts_make_the_whole, 2,
        "D45: what overlaps and what is exposed is the communication"},
    {it_describes_itself, 2, "D46: a reducer describes itself as JSON"},
    {a_bad_rate_is_refused, 1, "D45: a rate below 1 is refused"},
};

int main(void)
{
    return model_run_points(points, sizeof(points) / sizeof(points[0]));
}
