/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for a word that a member writes to symmetric memory, after the first
 * polls, and the errors of such a wait.
 */
#include "base/cancel.h"
#include "base/ranks.h"
#include "symm_mem/symm_mem.h"

#include <stdio.h>

/* Formats " on channel 3"; "" if the call has no channel. */
static const char *format_channel(
    const struct symc_symm_wait *wait, char text[32])
{
    text[0] = '\0';
    if (wait->channel != SYMC_SYMM_NO_CHANNEL)
        snprintf(text, 32, " on channel %d", wait->channel);
    return text;
}

/* Adds the operation, and the member that it has waited for, to an error.
 * Returns its status. */
static symmcoll_status_t add_peer(
    const struct symmcoll_group *group, const struct symc_symm_wait *wait)
{
    symc_error_set_call(symc_group_name(group), wait->kind, 0);
    return symc_error_add_rank(symc_group_ranks(group), wait->peer);
}

/* Returns the error of a stopped wait. interrupted: the group had not failed
 * when the call began to wait. */
static symmcoll_status_t fail_stopped(struct symmcoll_symm *handle,
    const struct symc_symm_wait *wait, bool interrupted)
{
    const struct symc_op call = {.kind = wait->kind};
    struct symmcoll_group *group = handle->group;
    char who[2][SYMC_RANK_TEXT], channel[32];
    int peer = wait->peer;

    if (symc_members_failed(symc_group_members(group)))
        return interrupted
                   ? symc_members_interrupted(symc_group_members(group), &call)
                   : symc_members_status(symc_group_members(group), &call);
    (void)symc_fail(SYMMCOLL_ERR_PEER,
        "%s: %s has %s, and %s waits for it%s (group %s)",
        symc_kind_name(wait->kind),
        symc_format_rank(symc_group_ranks(group), peer,
            symc_group_world(group)->peers[symc_group_global(group)[peer]].pid,
            who[0]),
        symc_liveness_state(
            &symc_group_world(group)->peers[symc_group_global(group)[peer]]) ==
                SYMC_LIVENESS_LEFT
            ? symc_liveness_name_left(
                  &symc_group_world(group)
                       ->peers[symc_group_global(group)[peer]])
            : "released the group",
        symc_format_rank(symc_group_ranks(group), symc_group_rank(group),
            SYMC_NO_PID, who[1]),
        format_channel(wait, channel), symc_group_name(group));
    return add_peer(group, wait);
}

static symmcoll_status_t fail_expired(const struct symmcoll_symm *handle,
    const struct symc_symm_wait *wait, int64_t timeout_ns)
{
    const struct symmcoll_group *group = handle->group;
    char who[2][SYMC_RANK_TEXT], channel[32];

    (void)symc_fail(SYMMCOLL_ERR_TIMEOUT,
        "%s: %s timed out after %.3g s waiting for %s%s: %s (group %s)",
        symc_kind_name(wait->kind),
        symc_format_rank(symc_group_ranks(group), symc_group_rank(group),
            SYMC_NO_PID, who[0]),
        (double)timeout_ns / (double)SYMC_NS_PER_S,
        symc_format_rank(
            symc_group_ranks(group), wait->peer, SYMC_NO_PID, who[1]),
        format_channel(wait, channel), wait->missing, symc_group_name(group));
    return add_peer(group, wait);
}

/* ---- entering, and the group's release ---- */

static symmcoll_status_t fail_released(
    const struct symmcoll_symm *handle, enum symc_kind kind)
{
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected a group that is there until the call has ended, found "
        "that this rank (%d of %d) has released it",
        symc_kind_name(kind), handle->rank, handle->size);
}

bool symc_symm_hold(const struct symmcoll_symm *handle)
{
    struct symc_share *share = handle->share;

    /* cut() in share.c sets the flag first and then reads the count: either
     * this thread sees the flag, or the release waits for it. */
    atomic_fetch_add(&share->waiting, 1);
    if (!atomic_load(&share->cut)) {
        symc_group_enter(handle->group);
        return true;
    }
    atomic_fetch_sub(&share->waiting, 1);
    return false;
}

symmcoll_status_t symc_symm_enter(
    struct symmcoll_symm *handle, enum symc_kind kind)
{
    return symc_symm_hold(handle) ? SYMMCOLL_OK : fail_released(handle, kind);
}

void symc_symm_leave(const struct symmcoll_symm *handle)
{
    symc_group_leave(handle->group);
    atomic_fetch_sub(&handle->share->waiting, 1);
}

symmcoll_status_t symc_symm_failure(
    struct symmcoll_symm *handle, enum symc_kind kind)
{
    const struct symc_op call = {.kind = kind};
    symmcoll_status_t status = symc_symm_enter(handle, kind);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_members_status(symc_group_members(handle->group), &call);
    symc_symm_leave(handle);
    return status;
}

/* ---- waiting ---- */

/* A wait that also ends when the group is released. */
struct wait {
    const struct symc_symm_wait *what;
    const struct symc_share *share;
    bool reached; /* kept from the last check: the word may change again */
};

/* Returns whether a wait can end: its event has happened, or the group is
 * released. */
static bool is_over(void *arg)
{
    struct wait *wait = arg;

    wait->reached = wait->what->ready(wait->what->arg);
    return wait->reached ||
           atomic_load_explicit(&wait->share->cut, memory_order_relaxed);
}

static symmcoll_status_t await(struct symmcoll_symm *handle,
    const struct symc_symm_wait *what, struct symc_wait_budget *budget)
{
    struct wait wait = {.what = what, .share = handle->share};
    enum symc_wait_end end = SYMC_WAIT_EXPIRED;
    bool failed =
        budget->deadline_ns == 0 && symc_symm_is_stopped(handle->group);

    if (budget->timeout_ns != 0 || failed)
        end = symc_run_wait_until(symc_group_runner(handle->group), what->peer,
            is_over, &wait, budget);
    else if (is_over(&wait))
        end = SYMC_WAIT_REACHED;
    if (end == SYMC_WAIT_REACHED)
        return wait.reached ? SYMMCOLL_OK : fail_released(handle, what->kind);
    return end == SYMC_WAIT_STOPPED
               ? fail_stopped(handle, what, !failed)
               : fail_expired(handle, what, budget->timeout_ns);
}

symmcoll_status_t symc_symm_await(struct symmcoll_symm *handle,
    const struct symc_symm_wait *wait, struct symc_wait_budget *budget)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = await(handle, wait, budget);

    symc_cancel_restore(cancel);
    return status;
}

symmcoll_status_t symc_symm_read_timeout(const struct symmcoll_symm *handle,
    enum symc_kind kind, double timeout, struct symc_wait_budget *budget)
{
    const struct symmcoll_group *group = handle->share->bytes;

    *budget = (struct symc_wait_budget){0};
    return symc_timeout_read(symc_kind_name(kind), timeout,
        symc_group_timeout(group), &budget->timeout_ns);
}
