/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce-scatter and all-gather on symmetric buffers, and their low-contention
 * forms, in which each rank begins with another rank's memory.
 */
#include "symm_ops/operate.h"

#include <symmcoll/symm_ops.h>

/* ---- reduce_scatter ---- */

/* Checks the input of all ranks' parts, which has that many elements, and the
 * result, which has as many as one part. */
static symmcoll_status_t check_reduced(
    const struct symc_symm_call *made, size_t count, enum symmcoll_dtype dtype)
{
    const struct symmcoll_symm *handle = made->handle;
    const char *where = symc_kind_name(made->does->kind);
    const size_t offset = made->words[0];
    size_t nbytes;
    symmcoll_status_t status = symc_symm_check_elements(
        handle, where, "the input", offset, count, made->elem, &nbytes);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_check_apart(handle, where, "out", made->out,
        nbytes / (size_t)handle->size, offset, nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_symm_check_reduced(handle, where, offset, made->out, dtype);
}

struct matrix {
    size_t rows, columns; /* of this rank's part */
    size_t stride;        /* elements from one row of the input to the next */
    size_t first;         /* first element of the part in the input */
};

static struct symc_rows rows_of(
    const struct symc_symm_call *call, const struct matrix *part)
{
    bool together = part->columns == part->stride;

    return (struct symc_rows){.at = call->words[0] + part->first * call->elem,
        .count = together ? part->rows * part->columns : part->columns,
        .rows = together ? 1 : part->rows,
        .pitch = part->stride * call->elem,
        .out_pitch = part->columns * call->elem};
}

static void reduce_rows(
    const struct symc_symm_call *call, const struct symc_moving *moving)
{
    const struct symc_rows rows = rows_of(call, call->more);

    symc_symm_reduce(call, moving, &rows, call->out);
}

/* Describes the kernel: the place of the first rank's part, and the distance to
 * the next rank's. */
static void describe_rows(const struct symc_symm_call *call,
    const struct symc_op *op, struct symc_launch *launch)
{
    const struct matrix *part = call->more;

    launch->kind = SYMC_LAUNCH_REDUCE_SCATTER;
    launch->out = call->out;
    launch->rows = rows_of(call, part);
    launch->rows.at = call->handle->offset + call->words[0];
    launch->slice = call->words[2] != 0 ? part->columns * call->elem
                                        : op->count * call->elem;
}

static const struct symc_symm_does reduce_scatter = {
    .kind = SYMC_SYMM_REDUCE_SCATTER,
    .words = {"offset", "number of columns", "dimension that is split"},
    .move = reduce_rows,
    .describe = describe_rows};

symmcoll_status_t symmcoll_symm_reduce_scatter(struct symmcoll_symm *handle,
    size_t offset, void *out, size_t rows, size_t columns, int split_columns,
    enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call)
{
    struct symc_symm_call made = {.does = &reduce_scatter,
        .handle = handle,
        .words = {offset, columns, split_columns != 0},
        .out = out};
    struct matrix part = {.rows = rows, .columns = columns, .stride = columns};
    size_t count, size, *split, rank;
    symmcoll_status_t status = symc_symm_begin(&made, dtype);

    if (status != SYMMCOLL_OK)
        return status;
    size = (size_t)handle->size;
    rank = (size_t)handle->rank;
    split = split_columns ? &part.columns : &part.rows;
    if (*split % size != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a multiple of %zu %s, found %zu",
            symc_kind_name(reduce_scatter.kind), size,
            split_columns ? "columns" : "rows", *split);
    *split /= size;
    part.first =
        split_columns ? rank * part.columns : rank * part.rows * part.stride;
    if (!symc_multiply(rows, columns, &count))
        count = SIZE_MAX;
    made.more = &part;
    status = check_reduced(&made, count, dtype);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_symm_run(&made, dtype, op, count / size, 0, call);
}

/* Reduces this rank's part in pieces. Each rank begins with another piece, so
 * that the ranks read different parts of memory at a time. On a device each
 * begins to copy from another rank, and no kernel waits for these copies. */
static void reduce_pieces(
    const struct symc_symm_call *call, const struct symc_moving *moving)
{
    size_t count = moving->op->count;

    if (moving->enqueue != NULL) {
        size_t first = (size_t)moving->rank * count * call->elem;

        moving->enqueue->reduce_copies(moving->state,
            call->handle->offset + call->words[0] + first, count, call->out);
        return;
    }
    for (int i = 0; i < moving->size; i++) {
        struct symc_rows piece = {.at = call->words[0], .rows = 1};
        size_t lo, hi;

        symc_symm_part(count, call->elem, moving->size,
            symc_symm_next(moving, i), &lo, &hi);
        piece.at += ((size_t)moving->rank * count + lo) * call->elem;
        piece.count = hi - lo;
        symc_symm_reduce(
            call, moving, &piece, (char *)call->out + lo * call->elem);
    }
}

static const struct symc_symm_does low_contention_reduce_scatter = {
    .kind = SYMC_SYMM_REDUCE_SCATTER_LOW,
    .words = {"offset"},
    .move = reduce_pieces};

symmcoll_status_t symmcoll_symm_low_contention_reduce_scatter(
    struct symmcoll_symm *handle, size_t offset, void *out, size_t count,
    enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call)
{
    struct symc_symm_call made = {.does = &low_contention_reduce_scatter,
        .handle = handle,
        .words = {offset},
        .out = out};
    size_t all;
    symmcoll_status_t status = symc_symm_begin(&made, dtype);

    if (status != SYMMCOLL_OK)
        return status;
    if (!symc_multiply(count, (size_t)handle->size, &all))
        all = SIZE_MAX;
    status = check_reduced(&made, all, dtype);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_symm_run(&made, dtype, op, count, 0, call);
}

/* ---- all_gather ---- */

/* Writes this rank's elements into all buffers. */
static void push(
    const struct symc_symm_call *call, const struct symc_moving *moving)
{
    size_t nbytes = moving->op->count * call->elem;
    size_t offset = call->words[0] + (size_t)moving->rank * nbytes;

    for (int i = 0; i < moving->size; i++) {
        int peer = symc_symm_next(moving, i);

        symc_symm_push(
            moving, peer, symc_symm_at(call, peer, offset), call->in, nbytes);
    }
}

/* Reads the elements of all ranks, from this rank on. On a device by copies,
 * which occupy no multiprocessors. */
static void pull(
    const struct symc_symm_call *call, const struct symc_moving *moving)
{
    size_t nbytes = moving->op->count * call->elem;

    for (int i = 0; i < moving->size && nbytes > 0; i++) {
        int peer = symc_symm_next(moving, i);

        symc_symm_pull(moving, peer, (char *)call->out + (size_t)peer * nbytes,
            symc_symm_at(call, peer, call->words[0]), nbytes);
    }
}

static void describe_push(const struct symc_symm_call *call,
    const struct symc_op *op, struct symc_launch *launch)
{
    launch->kind = SYMC_LAUNCH_ALL_GATHER;
    launch->at = call->handle->offset + call->words[0];
    launch->in = call->in;
    launch->slice = op->count * call->elem;
}

static const struct symc_symm_does all_gather = {.kind = SYMC_SYMM_ALL_GATHER,
    .words = {"offset"},
    .move = push,
    .describe = describe_push};
static const struct symc_symm_does low_contention_all_gather = {
    .kind = SYMC_SYMM_ALL_GATHER_LOW, .words = {"offset"}, .move = pull};

symmcoll_status_t symmcoll_symm_all_gather(struct symmcoll_symm *handle,
    size_t offset, const void *in, size_t count, enum symmcoll_dtype dtype,
    const struct symmcoll_call *call)
{
    const char *where = symc_kind_name(all_gather.kind);
    struct symc_symm_call made = {
        .does = &all_gather, .handle = handle, .words = {offset}, .in = in};
    size_t all, nbytes, mine;
    symmcoll_status_t status = symc_symm_begin(&made, dtype);

    if (status != SYMMCOLL_OK)
        return status;
    if (!symc_multiply(count, (size_t)handle->size, &all))
        all = SIZE_MAX;
    status = symc_symm_check_elements(
        handle, where, "the result", offset, all, made.elem, &nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    mine = count * made.elem;
    if (in != handle->at[handle->rank] + offset + (size_t)handle->rank * mine) {
        status = symc_symm_check_apart(
            handle, where, "in", in, mine, offset, nbytes);
        if (status != SYMMCOLL_OK)
            return status;
    }
    return symc_symm_run(&made, dtype, SYMMCOLL_SUM, count, 0, call);
}

symmcoll_status_t symmcoll_symm_low_contention_all_gather(
    struct symmcoll_symm *handle, size_t offset, void *out, size_t count,
    enum symmcoll_dtype dtype, const struct symmcoll_call *call)
{
    const char *where = symc_kind_name(low_contention_all_gather.kind);
    struct symc_symm_call made = {.does = &low_contention_all_gather,
        .handle = handle,
        .words = {offset},
        .out = out};
    size_t all, nbytes;
    symmcoll_status_t status = symc_symm_begin(&made, dtype);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_check_elements(
        handle, where, "the input", offset, count, made.elem, &nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    if (!symc_multiply(nbytes, (size_t)handle->size, &all) || all > PTRDIFF_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: %zu elements on %d ranks are more bytes than memory has",
            where, count, handle->size);
    status =
        symc_symm_check_apart(handle, where, "out", out, all, offset, nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_symm_run(&made, dtype, SYMMCOLL_SUM, count, 0, call);
}
