/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the bound of sums by a switch: sums in many orders, rounded up or
 * down, stay within it, and it is not much larger than necessary.
 */
#include "base/reduce.h"
#include "t/kernels/bound.h"
#include "t/kernels/group.h"
#include "t/kernels/multicast.h"
#include "t/tap.h"

#include <math.h>
#include <string.h>

#define ROUNDS 20000

static const enum symmcoll_dtype types[] = {
    SYMMCOLL_FLOAT32, SYMMCOLL_FLOAT16, SYMMCOLL_BFLOAT16};
#define NTYPES 3

/* The way numbers are added. */
struct adding {
    bool in_16_bits; /* rounded to the type after each addition */
    int missing;     /* numbers */
};

static float round_to(float value, enum symmcoll_dtype dtype)
{
    if (dtype == SYMMCOLL_FLOAT16)
        return symc_half_to_float(symc_float_to_half(value));
    if (dtype == SYMMCOLL_BFLOAT16)
        return symc_bfloat16_to_float(symc_float_to_bfloat16(value));
    return value;
}

/* Draws numbers of a type, of both signs or one, in a range of powers of
 * two. */
static void draw_numbers(float *numbers, int n, enum symmcoll_dtype dtype)
{
    const uint32_t signs = group_draw() % 2, range = 1 + group_draw() % 6;

    for (int i = 0; i < n; i++) {
        const float drawn = (float)(group_draw() >> 8) * 0x1p-24f;
        const float value = ldexpf(drawn, (int)(group_draw() % range));

        numbers[i] = round_to(
            signs != 0 && group_draw() % 2 != 0 ? -value : value, dtype);
    }
}

static float add(const float *numbers, int n, enum symmcoll_dtype dtype,
    const struct adding *adding)
{
    float left[SYMC_KERNEL_RANKS];

    memcpy(left, numbers, sizeof(*left) * (size_t)n);
    if (!adding->in_16_bits)
        return multicast_add(left, n - adding->missing, group_draw());
    for (int i = 1; i < n; i++)
        left[0] = round_to(left[0] + left[i], dtype);
    return left[0];
}

static bool is_allowed(float sum, enum symmcoll_dtype dtype,
    const float *numbers, int n, double share)
{
    double exact[SYMC_KERNEL_RANKS];
    const uint16_t half = dtype == SYMMCOLL_FLOAT16
                              ? symc_float_to_half(sum)
                              : symc_float_to_bfloat16(sum);

    for (int i = 0; i < n; i++)
        exact[i] = (double)numbers[i];
    return dtype == SYMMCOLL_FLOAT32
               ? bound_allows(&sum, dtype, exact, n, share)
               : bound_allows(&half, dtype, exact, n, share);
}

/* Returns how many sums exceed the given share of the bound. */
static int count_wrong(
    enum symmcoll_dtype dtype, const struct adding *adding, double share)
{
    float numbers[SYMC_KERNEL_RANKS];
    int wrong = 0;

    for (int i = 0; i < ROUNDS; i++) {
        const int n = 2 + (int)(group_draw() % (SYMC_KERNEL_RANKS - 1));

        draw_numbers(numbers, n, dtype);
        wrong += !is_allowed(
            add(numbers, n, dtype, adding), dtype, numbers, n, share);
    }
    return wrong;
}

static bool all_wrong(const struct adding *adding, double share)
{
    bool wrong = true;

    for (int t = 0; t < NTYPES; t++)
        if (!adding->in_16_bits || types[t] != SYMMCOLL_FLOAT32)
            wrong = wrong && count_wrong(types[t], adding, share) > 0;
    return wrong;
}

/* Returns whether two numbers may be added with an error of half a float32
 * unit, a quarter of the bound. */
static bool is_near(double share)
{
    const float numbers[] = {1, 0x1p-24f};

    return is_allowed(1, SYMMCOLL_FLOAT32, numbers, 2, share);
}

/* ---- infinite values, and the ends of types ---- */

static bool allows(float found, float a, float b, enum symmcoll_dtype dtype)
{
    const float numbers[] = {a, b};

    return is_allowed(found, dtype, numbers, 2, 1);
}

static bool knows_ends(void)
{
    const enum symmcoll_dtype half = SYMMCOLL_FLOAT16,
                              single = SYMMCOLL_FLOAT32;

    return allows(NAN, INFINITY, -INFINITY, half) && !allows(1, NAN, 1, half) &&
           !allows(NAN, 1, 1, half) && !allows(NAN, 1, 1, single) &&
           allows(INFINITY, INFINITY, 1, single) &&
           !allows(-INFINITY, INFINITY, 1, single) &&
           !allows(65504, INFINITY, 1, half) &&
           allows(INFINITY, 65504, 8, half) && allows(65504, 65504, 8, half) &&
           !allows(INFINITY, 65504, -8, half) &&
           allows(INFINITY, 0x1.8p127f, 0x1.8p127f, single) &&
           allows(0, 0x1p-130f, 0x1p-131f, single) &&
           !allows(0, 0x1p-120f, 0, single) && allows(-0.0F, 0, 0, half);
}

int main(void)
{
    const struct adding right = {false, 0}, rounded = {true, 0},
                        missing = {false, 1};

    plan(8);
    for (int t = 0; t < NTYPES; t++)
        ok(count_wrong(types[t], &right, 1) == 0,
            "%s: sums in any order are within the bound",
            symmcoll_dtype_name(types[t]));
    ok(is_near(0.26) && !is_near(0.24),
        "one that is rounded to nearest has a quarter of the bound of two");
    ok(count_wrong(SYMMCOLL_FLOAT32, &right, 1.0 / 32) > 0,
        "sums in some order exceed a bound 32 times as small");
    ok(all_wrong(&missing, 1), "a sum without one of the numbers exceeds it");
    ok(all_wrong(&rounded, 1),
        "sums in float16 and bfloat16 instead of float32 exceed it");
    ok(knows_ends(), "infinities, NaN and the largest numbers");
    return done_testing();
}
