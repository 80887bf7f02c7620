/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/kernels/bound.h"

#include "base/reduce.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

double bound_of_sum(const double *numbers, int n)
{
    double magnitudes = 0;

    for (int i = 0; i < n; i++)
        magnitudes += fabs(numbers[i]);
    return n * (magnitudes * 0x1p-23 + 0x1p-125);
}

/* ---- the numbers of a type, counted from 0 ---- */

static double number_of(int32_t count, enum symmcoll_dtype dtype)
{
    uint16_t bits = (uint16_t)(count < 0 ? 0x8000 | -count : count);

    return dtype == SYMMCOLL_FLOAT16 ? (double)symc_half_to_float(bits)
                                     : (double)symc_bfloat16_to_float(bits);
}

/* Returns whether a value between low and high may be rounded to this element
 * of 16 bits. Values beyond its neighbours never are. */
static bool is_rounded_from(
    uint16_t bits, enum symmcoll_dtype dtype, double low, double high)
{
    int32_t most = dtype == SYMMCOLL_FLOAT16 ? 0x7c00 : 0x7f80;
    int32_t count = bits & 0x7fff;

    if (count > most)
        return false; /* NaN */
    if ((bits & 0x8000) != 0)
        count = -count;
    return (count == -most || number_of(count - 1, dtype) < high) &&
           (count == most || number_of(count + 1, dtype) > low);
}

/* ---- elements ---- */

static double value_of(const void *element, enum symmcoll_dtype dtype)
{
    uint16_t half;
    float single;

    memcpy(&half, element, sizeof(half));
    if (dtype == SYMMCOLL_FLOAT16)
        return (double)symc_half_to_float(half);
    if (dtype == SYMMCOLL_BFLOAT16)
        return (double)symc_bfloat16_to_float(half);
    memcpy(&single, element, sizeof(single));
    return (double)single;
}

bool bound_allows(const void *element, enum symmcoll_dtype dtype,
    const double *numbers, int n, double share)
{
    const double bound = share * bound_of_sum(numbers, n);
    double found = value_of(element, dtype), sum = 0, magnitudes = 0;
    uint16_t half;

    for (int i = 0; i < n; i++) {
        sum += numbers[i];
        magnitudes += isfinite(numbers[i]) ? fabs(numbers[i]) : 0;
    }
    if (magnitudes * (1 + n * 0x1p-23) > (double)FLT_MAX)
        return true;
    if (isnan(sum))
        return isnan(found);
    if (isinf(sum))
        return found == sum;
    if (dtype == SYMMCOLL_FLOAT32)
        return found >= sum - bound && found <= sum + bound;
    memcpy(&half, element, sizeof(half));
    return is_rounded_from(half, dtype, sum - bound, sum + bound);
}
