/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of gathered shards, in host or device memory. */
#ifndef T_FUSED_GATHERED_H
#define T_FUSED_GATHERED_H

#include "t/fused/made.h"

#define GATHERED_MATRICES 3
#define GATHERED_A 1 /* seeds */
#define GATHERED_B 10

struct gathered {
    enum symmcoll_dtype dtype;
    int ndim;
    int64_t shape[4]; /* of a shard */
    int dim;
    enum made_order order;   /* of the shard, */
    enum made_order b_order; /* and of the matrices */
    int n;
    bool no_a;
    int repeated;   /* see on_device.h */
    double inexact; /* see struct made_sum */
};

/* Return the shard of a rank, and its matrices; the caller frees their data. */
struct symmcoll_tensor gathered_shard(const struct gathered *test, int rank);
void gathered_matrices(const struct gathered *test, int rank, int size,
    struct symmcoll_tensor bs[GATHERED_MATRICES]);

/* Checks the shapes, strides and elements of A (unless no_a) and of all
 * products. */
int gathered_are_right(const struct gathered *test, int size,
    const struct symmcoll_tensor *bs, const struct symmcoll_tensor *a,
    const struct symmcoll_tensor *outs);

#endif
