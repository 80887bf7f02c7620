/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of regions: see region.h.  A region that is no longer used is reused,
 * so that a program that coalesces in every step allocates only in the first.
 */
#include "group/region.h"
#include "base/base.h"
#include "group/group.h"
#include "run/work.h"

#include <stdlib.h>

#define ROOM_FIRST 16

/* Returns whether a thread may still read the arrays after a failure: one that
 * enqueues for a call which has given up. */
static bool is_lost(
    const struct symmcoll_group *group, const struct symc_region *region)
{
    return region->n > 0 && region->first.memory != SYMC_MEMORY_HOST &&
           atomic_load(&group->runner.members.stopped) != 0;
}

/* Returns whether a region can be reused.  Needs the world's lock. */
static bool is_free(
    const struct symmcoll_group *group, struct symc_region *region)
{
    if (region->work != NULL &&
        atomic_load_explicit(&region->work->ended, memory_order_acquire) != 0) {
        symc_work_release(region->work);
        region->work = NULL;
        region->taken = false;
    }
    return !region->taken && !is_lost(group, region);
}

/* Returns an unused region, or NULL without memory.  Needs the world's lock. */
static struct symc_region *take(struct symmcoll_group *group)
{
    struct symc_region *region = group->regions;

    while (region != NULL && !is_free(group, region))
        region = region->next;
    if (region != NULL)
        return region;
    region = symc_alloc(1, sizeof(*region));
    if (region != NULL) {
        region->next = group->regions;
        group->regions = region;
    }
    return region;
}

symmcoll_status_t symc_region_open(struct symmcoll_group *group)
{
    struct symc_region *region;
    symmcoll_status_t status = SYMMCOLL_OK;

    pthread_mutex_lock(&group->world->lock);
    if (atomic_load_explicit(&group->region, memory_order_relaxed) != NULL) {
        status = SYMMCOLL_ERR_INVALID;
    } else if ((region = take(group)) == NULL) {
        status = SYMMCOLL_ERR_NO_MEMORY;
    } else {
        region->taken = true;
        region->owner = pthread_self();
        region->n = 0;
        atomic_store_explicit(&group->region, region, memory_order_release);
    }
    pthread_mutex_unlock(&group->world->lock);
    if (status == SYMMCOLL_ERR_INVALID)
        return symc_fail(status,
            "coalesce_begin: expected no open region of group %s, found one",
            group->name);
    return status;
}

struct symc_region *symc_region_close(struct symmcoll_group *group)
{
    struct symc_region *region =
        atomic_load_explicit(&group->region, memory_order_acquire);

    if (region == NULL || !pthread_equal(region->owner, pthread_self())) {
        symc_fail(SYMMCOLL_ERR_INVALID,
            "coalesce_end: expected an open region of this thread in group %s, "
            "found %s",
            group->name, region == NULL ? "none" : "another thread's");
        return NULL;
    }
    atomic_store_explicit(&group->region, NULL, memory_order_relaxed);
    return region;
}

void symc_region_leave(struct symmcoll_group *group, struct symc_region *region,
    struct symmcoll_work *work)
{
    pthread_mutex_lock(&group->world->lock);
    region->work = work;
    region->taken = work != NULL;
    if (work != NULL)
        symc_work_hold(work);
    pthread_mutex_unlock(&group->world->lock);
}

/* Grows an array to `room` elements. */
static bool grow(void *array, size_t room, size_t each)
{
    void **at = array;
    size_t nbytes;
    void *larger =
        symc_multiply(room, each, &nbytes) ? realloc(*at, nbytes) : NULL;

    if (larger != NULL)
        *at = larger;
    return larger != NULL;
}

symmcoll_status_t symc_region_add(
    struct symc_region *region, const struct symc_op *op)
{
    if (region->n == region->room) {
        size_t room = region->room == 0 ? ROOM_FIRST : 2 * region->room;

        if (!grow(&region->outs, room, sizeof(*region->outs)) ||
            !grow(&region->ins, room, sizeof(*region->ins)) ||
            !grow(&region->counts, room, sizeof(*region->counts)))
            return symc_fail(SYMMCOLL_ERR_NO_MEMORY,
                "%s: no memory to keep %zu calls of a region",
                symc_kind_name(op->kind), room);
        region->room = room;
    }
    /* The kind of memory is known only for buffers with elements. */
    if (region->n == 0 || region->first.count == 0)
        region->first = *op;
    region->outs[region->n] = op->out;
    region->ins[region->n] = op->in;
    region->counts[region->n] = op->count;
    region->n++;
    return SYMMCOLL_OK;
}

void symc_regions_free(struct symmcoll_group *group)
{
    while (group->regions != NULL) {
        struct symc_region *region = group->regions;

        group->regions = region->next;
        if (region->work != NULL)
            symc_work_release(region->work);
        free(region->outs);
        free(region->ins);
        free(region->counts);
        free(region);
    }
}
