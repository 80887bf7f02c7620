/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How far a sum by a switch may be from the sum of its numbers: the one place that
 * checks of it compare with.
 *
 * R numbers are added in any order, in float32, and each of the R - 1 additions
 * returns one of the two float32 nearest to its result: off by less than 2^-23 of
 * that.  What was rounded is rounded again, so the sum is off by less than
 *
 *     ((1 + 2^-23)^(R - 1) - 1) A,  which for up to 64 ranks is below  R A 2^-23
 *
 * where A is the sum of the magnitudes.  A number below 2^-126, of the R numbers and
 * of the R - 1 results, may have become 0: R 2^-125 more at most.  Then the sum is
 * rounded once to one of the two numbers of its type that are nearest.  Where A is
 * above the largest float32 nothing is promised, for a part may overflow.
 *
 * symmcoll_symm_one_shot_all_reduce(3) says the same.
 */
#ifndef T_KERNELS_BOUND_H
#define T_KERNELS_BOUND_H

#include <stdbool.h>
#include <symmcoll/types.h>

/* That of n numbers, before the sum is rounded to its type. */
double bound_of_sum(const double *numbers, int n);

/* Whether an element of float32, float16 or bfloat16 may be the sum of n numbers,
 * if that is off by less than the bound times `share` (1, but in tests of the
 * bound). */
bool bound_allows(const void *element, enum symmcoll_dtype dtype,
    const double *numbers, int n, double share);

#endif
