/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/fused/eighths.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define A_SEED 1
#define SCALE_SEED 2
#define RESULT_SEED 3
#define B_SEED 10
#define COLUMN_SEED 20
#define BIAS_SEED 30

static const enum symmcoll_dtype results[] = {SYMMCOLL_FLOAT32,
    SYMMCOLL_BFLOAT16, SYMMCOLL_FLOAT8_E4M3FN, SYMMCOLL_FLOAT16,
    SYMMCOLL_FLOAT8_E5M2};
static const enum symmcoll_dtype wide_results[] = {
    SYMMCOLL_FLOAT32, SYMMCOLL_BFLOAT16, SYMMCOLL_FLOAT16};
static const enum symmcoll_dtype biases[] = {
    SYMMCOLL_BFLOAT16, SYMMCOLL_FLOAT32, SYMMCOLL_FLOAT16};

static bool has_columns(const struct eighths *test, int i)
{
    return ((test->kind ^ i) & 1) != 0;
}

static bool has_bias(const struct eighths *test, int i)
{
    return !test->of_devices && ((test->kind ^ i) & 2) != 0;
}

static bool has_factor(const struct eighths *test, int i)
{
    return !test->of_devices && ((test->kind ^ i) & 4) != 0;
}

static void make_matrix(struct eighths_matrix *made, const struct eighths *test,
    int i, int64_t width, int rank)
{
    static const struct symmcoll_scaled_matrix init =
        SYMMCOLL_SCALED_MATRIX_INIT;
    const int64_t shape[2] = {test->shape[test->ndim - 1], width};
    const int64_t one[2] = {1, has_columns(test, i) ? width : 1};

    made->width = width;
    made->b = made_tensor(test->b_dtype, 2, shape,
        test->of_devices && !test->b_in_order ? MADE_REVERSED : test->order, 0,
        B_SEED + i, rank);
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
    made->scaled.out_dtype = test->of_devices
                                 ? wide_results[(test->kind + i) % 3]
                                 : results[(test->kind + i) % 5];
}

void eighths_free(struct eighths_matrix *made)
{
    free(made->b.data);
    free(made->columns.data);
    free(made->bias.data);
    free(made->result.data);
}

/* Adds to a sum the product of a row of A, the local_row-th of a_rank, by a
 * column of b_rank's i-th matrix; the row is scaled by row_scale. */
static void add_product(struct made_sum *sum, const struct eighths *test, int i,
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
    const struct eighths *test, int size, int rank)
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

static int is_gathered(const struct eighths *test, int size, int rank, int i,
    const struct eighths_matrix *matrix, const struct symmcoll_tensor *out)
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
        struct made_sum sum = {.terms = 0, .inexact = test->inexact};
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
    const struct eighths *test, int size, const struct symmcoll_tensor *a)
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

void eighths_gathered(const struct eighths *test, int size, int rank,
    struct symmcoll_tensor *shard, struct symmcoll_tensor *scale,
    struct eighths_matrix matrices[EIGHTHS_MATRICES])
{
    static const int64_t widths[] = {5, 1, 16}, of_lines[] = {16, 48, 32};

    *shard = made_tensor(test->a_dtype, test->ndim, test->shape, test->order,
        test->dim, A_SEED, rank);
    *scale = make_scale(test, size, rank);
    for (int i = 0; i < test->n && i < EIGHTHS_MATRICES; i++)
        make_matrix(&matrices[i], test, i,
            test->of_devices ? of_lines[i] : widths[i], rank);
}

int eighths_are_gathered(const struct eighths *test, int size, int rank,
    const struct eighths_matrix *matrices, const struct symmcoll_tensor *a,
    const struct symmcoll_tensor *outs)
{
    int good = a == NULL || a_is_right(test, size, a);

    for (int i = 0; i < test->n && good; i++)
        good = is_gathered(test, size, rank, i, &matrices[i], &outs[i]);
    return good;
}

/* ---- scattering ---- */

int eighths_are_scattered(const struct eighths *test, int size, int rank,
    const struct eighths_matrix *matrix, const struct symmcoll_tensor *out)
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
        struct made_sum sum = {.terms = size + 1, .inexact = test->inexact};
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

void eighths_scattered(const struct eighths *test, int size, int rank,
    struct symmcoll_tensor *a, struct symmcoll_tensor *scale,
    struct eighths_matrix *matrix)
{
    bool last = test->dim == test->ndim - 1;
    struct eighths whole = *test;
    int64_t rows[4];

    if (!last)
        whole.shape[test->dim] *= size;
    memcpy(rows, whole.shape, sizeof(rows));
    rows[test->ndim - 1] = 1;
    make_matrix(matrix, test, 0,
        last                ? (test->of_devices ? 16 : 3) * size
        : test->columns > 0 ? test->columns
        : test->of_devices  ? 32
                            : 5,
        rank);
    *a = made_tensor(test->a_dtype, test->ndim, whole.shape, test->order,
        test->dim, A_SEED, rank);
    *scale = made_tensor(SYMMCOLL_FLOAT32, test->mode == ROWS ? test->ndim : 0,
        rows, test->mode == ROWS ? test->order : MADE_CONTIGUOUS, test->dim,
        SCALE_SEED, rank);
}

/* ---- messages ---- */

void eighths_say(const struct eighths *test, int rank)
{
    diag("rank %d: dimension %d of %d, order %d, mode %d, kind %d", rank,
        test->dim, test->ndim, (int)test->order, (int)test->mode, test->kind);
}
