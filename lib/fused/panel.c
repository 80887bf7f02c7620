/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Conversions between floats and narrower types, rounding to nearest, and
 * scaling. All assume the default floating-point mode.
 */
#include "base/float8.h"
#include "base/floating.h"
#include "base/reduce.h"
#include "fused/matmul.h"

#include <string.h>

#define TILE_BLOCKS 4

static void widen_halves(
    const uint16_t *from, int64_t stride, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = symc_half_to_float(from[i * stride]);
}

/* Converts like symc_bfloat16_to_float(), except for the payload of a NaN, so
 * that compilers can vectorise it. */
static void widen_bfloats(
    const uint16_t *from, int64_t stride, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)from[i * stride] << 16;

        memcpy(&to[i], &bits, sizeof(bits));
    }
}

static void widen_eighths(const struct symc_matrix *from, int64_t row,
    int64_t col, int64_t rows, int64_t cols, float *to)
{
    const uint8_t *data = from->data;
    float values[256];

    for (int code = 0; code < 256; code++)
        values[code] = symc_float8_to_float(from->dtype, (uint8_t)code);
    for (int64_t i = 0; i < rows; i++, to += cols) {
        const uint8_t *at =
            data + (row + i) * from->row_stride + col * from->col_stride;

        for (int64_t j = 0; j < cols; j++)
            to[j] = values[at[j * from->col_stride]];
    }
}

void symc_panel_widen(const struct symc_matrix *from, int64_t row, int64_t col,
    int64_t rows, int64_t cols, float *to)
{
    uint64_t mode = symc_floating_set_default();

    if (symmcoll_dtype_size(from->dtype) == 1) {
        widen_eighths(from, row, col, rows, cols, to);
        rows = 0;
    }
    for (int64_t i = 0; i < rows; i++, to += cols) {
        int64_t at = (row + i) * from->row_stride + col * from->col_stride;

        if (from->dtype == SYMMCOLL_FLOAT16)
            widen_halves(
                (const uint16_t *)from->data + at, from->col_stride, cols, to);
        else
            widen_bfloats(
                (const uint16_t *)from->data + at, from->col_stride, cols, to);
    }
    symc_floating_restore(mode);
}

void symc_panel_round(
    enum symmcoll_dtype dtype, const float *from, void *to, size_t count)
{
    uint16_t *narrow = to;
    uint64_t mode = symc_floating_set_default();

    if (dtype == SYMMCOLL_FLOAT32)
        memcpy(to, from, count * sizeof(*from));
    for (size_t i = 0; dtype == SYMMCOLL_FLOAT16 && i < count; i++)
        narrow[i] = symc_float_to_half(from[i]);
    for (size_t i = 0; dtype == SYMMCOLL_BFLOAT16 && i < count; i++)
        narrow[i] = symc_float_to_bfloat16(from[i]);
    if (symmcoll_dtype_size(dtype) == 1) {
        for (size_t i = 0; i < count; i++)
            ((uint8_t *)to)[i] = symc_float_to_float8(dtype, from[i]);
    }
    symc_floating_restore(mode);
}

void symc_panel_scale(const struct symc_scaling *scaling, int64_t row,
    int64_t col, const struct symc_matrix *c)
{
    const float *factors = scaling->cols + col * scaling->col_step;
    const float *bias = scaling->bias != NULL ? scaling->bias + col : NULL;
    uint64_t mode = symc_floating_set_default();

    for (int64_t i = 0; i < c->rows; i++) {
        float factor = scaling->rows[(row + i) * scaling->row_step];
        float *at = (float *)c->data + i * c->row_stride;

        for (int64_t j = 0; j < c->cols; j++)
            at[j] = at[j] * factor * factors[j * scaling->col_step];
        for (int64_t j = 0; bias != NULL && j < c->cols; j++)
            at[j] += bias[j];
        for (int64_t j = 0; scaling->result != 1 && j < c->cols; j++)
            at[j] *= scaling->result;
    }
    symc_floating_restore(mode);
}

/* ---- scales of blocks ---- */

/* Returns the number of blocks of a row or column of scales, with the padding
 * of the last tile. */
static int64_t count_blocks(int64_t depth)
{
    int64_t blocks = depth / SYMC_BLOCK + (depth % SYMC_BLOCK != 0);

    return (blocks + TILE_BLOCKS - 1) / TILE_BLOCKS * TILE_BLOCKS;
}

int64_t symc_panel_blocks_nbytes(int64_t rows, int64_t depth)
{
    int64_t tiles = rows / SYMC_BLOCK_ROWS + (rows % SYMC_BLOCK_ROWS != 0);

    return tiles * SYMC_BLOCK_ROWS * count_blocks(depth);
}

/* Returns the place of a row's scale for a block, where rows have `blocks`
 * blocks. */
static int64_t place_of(int64_t row, int64_t block, int64_t blocks)
{
    int64_t tile =
        row / SYMC_BLOCK_ROWS * (blocks / TILE_BLOCKS) + block / TILE_BLOCKS;
    int64_t inside = row % SYMC_BLOCK_ROWS;

    return tile * SYMC_BLOCK_ROWS * TILE_BLOCKS + inside % 32 * 16 +
           inside / 32 * TILE_BLOCKS + block % TILE_BLOCKS;
}

/* Returns the scale of a row for a block. */
static float scale_at(
    const uint8_t *scales, int64_t row, int64_t block, int64_t blocks)
{
    return symc_float8_to_float(
        SYMMCOLL_FLOAT8_E8M0FNU, scales[place_of(row, block, blocks)]);
}

void symc_panel_scale_rows(const uint8_t *scales, int64_t row, int64_t rows,
    int64_t depth, float *panel)
{
    int64_t blocks = count_blocks(depth);

    for (int64_t i = 0; i < rows; i++, panel += depth) {
        for (int64_t first = 0; first < depth; first += SYMC_BLOCK) {
            int64_t end =
                depth - first < SYMC_BLOCK ? depth : first + SYMC_BLOCK;
            float scale = scale_at(scales, row + i, first / SYMC_BLOCK, blocks);

            for (int64_t k = first; k < end; k++)
                panel[k] *= scale;
        }
    }
}

void symc_panel_scale_columns(const uint8_t *scales, int64_t col, int64_t cols,
    int64_t depth, float *panel)
{
    int64_t blocks = count_blocks(depth);

    for (int64_t first = 0; first < depth; first += SYMC_BLOCK) {
        int64_t end = depth - first < SYMC_BLOCK ? depth : first + SYMC_BLOCK;

        for (int64_t j = 0; j < cols; j++) {
            float scale = scale_at(scales, col + j, first / SYMC_BLOCK, blocks);

            for (int64_t k = first; k < end; k++)
                panel[k * cols + j] *= scale;
        }
    }
}
