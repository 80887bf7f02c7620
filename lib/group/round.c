/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rounds, in which the members of a group exchange data for the library itself:
 * operations that no program has called and that are not recorded.
 */
#include "group/group.h"

symmcoll_status_t symc_group_await(
    struct symmcoll_group *group, const struct symc_op *op)
{
    const struct symc_slot *host = &group->slots[SYMC_MEMORY_HOST];
    const struct symc_host_ops *ops = host->backend->host;
    struct symc_wait_budget budget = {
        .deadline_ns = symc_deadline_ns(symc_now_ns(), op->timeout_ns)};
    symmcoll_status_t status;

    for (;;) {
        status = ops->advance(host->state, op,
            symc_now_ns() >= budget.deadline_ns ? SYMC_ADVANCE_EXPIRED
                                                : SYMC_ADVANCE_LOOK);
        if (status != SYMMCOLL_IN_PROGRESS)
            return status;
        ops->await_progress(host->state, op, &budget);
    }
}

symmcoll_status_t symc_group_round(struct symmcoll_group *group,
    enum symc_kind kind, const void *mine, void *all, size_t nbytes,
    int64_t timeout_ns)
{
    const struct symc_slot *host = &group->slots[SYMC_MEMORY_HOST];
    struct symc_op op = {.kind = kind,
        .dtype = SYMMCOLL_UINT8,
        .count = nbytes,
        .elem = 1,
        .in = mine,
        .out = all,
        .timeout_ns = timeout_ns};
    symmcoll_status_t status;

    do {
        op.wire = ++group->wire;
        status = host->backend->host->start(host->state, &op);
        if (status == SYMMCOLL_IN_PROGRESS)
            status = symc_group_await(group, &op);
        if (status == SYMC_MISSED)
            atomic_fetch_add(&group->seq[SYMC_COUNT_COLLECTIVE], 1);
    } while (status == SYMC_MISSED);
    return status;
}
