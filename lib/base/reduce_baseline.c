/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reduction kernels for any processor: 16-byte vectors, which are SSE2 on
 * x86-64 and NEON on arm64.
 */
#include "base/reduce_level.h"

#include "base/reduce_part.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#define VECTOR 16
#define LEVEL symc_reduce_baseline
#define LEVEL_NAME "baseline"

typedef uint8_t vec __attribute__((vector_size(VECTOR), may_alias));

static inline vec load(const unsigned char *from)
{
    vec x;

    memcpy(&x, from, sizeof(x));
    return x;
}

static inline void store(unsigned char *to, vec x)
{
    memcpy(to, &x, sizeof(x));
}

static inline vec load_half(const unsigned char *from)
{
    symc_words words = {0, 0};

    words[0] = load_word(from, 8);
    return (vec)words;
}

static inline void store_half(unsigned char *to, vec x)
{
    store_word(to, ((symc_words)x)[0], 8);
}

static inline vec load_part(const unsigned char *from, size_t n)
{
    return n == VECTOR ? load(from) : (vec)load_words(from, n);
}

static inline void store_part(unsigned char *to, vec x, size_t n)
{
    if (n == VECTOR)
        store(to, x);
    else
        store_words(to, (symc_words)x, n);
}

#if defined(__x86_64__)

static inline void stream(unsigned char *to, vec x)
{
    _mm_stream_si128((void *)to, (__m128i)x);
}

static inline void stream_half(unsigned char *to, vec x)
{
    _mm_stream_si64((void *)to, _mm_cvtsi128_si64((__m128i)x));
}

static inline vec extend16(vec x)
{
    return (vec)_mm_unpacklo_epi16((__m128i)x, _mm_setzero_si128());
}

static inline vec shorten16(vec x)
{
    /* only a pack of signed numbers exists: make them signed */
    __m128i number = _mm_srai_epi32(_mm_slli_epi32((__m128i)x, 16), 16);

    return (vec)_mm_packs_epi32(number, number);
}

#else

/* Ordinary stores: non-temporal ones are not worthwhile here. */
static inline void stream(unsigned char *to, vec x)
{
    store(to, x);
}

static inline void stream_half(unsigned char *to, vec x)
{
    store_half(to, x);
}

typedef uint16_t lanes16 __attribute__((vector_size(VECTOR / 2)));
typedef uint32_t lanes32 __attribute__((vector_size(VECTOR)));

static inline vec extend16(vec x)
{
    lanes16 low;

    memcpy(&low, &x, sizeof(low));
    return (vec) __builtin_convertvector(low, lanes32);
}

static inline vec shorten16(vec x)
{
    lanes16 low = __builtin_convertvector((lanes32)x, lanes16);
    vec result = {0};

    memcpy(&result, &low, sizeof(low));
    return result;
}

#endif

#include "base/reduce_kernels.h"
#include "base/reduce_table.h"
