/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_gather and matmul on a device. Each rank copies its shard to memory that
 * all ranks map, and multiplies it at once. At the same time, on another stream, it
 * copies the shards of the ranks after it, one by one, and multiplies each when
 * it has arrived. Small shards, and those of the last dimension, are gathered
 * first, since each product reads the whole of b.
 *
 * Data that others read is written before a barrier; a second barrier follows
 * the last copy, so that no rank writes to memory that is still read.
 *
 * Scales of the rows of a shard are copied together with the rows.
 */
#include "fused/gather_moves.h"

#include "fused/device_scaled.h"

/* most bytes of a shard that a kernel gathers */
#define BY_KERNEL ((size_t)4 << 20)

static char *own_at(const struct device_gather *op, size_t offset)
{
    return symc_fused_device_at(op->it->fused, op->rank, offset);
}

/* Returns the place of the shards of all ranks, contiguous. */
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

/* Packs the matrices that cuBLASLt cannot take as they are. */
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

/* Copies this rank's shard to where the others read it. */
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

/* Returns the bytes between the scales of two ranks' rows. */
static size_t pitch_of(const struct device_gather *op)
{
    return op->in_parts ? symc_fused_scales_pitch(op->it->rows)
                        : (size_t)op->it->rows * sizeof(float);
}

/* Copies this rank's scales to where the others read them, before anything is
 * written to memory of the caller. */
static void copy_scales(
    const struct device_gather *op, const struct symc_moving *moving)
{
    const struct gather_matmul *it = op->it;
    const struct symmcoll_tensor *scale = &it->scale.tensor;
    char *to = own_at(op, op->scales_at);
    struct symc_f_view view;

    if (it->scale.mode == SYMC_FUSED_SCALE_ONE) {
        symc_fused_spread_scale(moving, scale->data,
            op->spread ? symc_fused_gather_rows(op) : 1, to);
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

/* Copies the rows of a rank, and their scales. */
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

/* Returns the scales of the rows from `first` on. */
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

/* Multiplies rows of A into the rows of all results from `first` on. */
static void multiply(const struct device_gather *op,
    const struct symc_moving *moving, bool part, int64_t first,
    const void *rows)
{
    const struct gather_matmul *it = op->it;
    int64_t count = part ? it->rows : symc_fused_gather_rows(op);

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

/* Multiplies shard by shard, and copies the next shard at the same time. */
static void move_in_parts(
    const struct device_gather *op, const struct symc_moving *moving)
{
    const struct symc_enqueue *enqueue = moving->enqueue;
    const struct gather_matmul *it = op->it;
    char *room = room_of(op);
    const void *mine = op->contiguous ? it->a.data : own_at(op, op->shard_at);

    if (it->scaled)
        copy_scales(op, moving);
    /* The rank's own product reads a packed shard, so the packing precedes it
     * on its stream. */
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

/* Joins shards, stored one after the other, to whole rows. */
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

/* Gathers small shards with a kernel, which also reads this rank's. Large
 * shards are copied instead: copies occupy no multiprocessors, but each is a
 * driver call. */
static void gather_by_kernel(
    const struct device_gather *op, const struct symc_moving *moving)
{
    const struct gather_matmul *it = op->it;
    const struct symc_launch launch = {.kind = SYMC_LAUNCH_PULL,
        .at = op->shard_at,
        .in = op->contiguous ? it->a.data : NULL,
        .out = room_of(op),
        .slice = it->nbytes,
        .sources = op->size};

    if (!op->contiguous)
        copy_shard(op, moving);
    moving->enqueue->launch(moving->state, &launch);
}

/* Gathers the shards by copies, between two barriers. */
static void gather_by_copies(
    const struct device_gather *op, const struct symc_moving *moving)
{
    const struct symc_enqueue *enqueue = moving->enqueue;

    copy_shard(op, moving);
    enqueue->synchronise(moving->state);
    for (int i = 0; i < op->size; i++) {
        int from = (op->rank + i) % op->size;

        copy_from(
            op, moving, from, room_of(op) + (size_t)from * op->it->nbytes);
    }
    enqueue->synchronise(moving->state);
}

/* Returns whether a kernel gathers the shards. Scales per row are copied with
 * the rows. */
static bool is_by_kernel(const struct device_gather *op)
{
    const struct gather_matmul *it = op->it;

    return it->nbytes <= BY_KERNEL &&
           (!it->scaled || it->scale.mode != SYMC_FUSED_SCALE_ROWS);
}

/* Gathers all shards first, and multiplies them at once. */
static void move_whole(
    const struct device_gather *op, const struct symc_moving *moving)
{
    const struct gather_matmul *it = op->it;
    char *room = room_of(op), *whole = room;

    if (it->scaled)
        copy_scales(op, moving);
    if (is_by_kernel(op))
        gather_by_kernel(op, moving);
    else
        gather_by_copies(op, moving);
    if (it->last) {
        whole =
            it->wanted ? it->gathered.tensor.data : own_at(op, op->whole_at);
        join_columns(op, moving, room, whole);
    }
    pack_all_b(op, moving);
    multiply(op, moving, false, 0, whole);
}

void symc_fused_gather_move(
    struct symc_mover *mover, const struct symc_moving *moving)
{
    const struct device_gather *op = (const struct device_gather *)mover;

    if (op->in_parts)
        move_in_parts(op, moving);
    else
        move_whole(op, moving);
}
