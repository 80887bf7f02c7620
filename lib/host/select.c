/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of an algorithm.  It depends only on the operation and on settings that are
 * equal on all ranks, so every rank chooses the same.
 */
#include "host/select.h"
#include "host/host.h"

struct symc_host_settings symc_host_settings_get(
    const struct symc_settings *settings)
{
    const struct symc_config *config = settings->config;

    return (struct symc_host_settings){
        .small_max = settings->get_size(config, "host.small_max"),
        .chunk = settings->get_size(config, "host.chunk"),
        .stream_min = settings->get_size(config, "host.stream_min"),
        .reduce_run = settings->get_int(config, "host.reduce_run"),
        .direct = settings->get_bool(config, "host.direct"),
        .symmetric = settings->get_bool(config, "host.symmetric")};
}

static bool moves_data(const struct symc_kind_info *info)
{
    return info->in_parts != SYMC_NO_PART;
}

static bool reduces_whole(const struct symc_kind_info *info)
{
    return (info->traits & SYMC_REDUCES) != 0 &&
           info->in_parts == SYMC_ONE_PART;
}

static bool reduces_parts(const struct symc_kind_info *info)
{
    return (info->traits & SYMC_REDUCES) != 0 &&
           info->in_parts == SYMC_ALL_PARTS;
}

static bool copies(const struct symc_kind_info *info)
{
    return (info->traits & SYMC_REDUCES) == 0 &&
           info->in_parts == SYMC_ONE_PART;
}

static bool exchanges(const struct symc_kind_info *info)
{
    return (info->traits & SYMC_REDUCES) == 0 &&
           info->in_parts == SYMC_ALL_PARTS;
}

/* An operation on non-host memory is compared here like a small one, without data. */
static const struct symc_algorithm algorithms[] = {
    {.name = "uneven",
        .help = "counts are compared in pairs; data beside them, or as below",
        .apart = SYMC_UNEVEN,
        .resumable = &symc_host_uneven_parts,
        .run = symc_host_uneven},
    {.name = "one_shot",
        .help = "contributions travel with the header line; one crossing",
        .small_only = true,
        .resumable = &symc_host_one_shot_parts,
        .run = symc_host_one_shot},
    {.name = "in_place",
        .help = "symmetric buffers are used where they lie; no staging",
        .serves = moves_data,
        .symmetric_only = true,
        .run = symc_host_direct},
    {.name = "direct",
        .help = "threads read each other's buffers; no staging",
        .serves = moves_data,
        .threads_only = true,
        .run = symc_host_direct},
    {.name = "two_shot",
        .help = "staged chunks, each rank sums its part, parts are copied",
        .serves = reduces_whole,
        .run = symc_host_two_shot},
    {.name = "staged_scatter",
        .help = "staged chunks, each rank sums its own part",
        .serves = reduces_parts,
        .run = symc_host_staged_scatter},
    {.name = "staged_copy",
        .help = "staged chunks are copied out",
        .serves = copies,
        .run = symc_host_staged_copy},
    {.name = "staged_exchange",
        .help = "staged chunks, each rank copies its own part out",
        .serves = exchanges,
        .run = symc_host_staged_exchange},
    {.name = "coalesced",
        .help = "contributions to all buffers travel together; one crossing",
        .apart = SYMC_COALESCED,
        .small_only = true,
        .resumable = &symc_host_coalesced_parts,
        .run = symc_host_coalesced},
    {.name = "staged_coalesced",
        .help = "staged chunks, which may be of many buffers",
        .apart = SYMC_COALESCED,
        .run = symc_host_staged_coalesced},
    {.name = "monitored",
        .help = "header lines, and the missing ranks at the timeout",
        .apart = SYMC_MONITORED,
        .run = symc_host_monitored},
    {.name = "mover",
        .help = "symmetric memory, read and written where it lies",
        .apart = SYMC_MOVES,
        .resumable = &symc_host_mover_parts,
        .run = symc_host_mover},
};

#define ALGORITHMS (sizeof(algorithms) / sizeof(*algorithms))

const struct symc_algorithm *symc_host_select(
    const struct symc_host_settings *settings, bool threads, bool symmetric,
    int size, const struct symc_op *op)
{
    const struct symc_kind_info *info = &symc_kinds[op->kind];
    bool small = symc_op_in_nbytes(op, size) <= settings->small_max ||
                 op->memory != SYMC_MEMORY_HOST;
    bool direct = threads && settings->direct;
    bool in_place = symmetric && settings->symmetric;

    for (size_t i = 0; i < ALGORITHMS; i++) {
        const struct symc_algorithm *at = &algorithms[i];

        if ((info->traits & SYMC_TRAITS_APART) == at->apart &&
            (small || !at->small_only) && (direct || !at->threads_only) &&
            (in_place || !at->symmetric_only) &&
            (at->serves == NULL || at->serves(info)))
            return at;
    }
    return NULL;
}
