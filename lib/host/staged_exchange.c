/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scatter and all forms of all_to_all through staging: in each round a rank stages a
 * piece of every other rank's part, and copies its own pieces from the slots of the
 * others.  A rank that passes the same elements to all (an all_gather with parts of
 * different sizes) stages them once.
 *
 * Bytes that a rank of W moves for a buffer of n in all_to_all: it stages (W-1)/W n,
 * copies as much out of the peers' slots, and n/W from its own input to its result.  Two
 * transfers per chunk and one wait for each peer.  In a scatter only the root stages,
 * and each other rank copies n/W.  Parts of different sizes take as many rounds as the
 * largest.
 */
#include "host/host.h"

struct exchange {
    bool streaming;
    bool shared;  /* the same elements go to all ranks */
    size_t step;  /* elements of a piece */
    size_t pitch; /* bytes between the pieces of ranks in a slot */
};

/* Copies this rank's piece for itself, which needs no slot. */
static void keep(struct symc_host *host, const struct symc_op *op,
    const struct symc_round *round, void *context)
{
    const struct exchange *exchange = context;
    const struct symc_host_part *part = &host->parts[host->rank];
    size_t at = round->offset * op->elem;
    size_t count = symc_host_piece_of(round, part->in_count, exchange->step);

    if (count > 0 && part->out != part->in)
        symc_copy(part->out + at, part->in + at, count * op->elem,
            exchange->streaming);
}

/* Stages the pieces for the other ranks. */
static void stage(struct symc_host *host, const struct symc_op *op,
    const struct symc_round *round, void *context)
{
    const struct exchange *exchange = context;
    char *slot = symc_host_staged(host, host->rank, round);

    for (int r = 0; r < host->size; r++) {
        const struct symc_host_part *part = &host->parts[r];
        size_t count =
            symc_host_piece_of(round, part->in_count, exchange->step);

        if (r != host->rank && count > 0)
            symc_copy(slot + (size_t)r * exchange->pitch,
                part->in + round->offset * op->elem, count * op->elem, false);
        if (r != host->rank && exchange->shared)
            break;
    }
}

static void collect(struct symc_host *host, const struct symc_op *op,
    const struct symc_round *round, int peer, void *context)
{
    const struct exchange *exchange = context;
    const struct symc_host_part *part = &host->parts[peer];
    size_t count = symc_host_piece_of(round, part->out_count, exchange->step);

    if (count > 0)
        symc_copy(part->out + round->offset * op->elem,
            symc_host_staged(host, peer, round) +
                (size_t)host->rank * exchange->pitch,
            count * op->elem, exchange->streaming);
}

/* Returns the bytes of this rank's result. */
static size_t result_nbytes(
    const struct symc_host *host, const struct symc_op *op)
{
    size_t count = 0;

    for (int r = 0; r < host->size; r++)
        count += host->parts[r].out_count;
    return count * op->elem;
}

symmcoll_status_t symc_host_exchange(
    struct symc_host *host, const struct symc_op *op)
{
    bool rooted = symc_kind_has(op->kind, SYMC_FROM_ROOT);
    bool is_root = op->root == host->rank;
    bool shared = symc_kinds[op->kind].in_parts != SYMC_ALL_PARTS;
    size_t step =
        shared ? host->chunk / op->elem : symc_host_piece(host, op->elem);
    struct exchange exchange = {
        .streaming = result_nbytes(host, op) >= host->settings.stream_min,
        .shared = shared,
        .step = step,
        .pitch = shared ? 0 : step * op->elem};
    struct symc_pipeline pipeline = {.total = symc_host_most(host, op),
        .step = step,
        .context = &exchange,
        .stage = !rooted || is_root ? stage : NULL,
        .keep = !rooted || is_root ? keep : NULL,
        .collect = !rooted || !is_root ? collect : NULL,
        .from = rooted ? op->root : -1,
        .gathers = true};
    symmcoll_status_t status = symc_host_pipeline(host, op, &pipeline);

    if (exchange.streaming)
        symc_stream_fence();
    return status;
}

symmcoll_status_t symc_host_staged_exchange(
    struct symc_host *host, const struct symc_op *op)
{
    return symc_host_large(host, op, symc_host_exchange);
}
