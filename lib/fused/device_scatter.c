/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * matmul and reduce_scatter on a device.  Each rank multiplies what the rank after
 * it is to have, and so on, its own part last; beside that it copies each part, as
 * float32 or float64, to a slot of its own in its owner's memory, who adds up the
 * slots in the order of ranks.  Few rows are one product, of which each rank reads
 * its part from all others.
 *
 * A barrier is before the first copy, for until then the owner may read the slots
 * of the operation before; another one after the last.  What a rank makes in its
 * own memory waits for neither: nobody else reads or writes that there.
 */
#include "fused/device_scatter.h"

#include "config/config.h"
#include "fused/device_scaled.h"

#include <stdlib.h>
#include <string.h>

#define BUFFERS \
    2 /* parts that are made, in turn, until they have been copied */

struct device_scatter {
    struct symc_mover mover; /* first */
    struct matmul_scatter *it;
    int rank, size;
    bool in_parts;      /* products are of one rank's part each */
    int64_t rows, cols; /* of a part */
    size_t elem, sum;   /* bytes of an element of a, and of a sum */
    size_t part, pitch; /* bytes of a part's sums, and from slot to slot */
    bool packed, parts_packed; /* a is copied first, to: */
    size_t a_at;
    bool b_packed;
    size_t b_at;
    struct symc_product_matrix b; /* the whole */
    bool outer;                   /* scales are of rows and columns */
    size_t scales_at, b_scales_at;
    size_t slots_at; /* sums for all ranks, or of them */
    size_t made_at;  /* BUFFERS parts */
    size_t sums_at;  /* before they are rounded */
    size_t workspace_at, workspace;
    void *part_plan, *whole_plan; /* NULL: none */
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

static bool is_float(const struct device_scatter *op)
{
    return op->it->sum == op->it->out.tensor.dtype;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* One rank's part to memory of this rank's. */
static symmcoll_status_t plan_part(struct device_scatter *op)
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
        .c = symc_fused_device_rows(it->sum, op->rows, op->cols, op->pitch),
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
    return symc_fused_device_plan(
        it->fused, it->name, &product, &op->part_plan, &op->workspace);
}

static symmcoll_status_t plan_whole(struct device_scatter *op)
{
    struct matmul_scatter *it = op->it;
    int64_t rows = it->last ? op->rows : op->rows * op->size;
    struct symc_product product = {
        .a = symc_fused_device_rows(it->a.dtype, rows, it->b.shape[0], 0),
        .b = op->b,
        .c = symc_fused_device_rows(it->sum, rows, it->b.shape[1], 0),
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
    op->slots_at = symc_fused_room_add(room, op->pitch, size);
    if (op->packed || op->parts_packed)
        op->a_at = symc_fused_room_add(room, count, op->elem);
    lay_out_b(op, room);
    op->made_at = symc_fused_room_add(room, op->pitch, BUFFERS);
    op->sums_at = symc_fused_room_add(room, is_float(op) ? 0 : op->part, 1);
}

static symmcoll_status_t prepare(
    struct device_scatter *op, struct symc_fused_room *room)
{
    struct matmul_scatter *it = op->it;
    const struct symmcoll_tensor *out = &it->out.tensor;
    symmcoll_status_t status;

    op->elem = symmcoll_dtype_size(it->a.dtype);
    op->sum = symmcoll_dtype_size(it->sum);
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
    if (status == SYMMCOLL_OK && op->in_parts)
        status = plan_part(op);
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

/* What a rank is to have, from one of this rank's buffers on. */
static void make_part(const struct device_scatter *op,
    const struct symc_moving *moving, int rank, const char *b, void *to)
{
    struct symmcoll_tensor a = rows_for(op, rank);
    struct symc_f_view view = symc_f_view_of(&a);
    struct symc_product_operands operands = {.b = b, .c = to};
    int64_t first = rank * op->cols;
    const void *from = a.data;

    /* Where all ranks' rows are the same they are packed once. */
    if (op->parts_packed) {
        from = own_at(op, op->a_at);
        if (!op->it->last || rank == (op->rank + 1) % op->size)
            pack(op, moving, a.data, &view, own_at(op, op->a_at));
    }
    if (op->it->last)
        operands.b =
            b + (size_t)(first * (op->b.by_columns ? op->b.distance : 1)) *
                    op->elem;
    operands.a = from;
    find_scales(op, rank, &operands);
    multiply(op, moving, op->part_plan, operands, op->part);
}

static void add_up(
    const struct device_scatter *op, const struct symc_moving *moving)
{
    const struct matmul_scatter *it = op->it;
    const struct symc_slots slots = {
        own_at(op, op->slots_at), op->pitch, it->total};

    moving->enqueue->sum(moving->state, &slots,
        is_float(op) ? it->out.tensor.data : own_at(op, op->sums_at));
}

static void move_in_parts(
    const struct device_scatter *op, const struct symc_moving *moving)
{
    const struct symc_enqueue *enqueue = moving->enqueue;
    size_t slot = op->slots_at + (size_t)op->rank * op->pitch;
    const char *b;

    enqueue->set_stream(moving->state, true);
    enqueue->synchronise(moving->state);
    enqueue->set_stream(moving->state, false);
    if (op->it->is_scaled)
        copy_scales(op, moving);
    b = prepare_b(op, moving);
    for (int i = 1; i < op->size; i++) {
        int to = (op->rank + i) % op->size;
        char *made =
            own_at(op, op->made_at + (size_t)(i % BUFFERS) * op->pitch);

        enqueue->set_stream(moving->state, false);
        make_part(op, moving, to, b, made);
        /* What was made before this has been copied when the next one takes its
         * place; the own part has another. */
        if (i >= BUFFERS && i + 1 < op->size)
            enqueue->follow(moving->state);
        enqueue->set_stream(moving->state, true);
        enqueue->follow(moving->state);
        enqueue->copy(moving->state,
            symc_fused_device_at(op->it->fused, to, slot), made, op->part);
    }
    enqueue->synchronise(moving->state);
    enqueue->set_stream(moving->state, false);
    /* Beside the copies: only this rank uses that slot, and what others have read
     * there they had read before the last barrier of the operation before. */
    make_part(op, moving, op->rank, b, own_at(op, slot));
    enqueue->follow(moving->state);
    add_up(op, moving);
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
        .out = is_float(op) ? it->out.tensor.data : own_at(op, op->sums_at),
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
    if (!is_float(op))
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
    const struct symc_op made = {.kind = SYMC_FUSED_SCATTER,
        .dtype = it->sum,
        .op = it->op,
        .count = it->total,
        .elem = (uint16_t)symmcoll_dtype_size(it->sum)};
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
    if (status == SYMMCOLL_OK)
        status = symc_fused_device_run(fused, begun, &it->on, &made, &op.mover);
    return status;
}
