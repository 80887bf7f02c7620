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
    struct symc_fused_on on; /* of a device */
    struct symmcoll_tensor a, b;
    symmcoll_op_t op;
    int dim;
    bool last; /* dim is the last dimension: of b */
    struct symc_fused_result out;
    size_t total;             /* elements of that */
    int64_t first, part;      /* of dim of each chunk: the block in hand */
    size_t count;             /* elements of that */
    enum symmcoll_dtype sum;  /* type of products and sums, and */
    enum symmcoll_dtype sent; /* of those that go from device to device */
    struct symc_fused_call begun;
    bool in_plain; /* the plain sequence has begun */

    bool is_scaled; /* and then: */
    const struct symmcoll_tensor *a_scale;
    struct symc_fused_scale scale;
    struct symc_fused_scaled scaled;
};

/* ---- scatter_args.c ---- */

/* Check the arguments of a call, whose a has been read, and have memory for its
 * result; it->begun (out): what is compared.  scaled_b: of a scaled product, in
 * the place of b.  Errors: those of the call. */
symmcoll_status_t symc_fused_scatter_read(struct matmul_scatter *it,
    const struct symmcoll_tensor *b,
    const struct symmcoll_scaled_matrix *scaled_b,
    const struct symmcoll_tensor *out);

#endif
