/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine of the staged algorithms.  A message goes through staging slots in rounds
 * of a cache-sized chunk; in each round a rank stages its contribution, reduces its own
 * part of all ranks' contributions, and collects the other parts:
 *
 *     round        0        1        2        3
 *     stage     .------. .------. .------. .------.
 *     combine            `------' `------' `------' ...
 *     collect                     `------' `------' ...
 *
 * so that ranks work on different rounds at the same time and one slow rank does not
 * delay the others at once.  Three counters per rank hold its progress.  They count
 * rounds over the life of the group, and every rank advances all of them in every
 * operation, needed or not, so that different operations follow each other without a
 * barrier.  A slot is written again after all ranks have drained the round that used it
 * before.
 */
#include "host/host.h"

char *symc_host_staged(
    const struct symc_host *host, int rank, const struct symc_round *round)
{
    return host->staging[rank] + round->number % SYMC_SLOTS * host->chunk;
}

char *symc_host_summed(
    const struct symc_host *host, int rank, const struct symc_round *round)
{
    return symc_host_staged(host, rank, round) + SYMC_SLOTS * host->chunk;
}

size_t symc_host_piece(const struct symc_host *host, size_t elem)
{
    return host->chunk / (size_t)host->size / SYMC_LINE * SYMC_LINE / elem;
}

void symc_host_part(
    size_t count, size_t elem, int size, int r, size_t *lo, size_t *hi)
{
    size_t step = SYMC_LINE / elem; /* elem is a power of two up to 16 */
    size_t lines = (count + step - 1) / step;

    *lo = lines * (size_t)r / (size_t)size * step;
    *hi = lines * ((size_t)r + 1) / (size_t)size * step;
    if (*lo > count)
        *lo = count;
    if (*hi > count)
        *hi = count;
}

/* One operation in the pipeline. */
struct run {
    struct symc_host *host;
    const struct symc_op *op;
    const struct symc_pipeline *pipeline;
    struct symc_channel *mine;
    uint64_t base; /* rounds before this operation */
};

static struct symc_round round_at(const struct run *run, uint64_t i)
{
    const struct symc_pipeline *pipeline = run->pipeline;
    struct symc_round round = {
        .number = run->base + i, .offset = i * pipeline->step};

    round.count = pipeline->total - round.offset;
    if (round.count > pipeline->step)
        round.count = pipeline->step;
    return round;
}

static symmcoll_status_t stage(struct run *run, uint64_t i)
{
    const struct symc_pipeline *pipeline = run->pipeline;
    struct symc_round round = round_at(run, i);
    symmcoll_status_t status = SYMMCOLL_OK;

    if ((pipeline->stage != NULL || pipeline->combine != NULL) &&
        round.number >= SYMC_SLOTS)
        status = symc_host_wait_all(run->host, run->op,
            offsetof(struct symc_channel, drained),
            round.number - SYMC_SLOTS + 1);
    if (status != SYMMCOLL_OK)
        return status;
    if (pipeline->stage != NULL)
        pipeline->stage(run->host, run->op, &round, pipeline->context);
    symc_host_post(run->host, &run->mine->staged, round.number + 1);
    if (pipeline->keep != NULL)
        pipeline->keep(run->host, run->op, &round, pipeline->context);
    return SYMMCOLL_OK;
}

static symmcoll_status_t combine(struct run *run, uint64_t i)
{
    const struct symc_pipeline *pipeline = run->pipeline;
    struct symc_round round = round_at(run, i);

    if (pipeline->combine != NULL) {
        symmcoll_status_t status = symc_host_wait_all(run->host, run->op,
            offsetof(struct symc_channel, staged), round.number + 1);

        if (status != SYMMCOLL_OK)
            return status;
        pipeline->combine(run->host, run->op, &round, pipeline->context);
    }
    symc_host_post(run->host, &run->mine->reduced, round.number + 1);
    return SYMMCOLL_OK;
}

static symmcoll_status_t collect(struct run *run, uint64_t i)
{
    const struct symc_pipeline *pipeline = run->pipeline;
    struct symc_host *host = run->host;
    struct symc_round round = round_at(run, i);
    size_t counter = pipeline->gathers ? offsetof(struct symc_channel, staged)
                                       : offsetof(struct symc_channel, reduced);

    for (int step = 1; pipeline->collect != NULL && step < host->size; step++) {
        int peer = (host->rank + step) % host->size;

        if (pipeline->from >= 0 && peer != pipeline->from)
            continue;
        symmcoll_status_t status =
            symc_host_wait(host, run->op, peer, counter, round.number + 1);
        if (status != SYMMCOLL_OK)
            return status;
        pipeline->collect(host, run->op, &round, peer, pipeline->context);
    }
    symc_host_post(host, &run->mine->drained, round.number + 1);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_host_pipeline(struct symc_host *host,
    const struct symc_op *op, const struct symc_pipeline *pipeline)
{
    struct run run = {.host = host,
        .op = op,
        .pipeline = pipeline,
        .mine = host->channels[host->rank],
        .base = host->rounds};
    uint64_t rounds = (pipeline->total + pipeline->step - 1) / pipeline->step;
    uint64_t lag = pipeline->gathers ? 1 : 2; /* from staging to collecting */
    symmcoll_status_t status = SYMMCOLL_OK;

    for (uint64_t i = 0; i < rounds + lag && status == SYMMCOLL_OK; i++) {
        if (i < rounds)
            status = stage(&run, i);
        if (status == SYMMCOLL_OK && i >= 1 && i <= rounds)
            status = combine(&run, i - 1);
        if (status == SYMMCOLL_OK && i >= lag)
            status = collect(&run, i - lag);
    }
    host->rounds += rounds;
    return status;
}
