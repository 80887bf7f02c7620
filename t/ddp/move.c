/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moving a reducer to another group, of fewer or of more ranks.
 */
#include "model.h"

#include <stdbool.h>
#include <string.h>

/* Makes a group of the first n ranks (out; NULL on the others). */
static bool make_group(
    struct symmcoll_group *group, int n, struct symmcoll_group **first)
{
    int rank = symmcoll_group_rank(group);

    *first = NULL;
    return symmcoll_group_split(group, rank < n ? 0 : -1, rank, NULL, first) >=
           0;
}

/* Runs a pass, and checks the averages of the steps first to step. */
static bool run(struct symmcoll_reducer *reducer, struct symmcoll_group *group,
    struct model *model, int first, int step)
{
    int size = symmcoll_group_size(group);

    model_fill(model, symmcoll_group_rank(group), size, step);
    return model_run_backward(reducer, model, 1) == SYMMCOLL_OK &&
           model_views_hold(reducer, model, size, first, step);
}

static int fewer_ranks(struct symmcoll_group *group, int rank)
{
    struct symmcoll_group *first = NULL;
    struct model model;
    struct symmcoll_reducer *reducer = model_begin(group, rank, &model, 64);
    bool right = reducer != NULL;

    for (int step = 0; right && step < 3; step++) {
        right = run(reducer, group, &model, step, step);
        symmcoll_reducer_zero(reducer);
    }
    right = right && make_group(group, 2, &first);
    if (first != NULL) {
        model.values[1][2] = (float)(7 + rank);
        right = right &&
                symmcoll_reducer_move(reducer, first, 0) == SYMMCOLL_OK &&
                symmcoll_reducer_bucket_count(reducer) == 1 &&
                model.values[1][2] == 7;
        for (int step = 3; right && step < 6; step++) {
            right = run(reducer, first, &model, step, step);
            symmcoll_reducer_zero(reducer);
        }
        right = right && symmcoll_reducer_bucket_count(reducer) > 1;
    }
    symmcoll_reducer_free(reducer);
    symmcoll_group_free(first);
    return right;
}

/* The last rank creates a reducer, while the others move theirs to the group with
 * it. */
static int more_ranks(struct symmcoll_group *group, int rank)
{
    struct symmcoll_group *first = NULL;
    struct symmcoll_reducer *reducer = NULL;
    struct model model;
    int size = symmcoll_group_size(group);
    bool right = make_group(group, size - 1, &first);

    if (first != NULL) {
        reducer = model_begin(first, rank, &model, 64);
        right = right && reducer != NULL;
        for (int step = 0; right && step < 3; step++) {
            right = run(reducer, first, &model, step, step);
            symmcoll_reducer_zero(reducer);
        }
        right =
            right && symmcoll_reducer_move(reducer, group, 0) == SYMMCOLL_OK;
    } else {
        reducer = model_begin(group, rank, &model, 64);
        right = reducer != NULL && model.values[0][1] == 1;
    }
    for (int step = 3; right && step < 6; step++) {
        right = run(reducer, group, &model, step, step);
        symmcoll_reducer_zero(reducer);
    }
    symmcoll_reducer_free(reducer);
    symmcoll_group_free(first);
    return right;
}

/* The next forward after a move broadcasts, as that of a new rank does, although the
 * one before it did not synchronise. */
static int buffers_are_sent_after_a_move(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_group *first = NULL;
    struct symmcoll_reducer *reducer = NULL;
    int64_t count = rank;
    struct symmcoll_tensor buffer = model_vector(&count, SYMMCOLL_INT64, 1);
    struct model model;
    int size = symmcoll_group_size(group);
    bool right = make_group(group, size - 1, &first);

    args.buffers = &buffer;
    args.nbuffers = 1;
    model_make(&model, rank);
    right = right &&
            symmcoll_reducer_create(first != NULL ? first : group, model.params,
                MODEL_PARAMS, &args, &reducer) == SYMMCOLL_OK;
    if (first != NULL)
        right = right && symmcoll_reducer_forward(reducer, 0) == SYMMCOLL_OK &&
                symmcoll_reducer_move(reducer, group, 0) == SYMMCOLL_OK;
    count = 10 + rank;
    right = right && symmcoll_reducer_forward(reducer, 1) == SYMMCOLL_OK &&
            count == 10 && run(reducer, group, &model, 0, 0);
    symmcoll_reducer_free(reducer);
    symmcoll_group_free(first);
    return right;
}

/* Gradients that have accumulated are kept, or dropped; on a group of as many
 * ranks, so that averages are exact. */
static bool accumulate(struct symmcoll_group *group, int rank,
    const struct symmcoll_reducer_args *args, bool keeps)
{
    struct symmcoll_group *again = NULL;
    struct symmcoll_reducer *reducer = NULL;
    struct symmcoll_reducer_args given = *args;
    struct model model;
    int size = symmcoll_group_size(group);
    bool right, looks = args->find_unused != 0;

    model_make(&model, rank);
    right = symmcoll_reducer_create(group, model.params, MODEL_PARAMS, &given,
                &reducer) == SYMMCOLL_OK &&
            make_group(group, size, &again);
    for (int step = 0; right && step < 3; step++) {
        right = run(reducer, group, &model, step, step);
        symmcoll_reducer_zero(reducer);
    }
    for (int step = 3; right && step < 5; step++) {
        model_fill(&model, rank, size, step);
        right = model_run_backward(reducer, &model, 0) == SYMMCOLL_OK;
    }
    right = right &&
            symmcoll_reducer_move(reducer, again,
                keeps ? SYMMCOLL_MOVE_KEEP : 0) == SYMMCOLL_OK &&
            run(reducer, again, &model, keeps ? 3 : 5, 5);
    if (looks)
        symmcoll_reducer_zero(reducer);
    symmcoll_reducer_free(reducer);
    symmcoll_group_free(again);
    return right;
}

static int gradients_are_kept_or_dropped(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);

    if (!accumulate(group, rank, &args, true) ||
        !accumulate(group, rank, &args, false))
        return 0;
    args.find_unused = 1;
    return accumulate(group, rank, &args, true) &&
           accumulate(group, rank, &args, false);
}

/* With write_back the gradient is in the program's memory: its average is written
 * there after the move although it is not passed again, if it is kept. */
static int written_back_ones_are_kept(struct symmcoll_group *group, int rank)
{
    for (uint32_t flags = 0; flags <= SYMMCOLL_MOVE_KEEP; flags++) {
        struct symmcoll_reducer_args args = model_args(64);
        struct symmcoll_reducer *reducer = NULL;
        struct model model;
        int size = symmcoll_group_size(group);
        symmcoll_status_t status;
        bool right;

        model_make(&model, rank);
        args.write_back = 1;
        right = symmcoll_reducer_create(group, model.params, MODEL_PARAMS,
                    &args, &reducer) == SYMMCOLL_OK;
        model_fill(&model, rank, size, 0);
        right = right &&
                model_run_backward(reducer, &model, 0) == SYMMCOLL_OK &&
                symmcoll_reducer_move(reducer, group, flags) == SYMMCOLL_OK &&
                symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK;
        status = right ? symmcoll_reducer_finish(reducer) : SYMMCOLL_OK;
        right = right &&
                status == (flags != 0 ? SYMMCOLL_OK : SYMMCOLL_ERR_INVALID);
        for (int r = 0, sum = 0; right && flags != 0 && r < size; r++) {
            sum += (int)model_term(r, 2, 3, 0);
            if (r == size - 1)
                right = model.grads[2][3] == (float)sum;
        }
        symmcoll_reducer_free(reducer);
        if (!right)
            return 0;
    }
    return 1;
}

/* ---- mistakes ---- */

/* Rank 1 asks for gradients that it has given away: all refuse, and move again. */
static int mistakes_name_their_rank(struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_reducer *reducer = model_begin(group, rank, &model, 64);
    bool right =
        reducer != NULL &&
        symmcoll_reducer_move(NULL, group, 0) == SYMMCOLL_ERR_INVALID &&
        symmcoll_reducer_move(reducer, NULL, 0) == SYMMCOLL_ERR_INVALID &&
        symmcoll_reducer_move(reducer, group, rank == 1 ? 8 : 0) ==
            SYMMCOLL_ERR_INVALID &&
        model_error_says("rank 1: reducer_move: expected flags");

    right = right &&
            symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_ERR_INVALID &&
            model_error_says("symmcoll_reducer_move() again") &&
            symmcoll_reducer_forward(reducer, 1) == SYMMCOLL_ERR_INVALID &&
            symmcoll_reducer_move(reducer, group, 0) == SYMMCOLL_OK &&
            symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK;
    /* A pass that has begun, as after an error. */
    right = right &&
            symmcoll_reducer_move(reducer, group, SYMMCOLL_MOVE_KEEP) ==
                SYMMCOLL_ERR_INVALID &&
            model_error_says("a pass with sync has begun") &&
            symmcoll_reducer_move(reducer, group, 0) == SYMMCOLL_OK &&
            run(reducer, group, &model, 0, 0);
    symmcoll_reducer_free(reducer);
    return right;
}

/* A new rank's reducer has other options than those that move. */
static int other_options_are_named(struct symmcoll_group *group, int rank)
{
    struct symmcoll_group *first = NULL;
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_reducer *reducer = NULL;
    struct model model;
    int size = symmcoll_group_size(group);
    symmcoll_status_t status;
    bool right = make_group(group, size - 1, &first);

    if (first != NULL) {
        reducer = model_begin(first, rank, &model, 64);
        status = reducer != NULL ? symmcoll_reducer_move(reducer, group, 0)
                                 : SYMMCOLL_OK;
    } else {
        model_make(&model, rank);
        args.static_graph = 1;
        status = symmcoll_reducer_create(
            group, model.params, MODEL_PARAMS, &args, &reducer);
    }
    right = right && status == SYMMCOLL_ERR_MISMATCH &&
            model_error_says("reducer: static_graph: rank 2 has 1");
    symmcoll_reducer_free(reducer);
    symmcoll_group_free(first);
    return right;
}

static int joins_are_refused(struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_reducer *reducer = model_begin(group, rank, &model, 64);
    struct symmcoll_join *join = NULL;
    bool right =
        reducer != NULL &&
        symmcoll_join_begin(&reducer, 1, NULL, &join) == SYMMCOLL_OK &&
        symmcoll_reducer_move(reducer, group, 0) == SYMMCOLL_ERR_INVALID &&
        model_error_says("in no join") &&
        symmcoll_join_end(join) == SYMMCOLL_OK &&
        symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_ERR_INVALID &&
        symmcoll_reducer_move(reducer, group, 0) == SYMMCOLL_OK &&
        run(reducer, group, &model, 0, 0);

    symmcoll_reducer_free(reducer);
    return right;
}

/* Without initial synchronisation a move sends nothing. */
static int a_move_may_be_alone(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_reducer *reducer = NULL;
    struct model model;
    uint64_t before = symmcoll_group_sequence(group);
    bool right;

    model_make(&model, rank);
    args.no_init_sync = 1;
    right = symmcoll_reducer_create(group, model.params, MODEL_PARAMS, &args,
                &reducer) == SYMMCOLL_OK &&
            symmcoll_reducer_move(reducer, group, 0) == SYMMCOLL_OK &&
            symmcoll_reducer_move(reducer, group, 8) == SYMMCOLL_ERR_INVALID &&
            symmcoll_reducer_begin(reducer, 0) == SYMMCOLL_ERR_INVALID &&
            symmcoll_reducer_move(reducer, group, 0) == SYMMCOLL_OK &&
            symmcoll_group_sequence(group) == before &&
            run(reducer, group, &model, 0, 0);
    symmcoll_reducer_free(reducer);
    return right;
}

static const struct model_point points[] = {
    {fewer_ranks, 3, "D47: a reducer moves to a group of fewer ranks"},
    {more_ranks, 3, "D47: a reducer moves to a group with a new rank"},
    {buffers_are_sent_after_a_move, 3,
        "D47 D55: the next forward after a move sends buffers"},
    {gradients_are_kept_or_dropped, 2,
        "D47: gradients that have accumulated are kept or dropped"},
    {written_back_ones_are_kept, 2,
        "D47: so are those in the program's memory"},
    {mistakes_name_their_rank, 2,
        "a move that one rank refuses is refused on all, and made again"},
    {other_options_are_named, 3, "options of a new rank are compared"},
    {joins_are_refused, 2, "a reducer in a join does not move"},
    {a_move_may_be_alone, 2,
        "without initial synchronisation a move sends nothing"},
};

int main(void)
{
    return model_run_points(points, sizeof(points) / sizeof(points[0]));
}
