/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests parameters without a gradient, with find_unused. Gradients are small
 * integers times the number of ranks, so that every average is exact.
 */
#include "model.h"

#include "../logged.h"

#include <stdbool.h>
#include <string.h>

enum mode {
    MODE_COPY,
    MODE_VIEWS,
    MODE_WRITE_BACK,
    MODES
};

struct search {
    struct model model;
    struct symmcoll_reducer *reducer;
    enum mode mode;
    int rank, size;
};

static symmcoll_status_t create_with(struct symmcoll_group *group, int rank,
    enum mode mode, const struct symmcoll_reducer_args *given,
    struct search *search)
{
    struct symmcoll_reducer_args args = *given;
    void *grads[MODEL_PARAMS];

    *search = (struct search){
        .mode = mode, .rank = rank, .size = symmcoll_group_size(group)};
    model_make(&search->model, rank);
    for (int p = 0; p < MODEL_PARAMS; p++)
        grads[p] = search->model.grads[p];
    args.find_unused = 1;
    args.gradient_as_bucket_view = mode == MODE_VIEWS;
    args.write_back = mode == MODE_WRITE_BACK;
    if (args.write_back)
        args.grads = grads;
    return symmcoll_reducer_create(
        group, search->model.params, MODEL_PARAMS, &args, &search->reducer);
}

static symmcoll_status_t create(struct symmcoll_group *group, int rank,
    enum mode mode, symmcoll_bucket_fn hook, struct search *search)
{
    struct symmcoll_reducer_args args = model_args(64);

    args.hook = hook;
    return create_with(group, rank, mode, &args, search);
}

/* Returns the gradient as the program sees it. */
static float *find_gradient(struct search *search, int p)
{
    struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;

    if (search->mode == MODE_WRITE_BACK)
        return search->model.grads[p];
    return symmcoll_reducer_grad(search->reducer, p, &view) == SYMMCOLL_OK
               ? view.data
               : NULL;
}

static symmcoll_status_t pass(struct search *search, int p, int step)
{
    float *grad = search->model.grads[p];

    if (search->mode == MODE_VIEWS)
        grad = find_gradient(search, p);
    for (int i = 0; i < (int)model_count(&search->model.params[p]); i++)
        grad[i] = (float)search->size * model_term(search->rank, p, i, step);
    return symmcoll_reducer_ready(search->reducer, p, grad);
}

/* Returns whether a rank uses a parameter in a step: 0 always, 1 on rank 1
 * only, 2 only in the first step, 3 depending on rank and step. */
static bool uses(int rank, int p, int step)
{
    return step == 0 || p == 0 || (p == 1 && rank == 1) ||
           (p == 3 && (rank + step) % 3 == 0);
}

static bool is_used(int size, int p, int step)
{
    for (int r = 0; r < size; r++)
        if (uses(r, p, step))
            return true;
    return false;
}

/* Clears the gradients of parameters that some rank will use, and leaves the
 * others. */
static void clear_used(struct search *search, int step)
{
    for (int p = 0; p < MODEL_PARAMS; p++)
        if (is_used(search->size, p, step))
            memset(find_gradient(search, p), 0,
                model_count(&search->model.params[p]) * sizeof(float));
}

/* Checks that gradients are the averages of a step, or unchanged from
 * `kept`. */
static bool is_right(
    struct search *search, int step, float kept[MODEL_PARAMS][32])
{
    for (int p = 0; p < MODEL_PARAMS; p++) {
        const float *found = find_gradient(search, p);
        int used, wanted = is_used(search->size, p, step);

        if (symmcoll_reducer_was_used(search->reducer, p, &used) !=
                SYMMCOLL_OK ||
            used != wanted) {
            diag(
                "step %d: was parameter %d used? expected %d", step, p, wanted);
            return false;
        }
        for (int i = 0; i < (int)model_count(&search->model.params[p]); i++) {
            float sum = 0;

            for (int r = 0; r < search->size; r++)
                sum += uses(r, p, step) ? model_term(r, p, i, step) : 0;
            if (!wanted)
                sum = kept[p][i];
            if (memcmp(&found[i], &sum, sizeof(sum)) != 0) {
                diag("step %d, parameter %d, element %d: expected %g, found %g",
                    step, p, i, (double)sum, (double)found[i]);
                return false;
            }
        }
    }
    return true;
}

/* Runs one step; skips: parameters without a gradient are skipped at once, on
 * some ranks. */
static bool run_step(struct search *search, int step, bool skips)
{
    float kept[MODEL_PARAMS][32];
    int skipped[MODEL_PARAMS], n = 0;
    bool right;

    clear_used(search, step);
    /* No average has the bits of the kept values: they differ between ranks. */
    for (int p = 0; p < MODEL_PARAMS; p++) {
        if (!is_used(search->size, p, step))
            find_gradient(search, p)[0] = 0.1f * (float)(search->rank + 1);
        memcpy(kept[p], find_gradient(search, p),
            model_count(&search->model.params[p]) * sizeof(float));
    }
    for (int p = 0; p < MODEL_PARAMS; p++)
        if (!uses(search->rank, p, step))
            skipped[n++] = p;
    right = symmcoll_reducer_begin(search->reducer, 1) == SYMMCOLL_OK;
    if (right && skips && (search->rank + step) % 2 == 0)
        right =
            symmcoll_reducer_skip(search->reducer, skipped, n) == SYMMCOLL_OK;
    for (int p = MODEL_PARAMS - 1; right && p >= 0; p--)
        if (uses(search->rank, p, step))
            right = pass(search, p, step) == SYMMCOLL_OK;
    right = right && symmcoll_reducer_finish(search->reducer) == SYMMCOLL_OK;
    if (!right)
        diag("step %d: %s", step, symmcoll_last_error());
    return right && is_right(search, step, kept);
}

static bool run_mode(struct symmcoll_group *group, int rank, enum mode mode,
    symmcoll_bucket_fn hook)
{
    struct search search;
    bool right = create(group, rank, mode, hook, &search) == SYMMCOLL_OK;
    int nbuckets = symmcoll_reducer_bucket_count(search.reducer);

    if (!right)
        diag("%s", symmcoll_last_error());
    for (int step = 0; right && step < 6; step++)
        right = run_step(&search, step, step > 2);
    right = right && nbuckets > 1 &&
            symmcoll_reducer_bucket_count(search.reducer) == nbuckets;
    symmcoll_reducer_free(search.reducer);
    return right;
}

static int unused_ones_stay(struct symmcoll_group *group, int rank)
{
    return run_mode(group, rank, MODE_COPY, NULL);
}

static int unused_views_stay(struct symmcoll_group *group, int rank)
{
    return run_mode(group, rank, MODE_VIEWS, NULL);
}

static int unused_memory_stays(struct symmcoll_group *group, int rank)
{
    return run_mode(group, rank, MODE_WRITE_BACK, NULL);
}

static int hooks_do_not_touch_them(struct symmcoll_group *group, int rank)
{
    return run_mode(group, rank, MODE_COPY, symmcoll_hook_all_reduce) &&
           run_mode(group, rank, MODE_VIEWS, symmcoll_hook_all_reduce);
}

/* Checks that a gradient of a pass without synchronisation makes its parameter
 * used. */
static int earlier_gradients_count(struct symmcoll_group *group, int rank)
{
    struct search search;
    int used = 0;
    bool right =
        create(group, rank, MODE_COPY, NULL, &search) == SYMMCOLL_OK &&
        symmcoll_reducer_begin(search.reducer, 0) == SYMMCOLL_OK &&
        (rank != 1 || pass(&search, 2, 0) == SYMMCOLL_OK) &&
        symmcoll_reducer_finish(search.reducer) == SYMMCOLL_OK &&
        symmcoll_reducer_begin(search.reducer, 1) == SYMMCOLL_OK &&
        symmcoll_reducer_finish(search.reducer) == SYMMCOLL_OK &&
        symmcoll_reducer_was_used(search.reducer, 2, &used) == SYMMCOLL_OK &&
        used && model_view_is(search.reducer, 2, 3, model_term(1, 2, 3, 0)) &&
        symmcoll_reducer_was_used(search.reducer, 1, &used) == SYMMCOLL_OK &&
        !used;

    symmcoll_reducer_free(search.reducer);
    return right;
}

/* ---- the log ---- */

/* Returns how often the log has the line after passes of which all, or only
 * the first, have all gradients; -1: a pass failed. */
static int count_lines(
    struct symmcoll_group *group, int rank, bool all, bool is_static)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct search search;
    struct logged logged;
    char text[4096];
    const char *at = text;
    int lines = 0;
    bool right;

    args.static_graph = is_static;
    logged_begin(&logged);
    right = create_with(group, rank, MODE_COPY, &args, &search) == SYMMCOLL_OK;
    for (int step = 0; right && step < 3; step++) {
        right = symmcoll_reducer_begin(search.reducer, 1) == SYMMCOLL_OK;
        for (int p = 0; right && p < (all ? MODEL_PARAMS : 2); p++)
            right = pass(&search, p, step) == SYMMCOLL_OK;
        right = right && symmcoll_reducer_finish(search.reducer) == SYMMCOLL_OK;
    }
    symmcoll_reducer_free(search.reducer);
    logged_end(&logged, text, sizeof(text));
    while ((at = strstr(at, "find_unused is set, but every")) != NULL) {
        lines++;
        at++;
    }
    return right ? lines : -1;
}

static int a_vain_search_is_logged(struct symmcoll_group *group, int rank)
{
    return count_lines(group, rank, true, false) == 1 &&
           count_lines(group, rank, false, false) == 0 &&
           count_lines(group, rank, true, true) == 0;
}

/* ---- mistakes ---- */

static int mistakes_are_named(struct symmcoll_group *group, int rank)
{
    const int two[2] = {1, 2}, far[1] = {MODEL_PARAMS};
    struct search search;
    struct symmcoll_reducer *plain;
    int used;
    bool right =
        create(group, rank, MODE_COPY, NULL, &search) == SYMMCOLL_OK &&
        symmcoll_reducer_was_used(search.reducer, 0, &used) ==
            SYMMCOLL_ERR_INVALID &&
        model_error_says("has finished a pass with sync, found none") &&
        symmcoll_reducer_skip(search.reducer, two, 2) == SYMMCOLL_ERR_INVALID &&
        model_error_says("no backward has begun") &&
        symmcoll_reducer_begin(search.reducer, 1) == SYMMCOLL_OK &&
        pass(&search, 2, 0) == SYMMCOLL_OK &&
        symmcoll_reducer_skip(search.reducer, two, 2) == SYMMCOLL_ERR_INVALID &&
        model_error_says("parameter 2 (fc2.weight): expected no gradient") &&
        symmcoll_reducer_skip(search.reducer, far, 1) == SYMMCOLL_ERR_INVALID &&
        symmcoll_reducer_skip(search.reducer, two, 1) == SYMMCOLL_OK &&
        pass(&search, 1, 0) == SYMMCOLL_ERR_INVALID &&
        model_error_says("parameter 1 (fc1.bias): expected no gradient") &&
        symmcoll_reducer_finish(search.reducer) == SYMMCOLL_ERR_INVALID &&
        model_error_says("a parameter was not skipped: ");

    symmcoll_reducer_free(search.reducer);
    plain = model_begin(group, rank, &search.model, 0);
    right =
        right && plain != NULL &&
        symmcoll_reducer_begin(plain, 1) == SYMMCOLL_OK &&
        symmcoll_reducer_skip(plain, two, 2) == SYMMCOLL_ERR_INVALID &&
        model_error_says("with find_unused, found one without") &&
        symmcoll_reducer_was_used(plain, 0, &used) == SYMMCOLL_ERR_INVALID &&
        model_error_says("found neither");
    symmcoll_reducer_free(plain);
    return right;
}

static bool differs(struct symmcoll_group *group, int rank,
    const struct symmcoll_reducer_args *args, const char *text)
{
    struct model model;
    struct symmcoll_reducer *reducer;

    model_make(&model, rank);
    return symmcoll_reducer_create(group, model.params, MODEL_PARAMS, args,
               &reducer) == SYMMCOLL_ERR_MISMATCH &&
           model_error_says(text);
}

static int ranks_agree_on_options(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    bool right;

    args.find_unused = rank == 1;
    right = differs(
        group, rank, &args, "reducer: find_unused: rank 1 has 1, rank 0 has 0");
    args.find_unused = 0;
    args.static_graph = rank == 2;
    right = right && differs(group, rank, &args,
                         "reducer: static_graph: rank 2 has 1, rank 0 has 0");
    args.static_graph = 0;
    args.find_unused = 1;
    args.bucket_cap = rank == 1 ? 128 : 64;
    args.first_bucket_cap = 32;
    return right && differs(group, rank, &args,
                        "reducer: bucket_cap: rank 1 has 128, rank 0 has 64");
}

static const struct {
    rank_fn body;
    int ranks;
    const char *sentence;
} points[] = {
    {unused_ones_stay, 3,
        "D24: what no rank uses stays, and what one uses is averaged"},
    {unused_views_stay, 3, "D24: so do gradients in the buckets"},
    {unused_memory_stays, 3, "D24: so do those of the caller's memory"},
    {hooks_do_not_touch_them, 2, "D24: hooks do not touch what no rank uses"},
    {earlier_gradients_count, 2,
        "D24: a gradient of a pass without synchronisation counts as used"},
    {mistakes_are_named, 1,
        "parameters are skipped with the option, in a pass"},
    {ranks_agree_on_options, 3,
        "a rank whose options differ is named with both values"},
};

int main(void)
{
    const char *const levels[] = {"OFF", "INFO", "DETAIL"};
    int npoints = (int)(sizeof(points) / sizeof(points[0]));

    plan(2 * npoints + 2 * 3 * 2 + 1);
    for (int i = 0; i < npoints; i++) {
        ok(ranks_run(points[i].ranks, points[i].body), "processes: %s",
            points[i].sentence);
        ok(threads_run(points[i].ranks, points[i].body), "threads: %s",
            points[i].sentence);
    }
    ok(ranks_run(1, a_vain_search_is_logged),
        "D24: a search in vain is one line of the log");
    /* Sets torch's variable: messages have the names at every level. */
    for (int i = 0; i < 3; i++) {
        setenv("TORCH_DISTRIBUTED_DEBUG", levels[i], 1);
        ok(ranks_run(3, unused_ones_stay),
            "processes: D24: unused ones stay (%s)", levels[i]);
        ok(ranks_run(3, unused_views_stay),
            "processes: D24: unused ones in the buckets stay (%s)", levels[i]);
        ok(ranks_run(1, mistakes_are_named),
            "processes: D24: texts have the names (%s)", levels[i]);
        ok(threads_run(3, unused_ones_stay),
            "threads: D24: unused ones stay (%s)", levels[i]);
    }
    return done_testing();
}
