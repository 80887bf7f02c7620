/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_gather and matmul on a device, after its arguments have been read: the
 * layout of the memory that all ranks map, and the operations to enqueue.
 */
#ifndef SYMC_FUSED_GATHER_MOVES_H
#define SYMC_FUSED_GATHER_MOVES_H

#include "base/moving.h"
#include "fused/gather_matmul.h"

/* One right matrix. */
struct factor {
    struct symc_product_matrix b;
    bool packed; /* b is copied to b_at first */
    size_t b_at;
    bool outer; /* one scale per row and column; else one per matrix */
    size_t scales_at;
    void *part, *whole; /* plans for one rank's rows and for all; NULL: none */
};

struct device_gather {
    struct symc_mover mover; /* first */
    struct gather_matmul *it;
    int rank, size;
    /* the shard is contiguous, with gather_dim first, and aligned */
    bool contiguous;
    bool in_parts;   /* one product per rank's rows */
    size_t shard_at; /* offset of the shard, which others read */
    /* Offset of the scales of rows: those of all ranks, of which each writes
     * its own, or one. */
    size_t scales_at;
    bool spread;     /* the one scale is repeated for each row */
    size_t room_at;  /* offset of the shards of all ranks */
    size_t whole_at; /* offset of A, gathered along the last dimension */
    size_t workspace_at, workspace;
    struct factor *factors;
};

/* Returns the rows of the gathered A. */
static inline int64_t symc_fused_gather_rows(const struct device_gather *op)
{
    return op->it->last ? op->it->rows : op->it->rows * op->size;
}

/* The mover of a struct device_gather: enqueues the operation. */
void symc_fused_gather_move(
    struct symc_mover *mover, const struct symc_moving *moving);

#endif
