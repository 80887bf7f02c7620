/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Layouts: one dimension first in memory, whatever the order of the dimensions.
 */
#include "base/tensor.h"
#include "fused/fused.h"
#include "run/slot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FEW_ROWS 16 /* a product of fewer rows is not worth a call */

struct symc_f_view symc_fused_view_first(
    const struct symmcoll_tensor *tensor, int dim)
{
    struct symc_f_view view = {.ndim = tensor->ndim};
    int at = 1;

    view.shape[0] = tensor->shape[dim];
    view.strides[0] = tensor->strides[dim];
    for (int d = 0; d < tensor->ndim; d++) {
        if (d == dim)
            continue;
        view.shape[at] = tensor->shape[d];
        view.strides[at++] = tensor->strides[d];
    }
    return view;
}

void symc_fused_stride_first(struct symmcoll_tensor *tensor, int dim)
{
    int64_t stride = 1;

    for (int d = tensor->ndim - 1; d >= 0; d--) {
        if (d == dim)
            continue;
        tensor->strides[d] = stride;
        stride *= tensor->shape[d] > 0 ? tensor->shape[d] : 1;
    }
    tensor->strides[dim] = stride;
}

int64_t symc_fused_count(const struct symmcoll_tensor *tensor, int ndim)
{
    int64_t count = 1;

    for (int d = 0; d < ndim; d++)
        count *= tensor->shape[d];
    return count;
}

struct symc_matrix symc_fused_matrix(const struct symmcoll_tensor *tensor)
{
    return (struct symc_matrix){tensor->data, tensor->dtype, tensor->shape[0],
        tensor->shape[1], tensor->strides[0], tensor->strides[1]};
}

/* ---- results ---- */

static const char *format_numbers(
    const int64_t *numbers, int count, char *buffer, size_t nbytes)
{
    size_t used = (size_t)snprintf(buffer, nbytes, "[");

    for (int d = 0; d < count && used < nbytes; d++)
        used += (size_t)snprintf(buffer + used, nbytes - used, "%s%lld",
            d > 0 ? ", " : "", (long long)numbers[d]);
    if (used < nbytes)
        snprintf(buffer + used, nbytes - used, "]");
    return buffer;
}

const char *symc_fused_format_shape(
    const struct symmcoll_tensor *tensor, char text[SYMC_FUSED_SHAPE_TEXT])
{
    return format_numbers(
        tensor->shape, tensor->ndim, text, SYMC_FUSED_SHAPE_TEXT);
}

/* Returns whether the strides that matter equal those wanted. */
static bool has_strides(
    const struct symmcoll_tensor *tensor, const struct symmcoll_tensor *wanted)
{
    if (symc_fused_count(wanted, wanted->ndim) == 0)
        return true;
    for (int d = 0; d < wanted->ndim; d++) {
        if (wanted->shape[d] > 1 && tensor->strides[d] != wanted->strides[d])
            return false;
    }
    return true;
}

/* Checks that the caller's memory for a result has its place, type, shape and
 * strides. */
static symmcoll_status_t check_place(const char *where, const char *name,
    const struct symmcoll_tensor *place, const struct symmcoll_tensor *result)
{
    const struct symc_fused_named named = {name, -1, place};
    char expected[2][96], found[2][96];
    symmcoll_status_t status = symc_fused_check_beside(where, &named, result);

    if (status != SYMMCOLL_OK)
        return status;
    if (place->dtype == result->dtype && place->ndim == result->ndim &&
        memcmp(place->shape, result->shape,
            (size_t)result->ndim * sizeof(*result->shape)) == 0 &&
        has_strides(place, result))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected %s of shape %s and strides %s of %s, found shape %s and "
        "strides %s of %s",
        where, name,
        format_numbers(result->shape, result->ndim, expected[0], 96),
        format_numbers(result->strides, result->ndim, expected[1], 96),
        symmcoll_dtype_name(result->dtype),
        format_numbers(place->shape, place->ndim, found[0], 96),
        format_numbers(place->strides, place->ndim, found[1], 96),
        symmcoll_dtype_name(place->dtype));
}

symmcoll_status_t symc_fused_result_make(const char *where, const char *name,
    const struct symmcoll_tensor *place, struct symc_fused_result *result)
{
    struct symmcoll_tensor *tensor = &result->tensor, read;
    const struct symc_fused_named named = {name, -1, tensor};
    size_t count;
    symmcoll_status_t status =
        symc_f_tensor_read_any(where, tensor, 0, &read, &count);

    if (status != SYMMCOLL_OK)
        return status;
    if (tensor->device == SYMMCOLL_META) {
        tensor->data = NULL;
        return status;
    }
    tensor->data = place->data;
    if (place->data != NULL) {
        status = check_place(where, name, place, tensor);
        return status == SYMMCOLL_OK && result->fused != NULL
                   ? symc_fused_check_tensor(where, result->fused, &named)
                   : status;
    }
    status = symc_site_alloc(where, result->site, count,
        symmcoll_dtype_size(tensor->dtype), &tensor->data);
    if (status == SYMMCOLL_OK && result->site != NULL) {
        status = symc_f_own(
            symc_group_world(result->fused->group), tensor->data, result->site);
        if (status != SYMMCOLL_OK)
            symc_site_release(result->site, tensor->data);
    }
    result->made = status == SYMMCOLL_OK;
    return status;
}

void symc_fused_result_release(struct symc_fused_result *result)
{
    /* An aborted operation may still write to the memory, and the program need
     * not keep the stream of a failed call: the memory is released when the
     * world ends. */
    if (result->made && result->site != NULL &&
        symc_slot_owned(
            symc_group_runner(result->fused->group), SYMC_MEMORY_DEVICE) > 0) {
        symc_f_leave(
            symc_group_world(result->fused->group), result->tensor.data);
        result->made = false;
    }
    if (result->made && result->site != NULL)
        symc_f_disown(
            symc_group_world(result->fused->group), result->tensor.data);
    else if (result->made)
        free(result->tensor.data);
    result->made = false;
}

/* ---- products of tensors ---- */

/* The leading dimensions of a tensor, merged where rows of two dimensions are
 * equally spaced. */
struct rows {
    int ndim;
    int64_t shape[SYMMCOLL_MAX_DIMS];
    int64_t strides[SYMMCOLL_MAX_DIMS];
};

/* Merges the leading dimensions of a tensor. */
static struct rows merge_rows(const struct symmcoll_tensor *a)
{
    struct rows rows = {.ndim = 0};

    for (int d = 0; d < a->ndim - 1; d++) {
        int last = rows.ndim - 1;

        if (a->shape[d] == 1)
            continue;
        if (last >= 0 && rows.strides[last] == a->strides[d] * a->shape[d]) {
            rows.shape[last] *= a->shape[d];
            rows.strides[last] = a->strides[d];
            continue;
        }
        rows.shape[rows.ndim] = a->shape[d];
        rows.strides[rows.ndim++] = a->strides[d];
    }
    if (rows.ndim == 0) {
        rows.ndim = 1;
        rows.shape[0] = 1;
        rows.strides[0] = a->shape[a->ndim - 1];
    }
    return rows;
}

/* Returns the longest dimension. */
static int longest(const struct rows *rows)
{
    int dim = rows->ndim - 1;

    for (int d = rows->ndim - 2; d >= 0; d--)
        dim = rows->shape[d] > rows->shape[dim] ? d : dim;
    return dim;
}

/* A loop over the other dimensions, with one product for each index. */
struct loop {
    struct symc_fused *fused;
    const struct rows *rows;
    int dim; /* the dimension that provides the rows of a product */
    struct symc_matrix a, c;
    const struct symc_matrix *b;
};

/* Multiplies for each index of the dimensions from d on. */
static symmcoll_status_t multiply_each(
    const struct loop *loop, int d, int64_t a_at, int64_t c_at)
{
    int64_t inner = loop->c.cols;
    symmcoll_status_t status = SYMMCOLL_OK;

    if (d == loop->rows->ndim) {
        struct symc_matrix a = loop->a, c = loop->c;

        a.data = (char *)a.data + a_at * (int64_t)symmcoll_dtype_size(a.dtype);
        c.data = (char *)c.data + c_at * (int64_t)symmcoll_dtype_size(c.dtype);
        return symc_matmul(&loop->fused->matmul, &a, loop->b, &c, false);
    }
    for (int i = d + 1; i < loop->rows->ndim; i++)
        inner *= loop->rows->shape[i];
    if (d == loop->dim)
        return multiply_each(loop, d + 1, a_at, c_at);
    for (int64_t i = 0; i < loop->rows->shape[d] && status == SYMMCOLL_OK; i++)
        status = multiply_each(
            loop, d + 1, a_at + i * loop->rows->strides[d], c_at + i * inner);
    return status;
}

symmcoll_status_t symc_fused_multiply(struct symc_fused *fused,
    const struct symmcoll_tensor *a, const struct symc_matrix *b, void *c,
    enum symmcoll_dtype c_dtype)
{
    struct symmcoll_tensor from = *a;
    struct rows rows = merge_rows(a);
    int64_t count = symc_fused_count(a, a->ndim - 1), inner = b->cols;
    int64_t depth = a->shape[a->ndim - 1];
    int dim = longest(&rows);
    struct loop loop = {.fused = fused, .rows = &rows, .b = b};

    if (count == 0)
        return SYMMCOLL_OK;
    if (rows.ndim > 1 && rows.shape[dim] < FEW_ROWS) {
        struct symc_f_view view = symc_f_view_of(a);
        size_t elem = symmcoll_dtype_size(a->dtype);

        from.data = symc_fused_take(
            fused, SYMC_FUSED_PACKED, (size_t)(count * depth) * elem);
        if (from.data == NULL)
            return SYMMCOLL_ERR_NO_MEMORY;
        symc_f_view_copy(&view, a->data, from.data, elem);
        symc_f_make_contiguous(&from);
        rows = merge_rows(&from);
        dim = longest(&rows);
    }
    for (int d = dim + 1; d < rows.ndim; d++)
        inner *= rows.shape[d];
    loop.dim = dim;
    loop.a = (struct symc_matrix){from.data, a->dtype, rows.shape[dim], depth,
        rows.strides[dim], from.strides[a->ndim - 1]};
    loop.c =
        (struct symc_matrix){c, c_dtype, rows.shape[dim], b->cols, inner, 1};
    return multiply_each(&loop, 0, 0, 0);
}

/* ---- restrided copies ---- */

static symmcoll_status_t restride(const char *where,
    const struct symmcoll_tensor *in, int dim, struct symmcoll_tensor *out)
{
    struct symmcoll_tensor read, place;
    struct symc_fused_result result = {.made = false};
    struct symc_f_view view;
    size_t count;
    symmcoll_status_t status;

    if (in == NULL || out == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a tensor and a place for the result, found NULL",
            where);
    status = symc_f_tensor_read(where, in, 0, &read, &count);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_tensor_read(where, out, 0, &place);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_fused_check_dim(where, &read, dim);
    if (status != SYMMCOLL_OK)
        return status;
    if (read.device == SYMMCOLL_HOST && read.data == NULL && count > 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %zu elements, found NULL", where, count);
    result.tensor = read;
    status = symc_fused_check_lengths(where, "in", &read);
    if (status != SYMMCOLL_OK)
        return status;
    symc_fused_stride_first(&result.tensor, dim);
    status = symc_fused_result_make(where, "out", &place, &result);
    if (status != SYMMCOLL_OK)
        return status;
    view = symc_fused_view_first(&read, dim);
    if (read.device == SYMMCOLL_HOST)
        symc_f_view_copy(&view, read.data, result.tensor.data,
            symmcoll_dtype_size(read.dtype));
    return symc_sized_write(&symc_tensor_kind, where, &result.tensor, out);
}

symmcoll_status_t symmcoll_fused_restride_a_shard(
    const struct symmcoll_tensor *in, int gather_dim,
    struct symmcoll_tensor *out)
{
    return restride("fused_restride_a_shard", in, gather_dim, out);
}

symmcoll_status_t symmcoll_fused_restride_a(const struct symmcoll_tensor *in,
    int scatter_dim, struct symmcoll_tensor *out)
{
    return restride("fused_restride_a", in, scatter_dim, out);
}
