/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of an algorithm.  It depends on nothing but the descriptor and on
 * settings that all ranks share, so every rank chooses the same.
 */
#include "host/select.h"
#include "config/config.h"
#include "host/host.h"

#define KIND(kind) (1u << (kind))
#define ALL                                                           \
    (KIND(SYMC_BARRIER) | KIND(SYMC_ALL_REDUCE) | KIND(SYMC_REDUCE) | \
        KIND(SYMC_REDUCE_SCATTER) | KIND(SYMC_ALL_GATHER) |           \
        KIND(SYMC_GATHER) | KIND(SYMC_BROADCAST))

static const struct symc_algorithm algorithms[] = {
    {.name = "one_shot",
        .help = "contributions travel with the header line; one crossing",
        .kinds = ALL,
        .small_only = true,
        .resumable = true,
        .run = symc_host_one_shot},
    {.name = "direct",
        .help = "threads read each other's buffers; no staging",
        .kinds = ALL & ~KIND(SYMC_BARRIER),
        .threads_only = true,
        .run = symc_host_direct},
    {.name = "two_shot",
        .help = "staged chunks, each rank sums its part, parts are copied",
        .kinds = KIND(SYMC_ALL_REDUCE) | KIND(SYMC_REDUCE),
        .run = symc_host_two_shot},
    {.name = "staged_scatter",
        .help = "staged chunks, each rank sums its own part",
        .kinds = KIND(SYMC_REDUCE_SCATTER),
        .run = symc_host_staged_scatter},
    {.name = "staged_copy",
        .help = "staged chunks are copied out",
        .kinds =
            KIND(SYMC_ALL_GATHER) | KIND(SYMC_GATHER) | KIND(SYMC_BROADCAST),
        .run = symc_host_staged_copy},
};

const struct symc_algorithm *symc_host_algorithms(size_t *count)
{
    *count = sizeof(algorithms) / sizeof(*algorithms);
    return algorithms;
}

const struct symc_algorithm *symc_host_select(const struct symc_config *config,
    bool threads, int size, const struct symc_op *op)
{
    const struct symc_algorithm *at = algorithms;
    size_t ranks = op->kind == SYMC_REDUCE_SCATTER ? (size_t)size : 1;
    size_t limit = config->host_small_max / op->elem / ranks;
    bool small = op->kind == SYMC_BARRIER || op->count <= limit;
    bool direct = threads && config->host_direct;

    while ((at->kinds & KIND(op->kind)) == 0 || (at->small_only && !small) ||
           (at->threads_only && !direct))
        at++;
    return at;
}
