/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the initialisers of public structs: tensors have the requested shape,
 * and a struct of the wrong size is refused with the name of its initialiser
 * macro.
 */
#include <symmcoll.h>

#include "t/tap.h"

#include <string.h>

static struct symmcoll_world *world;

/* Checks that a tensor is row-major with these lengths. */
static int has_shape(
    const struct symmcoll_tensor *tensor, int ndim, const int64_t *shape)
{
    int64_t stride = 1;

    if (tensor->ndim != ndim || tensor->device != SYMMCOLL_HOST)
        return 0;
    for (int d = ndim - 1; d >= 0; d--) {
        if (tensor->shape[d] != shape[d] || tensor->strides[d] != stride)
            return 0;
        stride *= shape[d];
    }
    return 1;
}

static void shapes(void)
{
    static const int64_t lengths[] = {2, 3, 4, 5, 6, 7, 8, 9};
    float memory[6] = {0};
    size_t count = 6;
    struct symmcoll_tensor flat =
        SYMMCOLL_TENSOR_FLAT(memory, count, SYMMCOLL_FLOAT32);
    struct symmcoll_tensor one =
        SYMMCOLL_TENSOR_SHAPE(memory, SYMMCOLL_FLOAT64, 2);
    struct symmcoll_tensor three =
        SYMMCOLL_TENSOR_SHAPE(memory, SYMMCOLL_FLOAT32, 2, 3u, 1 + 3L);
    struct symmcoll_tensor eight =
        SYMMCOLL_TENSOR_SHAPE(NULL, SYMMCOLL_INT8, 2, 3, 4, 5, 6, 7, 8, 9);
    struct symmcoll_tensor none = SYMMCOLL_TENSOR_INIT;

    ok(flat.data == memory && flat.dtype == SYMMCOLL_FLOAT32 &&
            has_shape(&flat, 1, (int64_t[]){6}),
        "a flat tensor has one dimension of its count");
    ok(one.dtype == SYMMCOLL_FLOAT64 && has_shape(&one, 1, lengths),
        "a shape of one length has one dimension");
    ok(has_shape(&three, 3, lengths), "one of three is row-major");
    ok(has_shape(&eight, SYMMCOLL_MAX_DIMS, lengths), "so is one of eight");
    ok(none.data == NULL && none.ndim == 0, "an empty one has no memory");
}

/* Checks that a reducer accepts the tensors of the macros. */
static void reduced(void)
{
    float weight[2][3] = {{0}}, bias[3] = {0};
    struct symmcoll_tensor params[] = {
        SYMMCOLL_TENSOR_SHAPE(weight, SYMMCOLL_FLOAT32, 2, 3),
        SYMMCOLL_TENSOR_FLAT(bias, 3, SYMMCOLL_FLOAT32)};
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct symmcoll_bucket bucket = SYMMCOLL_BUCKET_INIT;
    struct symmcoll_reducer_times times = SYMMCOLL_REDUCER_TIMES_INIT;
    struct symmcoll_tensor grad = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_group *group = symmcoll_world_group(world);
    struct symmcoll_reducer *reducer = NULL, *refused = NULL;

    ok(symmcoll_reducer_create(group, params, 2, &args, &reducer) ==
                SYMMCOLL_OK &&
            symmcoll_reducer_grad(reducer, 0, &grad) == SYMMCOLL_OK &&
            has_shape(&grad, 2, (int64_t[]){2, 3}),
        "a reducer takes them, and gradients have their shape");
    ok(symmcoll_reducer_bucket(reducer, 0, &bucket) == SYMMCOLL_OK &&
            bucket.count == 9 &&
            symmcoll_reducer_get_times(reducer, &times) == SYMMCOLL_OK,
        "structs to be filled begin as their macros say");

    bucket.size = 0;
    ok(symmcoll_reducer_bucket(reducer, 0, &bucket) == SYMMCOLL_ERR_INVALID &&
            strstr(symmcoll_last_error(), "use SYMMCOLL_BUCKET_INIT"),
        "a bucket without a size is refused with its macro");
    times.size = 0;
    ok(symmcoll_reducer_get_times(reducer, &times) == SYMMCOLL_ERR_INVALID &&
            strstr(symmcoll_last_error(), "use SYMMCOLL_REDUCER_TIMES_INIT"),
        "so are times");
    args.size = 0;
    ok(symmcoll_reducer_create(group, params, 2, &args, &refused) ==
                SYMMCOLL_ERR_INVALID &&
            strstr(symmcoll_last_error(), "use SYMMCOLL_REDUCER_ARGS_INIT"),
        "so are a reducer's arguments");
    symmcoll_reducer_free(reducer);
}

int main(void)
{
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    struct symmcoll_store *store = NULL;

    plan(10);
    shapes();
    args.world_size = 1;
    if (symmcoll_store_create_hash(&store) != SYMMCOLL_OK)
        return 1;
    args.store = store;
    if (symmcoll_init(&args, &world) != SYMMCOLL_OK)
        return 1;
    reduced();
    if (symmcoll_finalize(world) != SYMMCOLL_OK)
        return 1;
    symmcoll_store_close(store);
    return done_testing();
}
