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

symmcoll_status_t symmcoll_reduce_scatter_list(struct symmcoll_group *group,
    void *out, size_t count, const void *const *ins, const size_t *in_counts,
    enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    struct symc_lists lists = {.ins = ins,
        .in_counts = in_counts,
        .out_count = count,
        .in_count = count};
    struct symc_op made = {.kind = SYMC_REDUCE_SCATTER_LIST,
        .dtype = dtype,
        .op = op,
        .count = count,
        .out = out,
        .listed = true,
        .lists = &lists};

    return symc_coll_issue(group, &made, call, work);
}
