/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests matmul and reduce_scatter: shapes, strides and numbers, for every
 * dimension of tensors of 2 to 4 dimensions.
 */
#include "t/fused/scattered.h"

#include <stdlib.h>
#include <string.h>

static int run_test(
    struct symmcoll_group *group, int rank, const struct scattered *asked)
{
    struct scattered test = *asked;
    int size = symmcoll_group_size(group);
    struct symmcoll_tensor a, b, out = SYMMCOLL_TENSOR_INIT;
    int good;

    scattered_operands(&test, rank, size, &a, &b);
    good = OK(symmcoll_fused_matmul_reduce_scatter(
               group, &a, &b, test.op, test.dim, NULL, &out)) &&
           scattered_is_right(&test, size, rank, &a, &b, &out);
    symmcoll_f_free(symmcoll_group_world(group), &out);
    free(a.data);
    free(b.data);
    if (!good)
        diag("rank %d: %d dimensions of %s, scatter_dim %d, order %d, %d", rank,
            test.ndim, symmcoll_dtype_name(test.dtype), test.dim,
            (int)test.order, (int)test.b_order);
    return good;
}

/* ---- bodies ---- */

/* Runs the shapes of the PyTorch test: A of [8, 64, 32], [32, 16], "avg". */
static int reference_shapes(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    struct scattered test = {.dtype = SYMMCOLL_FLOAT32,
        .ndim = 3,
        .shape = {8 / size, 64, 32},
        .columns = 16,
        .op = SYMMCOLL_AVG};
    int good = run_test(group, rank, &test);

    test.shape[0] = 8;
    test.shape[1] = 64 / size;
    test.dim = 1;
    return good && run_test(group, rank, &test);
}

static int run_case(
    struct symmcoll_group *group, int rank, const struct made_case *given)
{
    struct scattered test = {.dtype = given->dtype,
        .ndim = given->ndim,
        .dim = given->dim,
        .order = given->order,
        .b_order = given->b_order};

    memcpy(test.shape, given->shape, sizeof(test.shape));
    test.columns = 3;
    test.op = given->dim % 2 == 0 ? SYMMCOLL_SUM : SYMMCOLL_AVG;
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

static int small_and_empty(struct symmcoll_group *group, int rank)
{
    static const int64_t shapes[][4] = {
        {1, 1, 1, 1}, {0, 2, 3, 2}, {2, 0, 3, 2}, {2, 3, 0, 2}, {2, 3, 2, 0}};
    int good = 1;

    for (int i = 0; i < 5 * 3; i++) {
        struct scattered test = {
            .dtype = i % 2 == 0 ? SYMMCOLL_FLOAT32 : SYMMCOLL_FLOAT16,
            .ndim = 3,
            .dim = i / 5};

        memcpy(test.shape, shapes[i % 5], 3 * sizeof(shapes[0][0]));
        test.columns = shapes[i % 5][3];
        good = good && run_test(group, rank, &test);
    }
    return good;
}

/* Uses enough rows for separate products of each chunk. */
static int many_rows(struct symmcoll_group *group, int rank)
{
    struct scattered test = {
        .dtype = SYMMCOLL_FLOAT32, .ndim = 2, .shape = {521, 19}, .columns = 5};
    int good = 1;

    for (int i = 0; i < 6; i++) {
        test.dtype = i < 3 ? SYMMCOLL_FLOAT32 : SYMMCOLL_BFLOAT16;
        test.order = (enum made_order)(i % 3);
        good = good && run_test(group, rank, &test);
    }
    return good;
}

/* Multiplies rows in blocks, the last one smaller, each of which is an
 * operation of the group. The checked elements are in every column. */
static int blocks_of_rows(struct symmcoll_group *group, int rank)
{
    struct scattered test = {.dtype = SYMMCOLL_FLOAT32,
        .ndim = 3,
        .shape = {5000, 1, 3},
        .columns = 256,
        .step = 97};
    uint64_t before = symmcoll_group_sequence(group);
    int good = run_test(group, rank, &test) &&
               symmcoll_group_sequence(group) - before >= 5000 / 512;

    test.dtype = SYMMCOLL_BFLOAT16;
    test.order = MADE_REVERSED;
    test.op = SYMMCOLL_AVG;
    good = run_test(group, rank, &test) && good;
    /* The plain sequence, which one rank requests for all. */
    good = OK(symmcoll_fused_set_plain(group, rank == 0)) &&
           run_test(group, rank, &test) && good;
    return OK(symmcoll_fused_set_plain(group, 0)) && good;
}

/* Alternates both sequences, and the one chosen when only one rank requests
 * the plain sequence. */
static int plain_too(struct symmcoll_group *group, int rank)
{
    struct scattered test = {
        .dtype = SYMMCOLL_FLOAT32, .ndim = 3, .shape = {3, 4, 5}, .columns = 3};
    int good = 1;

    for (int i = 0; i < 6; i++) {
        int plain = i < 2 ? 1 : i < 4 ? rank == 0 : 0;

        test.dim = i % 2 * 2;
        test.dtype = i % 2 == 0 ? SYMMCOLL_FLOAT32 : SYMMCOLL_BFLOAT16;
        good = good && OK(symmcoll_fused_set_plain(group, plain)) &&
               run_test(group, rank, &test);
    }
    return good;
}

/* Adds products that each fit bfloat16, while the sum does not: 256, then 1 of
 * each other rank, which would be lost one by one. */
static int rounded_once(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    const uint16_t one = 0x3f80, large = 0x4380;
    uint16_t a_data[8], b_data = one;
    struct symmcoll_tensor a =
        SYMMCOLL_TENSOR_SHAPE(a_data, SYMMCOLL_BFLOAT16, size, 1);
    struct symmcoll_tensor b =
        SYMMCOLL_TENSOR_SHAPE(&b_data, SYMMCOLL_BFLOAT16, 1, 1);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    int good;

    for (int i = 0; i < size; i++)
        a_data[i] = rank == 0 ? large : one;
    good = OK(symmcoll_fused_matmul_reduce_scatter(
               group, &a, &b, SYMMCOLL_SUM, 0, NULL, &out)) &&
           (made_at(&out, 0) == 260 || (diag("found %g", made_at(&out, 0)), 0));
    symmcoll_f_free(symmcoll_group_world(group), &out);
    return good;
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(2, reference_shapes),
        "%s: the mean that the reference has, contiguous (M21)", kind);
    ok(run(2, every_dimension) && run(3, every_dimension),
        "%s: every dimension of 2 to 4, the last one too, of every type (M25)",
        kind);
    ok(run(2, every_order), "%s: operands in any order of strides (M26)", kind);
    ok(run(3, small_and_empty), "%s: lengths of 1 and 0", kind);
    ok(run(2, many_rows), "%s: many rows are multiplied rank by rank (M22)",
        kind);
    ok(run(2, blocks_of_rows) && run(3, blocks_of_rows),
        "%s: more rows are multiplied and added up in blocks (M22)", kind);
    ok(run(2, plain_too),
        "%s: the plain sequence in test mode, also of one rank alone (S72)",
        kind);
    ok(run(5, rounded_once),
        "%s: products are added in float and rounded once (M24)", kind);
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
