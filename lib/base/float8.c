/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 8-bit floats: formats of the Open Compute Project (fn: no infinities; e8m0: a
 * power of two), and of AMD's earlier processors (fnuz: also no negative zero).
 */
#include "base/float8.h"

#include <math.h>

/* Expands a format of a sign, exponent bits with a bias, and fraction bits. */
static float expand(uint8_t value, int fraction_bits, int bias)
{
    int exponent = (value & 0x7f) >> fraction_bits;
    int fraction = value & ((1 << fraction_bits) - 1);
    float magnitude = exponent == 0
                          ? ldexpf((float)fraction, 1 - bias - fraction_bits)
                          : ldexpf((float)(fraction + (1 << fraction_bits)),
                                exponent - bias - fraction_bits);

    return (value & 0x80) != 0 ? -magnitude : magnitude;
}

float symc_float8_to_float(enum symmcoll_dtype dtype, uint8_t value)
{
    int magnitude = value & 0x7f;

    switch (dtype) {
    case SYMMCOLL_FLOAT8_E4M3FN:
        return magnitude == 0x7f ? NAN : expand(value, 3, 7);
    case SYMMCOLL_FLOAT8_E5M2:
        if (magnitude > 0x7c)
            return NAN;
        if (magnitude == 0x7c)
            return (value & 0x80) != 0 ? -INFINITY : INFINITY;
        return expand(value, 2, 15);
    case SYMMCOLL_FLOAT8_E4M3FNUZ:
        return value == 0x80 ? NAN : expand(value, 3, 8);
    case SYMMCOLL_FLOAT8_E5M2FNUZ:
        return value == 0x80 ? NAN : expand(value, 2, 16);
    case SYMMCOLL_FLOAT8_E8M0FNU:
        return value == 0xff ? NAN : ldexpf(1, value - 127);
    default:
        return NAN;
    }
}

/* The inverse of expand(); largest: the code of the largest number. */
static uint8_t narrow(float value, int fraction_bits, int bias, uint8_t largest)
{
    float magnitude = fabsf(value);
    uint8_t sign = signbit(value) ? 0x80 : 0;
    int exponent;

    if (magnitude >= expand(largest, fraction_bits, bias))
        return sign | largest;
    if (magnitude == 0)
        return sign;
    (void)frexpf(magnitude, &exponent);
    exponent = exponent - 1 > 1 - bias ? exponent - 1 : 1 - bias;
    /* A fraction that is rounded up to the next power of two carries into the
     * exponent. */
    return (uint8_t)(sign | (((exponent + bias - 1) << fraction_bits) +
                                (int)lrintf(ldexpf(
                                    magnitude, fraction_bits - exponent))));
}

uint8_t symc_float_to_float8(enum symmcoll_dtype dtype, float value)
{
    uint8_t code;

    switch (dtype) {
    case SYMMCOLL_FLOAT8_E4M3FN:
        return isnan(value) ? 0x7f : narrow(value, 3, 7, 0x7e);
    case SYMMCOLL_FLOAT8_E5M2:
        return isnan(value) ? 0x7f : narrow(value, 2, 15, 0x7b);
    case SYMMCOLL_FLOAT8_E4M3FNUZ:
    case SYMMCOLL_FLOAT8_E5M2FNUZ:
        if (isnan(value))
            return 0x80;
        code = dtype == SYMMCOLL_FLOAT8_E4M3FNUZ ? narrow(value, 3, 8, 0x7f)
                                                 : narrow(value, 2, 16, 0x7f);
        return code == 0x80 ? 0 : code; /* zero has no sign in these formats */
    default:
        return 0xff;
    }
}
