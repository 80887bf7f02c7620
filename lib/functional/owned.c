/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results in device memory, with their device and stream: a result is freed in
 * the order of its stream. A result freed while the stream is being captured,
 * so that a graph would free it at each launch, is kept until another one is
 * freed or the world ends. For a result that a failed call gives up, the
 * program may have destroyed the stream by then.
 */
#include "functional/functional.h"

#include <stdio.h>
#include <stdlib.h>

struct owned {
    struct owned *next;
    void *data;
    struct symc_site *site;
    /* position of the stream when the result was given up; or NULL */
    void *mark;
};

struct owner {
    struct symc_extension extension;
    pthread_mutex_t lock;
    struct owned *first;
    struct owned *kept; /* to be freed later */
    /* given up; the program does not have their addresses */
    struct owned *left;
};

static void free_owned(struct owned *owned)
{
    symc_site_release(owned->site, owned->data);
    symc_site_close(owned->site);
    free(owned);
}

static void free_list(struct owned *list)
{
    while (list != NULL) {
        struct owned *owned = list;

        list = owned->next;
        free_owned(owned);
    }
}

/* Frees the results that were given up. One to which a device may still write
 * stays allocated until the process ends. */
static void free_left(struct owned *list)
{
    while (list != NULL) {
        struct owned *owned = list;
        int64_t ns;

        list = owned->next;
        if (owned->mark != NULL && symc_site_elapsed(owned->site, owned->mark,
                                       owned->mark, &ns) == SYMMCOLL_OK)
            symc_site_release_idle(owned->site, owned->data);
        symc_site_unmark(owned->site, owned->mark);
        symc_site_close(owned->site);
        free(owned);
    }
}

static void end_owner(
    struct symc_extension *extension, struct symmcoll_world *world)
{
    struct owner *owner = (struct owner *)extension;

    (void)world;
    free_list(owner->first);
    free_list(owner->kept);
    free_left(owner->left);
    pthread_mutex_destroy(&owner->lock);
    free(owner);
}

static const char key; /* its address identifies this extension */

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
    owned->mark = NULL;
    owned->site = symc_site_share(site);
    pthread_mutex_lock(&owner->lock);
    owned->next = owner->first;
    owner->first = owned;
    pthread_mutex_unlock(&owner->lock);
    return SYMMCOLL_OK;
}

/* Returns whether the stream is being captured, or the driver refuses to
 * answer: for the default stream it does while a stream that waits for it is
 * captured, and a free would invalidate that capture. */
static bool may_be_captured(const struct owned *owned)
{
    bool captured;

    return symc_site_query_captured(owned->site, symc_site_stream(owned->site),
               &captured) != SYMMCOLL_OK ||
           captured;
}

/* Frees the results of a list, or keeps them for later. */
static void free_or_keep(struct owner *owner, struct owned *list)
{
    while (list != NULL) {
        struct owned *owned = list;

        list = owned->next;
        if (!may_be_captured(owned)) {
            free_owned(owned);
            continue;
        }
        pthread_mutex_lock(&owner->lock);
        owned->next = owner->kept;
        owner->kept = owned;
        pthread_mutex_unlock(&owner->lock);
    }
}

/* Removes a result from the list, under the lock; NULL: not found. */
static struct owned *take(struct owner *owner, const void *data)
{
    struct owned **at = &owner->first, *found;

    while (*at != NULL && (*at)->data != data)
        at = &(*at)->next;
    found = *at;
    if (found != NULL)
        *at = found->next;
    return found;
}

void symc_f_leave(struct symmcoll_world *world, void *data)
{
    struct owner *owner =
        (struct owner *)symc_world_extension(world, &key, NULL);
    struct symc_error error; /* of the failed call */
    struct owned *left;

    if (owner == NULL)
        return;
    pthread_mutex_lock(&owner->lock);
    left = take(owner, data);
    pthread_mutex_unlock(&owner->lock);
    if (left == NULL)
        return;
    symc_error_keep(&error, symc_error_status());
    if (may_be_captured(left) ||
        symc_site_mark(left->site, &left->mark) != SYMMCOLL_OK) {
        left->mark = NULL;
        (void)symc_error_return(&error);
    }
    pthread_mutex_lock(&owner->lock);
    left->next = owner->left;
    owner->left = left;
    pthread_mutex_unlock(&owner->lock);
}

void symc_f_disown(struct symmcoll_world *world, void *data)
{
    struct owner *owner =
        (struct owner *)symc_world_extension(world, &key, NULL);
    struct owned *found, *list;

    if (owner == NULL)
        return;
    pthread_mutex_lock(&owner->lock);
    found = take(owner, data);
    list = owner->kept;
    owner->kept = NULL;
    pthread_mutex_unlock(&owner->lock);
    if (found != NULL) {
        found->next = list;
        list = found;
    }
    free_or_keep(owner, list);
}
