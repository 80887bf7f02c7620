/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waits for the sends and receives of a group: by works, and by its release.
 */
#include "group/group.h"

/* ---- functions for the queue ---- */

void symc_group_await_pairs(
    void *context, const _Atomic uint64_t *word, int64_t until_ns)
{
    struct symmcoll_group *group = context;
    struct symc_pairs *pairs = group->world->pairs;

    if (until_ns == 0)
        symc_pairs_glance(pairs);
    else
        symc_pairs_await(pairs, word, until_ns);
}

void symc_group_wake_pairs(void *context)
{
    struct symmcoll_group *group = context;

    symc_pairs_wake(group->world->pairs);
}

/* ---- release ---- */

bool symc_group_drain_pairs(struct symmcoll_group *group, int64_t deadline_ns)
{
    struct symc_pairs *pairs = group->world->pairs;

    while (atomic_load(&group->paired) > 0) {
        static const _Atomic uint64_t never;
        int64_t now = symc_now_ns(), nap = now + SYMC_NS_PER_S / 1000;

        if (now >= deadline_ns)
            return false;
        symc_pairs_await(pairs, &never, nap);
    }
    return true;
}

symmcoll_status_t symc_group_drop_messages(struct symmcoll_group *group)
{
    struct symc_pairs *pairs = group->world->pairs;
    struct symc_pair_left left;
    char who[SYMC_RANK_TEXT];
    size_t count;

    symc_pairs_enter(pairs);
    count = symc_pairs_drop_group(pairs, &group->pairs, &left);
    symc_pairs_leave(pairs);
    if (count == 0 || symc_members_failed(&group->members))
        return SYMMCOLL_OK;
    (void)symc_fail(SYMMCOLL_ERR_MISMATCH,
        "group %s: %zu messages were not received: expected none, found the "
        "first from %s with %llu elements of %s and tag %lld",
        group->name, count,
        symc_format_rank(&group->members.ranks,
            symmcoll_group_rank_of(group, left.source), SYMC_NO_PID, who),
        (unsigned long long)left.count,
        left.dtype < SYMMCOLL_DTYPE_COUNT
            ? symmcoll_dtype_name((enum symmcoll_dtype)left.dtype)
            : "an unknown type",
        (long long)left.tag);
    return symc_error_add_rank(
        &group->members.ranks, symmcoll_group_rank_of(group, left.source));
}
