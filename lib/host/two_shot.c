/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two shots, for all_reduce and reduce of middle and large messages: every rank reduces
 * its own part of each chunk, and the ranks that receive the result then copy the parts
 * out.
 *
 * Bytes that a rank of W moves for a message of n: it stages (W-1)/W n, reads as much of
 * its peers' slots plus n/W of its own input for the sum, writes n/W twice (result and
 * slot) and copies (W-1)/W n out.  Three transfers per chunk.
 */
#include "host/host.h"

#include <string.h>

struct two_shot {
    struct symc_reduction reduction;
    bool wants;     /* this rank receives the result */
    bool streaming; /* results are written with non-temporal stores */
};

static void stage(struct symc_host *host, const struct symc_op *op,
    const struct symc_round *round, void *context)
{
    char *slot = symc_host_staged(host, host->rank, round);
    const char *in = (const char *)op->in + round->offset * op->elem;
    size_t lo, hi;

    (void)context;
    symc_host_part(round->count, op->elem, host->size, host->rank, &lo, &hi);
    symc_copy(slot, in, lo * op->elem, false);
    symc_copy(slot + hi * op->elem, in + hi * op->elem,
        (round->count - hi) * op->elem, false);
}

static void combine(struct symc_host *host, const struct symc_op *op,
    const struct symc_round *round, void *context)
{
    const struct two_shot *shot = context;
    size_t lo, hi;

    symc_host_part(round->count, op->elem, host->size, host->rank, &lo, &hi);

    char *sum = symc_host_summed(host, host->rank, round) + lo * op->elem;
    char *out =
        shot->wants ? (char *)op->out + (round->offset + lo) * op->elem : NULL;
    for (int r = 0; r < host->size; r++)
        host->sources[r] =
            r == host->rank
                ? (const char *)op->in + (round->offset + lo) * op->elem
                : symc_host_staged(host, r, round) + lo * op->elem;
    symc_reduce(&shot->reduction, sum, shot->streaming ? NULL : out,
        host->sources, host->size, hi - lo, false);
    if (shot->streaming && out != NULL)
        symc_copy(out, sum, (hi - lo) * op->elem, true);
}

static void collect(struct symc_host *host, const struct symc_op *op,
    const struct symc_round *round, int peer, void *context)
{
    const struct two_shot *shot = context;
    size_t lo, hi;

    symc_host_part(round->count, op->elem, host->size, peer, &lo, &hi);
    symc_copy((char *)op->out + (round->offset + lo) * op->elem,
        symc_host_summed(host, peer, round) + lo * op->elem,
        (hi - lo) * op->elem, shot->streaming);
}

static symmcoll_status_t run(struct symc_host *host, const struct symc_op *op)
{
    struct two_shot shot = {.reduction = symc_host_reduction(host, op),
        .wants = symc_kind_receives(op->kind, op->root == host->rank),
        .streaming = op->count * op->elem >= host->settings.stream_min};
    struct symc_pipeline pipeline = {.total = op->count,
        .step = host->chunk / op->elem,
        .context = &shot,
        .stage = stage,
        .combine = combine,
        .collect = shot.wants ? collect : NULL,
        .from = -1};
    symmcoll_status_t status = symc_host_pipeline(host, op, &pipeline);

    if (shot.streaming)
        symc_stream_fence();
    return status;
}

symmcoll_status_t symc_host_two_shot(
    struct symc_host *host, const struct symc_op *op)
{
    return symc_host_large(host, op, run);
}
