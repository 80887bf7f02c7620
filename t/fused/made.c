/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests random tensors and their products. */
#include "t/fused/made.h"
#include "t/sanitized.h"

#include "base/float8.h"
#include "base/reduce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int made_succeeds(symmcoll_status_t status, const char *call)
{
    if (status != SYMMCOLL_OK)
        diag("%s: %s: %s", call, symmcoll_status_name(status),
            symmcoll_last_error());
    return status == SYMMCOLL_OK;
}

int made_says(
    symmcoll_status_t status, symmcoll_status_t wanted, const char *detail)
{
    if (status == wanted && strstr(symmcoll_last_error(), detail) != NULL)
        return 1;
    diag("expected '%s', found %s: %s", detail, symmcoll_status_name(status),
        symmcoll_last_error());
    return 0;
}

/* ---- elements ---- */

static double read_element(enum symmcoll_dtype dtype, const void *at)
{
    uint16_t half;
    float single;
    double value;

    switch (dtype) {
    case SYMMCOLL_FLOAT32:
        memcpy(&single, at, sizeof(single));
        return (double)single;
    case SYMMCOLL_FLOAT64:
        memcpy(&value, at, sizeof(value));
        return value;
    case SYMMCOLL_FLOAT16:
        memcpy(&half, at, sizeof(half));
        return (double)symc_half_to_float(half);
    case SYMMCOLL_BFLOAT16:
        memcpy(&half, at, sizeof(half));
        return (double)symc_bfloat16_to_float(half);
    default:
        return (double)symc_float8_to_float(dtype, *(const uint8_t *)at);
    }
}

/* Returns well mixed bits, the same for the same arguments. */
static uint64_t mix(int seed, int rank, int64_t index)
{
    uint64_t x = (uint64_t)index * UINT64_C(0x9e3779b97f4a7c15) +
                 (uint64_t)seed * UINT64_C(0xbf58476d1ce4e5b9) +
                 (uint64_t)rank * UINT64_C(0x94d049bb133111eb) + 1;

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static void write_element(
    enum symmcoll_dtype dtype, int seed, int rank, int64_t index, void *at)
{
    uint64_t bits = mix(seed, rank, index);
    double value = (double)(bits >> 11) * 0x1p-52 - 1;
    float single = (float)value;
    uint16_t half;

    switch (dtype) {
    case SYMMCOLL_FLOAT32:
        memcpy(at, &single, sizeof(single));
        break;
    case SYMMCOLL_FLOAT64:
        memcpy(at, &value, sizeof(value));
        break;
    case SYMMCOLL_FLOAT16:
        half = symc_float_to_half(single);
        memcpy(at, &half, sizeof(half));
        break;
    case SYMMCOLL_BFLOAT16:
        half = symc_float_to_bfloat16(single);
        memcpy(at, &half, sizeof(half));
        break;
    default: /* of float8: a sign and a small exponent, never NaN or -0 */
        *(uint8_t *)at = (uint8_t)((bits & 0xbf) == 0x80 ? 0 : bits & 0xbf);
    }
}

double made_value(enum symmcoll_dtype dtype, int seed, int rank, int64_t index)
{
    double room;

    write_element(dtype, seed, rank, index, &room);
    return read_element(dtype, &room);
}

/* ---- tensors ---- */

int64_t made_count(const struct symmcoll_tensor *tensor)
{
    int64_t count = 1;

    for (int d = 0; d < tensor->ndim; d++)
        count *= tensor->shape[d];
    return count;
}

int64_t made_offset(const struct symmcoll_tensor *tensor, int64_t index)
{
    int64_t offset = 0;

    for (int d = tensor->ndim - 1; d >= 0; d--) {
        offset += index % tensor->shape[d] * tensor->strides[d];
        index /= tensor->shape[d];
    }
    return offset;
}

double made_at(const struct symmcoll_tensor *tensor, int64_t index)
{
    return read_element(
        tensor->dtype, (const char *)tensor->data +
                           made_offset(tensor, index) *
                               (int64_t)symmcoll_dtype_size(tensor->dtype));
}

/* Returns a stride by the order in memory; the last dimension of the order is
 * contiguous. */
static int64_t stride(
    struct symmcoll_tensor *tensor, enum made_order order, int dim)
{
    int64_t extent = 1;

    for (int i = tensor->ndim - 1; i >= 0; i--) {
        int d = order == MADE_REVERSED ? tensor->ndim - 1 - i : i;

        if (order == MADE_FIRST && d == dim)
            continue;
        tensor->strides[d] = extent;
        extent *= tensor->shape[d];
        if (order == MADE_SPREAD && i == tensor->ndim - 1)
            extent += 3;
    }
    if (order == MADE_FIRST) {
        tensor->strides[dim] = extent;
        extent *= tensor->shape[dim];
    }
    return extent;
}

struct symmcoll_tensor made_tensor(enum symmcoll_dtype dtype, int ndim,
    const int64_t *shape, enum made_order order, int dim, int seed, int rank)
{
    struct symmcoll_tensor made = SYMMCOLL_TENSOR_INIT;
    int64_t elem = (int64_t)symmcoll_dtype_size(dtype), extent;

    made.dtype = dtype;
    made.ndim = ndim;
    memcpy(made.shape, shape, (size_t)ndim * sizeof(*shape));
    extent = stride(&made, order, dim);
    made.data = calloc((size_t)(extent > 0 ? extent : 1), (size_t)elem);
    if (made.data == NULL)
        abort();
    for (int64_t i = 0; i < made_count(&made); i++)
        write_element(dtype, seed, rank, i,
            (char *)made.data + made_offset(&made, i) * elem);
    return made;
}

int made_shard_of(int ndim, const int64_t *shape, int size, int dim,
    int64_t index, int64_t *local)
{
    int64_t at[SYMMCOLL_MAX_DIMS] = {0};
    int rank = 0;

    for (int d = ndim - 1; d >= 0; d--) {
        int64_t length = shape[d] * (d == dim ? size : 1);

        at[d] = index % length;
        index /= length;
    }
    rank = (int)(at[dim] / shape[dim]);
    at[dim] %= shape[dim];
    *local = 0;
    for (int d = 0; d < ndim; d++)
        *local = *local * shape[d] + at[d];
    return rank;
}

/* ---- cases ---- */

int made_each_dimension(
    struct symmcoll_group *group, int rank, made_case_fn body)
{
    static const enum symmcoll_dtype types[] = {SYMMCOLL_FLOAT32,
        SYMMCOLL_FLOAT64, SYMMCOLL_FLOAT16, SYMMCOLL_BFLOAT16};
    static const int64_t shapes[][4] = {
        {3, 7, 0, 0}, {2, 3, 5, 0}, {2, 3, 1, 7}};
    int good = 1;

    /* Under ThreadSanitizer fewer cases suffice. */
    for (int i = 0; i < 3 * 4; i += THREADS_CHECKED ? 4 : 1) {
        struct made_case given = {.dtype = types[i / 3], .ndim = i % 3 + 2};

        memcpy(given.shape, shapes[i % 3], sizeof(given.shape));
        for (given.dim = 0; given.dim < given.ndim; given.dim++)
            good = good && body(group, rank, &given);
    }
    return good;
}

int made_each_order(struct symmcoll_group *group, int rank, made_case_fn body)
{
    struct made_case given = {
        .dtype = SYMMCOLL_FLOAT32, .ndim = 3, .shape = {3, 4, 5}};
    int good = 1;

    for (int i = 0; i < 4 * 4 * 3; i += THREADS_CHECKED ? 5 : 1) {
        given.order = (enum made_order)(i % 4);
        given.b_order = (enum made_order)(i / 4 % 4);
        given.dim = i / 16;
        good = good && body(group, rank, &given);
    }
    return good;
}

/* ---- expected values ---- */

int made_is_near(enum symmcoll_dtype dtype, double found, struct made_sum sum)
{
    static const struct {
        double v, w;
    } rounded[] = {[SYMMCOLL_FLOAT16] = {0x1p-11, 0x1p-25},
        [SYMMCOLL_BFLOAT16] = {0x1p-8, 0},
        [SYMMCOLL_FLOAT8_E4M3FN] = {0x1p-4, 0x1p-10},
        [SYMMCOLL_FLOAT8_E5M2] = {0x1p-3, 0x1p-17},
        [SYMMCOLL_FLOAT8_E4M3FNUZ] = {0x1p-4, 0x1p-11},
        [SYMMCOLL_FLOAT8_E5M2FNUZ] = {0x1p-3, 0x1p-18}};
    double u = dtype == SYMMCOLL_FLOAT64 ? 0x1p-53 : 0x1p-24;
    double v = rounded[dtype].v, w = rounded[dtype].w;
    double bound = ((double)(sum.terms + 1) * u + sum.inexact) * sum.magnitude;

    bound += v * (fabs(sum.value) + bound) + w;
    if (fabs(found - sum.value) <= bound)
        return 1;
    diag("expected %.17g, found %.17g, which is %g away and may be %g",
        sum.value, found, fabs(found - sum.value), bound);
    return 0;
}

int made_is_shaped(const struct symmcoll_tensor *tensor, int ndim,
    const int64_t *shape, int first)
{
    struct symmcoll_tensor wanted = *tensor;

    if (tensor->ndim != ndim) {
        diag("expected %d dimensions, found %d", ndim, tensor->ndim);
        return 0;
    }
    memcpy(wanted.shape, shape, (size_t)ndim * sizeof(*shape));
    stride(&wanted, MADE_FIRST, first);
    for (int d = 0; d < ndim; d++) {
        bool moves = made_count(&wanted) > 0 && shape[d] > 1;

        if (tensor->shape[d] != shape[d] ||
            (moves && tensor->strides[d] != wanted.strides[d])) {
            diag("dimension %d: expected %lld of stride %lld, found %lld of "
                 "stride %lld",
                d, (long long)shape[d], (long long)wanted.strides[d],
                (long long)tensor->shape[d], (long long)tensor->strides[d]);
            return 0;
        }
    }
    return 1;
}
