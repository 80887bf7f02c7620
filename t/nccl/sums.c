/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests sums and means of floats and complex numbers by NCCL, if
 * cuda.nccl_sums allows it, with the stand-ins: NCCL's adds in the reverse
 * order of ranks.
 */
#include "t/nccl/by.h"

#include <math.h>
#include <stdlib.h>

/* ---- elements with an exact sum ---- */

static bool is_sum(symmcoll_op_t op)
{
    return op == SUM || op == SYMMCOLL_AVG;
}

/* Runs every type, in every kind of reduction. */
static int every_type(
    struct symmcoll_group *group, int rank, symmcoll_op_t op, bool nccl)
{
    static const enum symmcoll_dtype types[] = {SYMMCOLL_FLOAT32,
        SYMMCOLL_FLOAT64, SYMMCOLL_COMPLEX64, SYMMCOLL_COMPLEX128,
        SYMMCOLL_FLOAT16, SYMMCOLL_BFLOAT16};
    static const struct collective kinds[] = {
        {.kind = SYMC_ALL_REDUCE},
        {.kind = SYMC_REDUCE, .root = 1},
        {.kind = SYMC_REDUCE_SCATTER},
        {.kind = SYMC_REDUCE_SCATTER, .listed = true},
        {.kind = SYMC_ALL_REDUCE_COALESCED, .several = 4},
        {.kind = SYMC_REDUCE_SCATTER_COALESCED, .several = 4},
    };
    int right = 1;

    for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++) {
        size_t elem = symmcoll_dtype_size(types[t]);

        for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds) && right; k++) {
            struct collective one = kinds[k];

            if (t >= 2 && t < 4 && /* not defined */
                (op == SYMMCOLL_MIN || op == SYMMCOLL_MAX ||
                    op == SYMMCOLL_PRODUCT))
                continue;
            one.dtype = types[t];
            one.op = op;
            one.count = MIN / elem + 1;
            right =
                right_by(group, rank, &one, nccl && (is_sum(op) || elem > 2));
            one.count = 1;
            right = right && right_by(group, rank, &one, false);
        }
    }
    return right;
}

static int sums(struct symmcoll_group *group, int rank)
{
    device_use(rank);
    atexit(check_nccl);
    return every_type(group, rank, SUM, true) &&
           every_type(group, rank, SYMMCOLL_AVG, true);
}

/* Passes a different factor on each rank, exact in floats. */
static int products(struct symmcoll_group *group, int rank)
{
    symmcoll_op_t op;

    device_use(rank);
    atexit(check_nccl);
    return say(symmcoll_op_create_premul(symmcoll_group_world(group),
                   0.5 + 0.25 * rank, &op) == SYMMCOLL_OK,
               "a factor") &&
           every_type(group, rank, op, true);
}

static int nothing_else(struct symmcoll_group *group, int rank)
{
    device_use(rank);
    return every_type(group, rank, SYMMCOLL_MIN, false) &&
           every_type(group, rank, SYMMCOLL_MAX, false) &&
           every_type(group, rank, SYMMCOLL_PRODUCT, false);
}

/* ---- their order ---- */

/* Terms with a sum that loses the 1 in the order of ranks, and keeps it in
 * reverse. */
static const float terms[SIZE] = {1, 1e8f, -1e8f};

static int adds(struct symmcoll_group *group, int rank, float expected)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    CUstream stream = device_stream();
    float *at = device_alloc(ELEMENTS * sizeof(*at)), found;
    int right;

    device_write(at, &terms[rank], sizeof(terms[rank]));
    call.stream = stream;
    right = say(symmcoll_all_reduce(group, at, at, ELEMENTS, F32, SUM, &call,
                    NULL) == SYMMCOLL_OK,
        "a sum");
    device_wait(stream);
    device_read(&found, at, sizeof(found));
    device_end_stream(stream);
    device_free(at);
    return say(right && found == expected, "its value");
}

static int the_order_is_of_nccl(struct symmcoll_group *group, int rank)
{
    device_use(rank);
    return adds(group, rank, 1);
}

/* Checks that the setting of one member applies to all. */
static int one_does_not_allow_it(int rank, int size, void *arg)
{
    struct symmcoll_world *world;
    int right;

    (void)size;
    (void)arg;
    if (rank == 1)
        setenv("SYMMCOLL_CUDA_NCCL_SUMS", "off", 1);
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    device_use(rank);
    right = adds(symmcoll_world_group(world), rank, 0);
    return !right || symmcoll_finalize(world) != SYMMCOLL_OK;
}

static int all_have_to_allow_it(void)
{
    int statuses[SIZE];
    int right = ranks_spawn(SIZE, one_does_not_allow_it, NULL, statuses);

    for (int r = 0; r < SIZE; r++)
        right = right && statuses[r] == 0;
    return right;
}

int main(void)
{
    device_begin();
    name_nccl();
    setenv("SYMMCOLL_CUDA_NCCL_MIN", "1000", 1);
    setenv("SYMMCOLL_CUDA_NCCL_SUMS", "on", 1);
    on_both(SIZE, sums, "sums and means of floats are NCCL's");
    on_both(SIZE, products,
        "so are those with factors, but of 16 bits, where these would differ");
    on_both(SIZE, nothing_else, "the least and largest, and products are not");
    on_both(SIZE, the_order_is_of_nccl,
        "cuda.nccl_sums: the order of sums is NCCL's");
    ok(process_run(all_have_to_allow_it),
        "where one rank does not allow that they are in the order of ranks");
    return done_testing();
}
