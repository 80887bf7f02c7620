/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading the tensors of callers, whose headers may be older or newer.
 */
#ifndef SYMC_BASE_TENSOR_H
#define SYMC_BASE_TENSOR_H

#include "base/base.h"

#include <symmcoll/tensor.h>

extern const struct symc_sized symc_tensor_kind;

/*
 * Copy one tensor of an array, whose elements are as many bytes apart as the
 * size of the first one; those before it have been read.  where names it in
 * messages.
 *
 * Errors: INVALID (a size, another than the first one's, an unknown member).
 */
symmcoll_status_t symc_tensor_read(const char *where,
    const struct symmcoll_tensor *tensors, size_t index,
    struct symmcoll_tensor *copy);

/* Store the dimensions in the order of their strides, the least first, in dims,
 * an array of SYMMCOLL_MAX_DIMS; returns how many.  Those of one index, whose
 * stride is never taken, are left out. */
int symc_tensor_order(const struct symmcoll_tensor *tensor, int *dims);

/* Stores how many bytes a tensor's elements reach from its first element: before is 0 or
 * less, after the other end; both are 0 if it has no element.  Returns false for a negative
 * length, and for strides with which a distance does not fit an int64_t or, unless the
 * tensor is a shape alone, an address wraps around. */
bool symc_tensor_measure(
    const struct symmcoll_tensor *tensor, int64_t *before, int64_t *after);

/* The first byte of a tensor's elements, and the one after the last; both 0: it has
 * none. */
struct symc_tensor_span {
    uintptr_t first, end;
};
struct symc_tensor_span symc_tensor_span(const struct symmcoll_tensor *tensor);

#endif
