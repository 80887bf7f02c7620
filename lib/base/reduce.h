/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions and copies of host memory, vectorised for what the processor has.
 *
 * A reduction takes all its sources at once, one per rank in the order of
 * ranks, so that intermediate sums stay in registers: 16-bit floats are added
 * in float and rounded once, and the order of the sum does not depend on the
 * division into chunks.
 */
#ifndef SYMC_BASE_REDUCE_H
#define SYMC_BASE_REDUCE_H

#include "base/conversion.h"

#include <symmcoll/types.h>

#include <stdbool.h>

/* ---- reduce.c ---- */

/* What to compute. */
struct symc_reduction {
    enum symmcoll_dtype dtype;
    symmcoll_op_t op; /* SUM ... PREMUL_SUM, defined for dtype */
    int block; /* sources are added in blocks of so many, then the blocks; > 0
                */
    const double *factors; /* PREMUL_SUM: one for each source; else NULL */
    bool beyond_caches;    /* the whole is more than these hold */
};

/*
 * out[i] = src[0][i] op src[1][i] op ... for count elements.
 *
 * out        any alignment; may be the same as a source, not overlap one
 *            otherwise
 * mirror     receives the same bytes as out, or is NULL; as out
 * src        nsrc pointers, > 0; for AVG the sum is divided by nsrc, for
 *            integers towards zero
 * streaming  use non-temporal stores where that is possible, to out and mirror
 *
 * The bits of a result depend on the sources and the block size alone, not on
 * the alignment, the division into chunks, the processor or the thread's mode of
 * floating-point arithmetic, which is the default meanwhile:
 * - a NaN is the type's positive quiet one without payload;
 * - MIN and MAX return NaN where any source is NaN, and -0 is less than +0;
 * - complex numbers are added by parts;
 * - bool: any non-zero byte is true, results are 0 or 1;
 * - PREMUL_SUM multiplies in the type of the sum, float for 16-bit floats, and
 *   rounds before it adds.
 */
void symc_reduce(const struct symc_reduction *reduction, void *out,
    void *mirror, const void *const *src, int nsrc, size_t count,
    bool streaming);

/* The implementation of symc_reduce() for a type and an operation, in the thread's mode
 * of floating-point arithmetic; NULL where the operation is not defined for the type. */
typedef void (*symc_reduce_fn)(const struct symc_reduction *reduction,
    void *out, void *mirror, const void *const *src, int nsrc, size_t count,
    bool streaming);
symc_reduce_fn symc_reduce_find(enum symmcoll_dtype dtype, symmcoll_op_t op);

/* memcpy(), with non-temporal stores where streaming.  After streaming copies
 * and reductions call symc_stream_fence() before publishing the result. */
void symc_copy(void *out, const void *in, size_t nbytes, bool streaming);
void symc_stream_fence(void);

/* Whether there is a conversion of two types. */
bool symc_is_convertible(enum symmcoll_dtype from, enum symmcoll_dtype to);

/* Multiplied in float, in the default mode, and then rounded to 16 bits where these are the result's; a NaN
 * becomes the type's positive quiet one without payload. */
void symc_convert(const struct symc_conversion *conversion);

/* What the processor must support; each level computes the same bits. */
enum symc_simd {
    SYMC_SIMD_BASELINE, /* what every processor of the architecture has */
    SYMC_SIMD_AVX2,     /* and F16C */
    SYMC_SIMD_AVX512,   /* as of Ice Lake and Zen 4 */
    SYMC_SIMD_BF16,     /* and its instructions for bfloat16 */
    SYMC_SIMD_COUNT
};

/* The best level here, which symc_reduce() and symc_copy() use. */
enum symc_simd symc_simd_level(void);

/* "avx512_bf16", "avx512", "avx2", "baseline": the name of that level. */
const char *symc_simd_name(void);

/* symc_reduce_find(), symc_convert() and symc_copy() at a level up to
 * symc_simd_level(), for tests. */
symc_reduce_fn symc_reduce_find_at(
    enum symc_simd level, enum symmcoll_dtype dtype, symmcoll_op_t op);
void symc_convert_at(
    enum symc_simd level, const struct symc_conversion *conversion);
void symc_copy_at(enum symc_simd level, void *out, const void *in,
    size_t nbytes, bool streaming);

/* ---- half.c ---- */

/* Conversions of one element: rounded to nearest, ties to even; a NaN becomes
 * quiet and keeps its sign and what fits of its payload. */
float symc_half_to_float(uint16_t half);
uint16_t symc_float_to_half(float value);
float symc_bfloat16_to_float(uint16_t value);
uint16_t symc_float_to_bfloat16(float value);

#endif
