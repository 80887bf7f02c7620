/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All combinations of the reducer's options: each is refused, or trains a small model
 * after which every rank has the same parameters to the bit. In each pass the averages are
 * compared with those of an all_reduce in double.
 */
#include "model.h"

#include "base/reduce.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define PARAMS 5
#define TIED 4 /* with parameter 0, if weights are tied */
#define COUNT 12

enum mode {
    MODE_COPY,
    MODE_VIEWS,
    MODE_WRITE_BACK,
    MODE_NAMED,
    MODE_BOTH
};
enum {
    MODES = 5,
    HOOKS = 4,
    FLAGS = 16
};
#define COMBINATIONS (MODES * HOOKS * FLAGS)
#define IGNORED 3 /* the ignored parameter, if one is */
#define BUFFERS 2

/* A combination of options. */
struct choice {
    enum mode mode;
    int hook; /* 0: none; 1: all_reduce; 2: in 16 bits; 3: with an end */
    bool find_unused, static_graph, wide, tied;
    bool buffers, ignores, joins; /* each combination has one choice of these */
    bool moves, keeps;            /* to the same ranks, half-way */
};

struct trained {
    struct choice choice;
    float values[PARAMS][COUNT];
    float grads[PARAMS][COUNT];
    struct symmcoll_tensor params[PARAMS];
    double sums[PARAMS][COUNT]; /* of what has been passed since zero */
    int32_t came[PARAMS];       /* since the last average */
    struct symmcoll_group *group;
    struct symmcoll_reducer *reducer;
    int rank;
    uint64_t drawn; /* of this rank */
    int64_t buffers[BUFFERS];
    struct symmcoll_tensor tensors[BUFFERS];
    int64_t expected, zero; /* of the buffers here, and on rank 0 */
    int64_t own;            /* of a buffer that is not sent */
    int last_sync;          /* of the pass before */
    struct symmcoll_join *join;
    bool alone; /* another rank has no inputs any more */
};

static const char *const names[PARAMS] = {"a", "b", "c", "d", "e"};
static const char *const buffer_names[BUFFERS] = {"f", "g"};
static const char *const ignored[] = {"d", "g"};

static struct choice decode(int number)
{
    int flags = number / (MODES * HOOKS);

    return (struct choice){.mode = (enum mode)(number % MODES),
        .hook = number / MODES % HOOKS,
        .find_unused = flags & 1,
        .static_graph = flags & 2,
        .wide = flags & 4,
        .tied = flags & 8,
        .buffers = (number + flags / 2) & 1,
        .ignores = (number / 2 + flags / 4) & 1,
        .joins = number % 3 == 0,
        .moves = number % 3 == 1,
        .keeps = (number / 3) & 1};
}

static uint64_t draw(struct trained *trained, uint64_t below)
{
    trained->drawn =
        trained->drawn * 6364136223846793005u + 1442695040888963407u;
    return (trained->drawn >> 33) % below;
}

/* Returns the parameter whose memory one has. */
static int own_of(const struct choice *choice, int p)
{
    return choice->tied && p == TIED ? 0 : p;
}

static enum symmcoll_dtype dtype_of(int p)
{
    return p == 1 ? SYMMCOLL_BFLOAT16
                  : (p == 2 ? SYMMCOLL_FLOAT16 : SYMMCOLL_FLOAT32);
}

static float get(enum symmcoll_dtype dtype, const void *at, int i)
{
    if (dtype == SYMMCOLL_FLOAT32)
        return ((const float *)at)[i];
    return dtype == SYMMCOLL_BFLOAT16
               ? symc_bfloat16_to_float(((const uint16_t *)at)[i])
               : symc_half_to_float(((const uint16_t *)at)[i]);
}

static void put(enum symmcoll_dtype dtype, void *at, int i, float value)
{
    if (dtype == SYMMCOLL_FLOAT32)
        ((float *)at)[i] = value;
    else
        ((uint16_t *)at)[i] = dtype == SYMMCOLL_BFLOAT16
                                  ? symc_float_to_bfloat16(value)
                                  : symc_float_to_half(value);
}

/* ---- hooks ---- */

static symmcoll_status_t compress(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    return bucket->dtype == SYMMCOLL_FLOAT16
               ? symmcoll_hook_all_reduce(group, bucket, arg, work)
               : symmcoll_hook_bf16_compress(group, bucket, arg, work);
}

static symmcoll_status_t average_again(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    *work = NULL;
    return bucket->round == 0
               ? symmcoll_hook_all_reduce(group, bucket, arg, work)
               : SYMMCOLL_OK;
}

/* ---- training ---- */

static symmcoll_status_t create(
    struct symmcoll_group *group, int rank, int number, struct trained *trained)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct choice choice = decode(number);
    void *grads[PARAMS];

    *trained = (struct trained){.choice = choice,
        .group = group,
        .rank = rank,
        .drawn = (uint64_t)(1000 * number + rank),
        .last_sync = 1};
    for (int p = 0; p < PARAMS; p++) {
        int own = own_of(&choice, p);

        trained->params[p] =
            model_vector(trained->values[own], dtype_of(p), COUNT);
        grads[p] = trained->grads[own];
        for (int i = 0; i < COUNT; i++)
            put(dtype_of(p), trained->values[own], i,
                1.0f / (float)(p + i + 1));
    }
    args.bucket_cap = 60;
    args.gradient_as_bucket_view =
        choice.mode == MODE_VIEWS || choice.mode == MODE_BOTH;
    args.write_back = choice.mode >= MODE_WRITE_BACK;
    if (choice.mode == MODE_NAMED)
        args.grads = grads;
    args.names = names;
    for (int b = 0; b < BUFFERS; b++)
        trained->tensors[b] =
            model_vector(&trained->buffers[b], SYMMCOLL_INT64, 1);
    if (choice.buffers) {
        args.buffers = trained->tensors;
        args.nbuffers = BUFFERS;
        args.buffer_names = buffer_names;
    }
    args.ignored = ignored;
    args.nignored = choice.ignores ? 1 + choice.buffers : 0;
    args.find_unused = choice.find_unused;
    args.static_graph = choice.static_graph;
    args.reduce_dtype = choice.wide ? SYMMCOLL_FLOAT32 : SYMMCOLL_UINT8;
    if (choice.hook > 0)
        args.hook = choice.hook == 2 ? compress : symmcoll_hook_all_reduce;
    if (choice.hook == 3)
        args.hook_end = average_again;
    return symmcoll_reducer_create(
        group, trained->params, PARAMS, &args, &trained->reducer);
}

/* Finds the gradient as the program sees it: its memory, or the view of the
 * bucket (out). */
static bool find_gradient(
    struct trained *trained, int p, struct symmcoll_tensor *grad)
{
    *grad = (struct symmcoll_tensor)SYMMCOLL_TENSOR_INIT;
    if (symmcoll_reducer_grad(trained->reducer, p, grad) != SYMMCOLL_OK)
        return false;
    if (trained->choice.mode >= MODE_WRITE_BACK) {
        grad->data = trained->grads[own_of(&trained->choice, p)];
        grad->dtype = dtype_of(p);
    }
    return true;
}

/* Adds a gradient to its memory, or writes it there, and passes it. */
static bool pass(struct trained *trained, int p)
{
    struct symmcoll_tensor grad;
    bool adds = trained->choice.mode != MODE_COPY;
    int own = own_of(&trained->choice, p);

    if (!find_gradient(trained, p, &grad))
        return false;
    if (!adds) {
        grad.data = trained->grads[p];
        grad.dtype = dtype_of(p);
    }
    for (int i = 0; i < COUNT; i++) {
        float value = (float)draw(trained, 2000) / 1000.0f - 1.0f;

        put(grad.dtype, grad.data, i,
            (adds ? get(grad.dtype, grad.data, i) : 0) + value);
        trained->sums[own][i] += (double)value;
    }
    trained->came[own] = 1;
    return symmcoll_reducer_ready(trained->reducer, p, grad.data) ==
           SYMMCOLL_OK;
}

/* Returns how far an average may be from the exact one: a few roundings of the type
 * that has the fewest digits. */
static double bound_of(const struct choice *choice, int p)
{
    enum symmcoll_dtype dtype = dtype_of(p);

    if (dtype == SYMMCOLL_BFLOAT16 ||
        (choice->hook == 2 && (dtype == SYMMCOLL_FLOAT32 || choice->wide)))
        return 4 * 0x1p-7;
    return 4 * (dtype == SYMMCOLL_FLOAT16 ? 0x1p-10 : 0x1p-23);
}

static bool is_close(struct trained *trained, int p)
{
    struct symmcoll_tensor grad;

    if (trained->choice.ignores && p == IGNORED)
        return true;
    if (!find_gradient(trained, p, &grad))
        return false;
    for (int i = 0; i < COUNT; i++) {
        double found = (double)get(grad.dtype, grad.data, i);
        double expected = trained->sums[own_of(&trained->choice, p)][i];

        if (!(fabs(found - expected) <= bound_of(&trained->choice, p))) {
            diag("parameter %d, element %d: expected %g, found %g", p, i,
                expected, found);
            return false;
        }
    }
    return true;
}

/* Checks the averages after a pass. Memory of the program that a rank has not passed
 * counts as zeros, and stays if no rank has, where that is looked for. */
static bool are_averages(struct trained *trained)
{
    const struct choice *choice = &trained->choice;
    bool looks = choice->find_unused || choice->static_graph;
    double sums[PARAMS][COUNT] = {0};
    int32_t came[PARAMS];

    for (int p = 0; p < PARAMS; p++)
        if (choice->mode < MODE_WRITE_BACK || trained->came[p])
            memcpy(sums[p], trained->sums[p], sizeof(sums[p]));
    if (symmcoll_all_reduce(trained->group, sums, sums, (size_t)PARAMS * COUNT,
            SYMMCOLL_FLOAT64, SYMMCOLL_SUM, NULL, NULL) != SYMMCOLL_OK ||
        symmcoll_all_reduce(trained->group, came, trained->came, PARAMS,
            SYMMCOLL_INT32, SYMMCOLL_MAX, NULL, NULL) != SYMMCOLL_OK)
        return false;
    memset(trained->came, 0, sizeof(trained->came));
    for (int p = 0; p < PARAMS; p++)
        for (int i = 0; i < COUNT; i++)
            if (came[p] || !looks)
                trained->sums[p][i] =
                    sums[p][i] / symmcoll_group_size(trained->group);
    for (int p = 0; p < PARAMS; p++)
        if (!is_close(trained, p))
            return false;
    return true;
}

/* Changes the buffers, and checks which of them are rank 0's after forward. */
static bool run_forward(struct trained *trained, int sync)
{
    bool sends = trained->choice.buffers && trained->last_sync;

    trained->last_sync = sync;
    trained->expected += trained->rank + 1;
    trained->own += trained->rank + 1;
    trained->zero++;
    for (int b = 0; b < BUFFERS; b++)
        trained->buffers[b] += trained->rank + 1;
    if (sends)
        trained->expected = trained->zero;
    if (symmcoll_reducer_forward(trained->reducer, sync) != SYMMCOLL_OK)
        return false;
    /* Within a join they are not those of rank 0. */
    if (trained->choice.joins)
        return true;
    return trained->buffers[0] == trained->expected &&
           trained->buffers[1] ==
               (trained->choice.ignores ? trained->own : trained->expected);
}

/* Runs a pass with missing gradients if these are permitted; in a static graph
 * always the same ones. */
static bool run_pass(struct trained *trained, int sync)
{
    const struct choice *choice = &trained->choice;
    bool may_miss = choice->mode != MODE_WRITE_BACK || choice->static_graph;
    bool right = run_forward(trained, sync) &&
                 symmcoll_reducer_begin(trained->reducer, sync) == SYMMCOLL_OK;

    for (int p = PARAMS - 1; right && p >= 0; p--) {
        bool misses = choice->static_graph
                          ? p == 3 || (p == trained->rank &&
                                          choice->mode != MODE_WRITE_BACK)
                          : draw(trained, 3) == 0;

        if (choice->ignores && p == IGNORED)
            continue;
        if (!(may_miss && misses))
            right = pass(trained, p);
        else if (choice->find_unused && draw(trained, 2) == 0)
            right =
                symmcoll_reducer_skip(trained->reducer, &p, 1) == SYMMCOLL_OK;
    }
    return right && symmcoll_reducer_finish(trained->reducer) == SYMMCOLL_OK &&
           (!sync || trained->alone || are_averages(trained));
}

static bool update(struct trained *trained)
{
    for (int p = 0; p < PARAMS; p++) {
        struct symmcoll_tensor grad;

        if (trained->choice.ignores && p == IGNORED)
            continue;
        if (!find_gradient(trained, p, &grad))
            return false;
        for (int i = 0; i < COUNT; i++)
            put(dtype_of(p), trained->params[p].data, i,
                get(dtype_of(p), trained->params[p].data, i) -
                    0.01f * get(grad.dtype, grad.data, i));
    }
    return true;
}

/* Runs a step; some accumulate, and some keep the averages of the step
 * before. */
static bool run_step(struct trained *trained, int step)
{
    bool right = step % 4 != 1 || run_pass(trained, 0);

    right = right && run_pass(trained, 1) && update(trained);
    if (step % 3 == 2)
        return right;
    memset(trained->grads, 0, sizeof(trained->grads));
    memset(trained->sums, 0, sizeof(trained->sums));
    symmcoll_reducer_zero(trained->reducer);
    return right;
}

/* Checks that all ranks have the bits of rank 0. */
static bool agree(struct symmcoll_group *group, const struct trained *trained)
{
    float zero[PARAMS][COUNT];

    memcpy(zero, trained->values, sizeof(zero));
    return symmcoll_broadcast(group, zero, sizeof(zero), SYMMCOLL_UINT8, 0,
               NULL, NULL) == SYMMCOLL_OK &&
           memcmp(zero, trained->values, sizeof(zero)) == 0;
}

/* Checks that each parameter is another one than at first; parameter 3 has no gradient
 * in a static graph, nor if it is ignored. */
static bool have_moved(const struct trained *trained)
{
    for (int p = 0; p < PARAMS; p++) {
        bool moved =
            p == 3 && (trained->choice.static_graph || trained->choice.ignores);

        for (int i = 0; i < COUNT; i++) {
            float first;

            put(dtype_of(p), &first, 0, 1.0f / (float)(p + i + 1));
            moved = moved || get(dtype_of(p), trained->params[p].data, i) !=
                                 get(dtype_of(p), &first, 0);
        }
        if (!moved) {
            diag("parameter %d has not moved", p);
            return false;
        }
    }
    return true;
}

/* Begins a join; a static graph is refused before its first pass. */
static bool join(struct trained *trained)
{
    struct symmcoll_join_args args = SYMMCOLL_JOIN_ARGS_INIT;
    bool refused;
    symmcoll_status_t status;

    args.divide_by_active = trained->choice.find_unused;
    refused = trained->choice.static_graph ||
              (args.divide_by_active && trained->choice.hook > 0);
    status = symmcoll_join_begin(&trained->reducer, 1, &args, &trained->join);
    if (refused)
        trained->choice.joins = false;
    return status == (refused ? SYMMCOLL_ERR_INVALID : SYMMCOLL_OK);
}

/* Moves the reducer to its own group, with or without its gradients. */
static bool move(struct trained *trained)
{
    if (!trained->choice.keeps) {
        memset(trained->grads, 0, sizeof(trained->grads));
        memset(trained->sums, 0, sizeof(trained->sums));
        memset(trained->came, 0, sizeof(trained->came));
    }
    if (trained->choice.buffers)
        trained->expected = trained->zero;
    trained->last_sync = 1;
    return symmcoll_reducer_move(trained->reducer, trained->group,
               trained->choice.keeps ? SYMMCOLL_MOVE_KEEP : 0) == SYMMCOLL_OK;
}

/* Trains; within a join the last rank has no inputs for the last three steps. */
static bool run_steps(struct trained *trained, int nsteps)
{
    bool joins = trained->choice.joins;
    int size = symmcoll_group_size(trained->group);
    bool right = true;

    for (int step = 0; right && step < nsteps; step++) {
        trained->alone = joins && step >= nsteps - 3;
        if (trained->alone && trained->rank == size - 1)
            break;
        right = run_step(trained, step) &&
                (!trained->choice.moves || step != nsteps / 2 || move(trained));
    }
    return joins ? symmcoll_join_end(trained->join) == SYMMCOLL_OK && right
                 : right;
}

static bool train(
    struct symmcoll_group *group, int rank, int number, int nsteps)
{
    struct trained trained;
    symmcoll_status_t status = create(group, rank, number, &trained);
    bool right = status == SYMMCOLL_OK;

    if (decode(number).mode == MODE_BOTH)
        return status == SYMMCOLL_ERR_INVALID && model_error_says("found both");
    right = right && (!trained.choice.joins || join(&trained)) &&
            run_steps(&trained, nsteps);
    right = right && agree(group, &trained) && have_moved(&trained);
    if (!right)
        diag("combination %d (mode %d, hook %d, unused %d, static %d, wide %d, "
             "tied %d, buffers %d, ignores %d, joins %d, moves %d): %s",
            number, trained.choice.mode, trained.choice.hook,
            trained.choice.find_unused, trained.choice.static_graph,
            trained.choice.wide, trained.choice.tied, trained.choice.buffers,
            trained.choice.ignores, trained.choice.joins, trained.choice.moves,
            symmcoll_last_error());
    symmcoll_reducer_free(trained.reducer);
    return right;
}

static int every_combination(struct symmcoll_group *group, int rank)
{
    for (int number = 0; number < COMBINATIONS; number++)
        if (!train(group, rank, number, 6))
            return 0;
    return 1;
}

static int many_steps(struct symmcoll_group *group, int rank)
{
    /* Each hook in each mode, with different flags. */
    for (int number = 0; number < MODES * HOOKS; number++)
        if (!train(group, rank, number + MODES * HOOKS * (number % FLAGS), 200))
            return 0;
    return 1;
}

static const struct model_point points[] = {
    {every_combination, 2,
        "each combination of options is refused, or all ranks have the same bits"},
    {every_combination, 3, "so have three ranks"},
    {many_steps, 4, "so have four ranks after 200 steps"},
};

int main(void)
{
    return model_run_points(points, sizeof(points) / sizeof(points[0]));
}
