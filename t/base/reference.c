/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements reference.h. Integers are computed in 64 bits and truncated,
 * floats in their own type, 16-bit floats in float; nothing here is
 * vectorised.
 */
#include "reference.h"

#include <math.h>
#include <string.h>

enum family {
    UNSIGNED,
    SIGNED,
    FLOAT,
    DOUBLE,
    HALF,
    BFLOAT,
    BOOLEAN
};

/* Functions that reduce_elements() calls for each element, which take most of
 * many tests' time. */
#define INLINE static inline __attribute__((always_inline))

/* How an element consists of numbers. */
struct shape {
    enum family family;
    size_t nbytes; /* of a number */
    size_t parts;
};

static struct shape shape_of(enum symmcoll_dtype dtype)
{
    switch (dtype) {
    case SYMMCOLL_UINT8:
        return (struct shape){UNSIGNED, 1, 1};
    case SYMMCOLL_UINT16:
        return (struct shape){UNSIGNED, 2, 1};
    case SYMMCOLL_UINT32:
        return (struct shape){UNSIGNED, 4, 1};
    case SYMMCOLL_UINT64:
        return (struct shape){UNSIGNED, 8, 1};
    case SYMMCOLL_INT8:
        return (struct shape){SIGNED, 1, 1};
    case SYMMCOLL_INT16:
        return (struct shape){SIGNED, 2, 1};
    case SYMMCOLL_INT32:
        return (struct shape){SIGNED, 4, 1};
    case SYMMCOLL_INT64:
        return (struct shape){SIGNED, 8, 1};
    case SYMMCOLL_FLOAT16:
        return (struct shape){HALF, 2, 1};
    case SYMMCOLL_BFLOAT16:
        return (struct shape){BFLOAT, 2, 1};
    case SYMMCOLL_FLOAT32:
        return (struct shape){FLOAT, 4, 1};
    case SYMMCOLL_COMPLEX64:
        return (struct shape){FLOAT, 4, 2};
    case SYMMCOLL_FLOAT64:
        return (struct shape){DOUBLE, 8, 1};
    case SYMMCOLL_COMPLEX128:
        return (struct shape){DOUBLE, 8, 2};
    default:
        return (struct shape){BOOLEAN, 1, 1};
    }
}

/* A number: an integer as its 64 bits, sign-extended if signed. */
union number {
    uint64_t bits;
    float single;
    double twice;
};

/* Truncates to the type's size and extends again, as a store and a load do. */
INLINE uint64_t wrap(struct shape shape, uint64_t bits)
{
    unsigned int unused = 64 - 8 * (unsigned int)shape.nbytes;

    bits <<= unused;
    return shape.family == SIGNED ? (uint64_t)((int64_t)bits >> unused)
                                  : bits >> unused;
}

/* Copies a number, with a size known to the compiler, because a sanitizer
 * turns every other copy into a call. */
INLINE void copy_number(void *to, const void *from, size_t nbytes)
{
    switch (nbytes) {
    case 1:
        memcpy(to, from, 1);
        break;
    case 2:
        memcpy(to, from, 2);
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    default:
        memcpy(to, from, 8);
    }
}

INLINE union number load_number(struct shape shape, const unsigned char *from)
{
    union number x = {0};
    uint16_t half;

    copy_number(&x, from, shape.nbytes);
    half = (uint16_t)x.bits;
    if (shape.family == HALF)
        x.single = symc_half_to_float(half);
    else if (shape.family == BFLOAT)
        x.single = symc_bfloat16_to_float(half);
    else if (shape.family == BOOLEAN)
        x.bits = x.bits != 0;
    else if (shape.family == SIGNED)
        x.bits = wrap(shape, x.bits);
    return x;
}

INLINE void store_number(struct shape shape, unsigned char *to, union number x)
{
    uint16_t half;

    switch (shape.family) {
    case HALF:
        half = isnan(x.single) ? 0x7e00 : symc_float_to_half(x.single);
        memcpy(to, &half, 2);
        break;
    case BFLOAT:
        half = isnan(x.single) ? 0x7fc0 : symc_float_to_bfloat16(x.single);
        memcpy(to, &half, 2);
        break;
    case FLOAT:
        if (isnan(x.single))
            x.bits = 0x7fc00000;
        memcpy(to, &x, 4);
        break;
    case DOUBLE:
        if (isnan(x.twice))
            x.bits = UINT64_C(0x7ff8000000000000);
        memcpy(to, &x, 8);
        break;
    default:
        copy_number(to, &x, shape.nbytes);
    }
}

/* Returns whether a goes before b: a NaN always does, and -0 before +0. */
INLINE int goes_first(double a, double b, int largest)
{
    if (isnan(a) || isnan(b))
        return isnan(a);
    if (a == b)
        return largest ? !signbit(a) : signbit(a) != 0;
    return largest ? a > b : a < b;
}

INLINE union number combine_floats(
    enum family family, symmcoll_op_t op, union number a, union number b)
{
    int twice = family == DOUBLE;

    switch (op) {
    case SYMMCOLL_PRODUCT:
        if (twice)
            a.twice = a.twice * b.twice;
        else
            a.single = a.single * b.single;
        return a;
    case SYMMCOLL_MIN:
    case SYMMCOLL_MAX:
        return goes_first(twice ? a.twice : a.single,
                   twice ? b.twice : b.single, op == SYMMCOLL_MAX)
                   ? a
                   : b;
    default:
        if (twice)
            a.twice = a.twice + b.twice;
        else
            a.single = a.single + b.single;
        return a;
    }
}

INLINE uint64_t combine_bits(
    struct shape shape, symmcoll_op_t op, uint64_t a, uint64_t b)
{
    int less = shape.family == SIGNED ? (int64_t)a < (int64_t)b : a < b;

    switch (op) {
    case SYMMCOLL_PRODUCT:
        return wrap(shape, a * b);
    case SYMMCOLL_MIN:
        return less ? a : b;
    case SYMMCOLL_MAX:
        return less ? b : a;
    case SYMMCOLL_BAND:
        return a & b;
    case SYMMCOLL_BOR:
        return a | b;
    case SYMMCOLL_BXOR:
        return a ^ b;
    default:
        if (shape.family == BOOLEAN)
            return a | b;
        return wrap(shape, a + b);
    }
}

INLINE union number combine(
    struct shape shape, symmcoll_op_t op, union number a, union number b)
{
    if (shape.family >= FLOAT && shape.family <= BFLOAT)
        return combine_floats(shape.family, op, a, b);
    a.bits = combine_bits(shape, op, a.bits, b.bits);
    return a;
}

INLINE union number divide(struct shape shape, union number sum, int nsrc)
{
    if (shape.family == DOUBLE)
        sum.twice = sum.twice / nsrc;
    else if (shape.family == SIGNED)
        sum.bits = (uint64_t)((int64_t)sum.bits / nsrc);
    else if (shape.family == UNSIGNED)
        sum.bits = sum.bits / (uint64_t)nsrc;
    else
        sum.single = sum.single / (float)nsrc;
    return sum;
}

INLINE union number prepare(const struct symc_reduction *reduction,
    struct shape shape, const unsigned char *from, int s)
{
    union number x = load_number(shape, from);

    if (reduction->op == SYMMCOLL_PREMUL_SUM && shape.family == DOUBLE)
        x.twice = x.twice * reduction->factors[s];
    else if (reduction->op == SYMMCOLL_PREMUL_SUM)
        x.single = x.single * (float)reduction->factors[s];
    return x;
}

INLINE void reduce_number(const struct symc_reduction *reduction,
    struct shape shape, unsigned char *to, const unsigned char *const *src,
    int nsrc, size_t at)
{
    union number total = {0};

    for (int first = 0; first < nsrc; first += reduction->block) {
        union number sum = prepare(reduction, shape, src[first] + at, first);

        for (int s = first + 1; s < nsrc && s < first + reduction->block; s++)
            sum = combine(shape, reduction->op, sum,
                prepare(reduction, shape, src[s] + at, s));
        total = first == 0 ? sum : combine(shape, reduction->op, total, sum);
    }
    if (reduction->op == SYMMCOLL_AVG)
        total = divide(shape, total, nsrc);
    store_number(shape, to + at, total);
}

INLINE void reduce_elements(const struct symc_reduction *reduction,
    struct shape shape, unsigned char *out, const unsigned char *const *src,
    int nsrc, size_t count)
{
    for (size_t i = 0; i < count * shape.parts; i++)
        reduce_number(reduction, shape, out, src, nsrc, i * shape.nbytes);
}

/* Calls reduce_elements() with a family known to the compiler. */
void reference_reduce(const struct symc_reduction *reduction,
    unsigned char *out, const unsigned char *const *src, int nsrc, size_t count)
{
    struct shape shape = shape_of(reduction->dtype);

    switch (shape.family) {
    case FLOAT:
        shape = (struct shape){FLOAT, 4, shape.parts};
        reduce_elements(reduction, shape, out, src, nsrc, count);
        break;
    case DOUBLE:
        shape = (struct shape){DOUBLE, 8, shape.parts};
        reduce_elements(reduction, shape, out, src, nsrc, count);
        break;
    case HALF:
        shape = (struct shape){HALF, 2, 1};
        reduce_elements(reduction, shape, out, src, nsrc, count);
        break;
    case BFLOAT:
        shape = (struct shape){BFLOAT, 2, 1};
        reduce_elements(reduction, shape, out, src, nsrc, count);
        break;
    default:
        reduce_elements(reduction, shape, out, src, nsrc, count);
    }
}
