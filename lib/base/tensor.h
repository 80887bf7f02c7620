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
 * Copy one of an array of tensors, which are as far apart as the first one's
 * size says; those before it have been read.  where names it in messages.
 *
 * Errors: INVALID (a size, another than the first one's, an unknown member).
 */
symmcoll_status_t symc_tensor_read(const char *where,
    const struct symmcoll_tensor *tensors, size_t index,
    struct symmcoll_tensor *copy);

#endif
