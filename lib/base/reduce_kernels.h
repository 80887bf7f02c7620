/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reduction kernels, written once and compiled for each SIMD level.  The
 * loops are here, the operations on a vector in reduce_steps.h, the list of
 * kernels in reduce_table.h.  A level (reduce_baseline.c, reduce_avx2.c,
 * reduce_avx512.c) defines before it includes this file:
 *
 *   VECTOR       bytes of a vector
 *   vec          a vector of bytes, the type that all functions here pass
 *   LEVEL        the name of the table to define, LEVEL_NAME its text
 *   load, store, stream            whole vectors at any address; stream is a
 *                                  non-temporal store, at an aligned one
 *   load_half, store_half, stream_half   the lower half of a vector
 *   load_part, store_part          the lower n bytes, 0 < n <= VECTOR; the
 *                                  others are loaded as zeros
 *   extend16, shorten16            uint16_t lanes of the lower half to uint32_t
 *                                  lanes and back (of values that fit)
 *   HAVE_F16C, half_to_float, float_to_half   if there is hardware for it
 *   HAVE_REPLACE_NAN, replace_nan_f32, replace_nan_f64   likewise: x with each
 *                                  NaN replaced
 *
 * The vector extensions of gcc and clang are used instead of loops, because the
 * result must be fast at any optimisation level, and instead of intrinsics, so
 * that one source serves all levels.  A kernel is a constant table of small
 * functions that the compiler folds into run_kernel().
 *
 * Every element goes through the same operations in the same order, whether it
 * is in a block, a single vector or a part of one: there is no scalar code
 * whose bits could differ.  Sums must not be contracted to fused operations
 * (-ffp-contract=off).
 */

#include "base/reduce_steps.h"

/* ---- the loops ---- */

/*
 * The element type and the operations of a kernel.  Two-byte elements that are
 * computed as float fill a vector when they are half of one in memory.  If join
 * is not NULL, blocks of them are loaded as whole vectors, computed with even
 * and odd elements in separate vectors, and joined for the store: that moves no
 * lane to another place.
 */
struct kernel {
    size_t element; /* bytes */
    size_t step;    /* bytes in memory that fill a vector */
    vec (*widen)(vec raw);
    vec (*widen_even)(vec raw);
    vec (*widen_odd)(vec raw);
    vec (*prepare)(vec x, double factor);
    vec (*combine)(vec a, vec b);
    vec (*finish)(vec x, int nsrc);
    vec (*narrow)(vec x);
    vec (*join)(vec even, vec odd);
};

/* The arguments of one call of a kernel. */
struct job {
    unsigned char *out;
    unsigned char *mirror;
    const unsigned char *const *src;
    const double *factors;
    int nsrc;
    int sources; /* of a reduction block */
    bool beyond_caches;
};

/* Four vectors: enough independent sums to keep the adders busy. */
struct block {
    vec a, b, c, d;
};
#define BLOCK 4

/* The distance in bytes from the elements that are being reduced to the lines
 * that are prefetched for writing. */
#define AHEAD ((size_t)2048)
#define LINE 64 /* bytes of a cache line */

/* The least number of bytes for which aligning the output is worthwhile. */
#define ALIGN_NBYTES (8 * BLOCK * VECTOR)

INLINE double get_factor(const struct job *job, int s)
{
    return job->factors != NULL ? job->factors[s] : 1.0;
}

INLINE vec fetch(
    const struct kernel *kernel, const unsigned char *from, double factor)
{
    vec raw = kernel->step == VECTOR ? load(from) : load_half(from);

    return kernel->prepare(kernel->widen(raw), factor);
}

INLINE struct block fetch_block(
    const struct kernel *kernel, const unsigned char *from, double factor)
{
    struct block x;

    if (kernel->join != NULL) {
        vec first = load(from);
        vec second = load(from + VECTOR);

        x.a = kernel->prepare(kernel->widen_even(first), factor);
        x.b = kernel->prepare(kernel->widen_odd(first), factor);
        x.c = kernel->prepare(kernel->widen_even(second), factor);
        x.d = kernel->prepare(kernel->widen_odd(second), factor);
        return x;
    }
    x.a = fetch(kernel, from, factor);
    x.b = fetch(kernel, from + kernel->step, factor);
    x.c = fetch(kernel, from + 2 * kernel->step, factor);
    x.d = fetch(kernel, from + 3 * kernel->step, factor);
    return x;
}

INLINE struct block combine_blocks(
    const struct kernel *kernel, struct block x, struct block y)
{
    x.a = kernel->combine(x.a, y.a);
    x.b = kernel->combine(x.b, y.b);
    x.c = kernel->combine(x.c, y.c);
    x.d = kernel->combine(x.d, y.d);
    return x;
}

INLINE void put(
    const struct kernel *kernel, unsigned char *to, vec x, bool streaming)
{
    if (kernel->step == VECTOR)
        streaming ? stream(to, x) : store(to, x);
    else
        streaming ? stream_half(to, x) : store_half(to, x);
}

/* Finishes a block.  The result of joined elements is in a and b. */
INLINE struct block finish_block(
    const struct kernel *kernel, struct block x, int nsrc)
{
    x.a = kernel->finish(x.a, nsrc);
    x.b = kernel->finish(x.b, nsrc);
    x.c = kernel->finish(x.c, nsrc);
    x.d = kernel->finish(x.d, nsrc);
    if (kernel->join != NULL) {
        x.a = kernel->join(x.a, x.b);
        x.b = kernel->join(x.c, x.d);
        return x;
    }
    x.a = kernel->narrow(x.a);
    x.b = kernel->narrow(x.b);
    x.c = kernel->narrow(x.c);
    x.d = kernel->narrow(x.d);
    return x;
}

INLINE void put_block(const struct kernel *kernel, unsigned char *to,
    struct block x, bool streaming)
{
    if (kernel->join != NULL) {
        streaming ? stream(to, x.a) : store(to, x.a);
        streaming ? stream(to + VECTOR, x.b) : store(to + VECTOR, x.b);
        return;
    }
    put(kernel, to, x.a, streaming);
    put(kernel, to + kernel->step, x.b, streaming);
    put(kernel, to + 2 * kernel->step, x.c, streaming);
    put(kernel, to + 3 * kernel->step, x.d, streaming);
}

/* Returns the unit in which a block is stored. */
INLINE size_t stored_step(const struct kernel *kernel)
{
    return kernel->join != NULL ? VECTOR : kernel->step;
}

/* Returns the end of the reduction block of sources that begins at first. */
INLINE int end_of_sources(const struct job *job, int first)
{
    return job->nsrc - first <= job->sources ? job->nsrc : first + job->sources;
}

INLINE struct block combine_sources_by_block(const struct kernel *kernel,
    const struct job *job, int first, int end, size_t at)
{
    struct block sum =
        fetch_block(kernel, job->src[first] + at, get_factor(job, first));

    for (int s = first + 1; s < end; s++)
        sum = combine_blocks(kernel, sum,
            fetch_block(kernel, job->src[s] + at, get_factor(job, s)));
    return sum;
}

INLINE struct block combine_all_blocks(
    const struct kernel *kernel, const struct job *job, size_t at)
{
    int end = end_of_sources(job, 0);
    struct block sum = combine_sources_by_block(kernel, job, 0, end, at);

    while (end < job->nsrc) {
        int first = end;

        end = end_of_sources(job, first);
        sum = combine_blocks(
            kernel, sum, combine_sources_by_block(kernel, job, first, end, at));
    }
    return sum;
}

INLINE vec combine_sources_by_part(const struct kernel *kernel,
    const struct job *job, int first, int end, size_t at, size_t nbytes)
{
    vec sum =
        kernel->prepare(kernel->widen(load_part(job->src[first] + at, nbytes)),
            get_factor(job, first));

    for (int s = first + 1; s < end; s++) {
        vec raw = load_part(job->src[s] + at, nbytes);

        sum = kernel->combine(
            sum, kernel->prepare(kernel->widen(raw), get_factor(job, s)));
    }
    return sum;
}

/* Reduces one vector or less: nbytes <= kernel->step. */
INLINE void reduce_part(const struct kernel *kernel, const struct job *job,
    size_t at, size_t nbytes)
{
    int end = end_of_sources(job, 0);
    vec sum = combine_sources_by_part(kernel, job, 0, end, at, nbytes);

    while (end < job->nsrc) {
        int first = end;

        end = end_of_sources(job, first);
        sum = kernel->combine(
            sum, combine_sources_by_part(kernel, job, first, end, at, nbytes));
    }
    sum = kernel->narrow(kernel->finish(sum, job->nsrc));
    store_part(job->out + at, sum, nbytes);
    if (job->mirror != NULL)
        store_part(job->mirror + at, sum, nbytes);
}

/* Reduces from `at` to the end, in parts of at most one vector. */
INLINE void reduce_parts(const struct kernel *kernel, const struct job *job,
    size_t at, size_t nbytes)
{
    while (at < nbytes) {
        size_t left = nbytes - at;
        size_t length = left < kernel->step ? left : kernel->step;

        reduce_part(kernel, job, at, length);
        at += length;
    }
}

INLINE bool is_aligned(const void *pointer, size_t alignment)
{
    return (uintptr_t)pointer % alignment == 0;
}

/* Prefetches lines for writing. */
INLINE void claim(unsigned char *from, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i += LINE)
        __builtin_prefetch(from + i, 1);
}

/*
 * Reduces whole blocks of two sources into two results with ordinary stores.
 * The second result is another rank's buffer, usually one of the sources, and
 * is in the cache of that rank's processor: a line that is prefetched for
 * writing crosses once, a line that is read first crosses twice.
 */
INLINE size_t reduce_into_both(const struct kernel *kernel,
    const struct job *job, size_t at, size_t nbytes)
{
    const size_t step = BLOCK * kernel->step;
    unsigned char *out = job->out;
    unsigned char *mirror = job->mirror;
    const unsigned char *src0 = job->src[0];
    const unsigned char *src1 = job->src[1];
    double factor0 = get_factor(job, 0);
    double factor1 = get_factor(job, 1);

    claim(mirror + at, nbytes - at < AHEAD ? nbytes - at : AHEAD);
    for (; nbytes - at >= step; at += step) {
        struct block sum;

        if (nbytes - at >= AHEAD + step)
            claim(mirror + at + AHEAD, step);
        sum = combine_blocks(kernel, fetch_block(kernel, src0 + at, factor0),
            fetch_block(kernel, src1 + at, factor1));
        sum = finish_block(kernel, sum, 2);
        put_block(kernel, out + at, sum, false);
        put_block(kernel, mirror + at, sum, false);
    }
    return at;
}

/*
 * Reduces whole blocks from `at` on and returns where they end.  With two
 * sources, as in every exchange between two ranks, their pointers are kept in
 * registers: the compiler cannot rule out that an output overlaps the array of
 * sources.
 */
INLINE size_t reduce_blocks(const struct kernel *kernel, const struct job *job,
    size_t at, size_t nbytes, bool streaming)
{
    const size_t step = BLOCK * kernel->step;
    unsigned char *out = job->out;
    unsigned char *mirror = job->mirror;
    bool stream_out = streaming && is_aligned(out + at, stored_step(kernel));
    bool stream_mirror = streaming && mirror != NULL &&
                         is_aligned(mirror + at, stored_step(kernel));
    bool two = job->nsrc == 2; /* for any block size */
    const unsigned char *src0 = job->src[0];
    const unsigned char *src1 = two ? job->src[1] : NULL;
    double factor0 = get_factor(job, 0);
    double factor1 = two ? get_factor(job, 1) : 1.0;

    /* For data beyond the caches the hardware prefetcher does better. */
    if (two && mirror != NULL && !stream_out && !stream_mirror &&
        !job->beyond_caches)
        return reduce_into_both(kernel, job, at, nbytes);
    for (; nbytes - at >= step; at += step) {
        struct block sum;

        if (two)
            sum =
                combine_blocks(kernel, fetch_block(kernel, src0 + at, factor0),
                    fetch_block(kernel, src1 + at, factor1));
        else
            sum = combine_all_blocks(kernel, job, at);
        sum = finish_block(kernel, sum, job->nsrc);
        put_block(kernel, out + at, sum, stream_out);
        if (mirror != NULL)
            put_block(kernel, mirror + at, sum, stream_mirror);
    }
    return at;
}

INLINE void run_kernel(const struct kernel *kernel,
    const struct symc_reduction *reduction, void *out, void *mirror,
    const void *const *src, int nsrc, size_t count, bool streaming)
{
    const struct job job = {out, mirror, (const unsigned char *const *)src,
        reduction->factors, nsrc, reduction->block, reduction->beyond_caches};
    size_t nbytes = count * kernel->element;
    size_t at = 0;

    if (nbytes >= ALIGN_NBYTES) {
        size_t head = -(uintptr_t)out % stored_step(kernel);

        if (head > 0 && head % kernel->element == 0) {
            reduce_parts(kernel, &job, 0, head);
            at = head;
        }
    }
    if (nbytes >= BLOCK * kernel->step)
        at = reduce_blocks(
            kernel, &job, at, nbytes, streaming && nbytes >= ALIGN_NBYTES);
    reduce_parts(kernel, &job, at, nbytes);
}

/* ---- copies ---- */

/* The distance in bytes from a load to the lines that are prefetched: the
 * hardware prefetcher stops at the end of the page. */
#define FETCH_AHEAD 1024
#define FETCH_STEP 64

static void copy_streaming(void *out, const void *in, size_t nbytes)
{
    unsigned char *to = out;
    const unsigned char *from = in;
    size_t head = -(uintptr_t)to % VECTOR;

    if (nbytes < ALIGN_NBYTES) {
        memcpy(to, from, nbytes);
        return;
    }
    memcpy(to, from, head);
    to += head;
    from += head;
    nbytes -= head;
    for (; nbytes >= BLOCK * VECTOR; nbytes -= BLOCK * VECTOR) {
        for (size_t line = 0; line < BLOCK * VECTOR; line += FETCH_STEP)
            __builtin_prefetch(from + FETCH_AHEAD + line);
        vec a = load(from);
        vec b = load(from + VECTOR);
        vec c = load(from + 2 * VECTOR);
        vec d = load(from + 3 * VECTOR);

        stream(to, a);
        stream(to + VECTOR, b);
        stream(to + 2 * VECTOR, c);
        stream(to + 3 * VECTOR, d);
        to += BLOCK * VECTOR;
        from += BLOCK * VECTOR;
    }
    memcpy(to, from, nbytes);
}
