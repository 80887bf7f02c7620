/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The steps of reduction kernels on one vector: preparing a source, combining
 * two, finishing the result, and conversions of 16-bit floats.  Included by
 * reduce_kernels.h, which documents the required definitions.
 */

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#define INLINE static inline __attribute__((always_inline))

/* ---- lanes ---- */

#define LANES(T, type) \
    typedef type T __attribute__((vector_size(VECTOR), may_alias))
LANES(v_u8, uint8_t);
LANES(v_i8, int8_t);
LANES(v_u16, uint16_t);
LANES(v_i16, int16_t);
LANES(v_u32, uint32_t);
LANES(v_i32, int32_t);
LANES(v_u64, uint64_t);
LANES(v_i64, int64_t);
LANES(v_f32, float);
LANES(v_f64, double);

/* Returns the lanes of a where mask is set, otherwise those of b. */
INLINE vec select_lanes(vec mask, vec a, vec b)
{
    return (a & mask) | (b & ~mask);
}

/* ---- steps of kernels: prepare a source, combine two, finish ---- */

INLINE vec prepare_nothing(vec x, double factor)
{
    (void)factor;
    return x;
}

INLINE vec finish_nothing(vec x, int nsrc)
{
    (void)nsrc;
    return x;
}

INLINE vec combine_and(vec a, vec b)
{
    return a & b;
}

INLINE vec combine_or(vec a, vec b)
{
    return a | b;
}

INLINE vec combine_xor(vec a, vec b)
{
    return a ^ b;
}

INLINE vec prepare_bool(vec x, double factor)
{
    (void)factor;
    return (vec)((v_u8)x != 0) & 1;
}

#define ARITHMETIC(T)                      \
    INLINE vec add_##T(vec a, vec b)       \
    {                                      \
        return (vec)((v_##T)a + (v_##T)b); \
    }                                      \
    INLINE vec multiply_##T(vec a, vec b)  \
    {                                      \
        return (vec)((v_##T)a * (v_##T)b); \
    }
ARITHMETIC(u8)
ARITHMETIC(u16)
ARITHMETIC(u32)
ARITHMETIC(u64)
ARITHMETIC(f32)
ARITHMETIC(f64)

#define ORDER(T)                                               \
    INLINE vec min_##T(vec a, vec b)                           \
    {                                                          \
        return select_lanes((vec)((v_##T)a < (v_##T)b), a, b); \
    }                                                          \
    INLINE vec max_##T(vec a, vec b)                           \
    {                                                          \
        return select_lanes((vec)((v_##T)a > (v_##T)b), a, b); \
    }
ORDER(u8)
ORDER(i8)
ORDER(u16)
ORDER(i16)
ORDER(u32)
ORDER(i32)
ORDER(u64)
ORDER(i64)

/* Divides in a wide type, because the number of ranks may exceed a lane's
 * range. */
#define INTEGER_MEAN(T, type, wide)                         \
    INLINE vec mean_##T(vec sum, int nsrc)                  \
    {                                                       \
        type lanes[VECTOR / sizeof(type)];                  \
                                                            \
        memcpy(lanes, &sum, sizeof(lanes));                 \
        for (size_t i = 0; i < VECTOR / sizeof(type); i++)  \
            lanes[i] = (type)((wide)lanes[i] / (wide)nsrc); \
        memcpy(&sum, lanes, sizeof(lanes));                 \
        return sum;                                         \
    }
INTEGER_MEAN(u8, uint8_t, uint32_t)
INTEGER_MEAN(i8, int8_t, int32_t)
INTEGER_MEAN(u16, uint16_t, uint32_t)
INTEGER_MEAN(i16, int16_t, int32_t)
INTEGER_MEAN(u32, uint32_t, uint32_t)
INTEGER_MEAN(i32, int32_t, int32_t)
INTEGER_MEAN(u64, uint64_t, uint64_t)
INTEGER_MEAN(i64, int64_t, int64_t)

#if !defined(HAVE_REPLACE_NAN)

INLINE vec replace_nan_f32(vec x, vec nan)
{
    return select_lanes((vec)((v_f32)x == (v_f32)x), x, nan);
}

INLINE vec replace_nan_f64(vec x, vec nan)
{
    return select_lanes((vec)((v_f64)x == (v_f64)x), x, nan);
}

#endif

/*
 * All NaNs are replaced by one: which NaN a sum of several returns depends on
 * the order in which the compiler passes the operands.
 */
#define FLOATING(T, I, type, quiet_nan)                 \
    INLINE vec finish_##T(vec x, int nsrc)              \
    {                                                   \
        v_##I nan = (v_##I){0} + quiet_nan;             \
                                                        \
        (void)nsrc;                                     \
        return replace_nan_##T(x, (vec)nan);            \
    }                                                   \
    INLINE vec divide_##T(vec sum, int nsrc)            \
    {                                                   \
        return (vec)((v_##T)sum / (type)nsrc);          \
    }                                                   \
    INLINE vec mean_##T(vec sum, int nsrc)              \
    {                                                   \
        return finish_##T(divide_##T(sum, nsrc), nsrc); \
    }                                                   \
    INLINE vec premultiply_##T(vec x, double factor)    \
    {                                                   \
        return (vec)((v_##T)x * (type)factor);          \
    }
FLOATING(f32, i32, float, 0x7fc00000)
FLOATING(f64, i64, double, INT64_C(0x7ff8000000000000))

/*
 * Floats are compared as integers: with all bits but the sign flipped in
 * negative numbers, the integers have the order of the floats, with -0 before
 * +0.  A NaN is mapped to the extreme that the operation selects.  The mapping
 * is its own inverse.
 */
#define FLOAT_ORDER(T, I, largest, infinity, quiet_nan)                  \
    INLINE vec flip_##T(vec x)                                           \
    {                                                                    \
        return x ^ (vec)(((v_##I)x < 0) & largest);                      \
    }                                                                    \
    INLINE vec find_nan_##T(vec x)                                       \
    {                                                                    \
        return (vec)(((v_##I)x & largest) > infinity);                   \
    }                                                                    \
    INLINE vec prepare_max_##T(vec x, double factor)                     \
    {                                                                    \
        (void)factor;                                                    \
        return select_lanes(                                             \
            find_nan_##T(x), (vec)((v_##I){0} + largest), flip_##T(x));  \
    }                                                                    \
    INLINE vec prepare_min_##T(vec x, double factor)                     \
    {                                                                    \
        (void)factor;                                                    \
        return select_lanes(                                             \
            find_nan_##T(x), (vec)((v_##I){0} + ~largest), flip_##T(x)); \
    }                                                                    \
    INLINE vec finish_order_##T(vec key, int nsrc)                       \
    {                                                                    \
        vec x = flip_##T(key);                                           \
                                                                         \
        (void)nsrc;                                                      \
        return select_lanes(                                             \
            find_nan_##T(x), (vec)((v_##I){0} + quiet_nan), x);          \
    }
FLOAT_ORDER(f16, i16, (int16_t)0x7fff, (int16_t)0x7c00, (int16_t)0x7e00)
FLOAT_ORDER(bf16, i16, (int16_t)0x7fff, (int16_t)0x7f80, (int16_t)0x7fc0)
FLOAT_ORDER(f32, i32, 0x7fffffff, 0x7f800000, 0x7fc00000)
FLOAT_ORDER(f64, i64, INT64_C(0x7fffffffffffffff), INT64_C(0x7ff0000000000000),
    INT64_C(0x7ff8000000000000))

/* ---- 16-bit floats as float ---- */

INLINE vec widen_nothing(vec x)
{
    return x;
}

INLINE vec widen_bf16(vec raw)
{
    return (vec)((v_u32)extend16(raw) << 16);
}

/* Widen a whole vector: the lower half of each lane is an even element, the
 * upper half an odd one. */
INLINE vec widen_even_bf16(vec raw)
{
    return (vec)((v_u32)raw << 16);
}

INLINE vec widen_odd_bf16(vec raw)
{
    return (vec)((v_u32)raw & 0xffff0000);
}

/* Rounds to nearest, ties to even, in the upper half of each lane; every NaN
 * becomes the positive quiet one. */
INLINE v_u32 round_bf16(vec x)
{
    v_u32 bits = (v_u32)finish_f32(x, 1);

    return bits + 0x7fff + (bits >> 16 & 1);
}

INLINE vec narrow_bf16(vec x)
{
    return shorten16((vec)(round_bf16(x) >> 16));
}

INLINE vec round_and_join_bf16(vec even, vec odd)
{
    return (vec)(round_bf16(even) >> 16 | (round_bf16(odd) & 0xffff0000));
}

#if defined(HAVE_PACK_BF16)

/* The instruction flushes denormal numbers to zero and keeps the payload of a
 * NaN: vectors with such numbers are rounded without it. */
INLINE vec join_bf16(vec even, vec odd)
{
    return __builtin_expect(are_special(even, odd), 0)
               ? round_and_join_bf16(even, odd)
               : pack_bf16(even, odd);
}

#else

INLINE vec join_bf16(vec even, vec odd)
{
    return round_and_join_bf16(even, odd);
}

#endif

#if defined(HAVE_F16C)

INLINE vec widen_f16(vec raw)
{
    return half_to_float(raw);
}

INLINE vec narrow_f16(vec x)
{
    return float_to_half(finish_f32(x, 1));
}

#else

/*
 * Converts without denormal floats as intermediate values, which a caller may
 * have disabled.  All numbers here fit in signed lanes, which more processors
 * can compare.
 */
INLINE vec widen_f16(vec raw)
{
    v_i32 half = (v_i32)extend16(raw);
    v_i32 sign = (half & 0x8000) << 16;
    v_i32 bits = (half & 0x7fff) << 13;
    vec is_high = (vec)(bits >= 0x0f800000);
    vec is_low = (vec)(bits < 0x00800000);
    vec high = (vec)((v_u32)bits + (224u << 23)); /* infinity and NaN */
    vec normal = (vec)(bits + (112 << 23));
    /* 2^-14 + fraction is a normal number; taking 2^-14 away is exact */
    vec low = (vec)((v_f32)(bits + (113 << 23)) - 0x1p-14f);

    return select_lanes(is_high, high, select_lanes(is_low, low, normal)) |
           (vec)sign;
}

/* Rounds to nearest, ties to even. */
INLINE vec narrow_f16(vec sum)
{
    vec x = finish_f32(sum, 1);
    v_i32 bits = (v_i32)x & 0x7fffffff;
    vec is_nan = (vec)(bits > 0x7f800000);
    vec is_high = (vec)(bits >= 0x47800000); /* 2^16 */
    vec is_low = (vec)(bits < 0x38800000);   /* 2^-14 */
    v_u32 rounded =
        (v_u32)bits - (112u << 23) + 0xfff + (v_u32)(bits >> 13 & 1);
    /* the addition shifts and rounds: the unit of 0.5 as a float is 2^-24 */
    vec low = (vec)((v_i32)((v_f32)bits + 0.5f) - 0x3f000000);
    vec half = select_lanes(is_low, low, (vec)(rounded >> 13));

    half = select_lanes(is_high, (vec)((v_i32){0} + 0x7c00), half);
    half = select_lanes(is_nan, (vec)((v_i32){0} + 0x7e00), half);
    return shorten16(half | (vec)((v_u32)x >> 16 & 0x8000));
}

#endif
