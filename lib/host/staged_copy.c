/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_gather, gather and broadcast through staging: senders stage their data
 * chunk by chunk, receivers copy it out.
 *
 * Bytes a rank moves where each contributes n, W ranks: in all_gather it stages
 * n, copies n from its own input and (W-1) n out of the peers' slots; in gather
 * the root copies W n, and each other rank stages n; in broadcast the root
 * stages n, and each other rank copies n.
 */
#include "host/host.h"

struct copy {
    bool streaming;
};

/* Returns the address of a rank's contribution in this rank's result. */
static char *place(const struct symc_op *op, int rank, size_t offset)
{
    bool parts = symc_kinds[op->kind].out_parts == SYMC_ALL_PARTS;

    return (parts ? symc_op_out_at(op, rank) : (char *)op->out) +
           offset * op->elem;
}

static void stage(struct symc_host *host, const struct symc_op *op,
    const struct symc_round *round, void *context)
{
    (void)context;
    symc_copy(symc_host_staged(host, host->rank, round),
        (const char *)op->in + round->offset * op->elem,
        round->count * op->elem, false);
}

/* Copies this rank's own part of the result, while it is in the cache. */
static void keep(struct symc_host *host, const struct symc_op *op,
    const struct symc_round *round, void *context)
{
    const struct copy *copy = context;
    char *out = place(op, host->rank, round->offset);
    const char *in = (const char *)op->in + round->offset * op->elem;

    (void)host;
    if (out != in)
        symc_copy(out, in, round->count * op->elem, copy->streaming);
}

static void collect(struct symc_host *host, const struct symc_op *op,
    const struct symc_round *round, int peer, void *context)
{
    const struct copy *copy = context;

    symc_copy(place(op, peer, round->offset),
        symc_host_staged(host, peer, round), round->count * op->elem,
        copy->streaming);
}

static symmcoll_status_t run(struct symc_host *host, const struct symc_op *op)
{
    bool is_root = op->root == host->rank;
    bool from_root = symc_kind_has(op->kind, SYMC_FROM_ROOT);
    bool sends = symc_kind_sends(op->kind, is_root);
    bool receives = symc_kind_receives(op->kind, is_root);
    bool keeps = receives && !from_root;
    /* No rank reads the contribution of a gather's root. */
    bool stages = sends && !(is_root && symc_kind_has(op->kind, SYMC_TO_ROOT));
    struct copy copy = {.streaming = symc_op_out_nbytes(op, host->size) >=
                                     host->settings.stream_min};
    struct symc_pipeline pipeline = {.total = op->count,
        .step = host->chunk / op->elem,
        .context = &copy,
        .stage = stages ? stage : NULL,
        .keep = keeps ? keep : NULL,
        .collect = receives && !(from_root && is_root) ? collect : NULL,
        .from = from_root ? op->root : -1,
        .gathers = true};
    symmcoll_status_t status = symc_host_pipeline(host, op, &pipeline);

    if (copy.streaming)
        symc_stream_fence();
    return status;
}

symmcoll_status_t symc_host_staged_copy(
    struct symc_host *host, const struct symc_op *op)
{
    return symc_host_large(host, op, run);
}
