/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_to_all.
 */
#include "coll/coll.h"

symmcoll_status_t symmcoll_all_to_all(struct symmcoll_group *group, void *out,
    const void *in, size_t count, enum symmcoll_dtype dtype,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    struct symc_op made = {.kind = SYMC_ALL_TO_ALL,
        .dtype = dtype,
        .count = count,
        .out = out,
        .in = in};

    return symc_coll_issue(group, &made, call, work);
}
