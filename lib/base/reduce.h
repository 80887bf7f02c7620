/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions and copies of host memory, with the processor's vector
 * instructions.
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

/* The parameters of a reduction. */
struct symc_reduction {
    enum symmcoll_dtype dtype;
    symmcoll_op_t op; /* SUM ... PREMUL_SUM, defined for dtype */
    int block;        /* sources are added in blocks of this many, > 0, then the
                         blocks */
    const double *factors; /* PREMUL_SUM: one per source; otherwise NULL */
    bool beyond_caches;    /* all data together exceeds the caches */
};

/*
 * out[i] = src[0][i] op src[1][i] op ... for count elements.
 *
 * out        any alignment; may equal a source, but not overlap one otherwise
 * mirror     receives the same bytes as out; the rules of out apply; may be NULL
 * src        nsrc pointers, > 0; for AVG the sum is divided by nsrc, for
 *            integers towards zero
 * streaming  use non-temporal stores where possible, to out and mirror
 *
 * The bits of a result depend only on the sources and the block size, not on
 * the alignment, the division into chunks, the processor or the thread's
 * floating-point mode, which is set to the default for the time of the call:
 * - a NaN is the type's positive quiet one without payload;
 * - MIN and MAX return NaN if any source is NaN, and -0 is less than +0;
 * - complex numbers are added by parts;
 * - bool: any non-zero byte is true, results are 0 or 1;
 * - PREMUL_SUM multiplies in the type of the sum, float for 16-bit floats, and
 *   rounds before it adds.
 */
void symc_reduce(const struct symc_reduction *reduction, void *out,
    void *mirror, const void *const *src, int nsrc, size_t count,
    bool streaming);

/* The implementation of symc_reduce() for a type and an operation; it runs in
 * the thread's floating-point mode. symc_reduce_find() returns NULL if the
 * operation is not defined for the type. */
typedef void (*symc_reduce_fn)(const struct symc_reduction *reduction,
    void *out, void *mirror, const void *const *src, int nsrc, size_t count,
    bool streaming);
symc_reduce_fn symc_reduce_find(enum symmcoll_dtype dtype, symmcoll_op_t op);

/* memcpy(), with non-temporal stores if streaming.  After streaming copies and
 * reductions call symc_stream_fence() before publishing the result. */
void symc_copy(void *out, const void *in, size_t nbytes, bool streaming);
void symc_stream_fence(void);

/* Returns whether symc_convert() supports a pair of types. */
bool symc_is_convertible(enum symmcoll_dtype from, enum symmcoll_dtype to);

/* Converts in the default floating-point mode: multiplies in float, then rounds
 * to 16 bits if the result has 16 bits.  A NaN becomes the type's positive
 * quiet one without payload. */
void symc_convert(const struct symc_conversion *conversion);

/* The instruction sets that code is compiled for; each level computes the same
 * bits. */
enum symc_simd {
    SYMC_SIMD_BASELINE, /* the minimum of the architecture */
    SYMC_SIMD_AVX2,     /* and F16C */
    SYMC_SIMD_AVX512,   /* of Ice Lake and Zen 4 */
    SYMC_SIMD_BF16,     /* and the bfloat16 instructions */
    SYMC_SIMD_COUNT
};

/* Returns the best level of this processor, which symc_reduce() and symc_copy()
 * use. */
enum symc_simd symc_simd_level(void);

/* Returns the name of that level: "avx512_bf16", "avx512", "avx2" or
 * "baseline". */
const char *symc_simd_name(void);

/* As symc_reduce_find(), symc_convert() and symc_copy(), at a level up to
 * symc_simd_level(). symc_convert_at() runs in the thread's floating-point
 * mode.  For tests. */
symc_reduce_fn symc_reduce_find_at(
    enum symc_simd level, enum symmcoll_dtype dtype, symmcoll_op_t op);
void symc_convert_at(
    enum symc_simd level, const struct symc_conversion *conversion);
void symc_copy_at(enum symc_simd level, void *out, const void *in,
    size_t nbytes, bool streaming);

/* ---- half.c ---- */

/* Convert one element, rounding to nearest, ties to even.  A NaN becomes quiet
 * and keeps its sign and the part of its payload that fits. */
float symc_half_to_float(uint16_t half);
uint16_t symc_float_to_half(float value);
float symc_bfloat16_to_float(uint16_t value);
uint16_t symc_float_to_bfloat16(float value);

#endif
