/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that use a group without its ticket: waits for signals, and the parts
 * of fused operations between collectives.  The group's release waits for them.
 */
#include "group/group.h"

#include <time.h>

#define LOOK_NS (SYMC_NS_PER_S / 1000)

void symc_group_enter(struct symmcoll_group *group)
{
    atomic_fetch_add(&group->calls, 1);
}

void symc_group_leave(struct symmcoll_group *group)
{
    atomic_fetch_sub(&group->calls, 1);
}

void symc_group_set_caller(struct symmcoll_group *group, bool calls)
{
    atomic_store(&group->caller, calls ? pthread_self() : 0);
}

bool symc_group_is_caller(struct symmcoll_group *group)
{
    pthread_t caller = atomic_load(&group->caller);

    return caller != 0 && pthread_equal(caller, pthread_self());
}

struct symmcoll_group *symc_group_find_caller(struct symmcoll_world *world)
{
    struct symmcoll_group *at;

    pthread_mutex_lock(&world->lock);
    at = world->groups;
    while (at != NULL && !symc_group_is_caller(at))
        at = at->next;
    pthread_mutex_unlock(&world->lock);
    return at;
}

bool symc_group_drain_calls(struct symmcoll_group *group, int64_t deadline_ns)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};

    while (atomic_load(&group->calls) > 0) {
        if (symc_now_ns() >= deadline_ns)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}
