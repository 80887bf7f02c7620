/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads callers' tensors, which may have been built against older or newer
 * headers.
 */
#ifndef SYMC_BASE_TENSOR_H
#define SYMC_BASE_TENSOR_H

#include "base/base.h"

#include <symmcoll/tensor.h>

extern const struct symc_sized symc_tensor_kind;

/*
 * Copies one tensor of an array.  The size of the array's first tensor is the
 * distance between elements; elements are read in order.  `where` names the
 * tensor in messages.
 *
 * Errors: INVALID (the size is not valid or differs from the first one's, or an
 * unknown member is set).
 */
symmcoll_status_t symc_tensor_read(const char *where,
    const struct symmcoll_tensor *tensors, size_t index,
    struct symmcoll_tensor *copy);

/* Sorts the dimensions by their strides, smallest first, into dims, an array of
 * SYMMCOLL_MAX_DIMS, and returns their number.  Dimensions of length 0 or 1,
 * whose stride is not used, are omitted. */
int symc_tensor_order(const struct symmcoll_tensor *tensor, int *dims);

/* Computes the byte offsets of the ends of a tensor's elements from its
 * first element: before is 0 or less, after is 0 or more; both are 0 if it
 * has no element.  Returns false for a negative length, and if a distance
 * does not fit in an int64_t or, unless the tensor is only a shape, an
 * address wraps around. */
bool symc_tensor_measure(
    const struct symmcoll_tensor *tensor, int64_t *before, int64_t *after);

/* The address of a tensor's first byte and of the byte after its last; both 0:
 * it has no element. */
struct symc_tensor_span {
    uintptr_t first, end;
};
struct symc_tensor_span symc_tensor_span(const struct symmcoll_tensor *tensor);

#endif
