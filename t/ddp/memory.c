/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the memory of buckets: one array of the program, of which buckets are slices,
 * and symmetric memory, which processes reduce in place. Gradients are small integers
 * times the number of ranks, so that every average is exact.
 */
#include "model.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define FLAT 76 /* elements of all parameters of the model */
#define LARGE 5000

/* The model with its gradients in one array. */
struct flat {
    struct symmcoll_reducer *reducer;
    struct model model;
    float memory[FLAT];
    size_t offsets[MODEL_PARAMS];
    int rank, size;
};

static symmcoll_status_t create(struct symmcoll_group *group, int rank,
    const struct symmcoll_reducer_args *options, struct flat *flat)
{
    struct symmcoll_reducer_args args = *options;
    size_t used = 0;

    memset(flat, 0, sizeof(*flat));
    flat->rank = rank;
    flat->size = symmcoll_group_size(group);
    model_make(&flat->model, rank);
    for (int p = 0; p < MODEL_PARAMS; p++) {
        flat->offsets[p] = used;
        used += model_count(&flat->model.params[p]);
    }
    args.memory = flat->memory;
    return symmcoll_reducer_create(
        group, flat->model.params, MODEL_PARAMS, &args, &flat->reducer);
}

/* Adds the gradients of a step to the array, as backward does, and passes them by
 * their address or by NULL. */
static bool run_pass(struct flat *flat, int step, int sync)
{
    bool right = symmcoll_reducer_begin(flat->reducer, sync) == SYMMCOLL_OK;

    for (int p = MODEL_PARAMS - 1; right && p >= 0; p--) {
        float *grad = flat->memory + flat->offsets[p];

        for (size_t i = 0; i < model_count(&flat->model.params[p]); i++)
            grad[i] +=
                (float)flat->size * model_term(flat->rank, p, (int)i, step);
        right = symmcoll_reducer_ready(
                    flat->reducer, p, p % 2 == 0 ? grad : NULL) == SYMMCOLL_OK;
    }
    return right && symmcoll_reducer_finish(flat->reducer) == SYMMCOLL_OK;
}

/* Checks that the array has the averages of steps. */
static bool holds(const struct flat *flat, int first, int last)
{
    for (int p = 0; p < MODEL_PARAMS; p++)
        for (size_t i = 0; i < model_count(&flat->model.params[p]); i++) {
            float sum = 0;

            for (int step = first; step <= last; step++)
                for (int r = 0; r < flat->size; r++)
                    sum += model_term(r, p, (int)i, step);
            if (flat->memory[flat->offsets[p] + i] != sum)
                return false;
        }
    return model_views_hold(
        flat->reducer, &flat->model, flat->size, first, last);
}

/* Checks that the buckets are slices of the array, from its end to its start. */
static bool are_slices(struct flat *flat)
{
    int n = symmcoll_reducer_bucket_count(flat->reducer);
    float *end = flat->memory + FLAT;

    for (int b = 0; b < n; b++) {
        struct symmcoll_bucket bucket = SYMMCOLL_BUCKET_INIT;

        if (symmcoll_reducer_bucket(flat->reducer, b, &bucket) != SYMMCOLL_OK)
            return false;
        end -= bucket.count;
        if (bucket.buffer != end)
            return false;
    }
    return n == 3 && end == flat->memory;
}

static bool train(struct symmcoll_group *group, int rank,
    const struct symmcoll_reducer_args *args)
{
    struct flat flat;
    bool right = create(group, rank, args, &flat) == SYMMCOLL_OK;

    for (int step = 0; right && step < 4; step++) {
        right = are_slices(&flat) && run_pass(&flat, step, step != 1) &&
                (step == 1 || holds(&flat, step == 2 ? 1 : step, step));
        if (step != 1)
            symmcoll_reducer_zero(flat.reducer);
        right = right && (step == 1 || flat.memory[3] == 0);
    }
    symmcoll_reducer_free(flat.reducer);
    return right;
}

static int buckets_are_slices(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);

    return train(group, rank, &args);
}

static int with_other_options(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    bool right;

    args.hook = symmcoll_hook_all_reduce;
    right = train(group, rank, &args);
    args.hook = NULL;
    args.static_graph = 1;
    right = right && train(group, rank, &args);
    args.static_graph = 0;
    args.find_unused = 1;
    args.gradient_as_bucket_view = 1;
    return right && train(group, rank, &args);
}

/* Contents before the first pass count, a move keeps them or sets them to zero. */
static int contents_are_the_programs(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct flat flat;
    bool right =
        create(group, rank, &args, &flat) == SYMMCOLL_OK &&
        run_pass(&flat, 0, 0) &&
        symmcoll_reducer_move(flat.reducer, group, SYMMCOLL_MOVE_KEEP) ==
            SYMMCOLL_OK &&
        are_slices(&flat) && run_pass(&flat, 1, 1) && holds(&flat, 0, 1) &&
        symmcoll_reducer_move(flat.reducer, group, 0) == SYMMCOLL_OK &&
        flat.memory[3] == 0 && run_pass(&flat, 2, 1) && holds(&flat, 2, 2);

    symmcoll_reducer_free(flat.reducer);
    return right;
}

static bool is_refused(struct symmcoll_group *group, int rank,
    const struct symmcoll_reducer_args *args, const char *words)
{
    struct flat flat;
    symmcoll_status_t status = create(group, rank, args, &flat);

    symmcoll_reducer_free(flat.reducer);
    return status == SYMMCOLL_ERR_INVALID && model_error_says(words);
}

static int wrong_options_are_refused(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    float values[2] = {0}, memory[4] = {0};
    struct symmcoll_tensor params[2] = {
        SYMMCOLL_TENSOR_FLAT(values, 1, SYMMCOLL_FLOAT32),
        SYMMCOLL_TENSOR_FLAT(values + 1, 2, SYMMCOLL_BFLOAT16)};
    struct symmcoll_tensor memory_of_buffer =
        SYMMCOLL_TENSOR_FLAT(memory, 1, SYMMCOLL_FLOAT32);
    struct symmcoll_reducer *reducer = NULL;
    bool right;

    args.write_back = 1;
    right = is_refused(
        group, rank, &args, "expected memory or write_back, found both");
    args.write_back = 0;
    args.names = NULL;
    args.memory = memory;
    right = right &&
            symmcoll_reducer_create(group, params, 2, &args, &reducer) ==
                SYMMCOLL_ERR_INVALID &&
            model_error_says("parameter 1: with memory, expected gradients of "
                             "one type, float32, found bfloat16");
    args.reduce_dtype = SYMMCOLL_FLOAT32;
    right = right && symmcoll_reducer_create(
                         group, params, 2, &args, &reducer) == SYMMCOLL_OK;
    symmcoll_reducer_free(reducer);
    args.memory = values + 1;
    right = right && symmcoll_reducer_create(
                         group, params, 1, &args, &reducer) == SYMMCOLL_OK;
    symmcoll_reducer_free(reducer);
    args.memory = values;
    right = right &&
            symmcoll_reducer_create(group, params, 1, &args, &reducer) ==
                SYMMCOLL_ERR_INVALID &&
            model_error_says("found that it has elements of parameter 0");
    args.memory = memory;
    args.buffers = &memory_of_buffer;
    args.nbuffers = 1;
    right = right &&
            symmcoll_reducer_create(group, params, 1, &args, &reducer) ==
                SYMMCOLL_ERR_INVALID &&
            model_error_says("found that it has elements of buffer 0");
    args.buffers = NULL;
    args.nbuffers = 0;
    args.memory = rank == 1 ? memory : NULL;
    return right &&
           symmcoll_reducer_create(group, params, 2, &args, &reducer) ==
               SYMMCOLL_ERR_MISMATCH &&
           model_error_says("memory: rank 1 has 1, rank 0 has 0");
}

static int other_memory_is_refused(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct flat flat;
    bool right = create(group, rank, &args, &flat) == SYMMCOLL_OK &&
                 symmcoll_reducer_begin(flat.reducer, 1) == SYMMCOLL_OK &&
                 symmcoll_reducer_ready(flat.reducer, 0, flat.model.grads[0]) ==
                     SYMMCOLL_ERR_INVALID &&
                 model_error_says("expected the view of the bucket") &&
                 symmcoll_reducer_finish(flat.reducer) == SYMMCOLL_ERR_INVALID;

    symmcoll_reducer_free(flat.reducer);
    return right;
}

/* ---- symmetric memory ---- */

/* Two parameters that do not fit next to a header line. */
struct large {
    struct symmcoll_reducer *reducer;
    struct symmcoll_group *group;
    bool shards;
    float values[2][LARGE], grads[2][LARGE];
};

static struct large *create_large(
    struct symmcoll_group *group, const struct symmcoll_reducer_args *args)
{
    struct large *large = calloc(1, sizeof(*large));
    struct symmcoll_tensor params[2];

    if (large == NULL)
        return NULL;
    large->group = group;
    large->shards = args->shard != 0;
    for (int p = 0; p < 2; p++)
        params[p] = model_vector(large->values[p], SYMMCOLL_FLOAT32, LARGE);
    if (symmcoll_reducer_create(group, params, 2, args, &large->reducer) !=
        SYMMCOLL_OK)
        diag("%s", symmcoll_last_error());
    return large;
}

static void free_large(struct large *large)
{
    symmcoll_reducer_free(large->reducer);
    free(large);
}

/* Checks the averages of this rank's slices. */
static bool slices_hold(const struct large *large)
{
    int size = symmcoll_group_size(large->group);
    int n = symmcoll_reducer_shard_count(large->reducer);

    for (int s = 0; s < n; s++) {
        struct symmcoll_shard shard = SYMMCOLL_SHARD_INIT;

        if (symmcoll_reducer_shard(large->reducer, s, &shard) != SYMMCOLL_OK)
            return false;
        for (size_t i = 0; i < shard.count; i++)
            if (((const float *)shard.grad)[i] !=
                (float)(size * (size + 1) / 2 *
                        ((int)(shard.offset + i) % 100 + shard.param)))
                return false;
    }
    return n > 0;
}

/* Runs a pass and checks the averages. */
static bool run_large(struct large *large, int rank)
{
    int size = symmcoll_group_size(large->group);
    bool right = symmcoll_reducer_begin(large->reducer, 1) == SYMMCOLL_OK;

    for (int p = 1; right && p >= 0; p--) {
        for (int i = 0; i < LARGE; i++)
            large->grads[p][i] = (float)(size * (rank + 1) * (i % 100 + p));
        right = symmcoll_reducer_ready(large->reducer, p, large->grads[p]) ==
                SYMMCOLL_OK;
    }
    right = right && symmcoll_reducer_finish(large->reducer) == SYMMCOLL_OK;
    if (large->shards)
        return right && slices_hold(large) &&
               symmcoll_reducer_gather(large->reducer) == SYMMCOLL_OK;
    for (int p = 0; right && p < 2; p++)
        for (int i = 0; right && i < LARGE; i++)
            right = model_view_is(large->reducer, p, i,
                (float)(size * (size + 1) / 2 * (i % 100 + p)));
    symmcoll_reducer_zero(large->reducer);
    return right;
}

/* Checks that all buckets are in memory that the group has joined, or none is. */
static bool are_symmetric(const struct large *large, bool expected)
{
    for (int b = 0; b < symmcoll_reducer_bucket_count(large->reducer); b++) {
        struct symmcoll_bucket bucket = SYMMCOLL_BUCKET_INIT;
        struct symmcoll_symm *handle;

        if (symmcoll_reducer_bucket(large->reducer, b, &bucket) != SYMMCOLL_OK)
            return false;
        if ((symmcoll_symm_get(large->group, bucket.buffer, &handle) ==
                SYMMCOLL_OK) != expected)
            return false;
    }
    return true;
}

/* Runs passes; buckets may be symmetric once they have their final sizes. */
static bool run_passes(struct large *large, int rank, bool first, bool later)
{
    bool right = large->reducer != NULL && are_symmetric(large, first) &&
                 run_large(large, rank) && run_large(large, rank) &&
                 are_symmetric(large, later) && run_large(large, rank);

    right =
        right &&
        symmcoll_reducer_move(large->reducer, large->group, 0) == SYMMCOLL_OK &&
        run_large(large, rank) && run_large(large, rank) &&
        are_symmetric(large, later);
    free_large(large);
    return right;
}

static bool is_in_threads;

static int symmetric_between_processes(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    bool is = !is_in_threads, right;

    args.bucket_cap = LARGE * sizeof(float);
    right = run_passes(create_large(group, &args), rank, false, is);
    args.find_unused = 1; /* never rebuilt */
    right = right && run_passes(create_large(group, &args), rank, is, is);
    args.shard = 1;
    return right && run_passes(create_large(group, &args), rank, is, is);
}

static int private_without_it(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;

    return run_passes(create_large(group, &args), rank, false, false);
}

static int private_without_exchange(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct large *large;
    bool right;

    args.no_init_sync = 1;
    args.find_unused = 1;
    large = create_large(group, &args);
    right = are_symmetric(large, false) && run_large(large, rank) &&
            run_large(large, rank);
    free_large(large);
    return right;
}

/* Finalizes a world before its reducer is released. */
static int outlives_world(int rank, int size, void *arg)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct symmcoll_tensor grad = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_world *world;
    struct large *large;
    bool right;

    (void)size;
    (void)arg;
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    args.find_unused = 1;
    large = create_large(symmcoll_world_group(world), &args);
    right = large != NULL && are_symmetric(large, true) &&
            run_large(large, rank) && symmcoll_finalize(world) == SYMMCOLL_OK &&
            symmcoll_reducer_grad(large->reducer, 0, &grad) ==
                SYMMCOLL_ERR_INVALID &&
            strstr(symmcoll_last_error(), "has been finalized") != NULL;
    if (large != NULL)
        free_large(large);
    return right ? 0 : 1;
}

/* Creates a reducer of ranks of which one does not use symmetric memory. */
static int settings_differ(int rank, int size, void *arg)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    float values[8] = {0};
    struct symmcoll_tensor param = model_matrix(values, SYMMCOLL_FLOAT32, 4, 2);
    struct symmcoll_reducer *reducer = NULL;
    struct symmcoll_world *world;
    bool right;

    (void)size;
    (void)arg;
    if (rank == 1)
        setenv("SYMMCOLL_HOST_SYMMETRIC", "off", 1);
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    right = symmcoll_reducer_create(symmcoll_world_group(world), &param, 1,
                &args, &reducer) == SYMMCOLL_ERR_MISMATCH &&
            model_error_says("(host.symmetric, host.small_max): rank 1 has");
    return symmcoll_finalize(world) == SYMMCOLL_OK && right ? 0 : 1;
}

static bool all_end_well(int n, raw_rank_fn body)
{
    int statuses[4];
    bool right = ranks_spawn(n, body, NULL, statuses);

    for (int r = 0; r < n; r++)
        right =
            right && WIFEXITED(statuses[r]) && WEXITSTATUS(statuses[r]) == 0;
    return right;
}

static void both(int n, rank_fn body, const char *sentence)
{
    is_in_threads = false;
    ok(ranks_run(n, body), "processes: %s", sentence);
    is_in_threads = true;
    ok(threads_run(n, body), "threads: %s", sentence);
}

int main(void)
{
    plan(22);
    both(2, buckets_are_slices, "buckets are slices of the program's memory");
    both(3, buckets_are_slices, "so are those of three ranks");
    both(4, with_other_options, "so are they with other options");
    both(2, contents_are_the_programs,
        "gradients stay in that memory when the reducer moves");
    both(2, wrong_options_are_refused,
        "memory is refused with other options and types on all ranks");
    both(2, other_memory_is_refused, "a gradient elsewhere is refused");
    both(2, symmetric_between_processes,
        "large buckets are in symmetric memory between processes");
    both(4, symmetric_between_processes, "so are those of four ranks");
    ok(all_end_well(2, settings_differ),
        "settings of it that differ are refused on all ranks");
    ok(all_end_well(2, outlives_world),
        "a reducer may be released after its world, which frees that memory");
    both(2, private_without_exchange,
        "they are not where ranks exchange nothing at creation");
    setenv("SYMMCOLL_HOST_SYMMETRIC", "off", 1);
    both(2, private_without_it, "they are not where that is not used in place");
    return done_testing();
}
