/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The AVX-512 vectors that reduce_kernels.h requires.  Parts of vectors are
 * loaded and stored under a mask, which touches no other byte.
 */

#define VECTOR 64
#define HAVE_F16C 1
#define HAVE_REPLACE_NAN 1

typedef uint8_t vec __attribute__((vector_size(VECTOR), may_alias));

static inline vec load(const unsigned char *from)
{
    return (vec)_mm512_loadu_si512(from);
}

static inline void store(unsigned char *to, vec x)
{
    _mm512_storeu_si512(to, (__m512i)x);
}

static inline void stream(unsigned char *to, vec x)
{
    _mm512_stream_si512((void *)to, (__m512i)x);
}

static inline vec load_half(const unsigned char *from)
{
    return (vec)_mm512_castsi256_si512(
        _mm256_loadu_si256((const __m256i_u *)from));
}

static inline __m256i get_half(vec x)
{
    return _mm512_castsi512_si256((__m512i)x);
}

static inline void store_half(unsigned char *to, vec x)
{
    _mm256_storeu_si256((__m256i_u *)to, get_half(x));
}

static inline void stream_half(unsigned char *to, vec x)
{
    _mm256_stream_si256((void *)to, get_half(x));
}

/* Returns the mask of the lower n bytes, n <= 64. */
static inline __mmask64 mask_bytes(size_t n)
{
    return _bzhi_u64(UINT64_MAX, (unsigned int)n);
}

static inline vec load_part(const unsigned char *from, size_t n)
{
    return (vec)_mm512_maskz_loadu_epi8(mask_bytes(n), from);
}

static inline void store_part(unsigned char *to, vec x, size_t n)
{
    _mm512_mask_storeu_epi8(to, mask_bytes(n), (__m512i)x);
}

static inline vec extend16(vec x)
{
    return (vec)_mm512_cvtepu16_epi32(get_half(x));
}

static inline vec shorten16(vec x)
{
    return (vec)_mm512_castsi256_si512(_mm512_cvtepi32_epi16((__m512i)x));
}

static inline vec half_to_float(vec x)
{
    return (vec)_mm512_cvtph_ps(get_half(x));
}

static inline vec float_to_half(vec x)
{
    return (vec)_mm512_castsi256_si512(_mm512_cvtps_ph(
        (__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline vec replace_nan_f32(vec x, vec nan)
{
    __mmask16 is_nan = _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);

    return (vec)_mm512_mask_mov_epi32((__m512i)x, is_nan, (__m512i)nan);
}

static inline vec replace_nan_f64(vec x, vec nan)
{
    __mmask8 is_nan = _mm512_cmp_pd_mask((__m512d)x, (__m512d)x, _CMP_UNORD_Q);

    return (vec)_mm512_mask_mov_epi64((__m512i)x, is_nan, (__m512i)nan);
}
