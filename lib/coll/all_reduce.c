/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_reduce.
 */
#include "coll/coll.h"

symmcoll_status_t symmcoll_all_reduce(struct symmcoll_group *group, void *out,
    const void *in, size_t count, enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    struct symc_op made = {.kind = SYMC_ALL_REDUCE,
        .dtype = dtype,
        .op = op,
        .count = count,
        .out = out,
        .in = in};

    return symc_coll_issue(group, &made, call, work);
}
