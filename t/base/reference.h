/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions of one element at a time in the plainest form, as a reference for
 * the kernels.
 */
#ifndef T_BASE_REFERENCE_H
#define T_BASE_REFERENCE_H

#include "base/reduce.h"

/* Reduces elements like symc_reduce(), out of place. */
void reference_reduce(const struct symc_reduction *reduction,
    unsigned char *out, const unsigned char *const *src, int nsrc,
    size_t count);

#endif
