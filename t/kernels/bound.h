/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bound of the error of a sum computed by a switch; all checks of such
 * sums use it.
 *
 * R numbers are added in any order, in float32. Each of the R - 1 additions
 * returns one of the two float32 nearest to its result, with a relative error
 * below 2^-23. Rounded results are rounded again, so the error of the sum is
 * below ((1 + 2^-23)^(R - 1) - 1) A, which for up to 64 ranks is below R A
 * 2^-23, where A is the sum of the magnitudes. Any of the R numbers and of the
 * R - 1 results may be flushed to 0 if below 2^-126: at most R 2^-125 more.
 * The sum is then rounded once to one of the two nearest numbers of its type.
 * If A is above the largest float32 there is no bound, because a partial sum
 * may overflow. symmcoll_symm_one_shot_all_reduce(3) documents this bound.
 */
#ifndef T_KERNELS_BOUND_H
#define T_KERNELS_BOUND_H

#include <stdbool.h>
#include <symmcoll/types.h>

/* Returns the bound for n numbers, before the sum is rounded to its type. */
double bound_of_sum(const double *numbers, int n);

/* Returns whether an element of float32, float16 or bfloat16 may be the sum of
 * n numbers with an error below `share` times the bound. share is 1 except in
 * tests of the bound. */
bool bound_allows(const void *element, enum symmcoll_dtype dtype,
    const double *numbers, int n, double share);

#endif
