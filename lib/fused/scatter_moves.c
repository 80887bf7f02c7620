/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * matmul and reduce_scatter on a device. The sum of a rank's part passes from
 * rank to rank: the rank after it writes its product to the memory of the next
 * rank; each rank adds its product to the sum that it has received and writes
 * the result to the next; the rank itself adds the last product. All ranks do
 * this at once, each for another part, so the product kernels both add and
 * send. Small products are made at once, and each rank reads its part from all
 * others.
 *
 * Sums arrive at two places in turn. A barrier separates a product that writes
 * to the next rank from the product that reads there. The same barriers keep a
 * rank from overwriting a sum that is still read: it was read before the
 * barrier in between. One more barrier comes first, for what the operation
 * before has left.
 */
#include "fused/scatter_moves.h"

static char *own_at(const struct device_scatter *op, size_t offset)
{
    return symc_fused_device_at(op->it->fused, op->rank, offset);
}

static void pack(const struct device_scatter *op,
    const struct symc_moving *moving, const void *from,
    const struct symc_f_view *view, void *to)
{
    const struct symc_strided copy = {.out = to,
        .in = from,
        .elem = op->elem,
        .ndim = view->ndim,
        .shape = view->shape,
        .strides = view->strides};

    moving->enqueue->strided(moving->state, &copy);
}

/* Copies the scales of rows, with the ranks' parts one after the other or
 * apart, and those of b. */
static void copy_scales(
    const struct device_scatter *op, const struct symc_moving *moving)
{
    const struct matmul_scatter *it = op->it;
    const struct symmcoll_tensor *scale = &it->scale.tensor;
    char *to = own_at(op, op->scales_at);
    struct symc_f_view view = symc_f_view_of(scale);

    if (symc_fused_scatter_has_one_scale(op)) {
        symc_fused_spread_scale(moving, scale->data,
            !op->outer ? 1
            : it->last ? op->rows
                       : op->rows * op->size,
            to);
    } else if (op->in_parts && !it->last) {
        symc_fused_copy_scales_apart(moving, scale->data, &view, it->dim,
            op->size, symc_fused_scales_pitch(op->rows), to);
    } else {
        if (!it->last)
            view = symc_f_view_cut(&view, it->dim, op->size);
        symc_fused_copy_scales(moving, scale->data, &view, to);
    }
    symc_fused_copy_b_scales(moving, &it->scaled,
        op->outer ? it->b.shape[1] : 1, own_at(op, op->b_scales_at));
}

/* Returns b as products take it; packs it first if necessary. */
static const char *prepare_b(
    const struct device_scatter *op, const struct symc_moving *moving)
{
    struct symc_f_view view = op->it->is_scaled
                                  ? symc_fused_view_columns(&op->it->b)
                                  : symc_f_view_of(&op->it->b);

    if (!op->b_packed)
        return op->it->b.data;
    pack(op, moving, op->it->b.data, &view, own_at(op, op->b_at));
    return own_at(op, op->b_at);
}

/* Enqueues a product. operands lacks the workspace. */
static void multiply(const struct device_scatter *op,
    const struct symc_moving *moving, void *plan,
    struct symc_product_operands operands, size_t nbytes)
{
    operands.workspace = own_at(op, op->workspace_at);
    if (plan != NULL)
        moving->enqueue->multiply(moving->state, plan, &operands);
    else /* no depth, or no elements */
        moving->enqueue->clear(moving->state, operands.c, nbytes);
}

/* Sets the scales for a rank's part. */
static void find_scales(const struct device_scatter *op, int rank,
    struct symc_product_operands *operands)
{
    const struct matmul_scatter *it = op->it;
    size_t a_at = op->scales_at, b_at = op->b_scales_at;

    if (!it->is_scaled)
        return;
    if (!it->last && !symc_fused_scatter_has_one_scale(op))
        a_at += (size_t)rank * symc_fused_scales_pitch(op->rows);
    if (it->last && op->outer)
        b_at += (size_t)(rank * op->cols) * sizeof(float);
    operands->a_scale = (const float *)(const void *)own_at(op, a_at);
    operands->b_scale = (const float *)(const void *)own_at(op, b_at);
}

/* Makes this rank's product for another rank's part, or its own, added to the
 * received sum. */
static void make_part(const struct device_scatter *op,
    const struct symc_moving *moving, int step, const char *b,
    struct symc_product_operands operands)
{
    int rank = (op->rank - step + op->size) % op->size;
    struct symmcoll_tensor a = symc_fused_scatter_rows(op, rank);
    struct symc_f_view view = symc_f_view_of(&a);
    int64_t first = rank * op->cols;
    enum place place = step == op->size ? ENDS : step == 1 ? BEGINS : ADDS;

    operands.a = a.data;
    operands.b = b;
    /* If all ranks have the same rows of a, these are packed once. */
    if (op->parts_packed) {
        operands.a = own_at(op, op->a_at);
        if (!op->it->last || step == 1)
            pack(op, moving, a.data, &view, own_at(op, op->a_at));
    }
    if (op->it->last)
        operands.b =
            b + (size_t)(first * (op->b.by_columns ? op->b.distance : 1)) *
                    op->elem;
    find_scales(op, rank, &operands);
    multiply(op, moving, op->plans[place], operands, op->part);
}

/* Returns the place of this rank's sums: the result, or memory of the group. */
static void *sums_of(const struct device_scatter *op)
{
    return symc_fused_scatter_ends_in_out(op) ? op->it->out.tensor.data
                                              : own_at(op, op->sums_at);
}

/* Returns the place that receives the sums of a step, which the next step
 * reads. */
static size_t inbox_at(const struct device_scatter *op, int step)
{
    return op->slots_at + (size_t)(step % INBOXES) * op->pitch;
}

/* Multiplies part by part, each added to the sum received in the step
 * before. */
static void move_in_parts(
    const struct device_scatter *op, const struct symc_moving *moving)
{
    const struct symc_enqueue *enqueue = moving->enqueue;
    int next = (op->rank + 1) % op->size;
    const char *b;

    if (op->it->is_scaled)
        copy_scales(op, moving);
    b = prepare_b(op, moving);
    for (int step = 1; step <= op->size; step++) {
        struct symc_product_operands operands = {.c = sums_of(op)};

        enqueue->synchronise(moving->state);
        if (step > 1)
            operands.added = own_at(op, inbox_at(op, step - 1));
        if (step < op->size)
            operands.c =
                symc_fused_device_at(op->it->fused, next, inbox_at(op, step));
        make_part(op, moving, step, b, operands);
    }
}

/* Makes the whole product, of which each rank reads its part in place. */
static void move_whole(
    const struct device_scatter *op, const struct symc_moving *moving)
{
    const struct matmul_scatter *it = op->it;
    struct symc_f_view view = symc_fused_scatter_view(op);
    struct symc_product_operands operands = {.a = it->a.data,
        .b = prepare_b(op, moving),
        .c = own_at(op, op->slots_at)};
    struct symc_launch launch = {.kind = SYMC_LAUNCH_REDUCE_SCATTER,
        .out = sums_of(op),
        .rows = {.at = op->slots_at, .count = it->total, .rows = 1},
        .slice = op->part};

    if (op->packed) {
        pack(op, moving, operands.a, &view, own_at(op, op->a_at));
        operands.a = own_at(op, op->a_at);
    }
    if (it->is_scaled)
        copy_scales(op, moving);
    find_scales(op, 0, &operands);
    multiply(op, moving, op->whole_plan, operands, (size_t)op->size * op->part);
    if (it->last) {
        launch.slice = (size_t)op->cols * op->sum;
        launch.rows.count = (size_t)op->cols;
        launch.rows.rows = (size_t)op->rows;
        launch.rows.pitch = (size_t)op->size * launch.slice;
    }
    moving->enqueue->launch(moving->state, &launch);
}

void symc_fused_scatter_move(
    struct symc_mover *mover, const struct symc_moving *moving)
{
    const struct device_scatter *op = (const struct device_scatter *)mover;
    const struct symmcoll_tensor *out = &op->it->out.tensor;

    if (op->in_parts)
        move_in_parts(op, moving);
    else
        move_whole(op, moving);
    if (!symc_fused_scatter_is_result(op))
        moving->enqueue->round(moving->state, out->dtype, out->data,
            own_at(op, op->sums_at), op->it->total);
    else
        moving->enqueue->copy(moving->state, out->data, sums_of(op), op->part);
}
