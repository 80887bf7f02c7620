/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A call of all_gather and matmul: its arguments, and the form in which shards
 * are multiplied in blocks of their depth.
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
    struct symc_fused_on on;  /* set on a device */
    struct symmcoll_tensor a; /* the shard */
    int dim;
    bool last;           /* dim is the last dimension: products are added */
    int64_t rows, depth; /* of a shard as a matrix */
    size_t elem;
    size_t nbytes; /* bytes of a shard */
    struct symc_fused_result gathered;
    bool wanted;         /* the gathered A is returned */
    void *whole;         /* the gathered A, dim first; NULL: not made */
    bool first;          /* gather everything before multiplying */
    int64_t block;       /* depth of a block; 0: no blocks */
    const void **shards; /* with blocks: shards that have arrived, by rank */
    int arrived;
    char *room; /* with blocks: room for the rows of all ranks */
    int n;
    struct product *products;
    char *sums; /* float32 sums, for the last dimension and narrow types */

    bool scaled; /* the members below are set */
    const struct symmcoll_tensor *a_scale;
    const struct symmcoll_scaled_matrix *scaled_bs;
    struct symc_fused_scale scale;
    float *rows_of_all; /* factors of rows, or scales of blocks: */
    uint8_t *blocks_of_all;
    /* this rank's part of the scales; NULL: it has them all */
    const void *gathers;
    size_t gathers_nbytes;
};

/* ---- gather_args.c ---- */

/* Checks the arguments of a call after a has been read, and allocates its
 * results; begun (out): the arguments to compare. Errors: those of the call. */
symmcoll_status_t symc_fused_gather_read(struct gather_matmul *it,
    struct symc_fused_call *begun, const struct symmcoll_tensor *bs,
    const struct symmcoll_tensor *a, const struct symmcoll_tensor *outs);

/* ---- depth_blocks.c ---- */

/* Returns whether to multiply in blocks: the gathered A is not wanted itself
 * and exceeds the cache, but a block of it fits. */
bool symc_fused_is_in_blocks(const struct gather_matmul *it);

/* Allocates memory for a block. Errors: NO_MEMORY. */
symmcoll_status_t symc_fused_take_blocks(struct gather_matmul *it);

/* Stores a rank's shard, by address; with the last one, multiplies all. */
symmcoll_status_t symc_fused_consume_block(
    void *context, int rank, const void *shard);

#endif
