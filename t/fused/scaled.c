/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fused products of 8-bit floats: every kind of scales, against double precision.
 */
#include "t/fused/made.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MATRICES 3
#define A_SEED 1
#define SCALE_SEED 2
#define RESULT_SEED 3
#define B_SEED 10
#define COLUMN_SEED 20
#define BIAS_SEED 30

enum mode {
    ONE_SCALE,
    ROWS,
    ALL_ROWS
};

struct test {
    enum symmcoll_dtype a_dtype, b_dtype;
    int ndim;
    int64_t shape[4]; /* of a shard; of this rank's part where it scatters */
    int dim;
    enum made_order order;
    enum mode mode;
    int kind; /* bits: scales of columns, bias, factor of results */
    int n;
    symmcoll_op_t op;
    int64_t columns, step; /* of what is scattered; of checks; 0: few, all */
};

static const enum symmcoll_dtype results[] = {SYMMCOLL_FLOAT32,
    SYMMCOLL_BFLOAT16, SYMMCOLL_FLOAT8_E4M3FN, SYMMCOLL_FLOAT16,
    SYMMCOLL_FLOAT8_E5M2};
static const enum symmcoll_dtype biases[] = {
    SYMMCOLL_BFLOAT16, SYMMCOLL_FLOAT32, SYMMCOLL_FLOAT16};

/* The i-th matrix of a call and what belongs to it. */
struct matrix {
    struct symmcoll_tensor b, columns, bias, result;
    struct symmcoll_scaled_matrix scaled;
    int64_t width;
};

static bool has_columns(const struct test *test, int i)
{
    return ((test->kind ^ i) & 1) != 0;
}

static bool has_bias(const struct test *test, int i)
{
    return ((test->kind ^ i) & 2) != 0;
}

static bool has_factor(const struct test *test, int i)
{
    return ((test->kind ^ i) & 4) != 0;
}

static void make_matrix(struct matrix *made, const struct test *test, int i,
    int64_t width, int rank)
{
    static const struct symmcoll_scaled_matrix init =
        SYMMCOLL_SCALED_MATRIX_INIT;
    const int64_t shape[2] = {test->shape[test->ndim - 1], width};
    const int64_t one[2] = {1, has_columns(test, i) ? width : 1};

    made->width = width;
    made->b =
        made_tensor(test->b_dtype, 2, shape, test->order, 0, B_SEED + i, rank);
    made->columns = made_tensor(
        SYMMCOLL_FLOAT32, 2, one, test->order, 0, COLUMN_SEED + i, rank);
    made->bias = made_tensor(
        biases[i % 3], 1, &width, MADE_CONTIGUOUS, 0, BIAS_SEED + i, rank);
    made->result = made_tensor(
        SYMMCOLL_FLOAT32, 0, one, MADE_CONTIGUOUS, 0, RESULT_SEED, rank);
    made->scaled = init;
    made->scaled.b = &made->b;
    made->scaled.b_scale = &made->columns;
    if (has_bias(test, i))
        made->scaled.bias = &made->bias;
    if (has_factor(test, i))
        made->scaled.result_scale = &made->result;
    made->scaled.out_dtype = results[(test->kind + i) % 5];
}

static void free_matrix(struct matrix *made)
{
    free(made->b.data);
    free(made->columns.data);
    free(made->bias.data);
    free(made->result.data);
}

/* Add to a sum: a rank's product of a row of A, of which a rank has the local
 * one, by a column of a rank's i-th matrix, whose row is scaled by that. */
static void add_product(struct made_sum *sum, const struct test *test, int i,
    int a_rank, int64_t local_row, double row_scale, int b_rank, int64_t column,
    int64_t width, double part)
{
    int64_t depth = test->shape[test->ndim - 1];
    double column_scale = made_value(SYMMCOLL_FLOAT32, COLUMN_SEED + i, b_rank,
        has_columns(test, i) ? column : 0);
    double bias = has_bias(test, i) ? part * made_value(biases[i % 3],
                                                 BIAS_SEED + i, b_rank, column)
                                    : 0;

    if (has_factor(test, i))
        part *= made_value(SYMMCOLL_FLOAT32, RESULT_SEED, b_rank, 0);
    if (has_factor(test, i))
        bias *= made_value(SYMMCOLL_FLOAT32, RESULT_SEED, b_rank, 0);
    for (int64_t k = 0; k < depth; k++) {
        double term =
            part * row_scale * column_scale *
            made_value(test->a_dtype, A_SEED, a_rank, local_row * depth + k) *
            made_value(test->b_dtype, B_SEED + i, b_rank, k * width + column);

        sum->value += term;
        sum->magnitude += fabs(term);
    }
    sum->value += bias;
    sum->magnitude += fabs(bias);
    sum->terms += depth + 4; /* three factors and a bias */
}

/* ---- gathering ---- */

static struct symmcoll_tensor make_scale(
    const struct test *test, int size, int rank)
{
    int64_t shape[4] = {1, 1, 1, 1};

    if (test->mode != ONE_SCALE)
        memcpy(shape, test->shape, sizeof(shape));
    if (test->mode == ALL_ROWS)
        shape[test->dim] *= size;
    shape[test->ndim - 1] = 1;
    return made_tensor(SYMMCOLL_FLOAT32,
        test->mode == ONE_SCALE ? 1 : test->ndim, shape,
        test->mode == ONE_SCALE ? MADE_CONTIGUOUS : test->order, test->dim,
        SCALE_SEED, test->mode == ROWS ? rank : 0);
}

static int gathered_is_right(const struct test *test, int size, int rank, int i,
    const struct matrix *matrix, const struct symmcoll_tensor *out)
{
    int64_t shape[4], rows[4];

    memcpy(rows, test->shape, sizeof(rows));
    rows[test->ndim - 1] = 1;
    memcpy(shape, rows, sizeof(shape));
    shape[test->dim] *= size;
    shape[test->ndim - 1] = matrix->width;
    if (!made_is_shaped(out, test->ndim, shape, test->dim) ||
        out->dtype != matrix->scaled.out_dtype)
        return 0;
    for (int64_t at = 0; at < made_count(out); at++) {
        struct made_sum sum = {.terms = 0};
        int64_t row = at / matrix->width, local;
        int from =
            made_shard_of(test->ndim, rows, size, test->dim, row, &local);
        double scale = made_value(SYMMCOLL_FLOAT32, SCALE_SEED,
            test->mode == ROWS ? from : 0,
            test->mode == ROWS       ? local
            : test->mode == ALL_ROWS ? row
                                     : 0);

        add_product(&sum, test, i, from, local, scale, rank, at % matrix->width,
            matrix->width, 1);
        if (!made_is_near(out->dtype, made_at(out, at), sum))
            return 0;
    }
    return 1;
}

static int a_is_right(
    const struct test *test, int size, const struct symmcoll_tensor *a)
{
    int good = a->dtype == test->a_dtype;

    for (int64_t at = 0; good && at < made_count(a); at++) {
        int64_t local;
        int from =
            made_shard_of(test->ndim, test->shape, size, test->dim, at, &local);

        good = made_at(a, at) == made_value(test->a_dtype, A_SEED, from, local);
    }
    return good;
}

static int run_gather(
    struct symmcoll_group *group, int rank, const struct test *test)
{
    static const int64_t widths[MATRICES] = {5, 1, 16};
    int size = symmcoll_group_size(group), good;
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct matrix matrices[MATRICES];
    struct symmcoll_scaled_matrix bs[MATRICES];
    struct symmcoll_tensor init = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_tensor a = init, outs[MATRICES] = {init, init, init};
    struct symmcoll_tensor scale = make_scale(test, size, rank);
    struct symmcoll_tensor shard = made_tensor(test->a_dtype, test->ndim,
        test->shape, test->order, test->dim, A_SEED, rank);

    for (int i = 0; i < test->n; i++) {
        make_matrix(&matrices[i], test, i, widths[i], rank);
        bs[i] = matrices[i].scaled;
    }
    good = OK(symmcoll_fused_all_gather_scaled_matmul(group, &shard, &scale, bs,
               test->n, test->dim, NULL, &a, outs)) &&
           a_is_right(test, size, &a);
    for (int i = 0; i < test->n; i++) {
        good = good &&
               gathered_is_right(test, size, rank, i, &matrices[i], &outs[i]);
        symmcoll_f_free(world, &outs[i]);
        free_matrix(&matrices[i]);
    }
    symmcoll_f_free(world, &a);
    free(scale.data);
    free(shard.data);
    if (!good)
        diag("rank %d: gather_dim %d of %d, order %d, mode %d, kind %d", rank,
            test->dim, test->ndim, (int)test->order, (int)test->mode,
            test->kind);
    return good;
}

/* Every mode, dimension and kind, in 2 to 4 dimensions. */
static int gathers(struct symmcoll_group *group, int rank)
{
    static const int64_t shapes[][4] = {
        {3, 7, 0, 0}, {2, 3, 5, 0}, {2, 3, 1, 7}};
    int good = 1;

    for (int i = 0; i < 3 * 3 * 8 && good; i++) {
        struct test test = {.a_dtype = i % 2 == 0 ? SYMMCOLL_FLOAT8_E4M3FN
                                                  : SYMMCOLL_FLOAT8_E5M2,
            .b_dtype =
                i % 3 == 0 ? SYMMCOLL_FLOAT8_E5M2 : SYMMCOLL_FLOAT8_E4M3FN,
            .ndim = i % 3 + 2,
            .mode = (enum mode)(i / 3 % 3),
            .order = (enum made_order)(i % 4),
            .kind = i / 9,
            .n = 1 + i % 2};

        memcpy(test.shape, shapes[i % 3], sizeof(test.shape));
        for (test.dim = 0; test.dim < test.ndim - 1 && good; test.dim++)
            good = run_gather(group, rank, &test);
    }
    return good;
}

/* A scale of one element is that of the only row, and each rank's its own. */
static int one_row(struct symmcoll_group *group, int rank)
{
    struct test test = {.a_dtype = SYMMCOLL_FLOAT8_E4M3FN,
        .b_dtype = SYMMCOLL_FLOAT8_E4M3FN,
        .ndim = 2,
        .shape = {1, 6},
        .mode = ROWS,
        .n = 1};

    return run_gather(group, rank, &test);
}

/* Many rows, one shard after the other; none; and in the plain sequence. */
static int scales_come_with_rows(struct symmcoll_group *group, int rank)
{
    struct test test = {.a_dtype = SYMMCOLL_FLOAT8_E4M3FN,
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
    struct test test = {.a_dtype = SYMMCOLL_FLOAT8_E4M3FN,
        .b_dtype = SYMMCOLL_FLOAT8_E4M3FN,
        .ndim = 2,
        .shape = {4, 6},
        .mode = ROWS,
        .n = MATRICES};
    int good = 1;

    for (test.kind = 0; test.kind < 8 && good; test.kind++)
        good = run_gather(group, rank, &test);
    test.n = 0;
    return good && run_gather(group, rank, &test);
}

/* ---- scattering ---- */

static int part_is_right(const struct test *test, int size, int rank,
    const struct matrix *matrix, const struct symmcoll_tensor *out)
{
    double part = test->op == SYMMCOLL_AVG ? 1.0 / size : 1;
    int64_t step = test->step > 0 ? test->step : 1;
    bool last = test->dim == test->ndim - 1;
    int64_t width = matrix->width / (last ? size : 1), shape[4];

    memcpy(shape, test->shape, sizeof(shape));
    shape[test->ndim - 1] = width;
    if (!made_is_shaped(out, test->ndim, shape, 0) ||
        out->dtype != matrix->scaled.out_dtype)
        return 0;
    for (int64_t at = 0; at < made_count(out); at += step) {
        struct made_sum sum = {.terms = size + 1};
        int64_t row = 0, left = at / width, index[4] = {0};

        for (int d = test->ndim - 2; d >= 0; d--) {
            index[d] = left % shape[d] + (d == test->dim ? rank * shape[d] : 0);
            left /= shape[d];
        }
        for (int d = 0; d < test->ndim - 1; d++)
            row = row * shape[d] * (d == test->dim ? size : 1) + index[d];
        for (int r = 0; r < size; r++)
            add_product(&sum, test, 0, r, row,
                made_value(SYMMCOLL_FLOAT32, SCALE_SEED, r,
                    test->mode == ROWS ? row : 0),
                r, at % width + (last ? rank * width : 0), matrix->width, part);
        if (!made_is_near(out->dtype, made_at(out, at), sum))
            return 0;
    }
    return 1;
}

static int run_scatter(
    struct symmcoll_group *group, int rank, const struct test *test)
{
    int size = symmcoll_group_size(group), good;
    bool last = test->dim == test->ndim - 1;
    struct test whole = *test;
    struct matrix matrix;
    struct symmcoll_tensor a, scale, out = SYMMCOLL_TENSOR_INIT;
    int64_t rows[4];

    if (!last)
        whole.shape[test->dim] *= size;
    memcpy(rows, whole.shape, sizeof(rows));
    rows[test->ndim - 1] = 1;
    make_matrix(&matrix, test, 0,
        last                ? 3 * size
        : test->columns > 0 ? test->columns
                            : 5,
        rank);
    a = made_tensor(test->a_dtype, test->ndim, whole.shape, test->order,
        test->dim, A_SEED, rank);
    scale = made_tensor(SYMMCOLL_FLOAT32, test->mode == ROWS ? test->ndim : 0,
        rows, test->mode == ROWS ? test->order : MADE_CONTIGUOUS, test->dim,
        SCALE_SEED, rank);
    good = OK(symmcoll_fused_scaled_matmul_reduce_scatter(group, &a, &scale,
               &matrix.scaled, test->op, test->dim, NULL, &out)) &&
           part_is_right(test, size, rank, &matrix, &out);
    symmcoll_f_free(symmcoll_group_world(group), &out);
    free_matrix(&matrix);
    free(a.data);
    free(scale.data);
    if (!good)
        diag("rank %d: scatter_dim %d of %d, order %d, mode %d, kind %d", rank,
            test->dim, test->ndim, (int)test->order, (int)test->mode,
            test->kind);
    return good;
}

static int scatters(struct symmcoll_group *group, int rank)
{
    static const int64_t shapes[][4] = {
        {3, 7, 0, 0}, {2, 3, 5, 0}, {2, 3, 1, 7}};
    int good = 1;

    for (int i = 0; i < 3 * 2 * 8 && good; i++) {
        struct test test = {.a_dtype = i % 2 == 0 ? SYMMCOLL_FLOAT8_E4M3FN
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

/* Rows enough for chunks one by one, and the plain sequence. */
static int scatters_many(struct symmcoll_group *group, int rank)
{
    struct test test = {.a_dtype = SYMMCOLL_FLOAT8_E4M3FN,
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
