/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_to_all, with equal parts and with counts of their own.
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

symmcoll_status_t symmcoll_all_to_all_v(struct symmcoll_group *group, void *out,
    size_t out_count, const size_t *out_splits, const void *in, size_t in_count,
    const size_t *in_splits, enum symmcoll_dtype dtype,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    struct symc_lists lists = {.out_counts = out_splits,
        .in_counts = in_splits,
        .out_total = out_count,
        .in_total = in_count};
    struct symc_op made = {.kind = SYMC_ALL_TO_ALL_V,
        .dtype = dtype,
        .count = in_count,
        .out = out,
        .in = in,
        .listed = true,
        .lists = &lists};

    return symc_coll_issue(group, &made, call, work);
}

symmcoll_status_t symmcoll_all_to_all_list(struct symmcoll_group *group,
    void *const *outs, const size_t *out_counts, const void *const *ins,
    const size_t *in_counts, enum symmcoll_dtype dtype,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    struct symc_lists lists = {.outs = outs,
        .ins = ins,
        .out_counts = out_counts,
        .in_counts = in_counts};
    struct symc_op made = {.kind = SYMC_ALL_TO_ALL_LIST,
        .dtype = dtype,
        .listed = true,
        .lists = &lists};

    return symc_coll_issue(group, &made, call, work);
}
