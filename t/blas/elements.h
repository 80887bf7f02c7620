/* SPDX-License-Identifier: BSD-3-Clause */
/* Elements of every type that can be multiplied, from and to float64. */
#ifndef T_BLAS_ELEMENTS_H
#define T_BLAS_ELEMENTS_H

#include "base/float8.h"
#include "base/reduce.h"

#include <string.h>

static inline void put(enum symmcoll_dtype dtype, char *at, double value)
{
    float single = (float)value;
    uint16_t half = dtype == SYMMCOLL_FLOAT16 ? symc_float_to_half(single)
                                              : symc_float_to_bfloat16(single);
    size_t elem = symmcoll_dtype_size(dtype);

    if (elem == 8)
        memcpy(at, &value, elem);
    else if (elem == 4)
        memcpy(at, &single, elem);
    else if (elem == 2)
        memcpy(at, &half, elem);
    else
        *(uint8_t *)at = symc_float_to_float8(dtype, single);
}

static inline double get(enum symmcoll_dtype dtype, const char *at)
{
    float single;
    double twice;
    uint16_t half;

    switch (symmcoll_dtype_size(dtype)) {
    case 8:
        memcpy(&twice, at, 8);
        return twice;
    case 4:
        memcpy(&single, at, 4);
        return single;
    case 2:
        memcpy(&half, at, 2);
        return dtype == SYMMCOLL_FLOAT16 ? symc_half_to_float(half)
                                         : symc_bfloat16_to_float(half);
    default:
        return symc_float8_to_float(dtype, (uint8_t)*at);
    }
}

#endif
