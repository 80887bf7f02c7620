/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Conversions of single 16-bit floats.  reduce_steps.h converts whole vectors
 * with the same results, except that a NaN there becomes the positive quiet
 * one.
 */
#include "base/reduce.h"

#include <string.h>

static float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

float symc_half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = half >> 10 & 0x1fu;
    uint32_t fraction = half & 0x3ffu;

    if (exponent == 0x1f) {
        uint32_t quiet = fraction != 0 ? 0x400000u : 0;

        return float_of(sign | 0x7f800000u | quiet | fraction << 13);
    }
    if (exponent == 0) {
        /* fraction * 2^-24, exact; zero keeps its sign */
        float value = (float)fraction * 0x1p-24f;

        return float_of(sign | bits_of(value));
    }
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

/* Shifts right, rounding to nearest, ties to even. */
static uint32_t shift_rounded(uint32_t number, unsigned int shift)
{
    uint32_t odd = number >> shift & 1u;

    return (number + (1u << (shift - 1)) - 1 + odd) >> shift;
}

uint16_t symc_float_to_half(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t half;

    if (magnitude > 0x7f800000u)
        half = 0x7e00u | (magnitude >> 13 & 0x3ffu);
    else if (magnitude >= 0x47800000u) /* 2^16: infinity, as all larger ones */
        half = 0x7c00u;
    else if (magnitude >=
             0x38800000u) /* 2^-14: normal; may carry to infinity */
        half = shift_rounded(magnitude - (112u << 23), 13);
    else if (magnitude < 0x33000000u) /* below 2^-25, half of the least
                                         number */
        half = 0;
    else
        half = shift_rounded(
            (magnitude & 0x7fffffu) | 0x800000u, 126 - (magnitude >> 23));
    return (uint16_t)(sign | half);
}

float symc_bfloat16_to_float(uint16_t value)
{
    uint32_t bits = (uint32_t)value << 16;

    if ((bits & 0x7fffffffu) > 0x7f800000u)
        bits |= 0x400000u;
    return float_of(bits);
}

uint16_t symc_float_to_bfloat16(float value)
{
    uint32_t bits = bits_of(value);

    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)shift_rounded(bits, 16);
}
