/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table that each SIMD level provides to reduce.c: the same functions,
 * compiled for different processors.
 */
#ifndef SYMC_BASE_REDUCE_LEVEL_H
#define SYMC_BASE_REDUCE_LEVEL_H

#include "base/reduce.h"

/* out[i] = factor * in[i]. */
typedef void (*symc_convert_fn)(
    void *out, const void *in, size_t count, float factor);

struct symc_reduce_level {
    const char *name;
    /* NULL: not defined for the type, or to be looked up in `others` */
    symc_reduce_fn reduce[SYMMCOLL_DTYPE_COUNT][SYMMCOLL_OP_COUNT];
    /* from float32 to a type, and back; NULL: likewise */
    symc_convert_fn narrow[SYMMCOLL_DTYPE_COUNT];
    symc_convert_fn widen[SYMMCOLL_DTYPE_COUNT];
    /* memcpy() with non-temporal stores */
    void (*copy)(void *out, const void *in, size_t nbytes);
    const struct symc_reduce_level *others; /* the level that has what is
                                               missing here; or NULL */
};

extern const struct symc_reduce_level symc_reduce_baseline;
#if defined(__x86_64__)
extern const struct symc_reduce_level symc_reduce_avx2;
extern const struct symc_reduce_level symc_reduce_avx512;
extern const struct symc_reduce_level symc_reduce_bf16;
#endif

#endif
