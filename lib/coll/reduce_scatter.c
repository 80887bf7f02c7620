/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce_scatter.
 */
#include "coll/coll.h"

symmcoll_status_t symmcoll_reduce_scatter(struct symmcoll_group *group,
    void *out, const void *in, size_t count, enum symmcoll_dtype dtype,
    symmcoll_op_t op, const struct symmcoll_call *call,
    struct symmcoll_work **work)
{
    struct symc_op made = {.kind = SYMC_REDUCE_SCATTER,
        .dtype = dtype,
        .op = op,
        .count = count,
        .out = out,
        .in = in};

    return symc_coll_issue(group, &made, call, work);
}
