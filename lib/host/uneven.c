/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations in which each pair of ranks has its own count: the counts are compared,
 * then the data beside the lines is used, or the operation continues as with equal
 * parts.
 *
 * If a rank's arguments show that the data of every rank is beside its line, the
 * operation can be issued, and ended later if it waits for a peer: after the comparison
 * nothing is waited for.  They show it for a reduction, with equal counts on all ranks,
 * for an all_gather, where a rank expects the counts that each rank passes, and for an
 * exchange of two ranks.  In an exchange of more ranks a rank has its own counts only.
 */
#include "host/host.h"

/* Returns whether the data of every rank is beside its line, if the counts agree. */
static bool is_known_small(
    const struct symc_host *host, const struct symc_op *op)
{
    const struct symc_kind_info *info = &symc_kinds[op->kind];
    size_t most = symc_host_room_beside(host) / op->elem;
    bool fits = op->memory == SYMC_MEMORY_HOST && op->lists->in_total <= most;

    if (!fits || (info->traits & SYMC_REDUCES) != 0)
        return fits;
    if (info->in_parts == SYMC_ALL_PARTS)
        return host->size == 2 && op->lists->out_total <= most;
    for (int r = 0; r < host->size && fits; r++)
        fits = symc_op_out_count(op, r) <= most;
    return fits;
}

/* Returns 0 if the operation cannot be issued. */
static uint64_t depth(const struct symc_host *host, const struct symc_op *op)
{
    return is_known_small(host, op) ? SYMC_AREAS : 0;
}

static bool publish(struct symc_host *host, const struct symc_op *op)
{
    symc_host_find_parts(host, op);
    /* There is room, so this does not wait. */
    (void)symc_host_put_counts(host, op);
    return symc_host_publish(host, op, NULL, 0);
}

/* Compares the counts and makes the result; all lines are there and agree. */
static symmcoll_status_t finish(
    struct symc_host *host, const struct symc_op *op)
{
    symmcoll_status_t status = symc_host_compare_counts(host, op);

    if (status != SYMMCOLL_OK)
        return status;
    /* host->parts may be of another operation issued since. */
    symc_host_find_parts(host, op);
    symc_host_take_beside(host, op);
    return SYMMCOLL_OK;
}

static symmcoll_status_t end(struct symc_host *host, const struct symc_op *op)
{
    symmcoll_status_t status = symc_host_collect(host, op);

    return status == SYMMCOLL_OK ? finish(host, op) : status;
}

const struct symc_resumable symc_host_uneven_parts = {
    .depth = depth, .publish = publish, .end = end};

static symmcoll_status_t run_small(
    struct symc_host *host, const struct symc_op *op)
{
    symmcoll_status_t status;

    symc_host_find_parts(host, op);
    status = symc_host_put_counts(host, op);
    if (status == SYMMCOLL_OK)
        status = symc_host_synchronise(host, op, NULL, 0);
    return status == SYMMCOLL_OK ? finish(host, op) : status;
}

static symmcoll_status_t run(struct symc_host *host, const struct symc_op *op)
{
    return symc_kind_has(op->kind, SYMC_REDUCES)
               ? symc_host_scatter_sums(host, op)
               : symc_host_exchange(host, op);
}

symmcoll_status_t symc_host_uneven(
    struct symc_host *host, const struct symc_op *op)
{
    symmcoll_status_t status;

    if (is_known_small(host, op))
        return run_small(host, op);
    host->resumable = NULL;
    if (op->memory == SYMC_MEMORY_HOST)
        return symc_host_large(host, op, run);
    symc_host_find_parts(host, op);
    status = symc_host_put_counts(host, op);
    if (status == SYMMCOLL_OK)
        status = symc_host_synchronise(host, op, NULL, 0);
    if (status != SYMMCOLL_OK)
        return status;
    symc_host_keep_agreed(host, op);
    host->core->agreed->largest = symc_host_most(host, op);
    return symc_host_compare_counts(host, op);
}
