/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data that modules of higher layers keep per world.
 */
#include "world/world.h"

struct symc_extension *symc_world_extension(struct symmcoll_world *world,
    const void *key, struct symc_extension *(*make)(void))
{
    struct symc_extension *found;

    pthread_mutex_lock(&world->lock);
    found = world->extensions;
    while (found != NULL && found->key != key)
        found = found->next;
    if (found == NULL && make != NULL && (found = make()) != NULL) {
        found->next = world->extensions;
        world->extensions = found;
    }
    pthread_mutex_unlock(&world->lock);
    return found;
}

void symc_world_end_extensions(struct symmcoll_world *world)
{
    while (world->extensions != NULL) {
        struct symc_extension *extension = world->extensions;

        world->extensions = extension->next;
        extension->end(extension, world);
    }
}
