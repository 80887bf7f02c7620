/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gather.
 */
#include "coll/coll.h"

symmcoll_status_t symmcoll_gather(struct symmcoll_group *group, void *out,
    const void *in, size_t count, enum symmcoll_dtype dtype, int root,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    struct symc_op made = {.kind = SYMC_GATHER,
        .dtype = dtype,
        .root = root,
        .count = count,
        .out = out,
        .in = in};

    return symc_coll_issue(group, &made, call, work);
}

symmcoll_status_t symmcoll_gather_list(struct symmcoll_group *group,
    void *const *outs, const void *in, size_t count, enum symmcoll_dtype dtype,
    int root, const struct symmcoll_call *call, struct symmcoll_work **work)
{
    struct symc_lists lists = {
        .outs = outs, .out_count = count, .in_count = count};
    struct symc_op made = {.kind = SYMC_GATHER,
        .dtype = dtype,
        .root = root,
        .count = count,
        .in = in};

    if (outs != NULL) {
        made.listed = true;
        made.lists = &lists;
    }
    return symc_coll_issue(group, &made, call, work);
}
