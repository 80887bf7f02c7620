/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several buffers in one larger operation, through staging: as two_shot, staged_copy and
 * staged_scatter move one buffer, with chunks that may span several buffers.  It takes as
 * many rounds as one buffer with all their elements.
 */
#include "host/coalesced.h"

struct coalesced {
    struct symc_reduction reduction;
    struct symc_cursor cursor;
    bool streaming;
    size_t step; /* elements of one rank's piece in a slot */
};

#define NO_RANK (-1) /* the buffers have no part for each rank */

/* Returns the byte offset of a piece in its buffer, in the part of `rank` or NO_RANK. */
static size_t offset_of(
    const struct symc_op *op, const struct symc_piece *piece, int rank)
{
    size_t part = rank == NO_RANK ? 0 : (size_t)rank * op->counts[piece->index];

    return (part + piece->within) * op->elem;
}

static const char *in_at(
    const struct symc_op *op, const struct symc_piece *piece, int rank)
{
    return symc_op_in_of(op, (int)piece->index) + offset_of(op, piece, rank);
}

static char *out_at(
    const struct symc_op *op, const struct symc_piece *piece, int rank)
{
    return symc_op_out_of(op, (int)piece->index) + offset_of(op, piece, rank);
}

/* Copies elements [lo, hi) of a rank's part, or NO_RANK, to contiguous memory. */
static void copy_in(const struct symc_op *op, struct symc_cursor *cursor,
    size_t lo, size_t hi, int rank, char *to)
{
    struct symc_piece piece;

    for (; lo < hi; lo += piece.count) {
        piece = symc_host_piece_at(op, cursor, lo, hi);
        symc_copy(to, in_at(op, &piece, rank), piece.count * op->elem, false);
        to += piece.count * op->elem;
    }
}

/* Copies contiguous memory to elements [lo, hi) of a rank's part, or NO_RANK. */
static void copy_out(const struct symc_op *op, struct coalesced *coalesced,
    size_t lo, size_t hi, int rank, const char *from)
{
    struct symc_piece piece;

    for (; lo < hi; lo += piece.count) {
        piece = symc_host_piece_at(op, &coalesced->cursor, lo, hi);
        symc_copy(out_at(op, &piece, rank), from, piece.count * op->elem,
            coalesced->streaming);
        from += piece.count * op->elem;
    }
}

/* ---- all_reduce ---- */

static void stage_others(struct symc_host *host, const struct symc_op *op,
    const struct symc_round *round, void *context)
{
    struct coalesced *coalesced = context;
    char *slot = symc_host_staged(host, host->rank, round);
    size_t lo, hi;

    symc_host_part(round->count, op->elem, host->size, host->rank, &lo, &hi);
    copy_in(op, &coalesced->cursor, round->offset, round->offset + lo, NO_RANK,
        slot);
    copy_in(op, &coalesced->cursor, round->offset + hi,
        round->offset + round->count, NO_RANK, slot + hi * op->elem);
}

static void sum_part(struct symc_host *host, const struct symc_op *op,
    const struct symc_round *round, void *context)
{
    struct coalesced *coalesced = context;
    struct symc_piece piece;
    size_t lo, hi;

    symc_host_part(round->count, op->elem, host->size, host->rank, &lo, &hi);
    for (; lo < hi; lo += piece.count) {
        char *sum = symc_host_summed(host, host->rank, round) + lo * op->elem;
        char *out;

        piece = symc_host_piece_at(
            op, &coalesced->cursor, round->offset + lo, round->offset + hi);
        out = out_at(op, &piece, NO_RANK);
        for (int r = 0; r < host->size; r++)
            host->sources[r] =
                r == host->rank
                    ? in_at(op, &piece, NO_RANK)
                    : symc_host_staged(host, r, round) + lo * op->elem;
        symc_reduce(&coalesced->reduction, sum,
            coalesced->streaming ? NULL : out, host->sources, host->size,
            piece.count, false);
        if (coalesced->streaming)
            symc_copy(out, sum, piece.count * op->elem, true);
    }
}

static void collect_sum(struct symc_host *host, const struct symc_op *op,
    const struct symc_round *round, int peer, void *context)
{
    size_t lo, hi;

    symc_host_part(round->count, op->elem, host->size, peer, &lo, &hi);
    copy_out(op, context, round->offset + lo, round->offset + hi, NO_RANK,
        symc_host_summed(host, peer, round) + lo * op->elem);
}

/* ---- all_gather ---- */

static void stage_and_keep(struct symc_host *host, const struct symc_op *op,
    const struct symc_round *round, void *context)
{
    struct coalesced *coalesced = context;
    char *slot = symc_host_staged(host, host->rank, round);
    size_t lo = round->offset, hi = round->offset + round->count;
    struct symc_piece piece;

    copy_in(op, &coalesced->cursor, lo, hi, NO_RANK, slot);
    for (; lo < hi; lo += piece.count) {
        const char *in;
        char *out;

        piece = symc_host_piece_at(op, &coalesced->cursor, lo, hi);
        in = in_at(op, &piece, NO_RANK);
        out = out_at(op, &piece, host->rank);
        if (out != in)
            symc_copy(out, in, piece.count * op->elem, coalesced->streaming);
    }
}

static void collect_part(struct symc_host *host, const struct symc_op *op,
    const struct symc_round *round, int peer, void *context)
{
    copy_out(op, context, round->offset, round->offset + round->count, peer,
        symc_host_staged(host, peer, round));
}

/* ---- reduce_scatter ---- */

static void stage_parts(struct symc_host *host, const struct symc_op *op,
    const struct symc_round *round, void *context)
{
    struct coalesced *coalesced = context;
    char *slot = symc_host_staged(host, host->rank, round);

    for (int r = 0; r < host->size; r++) {
        if (r != host->rank)
            copy_in(op, &coalesced->cursor, round->offset,
                round->offset + round->count, r,
                slot + (size_t)r * coalesced->step * op->elem);
    }
}

static void sum_own(struct symc_host *host, const struct symc_op *op,
    const struct symc_round *round, void *context)
{
    struct coalesced *coalesced = context;
    size_t mine = (size_t)host->rank * coalesced->step;
    struct symc_piece piece;

    for (size_t at = 0; at < round->count; at += piece.count) {
        piece = symc_host_piece_at(op, &coalesced->cursor, round->offset + at,
            round->offset + round->count);
        for (int r = 0; r < host->size; r++)
            host->sources[r] =
                r == host->rank
                    ? in_at(op, &piece, host->rank)
                    : symc_host_staged(host, r, round) + (mine + at) * op->elem;
        symc_reduce(&coalesced->reduction, out_at(op, &piece, NO_RANK), NULL,
            host->sources, host->size, piece.count, coalesced->streaming);
    }
}

/* ---- all three kinds ---- */

static struct symc_pipeline pipeline_of(
    const struct symc_host *host, const struct symc_op *op)
{
    const struct symc_kind_info *info = &symc_kinds[op->kind];
    struct symc_pipeline pipeline = {
        .total = op->count, .step = host->chunk / op->elem, .from = -1};

    if (info->out_parts == SYMC_ALL_PARTS) {
        pipeline.stage = stage_and_keep;
        pipeline.collect = collect_part;
        pipeline.gathers = true;
    } else if (info->in_parts == SYMC_ALL_PARTS) {
        pipeline.step = symc_host_piece(host, op->elem);
        pipeline.stage = stage_parts;
        pipeline.combine = sum_own;
    } else {
        pipeline.stage = stage_others;
        pipeline.combine = sum_part;
        pipeline.collect = collect_sum;
    }
    return pipeline;
}

static symmcoll_status_t run(struct symc_host *host, const struct symc_op *op)
{
    struct symc_pipeline pipeline = pipeline_of(host, op);
    struct coalesced coalesced = {.step = pipeline.step,
        .reduction = symc_host_reduction(host, op),
        .streaming =
            symc_op_out_nbytes(op, host->size) >= host->settings.stream_min};
    symmcoll_status_t status;

    pipeline.context = &coalesced;
    status = symc_host_pipeline(host, op, &pipeline);
    if (coalesced.streaming)
        symc_stream_fence();
    return status;
}

symmcoll_status_t symc_host_staged_coalesced(
    struct symc_host *host, const struct symc_op *op)
{
    struct symc_listed listed = symc_host_listed(op);
    symmcoll_status_t status = symc_host_name_coalesced(host, op);

    if (status != SYMMCOLL_OK)
        goto revoke;
    status = symc_host_synchronise(host, op, &listed, sizeof(listed));
    if (status != SYMMCOLL_OK)
        goto revoke;
    status = symc_host_compare_listed(host, op);
    if (status != SYMMCOLL_OK)
        goto revoke;
    if (!symc_host_direct_coalesced(host, op, &status)) {
        status = symc_host_reserve(host, op);
        return status == SYMMCOLL_OK ? run(host, op) : status;
    }

revoke:
    /* As in symc_host_large(). */
    if (status != SYMMCOLL_OK && status != SYMMCOLL_ERR_MISMATCH &&
        status != SYMMCOLL_ERR_CONFIG)
        symc_host_revoke(host, op);
    return status;
}
