/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations in which each pair of ranks has a count of its own: compare the
 * counts, then take what is beside the lines, or go on as with parts that are
 * alike.
 *
 * Where a rank knows of every rank that its data is beside its line, the
 * operation can be issued, and one that waits for a peer ends later: after the
 * comparison nothing is waited for.  It knows that of a reduction, whose counts
 * are the same on all ranks, of an all_gather, where it expects what each rank
 * passes, and of an exchange of two ranks; of an exchange of more ranks it knows
 * its own counts only.
 */
#include "host/host.h"

/* Whether it knows so, if the counts agree. */
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

/* 0: it cannot be issued. */
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

/* All lines are there, and are alike. */
static symmcoll_status_t finish(
    struct symc_host *host, const struct symc_op *op)
{
    symmcoll_status_t status = symc_host_compare_counts(host, op);

    if (status != SYMMCOLL_OK)
        return status;
    /* Other operations have been issued since. */
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
    symc_host_keep_told(host, op);
    host->largest = symc_host_most(host, op);
    return symc_host_compare_counts(host, op);
}
