/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce_scatter through staging: in each round a rank stages a piece of every other
 * rank's part and reduces the pieces of its own.  Every element is copied once and
 * reduced once, in two transfers per chunk.  Parts of different sizes take as many
 * rounds as the largest.
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
        const struct symc_host_part *part = &host->parts[r];
        size_t count = symc_host_piece_of(round, part->in_count, scatter->step);

        if (r != host->rank && count > 0)
            symc_copy(slot + (size_t)r * scatter->step * op->elem,
                part->in + round->offset * op->elem, count * op->elem, false);
    }
}

static void combine(struct symc_host *host, const struct symc_op *op,
    const struct symc_round *round, void *context)
{
    const struct scatter *scatter = context;
    const struct symc_host_part *mine = &host->parts[host->rank];
    size_t at = round->offset * op->elem;
    size_t count = symc_host_piece_of(round, mine->in_count, scatter->step);

    if (count == 0)
        return;
    for (int r = 0; r < host->size; r++)
        host->sources[r] =
            r == host->rank ? mine->in + at
                            : symc_host_staged(host, r, round) +
                                  (size_t)host->rank * scatter->step * op->elem;
    symc_reduce(&scatter->reduction, (char *)op->out + at, NULL, host->sources,
        host->size, count, scatter->streaming);
}

symmcoll_status_t symc_host_scatter_sums(
    struct symc_host *host, const struct symc_op *op)
{
    size_t mine = host->parts[host->rank].out_count * op->elem;
    struct scatter scatter = {.reduction = symc_host_reduction(host, op),
        .streaming = mine >= host->settings.stream_min,
        .step = symc_host_piece(host, op->elem)};
    struct symc_pipeline pipeline = {.total = symc_host_most(host, op),
        .step = scatter.step,
        .context = &scatter,
        .stage = stage,
        .combine = combine,
        .from = -1};
    symmcoll_status_t status = symc_host_pipeline(host, op, &pipeline);

    if (scatter.streaming)
        symc_stream_fence();
    return status;
}

symmcoll_status_t symc_host_staged_scatter(
    struct symc_host *host, const struct symc_op *op)
{
    return symc_host_large(host, op, symc_host_scatter_sums);
}
