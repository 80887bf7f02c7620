/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of the sum of products, in host or device memory. */
#ifndef T_FUSED_SCATTERED_H
#define T_FUSED_SCATTERED_H

#include "t/fused/made.h"

#define SCATTERED_A 1 /* seeds */
#define SCATTERED_B 10

struct scattered {
    enum symmcoll_dtype dtype;
    int ndim;
    int64_t shape[4]; /* of A; the scattered dimension is that of one rank's
                       * part */
    int64_t columns;  /* likewise */
    int dim;
    symmcoll_op_t op;
    enum made_order order, b_order;
    int64_t step;   /* of elements that are checked; 0: all */
    int repeated;   /* see on_device.h */
    double inexact; /* see struct made_sum */
    int64_t depth;  /* set by scattered_operands() */
};

/* Creates the matrices of a rank, the data of which the caller frees;
 * test->shape becomes that of a. */
void scattered_operands(struct scattered *test, int rank, int size,
    struct symmcoll_tensor *a, struct symmcoll_tensor *b);

/* Checks the shape, strides and elements of a rank's part; a and b have the
 * full shapes. */
int scattered_is_right(const struct scattered *test, int size, int rank,
    const struct symmcoll_tensor *a, const struct symmcoll_tensor *b,
    const struct symmcoll_tensor *out);

#endif
