/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the tensors of parameters, and copies between strided memory and a
 * row-major array.
 */
#include "base/dtype.h"
#include "base/tensor.h"
#include "ddp/reducer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *symc_format_dims(const int64_t *dims, int ndim, char *buffer)
{
    size_t used = 0;

    buffer[used++] = '[';
    for (int i = 0; i < ndim; i++)
        used += (size_t)snprintf(buffer + used, SYMC_SHAPE_TEXT - used,
            "%s%lld", i > 0 ? ", " : "", (long long)dims[i]);
    snprintf(buffer + used, SYMC_SHAPE_TEXT - used, "]");
    return buffer;
}

/* A complex number is aligned like one of its two floats. */
size_t symc_param_align(const struct symc_param *param)
{
    enum symmcoll_dtype dtype = param->tensor.dtype;
    size_t elem = symmcoll_dtype_size(dtype);

    return dtype == SYMMCOLL_COMPLEX64 || dtype == SYMMCOLL_COMPLEX128
               ? elem / 2
               : elem;
}

/* Computes the parameter's extent, and whether it is dense.  Returns false if
 * two elements may share memory.  In the order of strides, each dimension must
 * step over all that the smaller ones span; if each steps over exactly that,
 * the parameter is dense. */
static bool measure_extent(struct symc_param *param, int64_t elem)
{
    const struct symmcoll_tensor *tensor = &param->tensor;
    int64_t span = 1, more;
    int order[SYMMCOLL_MAX_DIMS], count = symc_tensor_order(tensor, order);

    param->dense = true;
    for (int n = 0; n < count; n++) {
        int64_t stride = tensor->strides[order[n]];

        if (stride < span)
            return false;
        param->dense = param->dense && stride == span;
        if (__builtin_mul_overflow(
                stride, tensor->shape[order[n]] - 1, &more) ||
            __builtin_add_overflow(span, more, &span) ||
            span > PTRDIFF_MAX / elem) /* the address space is smaller */
            return false;
    }
    param->extent = (size_t)(span * elem);
    return true;
}

static symmcoll_status_t check_shape(
    struct symc_param *param, const char *text, size_t elem)
{
    const struct symmcoll_tensor *tensor = &param->tensor;
    char dims[SYMC_SHAPE_TEXT], strides[SYMC_SHAPE_TEXT];

    if (tensor->ndim < 0 || tensor->ndim > SYMMCOLL_MAX_DIMS)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer: %s: expected 0 to %d dimensions, found %d", text,
            SYMMCOLL_MAX_DIMS, tensor->ndim);
    symc_format_dims(tensor->shape, tensor->ndim, dims);
    param->count = 1;
    for (int d = 0; d < tensor->ndim; d++)
        if (tensor->shape[d] < 0 ||
            !symc_multiply(
                param->count, (size_t)tensor->shape[d], &param->count))
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "reducer: %s: shape %s has no size", text, dims);
    param->grad_dtype = tensor->dtype;
    if (!symc_multiply(param->count, elem, &param->nbytes) ||
        param->nbytes > SIZE_MAX / 2)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer: %s: shape %s has no size", text, dims);
    param->grad_nbytes = param->nbytes;
    param->dense = true;
    if (param->count > 0 && !measure_extent(param, (int64_t)elem))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer: %s: elements overlap in memory: shape %s, strides %s",
            text, dims,
            symc_format_dims(tensor->strides, tensor->ndim, strides));
    if (tensor->data == NULL && param->count > 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer: %s: expected data for shape %s, found NULL", text, dims);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_param_init(struct symc_param *param,
    const struct symmcoll_tensor *tensors, int number, bool averages,
    const char *text)
{
    const struct symmcoll_tensor *tensor = &param->tensor;
    const struct symc_dtype *dtype;
    char where[SYMC_PARAM_TEXT + 16];
    symmcoll_status_t status;

    *param = (struct symc_param){.number = number};
    snprintf(where, sizeof(where), "reducer: %s", text);
    status = symc_tensor_read(where, tensors, (size_t)number, &param->tensor);
    if (status != SYMMCOLL_OK)
        return status;
    dtype = symc_dtype_find(tensor->dtype);
    if (dtype == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer: %s: %d is no element type", text, (int)tensor->dtype);
    /* Division before the sum is a multiplication by one over the size. */
    if (averages && !symc_dtype_reduces(dtype, SYMMCOLL_PREMUL_SUM))
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "reducer: %s: gradients of %s have no average", text, dtype->name);
    if (tensor->device != SYMMCOLL_HOST && tensor->device != SYMMCOLL_CUDA)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "reducer: %s: expected memory of the host or of a device, found a "
            "tensor of kind %d",
            text, (int)tensor->device);
    if (tensor->device == SYMMCOLL_CUDA &&
        (tensor->device_index < 0 || tensor->device_index > INT16_MAX))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer: %s: expected a device of 0 to %d, found %d", text,
            INT16_MAX, tensor->device_index);
    if (tensor->device == SYMMCOLL_HOST && tensor->device_index != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer: %s: expected device index 0 for host memory, found %d",
            text, tensor->device_index);
    return check_shape(param, text, dtype->size);
}

/* Copies the elements, in row-major order, to a contiguous array (pack) or from
 * it. */
static void copy_elements(const struct symc_param *param, char *row, bool pack)
{
    const struct symmcoll_tensor *tensor = &param->tensor;
    size_t elem = symmcoll_dtype_size(tensor->dtype);
    int64_t at[SYMMCOLL_MAX_DIMS] = {0}, offset = 0;

    for (size_t i = 0; i < param->count; i++, row += elem) {
        char *strided = (char *)tensor->data + offset * (int64_t)elem;

        memcpy(pack ? row : strided, pack ? strided : row, elem);
        for (int d = tensor->ndim - 1; d >= 0; d--) {
            offset += tensor->strides[d];
            if (++at[d] < tensor->shape[d])
                break;
            offset -= tensor->strides[d] * tensor->shape[d];
            at[d] = 0;
        }
    }
}

/* Copies elements on a device between the parameter's strided memory and a
 * row-major array.  spread: to the parameter. */
static symmcoll_status_t copy_on_device(const struct symc_site *site,
    const struct symc_param *param, void *out, const void *in, bool spread)
{
    const struct symmcoll_tensor *tensor = &param->tensor;
    const struct symc_strided copy = {.out = out,
        .in = in,
        .elem = symmcoll_dtype_size(tensor->dtype),
        .ndim = tensor->ndim,
        .shape = tensor->shape,
        .strides = tensor->strides,
        .spread = spread};

    return symc_site_copy(site, &copy);
}

symmcoll_status_t symc_param_pack(
    const struct symc_site *site, const struct symc_param *param, char *out)
{
    if (site != NULL)
        return copy_on_device(site, param, out, param->tensor.data, false);
    copy_elements(param, out, true);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_param_unpack(const struct symc_site *site,
    const struct symc_param *param, const char *in)
{
    if (site != NULL)
        return copy_on_device(site, param, param->tensor.data, in, true);
    copy_elements(param, (char *)(uintptr_t)in, false);
    return SYMMCOLL_OK;
}

/* Sets row-major strides for the tensor's shape. */
static void set_row_major(struct symmcoll_tensor *tensor)
{
    int64_t stride = 1;

    for (int d = tensor->ndim - 1; d >= 0; d--) {
        tensor->strides[d] = stride;
        stride *= tensor->shape[d] > 0 ? tensor->shape[d] : 1;
    }
}

struct symmcoll_tensor symc_param_view(const struct symc_param *param)
{
    struct symmcoll_tensor view = param->tensor;

    view.data = param->view;
    view.dtype = param->grad_dtype;
    if (!param->dense)
        set_row_major(&view);
    return view;
}
