/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups: membership, opening and closing.
 */
#include "group/group.h"
#include "registry/registry.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

static void free_tables(struct symmcoll_group *group)
{
    free(group->global);
    free(group->members.failures);
    free(group->doorbells);
    free(group->channels);
    free(group->staging);
    free(group->verdicts);
}

static symmcoll_status_t make_tables(struct symmcoll_group *group)
{
    size_t size = (size_t)group->size;

    group->global = symc_alloc(size, sizeof(*group->global));
    group->members.failures =
        symc_alloc(size, sizeof(*group->members.failures));
    group->doorbells = symc_alloc(size, sizeof(*group->doorbells));
    group->channels = symc_alloc(size, sizeof(*group->channels));
    group->staging = symc_alloc(size, sizeof(*group->staging));
    if (group->global == NULL || group->members.failures == NULL ||
        group->doorbells == NULL || group->channels == NULL ||
        group->staging == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    for (int r = 0; r < group->size; r++)
        group->global[r] = r;
    return SYMMCOLL_OK;
}

/* What all ranks have offered in the heads of their blocks. */
static symmcoll_status_t accept_first(struct symmcoll_group *group)
{
    struct symmcoll_world *world = group->world;
    struct symc_offer *all = symc_alloc((size_t)group->size, sizeof(*all));
    symmcoll_status_t status;

    if (all == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    for (int r = 0; r < group->size; r++)
        all[r] = world->peers[r].view.first;
    status = symc_segment_accept(&world->segments, group->global, group->rank,
        group->size, all, &group->segment);
    free(all);
    return status;
}

/* Make the group's segment, and find what is where in it. */
static symmcoll_status_t open_segment(struct symmcoll_group *group)
{
    struct symmcoll_world *world = group->world;
    symmcoll_status_t status = accept_first(group);
    size_t offered;

    if (status != SYMMCOLL_OK)
        return status;
    /* What others have less of is not used. */
    offered = world->first.nbytes - world->first.staging;
    group->staging_at = world->first.staging;
    if (group->segment->nbytes > group->staging_at)
        group->staging_nbytes = group->segment->nbytes - group->staging_at;
    symc_world_return_staging(world, offered - group->staging_nbytes);
    for (int r = 0; r < group->size; r++) {
        char *at = group->segment->at[r];

        if (at == NULL)
            continue; /* on another machine: NULL everywhere */
        group->members.failures[r] = (struct symc_failure *)(void *)at;
        group->doorbells[r] =
            (struct symc_doorbell *)(void *)(at + SYMC_GROUP_DOORBELL);
        group->channels[r] = at + SYMC_GROUP_CHANNEL;
        group->staging[r] = at + group->staging_at;
    }
    return SYMMCOLL_OK;
}

static bool is_over(struct symmcoll_group *group)
{
    return symc_queue_is_over(group->queue);
}

static void make_members(struct symmcoll_group *group)
{
    struct symc_members *members = &group->members;

    members->world = group->world;
    members->group = group;
    members->name = group->name;
    members->rank = group->rank;
    members->size = group->size;
    members->global = group->global;
    members->ranks =
        (struct symc_ranks){group->name, group->global, group->size};
    members->doorbells = group->doorbells;
}

/* The name of a group or what describes it, with that of its world: a process
 * may have several.  The default world's are as torch.distributed's. */
static void format_name(const struct symmcoll_world *world, const char *name,
    char *buffer, size_t nbytes)
{
    bool usual = strcmp(world->name, SYMC_WORLD_DEFAULT) == 0;

    snprintf(buffer, nbytes, "%s%s%s", usual ? "" : world->name,
        usual ? "" : "/", name);
}

symmcoll_status_t symc_group_open(
    struct symmcoll_world *world, struct symmcoll_group **group)
{
    struct symc_queue_ops ops;
    size_t nbytes = (sizeof(struct symmcoll_group) + SYMC_FALSE_SHARING - 1) /
                    SYMC_FALSE_SHARING * SYMC_FALSE_SHARING;
    struct symmcoll_group *made = aligned_alloc(SYMC_FALSE_SHARING, nbytes);
    char desc[SYMC_TRACE_NAME];
    symmcoll_status_t status;

    if (made == NULL)
        return symc_fail(
            SYMMCOLL_ERR_NO_MEMORY, "group: %zu bytes asked for", nbytes);
    *made = (struct symmcoll_group){.world = world,
        .alive = world->alive,
        .rank = world->rank,
        .size = world->size};
    snprintf(made->id, sizeof(made->id), "0");
    format_name(world, made->id, made->name, sizeof(made->name));
    format_name(world, "default_pg", desc, sizeof(desc));
    atomic_init(&made->timeout_ns, world->config->timeouts_collective);
    status = make_tables(made);
    if (status != SYMMCOLL_OK)
        goto free_tables;
    make_members(made);
    status = open_segment(made);
    if (status != SYMMCOLL_OK)
        goto free_tables;
    made->trace = symc_trace_add_group(
        world->trace.ring, made->name, desc, made->rank, made->size);
    /* Before the backend, which may wait for the others. */
    symc_world_add(world, &made->members);
    symc_group_make_core(made);
    status = symc_slot_open_host(made);
    if (status != SYMMCOLL_OK)
        goto remove;
    ops = symc_group_queue_ops(made);
    status = symc_queue_create(&ops, world->origin, &made->queue);
    if (status != SYMMCOLL_OK)
        goto close_slots;
    symc_world_watch_works(world, &made->members, is_over);
    symc_logf(&world->log, SYMC_LOG_DEBUG,
        "group %s: rank %d of %d, backend %s, %s", made->name, made->rank,
        made->size, made->slots[SYMC_MEMORY_HOST].backend->name,
        world->origin->waiting.oversubscribed ? "more ranks than processors"
                                              : "a processor for each rank");
    *group = made;
    return SYMMCOLL_OK;

close_slots:
    (void)symc_slots_close(made);
remove:
    symc_world_remove(world, &made->members);
free_tables:
    symc_segment_leave(made->segment);
    free_tables(made);
    free(made);
    return status;
}

symmcoll_status_t symc_group_close(struct symmcoll_group *group)
{
    struct symmcoll_world *world = group->world;
    symmcoll_status_t status;

    /* First: the monitor asks the queue as long as the group is listed. */
    symc_world_remove(world, &group->members);
    symc_queue_close(group->queue);
    status = symc_slots_close(group);
    symc_segment_leave(group->segment);
    symc_world_return_staging(world, group->staging_nbytes);
    free_tables(group);
    free(group);
    return status;
}

/* ---- queries ---- */

const struct symc_config *symc_group_config(const struct symmcoll_group *group)
{
    return group->world->config;
}

int symmcoll_group_rank(const struct symmcoll_group *group)
{
    return group->rank;
}

int symmcoll_group_size(const struct symmcoll_group *group)
{
    return group->size;
}

const char *symmcoll_group_name(const struct symmcoll_group *group)
{
    return group->name;
}

int symmcoll_group_rank_of(const struct symmcoll_group *group, int global_rank)
{
    for (int r = 0; r < group->size; r++) {
        if (group->global[r] == global_rank)
            return r;
    }
    return -1;
}

int symmcoll_group_global_rank(const struct symmcoll_group *group, int rank)
{
    return rank >= 0 && rank < group->size ? group->global[rank] : -1;
}

uint64_t symmcoll_group_sequence(const struct symmcoll_group *group)
{
    return atomic_load_explicit(
        &group->seq[SYMC_COUNT_COLLECTIVE], memory_order_relaxed);
}

symmcoll_status_t symmcoll_group_set_timeout(
    struct symmcoll_group *group, double timeout)
{
    symmcoll_status_t status;
    int64_t ns;

    if (group == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_set_timeout: expected a group, found NULL");
    status = symc_timeout_read("group_set_timeout", timeout,
        group->world->config->timeouts_collective, &ns);
    if (status == SYMMCOLL_OK)
        atomic_store(&group->timeout_ns, ns);
    return status;
}

void symmcoll_group_abort(struct symmcoll_group *group, const char *reason)
{
    char who[SYMC_RANK_TEXT];

    if (group == NULL || !symc_world_is_mine(group->world))
        return;
    symc_members_raise(&group->members, SYMMCOLL_ERR_CANCELED, NULL, NULL,
        "%s aborted group %s%s%s",
        symc_format_rank(&group->members.ranks, group->rank, SYMC_NO_PID, who),
        group->name, reason != NULL ? ": " : "", reason != NULL ? reason : "");
}

symmcoll_status_t symmcoll_group_error(struct symmcoll_group *group)
{
    if (group == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "group_error: expected a group, found NULL");
    if (!symc_world_is_mine(group->world))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_error: expected the process that called init, found a fork "
            "of it");
    if (!symc_members_failed(&group->members))
        return SYMMCOLL_OK;
    return symc_members_status(&group->members, NULL);
}
