/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging is backed by memory when an operation first needs it: on all ranks or on none,
 * in a round of its own after the header lines.  Each rank stores in its channel whether
 * it succeeded, and reads the words of all others.  The word of an operation is written
 * again only in a later operation whose header lines all ranks have published, so all
 * ranks read the same.
 */
#include "host/host.h"
#include "segment/memory.h"

#include <stdio.h>

symmcoll_status_t symc_host_reserve(
    struct symc_host *host, const struct symc_op *op)
{
    const struct symc_core *core = host->core;
    struct symc_channel *mine = host->channels[host->rank];
    bool refused;
    symmcoll_status_t status;

    if (host->reserved)
        return SYMMCOLL_OK;
    refused = core->reserve(core->group) != SYMMCOLL_OK;
    if (refused)
        snprintf(
            mine->refusal, sizeof(mine->refusal), "%s", symmcoll_last_error());
    symc_host_post(host, &mine->reserved, 2 * op->wire + refused);
    status = symc_host_wait_all(
        host, op, offsetof(struct symc_channel, reserved), 2 * op->wire);
    if (status != SYMMCOLL_OK)
        return status;
    for (int r = 0; r < host->size; r++) {
        if (atomic_load_explicit(&host->channels[r]->reserved,
                memory_order_acquire) != 2 * op->wire)
            return symc_host_fail_reserve(host, op, r);
    }
    for (int r = 0; r < host->size; r++)
        symc_memory_populate(host->staging[r], 2 * SYMC_SLOTS * host->chunk);
    host->reserved = true;
    return SYMMCOLL_OK;
}
