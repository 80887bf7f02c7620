/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * broadcast.
 */
#include "coll/coll.h"

symmcoll_status_t symmcoll_broadcast(struct symmcoll_group *group, void *buf,
    size_t count, enum symmcoll_dtype dtype, int root,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    struct symc_op made = {.kind = SYMC_BROADCAST,
        .dtype = dtype,
        .root = root,
        .count = count,
        .out = buf,
        .in = buf};

    return symc_coll_issue(group, &made, call, work);
}
