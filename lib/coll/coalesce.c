/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions: the calls of a thread between symmcoll_coalesce_begin() and
 * symmcoll_coalesce_end() are checked and kept (keep.c), and run as one
 * operation.
 */
#include "coll/coll.h"
#include "group/region.h"

/* Checks that a group can have a region. */
static symmcoll_status_t check_group(
    struct symmcoll_group *group, const char *name)
{
    if (group == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "%s: expected a group, found NULL", name);
    return symc_group_is_usable(group)
               ? SYMMCOLL_OK
               : symc_group_refuse(group, SYMC_ALL_REDUCE_COALESCED);
}

symmcoll_status_t symmcoll_coalesce_begin(struct symmcoll_group *group)
{
    symmcoll_status_t status = check_group(group, "coalesce_begin");

    return status == SYMMCOLL_OK ? symc_region_open(group) : status;
}

/* Issues the kept calls of a region as one operation. */
static symmcoll_status_t run(struct symmcoll_group *group,
    const struct symc_region *region, const struct symmcoll_call *call,
    struct symmcoll_work **work)
{
    struct symc_op op = region->first;
    struct symc_lists lists;
    symmcoll_status_t status;

    op.kind = symc_coll_coalesced_kind(op.kind);
    op.buffers = (int)region->n;
    op.out = region->outs;
    op.in = region->ins;
    op.counts = region->counts;
    op.kept = true;
    status = symc_coll_check_kept(group, &op, &lists);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_coll_apply(group, &op, call);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_coll_run(group, &op, call, work);
}

symmcoll_status_t symmcoll_coalesce_end(struct symmcoll_group *group,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    symmcoll_status_t status = check_group(group, "coalesce_end");
    struct symc_region *region;

    if (status != SYMMCOLL_OK)
        return symc_coll_refuse(status, work);
    region = symc_region_close(group);
    if (region == NULL)
        return SYMMCOLL_ERR_INVALID;
    if (work != NULL)
        *work = NULL;
    if (region->n > 0)
        status = run(group, region, call, work);
    symc_region_leave(
        group, region, status == SYMMCOLL_OK && work != NULL ? *work : NULL);
    return status;
}
