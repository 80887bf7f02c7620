/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests all_gather and matmul: shapes, strides and numbers, for every
 * dimension of tensors of 2 to 4 dimensions.
 */
#include "t/fused/gathered.h"

#include <stdlib.h>
#include <string.h>

static int run_test(
    struct symmcoll_group *group, int rank, const struct gathered *test)
{
    int size = symmcoll_group_size(group);
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_tensor bs[GATHERED_MATRICES], outs[GATHERED_MATRICES];
    struct symmcoll_tensor a = SYMMCOLL_TENSOR_INIT, init = a;
    struct symmcoll_tensor shard = gathered_shard(test, rank);
    int good;

    gathered_matrices(test, rank, size, bs);
    for (int i = 0; i < test->n; i++)
        outs[i] = init;
    good = OK(symmcoll_fused_all_gather_matmul(group, &shard, bs, test->n,
               test->dim, NULL, test->no_a ? NULL : &a, outs)) &&
           gathered_are_right(test, size, bs, &a, outs);
    for (int i = 0; i < test->n; i++) {
        symmcoll_f_free(world, &outs[i]);
        free(bs[i].data);
    }
    symmcoll_f_free(world, &a);
    free(shard.data);
    if (!good)
        diag("rank %d: %d dimensions of %s, gather_dim %d, order %d, %d", rank,
            test->ndim, symmcoll_dtype_name(test->dtype), test->dim,
            (int)test->order, (int)test->b_order);
    return good;
}

/* ---- bodies ---- */

/* Runs the shapes of the PyTorch test: 3 matrices of [32, 16], A of [8, 64,
 * 32]. */
static int reference_shapes(struct symmcoll_group *group, int rank)
{
    struct gathered test = {.dtype = SYMMCOLL_FLOAT32,
        .ndim = 3,
        .shape = {8, 64 / symmcoll_group_size(group), 32},
        .n = GATHERED_MATRICES};
    int good = 1;

    for (test.dim = 0; test.dim < 2; test.dim++)
        good = good && run_test(group, rank, &test);
    return good;
}

static int run_case(
    struct symmcoll_group *group, int rank, const struct made_case *given)
{
    struct gathered test = {.dtype = given->dtype,
        .ndim = given->ndim,
        .dim = given->dim,
        .order = given->order,
        .b_order = given->b_order};

    memcpy(test.shape, given->shape, sizeof(test.shape));
    test.n = 2;
    return run_test(group, rank, &test);
}

static int every_dimension(struct symmcoll_group *group, int rank)
{
    return made_each_dimension(group, rank, run_case);
}

static int every_order(struct symmcoll_group *group, int rank)
{
    return made_each_order(group, rank, run_case);
}

/* Uses sizes of 1 and 0, no matrix, and no result for A. */
static int small_and_empty(struct symmcoll_group *group, int rank)
{
    static const int64_t shapes[][3] = {
        {1, 1, 1}, {0, 2, 3}, {2, 0, 3}, {2, 3, 0}};
    int good = 1;

    for (int i = 0; i < 4 * 3; i++) {
        struct gathered test = {
            .dtype = i % 2 == 0 ? SYMMCOLL_FLOAT32 : SYMMCOLL_BFLOAT16,
            .ndim = 3,
            .dim = i / 4,
            .n = i % 3,
            .no_a = i % 2 == 1};

        memcpy(test.shape, shapes[i % 4], sizeof(shapes[0]));
        good = good && run_test(group, rank, &test);
    }
    return good;
}

/* Uses enough rows for separate products of each shard. */
static int many_rows(struct symmcoll_group *group, int rank)
{
    struct gathered test = {
        .dtype = SYMMCOLL_FLOAT32, .ndim = 2, .shape = {521, 19}, .n = 2};
    int good = 1;

    for (int i = 0; i < 6; i++) {
        test.dim = i % 2;
        test.order = (enum made_order)(i % 3);
        test.no_a = i >= 3;
        good = good && run_test(group, rank, &test);
    }
    return good;
}

/* Alternates both sequences, and the one chosen when only one rank requests
 * the plain sequence. */
static int plain_too(struct symmcoll_group *group, int rank)
{
    struct gathered test = {
        .dtype = SYMMCOLL_FLOAT32, .ndim = 3, .shape = {3, 4, 5}, .n = 1};
    int good = 1;

    for (int i = 0; i < 6; i++) {
        int plain = i < 2 ? 1 : i < 4 ? rank == 0 : 0;

        test.dim = i % 2 * 2;
        good = good && OK(symmcoll_fused_set_plain(group, plain)) &&
               run_test(group, rank, &test);
    }
    return good;
}

/* Multiplies few rows with so much depth that the product is computed in
 * blocks; also in the plain sequence. */
static int great_depth(struct symmcoll_group *group, int rank)
{
    static const enum made_order orders[] = {
        MADE_CONTIGUOUS, MADE_REVERSED, MADE_SPREAD};
    int good = 1;

    for (int i = 0; i < 4 && good; i++) {
        struct gathered test = {
            .dtype = i == 0 ? SYMMCOLL_FLOAT64 : SYMMCOLL_FLOAT32,
            .ndim = 2,
            .shape = {41, i == 0 ? 1700 : 3300},
            .order = orders[i % 3],
            .b_order = orders[i / 2],
            .n = 2,
            .no_a = true};

        good = OK(symmcoll_fused_set_plain(group, i == 3 && rank == 0)) &&
               run_test(group, rank, &test);
    }
    return OK(symmcoll_fused_set_plain(group, 0)) && good;
}

/* Puts the same results into memory of the caller. */
static int places_of_caller(struct symmcoll_group *group, int rank)
{
    const int64_t shape[3] = {2, 3, 4}, b_shape[2] = {4, 5};
    int64_t size = symmcoll_group_size(group);
    const int64_t a_shape[3] = {2, 3 * size, 4},
                  out_shape[3] = {2, 3 * size, 5};
    struct gathered test = {.dtype = SYMMCOLL_FLOAT32,
        .ndim = 3,
        .shape = {2, 3, 4},
        .dim = 1,
        .n = 1};
    struct symmcoll_tensor shard = made_tensor(
        SYMMCOLL_FLOAT32, 3, shape, MADE_CONTIGUOUS, 0, GATHERED_A, rank);
    struct symmcoll_tensor b = made_tensor(
        SYMMCOLL_FLOAT32, 2, b_shape, MADE_CONTIGUOUS, 0, GATHERED_B, rank);
    struct symmcoll_tensor a =
        made_tensor(SYMMCOLL_FLOAT32, 3, a_shape, MADE_FIRST, 1, 0, 0);
    struct symmcoll_tensor out =
        made_tensor(SYMMCOLL_FLOAT32, 3, out_shape, MADE_FIRST, 1, 0, 0);
    struct symmcoll_tensor other =
        made_tensor(SYMMCOLL_FLOAT32, 3, out_shape, MADE_CONTIGUOUS, 0, 0, 0);
    void *place = out.data;
    int good = OK(symmcoll_fused_all_gather_matmul(
                   group, &shard, &b, 1, 1, NULL, &a, &out)) &&
               out.data == place &&
               gathered_are_right(&test, (int)size, &b, &a, &out) &&
               made_says(symmcoll_fused_all_gather_matmul(
                             group, &shard, &b, 1, 1, NULL, NULL, &other),
                   SYMMCOLL_ERR_INVALID,
                   "fused_all_gather_matmul: expected out of shape [2, ");

    free(shard.data);
    free(b.data);
    free(a.data);
    free(out.data);
    free(other.data);
    return good;
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(2, reference_shapes),
        "%s: A and products as the reference has them, with its strides (M2 M3 "
        "M4)",
        kind);
    ok(run(2, every_dimension) && run(3, every_dimension),
        "%s: every dimension of 2 to 4, the last one too, of every type (M7)",
        kind);
    ok(run(2, every_order), "%s: operands in any order of strides (M9)", kind);
    ok(run(3, small_and_empty),
        "%s: lengths of 1 and 0, no matrix, and A not wanted (M7)", kind);
    ok(run(2, many_rows), "%s: many rows are multiplied shard by shard (M5 M8)",
        kind);
    ok(run(2, great_depth) && run(3, great_depth),
        "%s: few long rows are multiplied block by block (M5 M8)", kind);
    ok(run(2, plain_too),
        "%s: the plain sequence in test mode, also of one rank alone (S72)",
        kind);
    ok(run(2, places_of_caller), "%s: results in memory of the caller", kind);
    ok(run(8, every_dimension), "%s: eight ranks", kind);
    ok(run(1, every_dimension), "%s: one rank", kind);
}

int main(void)
{
    plan(20);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    return done_testing();
}
