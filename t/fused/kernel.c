/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests products of one rank, with and without BLAS, and which BLAS library is
 * used.
 */
#include "t/fused/made.h"
#include "t/sanitized.h"

#include "base/float8.h"
#include "fused/matmul.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The step through the cases. All run in one thread, so ThreadSanitizer does
 * not need each. */
#define CASES_STEP (THREADS_CHECKED ? 7 : 1)

static struct symc_matrix matrix(const struct symmcoll_tensor *tensor)
{
    return (struct symc_matrix){tensor->data, tensor->dtype, tensor->shape[0],
        tensor->shape[1], tensor->strides[0], tensor->strides[1]};
}

/* Checks that c is the product, or that plus 1 if `add`. */
static int is_product(const struct symmcoll_tensor *a,
    const struct symmcoll_tensor *b, const struct symmcoll_tensor *c, bool add)
{
    for (int64_t i = 0; i < made_count(c); i++) {
        int64_t depth = a->shape[1], columns = c->shape[1];
        struct made_sum sum = {add, add, depth + 1, 0};

        for (int64_t k = 0; k < depth; k++) {
            double term = made_at(a, i / columns * depth + k) *
                          made_at(b, k * columns + i % columns);

            sum.value += term;
            sum.magnitude += fabs(term);
        }
        if (!made_is_near(c->dtype, made_at(c, i), sum))
            return 0;
    }
    return 1;
}

struct test {
    enum symmcoll_dtype dtype, c_dtype;
    int64_t rows, depth, columns;
    enum made_order a_order, b_order;
    bool add;
};

static int multiplies(struct symc_matmul *matmul, const struct test *test)
{
    const int64_t a_shape[2] = {test->rows, test->depth};
    const int64_t b_shape[2] = {test->depth, test->columns};
    const int64_t c_shape[2] = {test->rows, test->columns};
    struct symmcoll_tensor a =
        made_tensor(test->dtype, 2, a_shape, test->a_order, 0, 1, 0);
    struct symmcoll_tensor b =
        made_tensor(test->dtype, 2, b_shape, test->b_order, 0, 2, 0);
    struct symmcoll_tensor c =
        made_tensor(test->c_dtype, 2, c_shape, MADE_SPREAD, 0, 3, 0);
    struct symc_matrix left = matrix(&a), right = matrix(&b), out = matrix(&c);
    int good;

    for (int64_t i = 0; test->add && i < made_count(&c); i++) {
        if (c.dtype == SYMMCOLL_FLOAT64)
            ((double *)c.data)[made_offset(&c, i)] = 1;
        else
            ((float *)c.data)[made_offset(&c, i)] = 1;
    }
    good = OK(symc_matmul(matmul, &left, &right, &out, test->add)) &&
           is_product(&a, &b, &c, test->add);
    free(a.data);
    free(b.data);
    free(c.data);
    return good;
}

/* Multiplies with every type, every order and some sizes; into the type of
 * sums, and rounded. */
static int all_multiply(const char *library)
{
    static const enum symmcoll_dtype types[] = {SYMMCOLL_FLOAT32,
        SYMMCOLL_FLOAT64, SYMMCOLL_FLOAT16, SYMMCOLL_BFLOAT16};
    static const int64_t sizes[][3] = {{1, 1, 1}, {7, 5, 3}, {1, 70, 9},
        {33, 1, 17}, {130, 4, 515}, {3, 0, 2}, {0, 3, 2}, {2, 3, 0}};
    struct symc_matmul matmul = {.packed = {{NULL, 0}}};
    int good = OK(symc_blas_load(&matmul.blas, library));

    for (int i = 0; i < 4 * 4 * 4 * 8 && good; i += CASES_STEP) {
        const int64_t *size = sizes[i / 64];
        enum symmcoll_dtype dtype = types[i % 4];
        struct test test = {dtype, dtype, size[0], size[1], size[2],
            (enum made_order)(i / 4 % 4), (enum made_order)(i / 16 % 4), false};

        good = multiplies(&matmul, &test);
        test.c_dtype = symc_matmul_sum_dtype(dtype);
        test.add = true;
        good = good && multiplies(&matmul, &test);
        if (!good)
            diag("%s: %lld x %lld x %lld of %s, orders %d and %d", library,
                (long long)size[0], (long long)size[1], (long long)size[2],
                symmcoll_dtype_name(dtype), (int)test.a_order,
                (int)test.b_order);
    }
    symc_matmul_free(&matmul);
    return good;
}

/* ---- 8-bit floats ---- */

struct eighth {
    enum symmcoll_dtype dtype;
    uint8_t bits;
    float value;
};

static const struct eighth eighths[] = {{SYMMCOLL_FLOAT8_E4M3FN, 0x38, 1},
    {SYMMCOLL_FLOAT8_E4M3FN, 0x7e, 448},
    {SYMMCOLL_FLOAT8_E4M3FN, 0x81, -0x1p-9F},
    {SYMMCOLL_FLOAT8_E4M3FN, 0x08, 0x1p-6F}, {SYMMCOLL_FLOAT8_E5M2, 0x3c, 1},
    {SYMMCOLL_FLOAT8_E5M2, 0x7b, 57344}, {SYMMCOLL_FLOAT8_E5M2, 0x01, 0x1p-16F},
    {SYMMCOLL_FLOAT8_E5M2, 0xfc, -INFINITY},
    {SYMMCOLL_FLOAT8_E4M3FNUZ, 0x40, 1}, {SYMMCOLL_FLOAT8_E4M3FNUZ, 0x7f, 240},
    {SYMMCOLL_FLOAT8_E5M2FNUZ, 0x40, 1},
    {SYMMCOLL_FLOAT8_E5M2FNUZ, 0xff, -57344}, {SYMMCOLL_FLOAT8_E8M0FNU, 127, 1},
    {SYMMCOLL_FLOAT8_E8M0FNU, 0, 0x1p-127F},
    {SYMMCOLL_FLOAT8_E8M0FNU, 254, 0x1p127F}};
static const struct eighth nans[] = {{SYMMCOLL_FLOAT8_E4M3FN, 0xff, 0},
    {SYMMCOLL_FLOAT8_E5M2, 0x7d, 0}, {SYMMCOLL_FLOAT8_E4M3FNUZ, 0x80, 0},
    {SYMMCOLL_FLOAT8_E5M2FNUZ, 0x80, 0}, {SYMMCOLL_FLOAT8_E8M0FNU, 0xff, 0}};

static int eighths_are_read(void)
{
    int good = 1;

    for (size_t i = 0; i < sizeof(eighths) / sizeof(*eighths); i++) {
        float found = symc_float8_to_float(eighths[i].dtype, eighths[i].bits);

        if (found != eighths[i].value) {
            diag("%s 0x%02x: expected %a, found %a",
                symmcoll_dtype_name(eighths[i].dtype), eighths[i].bits,
                (double)eighths[i].value, (double)found);
            good = 0;
        }
    }
    for (size_t i = 0; i < sizeof(nans) / sizeof(*nans); i++)
        good = good && isnan(symc_float8_to_float(nans[i].dtype, nans[i].bits));
    return good;
}

static const enum symmcoll_dtype signed_eighths[] = {SYMMCOLL_FLOAT8_E4M3FN,
    SYMMCOLL_FLOAT8_E5M2, SYMMCOLL_FLOAT8_E4M3FNUZ, SYMMCOLL_FLOAT8_E5M2FNUZ};

/* Checks the rounding: each number to itself; between two neighbours to the
 * nearer one, or to the even one in the middle; beyond the range to the
 * largest. */
static int eighths_are_rounded(enum symmcoll_dtype dtype)
{
    int good = isnan(
        symc_float8_to_float(dtype, symc_float_to_float8(dtype, (float)NAN)));

    for (int code = 0; code < 0x7f; code++) {
        float low = symc_float8_to_float(dtype, (uint8_t)code);
        float high = symc_float8_to_float(dtype, (uint8_t)(code + 1));
        float middle = (low + high) / 2;
        int even = code % 2 == 0 ? code : code + 1;

        if (!isfinite(low))
            break;
        good = good && symc_float_to_float8(dtype, low) == code &&
               (low == 0 || symc_float_to_float8(dtype, -low) == code + 0x80);
        if (!isfinite(high)) {
            good = good && symc_float_to_float8(dtype, low * 8) == code &&
                   symc_float_to_float8(dtype, -INFINITY) == code + 0x80;
            break;
        }
        good =
            good && symc_float_to_float8(dtype, middle) == even &&
            symc_float_to_float8(dtype, nextafterf(middle, 0)) == code &&
            symc_float_to_float8(dtype, nextafterf(middle, high)) == code + 1;
        if (!good) {
            diag("%s: near 0x%02x", symmcoll_dtype_name(dtype), code);
            return 0;
        }
    }
    return good;
}

static int all_are_rounded(void)
{
    int good = 1;

    for (int i = 0; i < 4; i++)
        good = good && eighths_are_rounded(signed_eighths[i]);
    return good && symc_float_to_float8(SYMMCOLL_FLOAT8_E4M3FNUZ, -0.0F) == 0 &&
           symc_float_to_float8(SYMMCOLL_FLOAT8_E4M3FN, 1e9F) == 0x7e &&
           symc_float_to_float8(SYMMCOLL_FLOAT8_E5M2FNUZ, 1e9F) == 0x7f;
}

/* ---- scaled products ---- */

static int is_scaled(const struct symmcoll_tensor *a,
    const struct symmcoll_tensor *b, const struct symc_scaling *scaling,
    const struct symmcoll_tensor *c)
{
    int64_t depth = a->shape[1], columns = c->shape[1];

    for (int64_t i = 0; i < made_count(c); i++) {
        int64_t row = i / columns, col = i % columns;
        double factor = (double)scaling->rows[row * scaling->row_step] *
                        (double)scaling->cols[col * scaling->col_step] *
                        (double)scaling->result;
        double bias = scaling->bias != NULL
                          ? (double)scaling->bias[col] * (double)scaling->result
                          : 0;
        struct made_sum sum = {bias, fabs(bias), depth + 4, 0};

        for (int64_t k = 0; k < depth; k++) {
            double term = factor * made_at(a, row * depth + k) *
                          made_at(b, k * columns + col);

            sum.value += term;
            sum.magnitude += fabs(term);
        }
        if (!made_is_near(c->dtype, made_at(c, i), sum))
            return 0;
    }
    return 1;
}

static int scales(struct symc_matmul *matmul, const struct test *test, int kind)
{
    const int64_t a_shape[2] = {test->rows, test->depth};
    const int64_t b_shape[2] = {test->depth, test->columns};
    const int64_t c_shape[2] = {test->rows, test->columns};
    const int64_t most = test->rows + test->columns;
    struct symmcoll_tensor a =
        made_tensor(test->dtype, 2, a_shape, test->a_order, 0, 1, 0);
    struct symmcoll_tensor b = made_tensor(
        signed_eighths[kind % 4], 2, b_shape, test->b_order, 0, 2, 0);
    struct symmcoll_tensor c =
        made_tensor(test->c_dtype, 2, c_shape, MADE_SPREAD, 0, 3, 0);
    struct symmcoll_tensor factors =
        made_tensor(SYMMCOLL_FLOAT32, 1, &most, MADE_CONTIGUOUS, 0, 4, 0);
    struct symc_matrix left = matrix(&a), right = matrix(&b), out = matrix(&c);
    const float *floats = factors.data;
    struct symc_scaling scaling = {floats, kind % 2, floats + 1, kind / 2 % 2,
        kind / 4 % 2 != 0 ? floats : NULL, kind / 8 % 2 != 0 ? 1.5F : 1, NULL,
        NULL};
    int good = OK(symc_matmul_scaled(matmul, &left, &right, &scaling, &out)) &&
               is_scaled(&a, &b, &scaling, &c);

    free(a.data);
    free(b.data);
    free(c.data);
    free(factors.data);
    return good;
}

/* Scales by factors of each row and column or of all, with and without bias
 * and a factor of results, for every type of results. */
static int all_scale(const char *library)
{
    static const enum symmcoll_dtype types[] = {SYMMCOLL_FLOAT32,
        SYMMCOLL_FLOAT16, SYMMCOLL_BFLOAT16, SYMMCOLL_FLOAT8_E4M3FN,
        SYMMCOLL_FLOAT8_E5M2};
    static const int64_t sizes[][3] = {
        {2, 1, 1}, {7, 5, 3}, {131, 4, 515}, {3, 0, 2}, {0, 3, 2}};
    struct symc_matmul matmul = {.packed = {{NULL, 0}}};
    int good = OK(symc_blas_load(&matmul.blas, library));

    for (int i = 0; i < 5 * 16 * 5 && good; i += CASES_STEP) {
        const int64_t *size = sizes[i / 80];
        struct test test = {signed_eighths[i / 5 % 4], types[i % 5], size[0],
            size[1], size[2], (enum made_order)(i / 5 % 4),
            (enum made_order)(i / 20 % 4), false};

        good = scales(&matmul, &test, i / 5 % 16);
        if (!good)
            diag("%s: %lld x %lld x %lld, kind %d, to %s", library,
                (long long)size[0], (long long)size[1], (long long)size[2],
                i / 5 % 16, symmcoll_dtype_name(test.c_dtype));
    }
    symc_matmul_free(&matmul);
    return good;
}

/* Repeats one element in long rows: a panel of them would exceed a size_t in
 * bytes. */
static int none_is_too_long(void)
{
    uint16_t one = 0, sum[1] = {0};
    struct symc_matmul matmul = {.packed = {{NULL, 0}}};
    int good = 1;

    for (int bit = 53; bit < 56; bit++) {
        int64_t depth = (int64_t)1 << bit;
        struct symc_matrix a = {&one, SYMMCOLL_BFLOAT16, 1, depth, 0, 0};
        struct symc_matrix b = {&one, SYMMCOLL_BFLOAT16, depth, 1, 0, 0};
        struct symc_matrix c = {sum, SYMMCOLL_BFLOAT16, 1, 1, 1, 1};

        good = made_says(symc_matmul(&matmul, &a, &b, &c, false),
                   SYMMCOLL_ERR_NO_MEMORY, "room for, found ") &&
               good;
    }
    symc_matmul_free(&matmul);
    return good;
}

/* ---- the setting ---- */

static symmcoll_status_t multiply_ones(struct symmcoll_group *group)
{
    float ones[4] = {1, 1, 1, 1};
    struct symmcoll_tensor a =
        SYMMCOLL_TENSOR_SHAPE(ones, SYMMCOLL_FLOAT32, 2, 2);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    symmcoll_status_t status =
        symmcoll_fused_all_gather_matmul(group, &a, &a, 1, 0, NULL, NULL, &out);

    if (status == SYMMCOLL_OK && made_at(&out, 0) != 2)
        status = SYMMCOLL_ERR_INTERNAL;
    symmcoll_f_free(symmcoll_group_world(group), &out);
    return status;
}

static int finds_none(struct symmcoll_group *group, int rank)
{
    (void)rank;
    return made_says(multiply_ones(group), SYMMCOLL_ERR_CONFIG,
               "fused.blas: expected ") &&
           OK(symmcoll_barrier(group, NULL, NULL));
}

static int multiplies_ones(struct symmcoll_group *group, int rank)
{
    (void)rank;
    return OK(multiply_ones(group));
}

static int with_library(const char *name, rank_fn body)
{
    int good;

    setenv("SYMMCOLL_FUSED_BLAS", name, 1);
    good = ranks_run(2, body);
    unsetenv("SYMMCOLL_FUSED_BLAS");
    return good;
}

int main(void)
{
    plan(10);
    ok(all_multiply(""), "products of all types, orders and sizes");
    ok(all_multiply("none"), "the same without BLAS");
    ok(eighths_are_read(), "8-bit floats are read as their formats say");
    ok(all_are_rounded(), "and rounded to nearest, even, and the largest");
    ok(all_scale(""), "scaled products of 8-bit floats (M35)");
    ok(all_scale("none"), "the same without BLAS");
    ok(none_is_too_long(), "panels that no memory has room for are refused");
    ok(with_library("", multiplies_ones),
        "fused.blas: the default one is found");
    ok(with_library("none", multiplies_ones), "fused.blas: none is needed");
    ok(with_library("libsymmcoll-nothing.so.7", finds_none),
        "fused.blas: a library that is not there is an error");
    return done_testing();
}
