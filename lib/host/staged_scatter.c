/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce_scatter through staging: in each round a rank stages a piece of every
 * other rank's part and sums the pieces of its own.  One copy and one sum of
 * everything, two transfers a chunk.
 */
#include "host/host.h"

struct scatter {
    struct symc_reduction reduction;
    bool streaming;
    size_t step; /* elements of one rank's piece in a slot */
};

static void stage(struct symc_host *host, const struct symc_op *op,
    const struct symc_round *round, void *context)
{
    const struct scatter *scatter = context;
    char *slot = symc_host_staged(host, host->rank, round);

    for (int r = 0; r < host->size; r++) {
        const char *in = (const char *)op->in +
                         ((size_t)r * op->count + round->offset) * op->elem;

        if (r != host->rank)
            symc_copy(slot + (size_t)r * scatter->step * op->elem, in,
                round->count * op->elem, false);
    }
}

static void combine(struct symc_host *host, const struct symc_op *op,
    const struct symc_round *round, void *context)
{
    const struct scatter *scatter = context;
    size_t mine = (size_t)host->rank;

    for (int r = 0; r < host->size; r++)
        host->sources[r] =
            r == host->rank ? (const char *)op->in +
                                  (mine * op->count + round->offset) * op->elem
                            : symc_host_staged(host, r, round) +
                                  mine * scatter->step * op->elem;
    symc_reduce(&scatter->reduction, (char *)op->out + round->offset * op->elem,
        NULL, host->sources, host->size, round->count, scatter->streaming);
}

symmcoll_status_t symc_host_staged_scatter(
    struct symc_host *host, const struct symc_op *op)
{
    struct scatter scatter = {.streaming = false};
    struct symc_pipeline pipeline = {.total = op->count,
        .context = &scatter,
        .stage = stage,
        .combine = combine,
        .from = -1};
    symmcoll_status_t status = symc_host_synchronise_staged(host, op);

    if (status == SYMMCOLL_OK) {
        scatter.reduction = symc_host_reduction(host, op);
        scatter.streaming = op->count * op->elem >= host->settings.stream_min;
        scatter.step = symc_host_piece(host, op->elem);
        pipeline.step = scatter.step;
        status = symc_host_pipeline(host, op, &pipeline);
    }
    if (scatter.streaming)
        symc_stream_fence();
    return status;
}
