/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Symmetric memory of a world and of its groups, and its end with either.
 */
#include "symm_mem/share.h"
#include "symm_mem/symm_mem.h"

#include <stdlib.h>

/* ---- groups ---- */

/* its address identifies this module's extension */
static const char group_key;

/* Frees the allocation of a handle, and the handle; under the lock. */
static void drop(const struct symmcoll_symm *handle)
{
    struct symc_share *share = handle->share;
    struct symc_allocation *allocation = share->allocation;

    allocation->active = false;
    symc_allocation_release(allocation, false);
    symc_share_drop(share, 1, false);
}

void symc_workspace_free(struct symc_symm_group *of)
{
    struct symmcoll_symm *workspace = of->workspace;

    of->workspace = NULL;
    if (workspace != NULL)
        drop(workspace);
}

void symc_symm_drop(struct symmcoll_symm *handle)
{
    struct symc_symm *symm;

    if (handle == NULL)
        return;
    symm = handle->share->home;
    pthread_mutex_lock(&symm->lock);
    drop(handle);
    symc_symm_unlock(symm);
}

bool symc_symm_reap(struct symmcoll_world *world)
{
    struct symc_symm *symm = symc_symm_of(world);
    bool left;

    if (symm == NULL)
        return false;
    pthread_mutex_lock(&symm->lock);
    left = symc_shares_reap(symm);
    symc_symm_unlock(symm);
    return left;
}

/* Detaches the shares of a group from it, and frees its workspace. */
static void end_group(struct symc_symm_group *of)
{
    struct symc_symm *symm = of->symm;

    if (symm == NULL)
        return;
    symc_workspace_free(of);
    symc_shares_leave_group(symm, of->group);
    of->symm = NULL;
}

/* Called when the release of a group begins: lets no thread enter it any
 * more. */
static void cut_group(
    struct symc_group_extension *extension, struct symmcoll_group *group)
{
    struct symc_symm *symm = ((struct symc_symm_group *)extension)->symm;

    if (symm == NULL)
        return;
    pthread_mutex_lock(&symm->lock);
    symc_shares_cut(symm, group);
    symc_symm_unlock(symm);
}

/* Called when a group is freed: ends its symmetric memory. */
static void end_with_group(
    struct symc_group_extension *extension, struct symmcoll_group *group)
{
    struct symc_symm_group *of = (struct symc_symm_group *)extension;
    struct symc_symm *symm = of->symm;

    (void)group;
    if (symm != NULL) {
        struct symc_symm_group **at = &symm->groups;

        pthread_mutex_lock(&symm->lock);
        end_group(of);
        while (*at != of)
            at = &(*at)->next;
        *at = of->next;
        symc_symm_unlock(symm);
    }
    free(of);
}

static struct symc_group_extension *make_group(void)
{
    struct symc_symm_group *of = symc_alloc(1, sizeof(*of));

    if (of == NULL)
        return NULL;
    of->extension = (struct symc_group_extension){
        .key = &group_key, .cut = cut_group, .end = end_with_group};
    return &of->extension;
}

struct symc_symm_group *symc_symm_group_of(struct symmcoll_group *group)
{
    struct symc_symm *symm = symc_symm_of(symc_group_world(group));
    struct symc_symm_group *of =
        symm == NULL ? NULL
                     : (struct symc_symm_group *)symc_group_extension(
                           group, &group_key, make_group);

    if (of == NULL)
        return NULL;
    pthread_mutex_lock(&symm->lock);
    if (of->symm == NULL) {
        of->symm = symm;
        of->group = group;
        of->next = symm->groups;
        symm->groups = of;
    }
    symc_symm_unlock(symm);
    return of;
}

/* ---- worlds ---- */

static void end(struct symc_extension *extension, struct symmcoll_world *world)
{
    struct symc_symm *symm = (struct symc_symm *)extension;

    (void)world;
    pthread_mutex_lock(&symm->lock);
    for (struct symc_symm_group *of = symm->groups; of != NULL; of = of->next)
        end_group(of);
    symc_shares_end(symm);
    while (symm->allocations != NULL) {
        struct symc_allocation *first = symm->allocations;

        symm->allocations = first->next;
        symc_allocation_drop(first);
    }
    while (symm->pools != NULL) {
        struct symmcoll_symm_pool *first = symm->pools;

        symm->pools = first->next;
        free(first);
    }
    symc_symm_unlock(symm);
    pthread_mutex_destroy(&symm->lock);
    free(symm);
}

static const char key; /* its address identifies this module's extension */

static struct symc_extension *make(void)
{
    struct symc_symm *symm = symc_alloc(1, sizeof(*symm));

    if (symm == NULL)
        return NULL;
    pthread_mutex_init(&symm->lock, NULL);
    symm->extension = (struct symc_extension){.key = &key, .end = end};
    return &symm->extension;
}

struct symc_symm *symc_symm_of(struct symmcoll_world *world)
{
    struct symc_symm *symm =
        (struct symc_symm *)symc_world_extension(world, &key, make);

    if (symm == NULL)
        return NULL;
    pthread_mutex_lock(&symm->lock);
    if (symm->world == NULL)
        symm->world = world;
    symc_symm_unlock(symm);
    return symm;
}

/* ---- allocations ---- */

struct symc_allocation *symc_allocation_find(
    struct symc_symm *symm, const void *address)
{
    struct symc_allocation *at = symm->allocations;

    while (at != NULL) {
        size_t offset = (uintptr_t)address - (uintptr_t)at->data;

        if (at->active && at->data != NULL &&
            (offset == 0 || offset < at->nbytes))
            break;
        at = at->next;
    }
    return at;
}

void symc_allocation_delist(struct symc_allocation *allocation)
{
    struct symc_allocation **at = &allocation->home->allocations;

    while (*at != allocation)
        at = &(*at)->next;
    *at = allocation->next;
}

void symc_allocation_release(struct symc_allocation *allocation, bool awaited)
{
    struct symc_symm *symm = allocation->home;

    allocation->pool = NULL;
    symc_allocation_delist(allocation);
    symc_shares_free(symm, allocation, awaited);
    symc_allocation_drop(allocation);
}
