/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers, which all ranks get from rank 0 before a forward; parameters and buffers
 * that are ignored by name.
 */
#include "model.h"

#include <stdbool.h>
#include <string.h>

#define BUFFERS 3

static const char *const buffer_names[BUFFERS] = {
    "bn.running_mean", "bn.count", "cache"};

/* The buffers of one rank: a mean with gaps, a counter, a matrix. */
struct buffers {
    float mean[3][2]; /* the first column */
    int64_t count;
    float cache[2][4];
    struct symmcoll_tensor tensors[BUFFERS];
};

static void set_buffers(struct buffers *buffers, int value)
{
    for (int i = 0; i < 3; i++) {
        buffers->mean[i][0] = (float)(10 * value + i);
        buffers->mean[i][1] = -1;
    }
    buffers->count = ((int64_t)1 << 40) + value;
    for (int i = 0; i < 8; i++)
        buffers->cache[i / 4][i % 4] = (float)(100 * value + i);
}

/* Checks that the buffers are those of a value; cache: of another one. */
static bool are(const struct buffers *buffers, int value, int cache)
{
    bool right = buffers->count == ((int64_t)1 << 40) + value;

    for (int i = 0; i < 3; i++)
        right = right && buffers->mean[i][0] == (float)(10 * value + i) &&
                buffers->mean[i][1] == -1;
    for (int i = 0; i < 8; i++)
        right =
            right && buffers->cache[i / 4][i % 4] == (float)(100 * cache + i);
    if (!right)
        diag("expected %d and %d, found %lld and %g", value, cache,
            (long long)buffers->count, (double)buffers->cache[0][0]);
    return right;
}

static struct symmcoll_reducer_args make_buffers(
    struct buffers *buffers, int value)
{
    struct symmcoll_reducer_args args = model_args(64);

    memset(buffers, 0, sizeof(*buffers));
    set_buffers(buffers, value);
    buffers->tensors[0] = model_vector(buffers->mean, SYMMCOLL_FLOAT32, 3);
    buffers->tensors[0].strides[0] = 2;
    buffers->tensors[1] = model_vector(&buffers->count, SYMMCOLL_INT64, 1);
    buffers->tensors[2] = model_matrix(buffers->cache, SYMMCOLL_FLOAT32, 2, 4);
    args.buffers = buffers->tensors;
    args.nbuffers = BUFFERS;
    args.buffer_names = buffer_names;
    return args;
}

static struct symmcoll_reducer *create(struct symmcoll_group *group, int rank,
    struct model *model, const struct symmcoll_reducer_args *args)
{
    struct symmcoll_reducer *reducer = NULL;

    model_make(model, rank);
    if (symmcoll_reducer_create(
            group, model->params, MODEL_PARAMS, args, &reducer) != SYMMCOLL_OK)
        diag("%s", symmcoll_last_error());
    return reducer;
}

/* ---- buffers ---- */

static int buffers_become_those_of_rank_0(
    struct symmcoll_group *group, int rank)
{
    struct buffers buffers;
    struct symmcoll_reducer_args args = make_buffers(&buffers, rank);
    struct model model;
    struct symmcoll_reducer *reducer = create(group, rank, &model, &args);
    int size = symmcoll_group_size(group);
    bool right = reducer != NULL && are(&buffers, 0, 0);

    for (int step = 0; right && step < 3; step++) {
        set_buffers(&buffers, 10 * step + rank + 1);
        right = symmcoll_reducer_forward(reducer, 1) == SYMMCOLL_OK &&
                are(&buffers, 10 * step + 1, 10 * step + 1);
        model_fill(&model, rank, size, step);
        right = right &&
                model_run_backward(reducer, &model, 1) == SYMMCOLL_OK &&
                model_views_hold(reducer, &model, size, step, step);
        symmcoll_reducer_zero(reducer);
    }
    symmcoll_reducer_free(reducer);
    return right;
}

/* Runs forwards with and without synchronisation: none is sent after one
 * without. */
static int accumulation_sends_none(struct symmcoll_group *group, int rank)
{
    static const int syncs[] = {1, 0, 0, 1, 1, 0, 1};
    struct buffers buffers;
    struct symmcoll_reducer_args args = make_buffers(&buffers, rank);
    struct model model;
    struct symmcoll_reducer *reducer = create(group, rank, &model, &args);
    bool right = reducer != NULL;

    for (int i = 0; right && i < 7; i++) {
        bool sends = i == 0 || syncs[i - 1] != 0;
        uint64_t before = symmcoll_group_sequence(group);
        int value = sends ? 1 : rank + 1;

        set_buffers(&buffers, rank + 1);
        right = symmcoll_reducer_forward(reducer, syncs[i]) == SYMMCOLL_OK &&
                (symmcoll_group_sequence(group) > before) == sends &&
                are(&buffers, value, value) &&
                model_run_backward(reducer, &model, syncs[i]) == SYMMCOLL_OK;
    }
    symmcoll_reducer_free(reducer);
    return right;
}

static int without_buffers_nothing_is_sent(
    struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_reducer *reducer = model_begin(group, rank, &model, 0);
    uint64_t before = symmcoll_group_sequence(group);
    bool right = reducer != NULL &&
                 symmcoll_reducer_forward(reducer, 1) == SYMMCOLL_OK &&
                 symmcoll_group_sequence(group) == before;

    symmcoll_reducer_free(reducer);
    return right;
}

static int a_pass_excludes_a_forward(struct symmcoll_group *group, int rank)
{
    struct buffers buffers;
    struct symmcoll_reducer_args args = make_buffers(&buffers, rank);
    struct model model;
    struct symmcoll_reducer *reducer = create(group, rank, &model, &args);
    bool right =
        reducer != NULL &&
        symmcoll_reducer_forward(NULL, 1) == SYMMCOLL_ERR_INVALID &&
        symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK &&
        symmcoll_reducer_forward(reducer, 1) == SYMMCOLL_ERR_INVALID &&
        model_error_says("reducer_forward: the backward before has not "
                         "finished: no gradient of parameter 0") &&
        symmcoll_reducer_finish(reducer) == SYMMCOLL_OK &&
        symmcoll_reducer_forward(reducer, 1) == SYMMCOLL_OK;

    symmcoll_reducer_free(reducer);
    return right;
}

/* ---- mistakes of one rank ---- */

/* Rank 1 leaves out a forward, or says in the one before that it accumulates: its
 * next operation is another one than that of the others, and all get an error. */
static bool parts(struct symmcoll_group *group, int rank, bool leaves_out)
{
    struct buffers buffers;
    struct symmcoll_reducer_args args = make_buffers(&buffers, rank);
    struct model model;
    struct symmcoll_reducer *reducer = create(group, rank, &model, &args);
    symmcoll_status_t status = SYMMCOLL_OK;

    if (reducer == NULL)
        return false;
    if (!leaves_out)
        status = symmcoll_reducer_forward(reducer, rank != 1);
    if (status == SYMMCOLL_OK && !(leaves_out && rank == 1))
        status = symmcoll_reducer_forward(reducer, 1);
    if (status == SYMMCOLL_OK)
        status = model_run_backward(reducer, &model, 1);
    symmcoll_reducer_free(reducer);
    return status == SYMMCOLL_ERR_MISMATCH;
}

static int a_missing_forward_fails_all(struct symmcoll_group *group, int rank)
{
    return parts(group, rank, true);
}

static int another_sync_fails_all(struct symmcoll_group *group, int rank)
{
    return parts(group, rank, false);
}

/* Creates a reducer with other arguments on rank 1, which all ranks refuse with a
 * text; all tensors stay as they are. */
static bool differs(struct symmcoll_group *group, int rank,
    const struct symmcoll_reducer_args *args, const struct buffers *buffers,
    const char *text)
{
    struct symmcoll_reducer *reducer = NULL;
    struct model model;

    model_make(&model, rank);
    return symmcoll_reducer_create(group, model.params, MODEL_PARAMS, args,
               &reducer) == SYMMCOLL_ERR_MISMATCH &&
           reducer == NULL && model_error_says(text) &&
           are(buffers, rank, rank) &&
           model.values[0][1] == (float)(1000 * rank + 1);
}

static int other_buffers_name_their_rank(struct symmcoll_group *group, int rank)
{
    struct buffers buffers;
    struct symmcoll_reducer_args args = make_buffers(&buffers, rank);
    bool right;

    args.nbuffers = rank == 1 ? 2 : BUFFERS;
    right = differs(group, rank, &args, &buffers,
        "reducer: number of buffers: rank 1 has 2, rank 0 has 3");
    args = make_buffers(&buffers, rank);
    if (rank == 1)
        buffers.tensors[2] =
            model_matrix(buffers.cache, SYMMCOLL_FLOAT32, 4, 2);
    right =
        right &&
        differs(group, rank, &args, &buffers,
            "reducer: buffer 2 (cache): rank 1 has shape [4, 2], rank 0 has "
            "[2, 4]");
    args = make_buffers(&buffers, rank);
    if (rank == 1)
        buffers.tensors[1].dtype = SYMMCOLL_UINT64;
    return right && differs(group, rank, &args, &buffers,
                        "reducer: buffer 1 (bn.count): rank 1 has element type "
                        "uint64, rank 0 has int64");
}

static int others_ignored_name_their_rank(
    struct symmcoll_group *group, int rank)
{
    static const char *const params[] = {"fc1.bias"}, *const two[] = {"cache"};
    struct buffers buffers;
    struct symmcoll_reducer_args args = make_buffers(&buffers, rank);
    bool right;

    args.ignored = params;
    args.nignored = rank == 1;
    right = differs(group, rank, &args, &buffers,
        "reducer: parameter 1 (fc1.bias): it is in args.ignored of rank 1, not "
        "in that of rank 0");
    args.ignored = two;
    args.nignored = rank == 0;
    return right && differs(group, rank, &args, &buffers,
                        "reducer: buffer 2 (cache): it is in args.ignored of "
                        "rank 0, not in that of rank 1");
}

static bool is_refused(struct symmcoll_group *group,
    const struct symmcoll_reducer_args *args, const char *text)
{
    struct symmcoll_reducer *reducer = NULL;
    struct model model;

    model_make(&model, 0);
    return symmcoll_reducer_create(group, model.params, MODEL_PARAMS, args,
               &reducer) == SYMMCOLL_ERR_INVALID &&
           reducer == NULL && model_error_says(text);
}

static int bad_buffers_are_refused(struct symmcoll_group *group, int rank)
{
    static const char *const unknown[] = {"fc9.weight"};
    struct buffers buffers;
    struct symmcoll_reducer_args args = make_buffers(&buffers, rank);
    bool right;

    args.buffers = NULL;
    right = is_refused(group, &args, "found NULL and 3");
    args = make_buffers(&buffers, rank);
    args.nbuffers = -1;
    right = right && is_refused(group, &args, "found an array and -1");
    args = make_buffers(&buffers, rank);
    buffers.tensors[2].data = NULL;
    right =
        right && is_refused(group, &args, "buffer 2 (cache): expected data");
    args = make_buffers(&buffers, rank);
    buffers.tensors[1].device = SYMMCOLL_CUDA;
    right = right && is_refused(group, &args,
                         "buffer 1 (bn.count): expected host memory, as of "
                         "parameter 0 (fc1.weight), found device memory of "
                         "device 0");
    args = make_buffers(&buffers, rank);
    args.ignored = unknown;
    args.nignored = 1;
    right = right && is_refused(group, &args, "found \"fc9.weight\"");
    args.nignored = -1;
    right = right && is_refused(group, &args, "found NULL or -1");
    args.ignored = model_names;
    args.nignored = MODEL_PARAMS;
    return right && is_refused(group, &args, "found 4 that are");
}

/* ---- ignored ones ---- */

static const char *const left_out[] = {"fc1.bias", "cache"};

/* Ignores a parameter and a buffer, neither of which has data on rank 1. */
static int ignored_ones_stay(struct symmcoll_group *group, int rank)
{
    struct buffers buffers;
    struct symmcoll_reducer_args args = make_buffers(&buffers, rank);
    struct model model;
    struct symmcoll_reducer *reducer = NULL;
    struct symmcoll_tensor grad = SYMMCOLL_TENSOR_INIT;
    int size = symmcoll_group_size(group), used;
    bool right;

    model_make(&model, rank);
    args.ignored = left_out;
    args.nignored = 2;
    args.find_unused = 1;
    if (rank == 1)
        model.params[1].data = buffers.tensors[2].data = NULL;
    right = symmcoll_reducer_create(group, model.params, MODEL_PARAMS, &args,
                &reducer) == SYMMCOLL_OK &&
            are(&buffers, 0, rank) && model.values[0][1] == 1 &&
            model.values[1][1] == (float)(1000 * rank + 101);
    set_buffers(&buffers, rank + 5);
    right = right && symmcoll_reducer_forward(reducer, 1) == SYMMCOLL_OK &&
            are(&buffers, 5, rank + 5);
    model_fill(&model, rank, size, 0);
    right = right && symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK;
    for (int p = MODEL_PARAMS - 1; right && p >= 0; p--)
        right = p == 1 || symmcoll_reducer_ready(reducer, p, model.grads[p]) ==
                              SYMMCOLL_OK;
    right = right && symmcoll_reducer_finish(reducer) == SYMMCOLL_OK;
    for (int p = 0; right && p < MODEL_PARAMS; p++)
        for (int r = 0, sum = 0; r < size; r++) {
            sum += (int)model_term(r, p, 2, 0);
            if (p != 1 && r == size - 1)
                right = model_view_is(reducer, p, 2, (float)sum);
        }
    right =
        right &&
        symmcoll_reducer_grad(reducer, 1, &grad) == SYMMCOLL_ERR_INVALID &&
        model_error_says("parameter 1 (fc1.bias): expected a parameter that "
                         "is not in args.ignored") &&
        symmcoll_reducer_was_used(reducer, 1, &used) == SYMMCOLL_ERR_INVALID;
    symmcoll_reducer_free(reducer);
    return right;
}

/* A gradient of an ignored parameter is refused on its rank, in a static graph,
 * too; the averages of the others hold. */
static int their_gradients_are_refused(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct model model;
    struct symmcoll_reducer *reducer;
    int size = symmcoll_group_size(group);
    bool right;

    args.ignored = left_out;
    args.nignored = 1;
    args.static_graph = 1;
    args.write_back = 1;
    reducer = create(group, rank, &model, &args);
    right = reducer != NULL;
    for (int step = 0; right && step < 3; step++) {
        symmcoll_status_t expected =
            rank == 1 ? SYMMCOLL_ERR_INVALID : SYMMCOLL_OK;

        model_fill(&model, rank, size, step);
        right = symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK;
        for (int p = 0; right && p < MODEL_PARAMS; p++)
            if (p != 1 || rank == 1)
                right = (symmcoll_reducer_ready(reducer, p, model.grads[p]) ==
                            SYMMCOLL_OK) == (p != 1);
        right = right && symmcoll_reducer_finish(reducer) == expected;
        for (int r = 0, sum = 0; right && r < size; r++) {
            sum += (int)model_term(r, 2, 2, step);
            if (r == size - 1)
                right = model.grads[2][2] == (float)sum;
        }
    }
    symmcoll_reducer_free(reducer);
    return right;
}

static const struct model_point points[] = {
    {buffers_become_those_of_rank_0, 3,
        "D5: buffers become rank 0's at creation and before each forward"},
    {accumulation_sends_none, 2,
        "D55: after a forward without synchronisation no buffer is sent"},
    {without_buffers_nothing_is_sent, 2,
        "D5: a forward without buffers sends nothing"},
    {a_pass_excludes_a_forward, 2, "a forward within a pass is refused"},
    {a_missing_forward_fails_all, 3,
        "a forward that one rank leaves out is an error on all"},
    {another_sync_fails_all, 3, "so is another sync of one rank"},
    {other_buffers_name_their_rank, 3,
        "D4: buffers that differ name their rank on all"},
    {others_ignored_name_their_rank, 3,
        "D56: so do tensors that one rank ignores"},
    {bad_buffers_are_refused, 1, "bad buffers and unknown names are refused"},
    {ignored_ones_stay, 3,
        "D56: ignored tensors are not compared, broadcast or reduced"},
    {their_gradients_are_refused, 3,
        "D56: a gradient of an ignored parameter is refused on its rank"},
};

int main(void)
{
    return model_run_points(points, sizeof(points) / sizeof(points[0]));
}
