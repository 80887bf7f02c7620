/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_gather and matmul on a device.  Each rank copies its shard to memory that
 * all ranks map and multiplies it at once; beside that it copies the shards of the
 * ranks after it, one by one, and multiplies each when it has arrived.  Few rows,
 * and those of the last dimension, are gathered first, since each product reads
 * the whole of b.
 *
 * What others read is written before a barrier; a second one is after the last
 * copy, so that nobody writes to what is still read.
 *
 * Scales of the rows of a shard are copied beside these.
 */
#include "fused/device_gather.h"

#include "config/config.h"
#include "fused/device_scaled.h"

#include <stdlib.h>

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

/* ---- before the others are waited for ---- */

static int64_t depth_of(const struct device_gather *op)
{
    return op->it->last ? op->it->depth * op->size : op->it->depth;
}

/* Of A, where it is gathered. */
static int64_t rows_of(const struct device_gather *op)
{
    return op->it->last ? op->it->rows : op->it->rows * op->size;
}

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
        .scaled = it->scaled};
    uint32_t at = symc_product_alignment(out->data, 0);

    product.c.alignment = at < product.c.alignment ? at : product.c.alignment;
    at =
        symc_product_alignment(it->wanted ? it->gathered.tensor.data : NULL, 0);
    if (at < product.a.alignment)
        product.a.alignment = at;
    at = symc_product_alignment(op->contiguous ? it->a.data : NULL, 0);
    if (at < product.a.alignment)
        product.a.alignment = at;
    return symc_fused_device_plan(
        it->fused, it->name, &product, &factor->part, &op->workspace);
}

static symmcoll_status_t plan_whole(struct device_gather *op, int index)
{
    struct gather_matmul *it = op->it;
    const struct symmcoll_tensor *out = &it->products[index].out.tensor;
    struct factor *factor = &op->factors[index];
    int64_t rows = rows_of(op), cols = factor->b.cols;
    struct symc_product product = {
        .a = symc_fused_device_rows(it->a.dtype, rows, depth_of(op), 0),
        .b = factor->b,
        .c = symc_fused_device_rows(out->dtype, rows, cols, 0),
        .outer = factor->outer,
        .scaled = it->scaled};
    uint32_t at = symc_product_alignment(out->data, 0);

    product.c.alignment = at < product.c.alignment ? at : product.c.alignment;
    at =
        symc_product_alignment(it->wanted ? it->gathered.tensor.data : NULL, 0);
    if (at < product.a.alignment)
        product.a.alignment = at;
    return symc_fused_device_plan(
        it->fused, it->name, &product, &factor->whole, &op->workspace);
}

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

static symmcoll_status_t check_scaled(const struct device_gather *op)
{
    const struct gather_matmul *it = op->it;
    const struct symc_fused_eighths eighths = {
        it->name, it->fused->group, &it->a, &it->scale};
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

/* Where scales of one matrix are of rows or columns there is one for each line. */
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
        count = (size_t)rows_of(op);
    op->scales_at =
        one ? symc_fused_room_add(room, count, sizeof(float))
            : symc_fused_room_add(
                  room, symc_fused_scales_pitch(it->rows), (size_t)op->size);
}

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
        /* Another rank may want all rows at once. */
        if (status == SYMMCOLL_OK && op->in_parts)
            status = plan_part(op, i);
    }
    op->workspace_at = symc_fused_room_add(room, op->workspace, 1);
    return status;
}

/* ---- what is enqueued ---- */

static char *own_at(const struct device_gather *op, size_t offset)
{
    return symc_fused_device_at(op->it->fused, op->rank, offset);
}

/* Shards of all ranks, contiguous. */
static char *room_of(const struct device_gather *op)
{
    return op->it->wanted && !op->it->last ? op->it->gathered.tensor.data
                                           : own_at(op, op->room_at);
}

static void pack(const struct device_gather *op,
    const struct symc_moving *moving, const struct symmcoll_tensor *tensor,
    const struct symc_f_view *view, void *to)
{
    const struct symc_strided copy = {.out = to,
        .in = tensor->data,
        .elem = op->it->elem,
        .ndim = view->ndim,
        .shape = view->shape,
        .strides = view->strides};

    moving->enqueue->strided(moving->state, &copy);
}

static void pack_all_b(
    const struct device_gather *op, const struct symc_moving *moving)
{
    for (int i = 0; i < op->it->n; i++) {
        const struct symmcoll_tensor *b = &op->it->products[i].b;
        struct symc_f_view view =
            op->it->scaled ? symc_fused_view_columns(b) : symc_f_view_of(b);

        if (op->factors[i].packed)
            pack(op, moving, b, &view, own_at(op, op->factors[i].b_at));
    }
}

/* To where the others read it. */
static void copy_shard(
    const struct device_gather *op, const struct symc_moving *moving)
{
    const struct gather_matmul *it = op->it;
    struct symc_f_view view =
        symc_fused_view_first(&it->a, it->last ? 0 : it->dim);

    if (op->contiguous)
        moving->enqueue->copy(
            moving->state, own_at(op, op->shard_at), it->a.data, it->nbytes);
    else
        pack(op, moving, &it->a, &view, own_at(op, op->shard_at));
}

/* ---- scales ---- */

/* Bytes from the scales of a rank's rows to those of the next one's. */
static size_t pitch_of(const struct device_gather *op)
{
    return op->in_parts ? symc_fused_scales_pitch(op->it->rows)
                        : (size_t)op->it->rows * sizeof(float);
}

/* Those of this rank's, which others read; before anything is written to memory of
 * the caller's. */
static void copy_scales(
    const struct device_gather *op, const struct symc_moving *moving)
{
    const struct gather_matmul *it = op->it;
    const struct symmcoll_tensor *scale = &it->scale.tensor;
    char *to = own_at(op, op->scales_at);
    struct symc_f_view view;

    if (it->scale.mode == SYMC_FUSED_SCALE_ONE) {
        symc_fused_spread_scale(
            moving, scale->data, op->spread ? rows_of(op) : 1, to);
    } else {
        view = symc_fused_view_first(scale, it->dim);
        if (it->scale.mode == SYMC_FUSED_SCALE_ROWS)
            symc_fused_copy_scales(moving, scale->data, &view,
                to + (size_t)op->rank * pitch_of(op));
        else if (op->in_parts)
            symc_fused_copy_scales_apart(
                moving, scale->data, &view, 0, op->size, pitch_of(op), to);
        else
            symc_fused_copy_scales(moving, scale->data, &view, to);
    }
    for (int i = 0; i < it->n; i++) {
        const struct factor *factor = &op->factors[i];

        symc_fused_copy_b_scales(moving, &it->products[i].scaled,
            factor->outer ? factor->b.cols : 1, own_at(op, factor->scales_at));
    }
}

/* Rows of a rank, and their scales. */
static void copy_from(const struct device_gather *op,
    const struct symc_moving *moving, int from, char *to)
{
    const struct gather_matmul *it = op->it;
    size_t at = op->scales_at + (size_t)from * pitch_of(op);

    moving->enqueue->copy(moving->state, to,
        symc_fused_device_at(it->fused, from, op->shard_at), it->nbytes);
    if (it->scaled && it->scale.mode == SYMC_FUSED_SCALE_ROWS &&
        from != op->rank)
        moving->enqueue->copy(moving->state, own_at(op, at),
            symc_fused_device_at(it->fused, from, at),
            (size_t)it->rows * sizeof(float));
}

/* Of the rows from one on. */
static const float *scales_of(const struct device_gather *op, int64_t first)
{
    size_t at = op->scales_at;

    if (!op->it->scaled)
        return NULL;
    if (op->it->scale.mode != SYMC_FUSED_SCALE_ONE && first > 0)
        at += (size_t)(first / op->it->rows) * pitch_of(op);
    return (const float *)(const void *)own_at(op, at);
}

/* ---- products ---- */

/* Rows of all results, from one on. */
static void multiply(const struct device_gather *op,
    const struct symc_moving *moving, bool part, int64_t first,
    const void *rows)
{
    const struct gather_matmul *it = op->it;
    int64_t count = part ? it->rows : rows_of(op);

    for (int i = 0; i < it->n; i++) {
        const struct factor *factor = &op->factors[i];
        const struct symmcoll_tensor *out = &it->products[i].out.tensor;
        size_t line = (size_t)factor->b.cols * symmcoll_dtype_size(out->dtype);
        void *plan = part ? factor->part : factor->whole;
        const struct symc_product_operands operands = {.a = rows,
            .b = factor->packed ? own_at(op, factor->b_at)
                                : it->products[i].b.data,
            .c = (char *)out->data + (size_t)first * line,
            .a_scale = scales_of(op, first),
            .b_scale = it->scaled ? (const float *)(const void *)own_at(
                                        op, factor->scales_at)
                                  : NULL,
            .workspace = own_at(op, op->workspace_at)};

        if (plan != NULL)
            moving->enqueue->multiply(moving->state, plan, &operands);
        else /* no depth, or no elements */
            moving->enqueue->clear(
                moving->state, operands.c, (size_t)count * line);
    }
}

static void move_in_parts(
    const struct device_gather *op, const struct symc_moving *moving)
{
    const struct symc_enqueue *enqueue = moving->enqueue;
    const struct gather_matmul *it = op->it;
    char *room = room_of(op);
    const void *mine = op->contiguous ? it->a.data : own_at(op, op->shard_at);

    if (it->scaled)
        copy_scales(op, moving);
    /* One that is packed is read from there by the own product, too. */
    enqueue->set_stream(moving->state, op->contiguous);
    copy_shard(op, moving);
    enqueue->set_stream(moving->state, true);
    enqueue->synchronise(moving->state);
    enqueue->set_stream(moving->state, false);
    pack_all_b(op, moving);
    multiply(op, moving, true, op->rank * it->rows, mine);
    for (int i = 1; i < op->size; i++) {
        int from = (op->rank + i) % op->size;
        char *to = room + (size_t)from * it->nbytes;

        enqueue->set_stream(moving->state, true);
        copy_from(op, moving, from, to);
        enqueue->set_stream(moving->state, false);
        enqueue->follow(moving->state);
        multiply(op, moving, true, from * it->rows, to);
    }
    enqueue->set_stream(moving->state, true);
    enqueue->synchronise(moving->state);
    if (it->wanted)
        enqueue->copy(moving->state, room + (size_t)op->rank * it->nbytes,
            own_at(op, op->shard_at), it->nbytes);
}

/* Of shards one after the other, rows that are whole. */
static void join_columns(const struct device_gather *op,
    const struct symc_moving *moving, const void *room, void *whole)
{
    const struct gather_matmul *it = op->it;
    const int64_t shape[] = {it->rows, op->size, it->depth};
    const int64_t strides[] = {it->depth, it->rows * it->depth, 1};
    const struct symc_strided copy = {.out = whole,
        .in = room,
        .elem = it->elem,
        .ndim = 3,
        .shape = shape,
        .strides = strides};

    moving->enqueue->strided(moving->state, &copy);
}

static void move_whole(
    const struct device_gather *op, const struct symc_moving *moving)
{
    const struct symc_enqueue *enqueue = moving->enqueue;
    const struct gather_matmul *it = op->it;
    char *room = room_of(op), *whole = room;

    copy_shard(op, moving);
    if (it->scaled)
        copy_scales(op, moving);
    enqueue->synchronise(moving->state);
    for (int i = 0; i < op->size; i++) {
        int from = (op->rank + i) % op->size;

        copy_from(op, moving, from, room + (size_t)from * it->nbytes);
    }
    enqueue->synchronise(moving->state);
    if (it->last) {
        whole =
            it->wanted ? it->gathered.tensor.data : own_at(op, op->whole_at);
        join_columns(op, moving, room, whole);
    }
    pack_all_b(op, moving);
    multiply(op, moving, false, 0, whole);
}

static void move(struct symc_mover *mover, const struct symc_moving *moving)
{
    const struct device_gather *op = (const struct device_gather *)mover;

    if (op->in_parts)
        move_in_parts(op, moving);
    else
        move_whole(op, moving);
}

/* ---- the operation ---- */

symmcoll_status_t symc_fused_gather_on_device(struct gather_matmul *it,
    const struct symc_fused_call *begun, symmcoll_status_t status)
{
    struct symc_fused *fused = it->fused;
    struct device_gather op = {.mover.move = move,
        .it = it,
        .rank = fused->group->rank,
        .size = fused->group->size};
    struct symc_fused_room room = {.nbytes = 0};
    const struct symc_op made = {.kind = SYMC_FUSED_GATHER,
        .dtype = it->a.dtype,
        .op = SYMMCOLL_SUM,
        .count = (size_t)(it->rows * it->depth),
        .elem = (uint16_t)it->elem};
    bool plain = false;

    if (it->rows < fused->group->world->config->fused_device_rows)
        fused->in_plain = true;
    op.in_parts = !it->last && !fused->in_plain;
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
    free(op.factors);
    return status;
}
