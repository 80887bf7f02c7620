/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A call of all_gather and matmul: its arguments, and the form of it in which
 * shards are multiplied in blocks of their depth.
 */
#ifndef SYMC_FUSED_GATHER_MATMUL_H
#define SYMC_FUSED_GATHER_MATMUL_H

#include "fused/device.h"

/* One matrix and its result. */
struct product {
    struct symmcoll_tensor b;
    struct symc_fused_result out;
    struct symc_fused_scaled scaled;
};

struct gather_matmul {
    const char *name;
    struct symc_fused *fused;
    struct symc_fused_on on;  /* of a device */
    struct symmcoll_tensor a; /* the shard */
    int dim;
    bool last;           /* dim is the last dimension */
    int64_t rows, depth; /* of a shard as a matrix */
    size_t elem;
    size_t nbytes; /* of that */
    struct symc_fused_result gathered;
    bool wanted;         /* that */
    void *whole;         /* A, with dim first; NULL: it is not made */
    bool first;          /* it is, before it is multiplied */
    int64_t block;       /* in blocks of so much of the depth; 0: whole */
    const void **shards; /* then: of all ranks, those that have arrived */
    int arrived;
    char *room; /* for the rows of all in a block */
    int n;
    struct product *products;
    char *sums; /* last, and narrow types: float32 */

    bool scaled; /* and then: */
    const struct symmcoll_tensor *a_scale;
    const struct symmcoll_scaled_matrix *scaled_bs;
    struct symc_fused_scale scale;
    float *rows_of_all;     /* factors, or: */
    uint8_t *blocks_of_all; /* scales of blocks */
    const void *gathers;    /* this rank's part of them; NULL: it has all */
    size_t gathers_nbytes;
};

/* ---- gather_args.c ---- */

/* Check the arguments of a call, whose a has been read, and have memory for its
 * results; begun (out): what is compared.  Errors: those of the call. */
symmcoll_status_t symc_fused_gather_read(struct gather_matmul *it,
    struct symc_fused_call *begun, const struct symmcoll_tensor *bs,
    const struct symmcoll_tensor *a, const struct symmcoll_tensor *outs);

/* ---- depth_blocks.c ---- */

/* Whether the shards of all, which would be gathered only to be multiplied, are more
 * than stay in the cache, but not a block of them. */
bool symc_fused_is_in_blocks(const struct gather_matmul *it);

/* Memory for a block.  Errors: NO_MEMORY. */
symmcoll_status_t symc_fused_take_blocks(struct gather_matmul *it);

/* Take a rank's shard, which remains where it is; with the last one, multiply all. */
symmcoll_status_t symc_fused_consume_block(
    void *context, int rank, const void *shard);

#endif
