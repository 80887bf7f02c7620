/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products of 8-bit floats on a device, as cuBLASLt supports them: in each
 * matrix the depth is contiguous, in lines of 16 bytes; scales are in device
 * memory, either one per matrix, or one per row of A and one per column of b.
 */
#include "fused/device_scaled.h"

#include "group/site.h"

/* ---- unsupported forms ---- */

/* Returns whether cuBLASLt multiplies a type of 8-bit floats. */
static bool is_multiplied(enum symmcoll_dtype dtype)
{
    return dtype == SYMMCOLL_FLOAT8_E4M3FN || dtype == SYMMCOLL_FLOAT8_E5M2;
}

static symmcoll_status_t refuse(
    const char *name, const char *expected, const char *found)
{
    return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
        "%s: expected %s in device memory, found %s", name, expected, found);
}

symmcoll_status_t symc_fused_check_eighths(const struct symc_fused_eighths *it)
{
    if (!is_multiplied(it->a->dtype))
        return refuse(it->name, "a of float8_e4m3fn or float8_e5m2",
            symmcoll_dtype_name(it->a->dtype));
    if (it->a_scale->mode == SYMC_FUSED_SCALE_BLOCKS)
        return refuse(it->name, "scales of matrices, rows or columns",
            "scales of blocks");
    return symc_fused_check_tensor(it->name, it->fused,
        &(struct symc_fused_named){"a_scale", -1, &it->a_scale->tensor});
}

static symmcoll_status_t check_length(
    const char *name, int index, const char *what, int64_t length)
{
    if (length % SYMC_FUSED_LINE == 0)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
        "%s: b %d: expected a multiple of %d %s in device memory, found %lld",
        name, index, SYMC_FUSED_LINE, what, (long long)length);
}

/* Refuses a bias, a result_scale, and results of 8 bits. */
static symmcoll_status_t check_result(
    const struct symc_fused_eighths *it, const struct symc_fused_scaled *scaled)
{
    if (scaled->biased)
        return refuse(it->name, "no bias", "one");
    if (scaled->factored)
        return refuse(it->name, "no result_scale", "one");
    if (symmcoll_dtype_size(scaled->out_dtype) == 1)
        return refuse(it->name, "out_dtype float32, float16 or bfloat16",
            symmcoll_dtype_name(scaled->out_dtype));
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_fused_check_eighths_b(
    const struct symc_fused_eighths *it, int index,
    const struct symmcoll_tensor *b, const struct symc_fused_scaled *scaled,
    int64_t columns)
{
    const struct symc_fused_named named = {"b_scale", index, &scaled->cols};
    symmcoll_status_t status = check_result(it, scaled);

    if (status != SYMMCOLL_OK)
        return status;
    if (!is_multiplied(b->dtype))
        return refuse(it->name, "matrices of float8_e4m3fn or float8_e5m2",
            symmcoll_dtype_name(b->dtype));
    if (it->a->dtype == SYMMCOLL_FLOAT8_E5M2 && b->dtype == it->a->dtype)
        return refuse(
            it->name, "a or b of float8_e4m3fn", "both of float8_e5m2");
    status = check_length(it->name, index, "rows", b->shape[0]);
    if (status == SYMMCOLL_OK)
        status = check_length(it->name, index, "columns of a part", columns);
    return status == SYMMCOLL_OK
               ? symc_fused_check_tensor(it->name, it->fused, &named)
               : status;
}

symmcoll_status_t symc_fused_check_line(
    const char *name, const char *result, const void *at)
{
    if (symc_fused_is_at_line(at))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
        "%s: expected %s at a multiple of %d bytes, found %p", name, result,
        SYMC_FUSED_LINE, at);
}

bool symc_fused_is_at_line(const void *at)
{
    return (uintptr_t)at % SYMC_FUSED_LINE == 0;
}

/* ---- matrices ---- */

bool symc_fused_device_columns(
    const struct symmcoll_tensor *b, struct symc_product_matrix *matrix)
{
    int64_t rows = b->shape[0], cols = b->shape[1];

    if (symc_fused_device_matrix(b, matrix) && matrix->by_columns &&
        matrix->alignment >= SYMC_FUSED_LINE)
        return true;
    *matrix = symc_fused_device_rows(b->dtype, cols, rows, 0);
    matrix->rows = rows;
    matrix->cols = cols;
    matrix->by_columns = true;
    return false;
}

struct symc_f_view symc_fused_view_columns(const struct symmcoll_tensor *b)
{
    return symc_fused_view_first(b, 1);
}

/* ---- scales ---- */

size_t symc_fused_scales_pitch(int64_t rows)
{
    size_t nbytes = (size_t)rows * sizeof(float) + SYMC_FUSED_ALIGN - 1;

    return nbytes / SYMC_FUSED_ALIGN * SYMC_FUSED_ALIGN;
}

/* Each copy doubles what has been written, so that few copies are needed. */
void symc_fused_spread_scale(
    const struct symc_moving *moving, const void *from, int64_t count, char *to)
{
    size_t all = (size_t)count * sizeof(float), done = sizeof(float);

    if (count == 0)
        return;
    moving->enqueue->copy(moving->state, to, from, done);
    while (done < all) {
        size_t nbytes = done < all - done ? done : all - done;

        moving->enqueue->copy(moving->state, to + done, to, nbytes);
        done += nbytes;
    }
}

void symc_fused_copy_scales(const struct symc_moving *moving, const void *from,
    const struct symc_f_view *view, char *to)
{
    const struct symc_strided copy = {.out = to,
        .in = from,
        .elem = sizeof(float),
        .ndim = view->ndim,
        .shape = view->shape,
        .strides = view->strides};

    moving->enqueue->strided(moving->state, &copy);
}

void symc_fused_copy_scales_apart(const struct symc_moving *moving,
    const void *from, const struct symc_f_view *view, int dim, int parts,
    size_t pitch, char *to)
{
    struct symc_f_view part = *view;
    int64_t step;

    part.shape[dim] /= parts;
    step = part.shape[dim] * part.strides[dim] * (int64_t)sizeof(float);
    for (int i = 0; i < parts; i++)
        symc_fused_copy_scales(moving, (const char *)from + i * step, &part,
            to + (size_t)i * pitch);
}

void symc_fused_copy_b_scales(const struct symc_moving *moving,
    const struct symc_fused_scaled *scaled, int64_t count, char *to)
{
    struct symc_f_view view = symc_f_view_of(&scaled->cols);

    if (scaled->by_column)
        symc_fused_copy_scales(moving, scaled->cols.data, &view, to);
    else
        symc_fused_spread_scale(moving, scaled->cols.data, count, to);
}
