/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_gather and matmul on a device, once its arguments have been read: where its
 * parts are in memory that all ranks map, and what is enqueued.
 */
#ifndef SYMC_FUSED_GATHER_MOVES_H
#define SYMC_FUSED_GATHER_MOVES_H

#include "base/moving.h"
#include "fused/gather_matmul.h"

/* One matrix. */
struct factor {
    struct symc_product_matrix b;
    bool packed; /* b is, at */
    size_t b_at;
    bool outer; /* scales are of rows and columns; those of columns, or one: */
    size_t scales_at;
    void *part, *whole; /* plans: of one rank's rows, of all; NULL: none */
};

struct device_gather {
    struct symc_mover mover; /* first */
    struct gather_matmul *it;
    int rank, size;
    bool contiguous; /* the shard is, with gather_dim first, and aligned */
    bool in_parts;   /* products are of one rank's rows each */
    size_t shard_at; /* what others read, and */
    size_t
        scales_at; /* scales of rows: of all ranks, each its own first; or one */
    bool spread;   /* that is there for each row */
    size_t room_at;  /* shards of all ranks */
    size_t whole_at; /* A, gathered along the last dimension */
    size_t workspace_at, workspace;
    struct factor *factors;
};

/* Rows of A, where it is gathered. */
static inline int64_t symc_fused_gather_rows(const struct device_gather *op)
{
    return op->it->last ? op->it->rows : op->it->rows * op->size;
}

/* That of a struct device_gather. */
void symc_fused_gather_move(
    struct symc_mover *mover, const struct symc_moving *moving);

#endif
