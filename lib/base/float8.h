/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversions of 8-bit floats, which have no arithmetic. */
#ifndef SYMC_BASE_FLOAT8_H
#define SYMC_BASE_FLOAT8_H

#include <symmcoll/types.h>

/* Converts one element exactly; returns NaN for a type that is not float8. */
float symc_float8_to_float(enum symmcoll_dtype dtype, uint8_t value);

/* Converts to the nearest number of a float8 type with a sign bit, ties to
 * even.  Larger values become the largest number, NaN becomes NaN. */
uint8_t symc_float_to_float8(enum symmcoll_dtype dtype, float value);

#endif
