/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a call to its result. The call is checked; then a blocking operation
 * runs on the caller's thread, a small non-blocking one is issued by the call,
 * and any other is queued for a progress thread.  lib/run does both, and starts
 * operations on device memory.
 */
#include "coll/coll.h"
#include "coll/own.h"
#include "run/call.h"

static inline symmcoll_status_t apply(struct symmcoll_group *group,
    struct symc_op *op, const struct symmcoll_call *call)
{
    op->timeout_ns = symc_group_timeout(group);
    return call != NULL ? symc_run_read_call(call, op) : SYMMCOLL_OK;
}

symmcoll_status_t symc_coll_apply(struct symmcoll_group *group,
    struct symc_op *op, const struct symmcoll_call *call)
{
    return apply(group, op, call);
}

symmcoll_status_t symc_coll_prepare(struct symmcoll_group *group,
    struct symc_op *op, const struct symmcoll_call *call)
{
    symmcoll_status_t status = symc_coll_check(group, op);

    return status == SYMMCOLL_OK ? apply(group, op, call) : status;
}

/* Issues an op that has been checked with that status. */
static inline symmcoll_status_t issue(struct symmcoll_group *group,
    struct symc_op *op, const struct symmcoll_call *call,
    struct symmcoll_work **work, symmcoll_status_t status)
{
    if (status == SYMMCOLL_OK)
        status = apply(group, op, call);
    if (status == SYMMCOLL_OK &&
        __builtin_expect(symc_region_current(group) != NULL, 0) &&
        symc_coll_keep(group, op, call, work, &status))
        return status;
    if (status != SYMMCOLL_OK)
        return symc_coll_refuse(status, work);
    return symc_coll_run(group, op, call, work);
}

symmcoll_status_t symc_coll_issue(struct symmcoll_group *group,
    struct symc_op *op, const struct symmcoll_call *call,
    struct symmcoll_work **work)
{
    return issue(group, op, call, work, symc_coll_check(group, op));
}

symmcoll_status_t symc_coll_gather_own(struct symmcoll_group *group, void *out,
    const void *in, size_t nbytes, const struct symmcoll_call *call,
    struct symmcoll_work **work)
{
    struct symc_op made = {.kind = SYMC_ALL_GATHER,
        .dtype = SYMMCOLL_UINT8,
        .count = nbytes,
        .out = out,
        .in = in};

    return issue(group, &made, call, work, symc_coll_check_own(group, &made));
}

symmcoll_status_t symc_coll_run(struct symmcoll_group *group,
    struct symc_op *op, const struct symmcoll_call *call,
    struct symmcoll_work **work)
{
    symmcoll_status_t status;

    if (__builtin_expect(call == NULL, 1))
        return symc_run_start(symc_group_runner(group), op, work);
    status = symc_run_start(symc_group_runner(group), op, work);
    symc_run_put_sequence(
        call, op, work != NULL && status == SYMMCOLL_OK ? *work : NULL);
    return status;
}
