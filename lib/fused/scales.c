/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scales of products of 8-bit floats: their checks, and the conversion of all
 * factors to contiguous floats in the order of rows and columns.
 */
#include "base/tensor.h"
#include "fused/fused.h"

#include <string.h>

/* Defaults of members that a caller's shorter struct lacks: no bias, a
 * result_scale of 1, and results of float32. A matrix without b or b_scale is
 * refused. */
static const struct symmcoll_scaled_matrix no_matrix =
    SYMMCOLL_SCALED_MATRIX_INIT;
static const struct symc_sized scaled_matrix_kind = {.name = "scaled matrix",
    .macro = "SYMMCOLL_SCALED_MATRIX_INIT",
    .defaults = &no_matrix,
    .nbytes = sizeof(no_matrix),
    .least = sizeof(no_matrix.size)};

/* ---- reading ---- */

/* Reads a tensor of factors. It has no memory if the tensors of the call have
 * none, and is on the device of a if a is on one. */
static symmcoll_status_t read_factors(const char *where, const char *name,
    const struct symmcoll_tensor *given, const struct symmcoll_tensor *a,
    struct symmcoll_tensor *copy)
{
    bool on_device = a->device == SYMMCOLL_CUDA;
    symmcoll_status_t status;
    size_t count;

    if (given == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "%s: expected %s, found NULL", where, name);
    status = on_device ? symc_f_tensor_read_any(where, given, 0, copy, &count)
                       : symc_f_tensor_read(where, given, 0, copy, &count);
    if (status == SYMMCOLL_OK)
        status = symc_fused_check_elements(where, name, copy, count);
    if (status != SYMMCOLL_OK || a->device == SYMMCOLL_META)
        return status;
    if (on_device && copy->data == NULL && count > 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %s of %zu elements in device memory, found NULL",
            where, name, count);
    if (on_device)
        return symc_fused_check_beside(
            where, &(struct symc_fused_named){name, -1, copy}, a);
    if (copy->device != SYMMCOLL_HOST || (copy->data == NULL && count > 0))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %s of %zu elements in host memory, found %s", where,
            name, count, copy->device == SYMMCOLL_HOST ? "NULL" : "a shape");
    return SYMMCOLL_OK;
}

static symmcoll_status_t read_floats(const char *where, const char *name,
    const struct symmcoll_tensor *given, const struct symmcoll_tensor *a,
    struct symmcoll_tensor *copy)
{
    symmcoll_status_t status = read_factors(where, name, given, a, copy);

    if (status != SYMMCOLL_OK || copy->dtype == SYMMCOLL_FLOAT32)
        return status;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected %s of float32, found %s", where, name,
        symmcoll_dtype_name(copy->dtype));
}

/* Returns whether the scales have one factor per row of a tensor, with a last
 * dimension of 1. */
static bool has_rows_of(
    const struct symmcoll_tensor *scale, const struct symmcoll_tensor *a)
{
    int last = a->ndim - 1;

    return scale->ndim == a->ndim && scale->shape[last] == 1 &&
           memcmp(scale->shape, a->shape, (size_t)last * sizeof(*a->shape)) ==
               0;
}

static symmcoll_status_t refuse_shape(const char *where,
    const struct symmcoll_tensor *a, const struct symmcoll_tensor *whole,
    const struct symmcoll_tensor *found)
{
    char texts[3][SYMC_FUSED_SHAPE_TEXT];
    struct symmcoll_tensor rows = *a, all = whole != NULL ? *whole : *a;

    rows.shape[rows.ndim - 1] = all.shape[all.ndim - 1] = 1;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected a_scale of shape %s%s%s or of one element, found shape %s",
        where, symc_fused_format_shape(&rows, texts[0]),
        whole != NULL ? " or " : "",
        whole != NULL ? symc_fused_format_shape(&all, texts[1]) : "",
        symc_fused_format_shape(found, texts[2]));
}

/* ---- scales of blocks ---- */

bool symc_fused_has_blocks(const struct symmcoll_tensor *given)
{
    struct symmcoll_tensor copy;

    /* symc_fused_read_a_scale() refuses an invalid tensor. */
    return given != NULL &&
           symc_tensor_read("scale", given, 0, &copy) == SYMMCOLL_OK &&
           copy.dtype == SYMMCOLL_FLOAT8_E8M0FNU;
}

/* Reads scales of blocks: one per 32 elements of a row or column. The caller
 * has padded the last tile. */
static symmcoll_status_t read_blocks(const char *where, const char *name,
    const struct symmcoll_tensor *given, const struct symmcoll_tensor *a,
    int64_t rows, struct symmcoll_tensor *copy)
{
    int64_t wanted = symc_panel_blocks_nbytes(rows, a->shape[a->ndim - 1]);
    symmcoll_status_t status = read_factors(where, name, given, a, copy);
    char text[SYMC_FUSED_SHAPE_TEXT];

    if (status != SYMMCOLL_OK)
        return status;
    if (copy->dtype != SYMMCOLL_FLOAT8_E8M0FNU)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %s of float8_e8m0fnu as a_scale is, found %s", where,
            name, symmcoll_dtype_name(copy->dtype));
    if (copy->ndim == 1 && copy->shape[0] == wanted)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected %s of shape [%lld], in tiles of 128 by 4, found shape %s",
        where, name, (long long)wanted, symc_fused_format_shape(copy, text));
}

/* Reads the scales of blocks of A. The ranks' tiles are those of the gathered A
 * only if no rank has padded one. */
static symmcoll_status_t read_a_blocks(const char *where,
    const struct symmcoll_tensor *given, const struct symmcoll_tensor *a,
    int dim, struct symc_fused_scale *scale)
{
    int64_t rows = symc_fused_count(a, a->ndim - 1);

    scale->mode = SYMC_FUSED_SCALE_BLOCKS;
    if (dim != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected gather_dim 0, since a_scale is of blocks, found %d",
            where, dim);
    if (rows % SYMC_BLOCK_ROWS != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a multiple of %d rows, since a_scale is of blocks, "
            "found %lld",
            where, SYMC_BLOCK_ROWS, (long long)rows);
    return read_blocks(where, "a_scale", given, a, rows, &scale->tensor);
}

/* ---- reading the scales of A and of a matrix ---- */

symmcoll_status_t symc_fused_read_a_scale(const char *where,
    const struct symmcoll_tensor *given, const struct symmcoll_tensor *a,
    const struct symmcoll_tensor *whole, int dim,
    struct symc_fused_scale *scale)
{
    symmcoll_status_t status;

    if (whole != NULL && symc_fused_has_blocks(given))
        return read_a_blocks(where, given, a, dim, scale);
    status = read_floats(where, "a_scale", given, a, &scale->tensor);
    if (status != SYMMCOLL_OK)
        return status;
    if (has_rows_of(&scale->tensor, a))
        scale->mode = SYMC_FUSED_SCALE_ROWS;
    else if (symc_fused_count(&scale->tensor, scale->tensor.ndim) == 1)
        scale->mode = SYMC_FUSED_SCALE_ONE;
    else if (whole != NULL && has_rows_of(&scale->tensor, whole))
        scale->mode = SYMC_FUSED_SCALE_ALL_ROWS;
    else
        return refuse_shape(where, a, whole, &scale->tensor);
    return SYMMCOLL_OK;
}

static symmcoll_status_t read_b_scale(const char *where,
    const struct symmcoll_tensor *given, const struct symmcoll_tensor *a,
    int64_t columns, struct symc_fused_scaled *scaled)
{
    struct symmcoll_tensor *cols = &scaled->cols;
    char text[SYMC_FUSED_SHAPE_TEXT];
    symmcoll_status_t status = read_floats(where, "b_scale", given, a, cols);

    if (status != SYMMCOLL_OK)
        return status;
    scaled->by_column =
        cols->ndim == 2 && cols->shape[0] == 1 && cols->shape[1] == columns;
    if (scaled->by_column || symc_fused_count(cols, cols->ndim) == 1)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected b_scale of shape [1, %lld] or of one element, found shape "
        "%s",
        where, (long long)columns, symc_fused_format_shape(cols, text));
}

static symmcoll_status_t read_bias(const char *where,
    const struct symmcoll_tensor *given, const struct symmcoll_tensor *a,
    int64_t columns, struct symc_fused_scaled *scaled)
{
    struct symmcoll_tensor *bias = &scaled->bias;
    char text[SYMC_FUSED_SHAPE_TEXT];
    symmcoll_status_t status;

    scaled->biased = given != NULL;
    if (given == NULL)
        return SYMMCOLL_OK;
    status = read_factors(where, "bias", given, a, bias);
    if (status != SYMMCOLL_OK)
        return status;
    if (bias->dtype != SYMMCOLL_FLOAT32 && bias->dtype != SYMMCOLL_FLOAT16 &&
        bias->dtype != SYMMCOLL_BFLOAT16)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected bias of float32, float16 or bfloat16, found %s",
            where, symmcoll_dtype_name(bias->dtype));
    if (bias->ndim == 1 && bias->shape[0] == columns)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected bias of shape [%lld], found shape %s", where,
        (long long)columns, symc_fused_format_shape(bias, text));
}

static symmcoll_status_t read_result_scale(const char *where,
    const struct symmcoll_tensor *given, const struct symmcoll_tensor *a,
    struct symc_fused_scaled *scaled)
{
    struct symmcoll_tensor scale;
    char text[SYMC_FUSED_SHAPE_TEXT];
    symmcoll_status_t status;

    scaled->factored = given != NULL;
    scaled->factor = 1;
    if (given == NULL)
        return SYMMCOLL_OK;
    status = read_floats(where, "result_scale", given, a, &scale);
    if (status != SYMMCOLL_OK)
        return status;
    if (symc_fused_count(&scale, scale.ndim) != 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected result_scale of one element, found shape %s", where,
            symc_fused_format_shape(&scale, text));
    if (a->device == SYMMCOLL_HOST)
        memcpy(&scaled->factor, scale.data, sizeof(scaled->factor));
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_fused_read_scaled(const char *where,
    const struct symmcoll_scaled_matrix *bs, int index, bool blocks,
    const struct symmcoll_tensor *a, int64_t depth, struct symmcoll_tensor *b,
    struct symc_fused_scaled *scaled)
{
    struct symmcoll_scaled_matrix matrix;
    enum symmcoll_dtype to;
    symmcoll_status_t status;
    int64_t columns;

    if (bs == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "%s: expected b, found NULL", where);
    status = symc_sized_read_at(
        &scaled_matrix_kind, where, bs, (size_t)index, &matrix);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_fused_read_b(where, matrix.b, 0, index, a, depth, b);
    if (status != SYMMCOLL_OK)
        return status;
    columns = b->shape[1];
    scaled->by_block = blocks;
    status = blocks ? read_blocks(where, "b_scale", matrix.b_scale, a, columns,
                          &scaled->cols)
                    : read_b_scale(where, matrix.b_scale, a, columns, scaled);
    if (status != SYMMCOLL_OK)
        return status;
    status = read_bias(where, matrix.bias, a, columns, scaled);
    if (status != SYMMCOLL_OK)
        return status;
    status = read_result_scale(where, matrix.result_scale, a, scaled);
    if (status != SYMMCOLL_OK)
        return status;
    scaled->out_dtype = to = matrix.out_dtype;
    if (to == SYMMCOLL_FLOAT32 || to == SYMMCOLL_FLOAT16 ||
        to == SYMMCOLL_BFLOAT16 || symc_matmul_has_scaled(to))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
        "%s: expected out_dtype float32, float16, bfloat16 or an 8-bit float "
        "with a sign, found %d",
        where, (int)to);
}

/* ---- factors as floats ---- */

bool symc_fused_count_factors(
    const struct symc_fused_scaled *scaled, int64_t columns, size_t *count)
{
    size_t cols = scaled->by_block
                      ? (size_t)scaled->cols.shape[0] / sizeof(float)
                  : scaled->by_column ? (size_t)columns
                                      : 1;

    return symc_add(*count, cols, count) &&
           symc_add(*count, scaled->biased ? (size_t)columns : 0, count);
}

float *symc_fused_place_factors(
    struct symc_fused_scaled *scaled, int64_t columns, float *at)
{
    static const float one = 1;
    struct symc_f_view view = symc_f_view_of(&scaled->cols);
    const struct symmcoll_tensor *bias = &scaled->bias;

    symc_f_view_copy(
        &view, scaled->cols.data, at, symmcoll_dtype_size(scaled->cols.dtype));
    scaled->scaling = (struct symc_scaling){
        .cols = at, .col_step = scaled->by_column, .result = scaled->factor};
    if (scaled->by_block) {
        scaled->scaling.cols = scaled->scaling.rows = &one;
        scaled->scaling.b_blocks = (const uint8_t *)at;
        at += scaled->cols.shape[0] / (int64_t)sizeof(*at);
    } else {
        at += scaled->by_column ? columns : 1;
    }
    if (!scaled->biased)
        return at;
    if (bias->dtype == SYMMCOLL_FLOAT32) {
        view = symc_f_view_of(bias);
        symc_f_view_copy(&view, bias->data, at, sizeof(*at));
    } else {
        struct symc_matrix row = {
            bias->data, bias->dtype, 1, columns, columns, bias->strides[0]};

        symc_panel_widen(&row, 0, 0, 1, columns, at);
    }
    scaled->scaling.bias = at;
    return at + columns;
}

void symc_fused_place_rows(
    const struct symc_fused_scale *scale, int dim, void *to)
{
    struct symc_f_view view = scale->mode == SYMC_FUSED_SCALE_ONE
                                  ? symc_f_view_of(&scale->tensor)
                                  : symc_fused_view_first(&scale->tensor, dim);

    symc_f_view_copy(&view, scale->tensor.data, to,
        symmcoll_dtype_size(scale->tensor.dtype));
}
