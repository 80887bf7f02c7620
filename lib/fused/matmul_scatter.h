/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A call of matmul and reduce_scatter, and its arguments.
 */
#ifndef SYMC_FUSED_MATMUL_SCATTER_H
#define SYMC_FUSED_MATMUL_SCATTER_H

#include "fused/device.h"

struct matmul_scatter {
    const char *name;
    struct symc_fused *fused;
    struct symc_fused_on on; /* set on a device */
    struct symmcoll_tensor a, b;
    symmcoll_op_t op;
    int dim;
    bool last; /* dim is the last dimension, that of b */
    struct symc_fused_result out;
    size_t total;            /* elements of the result */
    int64_t first, part;     /* range of dim in each chunk: the current block */
    size_t count;            /* elements of the current block */
    enum symmcoll_dtype sum; /* type of products and sums */
    enum symmcoll_dtype sent; /* type of the sums sent between devices */
    struct symc_fused_call begun;
    bool in_plain; /* the plain sequence has begun */

    bool is_scaled; /* the members below are set */
    const struct symmcoll_tensor *a_scale;
    struct symc_fused_scale scale;
    struct symc_fused_scaled scaled;
};

/* ---- scatter_args.c ---- */

/* Checks the arguments of a call after a has been read, and allocates its
 * result; it->begun (out): the arguments to compare. scaled_b replaces b in a
 * scaled product. Errors: those of the call. */
symmcoll_status_t symc_fused_scatter_read(struct matmul_scatter *it,
    const struct symmcoll_tensor *b,
    const struct symmcoll_scaled_matrix *scaled_b,
    const struct symmcoll_tensor *out);

#endif
