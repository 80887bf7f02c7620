/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the memory of buckets: symmetric memory, which processes reduce in place.
 * Gradients are small integers times the number of ranks, so that every average is
 * exact.
 */
#include "model.h"

#include <stdbool.h>
#include <stdlib.h>

#define LARGE 5000

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

static void both(int n, rank_fn body, const char *sentence)
{
    is_in_threads = false;
    ok(ranks_run(n, body), "processes: %s", sentence);
    is_in_threads = true;
    ok(threads_run(n, body), "threads: %s", sentence);
}

int main(void)
{
    plan(8);
    both(2, symmetric_between_processes,
        "large buckets are in symmetric memory between processes");
    both(4, symmetric_between_processes, "so are those of four ranks");
    both(2, private_without_exchange,
        "they are not where ranks exchange nothing at creation");
    setenv("SYMMCOLL_HOST_SYMMETRIC", "off", 1);
    both(2, private_without_it, "they are not where that is not used in place");
    return done_testing();
}
