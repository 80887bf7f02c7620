/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tensors in symmetric memory.
 */
#include "base/cancel.h"
#include "base/dtype.h"
#include "base/tensor.h"
#include "symm_mem/symm_mem.h"

/* Checks the shape and type of a tensor, and counts its elements. */
static symmcoll_status_t check_shape(
    const char *where, const struct symmcoll_tensor *tensor, size_t *count)
{
    size_t product = 1; /* ignores zero lengths: strides are such products */
    bool empty = false;

    if (symc_dtype_find(tensor->dtype) == NULL || tensor->ndim < 0 ||
        tensor->ndim > SYMMCOLL_MAX_DIMS)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected an element type and 0 to %d dimensions, found type "
            "%d and %d dimensions",
            where, SYMMCOLL_MAX_DIMS, (int)tensor->dtype, tensor->ndim);
    for (int d = 0; d < tensor->ndim; d++) {
        empty = empty || tensor->shape[d] == 0;
        if (tensor->shape[d] < 0 ||
            (tensor->shape[d] > 0 &&
                !symc_multiply(product, (size_t)tensor->shape[d], &product)) ||
            product > PTRDIFF_MAX)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "%s: expected lengths whose product fits memory, found %lld in "
                "dimension %d",
                where, (long long)tensor->shape[d], d);
    }
    *count = empty ? 0 : product;
    return SYMMCOLL_OK;
}

static void make_contiguous(struct symmcoll_tensor *tensor)
{
    int64_t stride = 1;

    for (int d = tensor->ndim - 1; d >= 0; d--) {
        tensor->strides[d] = stride;
        stride *= tensor->shape[d] > 0 ? tensor->shape[d] : 1;
    }
}

/* Counts the elements from the first to one past the last. */
static symmcoll_status_t count_extent(
    const char *where, const struct symmcoll_tensor *tensor, size_t *count)
{
    size_t end = 1, last;

    if (*count == 0)
        return SYMMCOLL_OK;
    for (int d = 0; d < tensor->ndim; d++) {
        if (tensor->strides[d] < 0 ||
            !symc_multiply((size_t)(tensor->shape[d] - 1),
                (size_t)tensor->strides[d], &last) ||
            !symc_add(end, last, &end) || end > PTRDIFF_MAX)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "%s: expected strides of 0 or more elements that fit memory, "
                "found %lld in dimension %d",
                where, (long long)tensor->strides[d], d);
    }
    *count = end;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_symm_lay_out(const char *where,
    struct symmcoll_tensor *tensor, bool contiguous, size_t *count)
{
    symmcoll_status_t status = check_shape(where, tensor, count);
    bool none = true;

    if (status != SYMMCOLL_OK)
        return status;
    for (int d = 0; d < tensor->ndim; d++)
        none = none && tensor->strides[d] == 0;
    if (contiguous || none)
        make_contiguous(tensor);
    return count_extent(where, tensor, count);
}

symmcoll_status_t symc_symm_read_tensor(const char *where,
    const struct symmcoll_tensor *given, struct symmcoll_tensor *tensor,
    size_t *nbytes)
{
    size_t count;
    symmcoll_status_t status;

    if (given == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "%s: expected a tensor, found NULL", where);
    status = symc_tensor_read(where, given, 0, tensor);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_check_place(where, tensor->device, tensor->device_index);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_lay_out(where, tensor, false, &count);
    if (status != SYMMCOLL_OK)
        return status;
    if (!symc_multiply(count, symc_dtype_find(tensor->dtype)->size, nbytes))
        *nbytes = SIZE_MAX;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_symm_write_tensor(const char *where,
    const struct symmcoll_tensor *made, struct symmcoll_tensor *tensor)
{
    return symc_sized_write(&symc_tensor_kind, where, made, tensor);
}

symmcoll_status_t symc_symm_check_same_place(const char *where,
    const struct symmcoll_tensor *tensor, enum symmcoll_device device,
    int index)
{
    char expected[SYMC_SYMM_PLACE], found[SYMC_SYMM_PLACE];

    if (tensor->device == device && tensor->device_index == index)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected a tensor in %s, found one in %s", where,
        symc_symm_format_place(device, index, expected),
        symc_symm_format_place(tensor->device, tensor->device_index, found));
}

/* Allocates memory for a tensor, on the device that the tensor names. */
static symmcoll_status_t allocate(struct symmcoll_world *world,
    const struct symmcoll_symm_args *given, struct symmcoll_tensor *made,
    size_t nbytes)
{
    struct symc_symm_request request = {
        .where = "symm_alloc_tensor", .nbytes = nbytes};
    struct symmcoll_symm_args *args = &request.args;
    symmcoll_status_t status =
        symc_symm_read_args(request.where, world, made, given, args);

    if (status == SYMMCOLL_OK && args->device != SYMMCOLL_HOST)
        status = symc_symm_check_same_place(
            request.where, made, args->device, args->device_index);
    if (status != SYMMCOLL_OK)
        return status;
    args->device = made->device;
    args->device_index = made->device_index;
    return symc_symm_allocate(world, &request, &made->data);
}

symmcoll_status_t symmcoll_symm_alloc_tensor(struct symmcoll_world *world,
    const struct symmcoll_symm_args *args, struct symmcoll_tensor *tensor)
{
    static const char where[] = "symm_alloc_tensor";
    struct symmcoll_tensor made;
    size_t nbytes = 0;
    int cancel = symc_cancel_disable();
    symmcoll_status_t status =
        symc_symm_read_tensor(where, tensor, &made, &nbytes);

    if (status == SYMMCOLL_OK)
        status = allocate(world, args, &made, nbytes);
    if (status == SYMMCOLL_OK)
        status = symc_symm_write_tensor(where, &made, tensor);
    symc_cancel_restore(cancel);
    return status;
}
