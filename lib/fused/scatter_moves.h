/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * matmul and reduce_scatter on a device, once its arguments have been read: where its
 * parts are in memory that all ranks map, and what is enqueued.
 */
#ifndef SYMC_FUSED_SCATTER_MOVES_H
#define SYMC_FUSED_SCATTER_MOVES_H

#include "base/moving.h"
#include "fused/device_scaled.h"
#include "fused/matmul_scatter.h"

#define INBOXES 2 /* where sums come, in turn */

/* Products of a part: what begins a sum, adds to it, and ends it. */
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
    bool in_parts;      /* products are of one rank's part each */
    int64_t rows, cols; /* of a part */
    size_t elem, sum;   /* bytes of an element of a, and of what goes round */
    size_t part, pitch; /* bytes of a part's sums, and from slot to slot */
    bool packed, parts_packed; /* a is copied first, to: */
    size_t a_at;
    bool b_packed;
    size_t b_at;
    struct symc_product_matrix b; /* the whole */
    bool outer;                   /* scales are of rows and columns */
    size_t scales_at, b_scales_at;
    /* Sums for all ranks; the first places are where sums come. */
    size_t slots_at;
    size_t sums_at; /* before they are rounded, or copied to the result */
    size_t workspace_at, workspace;
    void *plans[PLACES], *whole_plan; /* NULL: none */
};

/* The rows of a that belong to a rank's part; all, where b is cut. */
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

/* All of a, in the order of parts. */
static inline struct symc_f_view symc_fused_scatter_view(
    const struct device_scatter *op)
{
    struct symc_f_view view = symc_f_view_of(&op->it->a);

    return op->it->last ? view : symc_f_view_cut(&view, op->it->dim, op->size);
}

/* Sums are results; else they are rounded at the end. */
static inline bool symc_fused_scatter_is_result(const struct device_scatter *op)
{
    return op->it->sent == op->it->out.tensor.dtype;
}

/* The last product writes to the result, which the caller may have where no line of
 * 8-bit floats' products begins; else in memory of the group. */
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

/* That of a struct device_scatter. */
void symc_fused_scatter_move(
    struct symc_mover *mover, const struct symc_moving *moving);

#endif
