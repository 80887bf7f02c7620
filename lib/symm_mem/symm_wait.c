/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for what a member writes to symmetric memory, beyond the first polls;
 * and how it ends in vain.
 */
#include "base/cancel.h"
#include "base/ranks.h"
#include "symm_mem/symm_mem.h"

#include <stdio.h>

symmcoll_status_t symc_symm_failure(
    struct symmcoll_symm *handle, enum symc_kind kind)
{
    const struct symc_op call = {.kind = kind};

    return symc_members_status(&handle->group->members, &call);
}

static symmcoll_status_t fail_stopped(
    struct symmcoll_symm *handle, const struct symc_symm_wait *wait)
{
    struct symmcoll_group *group = handle->group;
    char who[2][SYMC_RANK_TEXT];
    int peer = wait->peer;

    if (symc_members_failed(&group->members))
        return symc_symm_failure(handle, wait->kind);
    return symc_fail(SYMMCOLL_ERR_PEER,
        "%s: %s has %s, and %s waits for it on channel %d (group %s)",
        symc_kind_name(wait->kind),
        symc_format_rank(&group->members.ranks, peer,
            group->world->peers[group->global[peer]].pid, who[0]),
        symc_liveness_state(&group->world->peers[group->global[peer]]) ==
                SYMC_LIVENESS_LEFT
            ? "finalized"
            : "released the group",
        symc_format_rank(
            &group->members.ranks, group->rank, SYMC_NO_PID, who[1]),
        wait->channel, group->name);
}

static symmcoll_status_t fail_expired(const struct symmcoll_symm *handle,
    const struct symc_symm_wait *wait, int64_t timeout_ns)
{
    const struct symmcoll_group *group = handle->group;
    char who[2][SYMC_RANK_TEXT];

    return symc_fail(SYMMCOLL_ERR_TIMEOUT,
        "%s: %s waited %.3g s in vain for %s on channel %d: %s (group %s)",
        symc_kind_name(wait->kind),
        symc_format_rank(
            &group->members.ranks, group->rank, SYMC_NO_PID, who[0]),
        (double)timeout_ns / (double)SYMC_NS_PER_S,
        symc_format_rank(
            &group->members.ranks, wait->peer, SYMC_NO_PID, who[1]),
        wait->channel, wait->missing, group->name);
}

symmcoll_status_t symc_symm_await(struct symmcoll_symm *handle,
    const struct symc_symm_wait *wait, struct symc_wait_budget *budget)
{
    struct symmcoll_group *group = handle->group;
    int cancel = symc_cancel_disable();
    enum symc_wait_end end;
    symmcoll_status_t status;

    if (budget->timeout_ns == 0 && !symc_symm_is_stopped(handle))
        end = wait->ready(wait->arg) ? SYMC_WAIT_REACHED : SYMC_WAIT_EXPIRED;
    else
        end = symc_group_wait_until(
            group, wait->peer, wait->ready, wait->arg, budget);
    status = end == SYMC_WAIT_REACHED ? SYMMCOLL_OK
             : end == SYMC_WAIT_STOPPED
                 ? fail_stopped(handle, wait)
                 : fail_expired(handle, wait, budget->timeout_ns);
    symc_cancel_restore(cancel);
    return status;
}

symmcoll_status_t symc_symm_read_timeout(const struct symmcoll_symm *handle,
    enum symc_kind kind, double timeout, struct symc_wait_budget *budget)
{
    *budget = (struct symc_wait_budget){0};
    return symc_timeout_read(symc_kind_name(kind), timeout,
        atomic_load_explicit(&handle->group->timeout_ns, memory_order_relaxed),
        &budget->timeout_ns);
}
