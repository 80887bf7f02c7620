/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exchange of descriptors within a group, for its backend.  It ends like an
 * operation when the group fails, as it does after a member's death, or when a
 * member has finalized.
 */
#include "base/cancel.h"
#include "group/group.h"

#include <stdio.h>
#include <unistd.h>

/* An exchange in progress.  left: a member that finalized before it sent; -1:
 * none. */
struct waiting {
    struct symmcoll_group *group;
    int left;
    bool deserted; /* ended here while other members wait for this rank */
};

static int find_gone(void *arg, const bool *arrived)
{
    struct waiting *waiting = arg;
    const struct symmcoll_group *group = waiting->group;

    waiting->left = -1;
    if (symc_members_failed(&waiting->group->members))
        return group->rank;
    for (int r = 0; r < group->size; r++) {
        if (!arrived[r] &&
            (symc_liveness_state(&group->world->peers[group->global[r]]) ==
                    SYMC_LIVENESS_LEFT ||
                symc_segment_is_left(group->segment, r)))
            waiting->left = r;
    }
    return waiting->left;
}

/* Returns the error of a failed exchange: the group's failure.  An error that
 * would leave the others waiting fails the group. */
static symmcoll_status_t find_reason(
    const struct waiting *waiting, symmcoll_status_t status)
{
    const struct symmcoll_group *group = waiting->group;
    struct symc_members *members = &waiting->group->members;
    char who[SYMC_RANK_TEXT], end[SYMC_END_TEXT];
    struct symc_error error;
    int left = waiting->left;

    /* Any other error is this rank's alone. */
    if (status != SYMMCOLL_ERR_TIMEOUT && status != SYMMCOLL_ERR_ABORTED &&
        !waiting->deserted)
        return status;
    symc_error_keep(&error, status);
    if (symc_monitor_reports_death(members))
        return symc_members_status(members, NULL);
    if (status != SYMMCOLL_ERR_TIMEOUT && status != SYMMCOLL_ERR_ABORTED) {
        symc_members_raise_one(members, status, NULL, group->rank,
            "exchange of descriptors of group %s: %s: %s", members->name,
            symc_format_rank(&members->ranks, group->rank, getpid(), who),
            error.detail);
        return symc_members_status(members, NULL);
    }
    if (left < 0)
        return symc_error_return(&error);
    symc_monitor_describe_end(
        members->world, members->global[left], end, sizeof(end));
    symc_members_raise_one(members, SYMMCOLL_ERR_PEER, NULL, left,
        "%s %.240s, and an exchange of descriptors of group %s needs it",
        symc_format_rank(&members->ranks, left,
            members->world->peers[members->global[left]].pid, who),
        end, members->name);
    return symc_members_status(members, NULL);
}

static symmcoll_status_t exchange_all(
    struct symmcoll_group *group, int fd, int64_t deadline_ns, int *fds)
{
    struct symmcoll_world *world = group->world;
    struct waiting waiting = {group, -1, false};
    struct symc_bootstrap_inbox_exchange exchange = {.group = group->id,
        .number = group->exchanges++,
        .rank = group->rank,
        .size = group->size,
        .global = group->global,
        .peers = world->peers,
        .deadline_ns = deadline_ns,
        .find_gone = find_gone,
        .arg = &waiting,
        .deserted = &waiting.deserted};
    symmcoll_status_t status =
        symc_bootstrap_inbox_exchange(&world->inbox, &exchange, fd, fds);

    return status == SYMMCOLL_OK ? status : find_reason(&waiting, status);
}

symmcoll_status_t symc_group_exchange_until(
    struct symmcoll_group *group, int fd, int64_t deadline_ns, int *fds)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = exchange_all(group, fd, deadline_ns, fds);

    symc_cancel_restore(cancel);
    return status;
}

symmcoll_status_t symc_group_exchange(void *context, int fd, int *fds)
{
    struct symmcoll_group *group = context;

    return symc_group_exchange_until(group, fd,
        symc_deadline_ns(symc_now_ns(), group->world->config->timeouts_init),
        fds);
}
