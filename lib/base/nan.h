/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looking for elements that are not a number.
 */
#ifndef SYMC_BASE_NAN_H
#define SYMC_BASE_NAN_H

#include <symmcoll/types.h>

#include <stddef.h>
#include <stdint.h>

/* How many elements are NaN, a complex one where either part is; 0 of types
 * that have none.  first (out): the index of the first, where there is one. */
size_t symc_nan_count(
    const void *data, size_t count, enum symmcoll_dtype dtype, size_t *first);

#endif
