/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selects the SIMD level of this processor, and runs reductions and copies at
 * that level.  The level is determined at each call: that takes a few tests of
 * what the compiler's run-time library detected at start, and needs no state
 * here.
 */
#include "base/reduce.h"

#include "base/floating.h"
#include "base/reduce_level.h"

#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#if defined(__x86_64__)

/* Every processor with AVX2 has F16C, which clang cannot test for. */
static bool has_avx2_and_f16c(void)
{
#if defined(__clang__)
    return __builtin_cpu_supports("avx2");
#else
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
#endif
}

#endif

enum symc_simd symc_simd_level(void)
{
#if defined(__x86_64__)
    /*
     * AVX-512 is used only on processors that do not slow down for it: all of
     * them have VBMI2, and none of the older ones.
     */
    if (__builtin_cpu_supports("avx512vbmi2") &&
        __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("bmi2"))
        return __builtin_cpu_supports("avx512bf16") ? SYMC_SIMD_BF16
                                                    : SYMC_SIMD_AVX512;
    if (has_avx2_and_f16c())
        return SYMC_SIMD_AVX2;
#endif
    return SYMC_SIMD_BASELINE;
}

static const struct symc_reduce_level *get_level(enum symc_simd simd)
{
#if defined(__x86_64__)
    if (simd == SYMC_SIMD_BF16)
        return &symc_reduce_bf16;
    if (simd == SYMC_SIMD_AVX512)
        return &symc_reduce_avx512;
    if (simd == SYMC_SIMD_AVX2)
        return &symc_reduce_avx2;
#else
    (void)simd;
#endif
    return &symc_reduce_baseline;
}

static symc_reduce_fn find(const struct symc_reduce_level *level,
    enum symmcoll_dtype dtype, symmcoll_op_t op)
{
    symc_reduce_fn reduce = level->reduce[dtype][op];

    return reduce == NULL && level->others != NULL
               ? level->others->reduce[dtype][op]
               : reduce;
}

const char *symc_simd_name(void)
{
    return get_level(symc_simd_level())->name;
}

symc_reduce_fn symc_reduce_find_at(
    enum symc_simd level, enum symmcoll_dtype dtype, symmcoll_op_t op)
{
    unsigned int row = (unsigned int)dtype;
    unsigned int column = (unsigned int)op;

    if (row >= SYMMCOLL_DTYPE_COUNT || column >= SYMMCOLL_OP_COUNT)
        return NULL;
    return find(get_level(level), dtype, op);
}

symc_reduce_fn symc_reduce_find(enum symmcoll_dtype dtype, symmcoll_op_t op)
{
    return symc_reduce_find_at(symc_simd_level(), dtype, op);
}

void symc_reduce(const struct symc_reduction *reduction, void *out,
    void *mirror, const void *const *src, int nsrc, size_t count,
    bool streaming)
{
    symc_reduce_fn reduce =
        find(get_level(symc_simd_level()), reduction->dtype, reduction->op);
    uint64_t mode = symc_floating_set_default();

    reduce(reduction, out, mirror, src, nsrc, count, streaming);
    symc_floating_restore(mode);
}

bool symc_is_convertible(enum symmcoll_dtype from, enum symmcoll_dtype to)
{
    const bool narrows = from == SYMMCOLL_FLOAT32;
    const enum symmcoll_dtype other = narrows ? to : from;

    return (narrows || to == SYMMCOLL_FLOAT32) &&
           (other == SYMMCOLL_FLOAT16 || other == SYMMCOLL_BFLOAT16);
}

/* A level with `others` has no conversions of its own. */
void symc_convert_at(
    enum symc_simd simd, const struct symc_conversion *conversion)
{
    const struct symc_reduce_level *level = get_level(simd);
    symc_convert_fn convert;

    if (level->others != NULL)
        level = level->others;
    convert = conversion->from == SYMMCOLL_FLOAT32
                  ? level->narrow[conversion->to]
                  : level->widen[conversion->from];
    convert(conversion->out, conversion->in, conversion->count,
        (float)conversion->factor);
}

void symc_convert(const struct symc_conversion *conversion)
{
    uint64_t mode = symc_floating_set_default();

    symc_convert_at(symc_simd_level(), conversion);
    symc_floating_restore(mode);
}

void symc_copy_at(enum symc_simd level, void *out, const void *in,
    size_t nbytes, bool streaming)
{
    if (nbytes == 0 || out == in)
        return;
    if (streaming)
        get_level(level)->copy(out, in, nbytes);
    else
        memcpy(out, in, nbytes);
}

void symc_copy(void *out, const void *in, size_t nbytes, bool streaming)
{
    symc_copy_at(symc_simd_level(), out, in, nbytes, streaming);
}

void symc_stream_fence(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}
