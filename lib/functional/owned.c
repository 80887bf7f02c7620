/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results in memory of devices: which device and stream each is on, for it is freed
 * in the order of that stream.
 */
#include "functional/functional.h"

#include <stdlib.h>

struct owned {
    struct owned *next;
    void *data;
    struct symc_site *site;
};

struct owner {
    struct symc_extension extension;
    pthread_mutex_t lock;
    struct owned *first;
};

static void free_owned(struct owned *owned)
{
    symc_site_release(owned->site, owned->data);
    symc_site_close(owned->site);
    free(owned);
}

static void end_owner(
    struct symc_extension *extension, struct symmcoll_world *world)
{
    struct owner *owner = (struct owner *)extension;

    (void)world;
    while (owner->first != NULL) {
        struct owned *owned = owner->first;

        owner->first = owned->next;
        free_owned(owned);
    }
    pthread_mutex_destroy(&owner->lock);
    free(owner);
}

static const char key; /* its address is that of this extension */

static struct symc_extension *make_owner(void)
{
    struct owner *owner = symc_alloc(1, sizeof(*owner));

    if (owner == NULL)
        return NULL;
    pthread_mutex_init(&owner->lock, NULL);
    owner->extension = (struct symc_extension){.key = &key, .end = end_owner};
    return &owner->extension;
}

symmcoll_status_t symc_f_own(
    struct symmcoll_world *world, void *data, struct symc_site *site)
{
    struct owner *owner =
        (struct owner *)symc_world_extension(world, &key, make_owner);
    struct owned *owned = symc_alloc(1, sizeof(*owned));

    if (owner == NULL || owned == NULL) {
        free(owned);
        return SYMMCOLL_ERR_NO_MEMORY;
    }
    owned->data = data;
    owned->site = symc_site_share(site);
    pthread_mutex_lock(&owner->lock);
    owned->next = owner->first;
    owner->first = owned;
    pthread_mutex_unlock(&owner->lock);
    return SYMMCOLL_OK;
}

void symc_f_disown(struct symmcoll_world *world, void *data)
{
    struct owner *owner =
        (struct owner *)symc_world_extension(world, &key, NULL);
    struct owned **at, *found;

    if (owner == NULL)
        return;
    pthread_mutex_lock(&owner->lock);
    at = &owner->first;
    while (*at != NULL && (*at)->data != data)
        at = &(*at)->next;
    found = *at;
    if (found != NULL)
        *at = found->next;
    pthread_mutex_unlock(&owner->lock);
    if (found != NULL)
        free_owned(found);
}
