/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What groups keep for fused operations: a world has a list of it.  Memory is
 * kept for the next call, which probably is of the same shapes.
 */
#include "config/config.h"
#include "fused/fused.h"

#include <stdlib.h>

struct states {
    struct symc_extension extension;
    pthread_mutex_t lock;
    struct symc_fused *first;
};

static void free_state(struct symc_fused *fused)
{
    symc_matmul_free(&fused->matmul);
    for (int i = 0; i < SYMC_FUSED_SCRATCHES; i++)
        symc_scratch_free(&fused->scratch[i]);
    pthread_mutex_destroy(&fused->lock);
    free(fused->all);
    free(fused->sources);
    free(fused);
}

static void end_states(
    struct symc_extension *extension, struct symmcoll_world *world)
{
    struct states *states = (struct states *)extension;

    (void)world;
    while (states->first != NULL) {
        struct symc_fused *first = states->first;

        states->first = first->next;
        free_state(first);
    }
    pthread_mutex_destroy(&states->lock);
    free(states);
}

static const char key; /* its address is that of this module's extension */

static struct symc_extension *make_states(void)
{
    struct states *states = symc_alloc(1, sizeof(*states));

    if (states == NULL)
        return NULL;
    pthread_mutex_init(&states->lock, NULL);
    states->extension = (struct symc_extension){.key = &key, .end = end_states};
    return &states->extension;
}

static struct symc_fused *make_state(struct symmcoll_group *group)
{
    struct symc_fused *made = symc_alloc(1, sizeof(*made));

    if (made == NULL)
        return NULL;
    made->group = group;
    made->uid = group->uid;
    made->all = symc_alloc((size_t)group->size, sizeof(*made->all));
    made->sources = symc_alloc((size_t)group->size, sizeof(*made->sources));
    pthread_mutex_init(&made->lock, NULL);
    if (made->all != NULL && made->sources != NULL)
        return made;
    free_state(made);
    return NULL;
}

symmcoll_status_t symc_fused_find(
    struct symmcoll_group *group, struct symc_fused **fused)
{
    struct states *states =
        (struct states *)symc_world_extension(group->world, &key, make_states);
    struct symc_fused *found;

    if (states == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    pthread_mutex_lock(&states->lock);
    found = states->first;
    /* A later group may be at the address of one that has been released, but
     * has another number. */
    while (found != NULL && found->uid != group->uid)
        found = found->next;
    if (found == NULL && (found = make_state(group)) != NULL) {
        found->next = states->first;
        states->first = found;
    }
    pthread_mutex_unlock(&states->lock);
    *fused = found;
    return found != NULL ? SYMMCOLL_OK : SYMMCOLL_ERR_NO_MEMORY;
}

symmcoll_status_t symc_fused_enter(
    struct symc_fused *fused, const char *name, bool multiplies)
{
    const struct symc_config *config = fused->group->world->config;
    struct symc_queue *queue = fused->group->queue;
    symmcoll_status_t status = SYMMCOLL_OK;

    if (symc_callbacks_inside_queue(&queue->origin->callbacks, queue))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected no blocking call on the callback thread, in a "
            "callback of the same group",
            name);
    pthread_mutex_lock(&fused->lock);
    if (multiplies && !fused->loaded) {
        status = symc_blas_load(&fused->matmul.blas, config->fused_blas);
        fused->loaded = status == SYMMCOLL_OK;
    }
    if (status != SYMMCOLL_OK)
        pthread_mutex_unlock(&fused->lock);
    return status;
}

void symc_fused_leave(struct symc_fused *fused)
{
    pthread_mutex_unlock(&fused->lock);
}

void *symc_fused_take(
    struct symc_fused *fused, enum symc_fused_scratch use, size_t nbytes)
{
    return symc_scratch_take(&fused->scratch[use], nbytes);
}

symmcoll_status_t symmcoll_fused_set_plain(
    struct symmcoll_group *group, int plain)
{
    struct symc_fused *fused;
    symmcoll_status_t status;

    if (group == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "fused_set_plain: expected a group, found NULL");
    if (*group->alive != 1)
        return symc_group_refuse(group, SYMC_ALL_GATHER);
    status = symc_fused_find(group, &fused);
    if (status == SYMMCOLL_OK)
        atomic_store(&fused->plain, plain != 0);
    return status;
}
