/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier.
 */
#include "coll/coll.h"

symmcoll_status_t symmcoll_barrier(struct symmcoll_group *group,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    struct symc_op made = {.kind = SYMC_BARRIER, .dtype = SYMMCOLL_UINT8};

    return symc_coll_issue(group, &made, call, work);
}
