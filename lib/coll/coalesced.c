/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on several buffers at once.
 */
#include "coll/coll.h"

/* Checks and issues an operation on several buffers. The arrays are the
 * caller's, and are read until the operation has ended. */
static symmcoll_status_t issue(struct symmcoll_group *group, struct symc_op *op,
    void *const *outs, const void *const *ins, size_t n,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    struct symc_lists lists;
    symmcoll_status_t status;

    if (n > SYMC_BUFFERS_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected 1 to %d buffers, found %zu", symc_kind_name(op->kind),
            SYMC_BUFFERS_MAX, n);
    op->buffers = (int)n;
    op->out = (void *)(uintptr_t)outs;
    op->in = ins;
    status = symc_coll_check_coalesced(group, op, &lists);
    if (status != SYMMCOLL_OK)
        return symc_coll_refuse(status, work);
    if (symc_region_current(group) != NULL &&
        symc_coll_keep(group, op, call, work, &status))
        return status;
    status = symc_coll_apply(group, op, call);
    return status == SYMMCOLL_OK ? symc_coll_run(group, op, call, work)
                                 : symc_coll_refuse(status, work);
}

symmcoll_status_t symmcoll_all_reduce_coalesced(struct symmcoll_group *group,
    void *const *outs, const void *const *ins, const size_t *counts, size_t n,
    enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    struct symc_op made = {.kind = SYMC_ALL_REDUCE_COALESCED,
        .dtype = dtype,
        .op = op,
        .counts = counts};

    return issue(group, &made, outs, ins, n, call, work);
}

symmcoll_status_t symmcoll_all_gather_coalesced(struct symmcoll_group *group,
    void *const *outs, const void *const *ins, const size_t *counts, size_t n,
    enum symmcoll_dtype dtype, const struct symmcoll_call *call,
    struct symmcoll_work **work)
{
    struct symc_op made = {
        .kind = SYMC_ALL_GATHER_COALESCED, .dtype = dtype, .counts = counts};

    return issue(group, &made, outs, ins, n, call, work);
}

symmcoll_status_t symmcoll_reduce_scatter_coalesced(
    struct symmcoll_group *group, void *const *outs, const void *const *ins,
    const size_t *counts, size_t n, enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    struct symc_op made = {.kind = SYMC_REDUCE_SCATTER_COALESCED,
        .dtype = dtype,
        .op = op,
        .counts = counts};

    return issue(group, &made, outs, ins, n, call, work);
}
