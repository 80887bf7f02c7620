/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_gather and matmul on a device: its arguments, the plans of its products,
 * and the agreement of the ranks before the operation is enqueued
 * (gather_moves.c).
 */
#include "fused/device_gather.h"

#include "config/config.h"
#include "fused/device_scaled.h"
#include "fused/gather_moves.h"

#include <stdlib.h>

/* ---- preparation, before the other ranks are waited for ---- */

static int64_t depth_of(const struct device_gather *op)
{
    return op->it->last ? op->it->depth * op->size : op->it->depth;
}

/* Plans the product of one rank's rows with a matrix. */
static symmcoll_status_t plan_part(struct device_gather *op, int index)
{
    struct gather_matmul *it = op->it;
    const struct symmcoll_tensor *out = &it->products[index].out.tensor;
    struct factor *factor = &op->factors[index];
    int64_t cols = factor->b.cols;
    size_t step = (size_t)(it->rows * cols) * symmcoll_dtype_size(out->dtype);
    struct symc_product product = {.a = symc_fused_device_rows(it->a.dtype,
                                       it->rows, it->depth, it->nbytes),
        .b = factor->b,
        .c = symc_fused_device_rows(out->dtype, it->rows, cols, step),
        .outer = factor->outer,
        .scaled = it->scaled,
        .workspace = SYMC_FUSED_WORKSPACE};
    uint32_t at = symc_product_alignment(out->data, 0);

    product.c.alignment = at < product.c.alignment ? at : product.c.alignment;
    at =
        symc_product_alignment(it->wanted ? it->gathered.tensor.data : NULL, 0);
    if (at < product.a.alignment)
        product.a.alignment = at;
    at = symc_product_alignment(op->contiguous ? it->a.data : NULL, 0);
    if (at < product.a.alignment)
        product.a.alignment = at;
    return symc_fused_device_plan(it->fused, it->name, SYMC_FUSED_PARTS,
        &product, &factor->part, &op->workspace);
}

/* Plans the product of all rows with a matrix. */
static symmcoll_status_t plan_whole(struct device_gather *op, int index)
{
    struct gather_matmul *it = op->it;
    const struct symmcoll_tensor *out = &it->products[index].out.tensor;
    struct factor *factor = &op->factors[index];
    int64_t rows = symc_fused_gather_rows(op), cols = factor->b.cols;
    struct symc_product product = {
        .a = symc_fused_device_rows(it->a.dtype, rows, depth_of(op), 0),
        .b = factor->b,
        .c = symc_fused_device_rows(out->dtype, rows, cols, 0),
        .outer = factor->outer,
        .scaled = it->scaled,
        .workspace = SYMC_FUSED_WORKSPACE};
    uint32_t at = symc_product_alignment(out->data, 0);

    product.c.alignment = at < product.c.alignment ? at : product.c.alignment;
    at =
        symc_product_alignment(it->wanted ? it->gathered.tensor.data : NULL, 0);
    if (at < product.a.alignment)
        product.a.alignment = at;
    return symc_fused_device_plan(it->fused, it->name, SYMC_FUSED_WHOLE,
        &product, &factor->whole, &op->workspace);
}

/* Describes a matrix, and adds its packed copy and scales to the layout. */
static void lay_out_b(
    struct device_gather *op, int index, struct symc_fused_room *room)
{
    const struct symmcoll_tensor *b = &op->it->products[index].b;
    struct factor *factor = &op->factors[index];

    if (op->it->scaled) {
        factor->packed = !symc_fused_device_columns(b, &factor->b);
        factor->scales_at = symc_fused_room_add(
            room, factor->outer ? (size_t)b->shape[1] : 1, sizeof(float));
    } else {
        factor->packed = !symc_fused_device_matrix(b, &factor->b);
        if (factor->packed)
            factor->b =
                symc_fused_device_rows(b->dtype, b->shape[0], b->shape[1], 0);
    }
    if (!factor->packed)
        return;
    factor->b_at = symc_fused_room_add(room,
        (size_t)(b->shape[0] * b->shape[1]), symmcoll_dtype_size(b->dtype));
}

/* Checks what 8-bit floats require on a device. */
static symmcoll_status_t check_scaled(const struct device_gather *op)
{
    const struct gather_matmul *it = op->it;
    const struct symc_fused_eighths eighths = {
        it->name, it->fused, &it->a, &it->scale};
    symmcoll_status_t status = symc_fused_check_eighths(&eighths);

    if (status == SYMMCOLL_OK && it->wanted)
        status = symc_fused_check_line(it->name, "a", it->gathered.tensor.data);
    for (int i = 0; i < it->n && status == SYMMCOLL_OK; i++) {
        const struct product *product = &it->products[i];

        status = symc_fused_check_eighths_b(
            &eighths, i, &product->b, &product->scaled, product->b.shape[1]);
        if (status == SYMMCOLL_OK)
            status = symc_fused_check_line(
                it->name, "results", product->out.tensor.data);
    }
    return status;
}

/* Adds the scales. If either matrix has a scale per row or column, both have
 * one for each. */
static void lay_out_scales(
    struct device_gather *op, struct symc_fused_room *room)
{
    const struct gather_matmul *it = op->it;
    bool one = it->scale.mode == SYMC_FUSED_SCALE_ONE;
    size_t count = 1;

    for (int i = 0; i < it->n; i++) {
        op->factors[i].outer = !one || it->products[i].scaled.by_column;
        op->spread = op->spread || (one && op->factors[i].outer);
    }
    if (op->spread)
        count = (size_t)symc_fused_gather_rows(op);
    op->scales_at =
        one ? symc_fused_room_add(room, count, sizeof(float))
            : symc_fused_room_add(
                  room, symc_fused_scales_pitch(it->rows), (size_t)op->size);
}

/* Lays out the memory and plans the products. */
static symmcoll_status_t prepare(
    struct device_gather *op, struct symc_fused_room *room)
{
    struct gather_matmul *it = op->it;
    struct symc_f_view view =
        symc_fused_view_first(&it->a, it->last ? 0 : it->dim);
    size_t size = (size_t)op->size;
    symmcoll_status_t status = SYMMCOLL_OK;

    op->contiguous = symc_f_view_is_contiguous(&view) &&
                     (!it->scaled || symc_fused_is_at_line(it->a.data));
    op->shard_at = symc_fused_room_add(room, it->nbytes, 1);
    op->factors = symc_alloc((size_t)it->n, sizeof(*op->factors));
    if (op->factors == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    if (it->scaled) {
        status = check_scaled(op);
        lay_out_scales(op, room);
    }
    if (it->last || !it->wanted)
        op->room_at = symc_fused_room_add(room, it->nbytes, size);
    if (it->last && !it->wanted)
        op->whole_at = symc_fused_room_add(room, it->nbytes, size);
    for (int i = 0; i < it->n && status == SYMMCOLL_OK; i++) {
        lay_out_b(op, i, room);
        status = plan_whole(op, i);
        /* another rank may need all rows at once */
        if (status == SYMMCOLL_OK && op->in_parts)
            status = plan_part(op, i);
    }
    op->workspace_at = symc_fused_room_add(room, op->workspace, 1);
    return status;
}

/* ---- the operation ---- */

symmcoll_status_t symc_fused_gather_on_device(struct gather_matmul *it,
    const struct symc_fused_call *begun, symmcoll_status_t status)
{
    struct symc_fused *fused = it->fused;
    struct device_gather op = {.mover.move = symc_fused_gather_move,
        .it = it,
        .rank = symc_group_rank(fused->group),
        .size = symc_group_size(fused->group)};
    struct symc_fused_room room = {.nbytes = 0};
    const struct symc_op made = {.kind = SYMC_FUSED_GATHER,
        .dtype = it->a.dtype,
        .op = SYMMCOLL_SUM,
        .count = (size_t)(it->rows * it->depth),
        .elem = (uint16_t)it->elem};

    if (it->rows < symc_group_config(fused->group)->fused_device_rows)
        fused->in_plain = true;
    op.in_parts = !it->last && !fused->in_plain && op.size > 1;
    if (status == SYMMCOLL_OK)
        status = prepare(&op, &room);
    if (fused->device == NULL)
        status = symc_fused_confirm(fused, &begun->args, &it->on.words, status);
    else
        status = symc_fused_device_agree(
            fused, &begun->args, &it->on, &room, status, &op.in_parts);
    if (status == SYMMCOLL_OK)
        status = symc_fused_device_run(fused, begun, &it->on, &made, &op.mover);
    free(op.factors);
    return status;
}
