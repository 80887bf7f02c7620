/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of a world's groups; a world knows only their members.
 */
#include "world/world.h"

void symc_world_add(struct symmcoll_world *world, struct symc_members *members)
{
    pthread_mutex_lock(&world->lock);
    members->next = world->members;
    world->members = members;
    symc_monitor_enlist(world, members);
    pthread_mutex_unlock(&world->lock);
}

void symc_world_watch_works(struct symmcoll_world *world,
    struct symc_members *members, bool (*is_over)(struct symc_members *))
{
    pthread_mutex_lock(&world->lock);
    members->is_over = is_over;
    pthread_mutex_unlock(&world->lock);
}

void symc_world_remove(
    struct symmcoll_world *world, struct symc_members *members)
{
    struct symc_members **at;

    pthread_mutex_lock(&world->lock);
    at = &world->members;
    while (*at != NULL && *at != members)
        at = &(*at)->next;
    if (*at != NULL)
        *at = members->next;
    pthread_mutex_unlock(&world->lock);
}

struct symc_members *symc_world_next(
    struct symmcoll_world *world, const struct symc_members *after)
{
    struct symc_members *next;

    pthread_mutex_lock(&world->lock);
    next = after == NULL ? world->members : after->next;
    pthread_mutex_unlock(&world->lock);
    return next;
}
