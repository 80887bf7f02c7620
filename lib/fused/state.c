/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State of groups for fused operations. Memory is kept for the next call, which
 * probably has the same shapes, until the group is released or the world is
 * finalized.
 */
#include "base/cancel.h"
#include "coll/own.h"
#include "config/config.h"
#include "fused/device.h"
#include "run/call.h"
#include "run/slot.h"
#include "symm_mem/symm_mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The states of a world's groups. */
struct symc_fused_states {
    struct symc_extension extension; /* first */
    pthread_mutex_t lock;            /* protects what follows */
    struct symc_fused *first;
    bool loaded; /* blas has the library of fused.blas */
    struct symc_blas blas;
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

/* ---- worlds ---- */

/* Ends the states of all groups, before symmetric memory and the groups end. */
static void end_states(
    struct symc_extension *extension, struct symmcoll_world *world)
{
    struct symc_fused_states *states = (struct symc_fused_states *)extension;
    /* limit for all groups together */
    int64_t until = symc_now_ns() + SYMC_SLOT_CANCEL_NS;

    (void)world;
    for (struct symc_fused *at = states->first; at != NULL; at = at->next) {
        symc_fused_shrink(at);
        symc_fused_device_end(at, until);
        at->states = NULL;
    }
    pthread_mutex_destroy(&states->lock);
    free(states);
}

static const char key; /* its address identifies this module's extensions */

static struct symc_extension *make_states(void)
{
    struct symc_fused_states *states = symc_alloc(1, sizeof(*states));

    if (states == NULL)
        return NULL;
    pthread_mutex_init(&states->lock, NULL);
    states->extension = (struct symc_extension){.key = &key, .end = end_states};
    return &states->extension;
}

/* ---- groups ---- */

static void end_state(
    struct symc_group_extension *extension, struct symmcoll_group *group)
{
    struct symc_fused *fused = (struct symc_fused *)extension;
    struct symc_fused_states *states = fused->states;

    (void)group;
    if (states != NULL) {
        struct symc_fused **at = &states->first;

        pthread_mutex_lock(&states->lock);
        while (*at != fused)
            at = &(*at)->next;
        *at = fused->next;
        pthread_mutex_unlock(&states->lock);
        symc_fused_shrink(fused);
        /* The group's release has waited for its operations. */
        symc_fused_device_end(fused, 0);
    }
    free_state(fused);
}

static struct symc_group_extension *make_state(void)
{
    struct symc_fused *made = symc_alloc(1, sizeof(*made));
    pthread_mutexattr_t checked;

    if (made == NULL)
        return NULL;
    /* The mutex detects a call from a function of a call of this thread, for
     * enter(). */
    pthread_mutexattr_init(&checked);
    pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&made->lock, &checked);
    pthread_mutexattr_destroy(&checked);
    made->extension =
        (struct symc_group_extension){.key = &key, .end = end_state};
    return &made->extension;
}

/* Lists a new state in the world's, under the lock, and allocates the memory
 * that it lacks. */
static symmcoll_status_t begin(struct symc_fused_states *states,
    struct symc_fused *fused, struct symmcoll_group *group)
{
    size_t size = (size_t)symc_group_size(group);

    if (fused->all == NULL)
        fused->all = symc_alloc(size, sizeof(*fused->all));
    if (fused->sources == NULL)
        fused->sources = symc_alloc(size, sizeof(*fused->sources));
    if (fused->states == NULL) {
        fused->group = group;
        fused->states = states;
        fused->next = states->first;
        states->first = fused;
    }
    return fused->all != NULL && fused->sources != NULL
               ? SYMMCOLL_OK
               : SYMMCOLL_ERR_NO_MEMORY;
}

/* Returns the state of a group; makes it if there is none. */
static symmcoll_status_t find(
    struct symmcoll_group *group, struct symc_fused **fused)
{
    struct symc_fused_states *states;
    struct symc_fused *found;
    symmcoll_status_t status = SYMMCOLL_OK;

    /* Extensions of a world end in reverse order of creation: this one before
     * symmetric memory. */
    if (symc_symm_of(symc_group_world(group)) == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    states = (struct symc_fused_states *)symc_world_extension(
        symc_group_world(group), &key, make_states);
    if (states == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    found = (struct symc_fused *)symc_group_extension(group, &key, make_state);
    if (found == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    pthread_mutex_lock(&states->lock);
    if (found->all == NULL || found->sources == NULL)
        status = begin(states, found, group);
    pthread_mutex_unlock(&states->lock);
    *fused = found;
    return status;
}

/* Loads the BLAS with the number in rank 0's block, which all ranks have
 * mapped, or in this rank's own block if the world has no other rank. */
static symmcoll_status_t load_agreed(
    struct symc_blas *blas, const struct symmcoll_world *world)
{
    struct symc_block *block = world->peers[0].view.block;

    if (block == NULL)
        block = world->own.block;
    return symc_blas_load_agreed(blas, &block->blas, &world->log);
}

symmcoll_status_t symc_fused_load(struct symc_fused *fused)
{
    struct symc_fused_states *states = fused->states;
    const struct symmcoll_world *world = symc_group_world(fused->group);
    const char *setting = world->config->fused_blas;
    symmcoll_status_t status = SYMMCOLL_OK;

    if (fused->loaded)
        return SYMMCOLL_OK;
    pthread_mutex_lock(&states->lock);
    if (!states->loaded) {
        status = strcmp(setting, "auto") == 0
                     ? load_agreed(&states->blas, world)
                     : symc_blas_load(&states->blas, setting);
        states->loaded = status == SYMMCOLL_OK;
    }
    fused->matmul.blas = states->blas;
    fused->loaded = states->loaded;
    pthread_mutex_unlock(&states->lock);
    return status;
}

#define REFUSAL_RANKS 64 /* ranks of which words fit on the stack */

/* Publishes that this rank cannot go on, like symc_fused_publish(). It has no
 * memory for its state, so the others' words are dropped. Returns status, with
 * its detail. */
static symmcoll_status_t publish_refusal(struct symmcoll_group *group,
    const struct symmcoll_call *call, symmcoll_status_t status)
{
    struct symc_fused_word all[REFUSAL_RANKS], mine = {.status = status};
    struct symc_error error;

    symc_error_keep(&error, status);
    if (symc_group_size(group) <= REFUSAL_RANKS &&
        symc_coll_gather_own(group, all, &mine, sizeof(mine), call, NULL) ==
            SYMMCOLL_ERR_INVALID)
        return SYMMCOLL_ERR_INVALID; /* a timeout or a stream, as the caller's */
    return symc_error_return(&error);
}

/* Enters a call; one at a time in a group. */
static symmcoll_status_t enter(struct symc_fused *fused, const char *name)
{
    struct symc_queue *queue = symc_group_queue(fused->group);

    if (symc_queue_in_callback(queue))
        return symc_callbacks_refuse(name);
    if (pthread_mutex_lock(&fused->lock) == EDEADLK)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected no call in a function that a call of the same group "
            "has called",
            name);
    /* Read once: a rank that published another value than the one it follows
     * would make the other ranks produce their chunks twice. */
    fused->in_plain = atomic_load(&fused->plain) != 0;
    symc_group_set_caller(fused->group, true);
    return SYMMCOLL_OK;
}

/* Reads the options of a call before anything else. The operation's name
 * becomes the label if there is none. */
static symmcoll_status_t read_call(const char *name,
    const struct symmcoll_call *call, struct symmcoll_call *copy)
{
    symmcoll_status_t status =
        symc_sized_read(&symc_call_kind, name, call, copy);

    if (status == SYMMCOLL_OK && copy->label == NULL)
        copy->label = name;
    return status;
}

symmcoll_status_t symc_fused_begin(struct symc_fused_call *begun,
    struct symmcoll_group *group, enum symc_kind kind, const char *name,
    const struct symmcoll_call *call)
{
    symmcoll_status_t status;

    *begun = (struct symc_fused_call){.args = {.name = name}};
    status = read_call(name, call, &begun->options);
    if (status != SYMMCOLL_OK)
        return status;
    if (group == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "%s: expected a group, found NULL", name);
    if (!symc_group_is_usable(group))
        return symc_group_refuse(group, kind);
    symc_group_enter(group);
    begun->cancel = symc_cancel_disable();
    status = find(group, &begun->fused);
    /* The refusal is published in collectives only, which the other ranks call too. */
    if (status == SYMMCOLL_OK)
        status = enter(begun->fused, name);
    else if (kind != SYMC_SYMM_WAIT_VALUE)
        status = publish_refusal(group, &begun->options, status);
    if (status != SYMMCOLL_OK) {
        symc_group_leave(group);
        symc_cancel_restore(begun->cancel);
    }
    return status;
}

symmcoll_status_t symc_fused_end(
    const struct symc_fused_call *begun, symmcoll_status_t status)
{
    struct symmcoll_group *group = begun->fused->group;

    symc_group_set_caller(group, false);
    pthread_mutex_unlock(&begun->fused->lock);
    symc_group_leave(group);
    symc_cancel_restore(begun->cancel);
    return status;
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
    if (plain != 0 && plain != 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "fused_set_plain: expected 0 or 1, found %d", plain);
    if (!symc_group_is_usable(group))
        return symc_group_refuse(group, SYMC_ALL_GATHER);
    status = find(group, &fused);
    if (status == SYMMCOLL_OK)
        atomic_store(&fused->plain, (uint32_t)plain);
    return status;
}
