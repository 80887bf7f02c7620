/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests averages that are written into the caller's gradients. Gradients are
 * small integers times the number of ranks, so that every average is exact.
 */
#include "t/ranks.h"
#include "t/tap.h"

#include <symmcoll.h>

#include <stdbool.h>
#include <string.h>

#define NPARAMS 3
#define COUNT 10 /* elements of each */

struct model {
    float values[NPARAMS][COUNT];
    float grads[NPARAMS][COUNT];
    struct symmcoll_reducer *reducer;
    int rank;
    int size;
};

static float term(int rank, int param, int i, int step)
{
    return (float)((rank + 1) * (param + 1) + i + 5 * step);
}

/* Returns the sum over the ranks in one step, without one rank; -1: all
 * ranks. */
static float total(
    const struct model *model, int param, int i, int step, int without)
{
    float sum = 0;

    for (int r = 0; r < model->size; r++)
        sum += r == without ? 0 : term(r, param, i, step);
    return sum;
}

/* Creates a reducer. A non-NULL args->grads stands for the model's
 * gradients. */
static symmcoll_status_t create(struct symmcoll_group *group, int rank,
    const struct symmcoll_reducer_args *given, struct model *model)
{
    struct symmcoll_tensor params[NPARAMS];
    struct symmcoll_reducer_args args = *given;
    void *grads[NPARAMS] = {model->grads[0], model->grads[1], model->grads[2]};

    *model = (struct model){.rank = rank, .size = symmcoll_group_size(group)};
    if (given->size == sizeof(*given) && given->grads != NULL)
        args.grads = grads;
    for (int p = 0; p < NPARAMS; p++)
        params[p] = (struct symmcoll_tensor){sizeof(struct symmcoll_tensor),
            model->values[p], SYMMCOLL_FLOAT32, SYMMCOLL_HOST, 0, 1, {COUNT},
            {1}};
    return symmcoll_reducer_create(
        group, params, NPARAMS, &args, &model->reducer);
}

/* Creates a model with two buckets, of two parameters each at most. */
static bool begin(struct symmcoll_group *group, int rank, struct model *model)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;

    args.write_back = 1;
    args.bucket_cap = 2 * COUNT * sizeof(float);
    return create(group, rank, &args, model) == SYMMCOLL_OK;
}

/* Adds the terms to the gradients, as the backward of an engine does. */
static void add_terms(struct model *model, int step)
{
    for (int p = 0; p < NPARAMS; p++)
        for (int i = 0; i < COUNT; i++)
            model->grads[p][i] +=
                (float)model->size * term(model->rank, p, i, step);
}

static symmcoll_status_t run_backward(struct model *model, int sync)
{
    symmcoll_status_t status = symmcoll_reducer_begin(model->reducer, sync);

    for (int p = NPARAMS - 1; status == SYMMCOLL_OK && p >= 0; p--)
        status = symmcoll_reducer_ready(model->reducer, p, model->grads[p]);
    return status == SYMMCOLL_OK ? symmcoll_reducer_finish(model->reducer)
                                 : status;
}

/* Checks that the caller's gradients, and the views, hold the sums of steps. */
static bool hold(const struct model *model, int first, int last, int without)
{
    for (int p = 0; p < NPARAMS; p++) {
        struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;

        if (symmcoll_reducer_grad(model->reducer, p, &view) != SYMMCOLL_OK)
            return false;
        for (int i = 0; i < COUNT; i++) {
            float expected = 0;

            for (int step = first; step <= last; step++)
                expected += total(model, p, i, step, without);
            if (model->grads[p][i] == expected &&
                ((float *)view.data)[i] == expected)
                continue;
            diag("parameter %d, element %d: expected %g, found %g, view %g", p,
                i, (double)expected, (double)model->grads[p][i],
                (double)((float *)view.data)[i]);
            return false;
        }
    }
    return true;
}

static int averages_come_back(struct symmcoll_group *group, int rank)
{
    struct model model;
    bool right = begin(group, rank, &model);

    for (int step = 0; right && step < 4; step++) {
        /* Neither zero() nor the views are used here. */
        memset(model.grads, 0, sizeof(model.grads));
        add_terms(&model, step);
        right = run_backward(&model, 1) == SYMMCOLL_OK &&
                hold(&model, step, step, -1);
    }
    symmcoll_reducer_free(model.reducer);
    return right;
}

static int accumulation_is_the_callers(struct symmcoll_group *group, int rank)
{
    struct model model;
    bool right = begin(group, rank, &model);

    for (int round = 0; right && round < 2; round++) {
        float before;

        memset(model.grads, 0, sizeof(model.grads));
        add_terms(&model, 0);
        right = run_backward(&model, 0) == SYMMCOLL_OK;
        add_terms(&model, 1);
        before = model.grads[1][2];
        right = right && run_backward(&model, 0) == SYMMCOLL_OK &&
                model.grads[1][2] == before;
        add_terms(&model, 2);
        right = right && run_backward(&model, 1) == SYMMCOLL_OK &&
                hold(&model, 0, 2, -1);
    }
    symmcoll_reducer_free(model.reducer);
    return right;
}

/* Checks that the tensor of a parameter has the averages of the other ranks. */
static bool is_average(const struct model *model, int param, int step)
{
    struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;

    return symmcoll_reducer_grad(model->reducer, param, &view) == SYMMCOLL_OK &&
           ((float *)view.data)[3] == total(model, param, 3, step, model->rank);
}

/* Runs a pass without any gradient, while the other ranks have gradients. */
static bool finish_refuses(struct model *model, int step)
{
    return symmcoll_reducer_begin(model->reducer, 1) == SYMMCOLL_OK &&
           symmcoll_reducer_finish(model->reducer) == SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(),
               "reducer_finish: expected every gradient, where write_back "
               "writes the average, found none of parameter 0, parameter 1, "
               "parameter 2") != NULL &&
           model->grads[2][3] == (float)model->size * term(1, 2, 3, step) &&
           is_average(model, 0, step) && is_average(model, 2, step);
}

/* Rank 1 marks nothing in the second and the third step, and everything again
 * in the last one. */
static int unmarked_gradients_are_named(struct symmcoll_group *group, int rank)
{
    struct model model;
    bool right = begin(group, rank, &model);

    for (int step = 0; right && step < 4; step++) {
        bool all = step == 0 || step == 3;

        memset(model.grads, 0, sizeof(model.grads));
        add_terms(&model, step);
        right = rank != 1 || all ? run_backward(&model, 1) == SYMMCOLL_OK &&
                                       hold(&model, step, step, all ? -1 : 1)
                                 : finish_refuses(&model, step);
    }
    symmcoll_reducer_free(model.reducer);
    return right;
}

/* Rank 1 marks nothing in the second and the third step, and gets the averages
 * of the others, because its memory was named when the reducer was created. */
static int named_memory_has_all_averages(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    void *named[1] = {NULL};
    struct model model;
    bool right;

    args.write_back = 1;
    args.bucket_cap = 2 * COUNT * sizeof(float);
    args.grads = named;
    right = create(group, rank, &args, &model) == SYMMCOLL_OK;
    for (int step = 0; right && step < 4; step++) {
        bool all = step == 0 || step == 3;

        memset(model.grads, 0, sizeof(model.grads));
        add_terms(&model, step);
        right = rank == 1 && !all
                    ? symmcoll_reducer_begin(model.reducer, 1) == SYMMCOLL_OK &&
                          symmcoll_reducer_finish(model.reducer) == SYMMCOLL_OK
                    : run_backward(&model, 1) == SYMMCOLL_OK;
        right = right && hold(&model, step, step, all ? -1 : 1);
    }
    symmcoll_reducer_free(model.reducer);
    return right;
}

/* Rank 0 leaves out one gradient; the error has its name. */
static int one_is_named(struct symmcoll_group *group, int rank)
{
    const char *names[NPARAMS] = {"first", "second", "third"};
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct model model;
    bool right;

    args.write_back = 1;
    args.names = names;
    right = create(group, rank, &args, &model) == SYMMCOLL_OK &&
            symmcoll_reducer_begin(model.reducer, 1) == SYMMCOLL_OK;
    for (int p = 0; right && p < NPARAMS; p++)
        right = (rank == 0 && p == 1) || symmcoll_reducer_ready(model.reducer,
                                             p, model.grads[p]) == SYMMCOLL_OK;
    right = right &&
            symmcoll_reducer_finish(model.reducer) ==
                (rank == 0 ? SYMMCOLL_ERR_INVALID : SYMMCOLL_OK) &&
            (rank != 0 || strstr(symmcoll_last_error(),
                              "found none of parameter 1 (second)") != NULL);
    symmcoll_reducer_free(model.reducer);
    return right;
}

/* A gradient that rank 1 marked without synchronisation counts in the backward
 * that synchronises, even though it is not marked there. */
static int earlier_marks_count(struct symmcoll_group *group, int rank)
{
    struct model model;
    bool right = begin(group, rank, &model);

    for (int step = 0; right && step < 3; step++) {
        memset(model.grads, 0, sizeof(model.grads));
        add_terms(&model, step);
        right = run_backward(&model, 0) == SYMMCOLL_OK;
        if (rank != 1)
            right = right && run_backward(&model, 1) == SYMMCOLL_OK;
        else
            right = right &&
                    symmcoll_reducer_begin(model.reducer, 1) == SYMMCOLL_OK &&
                    symmcoll_reducer_finish(model.reducer) == SYMMCOLL_OK;
        right = right && hold(&model, step, step, -1);
    }
    symmcoll_reducer_free(model.reducer);
    return right;
}

/* Sets every gradient to 2. */
static symmcoll_status_t put_two(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    (void)group;
    (void)arg;
    for (size_t i = 0; i < bucket->count; i++)
        ((float *)bucket->buffer)[i] = 2.0f;
    *work = NULL;
    return SYMMCOLL_OK;
}

static int what_a_hook_leaves_comes_back(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct model model;
    bool right;

    args.write_back = 1;
    args.hook = put_two;
    right = create(group, rank, &args, &model) == SYMMCOLL_OK &&
            run_backward(&model, 1) == SYMMCOLL_OK &&
            model.grads[0][0] == 2.0f && model.grads[2][COUNT - 1] == 2.0f;
    symmcoll_reducer_free(model.reducer);
    return right;
}

/* Checks that one scratch buffer for all gradients is permitted only if no
 * average is written back. */
static int shared_memory_is_refused(struct symmcoll_group *group, int rank)
{
    struct model model;
    bool right = begin(group, rank, &model) &&
                 symmcoll_reducer_begin(model.reducer, 1) == SYMMCOLL_OK &&
                 symmcoll_reducer_ready(model.reducer, 2, model.grads[0]) ==
                     SYMMCOLL_OK &&
                 symmcoll_reducer_ready(model.reducer, 1,
                     &model.grads[0][COUNT - 1]) == SYMMCOLL_ERR_INVALID &&
                 strstr(symmcoll_last_error(),
                     "parameter 1: its gradient shares") != NULL &&
                 strstr(symmcoll_last_error(), "parameter 2") != NULL &&
                 symmcoll_reducer_finish(model.reducer) == SYMMCOLL_ERR_INVALID;

    symmcoll_reducer_free(model.reducer);
    return right;
}

/* Returns whether the reducer is refused with these words. */
static bool is_refused(struct symmcoll_group *group,
    const struct symmcoll_reducer_args *args, const char *words)
{
    static float values[2][COUNT];
    struct symmcoll_tensor params[2] = {
        SYMMCOLL_TENSOR_FLAT(values[0], COUNT, SYMMCOLL_FLOAT32),
        SYMMCOLL_TENSOR_FLAT(values[1], COUNT, SYMMCOLL_FLOAT32)};
    struct symmcoll_reducer *reducer;
    bool right = symmcoll_reducer_create(group, params, 2, args, &reducer) ==
                     SYMMCOLL_ERR_INVALID &&
                 strstr(symmcoll_last_error(), words) != NULL;

    if (!right)
        diag("expected \"%s\" in \"%s\"", words, symmcoll_last_error());
    return right;
}

static int named_memory_is_checked(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    float memory[2 * COUNT] = {0};
    void *grads[2] = {&memory[COUNT], memory};
    struct model model = {.reducer = NULL};
    bool right;

    args.grads = grads;
    right = is_refused(group, &args, "expected grads with write_back");
    args.write_back = 1;
    grads[1] = NULL;
    right = right && is_refused(group, &args,
                         "parameter 1: expected the memory of its gradient");
    grads[1] = &memory[1];
    right = right && is_refused(group, &args,
                         "parameter 0: its gradient shares memory with that of "
                         "parameter 1");
    right = right && create(group, rank, &args, &model) == SYMMCOLL_OK &&
            symmcoll_reducer_begin(model.reducer, 1) == SYMMCOLL_OK &&
            symmcoll_reducer_ready(model.reducer, 2, NULL) == SYMMCOLL_OK &&
            symmcoll_reducer_ready(model.reducer, 1, model.grads[2]) ==
                SYMMCOLL_ERR_INVALID &&
            strstr(symmcoll_last_error(),
                "parameter 1: expected its gradient") != NULL &&
            symmcoll_reducer_finish(model.reducer) == SYMMCOLL_ERR_INVALID;
    symmcoll_reducer_free(model.reducer);
    return right;
}

/* Rank 1 names memory twice: every rank gets that error. */
static int one_rank_is_named_on_all(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    float memory[2 * COUNT] = {0};
    void *grads[2] = {memory, rank == 1 ? memory : &memory[COUNT]};

    args.write_back = 1;
    args.grads = grads;
    return is_refused(group, &args,
               "parameter 1: its gradient shares memory with that of parameter "
               "0") &&
           (rank == 1 || strstr(symmcoll_last_error(), "rank 1: ") != NULL);
}

static int both_options_are_refused(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct model model;

    args.write_back = 1;
    args.gradient_as_bucket_view = 1;
    return create(group, rank, &args, &model) == SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(), "found both") != NULL;
}

/* Passes the arguments of a program compiled before write_back existed. */
static int without_it_gradients_stay(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct model model;
    bool right;

    args.size = offsetof(struct symmcoll_reducer_args, write_back);
    args.write_back = 1; /* after the end */
    right = create(group, rank, &args, &model) == SYMMCOLL_OK;
    add_terms(&model, 1);
    right = right && run_backward(&model, 1) == SYMMCOLL_OK &&
            model.grads[2][3] == (float)model.size * term(rank, 2, 3, 1);
    symmcoll_reducer_free(model.reducer);
    return right;
}

static void both(int n, rank_fn body, const char *sentence)
{
    ok(ranks_run(n, body), "processes: %s", sentence);
    ok(threads_run(n, body), "threads: %s", sentence);
}

int main(void)
{
    plan(24);
    both(3, averages_come_back, "averages are written where gradients were");
    both(2, accumulation_is_the_callers,
        "gradients that the caller has added up count once");
    both(3, unmarked_gradients_are_named,
        "a rank that marks nothing counts as zeros, and is told that no average "
        "came back");
    both(3, named_memory_has_all_averages,
        "memory that is named at creation has the averages on every rank");
    both(2, named_memory_is_checked,
        "named memory is apart, and ready passes it or NULL");
    both(2, one_rank_is_named_on_all,
        "a rank that names memory twice is named on all");
    both(2, one_is_named, "a gradient without an average is named");
    both(2, earlier_marks_count,
        "a gradient of an unsynchronised backward counts later");
    both(2, what_a_hook_leaves_comes_back, "what a hook leaves comes back");
    both(1, shared_memory_is_refused,
        "memory that is to take two averages is refused");
    both(1, both_options_are_refused, "views and writing back exclude another");
    both(2, without_it_gradients_stay,
        "without the option the caller's gradients stay");
    return done_testing();
}
