/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gather.
 */
#include "coll/coll.h"

symmcoll_status_t symmcoll_gather(struct symmcoll_group *group, void *out,
    const void *in, size_t count, enum symmcoll_dtype dtype, int root,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    struct symc_op made = {.label = ""};
    symmcoll_status_t status =
        symc_coll_begin(group, SYMC_GATHER, count, dtype, &made);

    if (status == SYMMCOLL_OK)
        status = symc_coll_check_root(group, root, &made);
    if (status == SYMMCOLL_OK)
        status = symc_coll_check_buffers(&made, out,
            root == group->rank ? count * (size_t)group->size : 0, in, count,
            (size_t)group->rank * count);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_coll_issue(group, &made, call, work);
}
