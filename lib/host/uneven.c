/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations in which each pair of ranks has a count of its own: compare the
 * counts, then take what is beside the lines, or go on as with parts that are
 * alike.
 */
#include "host/host.h"

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

    if (op->memory == SYMC_MEMORY_HOST)
        return symc_host_large(host, op, run);
    symc_host_find_parts(host, op);
    status = symc_host_put_counts(host, op);
    if (status == SYMMCOLL_OK)
        status = symc_host_synchronise(host, op, NULL, 0);
    return status == SYMMCOLL_OK ? symc_host_compare_counts(host, op) : status;
}
