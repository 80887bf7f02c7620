/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions one element at a time, as plainly as they can be said, to compare
 * the kernels with.
 */
#ifndef T_BASE_REFERENCE_H
#define T_BASE_REFERENCE_H

#include "base/reduce.h"

/* Elements as symc_reduce(), out of place. */
void reference_reduce(const struct symc_reduction *reduction,
    unsigned char *out, const unsigned char *const *src, int nsrc,
    size_t count);

#endif
