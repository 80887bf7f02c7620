/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_gather.
 */
#include "coll/coll.h"

symmcoll_status_t symmcoll_all_gather(struct symmcoll_group *group, void *out,
    const void *in, size_t count, enum symmcoll_dtype dtype,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    struct symc_op made = {.kind = SYMC_ALL_GATHER,
        .dtype = dtype,
        .count = count,
        .out = out,
        .in = in};

    return symc_coll_issue(group, &made, call, work);
}

symmcoll_status_t symmcoll_all_gather_list(struct symmcoll_group *group,
    void *const *outs, const size_t *out_counts, const void *in, size_t count,
    enum symmcoll_dtype dtype, const struct symmcoll_call *call,
    struct symmcoll_work **work)
{
    struct symc_lists lists = {.outs = outs,
        .out_counts = out_counts,
        .out_count = count,
        .in_count = count};
    struct symc_op made = {.kind = SYMC_ALL_GATHER_LIST,
        .dtype = dtype,
        .count = count,
        .in = in,
        .listed = true,
        .lists = &lists};

    return symc_coll_issue(group, &made, call, work);
}
