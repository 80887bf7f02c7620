/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * symmcoll_group_free(), and its part shared with symmcoll_finalize().
 */
#include "base/cancel.h"
#include "group/release.h"

#include <stdio.h>

/* Drops messages that were not received.  Errors: MISMATCH (the first message
 * and its sender). */
static symmcoll_status_t drop_messages(struct symmcoll_group *group)
{
    struct symc_pairs *pairs = group->world->pairs;
    struct symc_pair_left left;
    char who[SYMC_RANK_TEXT];
    size_t count;

    symc_pairs_enter(pairs);
    count = symc_pairs_drop_group(pairs, &group->pairs, &left);
    symc_pairs_leave(pairs);
    if (count == 0 || symc_members_failed(&group->runner.members))
        return SYMMCOLL_OK;
    (void)symc_fail(SYMMCOLL_ERR_MISMATCH,
        "group %s: %zu messages were not received: expected none, found the "
        "first from %s with %llu elements of %s and tag %lld",
        group->name, count,
        symc_format_rank(&group->runner.members.ranks,
            symmcoll_group_rank_of(group, left.source), SYMC_NO_PID, who),
        (unsigned long long)left.count,
        left.dtype < SYMMCOLL_DTYPE_COUNT
            ? symmcoll_dtype_name((enum symmcoll_dtype)left.dtype)
            : "an unknown type",
        (long long)left.tag);
    return symc_error_add_rank(&group->runner.members.ranks,
        symmcoll_group_rank_of(group, left.source));
}

symmcoll_status_t symc_group_end(struct symmcoll_group *group)
{
    struct symc_error first = {.status = SYMMCOLL_OK};
    int64_t wait = group->world->config->timeouts_finalize;
    symmcoll_status_t status;

    symc_group_delist(group);
    if (symc_group_is_member(group)) {
        (void)symc_group_drain_calls(group, SYMC_NEVER);
        symc_group_cut(group);
        symc_error_keep(&first, symc_group_stop(group, "group_free",
                                    symc_deadline_ns(symc_now_ns(), wait)));
        (void)symc_queue_drain_pairs(group->runner.queue, SYMC_NEVER);
        status = drop_messages(group);
        if (first.status == SYMMCOLL_OK)
            symc_error_keep(&first, status);
    }
    status = symc_group_close(group);
    return first.status == SYMMCOLL_OK ? status : symc_error_return(&first);
}

static symmcoll_status_t free_group(struct symmcoll_group *group)
{
    struct symmcoll_world *world = group->world;
    symmcoll_status_t status = SYMMCOLL_OK, closed;
    struct symc_error error;

    if (!symc_world_is_mine(world))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_free: expected the process that called init, found a fork "
            "of it");
    if (group == world->all)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_free: expected a group that was created, found the world's "
            "own, which symmcoll_finalize() releases");
    if (symc_group_is_member(group) &&
        symc_queue_in_callback(group->runner.queue))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_free: expected no callback of a work of group %s",
            group->name);
    if (symc_group_is_caller(group))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_free: expected no function that a call of group %s has "
            "called",
            group->name);
    if (symc_group_drop_user(group) > 0)
        return SYMMCOLL_OK;
    if (symc_group_is_member(group))
        status = symc_group_drain(group);
    if (status != SYMMCOLL_OK) {
        symmcoll_status_t inside = symc_group_check_inside(group, "group_free");

        if (inside != SYMMCOLL_OK) {
            symc_group_add_user(group);
            return inside;
        }
    }
    symc_error_keep(&error, status);
    closed = symc_group_end(group);
    return status == SYMMCOLL_OK ? closed : symc_error_return(&error);
}

symmcoll_status_t symmcoll_group_free(struct symmcoll_group *group)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = group != NULL ? free_group(group) : SYMMCOLL_OK;

    symc_cancel_restore(cancel);
    return status;
}
