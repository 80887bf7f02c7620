/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests sharded updates: each rank updates its slices of the parameters, which are
 * then gathered. The parameters have the bits that the same training has with the
 * averages of a plain reducer.
 */
#include "model.h"

#include "base/reduce.h"

#include <stdbool.h>
#include <string.h>

#define PARAMS 5
#define TIED 4 /* with parameter 0, if weights are tied */
#define MOST 40
#define STEPS 5

enum flag {
    VIEWS = 1,
    FIND_UNUSED = 2,
    STATIC_GRAPH = 4,
    WIDE = 8,
    TIES = 16,
    FLAT = 32, /* with WIDE: gradients are in one array */
    COMBINATIONS = 64
};

/* Parameter 1 has fewer elements than there are ranks, parameter 3 is stored by columns,
 * and a small bucket_cap makes several buckets. */
static const int64_t shapes[PARAMS][2] = {
    {8, 5}, {1, 1}, {13, 1}, {5, 7}, {8, 5}};
static const char *const names[PARAMS] = {"a", "b", "c", "d", "e"};

/* A training run of one rank. */
struct run {
    struct symmcoll_group *group;
    struct symmcoll_reducer *reducer;
    int rank, flags;
    bool shards;
    float values[PARAMS][MOST];
    float grads[PARAMS][MOST];
    float momenta[PARAMS][MOST];
    float memory[PARAMS * MOST];
    struct symmcoll_tensor params[PARAMS];
};

static enum symmcoll_dtype dtype_of(int p)
{
    return p == 2 ? SYMMCOLL_BFLOAT16 : SYMMCOLL_FLOAT32;
}

static float get(enum symmcoll_dtype dtype, const void *at, size_t i)
{
    return dtype == SYMMCOLL_FLOAT32
               ? ((const float *)at)[i]
               : symc_bfloat16_to_float(((const uint16_t *)at)[i]);
}

static void put(enum symmcoll_dtype dtype, void *at, size_t i, float value)
{
    if (dtype == SYMMCOLL_FLOAT32)
        ((float *)at)[i] = value;
    else
        ((uint16_t *)at)[i] = symc_float_to_bfloat16(value);
}

static int own_of(const struct run *run, int p)
{
    return (run->flags & TIES) != 0 && p == TIED ? 0 : p;
}

/* Describes the parameters, with their first values. */
static void make_params(struct run *run)
{
    for (int p = 0; p < PARAMS; p++) {
        struct symmcoll_tensor *param = &run->params[p];

        *param = model_matrix(run->values[own_of(run, p)], dtype_of(p),
            shapes[p][0], shapes[p][1]);
        if (p == 3) {
            param->strides[0] = 1;
            param->strides[1] = shapes[p][0];
        }
        for (size_t i = 0; i < model_count(param); i++)
            put(param->dtype, param->data, i, 1.0f / (float)(i + 2));
    }
}

static struct symmcoll_reducer_args make_args(int flags, bool shards)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;

    args.bucket_cap = 100;
    args.names = names;
    args.shard = shards;
    args.gradient_as_bucket_view = (flags & VIEWS) != 0;
    args.find_unused = (flags & FIND_UNUSED) != 0;
    args.static_graph = (flags & STATIC_GRAPH) != 0;
    args.reduce_dtype = (flags & WIDE) != 0 ? SYMMCOLL_FLOAT32 : 0;
    return args;
}

/* Returns whether gradients are in one array, which has one type. */
static bool is_flat(int flags)
{
    return (flags & WIDE) != 0 && (flags & FLAT) != 0;
}

static bool start(struct run *run, struct symmcoll_group *group, int rank,
    int flags, bool shards)
{
    struct symmcoll_reducer_args args = make_args(flags, shards);

    memset(run, 0, sizeof(*run));
    run->group = group;
    run->rank = rank;
    run->flags = flags;
    run->shards = shards;
    make_params(run);
    if (is_flat(flags))
        args.memory = run->memory;
    return symmcoll_reducer_create(
               group, run->params, PARAMS, &args, &run->reducer) == SYMMCOLL_OK;
}

/* Returns an element of a gradient; it depends on the parameter, so that a parameter
 * that has not been gathered shows. */
static float term(const struct run *run, int step, int p, size_t i)
{
    int number = (7 * run->rank + 5 * p + 3 * step + (int)i) % 17; /* 0 to 16 */

    return ((float)number - 8.0f) / 8.0f *
           (1.0f + get(dtype_of(p), run->params[p].data, i));
}

/* Returns whether a rank has no gradient of a parameter in a step: in some steps none
 * has one of parameter 1. */
static bool is_missing(const struct run *run, int step, int p)
{
    if ((run->flags & STATIC_GRAPH) != 0)
        return p == 1 || (p == 3 && run->rank == 0);
    return (p == 1 && step % 2 == 0) || (p == 3 && (run->rank + step) % 2);
}

/* Writes a gradient, or adds it to the view, and passes it. */
static bool pass(struct run *run, int step, int p)
{
    struct symmcoll_tensor grad = SYMMCOLL_TENSOR_INIT;
    bool views = (run->flags & VIEWS) != 0 || is_flat(run->flags);

    if (symmcoll_reducer_grad(run->reducer, p, &grad) != SYMMCOLL_OK)
        return false;
    if (!views) {
        grad.data = run->grads[p];
        grad.dtype = dtype_of(p);
    }
    for (size_t i = 0; i < model_count(&run->params[p]); i++)
        put(grad.dtype, grad.data, i,
            (views ? get(grad.dtype, grad.data, i) : 0) +
                term(run, step, p, i));
    return symmcoll_reducer_ready(run->reducer, p, grad.data) == SYMMCOLL_OK;
}

static bool run_pass(struct run *run, int step, int sync)
{
    bool right = true;

    for (int p = 0; run->shards && right && p < PARAMS && step % 3 != 0; p++)
        right = symmcoll_reducer_gather_wait(run->reducer, p) == SYMMCOLL_OK;
    right = right && symmcoll_reducer_begin(run->reducer, sync) == SYMMCOLL_OK;
    for (int p = PARAMS - 1; right && p >= 0; p--)
        if (!is_missing(run, step, p))
            right = pass(run, step, p);
    return right && symmcoll_reducer_finish(run->reducer) == SYMMCOLL_OK;
}

/* Updates elements of a parameter, from this one on. */
static void update(struct run *run, int p, size_t offset, size_t count,
    const void *grad, enum symmcoll_dtype dtype)
{
    float *momentum = run->momenta[p] + offset;
    char *value =
        (char *)run->params[p].data + offset * symmcoll_dtype_size(dtype_of(p));

    for (size_t i = 0; i < count; i++) {
        momentum[i] = 0.75f * momentum[i] + get(dtype, grad, i);
        put(dtype_of(p), value, i,
            get(dtype_of(p), value, i) - 0.125f * momentum[i]);
    }
}

static bool update_slices(struct run *run)
{
    int n = symmcoll_reducer_shard_count(run->reducer);

    for (int s = 0; s < n; s++) {
        struct symmcoll_shard shard = SYMMCOLL_SHARD_INIT;

        if (symmcoll_reducer_shard(run->reducer, s, &shard) != SYMMCOLL_OK)
            return false;
        if (shard.data != (char *)run->params[shard.param].data +
                              shard.offset * symmcoll_dtype_size(shard.dtype))
            return false;
        update(run, shard.param, shard.offset, shard.count, shard.grad,
            shard.grad_dtype);
    }
    return symmcoll_reducer_gather(run->reducer) == SYMMCOLL_OK;
}

static bool update_all(struct run *run)
{
    for (int p = 0; p < PARAMS; p++) {
        struct symmcoll_tensor grad = SYMMCOLL_TENSOR_INIT;

        if (own_of(run, p) != p)
            continue;
        if (symmcoll_reducer_grad(run->reducer, p, &grad) != SYMMCOLL_OK)
            return false;
        update(run, p, 0, model_count(&run->params[p]), grad.data, grad.dtype);
    }
    symmcoll_reducer_zero(run->reducer);
    return true;
}

/* Trains; every other step accumulates first. */
static bool train(struct run *run, int nsteps)
{
    bool right = true;

    for (int step = 0; right && step < nsteps; step++) {
        right = (step % 2 == 0 || run_pass(run, step, 0)) &&
                run_pass(run, step, 1) &&
                (run->shards ? update_slices(run) : update_all(run));
    }
    for (int p = 0; run->shards && right && p < PARAMS; p++)
        right = symmcoll_reducer_gather_wait(run->reducer, p) == SYMMCOLL_OK;
    return right;
}

/* Trains once sharded and once plain, and compares the parameters to the bit. */
static bool compare(
    struct symmcoll_group *group, int rank, int flags, int nsteps)
{
    struct run sharded = {.reducer = NULL}, plain = {.reducer = NULL};
    bool right = start(&plain, group, rank, flags, false) &&
                 start(&sharded, group, rank, flags, true) &&
                 train(&plain, nsteps) && train(&sharded, nsteps);

    if (!right)
        diag("flags %d: %s", flags, symmcoll_last_error());
    for (int p = 0; right && p < PARAMS; p++) {
        right = memcmp(plain.values[p], sharded.values[p],
                    sizeof(plain.values[p])) == 0;
        if (!right)
            diag("flags %d: parameter %d differs", flags, p);
    }
    symmcoll_reducer_free(plain.reducer);
    symmcoll_reducer_free(sharded.reducer);
    return right;
}

static int every_combination(struct symmcoll_group *group, int rank)
{
    for (int flags = 0; flags < COMBINATIONS; flags++)
        if (!compare(group, rank, flags, STEPS))
            return 0;
    return 1;
}

static int many_steps(struct symmcoll_group *group, int rank)
{
    return compare(group, rank, WIDE, 200) && compare(group, rank, VIEWS, 200);
}

/* Counts on all ranks how often each element of a parameter is in a slice. */
static bool cover(struct symmcoll_group *group,
    const struct symmcoll_reducer *reducer,
    const struct symmcoll_tensor *params, int nparams)
{
    int32_t counts[PARAMS][MOST] = {{0}};
    int last = -1;

    for (int s = 0; s < symmcoll_reducer_shard_count(reducer); s++) {
        struct symmcoll_shard shard = SYMMCOLL_SHARD_INIT;

        if (symmcoll_reducer_shard(reducer, s, &shard) != SYMMCOLL_OK ||
            shard.param <= last || shard.count == 0)
            return false;
        last = shard.param;
        for (size_t i = 0; i < shard.count; i++)
            counts[shard.param][shard.offset + i]++;
    }
    if (symmcoll_all_reduce(group, counts, counts, PARAMS * MOST,
            SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, NULL) != SYMMCOLL_OK)
        return false;
    for (int p = 0; p < nparams; p++)
        for (size_t i = 0; i < MOST; i++)
            if (counts[p][i] != (i < model_count(&params[p])))
                return false;
    return true;
}

static int slices_are_all(struct symmcoll_group *group, int rank)
{
    struct run run;
    bool right = start(&run, group, rank, 0, true) &&
                 cover(group, run.reducer, run.params, PARAMS);

    symmcoll_reducer_free(run.reducer);
    return right;
}

/* Trains, moves to a group of the other ranks, and trains there. */
static int slices_follow_the_group(struct symmcoll_group *group, int rank)
{
    struct symmcoll_group *smaller = NULL;
    struct run run;
    bool right = start(&run, group, rank, 0, true) && train(&run, 2) &&
                 symmcoll_group_split(group, rank == 1 ? -1 : 0, rank, NULL,
                     &smaller) >= SYMMCOLL_OK;

    if (rank != 1) {
        right = right &&
                symmcoll_reducer_move(run.reducer, smaller, 0) == SYMMCOLL_OK &&
                cover(smaller, run.reducer, run.params, PARAMS);
        run.group = smaller;
        right = right && train(&run, 2);
    }
    symmcoll_reducer_free(run.reducer);
    symmcoll_group_free(smaller);
    return right;
}

/* ---- refusals ---- */

static symmcoll_status_t no_hook(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    return symmcoll_hook_all_reduce(group, bucket, arg, work);
}

static bool is_refused(struct symmcoll_group *group,
    const struct symmcoll_reducer_args *args, symmcoll_status_t expected,
    const char *words)
{
    struct symmcoll_reducer *reducer = NULL;
    struct run run = {.flags = 0};
    symmcoll_status_t status;

    make_params(&run);
    status = symmcoll_reducer_create(group, run.params, PARAMS, args, &reducer);
    if (status == SYMMCOLL_OK)
        symmcoll_reducer_free(reducer);
    return status == expected && model_error_says(words);
}

static int other_options_are_refused(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = make_args(0, true);
    bool right;

    args.hook = no_hook;
    right = is_refused(group, &args, SYMMCOLL_ERR_INVALID,
        "expected shard or a hook, found both");
    args.hook = NULL;
    args.write_back = 1;
    right = right && is_refused(group, &args, SYMMCOLL_ERR_INVALID,
                         "expected shard or write_back, found both");
    args.write_back = 0;
    args.shard = rank == 1;
    return right && is_refused(group, &args, SYMMCOLL_ERR_MISMATCH,
                        "shard: rank 1 has 1, rank 0 has 0");
}

static int gaps_are_refused(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    float values[6] = {0};
    struct symmcoll_tensor param = model_matrix(values, SYMMCOLL_FLOAT32, 2, 2);
    struct symmcoll_reducer *reducer;

    (void)rank;
    param.strides[0] = 3;
    args.shard = 1;
    return symmcoll_reducer_create(group, &param, 1, &args, &reducer) ==
               SYMMCOLL_ERR_INVALID &&
           model_error_says("parameter 0: with shard, expected a parameter "
                            "whose elements are contiguous, found gaps");
}

/* Checks the calls on a sharded reducer that are refused before a rank waits. */
static bool refuses_calls(struct run *run)
{
    struct symmcoll_reducer *reducer = run->reducer;
    struct symmcoll_shard shard = SYMMCOLL_SHARD_INIT;
    struct symmcoll_join *join;

    return symmcoll_reducer_set_hook(reducer, no_hook, NULL, NULL) ==
               SYMMCOLL_ERR_INVALID &&
           model_error_says("expected a reducer without shard") &&
           symmcoll_join_begin(&reducer, 1, NULL, &join) ==
               SYMMCOLL_ERR_INVALID &&
           model_error_says("expected it without shard") &&
           symmcoll_reducer_shard(reducer,
               symmcoll_reducer_shard_count(reducer),
               &shard) == SYMMCOLL_ERR_INVALID &&
           model_error_says("expected a slice below") &&
           symmcoll_reducer_shard(reducer, 0, NULL) == SYMMCOLL_ERR_INVALID &&
           symmcoll_reducer_gather_wait(reducer, PARAMS) ==
               SYMMCOLL_ERR_INVALID &&
           model_error_says("expected a parameter from 0 to 4, found 5");
}

static int wrong_calls_are_refused(struct symmcoll_group *group, int rank)
{
    struct run run;
    bool right = start(&run, group, rank, 0, true) && refuses_calls(&run) &&
                 run_pass(&run, 0, 0) &&
                 symmcoll_reducer_gather(run.reducer) == SYMMCOLL_ERR_INVALID &&
                 model_error_says("found gradients that a pass without sync");

    right =
        right && symmcoll_reducer_begin(run.reducer, 1) == SYMMCOLL_OK &&
        symmcoll_reducer_gather(run.reducer) == SYMMCOLL_ERR_INVALID &&
        model_error_says("reducer_gather: the backward before") &&
        symmcoll_reducer_finish(run.reducer) == SYMMCOLL_OK &&
        symmcoll_reducer_begin(run.reducer, 0) == SYMMCOLL_ERR_INVALID &&
        model_error_says("expected symmcoll_reducer_gather() or") &&
        symmcoll_reducer_move(run.reducer, group, SYMMCOLL_MOVE_KEEP) ==
            SYMMCOLL_ERR_INVALID &&
        model_error_says("of which this rank has its slices only") &&
        symmcoll_reducer_gather_wait(run.reducer, 0) == SYMMCOLL_ERR_INVALID &&
        symmcoll_reducer_move(run.reducer, group, 0) == SYMMCOLL_OK;
    right = right && run_pass(&run, 0, 1);
    symmcoll_reducer_zero(run.reducer);
    right = right && run_pass(&run, 1, 1);
    symmcoll_reducer_free(run.reducer);
    return right;
}

static int without_it_there_are_no_slices(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_shard shard = SYMMCOLL_SHARD_INIT;
    struct run run;
    bool right =
        start(&run, group, rank, 0, false) &&
        symmcoll_reducer_shard_count(run.reducer) == 0 &&
        symmcoll_reducer_shard_count(NULL) == 0 &&
        symmcoll_reducer_shard(run.reducer, 0, &shard) ==
            SYMMCOLL_ERR_INVALID &&
        model_error_says("expected a reducer with shard") &&
        symmcoll_reducer_gather(run.reducer) == SYMMCOLL_ERR_INVALID &&
        symmcoll_reducer_gather(NULL) == SYMMCOLL_ERR_INVALID &&
        symmcoll_reducer_gather_wait(run.reducer, 0) == SYMMCOLL_ERR_INVALID;

    symmcoll_reducer_free(run.reducer);
    return right;
}

static const struct model_point points[] = {
    {every_combination, 2,
        "sharded training has the bits of plain training, with each option"},
    {every_combination, 3, "so has that of three ranks"},
    {every_combination, 4, "so has that of four ranks"},
    {many_steps, 4, "so has that of 200 steps"},
    {slices_are_all, 4, "each element is in one slice of one rank"},
    {slices_follow_the_group, 3, "in another group there are other slices"},
    {other_options_are_refused, 2,
        "options that do not go with shard are refused on all ranks"},
    {gaps_are_refused, 2, "a parameter with gaps is refused"},
    {wrong_calls_are_refused, 2, "wrong calls are refused before a rank waits"},
    {without_it_there_are_no_slices, 1, "without shard there are no slices"},
};

int main(void)
{
    return model_run_points(points, sizeof(points) / sizeof(points[0]));
}
