/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exchange of descriptors within a group, for its backend.  It ends as an
 * operation does: when the group fails, which a member's death makes it, or
 * when a member has finalized.
 */
#include "base/cancel.h"
#include "group/group.h"

#include <stdio.h>

/* A member that has finalized, -1: there is none. */
static int find_left(const struct symmcoll_group *group)
{
    for (int r = 0; r < group->size; r++) {
        const struct symc_peer *peer = &group->world->peers[group->global[r]];

        if (r != group->rank && symc_liveness_state(peer) == SYMC_LIVENESS_LEFT)
            return r;
    }
    return -1;
}

static bool is_in_vain(void *arg)
{
    struct symmcoll_group *group = arg;

    return symc_members_failed(&group->members) || find_left(group) >= 0;
}

/* Why an exchange has failed: the group's reason, where it has one. */
static symmcoll_status_t find_reason(
    struct symmcoll_group *group, symmcoll_status_t status)
{
    char detail[SYMC_DETAIL_MAX], who[SYMC_RANK_TEXT];
    int left;

    /* Others are errors of this rank's own. */
    if (status != SYMMCOLL_ERR_PEER && status != SYMMCOLL_ERR_TIMEOUT &&
        status != SYMMCOLL_ERR_ABORTED)
        return status;
    snprintf(detail, sizeof(detail), "%s", symmcoll_last_error());
    if (symc_monitor_tells_death(&group->members))
        return symc_members_status(&group->members, NULL);
    left = find_left(group);
    if (left < 0)
        return symc_fail(status, "%s", detail);
    symc_members_raise(&group->members, SYMMCOLL_ERR_PEER, NULL, NULL,
        "%s has finalized, and an exchange of descriptors of group %s needs it",
        symc_format_rank(&group->members.ranks, left,
            group->world->peers[group->global[left]].pid, who),
        group->name);
    return symc_members_status(&group->members, NULL);
}

static symmcoll_status_t exchange_all(
    struct symmcoll_group *group, int fd, int *fds)
{
    struct symmcoll_world *world = group->world;
    struct symc_bootstrap_inbox_exchange exchange = {.group = group->id,
        .number = group->exchanges++,
        .rank = group->rank,
        .size = group->size,
        .global = group->global,
        .peers = world->peers,
        .deadline_ns =
            symc_deadline_ns(symc_now_ns(), world->config->timeouts_init),
        .in_vain = is_in_vain,
        .arg = group};
    symmcoll_status_t status =
        symc_bootstrap_inbox_exchange(&world->inbox, &exchange, fd, fds);

    return status == SYMMCOLL_OK ? status : find_reason(group, status);
}

symmcoll_status_t symc_group_exchange(void *context, int fd, int *fds)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = exchange_all(context, fd, fds);

    symc_cancel_restore(cancel);
    return status;
}
