/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The segments of a group in device memory, which all members map.
 */
#include "cuda/device_group.h"
#include "cuda/memory.h"

static const char what[] = "segment";

symmcoll_status_t symc_cuda_segment_open(struct symc_cuda_group *group)
{
    const struct symc_core *core = group->core;
    struct symc_cuda_physical own;
    symmcoll_status_t status = symc_cuda_physical_create(&group->context,
        core->fail, symc_cuda_share_of(core->settings, group->threads),
        group->staging + group->limits.staging, "a segment", &own);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_cuda_row_open(group, &own, what, &group->segment);
    symc_cuda_physical_free(&group->log, &own); /* the mappings keep it */
    if (status != SYMMCOLL_OK)
        return status;
    /* Kernels must find no old signal or packet.  No member's kernel begins before all
     * members have opened their segments. */
    return symc_cuda_clear(&group->context, core->fail,
        symc_cuda_row_at(&group->segment, group->rank), group->staging,
        "a segment");
}

void symc_cuda_segment_close(struct symc_cuda_group *group)
{
    symc_cuda_row_close(&group->log, &group->segment);
}
