/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The groups of a world that this rank knows, those that it is no member of
 * among them.
 */
#include "group/group.h"

#include <string.h>

void symc_group_enlist(struct symmcoll_group *group)
{
    struct symmcoll_world *world = group->world;

    pthread_mutex_lock(&world->lock);
    group->uid = world->created++;
    group->next = world->groups;
    world->groups = group;
    pthread_mutex_unlock(&world->lock);
}

void symc_group_delist(struct symmcoll_group *group)
{
    struct symmcoll_world *world = group->world;
    struct symmcoll_group **at;

    pthread_mutex_lock(&world->lock);
    at = &world->groups;
    while (*at != NULL && *at != group)
        at = &(*at)->next;
    if (*at != NULL)
        *at = group->next;
    pthread_mutex_unlock(&world->lock);
}

struct symmcoll_group *symc_group_find_name(
    struct symmcoll_world *world, const char *name)
{
    struct symmcoll_group *found;

    pthread_mutex_lock(&world->lock);
    found = world->groups;
    while (found != NULL && strcmp(found->name, name) != 0)
        found = found->next;
    pthread_mutex_unlock(&world->lock);
    return found;
}

struct symmcoll_group *symmcoll_group_next(
    struct symmcoll_world *world, const struct symmcoll_group *after)
{
    struct symmcoll_group *found;

    if (world == NULL)
        return NULL;
    /* The list has the newest first. */
    pthread_mutex_lock(&world->lock);
    found = world->groups;
    while (found != NULL && found != after && found->next != after)
        found = found->next;
    pthread_mutex_unlock(&world->lock);
    return found != after ? found : NULL;
}
