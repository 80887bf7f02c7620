/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations in which each pair of ranks has a count of its own: compare the
 * counts, then take what is beside the lines, or exchange through staging.
 */
#include "host/host.h"

symmcoll_status_t symc_host_uneven(
    struct symc_host *host, const struct symc_op *op)
{
    symmcoll_status_t status;

    symc_host_find_parts(host, op);
    if (op->memory == SYMC_MEMORY_HOST && host->threads &&
        host->settings.direct)
        return symc_host_direct(host, op);
    status = symc_host_put_counts(host, op);
    if (status == SYMMCOLL_OK)
        status = symc_host_synchronise(host, op, NULL, 0);
    if (status == SYMMCOLL_OK)
        status = symc_host_compare_counts(host, op);
    if (status != SYMMCOLL_OK || op->memory != SYMC_MEMORY_HOST)
        return status;
    if (symc_host_all_beside(host, op)) {
        symc_host_take_beside(host, op);
        return SYMMCOLL_OK;
    }
    status = symc_host_reserve(host, op);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_kind_has(op->kind, SYMC_REDUCES)
               ? symc_host_scatter_sums(host, op)
               : symc_host_exchange(host, op);
}
