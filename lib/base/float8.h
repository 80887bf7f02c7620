/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The 8-bit floats, which are converted and never computed with.
 */
#ifndef SYMC_BASE_FLOAT8_H
#define SYMC_BASE_FLOAT8_H

#include <symmcoll/types.h>

/* One element of a float8 type, exact; NaN for another type. */
float symc_float8_to_float(enum symmcoll_dtype dtype, uint8_t value);

/* The nearest number of a float8 type with a sign, of two the even one; the
 * largest where that is exceeded, and NaN for NaN. */
uint8_t symc_float_to_float8(enum symmcoll_dtype dtype, float value);

#endif
