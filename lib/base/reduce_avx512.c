/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reduction kernels for x86-64 with AVX-512 (F, BW, VL, DQ) and BMI2.
 */
#include "base/reduce_level.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push(                                                 \
    __attribute__((                                                           \
        target("avx512f,avx512bw,avx512vl,avx512dq,avx2,f16c,bmi2,prfchw"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,f16c,bmi2,prfchw")
#endif

#define LEVEL symc_reduce_avx512
#define LEVEL_NAME "avx512"

#include "base/reduce_512.h"
#include "base/reduce_kernels.h"
#include "base/reduce_table.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
