/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * matmul and reduce_scatter on a device.  The sum that a rank is to have goes from rank
 * to rank: the one after it writes its product to the memory of the next one, and each
 * adds its own to what has come and writes the sum on to the next, until the rank
 * itself adds the last.  All do so at once, each for another rank: so what is sent is
 * written by the product that makes it, and sums are made in it.  Few rows are one
 * product, of which each rank reads its part from all others.
 *
 * Sums come to two places in turn.  A barrier is between a product that writes to the
 * next rank's and that which reads there; the same keep a rank from writing where a sum
 * is still read: that was read before the barrier in between.  One more is before all,
 * for what the operation before has left.
 */
#include "fused/device_scatter.h"

#include "config/config.h"
#include "fused/device_scaled.h"

#include <stdlib.h>
#include <string.h>

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
    bool in_parts;            /* products are of one rank's part each */
    int64_t rows, cols;       /* of a part */
    enum symmcoll_dtype sums; /* of what goes round */
    size_t elem, sum;         /* bytes of an element of a, and of those */
    size_t part, pitch; /* bytes of a part's sums, and from slot to slot */
    bool packed, parts_packed; /* a is copied first, to: */
    size_t a_at;
    bool b_packed;
    size_t b_at;
    struct symc_product_matrix b; /* the whole */
    bool outer;                   /* scales are of rows and columns */
    size_t scales_at, b_scales_at;
    size_t
        slots_at;   /* sums for all ranks; the first ones are where sums come */
    size_t sums_at; /* before they are rounded */
    size_t workspace_at, workspace;
    void *plans[PLACES], *whole_plan; /* NULL: none */
};

/* ---- before the others are waited for ---- */

/* The rows of a that belong to a rank's part; all, where b is cut. */
static struct symmcoll_tensor rows_for(
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
static struct symc_f_view view_of_all(const struct device_scatter *op)
{
    struct symc_f_view view = symc_f_view_of(&op->it->a);

    return op->it->last ? view : symc_f_view_cut(&view, op->it->dim, op->size);
}

/* Half as many bytes go round, and each rank rounds. */
static enum symmcoll_dtype find_sums(const struct matmul_scatter *it)
{
    enum symmcoll_dtype out = it->out.tensor.dtype;
    bool is_half = out == SYMMCOLL_FLOAT16 || out == SYMMCOLL_BFLOAT16;

    return is_half && it->fused->group->world->config->fused_round_parts
               ? out
               : it->sum;
}

/* Sums are results; else they are rounded at the end. */
static bool is_result(const struct device_scatter *op)
{
    return op->sums == op->it->out.tensor.dtype;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* One rank's part. */
static symmcoll_status_t plan_part(struct device_scatter *op, enum place place)
{
    struct matmul_scatter *it = op->it;
    int64_t depth = it->b.shape[0];
    size_t line = (size_t)depth * op->elem;
    /* From one rank's rows to those of the next, which is not where the former end where
     * a rank has one of that dimension. */
    int64_t apart =
        (const char *)rows_for(op, 1).data - (const char *)it->a.data;
    struct symc_product product = {
        .a = symc_fused_device_rows(it->a.dtype, op->rows, depth,
            it->last ? 0 : (size_t)op->rows * line),
        .b = op->b,
        .c = symc_fused_device_rows(op->sums, op->rows, op->cols, op->pitch),
        .add = place == ADDS || (place == ENDS && op->size > 1),
        .divisor = it->op == SYMMCOLL_AVG ? op->size : 1,
        .outer = op->outer,
        .scaled = it->is_scaled};
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
    if (place == ENDS && is_result(op))
        product.c.alignment = least(product.c.alignment,
            symc_product_alignment(it->out.tensor.data, 0));
    return symc_fused_device_plan(
        it->fused, it->name, &product, &op->plans[place], &op->workspace);
}

static symmcoll_status_t plan_whole(struct device_scatter *op)
{
    struct matmul_scatter *it = op->it;
    int64_t rows = it->last ? op->rows : op->rows * op->size;
    struct symc_product product = {
        .a = symc_fused_device_rows(it->a.dtype, rows, it->b.shape[0], 0),
        .b = op->b,
        .c = symc_fused_device_rows(op->sums, rows, it->b.shape[1], 0),
        .outer = op->outer,
        .scaled = it->is_scaled};

    if (!op->packed)
        product.a.alignment =
            least(product.a.alignment, symc_product_alignment(it->a.data, 0));
    return symc_fused_device_plan(
        it->fused, it->name, &product, &op->whole_plan, &op->workspace);
}

static bool has_one_scale(const struct device_scatter *op)
{
    return op->it->scale.mode == SYMC_FUSED_SCALE_ONE;
}

/* 8-bit floats: whether each rank's rows begin where a line may. */
static bool rows_are_at_lines(const struct device_scatter *op)
{
    const struct matmul_scatter *it = op->it;

    return !it->is_scaled || (symc_fused_is_at_line(it->a.data) &&
                                 symc_fused_is_at_line(rows_for(op, 1).data));
}

static symmcoll_status_t check_scaled(const struct device_scatter *op)
{
    const struct matmul_scatter *it = op->it;
    const struct symc_fused_eighths eighths = {
        it->name, it->fused->group, &it->a, &it->scale};
    symmcoll_status_t status = symc_fused_check_eighths(&eighths);

    return status == SYMMCOLL_OK ? symc_fused_check_eighths_b(&eighths, 0,
                                       &it->b, &it->scaled, op->cols)
                                 : status;
}

/* Where scales of one matrix are of rows or columns there is one for each line. */
static void lay_out_scales(
    struct device_scatter *op, struct symc_fused_room *room)
{
    const struct matmul_scatter *it = op->it;
    size_t rows = (size_t)op->rows * (it->last ? 1 : (size_t)op->size);

    op->outer = !has_one_scale(op) || it->scaled.by_column;
    if (has_one_scale(op))
        op->scales_at =
            symc_fused_room_add(room, op->outer ? rows : 1, sizeof(float));
    else
        op->scales_at = symc_fused_room_add(
            room, symc_fused_scales_pitch(op->rows), (size_t)op->size);
    op->b_scales_at = symc_fused_room_add(
        room, op->outer ? (size_t)it->b.shape[1] : 1, sizeof(float));
}

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

static void lay_out(struct device_scatter *op, struct symc_fused_room *room)
{
    struct matmul_scatter *it = op->it;
    struct symmcoll_tensor first = rows_for(op, 0);
    struct symc_f_view all = view_of_all(op), view = symc_f_view_of(&first);
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
    op->sums_at = symc_fused_room_add(room, is_result(op) ? 0 : op->part, 1);
}

static symmcoll_status_t prepare(
    struct device_scatter *op, struct symc_fused_room *room)
{
    struct matmul_scatter *it = op->it;
    const struct symmcoll_tensor *out = &it->out.tensor;
    symmcoll_status_t status;

    op->elem = symmcoll_dtype_size(it->a.dtype);
    op->sums = find_sums(it);
    op->sum = symmcoll_dtype_size(op->sums);
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
    /* Another rank may want all at once. */
    for (int i = 0; i < PLACES && status == SYMMCOLL_OK && op->in_parts; i++)
        status = plan_part(op, (enum place)i);
    op->workspace_at = symc_fused_room_add(room, op->workspace, 1);
    return status;
}

/* ---- what is enqueued ---- */

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

/* Scales of rows, those of ranks' parts one after the other or apart, and of b. */
static void copy_scales(
    const struct device_scatter *op, const struct symc_moving *moving)
{
    const struct matmul_scatter *it = op->it;
    const struct symmcoll_tensor *scale = &it->scale.tensor;
    char *to = own_at(op, op->scales_at);
    struct symc_f_view view = symc_f_view_of(scale);

    if (has_one_scale(op)) {
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

/* operands: without what is the same for all. */
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

/* Those of a rank's part. */
static void find_scales(const struct device_scatter *op, int rank,
    struct symc_product_operands *operands)
{
    const struct matmul_scatter *it = op->it;
    size_t a_at = op->scales_at, b_at = op->b_scales_at;

    if (!it->is_scaled)
        return;
    if (!it->last && !has_one_scale(op))
        a_at += (size_t)rank * symc_fused_scales_pitch(op->rows);
    if (it->last && op->outer)
        b_at += (size_t)(rank * op->cols) * sizeof(float);
    operands->a_scale = (const float *)(const void *)own_at(op, a_at);
    operands->b_scale = (const float *)(const void *)own_at(op, b_at);
}

/* This rank's product for another one, or for itself; added: what has come. */
static void make_part(const struct device_scatter *op,
    const struct symc_moving *moving, int step, const char *b,
    struct symc_product_operands operands)
{
    int rank = (op->rank - step + op->size) % op->size;
    struct symmcoll_tensor a = rows_for(op, rank);
    struct symc_f_view view = symc_f_view_of(&a);
    int64_t first = rank * op->cols;
    enum place place = step == op->size ? ENDS : step == 1 ? BEGINS : ADDS;

    operands.a = a.data;
    operands.b = b;
    /* Where all ranks' rows are the same they are packed once. */
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

static void *sums_of(const struct device_scatter *op)
{
    return is_result(op) ? op->it->out.tensor.data : own_at(op, op->sums_at);
}

/* Where what a rank has written in a step is read in the next one. */
static size_t inbox_at(const struct device_scatter *op, int step)
{
    return op->slots_at + (size_t)(step % INBOXES) * op->pitch;
}

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

        if (op->size > 1)
            enqueue->synchronise(moving->state);
        if (step > 1)
            operands.added = own_at(op, inbox_at(op, step - 1));
        if (step < op->size)
            operands.c =
                symc_fused_device_at(op->it->fused, next, inbox_at(op, step));
        make_part(op, moving, step, b, operands);
    }
}

/* One product, of which each rank reads its part where it is. */
static void move_whole(
    const struct device_scatter *op, const struct symc_moving *moving)
{
    const struct matmul_scatter *it = op->it;
    struct symc_f_view view = view_of_all(op);
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

static void move(struct symc_mover *mover, const struct symc_moving *moving)
{
    const struct device_scatter *op = (const struct device_scatter *)mover;
    const struct symmcoll_tensor *out = &op->it->out.tensor;

    if (op->in_parts)
        move_in_parts(op, moving);
    else
        move_whole(op, moving);
    if (!is_result(op))
        moving->enqueue->round(moving->state, out->dtype, out->data,
            own_at(op, op->sums_at), op->it->total);
}

/* ---- the operation ---- */

symmcoll_status_t symc_fused_scatter_on_device(
    struct matmul_scatter *it, symmcoll_status_t status)
{
    struct symc_fused *fused = it->fused;
    const struct symc_fused_call *begun = &it->begun;
    struct device_scatter op = {.mover.move = move,
        .it = it,
        .rank = fused->group->rank,
        .size = fused->group->size};
    struct symc_op made = {
        .kind = SYMC_FUSED_SCATTER, .op = it->op, .count = it->total};
    struct symc_fused_room room = {.nbytes = 0};
    bool plain = false;

    if (status == SYMMCOLL_OK &&
        symc_fused_count(&it->out.tensor, it->out.tensor.ndim - 1) <
            fused->group->world->config->fused_device_rows)
        fused->in_plain = true;
    op.in_parts = !fused->in_plain;
    if (status == SYMMCOLL_OK)
        status = prepare(&op, &room);
    if (fused->device == NULL)
        status = symc_fused_confirm(fused, &begun->args, &it->on.words, status);
    else
        status = symc_fused_device_agree(
            fused, &begun->args, &it->on, &room, status, &plain);
    op.in_parts = op.in_parts && !plain;
    made.dtype = op.sums;
    made.elem = (uint16_t)op.sum;
    if (status == SYMMCOLL_OK)
        status = symc_fused_device_run(fused, begun, &it->on, &made, &op.mover);
    return status;
}
