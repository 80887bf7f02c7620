/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reduction kernels for x86-64 with AVX2 and F16C.
 */
#include "base/reduce_level.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push( \
    __attribute__((target("avx2,f16c,prfchw"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c,prfchw")
#endif

#include "base/reduce_part.h"

#define VECTOR 32
#define LEVEL symc_reduce_avx2
#define LEVEL_NAME "avx2"
#define HAVE_F16C 1
#define HAVE_REPLACE_NAN 1

typedef uint8_t vec __attribute__((vector_size(VECTOR), may_alias));

static inline vec load(const unsigned char *from)
{
    return (vec)_mm256_loadu_si256((const __m256i_u *)from);
}

static inline void store(unsigned char *to, vec x)
{
    _mm256_storeu_si256((__m256i_u *)to, (__m256i)x);
}

static inline void stream(unsigned char *to, vec x)
{
    _mm256_stream_si256((void *)to, (__m256i)x);
}

static inline vec load_half(const unsigned char *from)
{
    return (vec)_mm256_castsi128_si256(
        _mm_loadu_si128((const __m128i_u *)from));
}

static inline __m128i get_half(vec x)
{
    return _mm256_castsi256_si128((__m256i)x);
}

static inline void store_half(unsigned char *to, vec x)
{
    _mm_storeu_si128((__m128i_u *)to, get_half(x));
}

static inline void stream_half(unsigned char *to, vec x)
{
    _mm_stream_si128((void *)to, get_half(x));
}

/* Loads less than a vector; not inlined, to keep load_part() small. */
static __attribute__((noinline)) vec load_fraction(
    const unsigned char *from, size_t n)
{
    if (n <= 16)
        return (vec)_mm256_zextsi128_si256((__m128i)load_words(from, n));
    return (vec)_mm256_set_m128i((__m128i)load_words(from + 16, n - 16),
        _mm_loadu_si128((const __m128i_u *)from));
}

static __attribute__((noinline)) void store_fraction(
    unsigned char *to, vec x, size_t n)
{
    if (n <= 16) {
        store_words(to, (symc_words)get_half(x), n);
    } else {
        store_half(to, x);
        store_words(to + 16,
            (symc_words)_mm256_extracti128_si256((__m256i)x, 1), n - 16);
    }
}

static inline __attribute__((always_inline)) vec load_part(
    const unsigned char *from, size_t n)
{
    return n == VECTOR ? load(from) : load_fraction(from, n);
}

static inline __attribute__((always_inline)) void store_part(
    unsigned char *to, vec x, size_t n)
{
    if (n == VECTOR)
        store(to, x);
    else
        store_fraction(to, x, n);
}

static inline vec extend16(vec x)
{
    return (vec)_mm256_cvtepu16_epi32(get_half(x));
}

static inline vec shorten16(vec x)
{
    __m256i packed = _mm256_packus_epi32((__m256i)x, (__m256i)x);

    /* the instruction packs each half separately: join the two results */
    return (vec)_mm256_permute4x64_epi64(packed, 0x08);
}

static inline vec half_to_float(vec x)
{
    return (vec)_mm256_cvtph_ps(get_half(x));
}

static inline vec float_to_half(vec x)
{
    return (vec)_mm256_castsi128_si256(_mm256_cvtps_ph(
        (__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline vec replace_nan_f32(vec x, vec nan)
{
    __m256 is_nan = _mm256_cmp_ps((__m256)x, (__m256)x, _CMP_UNORD_Q);

    return (vec)_mm256_blendv_ps((__m256)x, (__m256)nan, is_nan);
}

static inline vec replace_nan_f64(vec x, vec nan)
{
    __m256d is_nan = _mm256_cmp_pd((__m256d)x, (__m256d)x, _CMP_UNORD_Q);

    return (vec)_mm256_blendv_pd((__m256d)x, (__m256d)nan, is_nan);
}

#include "base/reduce_kernels.h"
#include "base/reduce_table.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
