/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests all_gather and matmul in device memory: shapes, strides and numbers as
 * in host memory, for every type and dimension, with 1 to 8 ranks.
 */
#include "t/fused/on_device.h"

#include <stdlib.h>
#include <string.h>

#define ROWS "4"

/* ---- bodies ---- */

static int run_case(
    struct symmcoll_group *group, int rank, const struct made_case *given)
{
    struct gathered test = {.dtype = given->dtype,
        .ndim = given->ndim,
        .dim = given->dim,
        .order = given->order,
        .b_order = given->b_order,
        .n = 2};

    memcpy(test.shape, given->shape, sizeof(test.shape));
    return gathered_on_device(group, rank, &test);
}

static int every_dimension(struct symmcoll_group *group, int rank)
{
    return made_each_dimension(group, rank, run_case);
}

static int every_order(struct symmcoll_group *group, int rank)
{
    return made_each_order(group, rank, run_case);
}

/* Uses lengths of 1 and 0, no matrix, and no result for A. */
static int small_and_empty(struct symmcoll_group *group, int rank)
{
    static const int64_t shapes[][3] = {
        {1, 1, 1}, {0, 2, 3}, {2, 0, 3}, {2, 3, 0}, {5, 3, 7}, {7, 1, 0}};
    int right = 1;

    for (int i = 0; i < 6 * 3 && right; i++) {
        struct gathered test = {
            .dtype = i % 2 == 0 ? SYMMCOLL_FLOAT32 : SYMMCOLL_BFLOAT16,
            .ndim = 3,
            .dim = i / 6,
            .n = i % 3,
            .no_a = i % 2 == 1};

        memcpy(test.shape, shapes[i % 6], sizeof(shapes[0]));
        right = gathered_on_device(group, rank, &test);
    }
    return right;
}

/* Alternates both sequences, and the one chosen when only one rank requests
 * the plain sequence. */
static int both_ways(struct symmcoll_group *group, int rank)
{
    int right = 1;

    for (int i = 0; i < 8 && right; i++) {
        struct gathered test = {.dtype = SYMMCOLL_FLOAT32,
            .ndim = 2,
            .shape = {i % 2 == 0 ? 9 : 2, 5},
            .n = 1,
            .no_a = i % 3 == 0};

        right = OK(symmcoll_fused_set_plain(group, i / 2 == 1 && rank == 0)) &&
                gathered_on_device(group, rank, &test);
    }
    return OK(symmcoll_fused_set_plain(group, 0)) && right;
}

int main(void)
{
    on_device_begin(ROWS);
    for (int n = 1; n <= 3; n++)
        on_both(n, every_dimension,
            "every dimension of 2 to 4, the last one too, of every type");
    on_both(4, every_dimension, "so of four ranks");
    ok(threads_run(8, every_dimension), "and of eight (8 threads)");
    on_both(2, every_order, "operands in any order of strides");
    on_both(3, small_and_empty, "lengths of 1 and 0, no matrix, and no A");
    on_both(3, both_ways,
        "shard by shard, and all at once where one rank asks for it");
    return done_testing();
}
