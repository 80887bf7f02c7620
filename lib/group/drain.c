/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a group, or of all groups of a world: queued operations are given
 * time to complete.
 */
#include "base/cancel.h"
#include "group/release.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* between two checks of running operations */
#define WATCH_NS (SYMC_NS_PER_S / 20)

symmcoll_status_t symc_group_stop(
    struct symmcoll_group *group, const char *where, int64_t deadline_ns)
{
    bool stuck = false;

    symc_queue_stop(group->runner.queue);
    while (!symc_queue_await_running(
        group->runner.queue, symc_now_ns() + WATCH_NS)) {
        (void)symc_slot_watch(&group->runner);
        if (stuck || symc_now_ns() < deadline_ns)
            continue;
        stuck = true;
        symmcoll_group_abort(group, "operations on a device did not end");
    }
    return stuck
               ? symc_fail(SYMMCOLL_ERR_TIMEOUT,
                     "%s: operations on a device that were enqueued during the "
                     "call in group %s had not ended in time, and were canceled",
                     where, group->name)
               : SYMMCOLL_OK;
}

/* Returns whether the group's ticket is free and no call uses the group. */
static bool is_free(struct symmcoll_group *group)
{
    uint64_t ticket;

    symc_queue_skip(group->runner.queue);
    if (atomic_load(&group->calls) > 0 ||
        !symc_queue_try(group->runner.queue, &ticket))
        return false;
    symc_queue_leave(group->runner.queue, ticket);
    return true;
}

symmcoll_status_t symc_group_check_inside(
    struct symmcoll_group *group, const char *where)
{
    const struct timespec nap = {.tv_nsec = SYMC_SLOT_NAP_NS};
    int64_t until = symc_now_ns() + SYMC_SLOT_CANCEL_NS;
    char inside[SYMC_DETAIL_MAX / 2];
    bool free;

    while (!(free = is_free(group)) && symc_now_ns() < until)
        nanosleep(&nap, NULL);
    if (free ||
        !symc_slot_format_inside(&group->runner, inside, sizeof(inside)))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_TIMEOUT,
        "%s: %s in group %s: nothing has been released, and the call can be "
        "repeated",
        where, inside, group->name);
}

/* Returns the group after one in a world; NULL: the first. */
static struct symmcoll_group *next_group(
    struct symmcoll_world *world, const struct symmcoll_group *after)
{
    struct symc_members *members =
        symc_world_next(world, after == NULL ? NULL : &after->runner.members);

    return members == NULL ? NULL : symc_group_of(members);
}

/* Drains all groups once.  Returns the first that did not end in time, or
 * NULL. */
static struct symmcoll_group *drain_queues(
    struct symmcoll_world *world, int64_t deadline_ns)
{
    for (struct symmcoll_group *group = next_group(world, NULL); group != NULL;
         group = next_group(world, group)) {
        if (!symc_queue_drain(group->runner.queue, deadline_ns) ||
            !symc_queue_drain_pairs(group->runner.queue, deadline_ns) ||
            !symc_group_drain_calls(group, deadline_ns))
            return group;
    }
    return NULL;
}

static bool is_over(struct symmcoll_group *group)
{
    return symc_queue_is_over(group->runner.queue) &&
           atomic_load(&group->runner.paired) == 0 &&
           atomic_load(&group->calls) == 0;
}

static bool are_over(struct symmcoll_world *world)
{
    for (struct symmcoll_group *group = next_group(world, NULL); group != NULL;
         group = next_group(world, group)) {
        if (!is_over(group))
            return false;
    }
    return true;
}

/* Formats the positions of this rank and of the ranks that are elsewhere: it
 * waits for those. */
static void describe_others(
    const struct symmcoll_group *group, char *buffer, size_t nbytes)
{
    const struct symmcoll_world *world = group->world;
    char mine[SYMC_TRACE_POSITION], other[SYMC_TRACE_POSITION];
    size_t ring_nbytes, used;
    const struct symc_trace_ring *ring =
        symc_world_ring(world, world->rank, &ring_nbytes);

    symc_trace_position(ring, ring_nbytes, NULL, mine, sizeof(mine));
    used = (size_t)snprintf(
        buffer, nbytes, "%s%s", mine[0] != '\0' ? ": this rank is " : "", mine);
    for (int r = 0; r < group->runner.size && used + 64 < nbytes; r++) {
        char who[SYMC_RANK_TEXT];

        if (r == group->runner.rank)
            continue;
        ring = symc_world_ring(world, group->runner.global[r], &ring_nbytes);
        symc_trace_position(ring, ring_nbytes, NULL, other, sizeof(other));
        if (strcmp(mine, other) == 0)
            continue;
        used += (size_t)snprintf(buffer + used, nbytes - used, "; %s is %s",
            symc_format_rank(&group->runner.members.ranks, r,
                world->peers[group->runner.global[r]].pid, who),
            other);
    }
}

/* Aborts the groups that have not ended in time, and returns TIMEOUT. */
static symmcoll_status_t give_up(
    struct symmcoll_world *world, const struct symmcoll_group *stuck)
{
    double seconds =
        (double)world->config->timeouts_finalize / (double)SYMC_NS_PER_S;
    char where[SYMC_DETAIL_MAX / 2];

    if (stuck == NULL)
        return symc_fail(SYMMCOLL_ERR_TIMEOUT,
            "finalize: after %.3g s callbacks had not ended", seconds);
    describe_others(stuck, where, sizeof(where));
    for (struct symmcoll_group *group = next_group(world, NULL); group != NULL;
         group = next_group(world, group)) {
        if (!is_over(group))
            symmcoll_group_abort(
                group, "finalize: queued operations did not end");
    }
    return symc_fail(SYMMCOLL_ERR_TIMEOUT,
        "finalize: after %.3g s operations of group %s had not ended, and were "
        "canceled%s",
        seconds, stuck->name, where);
}

/* Checks whether a thread is stuck in a driver for an operation that has not
 * ended. */
static symmcoll_status_t check_inside(struct symmcoll_world *world)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    for (struct symmcoll_group *group = next_group(world, NULL);
         group != NULL && status == SYMMCOLL_OK;
         group = next_group(world, group))
        status = symc_group_check_inside(group, "finalize");
    return status;
}

symmcoll_status_t symc_groups_drain(struct symmcoll_world *world, bool *inside)
{
    int64_t wait = world->config->timeouts_finalize;
    int64_t deadline = symc_deadline_ns(symc_now_ns(), wait);
    symmcoll_status_t status = SYMMCOLL_OK;
    struct symc_error first;

    do { /* a callback may start work in any group */
        struct symmcoll_group *stuck = drain_queues(world, deadline);

        if (stuck != NULL ||
            !symc_callbacks_drain(
                &symc_engine_of(world)->callbacks, NULL, deadline))
            status = give_up(world, stuck);
    } while (status == SYMMCOLL_OK && !are_over(world));
    symc_error_keep(&first, status);
    *inside = status != SYMMCOLL_OK && check_inside(world) != SYMMCOLL_OK;
    if (*inside)
        return SYMMCOLL_ERR_TIMEOUT;
    for (struct symmcoll_group *group = next_group(world, NULL); group != NULL;
         group = next_group(world, group)) {
        (void)symc_group_drain_calls(group, SYMC_NEVER);
        symc_group_cut(group);
        status = symc_group_stop(group, "finalize", deadline);
        if (first.status == SYMMCOLL_OK)
            symc_error_keep(&first, status);
        (void)symc_queue_drain_pairs(group->runner.queue, SYMC_NEVER);
    }
    return symc_error_return(&first);
}

/* Waits until the operations of a group have ended and their callbacks have
 * run, with all that these start.  Returns NULL, or the name of what has not
 * ended in time. */
static const char *await_end(struct symmcoll_group *group, int64_t deadline_ns)
{
    struct symc_callbacks *callbacks = &group->runner.queue->engine->callbacks;
    bool inside = symc_callbacks_inside(callbacks);

    for (;;) {
        if (!symc_queue_drain(group->runner.queue, deadline_ns) ||
            !symc_queue_drain_pairs(group->runner.queue, deadline_ns) ||
            !symc_group_drain_calls(group, deadline_ns))
            return "operations";
        if (inside)
            symc_callbacks_run_queue(callbacks, group->runner.queue);
        else if (!symc_callbacks_drain(
                     callbacks, group->runner.queue, deadline_ns))
            return "callbacks";
        if (is_over(group))
            return NULL;
        /* Callbacks may start operations endlessly. */
        if (symc_now_ns() >= deadline_ns)
            return "operations";
    }
}

symmcoll_status_t symc_group_drain(struct symmcoll_group *group)
{
    int64_t wait = group->world->config->timeouts_finalize;
    const char *left = await_end(group, symc_deadline_ns(symc_now_ns(), wait));
    char where[SYMC_DETAIL_MAX / 2];

    if (left == NULL)
        return SYMMCOLL_OK;
    if (strcmp(left, "callbacks") == 0)
        return symc_fail(SYMMCOLL_ERR_TIMEOUT,
            "group_free: after %.3g s callbacks of group %s had not ended",
            (double)wait / (double)SYMC_NS_PER_S, group->name);
    describe_others(group, where, sizeof(where));
    symmcoll_group_abort(group, "group_free: operations did not end");
    return symc_fail(SYMMCOLL_ERR_TIMEOUT,
        "group_free: after %.3g s operations of group %s had not ended, "
        "and were canceled%s",
        (double)wait / (double)SYMC_NS_PER_S, group->name, where);
}

/* ---- public functions ---- */

static symmcoll_status_t check_drain(struct symmcoll_group *group)
{
    if (group == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "group_drain: expected a group, found NULL");
    if (!symc_group_is_member(group)) {
        symc_fail(SYMMCOLL_NOT_MEMBER,
            "group_drain: rank %d is not in group %s", group->world->rank,
            group->name);
        return SYMMCOLL_NOT_MEMBER;
    }
    if (*group->alive != 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_drain: expected the process that called init, found a fork "
            "of it");
    if (symc_queue_in_callback(group->runner.queue))
        return symc_callbacks_refuse("group_drain");
    if (symc_group_is_caller(group))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_drain: expected no function that a call of group %s has "
            "called",
            group->name);
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_group_drain(
    struct symmcoll_group *group, double timeout)
{
    symmcoll_status_t status = check_drain(group);
    char where[SYMC_DETAIL_MAX / 2];
    int64_t timeout_ns;
    const char *left;
    int cancel;

    if (status == SYMMCOLL_OK)
        status =
            symc_timeout_read("group_drain", timeout, SYMC_NEVER, &timeout_ns);
    if (status != SYMMCOLL_OK)
        return status;
    cancel = symc_cancel_disable();
    left = await_end(group, symc_deadline_ns(symc_now_ns(), timeout_ns));
    symc_cancel_restore(cancel);
    if (left == NULL)
        return SYMMCOLL_OK;
    describe_others(group, where, sizeof(where));
    return symc_fail(SYMMCOLL_ERR_TIMEOUT,
        "group_drain: %s of group %s have not ended after %g s; they go on%s",
        left, group->name, timeout, where);
}
