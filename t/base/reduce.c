/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests every reduction at every SIMD level of this processor against
 * reference.c: in and out of place, mirrored, streamed, at any alignment and
 * count, with the same bits.
 */
#include "../floating.h"
#include "../sanitized.h"
#include "../tap.h"
#include "reference.h"

#include "base/dtype.h"

#include <stdlib.h>
#include <string.h>

#define MAX_NSRC 33
#define MAX_COUNT 2300
#define MAX_NBYTES (MAX_COUNT * 16)
#define GUARD 64  /* untouched bytes around what is written */
#define SHIFTS 16 /* space to shift a buffer */

static const int nsrcs[] = {1, 2, 3, 4, 5, 16, 17, 33};
/* The step through the cases. All run in one thread, so ThreadSanitizer does
 * not need each. */
#define NSRCS_STEP (THREADS_CHECKED ? 4 : 1)
static const size_t counts[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33,
    63, 64, 65, 127, 129, 513, MAX_COUNT};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static unsigned char sources[MAX_NSRC][MAX_NBYTES + SHIFTS];
static unsigned char work[MAX_NSRC][MAX_NBYTES + SHIFTS];
static unsigned char expected[MAX_NBYTES];
static _Alignas(64) unsigned char outputs[2][MAX_NBYTES + 2 * GUARD + SHIFTS];
static double factors[MAX_NSRC];

/* A generator of our own, which produces the same numbers in every run and on
 * every machine. */
static uint64_t state = 88172645463325252u;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Fills with small numbers of both signs, sometimes with any bits: NaN,
 * infinities, denormals, both zeros. */
static void fill_floats(unsigned char *to, enum symmcoll_dtype dtype, size_t i)
{
    float value = (float)((int64_t)(next_random() % 4001) - 2000) / 64;
    double twice = value;
    uint64_t any = next_random();
    uint16_t half;
    int wild = next_random() % 32 == 0;

    if (wild && any % 3 == 0) {
        value = any & 4 ? 0.0f : -0.0f;
        twice = value;
        wild = 0;
    }
    switch (dtype) {
    case SYMMCOLL_FLOAT16:
    case SYMMCOLL_BFLOAT16:
        half = dtype == SYMMCOLL_FLOAT16 ? symc_float_to_half(value)
                                         : symc_float_to_bfloat16(value);
        memcpy(to + 2 * i, wild ? (const void *)&any : &half, 2);
        break;
    case SYMMCOLL_FLOAT64:
    case SYMMCOLL_COMPLEX128:
        if (any & 8)
            any |= UINT64_C(0x7ff0000000000000);
        memcpy(to + 8 * i, wild ? (const void *)&any : &twice, 8);
        break;
    default:
        if (any & 8)
            any |= 0x7f800000;
        memcpy(to + 4 * i, wild ? (const void *)&any : &value, 4);
    }
}

static void fill_sources(enum symmcoll_dtype dtype)
{
    size_t size = symmcoll_dtype_size(dtype);
    int is_float = dtype == SYMMCOLL_FLOAT16 || dtype == SYMMCOLL_BFLOAT16 ||
                   dtype == SYMMCOLL_FLOAT32 || dtype == SYMMCOLL_FLOAT64 ||
                   dtype == SYMMCOLL_COMPLEX64 || dtype == SYMMCOLL_COMPLEX128;
    size_t parts =
        dtype == SYMMCOLL_COMPLEX64 || dtype == SYMMCOLL_COMPLEX128 ? 2 : 1;

    for (int s = 0; s < MAX_NSRC; s++) {
        factors[s] = (double)(s + 1) / 3 * (s % 2 ? -1 : 1);
        for (size_t i = 0; is_float && i < MAX_COUNT * parts; i++)
            fill_floats(sources[s], dtype, i);
        for (size_t i = 0; !is_float && i < MAX_COUNT * size; i++)
            sources[s][i] = (unsigned char)next_random();
        /* otherwise almost all values of bool would be true */
        for (size_t i = 0; dtype == SYMMCOLL_BOOL && i < MAX_COUNT; i++)
            sources[s][i] &= s % 3 == 0 ? 0xff : sources[s][i] & 1 ? 0x81 : 0;
    }
}

/* One way to call a kernel. */
struct variant {
    const char *name;
    size_t out_shift; /* from an aligned address */
    size_t src_shift;
    size_t mirror_shift;
    bool mirror;
    bool streaming;
    int in_place; /* the source that is also the output, or -1 */
    bool both;    /* the next source is the mirror */
};
static const struct variant variants[] = {
    {"plain", 0, 0, 0, false, false, -1, false},
    {"unaligned", 8, 3, 0, false, false, -1, false},
    {"odd", 1, 5, 2, true, false, -1, false},
    {"mirrored", 0, 0, 0, true, false, -1, false},
    {"streamed", 0, 0, 0, false, true, -1, false},
    {"streamed twice", 8, 4, 8, true, true, -1, false},
    {"streamed twice, moved", 4, 4, 9, true, true, -1, false},
    {"in place of the first", 0, 0, 7, true, false, 0, false},
    {"in place of the last, streamed", 0, 9, 0, false, true, MAX_NSRC, false},
    {"in place of two", 0, 0, 0, true, false, 0, true},
    {"in place of two, unaligned", 2, 3, 5, true, false, 0, true},
};

struct test {
    struct symc_reduction reduction;
    enum symc_simd level;
    int nsrc;
    size_t count;
};

static int is_untouched(const unsigned char *from, const unsigned char *end)
{
    for (; from < end; from++) {
        if (*from != 0xa5)
            return 0;
    }
    return 1;
}

/* Checks the bytes at a place of a filled output, and that bytes around them
 * are unchanged. */
static int is_right(const unsigned char *buffer, size_t shift, size_t nbytes)
{
    const unsigned char *begin = buffer + GUARD + shift;

    return memcmp(begin, expected, nbytes) == 0 &&
           is_untouched(buffer, begin) &&
           is_untouched(begin + nbytes, begin + nbytes + GUARD);
}

static int variant_holds(const struct test *test, const struct variant *variant)
{
    size_t nbytes = test->count * symmcoll_dtype_size(test->reduction.dtype);
    const void *src[MAX_NSRC];
    unsigned char *out = outputs[0] + GUARD + variant->out_shift;
    unsigned char *mirror = outputs[1] + GUARD + variant->mirror_shift;
    int place = variant->in_place;
    symc_reduce_fn reduce = symc_reduce_find_at(
        test->level, test->reduction.dtype, test->reduction.op);

    memset(outputs[0], 0xa5, nbytes + 2 * GUARD + SHIFTS);
    memset(outputs[1], 0xa5, nbytes + 2 * GUARD + SHIFTS);
    for (int s = 0; s < test->nsrc; s++) {
        memcpy(work[s] + variant->src_shift, sources[s], nbytes);
        src[s] = work[s] + variant->src_shift;
    }
    if (place >= 0) {
        place = place < test->nsrc ? place : test->nsrc - 1;
        memcpy(out, src[place], nbytes);
        src[place] = out;
    }
    if (variant->both && test->nsrc > 1) {
        memcpy(mirror, src[1], nbytes);
        src[1] = mirror;
    }
    reduce(&test->reduction, out, variant->mirror ? mirror : NULL, src,
        test->nsrc, test->count, variant->streaming);
    symc_stream_fence();
    if (is_right(outputs[0], variant->out_shift, nbytes) &&
        (!variant->mirror ||
            is_right(outputs[1], variant->mirror_shift, nbytes)))
        return 1;
    diag("%s, level %d, %d sources in blocks of %d, count %zu", variant->name,
        (int)test->level, test->nsrc, test->reduction.block, test->count);
    return 0;
}

static int all_variants_hold(
    enum symmcoll_dtype dtype, symmcoll_op_t op, int nsrc, int block)
{
    /* With two sources and blocks of one rank the other loop runs. */
    struct test test = {
        {dtype, op, block, NULL, block == 1}, SYMC_SIMD_BASELINE, nsrc, 0};
    const unsigned char *src[MAX_NSRC];

    if (op == SYMMCOLL_PREMUL_SUM)
        test.reduction.factors = factors;
    for (int s = 0; s < nsrc; s++)
        src[s] = sources[s];
    reference_reduce(&test.reduction, expected, src, nsrc, MAX_COUNT);
    for (int level = 0; level <= (int)symc_simd_level(); level++) {
        for (size_t c = 0; c < LENGTH(counts); c++) {
            test.level = (enum symc_simd)level;
            test.count = counts[c];
            for (size_t v = 0; v < LENGTH(variants); v++) {
                if (!variant_holds(&test, &variants[v]))
                    return 0;
            }
        }
    }
    return 1;
}

static int all_numbers_of_sources_hold(
    enum symmcoll_dtype dtype, symmcoll_op_t op)
{
    for (size_t n = 0; n < LENGTH(nsrcs); n += NSRCS_STEP) {
        if (!all_variants_hold(dtype, op, nsrcs[n], 16))
            return 0;
    }
    return all_variants_hold(dtype, op, 2, 1) &&
           all_variants_hold(dtype, op, 5, 2);
}

/* Checks means over more ranks than a number of the type can represent:
 * nothing is divided by a truncated number of ranks. */
static int mean_of_many_holds(enum symmcoll_dtype dtype, int nsrc)
{
    const unsigned char **src = calloc((size_t)nsrc, sizeof(*src));
    struct symc_reduction reduction = {dtype, SYMMCOLL_AVG, 16, NULL, false};
    int holds = src != NULL;

    for (int s = 0; holds && s < nsrc; s++)
        src[s] = sources[s % MAX_NSRC];
    if (holds)
        reference_reduce(&reduction, expected, src, nsrc, 100);
    for (int level = 0; holds && level <= (int)symc_simd_level(); level++) {
        symc_reduce_find_at((enum symc_simd)level, dtype, SYMMCOLL_AVG)(
            &reduction, outputs[0], NULL, (const void *const *)src, nsrc, 100,
            false);
        holds =
            memcmp(outputs[0], expected, 100 * symmcoll_dtype_size(dtype)) == 0;
    }
    free(src);
    return holds;
}

static int functions_are_for_what_is_defined(void)
{
    for (int d = 0; d < SYMMCOLL_DTYPE_COUNT; d++) {
        enum symmcoll_dtype dtype = (enum symmcoll_dtype)d;

        for (symmcoll_op_t op = 0; op < SYMMCOLL_OP_COUNT; op++) {
            bool defined = symc_dtype_reduces(symc_dtype_find(dtype), op);

            for (int level = 0; level < SYMC_SIMD_COUNT; level++) {
                symc_reduce_fn found =
                    symc_reduce_find_at((enum symc_simd)level, dtype, op);

                if ((found != NULL) != defined)
                    return 0;
            }
        }
    }
    return symc_reduce_find((enum symmcoll_dtype)99, 0) == NULL &&
           symc_reduce_find(SYMMCOLL_FLOAT32, -1) == NULL &&
           symc_reduce_find(SYMMCOLL_FLOAT32, 99) == NULL;
}

static int reduce_takes_the_best_level(void)
{
    static const char *const names[] = {
        "baseline", "avx2", "avx512", "avx512_bf16"};
    struct symc_reduction reduction = {
        SYMMCOLL_FLOAT32, SYMMCOLL_SUM, 16, NULL, false};
    const float a[3] = {1, 2, 3};
    const float b[3] = {10, 20, 30};
    const void *src[] = {a, b};
    float out[3];
    float mirror[3];

    symc_reduce(&reduction, out, mirror, src, 2, 3, false);
    diag("SIMD level: %s", symc_simd_name());
    return strcmp(symc_simd_name(), names[symc_simd_level()]) == 0 &&
           symc_reduce_find(SYMMCOLL_FLOAT32, SYMMCOLL_SUM) ==
               symc_reduce_find_at(
                   symc_simd_level(), SYMMCOLL_FLOAT32, SYMMCOLL_SUM) &&
           out[0] == 11 && out[1] == 22 && out[2] == 33 &&
           memcmp(out, mirror, sizeof(out)) == 0;
}

/* Reduces in the caller's mode, which must be restored. */
static int reduces_in(uint64_t mode, const struct symc_reduction *reduction,
    const void *const *src, int nsrc)
{
    size_t nbytes = MAX_COUNT * symmcoll_dtype_size(reduction->dtype);
    uint64_t before = symc_floating_get();
    int kept;

    symc_floating_put(mode);
    symc_reduce(reduction, work[0], NULL, src, nsrc, MAX_COUNT, false);
    kept = floating_is(mode);
    symc_floating_put(before);
    if (kept && memcmp(work[0], expected, nbytes) == 0)
        return 1;
    diag("%s of %s in mode %#llx%s", symmcoll_op_name(reduction->op),
        symmcoll_dtype_name(reduction->dtype), (unsigned long long)mode,
        kept ? "" : ", which has changed");
    return 0;
}

static int no_mode_matters(enum symmcoll_dtype dtype, int nsrc)
{
    const unsigned char *src[MAX_NSRC];
    int right = 1;

    fill_sources(dtype);
    for (int s = 0; s < nsrc; s++)
        src[s] = sources[s];
    for (symmcoll_op_t op = 0; op < SYMMCOLL_OP_COUNT; op++) {
        const struct symc_reduction reduction = {
            dtype, op, 16, op == SYMMCOLL_PREMUL_SUM ? factors : NULL, false};

        if (!symc_dtype_reduces(symc_dtype_find(dtype), op))
            continue;
        reference_reduce(&reduction, expected, src, nsrc, MAX_COUNT);
        for (size_t m = 0; right && m < FLOATING_MODES; m++)
            right = reduces_in(
                floating_modes[m], &reduction, (const void *const *)src, nsrc);
    }
    return right;
}

static int no_mode_matters_to_any(void)
{
    static const enum symmcoll_dtype dtypes[] = {SYMMCOLL_FLOAT32,
        SYMMCOLL_FLOAT64, SYMMCOLL_FLOAT16, SYMMCOLL_BFLOAT16,
        SYMMCOLL_COMPLEX64};
    int right = 1;

    for (size_t d = 0; d < LENGTH(dtypes); d++)
        right = right && no_mode_matters(dtypes[d], 2) &&
                no_mode_matters(dtypes[d], 5);
    return right;
}

static int converts_alike(enum symmcoll_dtype from, enum symmcoll_dtype to)
{
    const struct symc_conversion conversion = {
        from, to, work[0], sources[0], MAX_COUNT, 1.0 / 3};
    size_t nbytes = MAX_COUNT * symmcoll_dtype_size(to);
    uint64_t before = symc_floating_get();
    int right = 1;

    fill_sources(from);
    symc_convert(&conversion);
    memcpy(expected, work[0], nbytes);
    for (size_t m = 0; right && m < FLOATING_MODES; m++) {
        memset(work[0], 0, nbytes);
        symc_floating_put(floating_modes[m]);
        symc_convert(&conversion);
        right = floating_is(floating_modes[m]);
        symc_floating_put(before);
        right = right && memcmp(work[0], expected, nbytes) == 0;
        if (!right)
            diag("mode %#llx", (unsigned long long)floating_modes[m]);
    }
    return right;
}

static int copies_hold(bool streaming)
{
    static const size_t shifts[] = {0, 1, 8, 15};

    for (size_t i = 0; i < MAX_NBYTES; i++)
        expected[i] = (unsigned char)next_random();
    for (int level = 0; level <= (int)symc_simd_level(); level++) {
        for (size_t c = 0; c < LENGTH(counts); c++) {
            for (size_t s = 0; s < LENGTH(shifts); s++) {
                memset(outputs[0], 0xa5, counts[c] + 2 * GUARD + SHIFTS);
                memcpy(work[0] + 5, expected, counts[c]);
                symc_copy_at((enum symc_simd)level,
                    outputs[0] + GUARD + shifts[s], work[0] + 5, counts[c],
                    streaming);
                symc_stream_fence();
                if (!is_right(outputs[0], shifts[s], counts[c]))
                    return 0;
            }
        }
    }
    return 1;
}

static int copy_takes_the_best_level(void)
{
    char text[] = "symmetric";

    symc_copy(NULL, NULL, 0, true);
    symc_copy(text, text, sizeof(text), false);
    symc_copy(text + 3, "bol", 4, true);
    return strcmp(text, "symbol") == 0;
}

static int count_defined(void)
{
    int n = 0;

    for (int d = 0; d < SYMMCOLL_DTYPE_COUNT; d++) {
        for (symmcoll_op_t op = 0; op < SYMMCOLL_OP_COUNT; op++)
            n +=
                symc_dtype_reduces(symc_dtype_find((enum symmcoll_dtype)d), op);
    }
    return n;
}

int main(void)
{
    plan(count_defined() + 10);
    for (int d = 0; d < SYMMCOLL_DTYPE_COUNT; d++) {
        enum symmcoll_dtype dtype = (enum symmcoll_dtype)d;

        fill_sources(dtype);
        for (symmcoll_op_t op = 0; op < SYMMCOLL_OP_COUNT; op++) {
            if (symc_dtype_reduces(symc_dtype_find(dtype), op))
                ok(all_numbers_of_sources_hold(dtype, op),
                    "%s of %s is as plainly computed, in every way and at "
                    "every SIMD level",
                    symmcoll_op_name(op), symmcoll_dtype_name(dtype));
        }
    }
    fill_sources(SYMMCOLL_INT8);
    ok(mean_of_many_holds(SYMMCOLL_INT8, 200), "200 ranks average int8");
    ok(mean_of_many_holds(SYMMCOLL_UINT8, 300), "300 ranks average uint8");
    ok(mean_of_many_holds(SYMMCOLL_INT16, 40000), "40000 ranks average int16");
    ok(functions_are_for_what_is_defined(),
        "there are functions for what is defined and for nothing else");
    ok(reduce_takes_the_best_level(), "the best level of the machine is used");
    ok(no_mode_matters_to_any(),
        "the caller's mode of floating-point arithmetic changes no bit, and "
        "stays");
    ok(converts_alike(SYMMCOLL_FLOAT32, SYMMCOLL_FLOAT16) &&
            converts_alike(SYMMCOLL_FLOAT32, SYMMCOLL_BFLOAT16) &&
            converts_alike(SYMMCOLL_FLOAT16, SYMMCOLL_FLOAT32) &&
            converts_alike(SYMMCOLL_BFLOAT16, SYMMCOLL_FLOAT32),
        "nor one of a conversion");
    ok(copies_hold(false), "copies are exact");
    ok(copies_hold(true), "streamed copies are exact");
    ok(copy_takes_the_best_level(), "a copy may be of nothing, and in place");
    return done_testing();
}
