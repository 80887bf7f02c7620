/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Elements in another order. Dividing or joining tensors along a dimension is
 * one copy, in runs as long as the order allows.
 */
#include "base/dtype.h"
#include "functional/functional.h"

#include <string.h>

struct symc_f_view symc_f_view_of(const struct symmcoll_tensor *tensor)
{
    struct symc_f_view view = {.ndim = tensor->ndim};

    for (int d = 0; d < tensor->ndim; d++) {
        view.shape[d] = tensor->shape[d];
        view.strides[d] = tensor->strides[d];
    }
    return view;
}

struct symc_f_view symc_f_view_cut(
    const struct symc_f_view *view, int dim, int parts)
{
    struct symc_f_view cut = {.ndim = view->ndim + 1};
    int64_t length = view->shape[dim] / parts;

    cut.shape[0] = parts;
    cut.strides[0] = view->strides[dim] * length;
    for (int d = 0; d < view->ndim; d++) {
        cut.shape[d + 1] = d == dim ? length : view->shape[d];
        cut.strides[d + 1] = view->strides[d];
    }
    return cut;
}

struct symc_f_view symc_f_view_join(
    const struct symmcoll_tensor *part, int dim, int parts)
{
    struct symc_f_view join = {.ndim = part->ndim + 1};
    int64_t stride = 1;

    for (int d = part->ndim - 1; d >= 0; d--) {
        int at = d < dim ? d : d + 1;

        join.shape[at] = part->shape[d];
        join.strides[at] = stride;
        stride *= part->shape[d];
    }
    join.shape[dim] = parts;
    join.strides[dim] = stride;
    return join;
}

bool symc_f_view_is_contiguous(const struct symc_f_view *view)
{
    int64_t stride = 1;
    bool contiguous = true;

    for (int d = view->ndim - 1; d >= 0; d--) {
        if (view->shape[d] == 0)
            return true;
        contiguous =
            contiguous && (view->shape[d] == 1 || view->strides[d] == stride);
        stride *= view->shape[d];
    }
    return contiguous;
}

/* Finds the trailing dimensions that are one run of elements in memory. Returns
 * the number of leading dimensions that are not in it. */
static int find_run(const struct symc_f_view *view, size_t *run)
{
    int d = view->ndim;

    *run = 1;
    while (d > 0 &&
           (view->shape[d - 1] == 1 || view->strides[d - 1] == (int64_t)*run)) {
        d--;
        *run *= (size_t)view->shape[d];
    }
    return d;
}

void symc_f_view_copy(
    const struct symc_f_view *view, const void *from, void *to, size_t elem)
{
    int64_t index[SYMC_F_DIMS] = {0};
    const char *source = from;
    char *target = to;
    size_t run;
    int outer, d;

    for (d = 0; d < view->ndim; d++) {
        if (view->shape[d] == 0)
            return;
    }
    outer = find_run(view, &run);
    do {
        memcpy(target, source, run * elem);
        target += run * elem;
        for (d = outer - 1; d >= 0; d--) {
            if (++index[d] < view->shape[d]) {
                source += view->strides[d] * (int64_t)elem;
                break;
            }
            source -= view->strides[d] * (view->shape[d] - 1) * (int64_t)elem;
            index[d] = 0;
        }
    } while (d >= 0);
}

void symc_f_make_contiguous(struct symmcoll_tensor *tensor)
{
    int64_t stride = 1;

    for (int d = tensor->ndim - 1; d >= 0; d--) {
        tensor->strides[d] = stride;
        stride *= tensor->shape[d] > 0 ? tensor->shape[d] : 1;
    }
}

static symmcoll_status_t count_elements(const char *where,
    const struct symmcoll_tensor *tensor, size_t elem, size_t *count)
{
    size_t nbytes;

    *count = 1;
    for (int d = 0; d < tensor->ndim; d++) {
        if (tensor->shape[d] < 0)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "%s: dimension %d: expected a length of 0 or more, found %lld",
                where, d, (long long)tensor->shape[d]);
        if (!symc_multiply(*count, (size_t)tensor->shape[d], count))
            *count = SIZE_MAX;
    }
    if (!symc_multiply(*count, elem, &nbytes) || nbytes > PTRDIFF_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a tensor of at most %td bytes, found more", where,
            PTRDIFF_MAX);
    return SYMMCOLL_OK;
}

/* Checks that all elements have addresses. The strides of a tensor without
 * elements become 0, so that nothing overflows. */
static symmcoll_status_t check_strides(
    const char *where, struct symmcoll_tensor *tensor, size_t count)
{
    int64_t before, after;

    if (count == 0)
        memset(tensor->strides, 0, sizeof(tensor->strides));
    if (symc_tensor_measure(tensor, &before, &after))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected strides that memory has room for, found elements further "
        "apart",
        where);
}

symmcoll_status_t symc_f_tensor_read_any(const char *where,
    const struct symmcoll_tensor *tensors, int index,
    struct symmcoll_tensor *copy, size_t *count)
{
    symmcoll_status_t status =
        symc_tensor_read(where, tensors, (size_t)index, copy);
    size_t elem;

    if (status != SYMMCOLL_OK)
        return status;
    elem = symmcoll_dtype_size(copy->dtype);
    if (elem == 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected an element type of 0 to %d, found %d", where,
            SYMMCOLL_DTYPE_COUNT - 1, (int)copy->dtype);
    if (copy->ndim < 0 || copy->ndim > SYMMCOLL_MAX_DIMS)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected 0 to %d dimensions, found %d", where,
            SYMMCOLL_MAX_DIMS, copy->ndim);
    if (copy->device != SYMMCOLL_HOST && copy->device != SYMMCOLL_CUDA &&
        copy->device != SYMMCOLL_META)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: expected a tensor in memory of the host (%d) or of a CUDA "
            "device (%d), found device %d",
            where, (int)SYMMCOLL_HOST, (int)SYMMCOLL_CUDA, (int)copy->device);
    if (copy->device == SYMMCOLL_CUDA &&
        (copy->device_index < 0 || copy->device_index > INT16_MAX))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a device_index of 0 or more, found %d", where,
            copy->device_index);
    status = count_elements(where, copy, elem, count);
    return status == SYMMCOLL_OK ? check_strides(where, copy, *count) : status;
}

symmcoll_status_t symc_f_tensor_read(const char *where,
    const struct symmcoll_tensor *tensors, int index,
    struct symmcoll_tensor *copy, size_t *count)
{
    symmcoll_status_t status =
        symc_f_tensor_read_any(where, tensors, index, copy, count);

    if (status != SYMMCOLL_OK || copy->device != SYMMCOLL_CUDA)
        return status;
    return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
        "%s: expected a tensor in host memory, found device %d", where,
        (int)copy->device);
}
