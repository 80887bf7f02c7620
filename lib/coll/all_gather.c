/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_gather.
 */
#include "coll/coll.h"

symmcoll_status_t symmcoll_all_gather(struct symmcoll_group *group, void *out,
    const void *in, size_t count, enum symmcoll_dtype dtype,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    struct symc_op made = {.label = ""};
    symmcoll_status_t status =
        symc_coll_begin(group, SYMC_ALL_GATHER, count, dtype, &made);

    if (status == SYMMCOLL_OK)
        status =
            symc_coll_check_buffers(&made, out, count * (size_t)group->size, in,
                count, (size_t)group->rank * count);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_coll_issue(group, &made, call, work);
}
