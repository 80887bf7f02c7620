/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Floats from narrower types, and back, rounded to nearest.
 */
#include "base/float8.h"
#include "base/reduce.h"
#include "fused/matmul.h"

#include <string.h>

static void widen_halves(
    const uint16_t *from, int64_t stride, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = symc_half_to_float(from[i * stride]);
}

/* As symc_bfloat16_to_float(), but for the payload of a NaN, so that compilers
 * make vectors of it. */
static void widen_bfloats(
    const uint16_t *from, int64_t stride, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)from[i * stride] << 16;

        memcpy(&to[i], &bits, sizeof(bits));
    }
}

static void widen_eighths(enum symmcoll_dtype dtype, const uint8_t *from,
    int64_t stride, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = symc_float8_to_float(dtype, from[i * stride]);
}

void symc_panel_widen(const struct symc_matrix *from, int64_t row, int64_t col,
    int64_t rows, int64_t cols, float *to)
{
    for (int64_t i = 0; i < rows; i++, to += cols) {
        int64_t at = (row + i) * from->row_stride + col * from->col_stride;

        if (from->dtype == SYMMCOLL_FLOAT16)
            widen_halves(
                (const uint16_t *)from->data + at, from->col_stride, cols, to);
        else if (from->dtype == SYMMCOLL_BFLOAT16)
            widen_bfloats(
                (const uint16_t *)from->data + at, from->col_stride, cols, to);
        else
            widen_eighths(from->dtype, (const uint8_t *)from->data + at,
                from->col_stride, cols, to);
    }
}

void symc_panel_round(
    enum symmcoll_dtype dtype, const float *from, void *to, size_t count)
{
    uint16_t *narrow = to;

    if (dtype == SYMMCOLL_FLOAT32)
        memcpy(to, from, count * sizeof(*from));
    for (size_t i = 0; dtype == SYMMCOLL_FLOAT16 && i < count; i++)
        narrow[i] = symc_float_to_half(from[i]);
    for (size_t i = 0; dtype == SYMMCOLL_BFLOAT16 && i < count; i++)
        narrow[i] = symc_float_to_bfloat16(from[i]);
}
