/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests conversions of 16-bit floats: against arithmetic in double, and those
 * of whole vectors against those of single numbers.
 */
#include "../tap.h"

#include "base/reduce.h"

#include <math.h>
#include <string.h>

/* A format: explicit bits of the fraction, and the smallest normal exponent. */
struct format {
    int bits;
    int least;
    float (*to_float)(uint16_t);
    uint16_t (*from_float)(float);
};
static const struct format half = {
    10, -14, symc_half_to_float, symc_float_to_half};
static const struct format bfloat = {
    7, -126, symc_bfloat16_to_float, symc_float_to_bfloat16};

static float from_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint32_t to_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* Returns the value of a number, from its fields. */
static double decode(const struct format *format, uint16_t number)
{
    int fraction = number & ((1 << format->bits) - 1);
    int exponent = (number & 0x7fff) >> format->bits;
    int largest = 0x7fff >> format->bits;
    double magnitude;

    if (exponent == largest)
        magnitude = fraction != 0 ? NAN : INFINITY;
    else if (exponent == 0)
        magnitude = ldexp(fraction, format->least - format->bits);
    else
        magnitude = ldexp(fraction + (1 << format->bits),
            format->least - format->bits + exponent - 1);
    return number & 0x8000 ? -magnitude : magnitude;
}

/* Rounds to the nearest number of the format, ties to even, as rint() does. */
static double round_to(const struct format *format, double value)
{
    double limit = ldexp(2 - ldexp(1, -format->bits), 1 - format->least);
    int exponent;
    double unit;
    double rounded;

    if (isinf(value) || value == 0)
        return value;
    (void)frexp(value, &exponent);
    exponent = exponent - 1 > format->least ? exponent - 1 : format->least;
    unit = ldexp(1, exponent - format->bits);
    rounded = rint(value / unit) * unit;
    return fabs(rounded) > limit ? copysign(INFINITY, value) : rounded;
}

static int same(double a, double b)
{
    return isnan(a) ? isnan(b) : a == b && !signbit(a) == !signbit(b);
}

static int every_number_is_decoded(const struct format *format)
{
    for (uint32_t i = 0; i < 65536; i++) {
        if (!same(format->to_float((uint16_t)i), decode(format, (uint16_t)i)))
            return 0;
    }
    return 1;
}

/* Checks conversions back to the same bits; a NaN keeps sign and payload and
 * becomes quiet. */
static int every_number_comes_back(const struct format *format)
{
    for (uint32_t i = 0; i < 65536; i++) {
        uint32_t quiet =
            isnan(decode(format, (uint16_t)i)) ? 1u << (format->bits - 1) : 0;

        if (format->from_float(format->to_float((uint16_t)i)) != (i | quiet))
            return 0;
    }
    return 1;
}

static int float_is_rounded(const struct format *format, float value)
{
    double found = decode(format, format->from_float(value));

    if (same(found, round_to(format, value)))
        return 1;
    diag("%a: expected %a, found %a", value, round_to(format, value), found);
    return 0;
}

/* Checks each number, the middle to the next, and one bit to each side of
 * both. */
static int floats_around_every_number_are_rounded(const struct format *format)
{
    for (uint32_t i = 0; i < 65536; i++) {
        float value = format->to_float((uint16_t)i);
        uint32_t middle = 1u << (22 - format->bits);
        uint32_t bits = to_bits(value);

        if (isnan(value) || isinf(value))
            continue;
        if (format == &half && (i & 0x7fff) < 0x400)
            /* fractions of the smallest half have no fixed bit position in a
             * float */
            bits = to_bits(copysignf(fabsf(value) + 0x1p-25f, value)) - middle;
        for (uint32_t j = 0; j < 3; j++) {
            if (!float_is_rounded(format, from_bits(bits + j)) ||
                !float_is_rounded(format, from_bits(bits + middle - 1 + j)))
                return 0;
        }
    }
    return 1;
}

static int extremes_are_rounded(const struct format *format)
{
    static const float values[] = {0x1.fffffep127f, 0x1p-149f, 65504.0f,
        65519.99609375f, 65520.0f, 65536.0f, 0x1p-24f, 0x1p-25f,
        0x1.000002p-25f, 0x1p-26f, INFINITY, 0.0f, 0x1.fep127f, 0x1.ffp127f};

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        if (!float_is_rounded(format, values[i]) ||
            !float_is_rounded(format, -values[i]))
            return 0;
    }
    return 1;
}

/*
 * Multiplies all numbers by a factor in a kernel: converted to float, rounded
 * back. A NaN becomes the positive quiet one.
 */
static int kernel_converts_alike(const struct format *format,
    enum symmcoll_dtype dtype, enum symc_simd level, double factor)
{
    static uint16_t in[65536];
    static uint16_t out[65536];
    const void *src = in;
    struct symc_reduction reduction = {
        dtype, SYMMCOLL_PREMUL_SUM, 1, &factor, false};
    uint16_t nan = format->from_float(NAN) & 0x7fff;

    for (uint32_t i = 0; i < 65536; i++)
        in[i] = (uint16_t)i;
    symc_reduce_find_at(level, dtype, SYMMCOLL_PREMUL_SUM)(
        &reduction, out, NULL, &src, 1, 65536, false);
    for (uint32_t i = 0; i < 65536; i++) {
        float value = format->to_float(in[i]) * (float)factor;
        uint16_t expected = isnan(value) ? nan : format->from_float(value);

        if (out[i] != expected) {
            diag("level %d, %04x times %a: expected %04x, found %04x",
                (int)level, in[i], factor, expected, out[i]);
            return 0;
        }
    }
    return 1;
}

static int kernels_convert_alike(
    const struct format *format, enum symmcoll_dtype dtype)
{
    static const double factors[] = {1.0, -1.0, 0x1p-1, 0x1p-3, 1 / 3.0, 3.0,
        0.99999, 0x1p-11, 0x1.004p0, 0x1.00201p0, 1e-5, 7e4};

    for (int level = 0; level <= (int)symc_simd_level(); level++) {
        for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++) {
            if (!kernel_converts_alike(
                    format, dtype, (enum symc_simd)level, factors[i]))
                return 0;
        }
    }
    return 1;
}

/* ---- arrays of these formats and of float ---- */

#define NUMBERS 65536
#define FLOATS ((size_t)NUMBERS * 6)
static const double conversion_factors[] = {1.0, 1 / 3.0, 0x1p-3, -7e4, 1e-5};
#define NFACTORS (sizeof(conversion_factors) / sizeof(conversion_factors[0]))

static uint32_t converted_bits(
    const struct format *format, float value, bool narrows)
{
    if (isnan(value))
        return narrows ? format->from_float(NAN) & 0x7fff : 0x7fc00000;
    return narrows ? format->from_float(value) : to_bits(value);
}

static int widens_alike(const struct format *format, enum symmcoll_dtype dtype,
    enum symc_simd level, double factor)
{
    static uint16_t in[NUMBERS];
    static float out[NUMBERS];
    const struct symc_conversion conversion = {
        dtype, SYMMCOLL_FLOAT32, out, in, NUMBERS, factor};

    for (uint32_t i = 0; i < NUMBERS; i++)
        in[i] = (uint16_t)i;
    symc_convert_at(level, &conversion);
    for (uint32_t i = 0; i < NUMBERS; i++) {
        float value = format->to_float(in[i]) * (float)factor;

        if (to_bits(out[i]) == converted_bits(format, value, false))
            continue;
        diag("level %d, %04x times %a: expected %a, found %a", (int)level,
            in[i], factor, value, out[i]);
        return 0;
    }
    return 1;
}

/* Checks each number, the middle to the next, and one bit to each side of
 * both. */
static int narrows_alike(const struct format *format, enum symmcoll_dtype dtype,
    enum symc_simd level, double factor)
{
    static float in[FLOATS];
    static uint16_t out[FLOATS];
    const struct symc_conversion conversion = {
        SYMMCOLL_FLOAT32, dtype, out, in, FLOATS, factor};
    const uint32_t middle = 1u << (22 - format->bits);

    for (uint32_t i = 0; i < FLOATS; i++)
        in[i] = from_bits(to_bits(format->to_float((uint16_t)(i / 6))) +
                          i % 6 / 3 * (middle - 1) + i % 3);
    symc_convert_at(level, &conversion);
    for (uint32_t i = 0; i < FLOATS; i++) {
        float value = in[i] * (float)factor;

        if (out[i] == converted_bits(format, value, true))
            continue;
        diag("level %d, %a times %a: found %04x", (int)level, in[i], factor,
            out[i]);
        return 0;
    }
    return 1;
}

/* Converts any count at any address, and checks that nothing else is
 * written. */
static int converts_any_count(
    enum symmcoll_dtype dtype, enum symc_simd level, bool narrows)
{
    const size_t from = narrows ? 4 : 2, to = narrows ? 2 : 4;
    unsigned char in[400], whole[400], part[400];
    struct symc_conversion conversion = {narrows ? SYMMCOLL_FLOAT32 : dtype,
        narrows ? dtype : SYMMCOLL_FLOAT32, whole, in, 90, 0.3};

    for (size_t i = 0; i < sizeof(in); i++)
        in[i] = (unsigned char)(i * 37 + i / 7);
    symc_convert_at(level, &conversion);
    for (size_t count = 0; count < 70; count++) {
        size_t first = count % 17;

        memset(part, 0x55, sizeof(part));
        conversion.in = in + first * from;
        conversion.out = part + first * to;
        conversion.count = count;
        symc_convert_at(level, &conversion);
        if (memcmp(part + first * to, whole + first * to, count * to) != 0)
            return 0;
        for (size_t i = 0; i < sizeof(part); i++)
            if ((i < first * to || i >= (first + count) * to) &&
                part[i] != 0x55)
                return 0;
    }
    return 1;
}

static int arrays_convert_alike(
    const struct format *format, enum symmcoll_dtype dtype)
{
    for (int i = 0; i <= (int)symc_simd_level(); i++) {
        enum symc_simd level = (enum symc_simd)i;

        for (size_t f = 0; f < NFACTORS; f++)
            if (!widens_alike(format, dtype, level, conversion_factors[f]) ||
                !narrows_alike(format, dtype, level, conversion_factors[f]))
                return 0;
        if (!converts_any_count(dtype, level, true) ||
            !converts_any_count(dtype, level, false))
            return 0;
    }
    return 1;
}

int main(void)
{
    plan(12);
    ok(every_number_is_decoded(&half), "every half has its value");
    ok(every_number_comes_back(&half), "every half comes back from float");
    ok(floats_around_every_number_are_rounded(&half),
        "floats are rounded to the nearest half, ties to even");
    ok(extremes_are_rounded(&half), "the largest and least floats too");
    ok(kernels_convert_alike(&half, SYMMCOLL_FLOAT16),
        "vectors of halves are converted as single ones, at every SIMD level");
    ok(arrays_convert_alike(&half, SYMMCOLL_FLOAT16),
        "so are arrays of halves to and from float, of any length");
    ok(every_number_is_decoded(&bfloat), "every bfloat16 has its value");
    ok(every_number_comes_back(&bfloat),
        "every bfloat16 comes back from float");
    ok(floats_around_every_number_are_rounded(&bfloat),
        "floats are rounded to the nearest bfloat16, ties to even");
    ok(extremes_are_rounded(&bfloat), "the largest and least floats too");
    ok(kernels_convert_alike(&bfloat, SYMMCOLL_BFLOAT16),
        "vectors of bfloat16 are converted as single ones, at every SIMD level");
    ok(arrays_convert_alike(&bfloat, SYMMCOLL_BFLOAT16),
        "so are arrays of bfloat16 to and from float, of any length");
    return done_testing();
}
