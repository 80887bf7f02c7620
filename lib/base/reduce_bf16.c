/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bfloat16 reduction kernels for x86-64 with AVX-512 and its bfloat16
 * instructions.  Other types use reduce_avx512.c.
 */
#include "base/reduce_level.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push(                                    \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,"  \
                          "avx512bf16,avx2,f16c,bmi2,prfchw"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target( \
    "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx2,f16c,bmi2,prfchw")
#endif

#include "base/reduce_512.h"

#define HAVE_PACK_BF16 1

/* Returns whether a float of two vectors is NaN or denormal. */
static inline bool are_special(vec a, vec b)
{
    enum {
        QUIET_NAN = 0x01,
        DENORMAL = 0x20,
        SIGNALING_NAN = 0x80,
        SPECIAL = QUIET_NAN | DENORMAL | SIGNALING_NAN
    };

    return !_kortestz_mask16_u8(_mm512_fpclass_ps_mask((__m512)a, SPECIAL),
        _mm512_fpclass_ps_mask((__m512)b, SPECIAL));
}

/* Packs floats to bfloat16, to nearest, ties to even, with those of `even`
 * below those of `odd`. */
static inline vec pack_bf16(vec even, vec odd)
{
    /* the instruction puts one vector after the other */
    static const uint16_t order[VECTOR / 2] = {0, 16, 1, 17, 2, 18, 3, 19, 4,
        20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
        14, 30, 15, 31};

    return (vec)_mm512_permutexvar_epi16(_mm512_loadu_si512(order),
        (__m512i)_mm512_cvtne2ps_pbh((__m512)odd, (__m512)even));
}

#include "base/reduce_define.h"
#include "base/reduce_kernels.h"

HALF_KERNEL(sum_bf16, bf16, prepare_nothing, add_f32, finish_nothing)
HALF_KERNEL(avg_bf16, bf16, prepare_nothing, add_f32, divide_f32)
HALF_KERNEL(product_bf16, bf16, prepare_nothing, multiply_f32, finish_nothing)
HALF_KERNEL(premul_bf16, bf16, premultiply_f32, add_f32, finish_nothing)

const struct symc_reduce_level symc_reduce_bf16 = {
    .name = "avx512_bf16",
    .reduce = {[SYMMCOLL_BFLOAT16] = {[SYMMCOLL_SUM] = sum_bf16,
                   [SYMMCOLL_AVG] = avg_bf16,
                   [SYMMCOLL_PRODUCT] = product_bf16,
                   [SYMMCOLL_PREMUL_SUM] = premul_bf16}},
    .copy = copy_streaming,
    .others = &symc_reduce_avx512,
};

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
