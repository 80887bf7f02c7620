/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of reduction kernels of one SIMD level, made of the steps and loops
 * of reduce_kernels.h; included after it.
 */

#include "base/reduce_convert.h"
#include "base/reduce_define.h"

#define SUM_KERNELS(T, nbytes)                                        \
    KERNEL(sum_##T, nbytes, prepare_nothing, add_##T, finish_nothing) \
    KERNEL(product_##T, nbytes, prepare_nothing, multiply_##T, finish_nothing)
SUM_KERNELS(u8, 1)
SUM_KERNELS(u16, 2)
SUM_KERNELS(u32, 4)
SUM_KERNELS(u64, 8)

/* U is the unsigned type of the same size; its sums may wrap. */
#define INTEGER_KERNELS(T, U, nbytes)                                    \
    KERNEL(avg_##T, nbytes, prepare_nothing, add_##U, mean_##T)          \
    KERNEL(min_of_##T, nbytes, prepare_nothing, min_##T, finish_nothing) \
    KERNEL(max_of_##T, nbytes, prepare_nothing, max_##T, finish_nothing)
INTEGER_KERNELS(u8, u8, 1)
INTEGER_KERNELS(i8, u8, 1)
INTEGER_KERNELS(u16, u16, 2)
INTEGER_KERNELS(i16, u16, 2)
INTEGER_KERNELS(u32, u32, 4)
INTEGER_KERNELS(i32, u32, 4)
INTEGER_KERNELS(u64, u64, 8)
INTEGER_KERNELS(i64, u64, 8)

#define FLOAT_KERNELS(T, I, nbytes)                                        \
    KERNEL(sum_##T, nbytes, prepare_nothing, add_##T, finish_##T)          \
    KERNEL(avg_##T, nbytes, prepare_nothing, add_##T, mean_##T)            \
    KERNEL(product_##T, nbytes, prepare_nothing, multiply_##T, finish_##T) \
    KERNEL(premul_##T, nbytes, premultiply_##T, add_##T, finish_##T)       \
    KERNEL(min_of_##T, nbytes, prepare_min_##T, min_##I, finish_order_##T) \
    KERNEL(max_of_##T, nbytes, prepare_max_##T, max_##I, finish_order_##T)
FLOAT_KERNELS(f32, i32, 4)
FLOAT_KERNELS(f64, i64, 8)

HALF_KERNELS(f16)
HALF_KERNELS(bf16)

#define COMPLEX_KERNELS(T, part)     \
    MULTIPLE(sum_##T, sum_##part, 2) \
    MULTIPLE(avg_##T, avg_##part, 2) \
    MULTIPLE(premul_##T, premul_##part, 2)
COMPLEX_KERNELS(c64, f32)
COMPLEX_KERNELS(c128, f64)

#define BIT_KERNELS(op)                                                 \
    KERNEL(b##op##_1, 1, prepare_nothing, combine_##op, finish_nothing) \
    MULTIPLE(b##op##_2, b##op##_1, 2)                                   \
    MULTIPLE(b##op##_4, b##op##_1, 4)                                   \
    MULTIPLE(b##op##_8, b##op##_1, 8)                                   \
    KERNEL(bool_##op, 1, prepare_bool, combine_##op, finish_nothing)
BIT_KERNELS(and)
BIT_KERNELS(or)
BIT_KERNELS(xor)

#define INTEGER_ROW(T, U, nbytes)                                       \
    {                                                                   \
        [SYMMCOLL_SUM] = sum_##U, [SYMMCOLL_AVG] = avg_##T,             \
        [SYMMCOLL_PRODUCT] = product_##U, [SYMMCOLL_MIN] = min_of_##T,  \
        [SYMMCOLL_MAX] = max_of_##T, [SYMMCOLL_BAND] = band_##nbytes,   \
        [SYMMCOLL_BOR] = bor_##nbytes, [SYMMCOLL_BXOR] = bxor_##nbytes, \
    }
#define COMPLEX_ROW(T)                                      \
    {                                                       \
        [SYMMCOLL_SUM] = sum_##T, [SYMMCOLL_AVG] = avg_##T, \
        [SYMMCOLL_PREMUL_SUM] = premul_##T,                 \
    }
#define BOOL_ROW                                                 \
    {                                                            \
        [SYMMCOLL_SUM] = bool_or, [SYMMCOLL_PRODUCT] = bool_and, \
        [SYMMCOLL_MIN] = bool_and, [SYMMCOLL_MAX] = bool_or,     \
        [SYMMCOLL_BAND] = bool_and, [SYMMCOLL_BOR] = bool_or,    \
        [SYMMCOLL_BXOR] = bool_xor,                              \
    }

const struct symc_reduce_level LEVEL = {
    .name = LEVEL_NAME,
    .reduce =
        {
            [SYMMCOLL_UINT8] = INTEGER_ROW(u8, u8, 1),
            [SYMMCOLL_INT8] = INTEGER_ROW(i8, u8, 1),
            [SYMMCOLL_INT16] = INTEGER_ROW(i16, u16, 2),
            [SYMMCOLL_INT32] = INTEGER_ROW(i32, u32, 4),
            [SYMMCOLL_INT64] = INTEGER_ROW(i64, u64, 8),
            [SYMMCOLL_FLOAT16] = FLOAT_ROW(f16),
            [SYMMCOLL_BFLOAT16] = FLOAT_ROW(bf16),
            [SYMMCOLL_FLOAT32] = FLOAT_ROW(f32),
            [SYMMCOLL_FLOAT64] = FLOAT_ROW(f64),
            [SYMMCOLL_BOOL] = BOOL_ROW,
            [SYMMCOLL_COMPLEX64] = COMPLEX_ROW(c64),
            [SYMMCOLL_COMPLEX128] = COMPLEX_ROW(c128),
            [SYMMCOLL_UINT16] = INTEGER_ROW(u16, u16, 2),
            [SYMMCOLL_UINT32] = INTEGER_ROW(u32, u32, 4),
            [SYMMCOLL_UINT64] = INTEGER_ROW(u64, u64, 8),
        },
    .narrow = {[SYMMCOLL_FLOAT16] = narrow_to_f16,
        [SYMMCOLL_BFLOAT16] = narrow_to_bf16},
    .widen = {[SYMMCOLL_FLOAT16] = widen_from_f16,
        [SYMMCOLL_BFLOAT16] = widen_from_bf16},
    .copy = copy_streaming,
};
