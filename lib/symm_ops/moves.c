/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that only move elements: broadcast, all-to-all, all-gather of
 * unequal parts, permutation, and redistribution of a matrix along its other
 * dimension.
 */
#include "symm_ops/operate.h"

#include "base/digest.h"

#include <symmcoll/symm_exchange.h>

/* Checks the ranges of input and result in the buffers; they must not
 * overlap. */
static symmcoll_status_t check_two(
    const struct symc_symm_call *made, size_t count)
{
    const struct symmcoll_symm *handle = made->handle;
    const char *where = symc_kind_name(made->does->kind);
    const size_t in_offset = made->words[0], out_offset = made->words[1];
    size_t nbytes;
    symmcoll_status_t status = symc_symm_check_elements(
        handle, where, "the input", in_offset, count, made->elem, &nbytes);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_check_elements(
        handle, where, "the result", out_offset, count, made->elem, NULL);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_symm_check_apart(handle, where, "the result",
        handle->at[handle->rank] + out_offset, nbytes, in_offset, nbytes);
}

/* Returns the elements of all ranks' parts; SIZE_MAX: overflow. */
static size_t count_all(const struct symmcoll_symm *handle, size_t count)
{
    size_t all;

    return symc_multiply(count, (size_t)handle->size, &all) ? all : SIZE_MAX;
}

/* ---- broadcast ---- */

/* Broadcasts: the root writes its part of the elements to all others, and each
 * of these reads the rest, so that all ranks copy about the same number of
 * bytes. */
static void copy_root(
    const struct symc_symm_call *call, const struct symc_moving *moving)
{
    int root = moving->op->root;
    char *from = symc_symm_at(call, root, call->words[0]);
    char *mine = symc_symm_at(call, moving->rank, call->words[0]);
    size_t lo, hi;

    symc_symm_part(moving->op->count, call->elem, moving->size, root, &lo, &hi);
    lo *= call->elem;
    hi *= call->elem;
    if (moving->rank != root) {
        symc_symm_push(moving, root, mine, from, lo);
        symc_symm_push(moving, root, mine + hi, from + hi,
            moving->op->count * call->elem - hi);
        return;
    }
    for (int i = 1; i < moving->size; i++) {
        int peer = symc_symm_next(moving, i);

        symc_symm_push(moving, peer,
            symc_symm_at(call, peer, call->words[0]) + lo, from + lo, hi - lo);
    }
}

static void describe_root(const struct symc_symm_call *call,
    const struct symc_op *op, struct symc_launch *launch)
{
    launch->kind = SYMC_LAUNCH_PULL;
    launch->at = call->handle->offset + call->words[0];
    launch->out = symc_symm_at(call, call->handle->rank, call->words[0]);
    launch->slice = op->count * call->elem;
    launch->first = op->root;
    launch->sources = call->handle->rank != op->root;
}

static const struct symc_symm_does broadcast = {.kind = SYMC_SYMM_BROADCAST,
    .words = {"offset"},
    .move = copy_root,
    .describe = describe_root};

symmcoll_status_t symmcoll_symm_broadcast(struct symmcoll_symm *handle,
    size_t offset, size_t count, enum symmcoll_dtype dtype, int root,
    const struct symmcoll_call *call)
{
    struct symc_symm_call made = {
        .does = &broadcast, .handle = handle, .words = {offset}};
    symmcoll_status_t status = symc_symm_begin(&made, dtype);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_check_elements(handle, symc_kind_name(broadcast.kind),
        "the buffer", offset, count, made.elem, NULL);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_symm_run(&made, dtype, SYMMCOLL_SUM, count, root, call);
}

/* ---- all_to_all ---- */

/* Reads this rank's part of every rank's input. */
static void pull_parts(
    const struct symc_symm_call *call, const struct symc_moving *moving)
{
    size_t nbytes = moving->op->count * call->elem;

    for (int i = 0; i < moving->size; i++) {
        int peer = symc_symm_next(moving, i);

        symc_symm_pull(moving, peer,
            symc_symm_at(
                call, moving->rank, call->words[1] + (size_t)peer * nbytes),
            symc_symm_at(
                call, peer, call->words[0] + (size_t)moving->rank * nbytes),
            nbytes);
    }
}

static void describe_parts(const struct symc_symm_call *call,
    const struct symc_op *op, struct symc_launch *launch)
{
    const struct symmcoll_symm *handle = call->handle;

    launch->kind = SYMC_LAUNCH_PULL;
    launch->slice = op->count * call->elem;
    launch->at =
        handle->offset + call->words[0] + (size_t)handle->rank * launch->slice;
    launch->out = symc_symm_at(call, handle->rank, call->words[1]);
    launch->sources = handle->size;
}

static const struct symc_symm_does all_to_all = {.kind = SYMC_SYMM_ALL_TO_ALL,
    .words = {"offset of in", "offset of out"},
    .move = pull_parts,
    .describe = describe_parts};

symmcoll_status_t symmcoll_symm_all_to_all(struct symmcoll_symm *handle,
    size_t in_offset, size_t out_offset, size_t count,
    enum symmcoll_dtype dtype, const struct symmcoll_call *call)
{
    struct symc_symm_call made = {.does = &all_to_all,
        .handle = handle,
        .words = {in_offset, out_offset}};
    symmcoll_status_t status = symc_symm_begin(&made, dtype);

    if (status != SYMMCOLL_OK)
        return status;
    status = check_two(&made, count_all(handle, count));
    if (status != SYMMCOLL_OK)
        return status;
    return symc_symm_run(&made, dtype, SYMMCOLL_SUM, count, 0, call);
}

/* ---- all_gather of unequal parts ---- */

/* Writes this rank's part into all buffers. */
static void push_part(
    const struct symc_symm_call *call, const struct symc_moving *moving)
{
    const size_t *ends = call->more;
    size_t first = moving->rank > 0 ? ends[moving->rank - 1] : 0;
    size_t nbytes = (ends[moving->rank] - first) * call->elem;
    size_t offset = call->words[0] + first * call->elem;

    for (int i = 0; i < moving->size; i++) {
        int peer = symc_symm_next(moving, i);

        symc_symm_push(
            moving, peer, symc_symm_at(call, peer, offset), call->in, nbytes);
    }
}

static const struct symc_symm_does all_gather_offset = {
    .kind = SYMC_SYMM_ALL_GATHER_OFFSET,
    .words = {"offset", NULL, "digest of the ends"},
    .move = push_part};

symmcoll_status_t symmcoll_symm_all_gather_offset(struct symmcoll_symm *handle,
    size_t offset, const void *in, const size_t *ends,
    enum symmcoll_dtype dtype, const struct symmcoll_call *call)
{
    const char *where = symc_kind_name(all_gather_offset.kind);
    struct symc_symm_call made = {.does = &all_gather_offset,
        .handle = handle,
        .words = {offset},
        .in = in,
        .more = ends};
    struct symc_digest digest = SYMC_DIGEST_INIT;
    size_t nbytes, first, count;
    symmcoll_status_t status = symc_symm_begin(&made, dtype);

    if (status != SYMMCOLL_OK)
        return status;
    if (ends == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected the end of each rank's part, found NULL", where);
    for (int r = 1; r < handle->size; r++) {
        if (ends[r] < ends[r - 1])
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "%s: expected the end of rank %d's part at %zu or after, found "
                "%zu",
                where, r, ends[r - 1], ends[r]);
    }
    first = handle->rank > 0 ? ends[handle->rank - 1] : 0;
    count = ends[handle->rank] - first;
    status = symc_symm_check_elements(handle, where, "the result", offset,
        ends[handle->size - 1], made.elem, &nbytes);
    if (status == SYMMCOLL_OK &&
        in != handle->at[handle->rank] + offset + first * made.elem)
        status = symc_symm_check_apart(
            handle, where, "in", in, count * made.elem, offset, nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    symc_digest_add_bytes(
        &digest, "ends", ends, (size_t)handle->size * sizeof(*ends));
    made.words[2] = digest.a;
    return symc_symm_run(
        &made, dtype, SYMMCOLL_SUM, ends[handle->size - 1], 0, call);
}

/* ---- permute ---- */

/* Reads the input of the rank that sends to this one. */
static void pull_one(
    const struct symc_symm_call *call, const struct symc_moving *moving)
{
    const int *to = call->more;

    for (int r = 0; r < moving->size; r++) {
        if (to[r] == moving->rank)
            symc_symm_push(moving, r,
                symc_symm_at(call, moving->rank, call->words[1]),
                symc_symm_at(call, r, call->words[0]),
                moving->op->count * call->elem);
    }
}

static const struct symc_symm_does permute = {.kind = SYMC_SYMM_PERMUTE,
    .words = {"offset of in", "offset of out", "digest of the permutation"},
    .move = pull_one};

symmcoll_status_t symmcoll_symm_permute(struct symmcoll_symm *handle,
    size_t in_offset, size_t out_offset, size_t count,
    enum symmcoll_dtype dtype, const int *to, const struct symmcoll_call *call)
{
    const char *where = symc_kind_name(permute.kind);
    struct symc_symm_call made = {.does = &permute,
        .handle = handle,
        .words = {in_offset, out_offset},
        .more = to};
    struct symc_digest digest = SYMC_DIGEST_INIT;
    symmcoll_status_t status = symc_symm_begin(&made, dtype);

    if (status != SYMMCOLL_OK)
        return status;
    status = check_two(&made, count);
    if (status != SYMMCOLL_OK)
        return status;
    if (to == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected the rank that each sends to, found NULL", where);
    for (int r = 0; r < handle->size; r++) {
        bool good = to[r] >= 0 && to[r] < handle->size;

        for (int q = 0; q < r; q++)
            good = good && to[q] != to[r];
        if (!good)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "%s: expected each of ranks 0 to %d once, found %d for rank %d",
                where, handle->size - 1, to[r], r);
    }
    symc_digest_add_bytes(
        &digest, "to", to, (size_t)handle->size * sizeof(*to));
    made.words[2] = digest.a;
    return symc_symm_run(&made, dtype, SYMMCOLL_SUM, count, 0, call);
}

/* ---- matrices ---- */

/* A rank's shard of the matrix before the call. */
struct shard {
    size_t rows, columns;
    bool to_rows; /* columns are divided before, rows after */
};

/* Reads this rank's new shard from the shards of all ranks: its columns of
 * their rows, or (to_rows) its rows of their columns. */
static void pull_shards(
    const struct symc_symm_call *call, const struct symc_moving *moving)
{
    const struct shard *shard = call->more;
    size_t size = (size_t)moving->size, rank = (size_t)moving->rank;
    size_t rows = shard->to_rows ? shard->rows / size : shard->rows;
    size_t columns = shard->to_rows ? shard->columns : shard->columns / size;
    size_t first = shard->to_rows ? rank * rows * columns : rank * columns;
    const int64_t shape[] = {(int64_t)rows, (int64_t)columns};
    const int64_t strides[] = {
        (int64_t)(shard->to_rows ? columns * size : shard->columns), 1};

    for (int i = 0; i < moving->size && columns > 0; i++) {
        int peer = symc_symm_next(moving, i);
        size_t place =
            (size_t)peer * (shard->to_rows ? columns : rows * columns);
        const struct symc_strided copy = {
            .out = (char *)call->out + place * call->elem,
            .in = symc_symm_at(call, peer, call->words[0] + first * call->elem),
            .elem = call->elem,
            .ndim = 2,
            .shape = shape,
            .strides = strides,
            .spread = shard->to_rows};

        symc_symm_pull_rows(moving, peer, &copy);
    }
}

static const struct symc_symm_does reshard = {.kind = SYMC_SYMM_RESHARD,
    .words = {"offset", "number of columns", "dimension to be divided"},
    .move = pull_shards};

symmcoll_status_t symmcoll_symm_reshard(struct symmcoll_symm *handle,
    size_t offset, void *out, size_t rows, size_t columns, int from, int to,
    enum symmcoll_dtype dtype, const struct symmcoll_call *call)
{
    const char *where = symc_kind_name(reshard.kind);
    struct shard shard = {.rows = rows, .columns = columns, .to_rows = to == 0};
    struct symc_symm_call made = {.does = &reshard,
        .handle = handle,
        .words = {offset, columns, (uint64_t)to},
        .out = out,
        .more = &shard};
    size_t count, nbytes, divided = to == 0 ? rows : columns;
    symmcoll_status_t status = symc_symm_begin(&made, dtype);

    if (status != SYMMCOLL_OK)
        return status;
    if (from + to != 1 || from * to != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected dimensions (0, 1) or (1, 0), found (%d, %d)", where,
            from, to);
    if (divided % (size_t)handle->size != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a multiple of %d %s, found %zu", where, handle->size,
            to == 0 ? "rows" : "columns", divided);
    if (!symc_multiply(rows, columns, &count))
        count = SIZE_MAX;
    status = symc_symm_check_elements(
        handle, where, "the input", offset, count, made.elem, &nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_check_apart(
        handle, where, "out", out, nbytes, offset, nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_symm_run(&made, dtype, SYMMCOLL_SUM, count, 0, call);
}
