/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening of groups from a plan and the members' offers, and closing.
 */
#include "group/group.h"
#include "group/region.h"
#include "group/release.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For all groups together: each was given SYMC_SLOT_CANCEL_NS before. */
#define LEFT_NS (SYMC_SLOT_CANCEL_NS / 10)

/* ---- opening ---- */

static void free_tables(struct symmcoll_group *group)
{
    free(group->runner.global);
    free(group->runner.members.failures);
    free(group->runner.doorbells);
    free(group->runner.channels);
    free(group->runner.staging);
    free(group->runner.verdicts);
}

static symmcoll_status_t make_tables(
    struct symmcoll_group *group, const int *global)
{
    size_t size = (size_t)group->runner.size;

    group->runner.global = symc_alloc(size, sizeof(*group->runner.global));
    group->runner.members.failures =
        symc_alloc(size, sizeof(*group->runner.members.failures));
    group->runner.doorbells =
        symc_alloc(size, sizeof(*group->runner.doorbells));
    group->runner.channels = symc_alloc(size, sizeof(*group->runner.channels));
    group->runner.staging = symc_alloc(size, sizeof(*group->runner.staging));
    if (group->runner.global == NULL ||
        group->runner.members.failures == NULL ||
        group->runner.doorbells == NULL || group->runner.channels == NULL ||
        group->runner.staging == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    for (int r = 0; r < group->runner.size; r++)
        group->runner.global[r] = global[r];
    return SYMMCOLL_OK;
}

/* Sets the pointers into the group's segment. */
static void lay_out(
    struct symmcoll_group *group, const struct symc_group_part *part)
{
    size_t offered = part->nbytes - part->staging;

    /* Staging beyond the smallest member's is not used. */
    group->runner.staging_at = part->staging;
    if (group->runner.segment->nbytes > group->runner.staging_at)
        group->runner.staging_nbytes =
            group->runner.segment->nbytes - group->runner.staging_at;
    symc_world_return_staging(
        group->world, offered - group->runner.staging_nbytes);
    for (int r = 0; r < group->runner.size; r++) {
        char *at = group->runner.segment->at[r];

        if (at == NULL)
            continue; /* another machine: NULL in all tables */
        group->runner.members.failures[r] = (struct symc_failure *)(void *)at;
        group->runner.doorbells[r] =
            (struct symc_doorbell *)(void *)(at + SYMC_GROUP_DOORBELL);
        group->runner.channels[r] = at + SYMC_GROUP_CHANNEL;
        group->runner.staging[r] = at + group->runner.staging_at;
    }
    symc_doorbell_init(&group->world->origin->waiting,
        group->runner.doorbells[group->runner.rank]);
}

static bool is_over(struct symc_members *members)
{
    struct symc_runner *runner = symc_runner_of(members);

    return symc_queue_is_over(runner->queue) &&
           atomic_load(&runner->paired) == 0;
}

static void make_members(struct symmcoll_group *group)
{
    struct symc_members *members = &group->runner.members;

    members->world = group->world;
    members->name = group->name;
    members->rank = group->runner.rank;
    members->size = group->runner.size;
    members->global = group->runner.global;
    members->ranks = (struct symc_ranks){
        group->name, group->runner.global, group->runner.size};
    members->doorbells = group->runner.doorbells;
}

/* Creates a group without its segment.  Returns NULL without memory. */
static struct symmcoll_group *make_group(
    struct symmcoll_world *world, const struct symc_group_plan *plan)
{
    size_t nbytes = (sizeof(struct symmcoll_group) + SYMC_FALSE_SHARING - 1) /
                    SYMC_FALSE_SHARING * SYMC_FALSE_SHARING;
    struct symmcoll_group *made = aligned_alloc(SYMC_FALSE_SHARING, nbytes);

    if (made == NULL) {
        symc_fail(SYMMCOLL_ERR_NO_MEMORY, "group: %zu bytes requested", nbytes);
        return NULL;
    }
    *made = (struct symmcoll_group){.world = world,
        .alive = world->alive,
        .users = 1,
        .holders = 1,
        .first_timeout_ns = plan->timeout_ns,
        .runner = {.world = world,
            .name = made->name,
            .id = made->id,
            .rank = plan->rank,
            .size = plan->size,
            .of_world = world->all == NULL,
            .shared = {.rank = plan->rank}}};
    memcpy(made->id, plan->id, sizeof(made->id));
    memcpy(made->name, plan->name, sizeof(made->name));
    memcpy(made->desc, plan->desc, sizeof(made->desc));
    memcpy(made->tag, plan->tag, sizeof(made->tag));
    atomic_init(&made->runner.timeout_ns, plan->timeout_ns);
    if (make_tables(made, plan->global) != SYMMCOLL_OK) {
        free_tables(made);
        free(made);
        return NULL;
    }
    make_members(made);
    symc_slots_init(&made->runner);
    return made;
}

/* Joins the world's sends and receives before waiting for other members, which
 * may already send. */
static void join_pairs(struct symmcoll_group *made)
{
    struct symc_pairs *pairs = made->world->pairs;

    made->pairs.key = symc_segment_number(made->runner.segment);
    symc_pairs_enter(pairs);
    symc_pairs_add_group(pairs, &made->pairs);
    symc_pairs_leave(pairs);
}

static void leave_pairs(struct symmcoll_group *made)
{
    struct symc_pairs *pairs = made->world->pairs;

    symc_pairs_enter(pairs);
    symc_pairs_remove_group(pairs, &made->pairs);
    symc_pairs_leave(pairs);
}

/* Starts the backend and queue of a group that has its segment. */
static symmcoll_status_t start_group(struct symmcoll_group *made)
{
    struct symmcoll_world *world = made->world;
    symmcoll_status_t status;

    /* Before the backend, which may wait for other members. */
    symc_world_add(world, &made->runner.members);
    symc_run_make_core(&made->runner);
    status = symc_slot_open_host(&made->runner);
    if (status != SYMMCOLL_OK)
        goto remove;
    status = symc_queue_create(
        &made->runner, symc_engine_of(world), &made->runner.queue);
    if (status != SYMMCOLL_OK)
        goto close_slots;
    symc_world_watch_works(world, &made->runner.members, is_over);
    return SYMMCOLL_OK;

close_slots:
    symc_slots_close(&made->runner);
remove:
    symc_world_remove(world, &made->runner.members);
    return status;
}

symmcoll_status_t symc_group_open(struct symmcoll_world *world,
    const struct symc_group_plan *plan, const struct symc_group_part *part,
    const struct symc_offer *offers, struct symmcoll_group **group)
{
    struct symmcoll_group *made = make_group(world, plan);
    symmcoll_status_t status;

    if (made == NULL) {
        symc_segment_abandon(&world->segments, &offers[plan->rank]);
        symc_world_return_staging(world, part->nbytes - part->staging);
        return SYMMCOLL_ERR_NO_MEMORY;
    }
    status = symc_segment_accept(&world->segments, made->runner.global,
        made->runner.rank, made->runner.size, offers, &made->runner.segment);
    if (status != SYMMCOLL_OK) {
        symc_world_return_staging(world, part->nbytes - part->staging);
        goto free_group;
    }
    lay_out(made, part);
    join_pairs(made);
    status = start_group(made);
    if (status != SYMMCOLL_OK)
        goto leave;
    made->runner.trace =
        plan->trace != NULL
            ? *plan->trace
            : symc_trace_add_group(&world->trace, made->name, plan->desc,
                  made->runner.rank, made->runner.size, made->runner.global);
    symc_group_enlist(made);
    symc_logf(&world->log, SYMC_LOG_DEBUG,
        "group %s: rank %d of %d, backend %s, %s", made->name,
        made->runner.rank, made->runner.size,
        made->runner.slots[SYMC_MEMORY_HOST].backend->name,
        world->origin->waiting.oversubscribed ? "more ranks than processors"
                                              : "a processor for each rank");
    *group = made;
    return SYMMCOLL_OK;

leave:
    leave_pairs(made);
    symc_segment_leave(made->runner.segment);
    symc_world_return_staging(world, made->runner.staging_nbytes);
free_group:
    symc_slots_destroy(&made->runner);
    free_tables(made);
    free(made);
    return status;
}

static const uint32_t outside = SYMC_GROUP_OUTSIDE;

symmcoll_status_t symc_group_open_outside(struct symmcoll_world *world,
    const struct symc_group_plan *plan, struct symmcoll_group **group)
{
    struct symmcoll_group *made = make_group(world, plan);

    if (made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    made->alive = &outside;
    symc_group_enlist(made);
    *group = made;
    return SYMMCOLL_OK;
}

struct symc_group_extension *symc_group_extension(struct symmcoll_group *group,
    const void *key, struct symc_group_extension *(*make)(void))
{
    struct symc_group_extension *found;

    pthread_mutex_lock(&group->world->lock);
    found = group->extensions;
    while (found != NULL && found->key != key)
        found = found->next;
    if (found == NULL && make != NULL && (found = make()) != NULL) {
        found->next = group->extensions;
        group->extensions = found;
    }
    pthread_mutex_unlock(&group->world->lock);
    return found;
}

/* New extensions are added at the head, before those visited here. */
void symc_group_cut(struct symmcoll_group *group)
{
    struct symc_group_extension *at;

    pthread_mutex_lock(&group->world->lock);
    at = group->extensions;
    pthread_mutex_unlock(&group->world->lock);
    for (; at != NULL; at = at->next) {
        if (at->cut != NULL)
            at->cut(at, group);
    }
}

static void end_extensions(struct symmcoll_group *group)
{
    while (group->extensions != NULL) {
        struct symc_group_extension *extension = group->extensions;

        group->extensions = extension->next;
        extension->end(extension, group);
    }
}

struct symmcoll_group *symc_group_hold_bytes(struct symmcoll_group *group)
{
    atomic_fetch_add_explicit(&group->holders, 1, memory_order_relaxed);
    return group;
}

void symc_group_drop_bytes(struct symmcoll_group *group)
{
    if (atomic_fetch_sub_explicit(&group->holders, 1, memory_order_acq_rel) ==
        1)
        free(group);
}

static void free_struct(struct symmcoll_group *group)
{
    symc_run_free_listeners(&group->runner);
    symc_regions_free(group);
    symc_slots_destroy(&group->runner);
    free_tables(group);
    symc_group_drop_bytes(group);
}

/* The backend's context in the group must exist until it is closed. */
static void close_member(struct symmcoll_group *group)
{
    symc_group_drop_inherited(group);
    symc_slots_close(&group->runner);
    symc_segment_leave(group->runner.segment);
    symc_world_return_staging(group->world, group->runner.staging_nbytes);
    symc_shared_free(&group->runner.shared);
    free_struct(group);
}

symmcoll_status_t symc_group_close(struct symmcoll_group *group)
{
    struct symmcoll_world *world = group->world;
    symmcoll_status_t status;

    if (!symc_group_is_member(group)) {
        free_struct(group);
        return SYMMCOLL_OK;
    }
    /* First, because the monitor checks the queue of listed groups. */
    symc_world_remove(world, &group->runner.members);
    symc_queue_close(group->runner.queue);
    /* Before the extensions release memory that a backend still uses. */
    status =
        symc_slots_reclaim(&group->runner, symc_now_ns() + SYMC_SLOT_CANCEL_NS);
    end_extensions(group);
    symc_trace_remove_group(&world->trace, group->runner.trace);
    if (status == SYMMCOLL_OK) {
        close_member(group);
        return SYMMCOLL_OK;
    }
    pthread_mutex_lock(&world->lock);
    group->next = world->left;
    world->left = group;
    pthread_mutex_unlock(&world->lock);
    return status;
}

symmcoll_status_t symc_groups_close_left(struct symmcoll_world *world)
{
    struct symc_error last = {.status = SYMMCOLL_OK};
    int64_t until = symc_now_ns() + LEFT_NS;
    struct symmcoll_group *group;
    symmcoll_status_t status;

    while ((group = world->left) != NULL) {
        world->left = group->next;
        status = symc_slots_reclaim(&group->runner, until);
        if (status != SYMMCOLL_OK)
            symc_error_keep(&last, status);
        close_member(group);
    }
    return symc_error_return(&last);
}

/* Refuses a call of a non-member, and logs it once per kind. */
static symmcoll_status_t refuse_outsider(
    struct symmcoll_group *group, enum symc_kind kind)
{
    const char *name = symc_kind_name(kind);
    uint64_t bit = UINT64_C(1) << kind;

    if ((atomic_fetch_or(&group->refused, bit) & bit) == 0)
        symc_logf(&group->world->log, SYMC_LOG_WARN,
            "%s of group %s, which rank %d is not in: nothing is done", name,
            group->name, group->world->rank);
    symc_fail(SYMMCOLL_NOT_MEMBER, "%s: rank %d is not in group %s", name,
        group->world->rank, group->name);
    return SYMMCOLL_NOT_MEMBER;
}

symmcoll_status_t symc_group_refuse(
    struct symmcoll_group *group, enum symc_kind kind)
{
    if (!symc_group_is_member(group))
        return refuse_outsider(group, kind);
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected the process that called init, found a fork of it",
        symc_kind_name(kind));
}
