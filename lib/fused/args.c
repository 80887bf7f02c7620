/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of arguments.
 */
#include "base/tensor.h"
#include "fused/device.h"
#include "group/site.h"

#include <stdio.h>
#include <string.h>

#define WIDEST ((int64_t)16) /* most bytes of an element, or of a sum */

symmcoll_status_t symc_fused_check_lengths(
    const char *where, const char *name, const struct symmcoll_tensor *tensor)
{
    int64_t count = WIDEST;

    for (int d = 0; d < tensor->ndim; d++) {
        if (tensor->shape[d] > 0 &&
            __builtin_mul_overflow(count, tensor->shape[d], &count))
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "%s: expected lengths of %s other than 0 whose product is %lld "
                "at most, found %lld in dimension %d",
                where, name, (long long)(INT64_MAX / WIDEST),
                (long long)tensor->shape[d], d);
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_fused_check_elements(const char *where, const char *name,
    struct symmcoll_tensor *tensor, size_t count)
{
    symmcoll_status_t status = symc_fused_check_lengths(where, name, tensor);

    if (status == SYMMCOLL_OK && count == 0)
        symc_f_make_contiguous(tensor);
    return status;
}

symmcoll_status_t symc_fused_read_a(const char *where,
    const struct symmcoll_tensor *a, bool scaled, struct symmcoll_tensor *copy)
{
    symmcoll_status_t status;
    size_t count;

    if (a == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "%s: expected a, found NULL", where);
    status = symc_f_tensor_read_any(where, a, 0, copy, &count);
    if (status != SYMMCOLL_OK)
        return status;
    if (copy->ndim < 2)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a of 2 dimensions or more, found %d", where,
            copy->ndim);
    if (scaled ? !symc_matmul_has_scaled(copy->dtype)
               : !symc_matmul_has(copy->dtype))
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED, "%s: expected %s, found %s",
            where,
            scaled ? "an 8-bit float with a sign"
                   : "float32, float64, float16 or bfloat16",
            symmcoll_dtype_name(copy->dtype));
    if (copy->device != SYMMCOLL_META && copy->data == NULL && count > 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a of %zu elements, found NULL", where, count);
    return symc_fused_check_elements(where, "a", copy, count);
}

static const char *name_tensor(
    const struct symc_fused_named *named, char text[32])
{
    if (named->index < 0)
        snprintf(text, 32, "%s", named->name);
    else
        snprintf(text, 32, "%s %d", named->name, named->index);
    return text;
}

/* Formats the place that a tensor names. */
static const char *format_place(
    const struct symmcoll_tensor *tensor, char text[SYMC_MEMORY_TEXT])
{
    return tensor->device == SYMMCOLL_META ? "no memory"
                                           : symc_site_format(tensor, text);
}

symmcoll_status_t symc_fused_check_beside(const char *where,
    const struct symc_fused_named *named, const struct symmcoll_tensor *a)
{
    const struct symmcoll_tensor *tensor = named->tensor;
    char expected[SYMC_MEMORY_TEXT], found[SYMC_MEMORY_TEXT], name[32];

    if (tensor->device == a->device &&
        (a->device != SYMMCOLL_CUDA || tensor->device_index == a->device_index))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected %s in %s as a is, found %p in %s", where,
        name_tensor(named, name), format_place(a, expected), tensor->data,
        format_place(tensor, found));
}

symmcoll_status_t symc_fused_read_b(const char *where,
    const struct symmcoll_tensor *bs, int at, int index,
    const struct symmcoll_tensor *a, int64_t depth,
    struct symmcoll_tensor *copy)
{
    bool scaled = symc_matmul_has_scaled(a->dtype);
    symmcoll_status_t status;
    size_t count;

    if (bs == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "%s: expected b, found NULL", where);
    status = symc_f_tensor_read_any(where, bs, at, copy, &count);
    if (status != SYMMCOLL_OK)
        return status;
    if (copy->ndim != 2)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: b %d: expected a matrix, found %d dimensions", where, index,
            copy->ndim);
    if (scaled ? !symc_matmul_has_scaled(copy->dtype) : copy->dtype != a->dtype)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: b %d: expected %s as a is, found %s", where, index,
            scaled ? "an 8-bit float with a sign"
                   : symmcoll_dtype_name(a->dtype),
            symmcoll_dtype_name(copy->dtype));
    status = symc_fused_check_beside(
        where, &(struct symc_fused_named){"b", index, copy}, a);
    if (status != SYMMCOLL_OK)
        return status;
    if (copy->shape[0] != depth)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: b %d: expected %lld rows, found %lld", where, index,
            (long long)depth, (long long)copy->shape[0]);
    if (copy->device != SYMMCOLL_META && copy->data == NULL && count > 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: b %d: expected %zu elements, found NULL", where, index, count);
    return symc_fused_check_elements(where, "b", copy, count);
}

symmcoll_status_t symc_fused_check_dim(
    const char *where, const struct symmcoll_tensor *a, int dim)
{
    if (dim >= 0 && dim < a->ndim)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected a dimension of 0 to %d, found %d", where, a->ndim - 1,
        dim);
}

/* ---- memory ---- */

symmcoll_status_t symc_fused_check_apart(const char *where,
    const struct symc_fused_named *written,
    const struct symc_fused_named *other)
{
    struct symc_tensor_span a = symc_tensor_span(written->tensor);
    struct symc_tensor_span b = symc_tensor_span(other->tensor);
    char texts[2][32];

    if (a.first >= b.end || b.first >= a.end)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected %s in other memory than %s, found that they overlap",
        where, name_tensor(written, texts[0]), name_tensor(other, texts[1]));
}

symmcoll_status_t symc_fused_name_error(
    const char *where, symmcoll_status_t status)
{
    return status == SYMMCOLL_OK ? status
                                 : symc_error_prefix(status, "%s", where);
}

/* Inserts the tensor's name into a detail that begins with where. */
static symmcoll_status_t insert_name(const char *where,
    const struct symc_fused_named *named, symmcoll_status_t status)
{
    char name[32];

    return symc_error_amend(status, "%s: %s%s", where, name_tensor(named, name),
        symmcoll_last_error() + strlen(where));
}

symmcoll_status_t symc_fused_check_memory(const char *where,
    const struct symmcoll_group *group, const struct symc_fused_named *named)
{
    const struct symmcoll_tensor *tensor = named->tensor;
    size_t elem = symmcoll_dtype_size(tensor->dtype);
    symmcoll_status_t status = symc_site_check(where, group, tensor);
    char name[32];

    if (status != SYMMCOLL_OK)
        return insert_name(where, named, status);
    if (tensor->device != SYMMCOLL_CUDA || symc_tensor_span(tensor).end == 0 ||
        (uintptr_t)tensor->data % elem == 0)
        return status;
    /* An unaligned load or store by a kernel corrupts the context. */
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: %s: expected elements of %s at a multiple of %zu bytes, found %p",
        where, name_tensor(named, name), symmcoll_dtype_name(tensor->dtype),
        elem, tensor->data);
}

/* The call has opened the compute library. In a failed group the library may
 * belong to a context that no call uses any more, so it is not checked
 * there. */
symmcoll_status_t symc_fused_check_reach(const char *where,
    const struct symc_fused *fused, const struct symc_fused_named *named)
{
    const struct symmcoll_tensor *tensor = named->tensor;
    const struct symc_fused_device *device = fused->device;
    char name[32];

    if (tensor->device != SYMMCOLL_CUDA || symc_tensor_span(tensor).end == 0 ||
        symc_members_failed(symc_group_members(fused->group)))
        return SYMMCOLL_OK;
    return device->ops->reach(
        device->compute, where, name_tensor(named, name), tensor->data);
}

symmcoll_status_t symc_fused_check_tensor(const char *where,
    const struct symc_fused *fused, const struct symc_fused_named *named)
{
    symmcoll_status_t status =
        symc_fused_check_memory(where, fused->group, named);

    return status == SYMMCOLL_OK ? symc_fused_check_reach(where, fused, named)
                                 : status;
}
