/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exchange of descriptors within a group, for its backend.  It ends like an
 * operation when the group fails, as it does after a member's death, or when a
 * member has finalized.
 */
#include "base/cancel.h"
#include "run/runner.h"

#include <stdio.h>
#include <unistd.h>

/* An exchange in progress.  left: a member that finalized before it sent; -1:
 * none. */
struct waiting {
    struct symc_runner *runner;
    int left;
    bool deserted; /* ended here while other members wait for this rank */
};

static int find_gone(void *arg, const bool *arrived)
{
    struct waiting *waiting = arg;
    const struct symc_runner *runner = waiting->runner;

    waiting->left = -1;
    if (symc_members_failed(&waiting->runner->members))
        return runner->rank;
    for (int r = 0; r < runner->size; r++) {
        if (!arrived[r] &&
            (symc_liveness_state(&runner->world->peers[runner->global[r]]) ==
                    SYMC_LIVENESS_LEFT ||
                symc_segment_is_left(runner->segment, r)))
            waiting->left = r;
    }
    return waiting->left;
}

/* Returns the error of a failed exchange: the group's failure.  An error that
 * would leave the others waiting fails the group. */
static symmcoll_status_t find_reason(
    const struct waiting *waiting, symmcoll_status_t status)
{
    const struct symc_runner *runner = waiting->runner;
    struct symc_members *members = &waiting->runner->members;
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
        symc_members_raise_one(members, status, NULL, runner->rank,
            "exchange of descriptors of group %s: %s: %s", members->name,
            symc_format_rank(&members->ranks, runner->rank, getpid(), who),
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
    struct symc_runner *runner, int fd, int64_t deadline_ns, int *fds)
{
    struct symmcoll_world *world = runner->world;
    struct waiting waiting = {runner, -1, false};
    struct symc_bootstrap_inbox_exchange exchange = {.group = runner->id,
        .number = runner->exchanges++,
        .rank = runner->rank,
        .size = runner->size,
        .global = runner->global,
        .peers = world->peers,
        .deadline_ns = deadline_ns,
        .find_gone = find_gone,
        .arg = &waiting,
        .deserted = &waiting.deserted};
    symmcoll_status_t status =
        symc_bootstrap_inbox_exchange(&world->inbox, &exchange, fd, fds);

    return status == SYMMCOLL_OK ? status : find_reason(&waiting, status);
}

symmcoll_status_t symc_run_exchange_until(
    struct symc_runner *runner, int fd, int64_t deadline_ns, int *fds)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = exchange_all(runner, fd, deadline_ns, fds);

    symc_cancel_restore(cancel);
    return status;
}

symmcoll_status_t symc_run_exchange(void *context, int fd, int *fds)
{
    struct symc_runner *runner = context;

    return symc_run_exchange_until(runner, fd,
        symc_deadline_ns(symc_now_ns(), runner->world->config->timeouts_init),
        fds);
}
