/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Training with uneven inputs: ranks make different numbers of passes within a
 * join. Gradients are small integers times 12, which every number of ranks divides.
 */
#include "model.h"

#include "../logged.h"

#include <stdbool.h>
#include <string.h>

#define TIMES 12 /* the factor of gradients */
#define COUNTER ((int64_t)1 << 35)

/* A rank that trains. Its buffer counts the rank's forwards. */
struct trainee {
    struct model model;
    struct symmcoll_reducer *reducer;
    struct symmcoll_join *join;
    struct symmcoll_tensor tensor;
    void *grads[MODEL_PARAMS];
    int64_t buffer;
    bool views, write_back;
    int rank, size;
};

static symmcoll_status_t begin(struct symmcoll_group *group, int rank,
    const struct symmcoll_reducer_args *given,
    const struct symmcoll_join_args *join, struct trainee *trainee)
{
    struct symmcoll_reducer_args args = *given;
    symmcoll_status_t status;

    memset(trainee, 0, sizeof(*trainee));
    trainee->rank = rank;
    trainee->size = symmcoll_group_size(group);
    trainee->views = args.gradient_as_bucket_view != 0;
    trainee->write_back = args.write_back != 0;
    model_make(&trainee->model, rank);
    for (int p = 0; p < MODEL_PARAMS; p++)
        trainee->grads[p] = trainee->model.grads[p];
    if (args.grads != NULL)
        args.grads = trainee->grads;
    trainee->tensor = model_vector(&trainee->buffer, SYMMCOLL_INT64, 1);
    args.buffers = &trainee->tensor;
    args.nbuffers = 1;
    status = symmcoll_reducer_create(
        group, trainee->model.params, MODEL_PARAMS, &args, &trainee->reducer);
    return status == SYMMCOLL_OK
               ? symmcoll_join_begin(&trainee->reducer, 1, join, &trainee->join)
               : status;
}

/* Ends the join and frees the reducer. Returns the status of the end. */
static symmcoll_status_t end(struct trainee *trainee)
{
    symmcoll_status_t status = symmcoll_join_end(trainee->join);
    char detail[512];

    strncpy(detail, symmcoll_last_error(), sizeof(detail) - 1);
    detail[sizeof(detail) - 1] = '\0';
    symmcoll_reducer_free(trainee->reducer);
    if (status != SYMMCOLL_OK)
        diag("%s", detail);
    return status;
}

static symmcoll_status_t pass(struct trainee *trainee, int step, int sync)
{
    symmcoll_status_t status;

    trainee->buffer += COUNTER * (trainee->rank + 1);
    status = symmcoll_reducer_forward(trainee->reducer, sync);
    if (status != SYMMCOLL_OK)
        return status;
    status = symmcoll_reducer_begin(trainee->reducer, sync);
    for (int p = MODEL_PARAMS - 1; status == SYMMCOLL_OK && p >= 0; p--) {
        struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;
        float *grad = trainee->model.grads[p];

        if (trainee->views) {
            status = symmcoll_reducer_grad(trainee->reducer, p, &view);
            grad = view.data;
        }
        for (size_t i = 0; i < model_count(&trainee->model.params[p]); i++)
            grad[i] = (trainee->views ? grad[i] : 0) +
                      (float)TIMES * model_term(trainee->rank, p, (int)i, step);
        if (status == SYMMCOLL_OK)
            status = symmcoll_reducer_ready(trainee->reducer, p, grad);
    }
    return status == SYMMCOLL_OK ? symmcoll_reducer_finish(trainee->reducer)
                                 : status;
}

/* Returns the number of steps of a rank: 6 on rank 0, fewer on later ones; the last
 * rank has none if none is set. */
static int steps_of(int rank, int size, bool none)
{
    return none && rank == size - 1 ? 0 : 6 - 2 * rank;
}

/* Checks that the gradients are the averages over the ranks with inputs, and makes an
 * update. */
static bool update(struct trainee *trainee, int step, bool none, int divisor)
{
    float *values = trainee->model.values[2];

    for (int i = 0; i < 32; i++) {
        struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;
        float sum = 0, found = trainee->model.grads[2][i];

        for (int r = 0; r < trainee->size; r++)
            if (step < steps_of(r, trainee->size, none))
                sum += (float)TIMES * model_term(r, 2, i, step);
        if (!trainee->write_back) {
            if (symmcoll_reducer_grad(trainee->reducer, 2, &view) !=
                SYMMCOLL_OK)
                return false;
            found = ((float *)view.data)[i];
        }
        if (found != sum / (float)divisor) {
            diag("step %d, element %d: expected %g, found %g", step, i,
                (double)sum / divisor, (double)found);
            return false;
        }
        values[i] += found;
    }
    symmcoll_reducer_zero(trainee->reducer);
    return true;
}

static int count_active(int size, int step, bool none)
{
    int n = 0;

    for (int r = 0; r < size; r++)
        n += step < steps_of(r, size, none);
    return n;
}

/* Checks that a rank has the parameters of rank 0, which had the most inputs, and its
 * buffer. */
static bool is_rank_0(const struct trainee *trainee, bool none)
{
    for (int i = 0; i < 32; i++) {
        float value = (float)(200 + i);

        for (int step = 0; step < 6; step++)
            for (int r = 0; r < trainee->size; r++)
                if (step < steps_of(r, trainee->size, none))
                    value += (float)(TIMES / trainee->size) *
                             model_term(r, 2, i, step);
        if (trainee->model.values[2][i] != value) {
            diag("element %d: expected %g, found %g", i, (double)value,
                (double)trainee->model.values[2][i]);
            return false;
        }
    }
    return trainee->buffer != 0;
}

/* Trains with uneven inputs, in one join. none: the last rank has no inputs. */
static bool train(struct symmcoll_group *group, int rank,
    const struct symmcoll_reducer_args *args,
    const struct symmcoll_join_args *join, bool none)
{
    struct trainee trainee;
    uint64_t number, expected = 0;
    float last;
    bool right = begin(group, rank, args, join, &trainee) == SYMMCOLL_OK;

    for (int step = 0; right && step < steps_of(rank, trainee.size, none);
         step++) {
        int active = count_active(trainee.size, step, none);

        right =
            pass(&trainee, step, 1) == SYMMCOLL_OK &&
            update(&trainee, step, none,
                join != NULL && join->divide_by_active ? active : trainee.size);
    }
    last = trainee.model.grads[2][3];
    /* The passes of other ranks write nothing to this one's gradients. */
    right = right && end(&trainee) == SYMMCOLL_OK &&
            trainee.model.grads[2][3] == last &&
            (join != NULL || is_rank_0(&trainee, none));
    /* All ranks have made the same operations. */
    number = symmcoll_group_sequence(group);
    return symmcoll_all_reduce(group, &expected, &number, 1, SYMMCOLL_UINT64,
               SYMMCOLL_MAX, NULL, NULL) == SYMMCOLL_OK &&
           number == expected && right;
}

/* ---- averages ---- */

static int averages_are_over_all(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);

    return train(group, rank, &args, NULL, false);
}

/* The last rank makes all passes with zeros, and rebuilds the buckets. */
static int a_rank_may_have_no_inputs(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);

    return train(group, rank, &args, NULL, true);
}

static int averages_are_over_the_active(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_join_args join = SYMMCOLL_JOIN_ARGS_INIT;

    join.divide_by_active = 1;
    return train(group, rank, &args, &join, false);
}

static int every_mode_joins(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    void *named[MODEL_PARAMS] = {NULL};

    args.find_unused = 1;
    if (!train(group, rank, &args, NULL, true))
        return 0;
    args.gradient_as_bucket_view = 1;
    if (!train(group, rank, &args, NULL, true))
        return 0;
    args.gradient_as_bucket_view = args.find_unused = 0;
    args.write_back = 1;
    if (!train(group, rank, &args, NULL, true))
        return 0;
    args.grads = named;
    if (!train(group, rank, &args, NULL, true))
        return 0;
    args = model_args(64);
    args.hook = symmcoll_hook_all_reduce;
    return train(group, rank, &args, NULL, true);
}

/* Ranks with inputs have passes that accumulate and passes that synchronise; the
 * last rank's accumulated gradient is dropped. */
static int passes_accumulate(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct trainee trainee;
    int last = symmcoll_group_size(group) - 1;
    bool right = begin(group, rank, &args, NULL, &trainee) == SYMMCOLL_OK &&
                 pass(&trainee, 0, 1) == SYMMCOLL_OK;

    symmcoll_reducer_zero(trainee.reducer);
    right = right && pass(&trainee, 1, 0) == SYMMCOLL_OK;
    if (rank < last) {
        right = right && pass(&trainee, 2, 0) == SYMMCOLL_OK &&
                pass(&trainee, 3, 1) == SYMMCOLL_OK;
        for (int i = 0; right && i < 4; i++) {
            float sum = 0;

            for (int r = 0; r < last; r++)
                for (int step = 1; step < 4; step++)
                    sum += (float)(TIMES / trainee.size) *
                           model_term(r, 3, i, step);
            right = model_view_is(trainee.reducer, 3, i, sum);
        }
    }
    return end(&trainee) == SYMMCOLL_OK && right;
}

/* A static graph is known before the join, and stays so after it. */
static int static_graphs_join(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct trainee trainee;
    bool right;

    args.static_graph = 1;
    right = begin(group, rank, &args, NULL, &trainee) == SYMMCOLL_ERR_INVALID &&
            model_error_says("expected that its static graph is known") &&
            pass(&trainee, 0, 1) == SYMMCOLL_OK &&
            symmcoll_join_begin(&trainee.reducer, 1, NULL, &trainee.join) ==
                SYMMCOLL_OK;
    for (int step = 1; right && step < (rank == 0 ? 4 : 2); step++)
        right = pass(&trainee, step, 1) == SYMMCOLL_OK;
    right = right && symmcoll_join_end(trainee.join) == SYMMCOLL_OK &&
            pass(&trainee, 5, 1) == SYMMCOLL_OK;
    symmcoll_reducer_free(trainee.reducer);
    return right;
}

/* After its inputs, a rank has the buffers of the highest rank with inputs. */
static int buffers_are_those_of_an_active_rank(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct trainee trainee;
    int steps = rank == 1 ? 3 : 1;
    bool right = begin(group, rank, &args, NULL, &trainee) == SYMMCOLL_OK;

    for (int step = 0; right && step < steps; step++)
        right = pass(&trainee, step, 1) == SYMMCOLL_OK;
    right = right && trainee.buffer == (rank == 1 ? 3 + 2 * 2 : 3) * COUNTER;
    return end(&trainee) == SYMMCOLL_OK && right &&
           trainee.buffer == 7 * COUNTER;
}

/* Trains in two joins. In the first, later ranks have fewer inputs, and the averages
 * of the passes that they make for others count for nothing in the second. */
static bool join_twice(struct symmcoll_group *group, int rank,
    const struct symmcoll_reducer_args *args)
{
    struct trainee trainee;
    bool right = begin(group, rank, args, NULL, &trainee) == SYMMCOLL_OK;

    for (int step = 0; right && step < steps_of(rank, trainee.size, false);
         step++)
        right = pass(&trainee, step, 1) == SYMMCOLL_OK &&
                update(&trainee, step, false, trainee.size);
    right = right && symmcoll_join_end(trainee.join) == SYMMCOLL_OK &&
            symmcoll_join_begin(&trainee.reducer, 1, NULL, &trainee.join) ==
                SYMMCOLL_OK &&
            pass(&trainee, 0, 1) == SYMMCOLL_OK &&
            update(&trainee, 0, false, trainee.size);
    return end(&trainee) == SYMMCOLL_OK && right;
}

static int a_join_leaves_no_gradients(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);

    if (!join_twice(group, rank, &args))
        return 0;
    args.gradient_as_bucket_view = 1;
    if (!join_twice(group, rank, &args))
        return 0;
    args.find_unused = 1;
    if (!join_twice(group, rank, &args))
        return 0;
    args.gradient_as_bucket_view = args.find_unused = 0;
    args.write_back = 1;
    return join_twice(group, rank, &args);
}

/* ---- two reducers ---- */

/* Two reducers of one join make passes in changing order. */
static int reducers_join_together(struct symmcoll_group *group, int rank)
{
    struct model models[2];
    struct symmcoll_reducer *reducers[2] = {
        model_begin(group, rank, &models[0], 64),
        model_begin(group, rank, &models[1], 0)};
    struct symmcoll_join *join = NULL;
    int size = symmcoll_group_size(group);
    bool right = reducers[0] != NULL && reducers[1] != NULL &&
                 symmcoll_join_begin(reducers, 2, NULL, &join) == SYMMCOLL_OK;

    for (int step = 0; right && step < 4 - rank; step++)
        for (int i = 0; right && i < 2; i++) {
            int which = (step + i) % 2;

            model_fill(&models[which], rank, size, step);
            right = model_run_backward(reducers[which], &models[which], 1) ==
                    SYMMCOLL_OK;
            for (int r = 0, sum = 0; right && r < size; r++) {
                sum += step < 4 - r ? (int)model_term(r, 1, 3, step) : 0;
                if (r == size - 1)
                    right = model_view_is(reducers[which], 1, 3, (float)sum);
            }
            symmcoll_reducer_zero(reducers[which]);
        }
    right = symmcoll_join_end(join) == SYMMCOLL_OK && right;
    symmcoll_reducer_free(reducers[0]);
    symmcoll_reducer_free(reducers[1]);
    return right;
}

/* Rank 1 alone begins a second pass within the first: no other rank notices. */
static int one_reducer_is_in_a_pass(struct symmcoll_group *group, int rank)
{
    struct model models[2];
    struct symmcoll_reducer *reducers[2] = {
        model_begin(group, rank, &models[0], 64),
        model_begin(group, rank, &models[1], 0)};
    struct symmcoll_join *join = NULL;
    bool right = reducers[0] != NULL && reducers[1] != NULL &&
                 symmcoll_join_begin(reducers, 2, NULL, &join) == SYMMCOLL_OK &&
                 symmcoll_reducer_begin(reducers[0], 0) == SYMMCOLL_OK;

    if (rank == 1)
        right =
            right &&
            symmcoll_reducer_begin(reducers[1], 1) == SYMMCOLL_ERR_INVALID &&
            model_error_says("reducer_begin: expected no other reducer of "
                             "the join in a pass, found reducer 0 in one") &&
            symmcoll_reducer_forward(reducers[1], 1) == SYMMCOLL_ERR_INVALID &&
            model_error_says("reducer_forward: expected no other");
    right = right && symmcoll_reducer_finish(reducers[0]) == SYMMCOLL_OK &&
            model_run_backward(reducers[1], &models[1], 1) == SYMMCOLL_OK;
    right = symmcoll_join_end(join) == SYMMCOLL_OK && right;
    symmcoll_reducer_free(reducers[0]);
    symmcoll_reducer_free(reducers[1]);
    return right;
}

/* ---- stopping early ---- */

static int all_stop_with_the_first(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_join_args join = SYMMCOLL_JOIN_ARGS_INIT;
    struct trainee trainee;
    symmcoll_status_t status;
    int step = 0;

    join.stop_early = 1;
    status = begin(group, rank, &args, &join, &trainee);
    while (status == SYMMCOLL_OK && step < (rank == 2 ? 2 : 5))
        status = pass(&trainee, step++, 1);
    return (rank == 2 ? status == SYMMCOLL_OK
                      : status == SYMMCOLL_ERR_CANCELED &&
                            model_error_says("rank 2 has no more inputs")) &&
           end(&trainee) == SYMMCOLL_ERR_CANCELED &&
           step == (rank == 2 ? 2 : 3);
}

static int even_inputs_stop_nobody(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_join_args join = SYMMCOLL_JOIN_ARGS_INIT;
    struct trainee trainee;
    symmcoll_status_t status;

    join.stop_early = 1;
    status = begin(group, rank, &args, &join, &trainee);
    for (int step = 0; status == SYMMCOLL_OK && step < 3; step++)
        status = pass(&trainee, step, 1);
    return status == SYMMCOLL_OK && end(&trainee) == SYMMCOLL_OK;
}

/* ---- mistakes ---- */

/* Rank 1 passes another sync, or leaves out a forward: all ranks get the error, the
 * one without inputs, too. */
static bool differs(
    struct symmcoll_group *group, int rank, bool leaves_out, const char *text)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct trainee trainee;
    symmcoll_status_t status = begin(group, rank, &args, NULL, &trainee);

    if (status != SYMMCOLL_OK)
        return false;
    if (rank < 2) {
        if (rank != 1 || !leaves_out)
            status = symmcoll_reducer_forward(trainee.reducer, rank == 0);
        else
            status = symmcoll_reducer_begin(trainee.reducer, 1);
        if (status != SYMMCOLL_ERR_MISMATCH || !model_error_says(text) ||
            symmcoll_reducer_begin(trainee.reducer, 1) != SYMMCOLL_ERR_MISMATCH)
            return false;
    }
    status = symmcoll_join_end(trainee.join);
    if (status != SYMMCOLL_ERR_MISMATCH || !model_error_says(text))
        return false;
    status = pass(&trainee, 0, 1); /* without a join */
    symmcoll_reducer_free(trainee.reducer);
    return status == SYMMCOLL_OK;
}

static int another_sync_is_named(struct symmcoll_group *group, int rank)
{
    return differs(group, rank, false,
        "join: rank 1 calls forward of reducer 0 with sync 0, rank 0 calls "
        "forward of reducer 0 with sync 1");
}

static int a_missing_call_is_named(struct symmcoll_group *group, int rank)
{
    return differs(group, rank, true,
        "join: rank 1 begins a pass of reducer 0 with sync 1, rank 0 calls "
        "forward of reducer 0 with sync 1");
}

/* Rank 1 ends the join within a pass: no rank waits for it. */
static int an_end_within_a_pass_ends_all(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct trainee trainee;
    symmcoll_status_t status = begin(group, rank, &args, NULL, &trainee);

    if (status != SYMMCOLL_OK)
        return false;
    if (rank == 1)
        return symmcoll_reducer_forward(trainee.reducer, 0) == SYMMCOLL_OK &&
               symmcoll_reducer_begin(trainee.reducer, 0) == SYMMCOLL_OK &&
               end(&trainee) == SYMMCOLL_ERR_INVALID;
    for (int step = 0; status == SYMMCOLL_OK && rank == 0; step++)
        status = pass(&trainee, step, 0);
    return (rank != 0 || (status == SYMMCOLL_ERR_CANCELED &&
                             model_error_says("rank 1 has ended it"))) &&
           end(&trainee) == SYMMCOLL_ERR_CANCELED;
}

static int other_options_are_named(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_join_args join = SYMMCOLL_JOIN_ARGS_INIT;
    struct trainee trainee;
    bool right;

    join.stop_early = rank == 1;
    right =
        begin(group, rank, &args, &join, &trainee) == SYMMCOLL_ERR_MISMATCH &&
        model_error_says("join: stop_early: rank 1 has 1, rank 0 has 0");
    join.size = rank == 1 ? 1 : sizeof(join);
    right = right &&
            symmcoll_join_begin(&trainee.reducer, 1, &join, &trainee.join) ==
                SYMMCOLL_ERR_INVALID &&
            model_error_says("rank 1: join_begin") &&
            pass(&trainee, 0, 1) == SYMMCOLL_OK;
    symmcoll_reducer_free(trainee.reducer);
    return right;
}

static int mistakes_are_refused(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_join_args active = SYMMCOLL_JOIN_ARGS_INIT;
    struct symmcoll_reducer *none = NULL, *two[2];
    struct symmcoll_join *join;
    struct symmcoll_group *other = NULL;
    struct trainee trainee;
    struct model model;
    bool right;

    active.divide_by_active = 1;
    args.hook = symmcoll_hook_all_reduce;
    right =
        begin(group, rank, &args, &active, &trainee) == SYMMCOLL_ERR_INVALID &&
        model_error_says("without a hook") &&
        symmcoll_join_begin(NULL, 1, NULL, &join) == SYMMCOLL_ERR_INVALID &&
        symmcoll_join_begin(&none, 1, NULL, &join) == SYMMCOLL_ERR_INVALID &&
        symmcoll_join_end(NULL) == SYMMCOLL_ERR_INVALID &&
        symmcoll_group_split(group, 0, rank, NULL, &other) == SYMMCOLL_OK;
    two[0] = trainee.reducer;
    two[1] = right ? model_begin(other, rank, &model, 0) : NULL;
    right = right && two[1] != NULL &&
            symmcoll_join_begin(two, 2, NULL, &join) == SYMMCOLL_ERR_INVALID &&
            model_error_says("reducer 1: expected group ") &&
            symmcoll_reducer_begin(two[0], 0) == SYMMCOLL_OK &&
            symmcoll_join_begin(two, 1, NULL, &join) == SYMMCOLL_ERR_INVALID &&
            model_error_says("found that one has begun") &&
            symmcoll_reducer_finish(two[0]) == SYMMCOLL_OK &&
            symmcoll_join_begin(two, 1, NULL, &join) == SYMMCOLL_OK &&
            symmcoll_join_begin(two, 1, NULL, &trainee.join) ==
                SYMMCOLL_ERR_INVALID &&
            model_error_says("found it in one") &&
            symmcoll_join_end(join) == SYMMCOLL_OK;
    symmcoll_reducer_free(two[1]);
    symmcoll_reducer_free(two[0]);
    symmcoll_group_free(other);
    return right;
}

/* Rank 1 makes 1000 passes with zeros. */
static int skew_is_logged(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(0);
    struct trainee trainee;
    struct logged logged;
    char text[4096];
    const char *found;
    bool right;

    logged_begin(&logged);
    right = begin(group, rank, &args, NULL, &trainee) == SYMMCOLL_OK;
    for (int step = 0; right && rank == 0 && step < 1002; step++)
        right = pass(&trainee, step % 7, 0) == SYMMCOLL_OK;
    right = end(&trainee) == SYMMCOLL_OK && right;
    logged_end(&logged, text, sizeof(text));
    found = strstr(text, "no inputs for 1000 passes");
    return right && (found != NULL) == (rank == 1) &&
           (found == NULL || strstr(found + 1, "no inputs for") == NULL);
}

static const struct model_point points[] = {
    {averages_are_over_all, 3,
        "D50 D51: ranks without inputs count as zeros, and get the parameters"},
    {averages_are_over_all, 2, "D50 D51: so do those of two ranks"},
    {a_rank_may_have_no_inputs, 3, "D50: a rank may have no inputs at all"},
    {averages_are_over_the_active, 3,
        "D51 D21: averages may be over the ranks with inputs"},
    {every_mode_joins, 3, "D50: gradients of every mode and hook join"},
    {passes_accumulate, 3, "D50: passes without synchronisation join"},
    {static_graphs_join, 3, "a static graph joins when it is known"},
    {buffers_are_those_of_an_active_rank, 3,
        "D50 D52: buffers are those of the highest rank with inputs"},
    {a_join_leaves_no_gradients, 3,
        "D50: the first average of a second join is over its own gradients"},
    {reducers_join_together, 3, "D50: two reducers join, in changing order"},
    {one_reducer_is_in_a_pass, 2,
        "within a join one reducer at a time is in a pass"},
    {all_stop_with_the_first, 3,
        "D53: all ranks may stop with the first, which is named"},
    {even_inputs_stop_nobody, 3, "D53: with even inputs nothing is canceled"},
    {another_sync_is_named, 3, "ranks with another sync are named on all"},
    {a_missing_call_is_named, 3, "so is a rank that leaves out a forward"},
    {an_end_within_a_pass_ends_all, 3,
        "a rank that ends the join within a pass ends it for all"},
    {other_options_are_named, 3, "options of joins that differ are named"},
    {mistakes_are_refused, 2,
        "D54: two groups, and other mistakes, are refused"},
};

int main(void)
{
    size_t n = sizeof(points) / sizeof(points[0]);

    plan(2 * (int)n + 1);
    for (size_t i = 0; i < n; i++) {
        ok(ranks_run(points[i].ranks, points[i].body), "processes: %s",
            points[i].sentence);
        ok(threads_run(points[i].ranks, points[i].body), "threads: %s",
            points[i].sentence);
    }
    ok(ranks_run(2, skew_is_logged),
        "processes: D54: passes of others are logged when they are many");
    return done_testing();
}
