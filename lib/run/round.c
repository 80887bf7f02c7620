/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rounds, in which the members of a group exchange data for the library itself:
 * operations that no program has called and that are not recorded.
 */
#include "run/runner.h"

symmcoll_status_t symc_run_await(
    struct symc_runner *runner, const struct symc_op *op)
{
    const struct symc_slot *host = &runner->slots[SYMC_MEMORY_HOST];
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

symmcoll_status_t symc_run_round(struct symc_runner *runner,
    enum symc_kind kind, const void *mine, void *all, size_t nbytes,
    int64_t timeout_ns)
{
    const struct symc_slot *host = &runner->slots[SYMC_MEMORY_HOST];
    struct symc_op op = {.kind = kind,
        .dtype = SYMMCOLL_UINT8,
        .count = nbytes,
        .elem = 1,
        .in = mine,
        .out = all,
        .timeout_ns = timeout_ns};
    symmcoll_status_t status;

    do {
        op.wire = ++runner->wire;
        status = host->backend->host->start(host->state, &op);
        if (status == SYMMCOLL_IN_PROGRESS)
            status = symc_run_await(runner, &op);
        if (status == SYMC_MISSED)
            atomic_fetch_add(&runner->seq[SYMC_COUNT_COLLECTIVE], 1);
    } while (status == SYMC_MISSED);
    return status;
}
