/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scatter and all_to_all through staging: in each round a rank stages a piece
 * of every other rank's part, and copies its own pieces from the slots of the
 * others.
 *
 * Bytes a rank moves for a buffer of n in all_to_all, W ranks: it stages
 * (W-1)/W n, copies as much out of the peers' slots, and n/W from its own input
 * to its result.  Two transfers a chunk and one wait for each peer.  In a
 * scatter the root alone stages, and each other rank copies n/W.
 */
#include "host/host.h"

struct exchange {
    bool streaming;
    size_t step; /* elements of one rank's piece in a slot */
};

/* A part of a rank's input; of its result where that has all parts. */
static const char *in_part(
    const struct symc_op *op, int part, const struct symc_round *round)
{
    return (const char *)op->in +
           ((size_t)part * op->count + round->offset) * op->elem;
}

static char *out_part(
    const struct symc_op *op, int part, const struct symc_round *round)
{
    bool parts = symc_kinds[op->kind].out_parts == SYMC_ALL_PARTS;
    size_t first = parts ? (size_t)part * op->count : 0;

    return (char *)op->out + (first + round->offset) * op->elem;
}

/* Stage the pieces of the others, and copy the own one: it needs no slot. */
static void stage(struct symc_host *host, const struct symc_op *op,
    const struct symc_round *round, void *context)
{
    const struct exchange *exchange = context;
    char *slot = symc_host_staged(host, host->rank, round);
    size_t nbytes = round->count * op->elem;

    for (int r = 0; r < host->size; r++) {
        const char *in = in_part(op, r, round);
        char *own = out_part(op, r, round);

        if (r != host->rank)
            symc_copy(slot + (size_t)r * exchange->step * op->elem, in, nbytes,
                false);
        else if (own != in)
            symc_copy(own, in, nbytes, exchange->streaming);
    }
}

static void collect(struct symc_host *host, const struct symc_op *op,
    const struct symc_round *round, int peer, void *context)
{
    const struct exchange *exchange = context;

    symc_copy(out_part(op, peer, round),
        symc_host_staged(host, peer, round) +
            (size_t)host->rank * exchange->step * op->elem,
        round->count * op->elem, exchange->streaming);
}

symmcoll_status_t symc_host_staged_exchange(
    struct symc_host *host, const struct symc_op *op)
{
    bool rooted = symc_kind_has(op->kind, SYMC_FROM_ROOT);
    bool is_root = op->root == host->rank;
    struct exchange exchange = {.streaming = false};
    struct symc_pipeline pipeline = {.total = op->count,
        .context = &exchange,
        .stage = !rooted || is_root ? stage : NULL,
        .collect = !rooted || !is_root ? collect : NULL,
        .from = rooted ? op->root : -1,
        .gathers = true};
    symmcoll_status_t status = symc_host_synchronise_staged(host, op);

    if (status == SYMMCOLL_OK) {
        exchange.streaming =
            symc_op_out_nbytes(op, host->size) >= host->settings.stream_min;
        exchange.step = symc_host_piece(host, op->elem);
        pipeline.step = exchange.step;
        status = symc_host_pipeline(host, op, &pipeline);
    }
    if (exchange.streaming)
        symc_stream_fence();
    return status;
}
