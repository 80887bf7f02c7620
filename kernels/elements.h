/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Elements in registers: unpacking 16 bytes of a type, combining them, packing
 * them again.  The type is a constant wherever these functions are called, so
 * that a kernel keeps the branches of its own type only; the operation is an
 * argument of the kernel, and the same for all threads.
 *
 * The results have the bits of symc_reduce() with one block of sources
 * (lib/base/reduce.h), which is the reference of these functions.
 */
#ifndef SYMC_KERNELS_ELEMENTS_H
#define SYMC_KERNELS_ELEMENTS_H

#include "kernels/device.h"

#include <math.h>
#include <symmcoll/types.h>

/* ---- types ---- */

#define ELEMENTS_MAX 16 /* of a vector */

/* The type in which elements are combined. */
enum wide_class {
    AS_FLOAT,
    AS_DOUBLE,
    AS_UINT32,
    AS_UINT64
};

DEVICE enum wide_class class_of(enum symmcoll_dtype type)
{
    switch (type) {
    case SYMMCOLL_FLOAT16:
    case SYMMCOLL_BFLOAT16:
    case SYMMCOLL_FLOAT32:
        return AS_FLOAT;
    case SYMMCOLL_FLOAT64:
        return AS_DOUBLE;
    case SYMMCOLL_INT64:
    case SYMMCOLL_UINT64:
        return AS_UINT64;
    default:
        return AS_UINT32;
    }
}

DEVICE bool has_sign(enum symmcoll_dtype type)
{
    return type == SYMMCOLL_INT8 || type == SYMMCOLL_INT16 ||
           type == SYMMCOLL_INT32 || type == SYMMCOLL_INT64;
}

DEVICE uint32_t nbytes_of(enum symmcoll_dtype type)
{
    switch (type) {
    case SYMMCOLL_FLOAT64:
    case SYMMCOLL_INT64:
    case SYMMCOLL_UINT64:
        return 8;
    case SYMMCOLL_FLOAT32:
    case SYMMCOLL_INT32:
    case SYMMCOLL_UINT32:
        return 4;
    case SYMMCOLL_FLOAT16:
    case SYMMCOLL_BFLOAT16:
    case SYMMCOLL_INT16:
    case SYMMCOLL_UINT16:
        return 2;
    default:
        return 1;
    }
}

/* Each type that is reduced, with its name in those of kernels. */
#define EACH_TYPE(K)           \
    K(u8, SYMMCOLL_UINT8)      \
    K(i8, SYMMCOLL_INT8)       \
    K(i16, SYMMCOLL_INT16)     \
    K(i32, SYMMCOLL_INT32)     \
    K(i64, SYMMCOLL_INT64)     \
    K(f16, SYMMCOLL_FLOAT16)   \
    K(bf16, SYMMCOLL_BFLOAT16) \
    K(f32, SYMMCOLL_FLOAT32)   \
    K(f64, SYMMCOLL_FLOAT64)   \
    K(bool, SYMMCOLL_BOOL)     \
    K(u16, SYMMCOLL_UINT16)    \
    K(u32, SYMMCOLL_UINT32)    \
    K(u64, SYMMCOLL_UINT64)

/* 16 bytes of elements as they are combined; the members of one class are in
 * use. */
struct elements {
    float f[8];
    double d[2];
    uint32_t u[ELEMENTS_MAX];
    uint64_t l[2];
};

/* ---- combining ---- */

#define wide float
#define OF(name) name##_floats
#include "kernels/combine_floats.h"
#undef wide
#undef OF

#define wide double
#define OF(name) name##_doubles
#include "kernels/combine_floats.h"
#undef wide
#undef OF

#define wide uint32_t
#define with_sign int32_t
#define OF(name) name##_uint32
#include "kernels/combine_integers.h"
#undef wide
#undef with_sign
#undef OF

#define wide uint64_t
#define with_sign int64_t
#define OF(name) name##_uint64
#include "kernels/combine_integers.h"
#undef wide
#undef with_sign
#undef OF

/* A bool is 0 or anything else; the sum is the logical or. */
DEVICE uint32_t bool_op(uint32_t op)
{
    switch (op) {
    case SYMMCOLL_SUM:
    case SYMMCOLL_MAX:
        return SYMMCOLL_BOR;
    case SYMMCOLL_PRODUCT:
    case SYMMCOLL_MIN:
        return SYMMCOLL_BAND;
    default:
        return op;
    }
}

DEVICE void combine(struct elements *a, const struct elements *b,
    enum symmcoll_dtype type, uint32_t op)
{
    const int n = (int)(SYMC_VECTOR / nbytes_of(type));

    if (type == SYMMCOLL_BOOL)
        op = bool_op(op);
    switch (class_of(type)) {
    case AS_FLOAT:
        combine_floats(a->f, b->f, n, op);
        break;
    case AS_DOUBLE:
        combine_doubles(a->d, b->d, n, op);
        break;
    case AS_UINT32:
        combine_uint32(a->u, b->u, n, op, has_sign(type));
        break;
    case AS_UINT64:
        combine_uint64(a->l, b->l, n, op, has_sign(type));
    }
}

/* ---- unpacking ---- */

/* Byte or half of a word, extended to 32 bits. */
DEVICE uint32_t extend(uint32_t word, uint32_t at, enum symmcoll_dtype type)
{
    const uint32_t bits = 8 * nbytes_of(type);

    if (bits == 32)
        return word;
    word >>= at * bits;
    if (has_sign(type))
        return (uint32_t)((int32_t)(word << (32 - bits)) >> (32 - bits));
    word &= (1u << bits) - 1;
    return type == SYMMCOLL_BOOL ? word != 0 : word;
}

DEVICE float to_float(uint32_t bits, enum symmcoll_dtype type)
{
    float value;

    if (type == SYMMCOLL_FLOAT16)
        return half_to_float((uint16_t)bits);
    if (type == SYMMCOLL_BFLOAT16)
        return bfloat16_to_float((uint16_t)bits);
    memcpy(&value, &bits, sizeof(value));
    return value;
}

DEVICE void unpack(struct elements *to, struct symc_vector vector,
    enum symmcoll_dtype type, uint32_t op, double factor)
{
    const uint32_t in_word = 4 / nbytes_of(type); /* 0: two words are one */

    if (in_word == 0) {
        UNROLL
        for (int i = 0; i < 2; i++)
            to->l[i] =
                (uint64_t)vector.word[2 * i + 1] << 32 | vector.word[2 * i];
        if (class_of(type) == AS_DOUBLE) {
            memcpy(to->d, to->l, sizeof(to->d));
            prepare_doubles(to->d, 2, op, factor);
        }
        return;
    }
    UNROLL
    for (uint32_t i = 0; i < 4 * in_word; i++)
        to->u[i] = extend(vector.word[i / in_word], i % in_word, type);
    if (class_of(type) == AS_FLOAT) {
        UNROLL
        for (uint32_t i = 0; i < 4 * in_word; i++)
            to->f[i] = to_float(to->u[i], type);
        prepare_floats(to->f, (int)(4 * in_word), op, factor);
    }
}

/* ---- packing ---- */

DEVICE uint32_t from_float(float value, enum symmcoll_dtype type)
{
    uint32_t bits;

    if (type == SYMMCOLL_FLOAT16)
        return value != value ? 0x7e00 : float_to_half(value);
    if (type == SYMMCOLL_BFLOAT16)
        return value != value ? 0x7fc0 : float_to_bfloat16(value);
    memcpy(&bits, &value, sizeof(bits));
    return value != value ? 0x7fc00000 : bits;
}

DEVICE uint64_t from_double(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return value != value ? UINT64_C(0x7ff8000000000000) : bits;
}

/* The mean of integers is rounded towards zero, after the sum has wrapped
 * around in its own type. */
DEVICE uint32_t mean_uint32(
    uint32_t sum, uint32_t nsrc, enum symmcoll_dtype type)
{
    sum = extend(sum, 0, type);
    return has_sign(type) ? (uint32_t)((int32_t)sum / (int32_t)nsrc)
                          : sum / nsrc;
}

DEVICE uint64_t mean_uint64(
    uint64_t sum, uint32_t nsrc, enum symmcoll_dtype type)
{
    return has_sign(type) ? (uint64_t)((int64_t)sum / (int64_t)nsrc)
                          : sum / nsrc;
}

DEVICE struct symc_vector pack_wide(
    struct elements *from, enum symmcoll_dtype type, uint32_t op, uint32_t nsrc)
{
    struct symc_vector vector;

    UNROLL
    for (int i = 0; i < 2; i++) {
        if (class_of(type) == AS_DOUBLE) {
            finish_doubles(&from->d[i], 1, op, nsrc);
            from->l[i] = from_double(from->d[i]);
        } else if (op == SYMMCOLL_AVG) {
            from->l[i] = mean_uint64(from->l[i], nsrc, type);
        }
        vector.word[2 * i] = (uint32_t)from->l[i];
        vector.word[2 * i + 1] = (uint32_t)(from->l[i] >> 32);
    }
    return vector;
}

DEVICE struct symc_vector pack(
    struct elements *from, enum symmcoll_dtype type, uint32_t op, uint32_t nsrc)
{
    const uint32_t bits = 8 * nbytes_of(type), in_word = 32 / bits;
    struct symc_vector vector = {{0, 0, 0, 0}};

    if (bits == 64)
        return pack_wide(from, type, op, nsrc);
    if (class_of(type) == AS_FLOAT)
        finish_floats(from->f, (int)(4 * in_word), op, nsrc);
    UNROLL
    for (uint32_t i = 0; i < 4 * in_word; i++) {
        uint32_t one = from->u[i];

        if (class_of(type) == AS_FLOAT)
            one = from_float(from->f[i], type);
        else if (op == SYMMCOLL_AVG)
            one = mean_uint32(one, nsrc, type);
        if (bits < 32)
            one &= (1u << bits % 32) - 1;
        vector.word[i / in_word] |= one << i % in_word * bits;
    }
    return vector;
}

#endif
