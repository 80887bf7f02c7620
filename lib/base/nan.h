/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts elements that are NaN. */
#ifndef SYMC_BASE_NAN_H
#define SYMC_BASE_NAN_H

#include <symmcoll/types.h>

#include <stddef.h>
#include <stdint.h>

/* Returns how many elements are NaN.  A complex element is NaN if either part
 * is.  Returns 0 for types without NaN. first (out): the index of the first
 * one, if any. */
size_t symc_nan_count(
    const void *data, size_t count, enum symmcoll_dtype dtype, size_t *first);

#endif
