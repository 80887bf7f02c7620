/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Elements of float32, float16 and bfloat16 in host memory, which hooks compute
 * with as floats.
 */
#ifndef SYMC_DDP_ELEMENT_H
#define SYMC_DDP_ELEMENT_H

#include "base/reduce.h"

#include <symmcoll/types.h>

#include <float.h>
#include <stdint.h>

static inline float symc_element_load(
    const void *array, uint64_t i, enum symmcoll_dtype dtype)
{
    if (dtype == SYMMCOLL_FLOAT32)
        return ((const float *)array)[i];
    return dtype == SYMMCOLL_FLOAT16
               ? symc_half_to_float(((const uint16_t *)array)[i])
               : symc_bfloat16_to_float(((const uint16_t *)array)[i]);
}

static inline void symc_element_store(
    void *array, uint64_t i, enum symmcoll_dtype dtype, float value)
{
    if (dtype == SYMMCOLL_FLOAT32)
        ((float *)array)[i] = value;
    else
        ((uint16_t *)array)[i] = dtype == SYMMCOLL_FLOAT16
                                     ? symc_float_to_half(value)
                                     : symc_float_to_bfloat16(value);
}

/* Returns the largest finite value of a type. */
static inline double symc_element_largest(enum symmcoll_dtype dtype)
{
    if (dtype == SYMMCOLL_FLOAT16)
        return 65504.0;
    return dtype == SYMMCOLL_BFLOAT16
               ? (double)symc_bfloat16_to_float(UINT16_C(0x7f7f))
               : (double)FLT_MAX;
}

/* Limits a value to +-limit; a NaN remains one. */
static inline double symc_element_limit(double value, double limit)
{
    if (value > limit)
        return limit;
    return value < -limit ? -limit : value;
}

#endif
