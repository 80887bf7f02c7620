/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * matmul and reduce_scatter on a device, after its arguments have been read:
 * the layout of the memory that all ranks map, and the operations to enqueue.
 */
#ifndef SYMC_FUSED_SCATTER_MOVES_H
#define SYMC_FUSED_SCATTER_MOVES_H

#include "base/moving.h"
#include "fused/device_scaled.h"
#include "fused/matmul_scatter.h"

#define INBOXES 2 /* places that receive sums, used in turn */

/* Products of a part, by position in its sum: the first, one in the middle, the
 * last. */
enum place {
    BEGINS,
    ADDS,
    ENDS,
    PLACES
};

struct device_scatter {
    struct symc_mover mover; /* first */
    struct matmul_scatter *it;
    int rank, size;
    bool in_parts;      /* one product per rank's part */
    int64_t rows, cols; /* of a part */
    size_t elem, sum;   /* bytes of an element of a, and of a sum */
    size_t part, pitch; /* bytes of a part's sums, and from slot to slot */
    /* a is copied to a_at first: as a whole, or by parts */
    bool packed, parts_packed;
    size_t a_at;
    bool b_packed;
    size_t b_at;
    struct symc_product_matrix b; /* all of b */
    bool outer;                   /* one scale per row and column */
    size_t scales_at, b_scales_at;
    /* Sums for all ranks; the first INBOXES places receive sums. */
    size_t slots_at;
    size_t sums_at; /* sums before they are rounded, or copied to the result */
    size_t workspace_at, workspace;
    void *plans[PLACES], *whole_plan; /* NULL: none */
};

/* Returns the rows of a for a rank's part; all rows if b is divided. */
static inline struct symmcoll_tensor symc_fused_scatter_rows(
    const struct device_scatter *op, int rank)
{
    const struct matmul_scatter *it = op->it;
    struct symmcoll_tensor a = it->a;
    int64_t part = it->out.tensor.shape[it->dim];

    if (it->last)
        return a;
    a.shape[it->dim] = part;
    a.data =
        (char *)a.data + rank * part * a.strides[it->dim] * (int64_t)op->elem;
    return a;
}

/* Returns a view of all of a, in the order of the parts. */
static inline struct symc_f_view symc_fused_scatter_view(
    const struct device_scatter *op)
{
    struct symc_f_view view = symc_f_view_of(&op->it->a);

    return op->it->last ? view : symc_f_view_cut(&view, op->it->dim, op->size);
}

/* Returns whether sums have the type of the result; else they are rounded at
 * the end. */
static inline bool symc_fused_scatter_is_result(const struct device_scatter *op)
{
    return op->it->sent == op->it->out.tensor.dtype;
}

/* Returns whether the last product writes to the result. It does not if the
 * result is not aligned for products of 8-bit floats. */
static inline bool symc_fused_scatter_ends_in_out(
    const struct device_scatter *op)
{
    return symc_fused_scatter_is_result(op) &&
           (!op->it->is_scaled ||
               symc_fused_is_at_line(op->it->out.tensor.data));
}

static inline bool symc_fused_scatter_has_one_scale(
    const struct device_scatter *op)
{
    return op->it->scale.mode == SYMC_FUSED_SCALE_ONE;
}

/* The mover of a struct device_scatter: enqueues the operation. */
void symc_fused_scatter_move(
    struct symc_mover *mover, const struct symc_moving *moving);

#endif
