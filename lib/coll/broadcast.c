/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * broadcast.
 */
#include "coll/coll.h"

symmcoll_status_t symmcoll_broadcast(struct symmcoll_group *group, void *buf,
    size_t count, enum symmcoll_dtype dtype, int root,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    struct symc_op made = {.label = ""};
    symmcoll_status_t status =
        symc_coll_begin(group, SYMC_BROADCAST, count, dtype, &made);

    if (status == SYMMCOLL_OK)
        status = symc_coll_check_root(group, root, &made);
    if (status == SYMMCOLL_OK)
        status = symc_coll_check_buffers(&made, buf, count, buf, count, 0);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_coll_issue(group, &made, call, work);
}
