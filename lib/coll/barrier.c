/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier.
 */
#include "coll/coll.h"

symmcoll_status_t symmcoll_barrier(struct symmcoll_group *group,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    struct symc_op made = {.label = ""};
    symmcoll_status_t status =
        symc_coll_begin(group, SYMC_BARRIER, 0, SYMMCOLL_UINT8, &made);

    if (status != SYMMCOLL_OK)
        return status;
    return symc_coll_issue(group, &made, call, work);
}
