/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The groups of a world known to this rank, with those it is not a member of.
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

static bool has_members(
    const struct symmcoll_group *group, const int *ranks, int nranks)
{
    if (group->runner.size != nranks)
        return false;
    for (int i = 0; i < nranks; i++) {
        if (symmcoll_group_rank_of(group, ranks[i]) < 0)
            return false;
    }
    return true;
}

/* Returns whether a group has a tag.  "user:TAG" and "ptd:NAME" are complete;
 * any other text is a program's tag, and no text matches all groups without a
 * tag. */
static bool has_tag(const struct symmcoll_group *group, const char *tag)
{
    if (tag == NULL || tag[0] == '\0')
        return strncmp(group->tag, "ptd:", 4) == 0;
    if (strncmp(tag, "ptd:", 4) == 0 || strncmp(tag, "user:", 5) == 0)
        return strcmp(group->tag, tag) == 0;
    return strncmp(group->tag, "user:", 5) == 0 &&
           strcmp(group->tag + 5, tag) == 0;
}

/* Needs the world's lock. */
static struct symmcoll_group *find_tag(struct symmcoll_world *world,
    const char *tag, const int *ranks, int nranks, bool use)
{
    struct symmcoll_group *found = NULL;

    for (struct symmcoll_group *at = world->groups; at != NULL; at = at->next) {
        if (has_tag(at, tag) && has_members(at, ranks, nranks))
            found = at; /* the last one in the list is the oldest */
    }
    if (found != NULL && use)
        found->users++;
    return found;
}

struct symmcoll_group *symc_group_find_tag(struct symmcoll_world *world,
    const char *tag, const int *ranks, int nranks, bool use)
{
    struct symmcoll_group *found;

    pthread_mutex_lock(&world->lock);
    found = find_tag(world, tag, ranks, nranks, use);
    pthread_mutex_unlock(&world->lock);
    return found;
}

/* ---- claims ---- */

static bool is_claimed(
    const struct symmcoll_world *world, const struct symc_group_claim *claim)
{
    const struct symc_group_claim *at = world->claims;

    while (at != NULL &&
           (at->nranks != claim->nranks || strcmp(at->tag, claim->tag) != 0 ||
               memcmp(at->ranks, claim->ranks,
                   (size_t)at->nranks * sizeof(*at->ranks)) != 0))
        at = at->next;
    return at != NULL;
}

struct symmcoll_group *symc_group_find_or_claim(
    struct symmcoll_world *world, struct symc_group_claim *claim)
{
    struct symmcoll_group *found;

    pthread_mutex_lock(&world->lock);
    for (;;) {
        found = find_tag(world, claim->tag, claim->ranks, claim->nranks, true);
        if (found != NULL || !is_claimed(world, claim))
            break;
        pthread_cond_wait(&world->claimed, &world->lock);
    }
    if (found == NULL) {
        claim->next = world->claims;
        world->claims = claim;
    }
    pthread_mutex_unlock(&world->lock);
    return found;
}

void symc_group_end_claim(
    struct symmcoll_world *world, struct symc_group_claim *claim)
{
    struct symc_group_claim **at;

    pthread_mutex_lock(&world->lock);
    at = &world->claims;
    while (*at != NULL && *at != claim)
        at = &(*at)->next;
    if (*at != NULL)
        *at = claim->next;
    pthread_cond_broadcast(&world->claimed);
    pthread_mutex_unlock(&world->lock);
}

uint32_t symc_group_drop_user(struct symmcoll_group *group)
{
    uint32_t left;

    pthread_mutex_lock(&group->world->lock);
    left = --group->users;
    pthread_mutex_unlock(&group->world->lock);
    return left;
}

void symc_group_add_user(struct symmcoll_group *group)
{
    pthread_mutex_lock(&group->world->lock);
    group->users++;
    pthread_mutex_unlock(&group->world->lock);
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
