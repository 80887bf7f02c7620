/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * matmul and reduce_scatter on a device: its arguments, the plans of its
 * products, and the agreement of the ranks before the operation is enqueued
 * (scatter_moves.c).
 */
#include "fused/device_scatter.h"

#include "config/config.h"
#include "fused/device_scaled.h"
#include "fused/scatter_moves.h"

/* ---- preparation, before the other ranks are waited for ---- */

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Plans the product for one rank's part. */
static symmcoll_status_t plan_part(struct device_scatter *op, enum place place)
{
    struct matmul_scatter *it = op->it;
    int64_t depth = it->b.shape[0];
    size_t line = (size_t)depth * op->elem;
    /* Distance between the rows of two ranks. It differs from the length of a
     * rank's rows if that rank has one row of the dimension. */
    int64_t apart = (const char *)symc_fused_scatter_rows(op, 1).data -
                    (const char *)it->a.data;
    struct symc_product product = {
        .a = symc_fused_device_rows(it->a.dtype, op->rows, depth,
            it->last ? 0 : (size_t)op->rows * line),
        .b = op->b,
        .c = symc_fused_device_rows(it->sent, op->rows, op->cols, op->pitch),
        .add = place != BEGINS,
        .divisor = it->op == SYMMCOLL_AVG ? op->size : 1,
        .outer = op->outer,
        .scaled = it->is_scaled,
        .workspace = SYMC_FUSED_WORKSPACE};
    size_t step = (size_t)op->cols * op->elem *
                  (op->b.by_columns ? (size_t)op->b.distance : 1);

    if (!op->parts_packed)
        product.a.alignment = least(
            product.a.alignment, symc_product_alignment(it->a.data, apart));
    if (it->last) {
        product.b.cols = op->cols;
        product.b.alignment = least(
            product.b.alignment, symc_product_alignment(NULL, (int64_t)step));
    }
    if (place == ENDS && symc_fused_scatter_ends_in_out(op))
        product.c.alignment = least(product.c.alignment,
            symc_product_alignment(it->out.tensor.data, 0));
    return symc_fused_device_plan(it->fused, it->name, SYMC_FUSED_PARTS,
        &product, &op->plans[place], &op->workspace);
}

static symmcoll_status_t plan_whole(struct device_scatter *op)
{
    struct matmul_scatter *it = op->it;
    int64_t rows = it->last ? op->rows : op->rows * op->size;
    struct symc_product product = {
        .a = symc_fused_device_rows(it->a.dtype, rows, it->b.shape[0], 0),
        .b = op->b,
        .c = symc_fused_device_rows(it->sent, rows, it->b.shape[1], 0),
        .outer = op->outer,
        .scaled = it->is_scaled,
        .workspace = SYMC_FUSED_WORKSPACE};

    if (!op->packed)
        product.a.alignment =
            least(product.a.alignment, symc_product_alignment(it->a.data, 0));
    return symc_fused_device_plan(it->fused, it->name, SYMC_FUSED_WHOLE,
        &product, &op->whole_plan, &op->workspace);
}

/* Returns whether each rank's rows begin at a line, which 8-bit floats need. */
static bool rows_are_at_lines(const struct device_scatter *op)
{
    const struct matmul_scatter *it = op->it;

    return !it->is_scaled ||
           (symc_fused_is_at_line(it->a.data) &&
               symc_fused_is_at_line(symc_fused_scatter_rows(op, 1).data));
}

/* Checks what 8-bit floats require on a device. */
static symmcoll_status_t check_scaled(const struct device_scatter *op)
{
    const struct matmul_scatter *it = op->it;
    const struct symc_fused_eighths eighths = {
        it->name, it->fused, &it->a, &it->scale};
    symmcoll_status_t status = symc_fused_check_eighths(&eighths);

    return status == SYMMCOLL_OK ? symc_fused_check_eighths_b(&eighths, 0,
                                       &it->b, &it->scaled, op->cols)
                                 : status;
}

/* Adds the scales. If either matrix has a scale per row or column, both have
 * one for each. */
static void lay_out_scales(
    struct device_scatter *op, struct symc_fused_room *room)
{
    const struct matmul_scatter *it = op->it;
    size_t rows = (size_t)op->rows * (it->last ? 1 : (size_t)op->size);

    op->outer = !symc_fused_scatter_has_one_scale(op) || it->scaled.by_column;
    if (symc_fused_scatter_has_one_scale(op))
        op->scales_at =
            symc_fused_room_add(room, op->outer ? rows : 1, sizeof(float));
    else
        op->scales_at = symc_fused_room_add(
            room, symc_fused_scales_pitch(op->rows), (size_t)op->size);
    op->b_scales_at = symc_fused_room_add(
        room, op->outer ? (size_t)it->b.shape[1] : 1, sizeof(float));
}

/* Uses b in place if its layout allows that; otherwise adds a packed copy of it to
 * the memory that the operation needs. */
static void lay_out_b(struct device_scatter *op, struct symc_fused_room *room)
{
    const struct symmcoll_tensor *b = &op->it->b;

    if (op->it->is_scaled) {
        op->b_packed = !symc_fused_device_columns(b, &op->b);
    } else {
        op->b_packed = !symc_fused_device_matrix(b, &op->b);
        if (op->b_packed)
            op->b =
                symc_fused_device_rows(b->dtype, b->shape[0], b->shape[1], 0);
    }
    if (op->b_packed)
        op->b_at = symc_fused_room_add(
            room, (size_t)(b->shape[0] * b->shape[1]), op->elem);
}

/* Adds the parts of memory to the layout, except scales and workspace. */
static void lay_out(struct device_scatter *op, struct symc_fused_room *room)
{
    struct matmul_scatter *it = op->it;
    struct symmcoll_tensor first = symc_fused_scatter_rows(op, 0);
    struct symc_f_view all = symc_fused_scatter_view(op),
                       view = symc_f_view_of(&first);
    size_t size = (size_t)op->size;
    size_t count = (size_t)symc_fused_count(&it->a, it->a.ndim);
    bool at_lines = rows_are_at_lines(op);

    op->packed = !symc_f_view_is_contiguous(&all) || !at_lines;
    op->parts_packed = !symc_f_view_is_contiguous(&view) || !at_lines;
    op->slots_at =
        symc_fused_room_add(room, op->pitch, size < INBOXES ? INBOXES : size);
    if (op->packed || op->parts_packed)
        op->a_at = symc_fused_room_add(room, count, op->elem);
    lay_out_b(op, room);
    op->sums_at = symc_fused_room_add(
        room, symc_fused_scatter_ends_in_out(op) ? 0 : op->part, 1);
}

/* Lays out the memory and plans the products. */
static symmcoll_status_t prepare(
    struct device_scatter *op, struct symc_fused_room *room)
{
    struct matmul_scatter *it = op->it;
    const struct symmcoll_tensor *out = &it->out.tensor;
    symmcoll_status_t status;

    op->elem = symmcoll_dtype_size(it->a.dtype);
    op->sum = symmcoll_dtype_size(it->sent);
    op->cols = out->shape[out->ndim - 1];
    op->rows = symc_fused_count(out, out->ndim - 1);
    op->part = it->total * op->sum;
    op->pitch =
        (op->part + SYMC_FUSED_ALIGN - 1) / SYMC_FUSED_ALIGN * SYMC_FUSED_ALIGN;
    status = it->is_scaled ? check_scaled(op) : SYMMCOLL_OK;
    if (status != SYMMCOLL_OK)
        return status;
    lay_out(op, room);
    if (it->is_scaled)
        lay_out_scales(op, room);
    status = plan_whole(op);
    /* Another rank may need all parts at once. */
    for (int i = 0; i < PLACES && status == SYMMCOLL_OK && op->in_parts; i++)
        if (i != ADDS || op->size > 2)
            status = plan_part(op, (enum place)i);
    op->workspace_at = symc_fused_room_add(room, op->workspace, 1);
    return status;
}

/* ---- the operation ---- */

symmcoll_status_t symc_fused_scatter_on_device(
    struct matmul_scatter *it, symmcoll_status_t status)
{
    struct symc_fused *fused = it->fused;
    const struct symc_fused_call *begun = &it->begun;
    struct device_scatter op = {.mover.move = symc_fused_scatter_move,
        .it = it,
        .rank = symc_group_rank(fused->group),
        .size = symc_group_size(fused->group)};
    struct symc_op made = {
        .kind = SYMC_FUSED_SCATTER, .op = it->op, .count = it->total};
    struct symc_fused_room room = {.nbytes = 0};

    if (status == SYMMCOLL_OK &&
        symc_fused_count(&it->out.tensor, it->out.tensor.ndim - 1) <
            symc_group_config(fused->group)->fused_device_rows)
        fused->in_plain = true;
    op.in_parts = !fused->in_plain && op.size > 1;
    if (status == SYMMCOLL_OK)
        status = prepare(&op, &room);
    if (fused->device == NULL)
        status = symc_fused_confirm(fused, &begun->args, &it->on.words, status);
    else
        status = symc_fused_device_agree(
            fused, &begun->args, &it->on, &room, status, &op.in_parts);
    made.dtype = it->sent;
    made.elem = (uint16_t)op.sum;
    return status == SYMMCOLL_OK
               ? symc_fused_device_run(fused, begun, &it->on, &made, &op.mover)
               : status;
}
