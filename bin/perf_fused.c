/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products of matrices fused with a collective, compared with two separate
 * calls and with the product alone.  All ways are checked, then measured in
 * turn, so that their times can be compared.
 */
#include "perf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAYS_MAX 5
#define SAMPLES_LEAST 7
#define CHECKED 200 /* elements checked per result */

struct fused;
typedef symmcoll_status_t (*fused_fn)(struct fused *it);

/* One way to compute it. */
struct way {
    const char *name;
    fused_fn run;
    bool partial; /* the result is of this rank alone */
};

/* One operation at one shape. */
struct fused {
    struct perf_rank *rank;
    struct symmcoll_group *alone; /* group of this rank only */
    int64_t rows, depth, columns;
    bool scatters;
    enum symmcoll_dtype dtype;
    struct symmcoll_tensor shard;  /* in symmetric memory */
    struct symmcoll_tensor copied; /* the same data in other memory */
    struct symmcoll_tensor a, b, whole, part;
    bool scaled; /* 8-bit floats, with float32 results */
    struct symmcoll_tensor rows_scale, columns_scale; /* all 1 */
    const struct way *ways;
    int nways;
    double *times[WAYS_MAX];
};

/* ---- elements: small integers, so that sums are exact ---- */

static int a_number(int rank, int64_t row, int64_t k)
{
    return (int)((row * 7 + k * 3 + rank * 5) % 5) - 2;
}

static int b_number(int rank, int64_t k, int64_t column)
{
    return (int)((k * 11 + column * 5 + rank * 3) % 5) - 2;
}

/* Stores a number.  The upper half of a float is a bfloat16, which is exact for
 * these numbers. */
static void put(const struct symmcoll_tensor *tensor, int64_t index, int number)
{
    static const uint16_t halves[5] = {0xc000, 0xbc00, 0, 0x3c00, 0x4000};
    static const uint8_t e4m3fn[5] = {0xc0, 0xb8, 0, 0x38, 0x40};
    float single = (float)number;
    uint32_t bits;

    memcpy(&bits, &single, sizeof(bits));
    if (tensor->dtype == SYMMCOLL_FLOAT32)
        ((float *)tensor->data)[index] = single;
    else if (tensor->dtype == SYMMCOLL_FLOAT64)
        ((double *)tensor->data)[index] = number;
    else if (tensor->dtype == SYMMCOLL_BFLOAT16)
        ((uint16_t *)tensor->data)[index] = (uint16_t)(bits >> 16);
    else if (tensor->dtype == SYMMCOLL_FLOAT8_E4M3FN)
        ((uint8_t *)tensor->data)[index] = e4m3fn[number + 2];
    else if (tensor->dtype == SYMMCOLL_FLOAT8_E5M2)
        ((uint8_t *)tensor->data)[index] = (uint8_t)(halves[number + 2] >> 8);
    else
        ((uint16_t *)tensor->data)[index] = halves[number + 2];
}

static double get(const struct symmcoll_tensor *tensor, int64_t index)
{
    uint16_t half = ((const uint16_t *)tensor->data)[index];
    uint32_t bits = (uint32_t)half << 16;
    float single;

    if (tensor->dtype == SYMMCOLL_FLOAT32)
        return (double)((const float *)tensor->data)[index];
    if (tensor->dtype == SYMMCOLL_FLOAT64)
        return ((const double *)tensor->data)[index];
    memcpy(&single, &bits, sizeof(single));
    if (tensor->dtype == SYMMCOLL_BFLOAT16)
        return (double)single;
    return (half & 0x7c00) == 0x7c00
               ? INFINITY
               : ldexp((half & 0x3ff) + ((half & 0x7c00) != 0 ? 1024 : 0),
                     ((half >> 10 & 31) > 0 ? (half >> 10 & 31) : 1) - 25) *
                     ((half & 0x8000) != 0 ? -1 : 1);
}

/* Returns element (row, column) of a way's result. */
static double expect(
    const struct fused *it, bool partial, int64_t row, int64_t column)
{
    int64_t each = it->rows / it->rank->size;
    double sum = 0;

    for (int r = 0; r < it->rank->size; r++) {
        if (it->scatters && partial && r != it->rank->rank)
            continue;
        for (int64_t k = 0; k < it->depth; k++) {
            int a = it->scatters ? a_number(r, row, k)
                                 : a_number((int)(row / each), row % each, k);

            sum += a * b_number(it->scatters ? r : it->rank->rank, k, column);
        }
        if (!it->scatters)
            break;
    }
    return sum;
}

static int check(const struct fused *it, const struct way *way)
{
    bool all = !it->scatters || way->partial;
    const struct symmcoll_tensor *out = all ? &it->whole : &it->part;
    int64_t first = all ? 0 : it->rank->rank * (it->rows / it->rank->size);
    int64_t count = out->shape[0] * out->shape[1];
    double exact =
        out->dtype == SYMMCOLL_FLOAT32 || out->dtype == SYMMCOLL_FLOAT64
            ? 0
            : 0x1p-8;

    for (int i = 0; i < CHECKED; i++) {
        int64_t at = count * i / CHECKED;
        double wanted = expect(
            it, way->partial, first + at / it->columns, at % it->columns);

        if (fabs(get(out, at) - wanted) <= exact * fabs(wanted))
            continue;
        fprintf(stderr,
            "symmcoll-perf: rank %d of %d: %s: row %lld, column %lld: expected "
            "%g, found %g\n",
            it->rank->rank, it->rank->size, way->name,
            (long long)first + (long long)at / (long long)it->columns,
            (long long)at % (long long)it->columns, wanted, get(out, at));
        return PERF_FAILED;
    }
    return PERF_PASSED;
}

/* ---- ways ---- */

static struct symmcoll_scaled_matrix scaled_matrix(const struct fused *it)
{
    struct symmcoll_scaled_matrix matrix = SYMMCOLL_SCALED_MATRIX_INIT;

    matrix.b = &it->b;
    matrix.b_scale = &it->columns_scale;
    return matrix;
}

static symmcoll_status_t gather(struct fused *it, struct symmcoll_group *group,
    const struct symmcoll_tensor *shard, struct symmcoll_tensor *a)
{
    struct symmcoll_scaled_matrix matrix = scaled_matrix(it);
    struct symmcoll_tensor rows = it->rows_scale;

    if (!it->scaled)
        return symmcoll_fused_all_gather_matmul(
            group, shard, &it->b, 1, 0, NULL, a, &it->whole);
    rows.shape[0] = shard->shape[0];
    return symmcoll_fused_all_gather_scaled_matmul(
        group, shard, &rows, &matrix, 1, 0, NULL, a, &it->whole);
}

static symmcoll_status_t gather_in_place(struct fused *it)
{
    return gather(it, it->rank->group, &it->shard, NULL);
}

static symmcoll_status_t gather_and_return(struct fused *it)
{
    return gather(it, it->rank->group, &it->shard, &it->a);
}

static symmcoll_status_t gather_copied(struct fused *it)
{
    return gather(it, it->rank->group, &it->copied, NULL);
}

/* Runs the product alone: with one rank nothing is communicated. */
static symmcoll_status_t multiply(struct fused *it)
{
    return gather(it, it->alone, &it->a, NULL);
}

static symmcoll_status_t gather_then_multiply(struct fused *it)
{
    symmcoll_status_t status =
        symmcoll_all_gather(it->rank->group, it->a.data, it->copied.data,
            (size_t)(it->copied.shape[0] * it->depth), it->dtype, NULL, NULL);

    return status != SYMMCOLL_OK ? status : multiply(it);
}

static symmcoll_status_t scatter(struct fused *it)
{
    struct symmcoll_scaled_matrix matrix = scaled_matrix(it);

    return it->scaled ? symmcoll_fused_scaled_matmul_reduce_scatter(
                            it->rank->group, &it->a, &it->rows_scale, &matrix,
                            SYMMCOLL_SUM, 0, NULL, &it->part)
                      : symmcoll_fused_matmul_reduce_scatter(it->rank->group,
                            &it->a, &it->b, SYMMCOLL_SUM, 0, NULL, &it->part);
}

static symmcoll_status_t multiply_then_scatter(struct fused *it)
{
    symmcoll_status_t status = multiply(it);

    return status != SYMMCOLL_OK
               ? status
               : symmcoll_reduce_scatter(it->rank->group, it->part.data,
                     it->whole.data, (size_t)(it->part.shape[0] * it->columns),
                     it->part.dtype, SYMMCOLL_SUM, NULL, NULL);
}

static const struct way gathers[] = {
    {"all_gather_matmul", gather_in_place, false},
    {"all_gather_matmul_copied", gather_copied, false},
    {"all_gather_matmul_with_a", gather_and_return, false},
    {"all_gather_then_matmul", gather_then_multiply, false},
    {"matmul", multiply, true}};
static const struct way scatters[] = {{"matmul_reduce_scatter", scatter, false},
    {"matmul_then_reduce_scatter", multiply_then_scatter, false},
    {"matmul", multiply, true}};

/* ---- memory ---- */

static bool make(struct symmcoll_tensor *tensor, enum symmcoll_dtype dtype,
    int64_t rows, int64_t columns)
{
    struct symmcoll_tensor made =
        SYMMCOLL_TENSOR_SHAPE(NULL, dtype, rows, columns);
    size_t nbytes = (size_t)(rows * columns) * symmcoll_dtype_size(dtype);

    *tensor = made;
    if (posix_memalign(&tensor->data, 4096, nbytes + 1) != 0)
        return false;
    memset(tensor->data, 0, nbytes);
    return true;
}

static bool make_scales(struct fused *it)
{
    if (!make(&it->rows_scale, SYMMCOLL_FLOAT32, it->rows, 1) ||
        !make(&it->columns_scale, SYMMCOLL_FLOAT32, 1, it->columns))
        return false;
    for (int64_t i = 0; i < it->rows; i++)
        put(&it->rows_scale, i, 1);
    for (int64_t i = 0; i < it->columns; i++)
        put(&it->columns_scale, i, 1);
    return true;
}

static symmcoll_status_t make_all(struct fused *it)
{
    enum symmcoll_dtype to = it->scaled ? SYMMCOLL_FLOAT32 : it->dtype;
    int64_t each = it->rows / it->rank->size;
    struct symmcoll_symm *handle;
    symmcoll_status_t status;

    if (!make(&it->copied, it->dtype, each, it->depth) ||
        !make(&it->a, it->dtype, it->rows, it->depth) ||
        !make(&it->b, it->dtype, it->depth, it->columns) ||
        !make(&it->whole, to, it->rows, it->columns) ||
        !make(&it->part, to, each, it->columns) || !make_scales(it))
        return SYMMCOLL_ERR_NO_MEMORY;
    it->shard = it->copied;
    it->shard.data = NULL;
    status = symmcoll_symm_alloc_tensor(it->rank->world, NULL, &it->shard);
    if (status == SYMMCOLL_OK)
        status = symmcoll_symm_rendezvous(
            it->rank->group, it->shard.data, NULL, &handle);
    if (status != SYMMCOLL_OK)
        return status;
    symmcoll_symm_release(handle);
    for (int64_t i = 0; i < each * it->depth; i++) {
        int number = a_number(it->rank->rank, i / it->depth, i % it->depth);

        put(&it->shard, i, number);
        put(&it->copied, i, number);
    }
    for (int64_t i = 0; i < it->rows * it->depth; i++) {
        int64_t row = i / it->depth, k = i % it->depth;

        put(&it->a, i,
            it->scatters ? a_number(it->rank->rank, row, k)
                         : a_number((int)(row / each), row % each, k));
    }
    for (int64_t i = 0; i < it->depth * it->columns; i++)
        put(&it->b, i,
            b_number(it->rank->rank, i / it->columns, i % it->columns));
    return SYMMCOLL_OK;
}

static void free_all(struct fused *it)
{
    (void)symmcoll_symm_free(it->rank->world, it->shard.data);
    free(it->copied.data);
    free(it->a.data);
    free(it->b.data);
    free(it->whole.data);
    free(it->part.data);
    free(it->rows_scale.data);
    free(it->columns_scale.data);
    for (int i = 0; i < it->nways; i++)
        free(it->times[i]);
}

/* ---- checking and measuring ---- */

static int agree(const struct fused *it, int verdict)
{
    double worst = verdict;
    symmcoll_status_t status = perf_largest(it->rank, &worst, 1);

    return status != SYMMCOLL_OK ? perf_report(it->rank, "agreeing", status)
           : worst > PERF_PASSED ? PERF_FAILED
                                 : PERF_PASSED;
}

static void clear(const struct symmcoll_tensor *tensor)
{
    memset(tensor->data, 0xff,
        (size_t)(tensor->shape[0] * tensor->shape[1]) *
            symmcoll_dtype_size(tensor->dtype));
}

static int check_all(struct fused *it)
{
    for (int i = 0; i < it->nways; i++) {
        symmcoll_status_t status;

        /* So that an earlier result is not taken for this one's. */
        clear(&it->whole);
        clear(&it->part);
        status = it->ways[i].run(it);
        if (status != SYMMCOLL_OK)
            return perf_report(it->rank, it->ways[i].name, status);
        if (agree(it, check(it, &it->ways[i])) != PERF_PASSED)
            return PERF_FAILED;
    }
    return PERF_PASSED;
}

static int compare_times(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

static symmcoll_status_t measure_round(struct fused *it, int sample)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int i = 0; i < it->nways && status == SYMMCOLL_OK; i++) {
        double start;

        status = symmcoll_barrier(it->rank->all, NULL, NULL);
        start = perf_now();
        if (status == SYMMCOLL_OK)
            status = it->ways[i].run(it);
        it->times[i][sample] = perf_now() - start;
    }
    return status;
}

static void print_way(const struct fused *it, int index, int samples)
{
    const double *times = it->times[index];
    double median = times[samples / 2];
    double alone = it->times[it->nways - 1][samples / 2];
    double flops =
        2.0 * (double)it->rows * (double)it->depth * (double)it->columns;
    char shape[64];

    snprintf(shape, sizeof(shape), "%lldx%lldx%lld", (long long)it->rows,
        (long long)it->depth, (long long)it->columns);
    if (it->rank->options->tsv)
        printf("%s\t%s\t%d\t%s\t%d\t%.3f\t%.3f\t%.4f\t%.4f\n",
            it->rank->options->peer, it->ways[index].name, it->rank->size,
            shape, samples, times[0] * 1e6, median * 1e6, flops / median / 1e9,
            median / alone);
    else
        printf("%-26s %16s %7d %11.1f %11.1f %9.1f %8.4f\n",
            it->ways[index].name, shape, samples, times[0] * 1e6, median * 1e6,
            flops / median / 1e9, median / alone);
}

static int measure(struct fused *it)
{
    double seconds = it->rank->options->seconds, took = perf_now();
    symmcoll_status_t status = SYMMCOLL_OK;
    int samples = SAMPLES_LEAST;

    for (int i = 0; i < 3 && status == SYMMCOLL_OK; i++)
        status = measure_round(it, 0);
    took = (perf_now() - took) / 3;
    if (status == SYMMCOLL_OK)
        status = perf_largest(it->rank, &took, 1);
    if (took * SAMPLES_LEAST < seconds * it->nways)
        samples = (int)(seconds * it->nways / took);
    samples = samples < PERF_SAMPLES_MAX ? samples : PERF_SAMPLES_MAX;
    for (int i = 0; i < samples && status == SYMMCOLL_OK; i++)
        status = measure_round(it, i);
    for (int i = 0; i < it->nways && status == SYMMCOLL_OK; i++)
        status = perf_largest(it->rank, it->times[i], (size_t)samples);
    if (status != SYMMCOLL_OK)
        return perf_report(it->rank, "measuring", status);
    for (int i = 0; i < it->nways; i++)
        qsort(it->times[i], (size_t)samples, sizeof(double), compare_times);
    for (int i = 0; i < it->nways && it->rank->rank == 0; i++)
        print_way(it, i, samples);
    return PERF_PASSED;
}

static int run_shape(struct perf_rank *rank, struct symmcoll_group *alone,
    bool scatters_it, const struct perf_shape *shape)
{
    struct fused it = {.rank = rank,
        .alone = alone,
        .rows = shape->rows,
        .depth = shape->depth,
        .columns = shape->columns,
        .scatters = scatters_it,
        .dtype = rank->options->dtype,
        .scaled = symmcoll_dtype_size(rank->options->dtype) == 1,
        .ways = scatters_it ? scatters : gathers,
        .nways = scatters_it ? 3 : 5};
    symmcoll_status_t status;
    int result;

    it.rows -= it.rows % rank->size;
    if (it.rows == 0)
        it.rows = rank->size;
    status = make_all(&it);
    for (int i = 0; i < it.nways && status == SYMMCOLL_OK; i++) {
        it.times[i] = calloc(PERF_SAMPLES_MAX, sizeof(double));
        if (it.times[i] == NULL)
            status = SYMMCOLL_ERR_NO_MEMORY;
    }
    result = status == SYMMCOLL_OK
                 ? check_all(&it)
                 : perf_report(rank, "making the matrices", status);
    if (result == PERF_PASSED && !rank->options->check_only)
        result = measure(&it);
    free_all(&it);
    return result;
}

int perf_fused(struct perf_rank *rank)
{
    const struct perf_options *options = rank->options;
    struct symmcoll_group *alone;
    symmcoll_status_t status =
        symmcoll_group_split(rank->all, rank->rank, 0, NULL, &alone);
    int result = PERF_PASSED;

    if (status != SYMMCOLL_OK)
        return perf_report(rank, "making a group", status);
    if (rank->rank == 0 && !options->tsv && !options->check_only)
        printf("%-26s %16s %7s %11s %11s %9s %8s\n", "operation", "M x K x N",
            "samples", "min us", "median us", "GFLOP/s", "/ matmul");
    for (int i = 0; i < options->nshapes && result == PERF_PASSED; i++) {
        if (options->gathers)
            result = run_shape(rank, alone, false, &options->shapes[i]);
        if (options->scatters && result == PERF_PASSED)
            result = run_shape(rank, alone, true, &options->shapes[i]);
    }
    if (result == PERF_PASSED && options->check_only && rank->rank == 0)
        printf("fused: %d shapes are right\n", options->nshapes);
    if (symmcoll_group_free(alone) != SYMMCOLL_OK)
        result = PERF_FAILED;
    return result;
}
