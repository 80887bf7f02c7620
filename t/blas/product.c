/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/blas/product.h"
#include "t/blas/elements.h"
#include "t/cuda/members.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define UNTOUCHED 0x55

double product_value(int seed, int64_t i, int64_t j)
{
    uint64_t bits = (uint64_t)(i * 1000003 + j * 7919 + seed * 104729) *
                    UINT64_C(0x9e3779b97f4a7c15);

    return (double)(int)(bits >> 48 & 0xf) / 8 - 1; /* exact in every type */
}

/* ---- matrices ---- */

size_t product_place(
    const struct symc_product_matrix *shape, int64_t i, int64_t j)
{
    return (size_t)(shape->by_columns ? i + j * shape->distance
                                      : j + i * shape->distance) *
           symmcoll_dtype_size(shape->dtype);
}

struct product_matrix product_make(enum symmcoll_dtype dtype, int64_t rows,
    int64_t cols, bool by_columns, int64_t room, int seed)
{
    struct product_matrix it = {
        .shape = {.dtype = dtype,
            .rows = rows,
            .cols = cols,
            .distance = (by_columns ? rows : cols) + room,
            .by_columns = by_columns}};

    it.nbytes = (size_t)(it.shape.distance * (by_columns ? cols : rows)) *
                symmcoll_dtype_size(dtype);
    it.host = malloc(it.nbytes);
    it.device = device_alloc(it.nbytes);
    memset(it.host, UNTOUCHED, it.nbytes);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            put(dtype, it.host + product_place(&it.shape, i, j),
                product_value(seed, i, j));
    device_write(it.device, it.host, it.nbytes);
    it.shape.alignment = symc_product_alignment(
        it.device, it.shape.distance * (int64_t)symmcoll_dtype_size(dtype));
    return it;
}

void product_drop(struct product_matrix *it)
{
    free(it->host);
    device_free(it->device);
}

/* ---- one product ---- */

static float scale_at(bool outer, int seed, int64_t i)
{
    return 0.25f * (float)(1 + (outer ? (i + seed) % 7 : seed));
}

static float *make_scales(
    const struct product_given *given, int64_t count, int seed)
{
    size_t nbytes = (size_t)(given->outer ? count : 1) * sizeof(float);
    float *device = device_alloc(nbytes), *host = malloc(nbytes);

    for (int64_t i = 0; i < (given->outer ? count : 1); i++)
        host[i] = scale_at(given->outer, seed, i);
    device_write(device, host, nbytes);
    free(host);
    return device;
}

static bool is_near(const struct product_given *given,
    const struct product_matrix *c, int64_t i, int64_t j, const char *before)
{
    double sum = 0, magnitude = 0, scale = 1, bound, found;
    double rounding = given->out == SYMMCOLL_FLOAT64   ? 0x1p-52
                      : given->out == SYMMCOLL_FLOAT32 ? 0x1p-23
                      : given->out == SYMMCOLL_FLOAT16 ? 0x1p-10
                                                       : 0x1p-7;

    for (int64_t k = 0; k < given->k; k++) {
        double term = product_value(1, i, k) * product_value(2, k, j);

        sum += term;
        magnitude += fabs(term);
    }
    if (given->scaled)
        scale =
            (double)scale_at(given->outer, 1, i) * scale_at(given->outer, 2, j);
    if (given->divisor > 1) {
        sum /= given->divisor;
        magnitude /= given->divisor;
    }
    bound = (double)(given->k + 2) * magnitude *
            (given->dtype == SYMMCOLL_FLOAT64 ? 0x1p-52 : 0x1p-23);
    if (given->tf32)
        bound += 0x1p-10 * magnitude;
    if (symmcoll_dtype_size(given->dtype) == 1)
        bound += (double)(given->k + 1) * magnitude * 0x1p-13;
    sum *= scale;
    if (given->add)
        sum += get(given->out, before + product_place(&c->shape, i, j));
    bound = bound * scale + rounding * (fabs(sum) + bound) + 0x1p-24;
    found = get(given->out, c->host + product_place(&c->shape, i, j));
    if (fabs(found - sum) <= bound)
        return true;
    diag("(%lld, %lld) is %g, not %g +- %g", (long long)i, (long long)j, found,
        sum, bound);
    return false;
}

/* Checks that elements are close, and that bytes between the lines are
 * unchanged. */
bool product_is_right(const struct product_given *given,
    const struct product_matrix *c, const char *before)
{
    size_t elem = symmcoll_dtype_size(given->out);

    for (int64_t i = 0; i < given->m; i++) {
        for (int64_t j = 0; j < given->n; j++)
            if (!is_near(given, c, i, j, before))
                return false;
        for (size_t at = product_place(&c->shape, i, given->n);
             at < product_place(&c->shape, i + 1, 0); at++)
            if (c->host[at] != UNTOUCHED)
                return say(0, "a byte beside the result has changed");
    }
    return elem > 0;
}

bool product_run(const struct product_on *on, const struct product_given *given,
    const struct product_room *workspace)
{
    struct product_matrix a = product_make(
        given->dtype, given->m, given->k, given->a_columns, given->room, 1);
    struct product_matrix b = product_make(
        given->dtype, given->k, given->n, given->b_columns, given->room, 2);
    struct product_matrix c =
        product_make(given->out, given->m, given->n, false, given->room, 3);
    struct product_matrix added =
        product_make(given->out, given->m, given->n, false, given->room, 4);
    const struct product_matrix *sums = given->apart ? &added : &c;
    char *before = memcpy(malloc(c.nbytes), sums->host, c.nbytes);
    float *a_scale = make_scales(given, given->m, 1);
    float *b_scale = make_scales(given, given->n, 2);
    struct symc_product product = {.a = a.shape,
        .b = b.shape,
        .c = c.shape,
        .add = given->add,
        .divisor = given->divisor,
        .tf32 = given->tf32,
        .outer = given->outer,
        .scaled = given->scaled,
        .workspace = workspace->nbytes};
    struct symc_product_operands operands = {.a = a.device,
        .b = b.device,
        .c = c.device,
        .added = given->apart ? added.device : NULL,
        .a_scale = given->scaled ? a_scale : NULL,
        .b_scale = given->scaled ? b_scale : NULL,
        .workspace = workspace->at};
    struct symc_lt_plan plan;
    bool right = say(
        symc_lt_plan_make(on->lt, &product, &plan) == SYMMCOLL_OK, "the plan");

    if (!right)
        diag("%s", symmcoll_last_error());
    if (right) {
        right = symc_lt_matmul(&plan, &operands, on->stream) == SYMMCOLL_OK;
        device_wait(on->stream);
        device_read(c.host, c.device, c.nbytes);
        symc_lt_plan_free(&plan);
    }
    right = right && product_is_right(given, &c, before);
    free(before);
    device_free(a_scale);
    device_free(b_scale);
    product_drop(&a);
    product_drop(&b);
    product_drop(&c);
    product_drop(&added);
    return right;
}
