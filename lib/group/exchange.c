/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exchange of descriptors within a group, for its backend.  It ends as an
 * operation does: when the group fails, which a member's death makes it, or
 * when a member has finalized.
 */
#include "base/cancel.h"
#include "group/group.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A member that has finalized, NULL: there is none. */
static const struct symc_peer *find_left(
    const struct symmcoll_group *group, int *rank)
{
    for (int r = 0; r < group->size; r++) {
        const struct symc_peer *peer = &group->world->peers[group->global[r]];

        *rank = group->global[r];
        if (r != group->rank && symc_liveness_state(peer) == SYMC_LIVENESS_LEFT)
            return peer;
    }
    return NULL;
}

static bool is_in_vain(void *arg)
{
    struct symmcoll_group *group = arg;
    int rank;

    return symc_members_failed(&group->members) ||
           find_left(group, &rank) != NULL;
}

/* Why an exchange has failed: the group's reason, where it has one. */
static symmcoll_status_t find_reason(
    struct symmcoll_group *group, symmcoll_status_t status)
{
    char detail[SYMC_DETAIL_MAX], pid[SYMC_PID_TEXT];
    const struct symc_peer *left;
    int rank;

    /* Others are errors of this rank's own. */
    if (status != SYMMCOLL_ERR_PEER && status != SYMMCOLL_ERR_TIMEOUT &&
        status != SYMMCOLL_ERR_ABORTED)
        return status;
    snprintf(detail, sizeof(detail), "%s", symmcoll_last_error());
    if (symc_monitor_tells_death(&group->members))
        return symc_members_status(&group->members, NULL);
    left = find_left(group, &rank);
    if (left == NULL)
        return symc_fail(status, "%s", detail);
    symc_members_raise(&group->members, SYMMCOLL_ERR_PEER, NULL, NULL,
        "rank %d (%s) has finalized, and an exchange of descriptors of group "
        "%s needs it",
        rank, symc_format_pid(left->pid, pid), group->name);
    return symc_members_status(&group->members, NULL);
}

/* Run one more rendezvous, under a name that this group alone uses. */
static symmcoll_status_t exchange_once(struct symmcoll_group *group,
    const struct symc_bootstrap_offer *mine, struct symc_bootstrap_offer *all,
    bool *threads)
{
    struct symmcoll_world *world = group->world;
    char name[SYMC_RENDEZVOUS_NAME + 32];
    struct symc_bootstrap_args args = {
        .server = world->rendezvous.server[0] != '\0' ? world->rendezvous.server
                                                      : NULL,
        .name = name,
        .rank = group->rank,
        .size = group->size,
        .in_vain = is_in_vain,
        .in_vain_arg = group};
    symmcoll_status_t status;

    snprintf(name, sizeof(name), "%.48s.%s.%u", world->rendezvous.name,
        group->id, group->exchanges++);
    args.deadline_ns =
        symc_deadline_ns(symc_now_ns(), world->config->timeouts_init);
    status = symc_bootstrap_exchange(&args, mine, all, threads);
    return status == SYMMCOLL_OK ? status : find_reason(group, status);
}

/* Threads share a table of descriptors: each makes a copy of its own, and no
 * rank goes on before all have. */
static symmcoll_status_t copy_fds(
    struct symmcoll_group *group, struct symc_bootstrap_offer *all, int *fds)
{
    struct symc_bootstrap_offer none = {.fds = {-1, -1}};
    bool threads;

    for (int r = 0; r < group->size; r++) {
        int fd = (int)(intptr_t)all[r].address - 1;

        fds[r] = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (fd >= 0 && fds[r] < 0)
            return symc_fail_errno(
                SYMMCOLL_ERR_SYSTEM, errno, "exchange: rank %d", r);
    }
    return exchange_once(group, &none, all, &threads);
}

static symmcoll_status_t exchange_all(
    struct symmcoll_group *group, int fd, int *fds)
{
    struct symc_bootstrap_offer mine = {
        .fds = {fd, -1}, .address = (void *)(intptr_t)(fd + 1)};
    struct symc_bootstrap_offer *all;
    symmcoll_status_t status;
    bool threads;

    if (group->size == 1) {
        fds[0] = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (fd >= 0 && fds[0] < 0)
            return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, errno, "exchange");
        return SYMMCOLL_OK;
    }
    all = symc_alloc((size_t)group->size, sizeof(*all));
    if (all == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    status = exchange_once(group, &mine, all, &threads);
    if (status == SYMMCOLL_OK && threads) {
        status = copy_fds(group, all, fds);
    } else if (status == SYMMCOLL_OK) {
        for (int r = 0; r < group->size; r++)
            fds[r] = all[r].fds[0];
    }
    free(all);
    return status;
}

symmcoll_status_t symc_group_exchange(void *context, int fd, int *fds)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = exchange_all(context, fd, fds);

    symc_cancel_restore(cancel);
    return status;
}
