/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests structs that are older or newer than this library: the members they
 * have are read and filled in, and no others.
 */
#include <symmcoll.h>

#include "t/ranks.h"
#include "t/tap.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static struct symmcoll_world *world;
static struct symmcoll_reducer *reducer;
static float weight[6];

static symmcoll_status_t sum_with(void *call)
{
    int sum = 0, one = 1;

    return symmcoll_all_reduce(symmcoll_world_group(world), &sum, &one, 1,
        SYMMCOLL_INT32, SYMMCOLL_SUM, call, NULL);
}

/* Checks that the members of an older struct are read, and no others. */
static void older_call(void)
{
    struct {
        size_t size;
        double timeout;
    } *call = malloc(sizeof(*call));

    call->size = sizeof(*call);
    call->timeout = NAN;
    ok(sum_with(call) == SYMMCOLL_ERR_INVALID &&
            strstr(symmcoll_last_error(), "NaN") != NULL,
        "what an older struct holds counts");
    free(call);
}

/* Checks that an older struct is filled in as far as it goes; its size is
 * unchanged. */
static void older_bucket(void)
{
    /* The volatile hides the small size from compilers. */
    volatile size_t older = offsetof(struct symmcoll_bucket, dtype);
    struct symmcoll_bucket *bucket = malloc(older);
    struct symmcoll_bucket newer[2] = {SYMMCOLL_BUCKET_INIT};
    struct symmcoll_work *work;

    bucket->size = older;
    ok(symmcoll_reducer_bucket(reducer, 0, bucket) == SYMMCOLL_OK &&
            bucket->count == 6 && bucket->size == older,
        "an older struct is filled as far as it goes, and keeps its size");
    free(bucket);

    newer[0].size = sizeof(newer);
    newer[1].index = 1;
    ok(symmcoll_hook_all_reduce(symmcoll_world_group(world), newer, NULL,
           &work) == SYMMCOLL_ERR_INVALID &&
            strstr(symmcoll_last_error(), "expected 0 in") != NULL,
        "a hook refuses a bucket with a member that it does not know");
}

/* Passes tensors of a newer header, which are larger than ours. */
static void newer_tensors(void)
{
    struct {
        struct symmcoll_tensor known;
        uint64_t more[3];
    } params[2] = {{SYMMCOLL_TENSOR_FLAT(weight, 2, SYMMCOLL_FLOAT32), {0}},
        {SYMMCOLL_TENSOR_FLAT(weight + 2, 4, SYMMCOLL_FLOAT32), {0}}};
    struct symmcoll_tensor none;
    struct symmcoll_reducer *made = NULL;

    params[0].known.size = params[1].known.size = sizeof(params[0]);
    ok(symmcoll_reducer_create(symmcoll_world_group(world), &params[0].known, 2,
           NULL, &made) == SYMMCOLL_OK &&
            symmcoll_reducer_grad(made, 1, &params[1].known) == SYMMCOLL_OK &&
            params[1].known.shape[0] == 4 &&
            params[1].known.size == sizeof(params[1]),
        "an array's tensors are as far apart as the first one's size says");
    memset(&none, 0, sizeof(none));
    ok(symmcoll_reducer_grad(made, 0, &none) == SYMMCOLL_ERR_INVALID &&
            strstr(symmcoll_last_error(), "SYMMCOLL_TENSOR_INIT") != NULL,
        "a tensor to be filled needs its size");
    symmcoll_reducer_free(made);

    params[1].known.size = 0;
    ok(symmcoll_reducer_create(symmcoll_world_group(world), &params[0].known, 2,
           NULL, &made) == SYMMCOLL_ERR_INVALID &&
            strstr(symmcoll_last_error(), "parameter 1") != NULL &&
            strstr(symmcoll_last_error(), "as the first, found 0") != NULL,
        "and all have that size");
}

int main(void)
{
    struct symmcoll_tensor param =
        SYMMCOLL_TENSOR_FLAT(weight, 6, SYMMCOLL_FLOAT32);
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    struct symmcoll_store *store;

    plan(6);
    ranks_environment();
    ranks_environment_rank(0, 1);
    args.world_size = 1;
    if (symmcoll_store_create_hash(&store) != SYMMCOLL_OK)
        return 1;
    args.store = store;
    if (symmcoll_init(&args, &world) != SYMMCOLL_OK ||
        symmcoll_reducer_create(symmcoll_world_group(world), &param, 1, NULL,
            &reducer) != SYMMCOLL_OK)
        return 1;
    older_call();
    older_bucket();
    newer_tensors();
    symmcoll_reducer_free(reducer);
    if (symmcoll_finalize(world) != SYMMCOLL_OK)
        return 1;
    symmcoll_store_close(store);
    return done_testing();
}
