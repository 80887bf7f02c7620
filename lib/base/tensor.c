/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and measures callers' tensors. */
#include "base/tensor.h"

static const struct symmcoll_tensor default_tensor = SYMMCOLL_TENSOR_INIT;
/* The first version with a size has all members. */
const struct symc_sized symc_tensor_kind = {.name = "tensor",
    .macro = "SYMMCOLL_TENSOR_INIT",
    .defaults = &default_tensor,
    .nbytes = sizeof(default_tensor),
    .least = sizeof(default_tensor)};

symmcoll_status_t symc_tensor_read(const char *where,
    const struct symmcoll_tensor *tensors, size_t index,
    struct symmcoll_tensor *copy)
{
    return symc_sized_read_at(&symc_tensor_kind, where, tensors, index, copy);
}

int symc_tensor_order(const struct symmcoll_tensor *tensor, int *dims)
{
    int count = 0;

    for (int d = 0; d < tensor->ndim; d++) {
        int at = count;

        if (tensor->shape[d] <= 1)
            continue;
        for (; at > 0 && tensor->strides[d] < tensor->strides[dims[at - 1]];
             at--)
            dims[at] = dims[at - 1];
        dims[at] = d;
        count++;
    }
    return count;
}

static bool has_addresses(
    const struct symmcoll_tensor *tensor, int64_t before, int64_t after)
{
    uintptr_t first = (uintptr_t)tensor->data;

    return tensor->data == NULL || tensor->device == SYMMCOLL_META ||
           (0 - (uintptr_t)before <= first &&
               (uintptr_t)after <= UINTPTR_MAX - first);
}

bool symc_tensor_measure(
    const struct symmcoll_tensor *tensor, int64_t *before, int64_t *after)
{
    int64_t elem = (int64_t)symmcoll_dtype_size(tensor->dtype), span;

    *before = 0;
    *after = elem;
    for (int d = 0; d < tensor->ndim; d++) {
        if (tensor->shape[d] > 0)
            continue;
        *before = *after = 0;
        return tensor->shape[d] == 0;
    }
    for (int d = 0; d < tensor->ndim; d++) {
        if (__builtin_mul_overflow(
                tensor->shape[d] - 1, tensor->strides[d], &span) ||
            __builtin_mul_overflow(span, elem, &span) ||
            __builtin_add_overflow(
                span < 0 ? *before : *after, span, span < 0 ? before : after))
            return false;
    }
    return has_addresses(tensor, *before, *after);
}

struct symc_tensor_span symc_tensor_span(const struct symmcoll_tensor *tensor)
{
    uintptr_t elem = symmcoll_dtype_size(tensor->dtype);
    uintptr_t first = (uintptr_t)tensor->data;
    struct symc_tensor_span span = {first, first + elem};

    for (int d = 0; d < tensor->ndim; d++) {
        uintptr_t nbytes = ((uintptr_t)tensor->shape[d] - 1) *
                           (uintptr_t)tensor->strides[d] * elem;

        if (tensor->shape[d] == 0)
            return (struct symc_tensor_span){0, 0};
        if (tensor->strides[d] < 0)
            span.first += nbytes;
        else
            span.end += nbytes;
    }
    return span;
}
