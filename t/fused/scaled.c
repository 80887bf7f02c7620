/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests fused products of 8-bit floats: every kind of scales, against double
 * precision.
 */
#include "t/fused/eighths.h"

#include <stdlib.h>
#include <string.h>

/* ---- gathering ---- */

static int run_gather(
    struct symmcoll_group *group, int rank, const struct eighths *test)
{
    int size = symmcoll_group_size(group), good;
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct eighths_matrix matrices[EIGHTHS_MATRICES];
    struct symmcoll_scaled_matrix bs[EIGHTHS_MATRICES];
    struct symmcoll_tensor init = SYMMCOLL_TENSOR_INIT, shard, scale;
    struct symmcoll_tensor a = init, outs[EIGHTHS_MATRICES];

    eighths_gathered(test, size, rank, &shard, &scale, matrices);
    for (int i = 0; i < test->n; i++) {
        bs[i] = matrices[i].scaled;
        outs[i] = init;
    }
    good = OK(symmcoll_fused_all_gather_scaled_matmul(group, &shard, &scale, bs,
               test->n, test->dim, NULL, &a, outs)) &&
           eighths_are_gathered(test, size, rank, matrices, &a, outs);
    for (int i = 0; i < test->n; i++) {
        symmcoll_f_free(world, &outs[i]);
        eighths_free(&matrices[i]);
    }
    symmcoll_f_free(world, &a);
    free(scale.data);
    free(shard.data);
    if (!good)
        eighths_say(test, rank);
    return good;
}

/* Runs every mode, dimension and kind, in 2 to 4 dimensions. */
static int gathers(struct symmcoll_group *group, int rank)
{
    static const int64_t shapes[][4] = {
        {3, 7, 0, 0}, {2, 3, 5, 0}, {2, 3, 1, 7}};
    int good = 1;

    for (int i = 0; i < 3 * 3 * 8 && good; i++) {
        struct eighths test = {.a_dtype = i % 2 == 0 ? SYMMCOLL_FLOAT8_E4M3FN
                                                     : SYMMCOLL_FLOAT8_E5M2,
            .b_dtype =
                i % 3 == 0 ? SYMMCOLL_FLOAT8_E5M2 : SYMMCOLL_FLOAT8_E4M3FN,
            .ndim = i % 3 + 2,
            .mode = (enum eighths_mode)(i / 3 % 3),
            .order = (enum made_order)(i % 4),
            .kind = i / 9,
            .n = 1 + i % 2};

        memcpy(test.shape, shapes[i % 3], sizeof(test.shape));
        for (test.dim = 0; test.dim < test.ndim - 1 && good; test.dim++)
            good = run_gather(group, rank, &test);
    }
    return good;
}

/* Checks that a scale of one element belongs to the only row, different on
 * each rank. */
static int one_row(struct symmcoll_group *group, int rank)
{
    struct eighths test = {.a_dtype = SYMMCOLL_FLOAT8_E4M3FN,
        .b_dtype = SYMMCOLL_FLOAT8_E4M3FN,
        .ndim = 2,
        .shape = {1, 6},
        .mode = ROWS,
        .n = 1};

    return run_gather(group, rank, &test);
}

/* Multiplies many rows, one shard after the other; none; and in the plain
 * sequence. */
static int scales_come_with_rows(struct symmcoll_group *group, int rank)
{
    struct eighths test = {.a_dtype = SYMMCOLL_FLOAT8_E4M3FN,
        .b_dtype = SYMMCOLL_FLOAT8_E5M2,
        .ndim = 2,
        .shape = {521, 3},
        .mode = ROWS,
        .kind = 1,
        .n = 1};
    int good = run_gather(group, rank, &test);

    test.shape[0] = 0;
    good = good && run_gather(group, rank, &test);
    test.shape[0] = 5;
    good = good && OK(symmcoll_fused_set_plain(group, rank == 0)) &&
           run_gather(group, rank, &test);
    return OK(symmcoll_fused_set_plain(group, 0)) && good;
}

static int each_matrix_its_own(struct symmcoll_group *group, int rank)
{
    struct eighths test = {.a_dtype = SYMMCOLL_FLOAT8_E4M3FN,
        .b_dtype = SYMMCOLL_FLOAT8_E4M3FN,
        .ndim = 2,
        .shape = {4, 6},
        .mode = ROWS,
        .n = EIGHTHS_MATRICES};
    int good = 1;

    for (test.kind = 0; test.kind < 8 && good; test.kind++)
        good = run_gather(group, rank, &test);
    test.n = 0;
    return good && run_gather(group, rank, &test);
}

/* ---- scattering ---- */

static int run_scatter(
    struct symmcoll_group *group, int rank, const struct eighths *test)
{
    int size = symmcoll_group_size(group), good;
    struct eighths_matrix matrix;
    struct symmcoll_tensor a, scale, out = SYMMCOLL_TENSOR_INIT;

    eighths_scattered(test, size, rank, &a, &scale, &matrix);
    good = OK(symmcoll_fused_scaled_matmul_reduce_scatter(group, &a, &scale,
               &matrix.scaled, test->op, test->dim, NULL, &out)) &&
           eighths_are_scattered(test, size, rank, &matrix, &out);
    symmcoll_f_free(symmcoll_group_world(group), &out);
    eighths_free(&matrix);
    free(a.data);
    free(scale.data);
    if (!good)
        eighths_say(test, rank);
    return good;
}

static int scatters(struct symmcoll_group *group, int rank)
{
    static const int64_t shapes[][4] = {
        {3, 7, 0, 0}, {2, 3, 5, 0}, {2, 3, 1, 7}};
    int good = 1;

    for (int i = 0; i < 3 * 2 * 8 && good; i++) {
        struct eighths test = {.a_dtype = i % 2 == 0 ? SYMMCOLL_FLOAT8_E4M3FN
                                                     : SYMMCOLL_FLOAT8_E5M2,
            .b_dtype =
                i % 3 == 0 ? SYMMCOLL_FLOAT8_E5M2 : SYMMCOLL_FLOAT8_E4M3FN,
            .ndim = i % 3 + 2,
            .mode = i / 3 % 2 == 0 ? ROWS : ONE_SCALE,
            .order = (enum made_order)(i % 4),
            .kind = i / 6,
            .op = i % 2 == 0 ? SYMMCOLL_SUM : SYMMCOLL_AVG};

        memcpy(test.shape, shapes[i % 3], sizeof(test.shape));
        for (test.dim = 0; test.dim < test.ndim && good; test.dim++)
            good = run_scatter(group, rank, &test);
    }
    return good;
}

/* Uses enough rows for separate chunks, and the plain sequence. */
static int scatters_many(struct symmcoll_group *group, int rank)
{
    struct eighths test = {.a_dtype = SYMMCOLL_FLOAT8_E4M3FN,
        .b_dtype = SYMMCOLL_FLOAT8_E4M3FN,
        .ndim = 2,
        .shape = {521, 3},
        .mode = ROWS,
        .kind = 3};
    int good = run_scatter(group, rank, &test);

    /* In blocks. */
    test.shape[0] = 5000;
    test.columns = 256;
    test.step = 97;
    good = good && run_scatter(group, rank, &test);
    test.shape[0] = 5;
    good = good && OK(symmcoll_fused_set_plain(group, rank == 0)) &&
           run_scatter(group, rank, &test);
    return OK(symmcoll_fused_set_plain(group, 0)) && good;
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(2, gathers) && run(3, gathers),
        "%s: one scale, scales of a shard's rows, or of all rows (M30)", kind);
    ok(run(3, one_row), "%s: of one row, the scale is that row's (M30)", kind);
    ok(run(2, scales_come_with_rows) && run(4, scales_come_with_rows),
        "%s: scales of rows are gathered with them (M31)", kind);
    ok(run(2, each_matrix_its_own),
        "%s: each matrix has a bias, a factor and a type of its own (M32)",
        kind);
    ok(run(2, scatters) && run(3, scatters),
        "%s: products are scaled and added, along any dimension (M34)", kind);
    ok(run(2, scatters_many) && run(5, scatters_many),
        "%s: and so they are in chunks of many rows, and in blocks (M34)",
        kind);
    ok(run(8, gathers) && run(8, scatters),
        "%s: eight ranks, against double precision (M35)", kind);
}

int main(void)
{
    plan(14);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    return done_testing();
}
