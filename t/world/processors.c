/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests which processors count when ranks choose how to wait: those that all
 * ranks together may use, not those of the machine.
 */
#include "../ranks.h"
#include "../tap.h"

#include "group/group.h"

#include <symmcoll.h>

#include <sched.h>
#include <unistd.h>

static int shares(struct symmcoll_group *group, int rank)
{
    (void)rank;
    return symmcoll_group_world(group)->origin->waiting.oversubscribed;
}

static int shares_not(struct symmcoll_group *group, int rank)
{
    return !shares(group, rank);
}

/* Restricts this process to the first processors of a set; false: the set is
 * too small. */
static bool allow(const cpu_set_t *all, int count)
{
    cpu_set_t some;

    CPU_ZERO(&some);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&some) < count; cpu++)
        if (CPU_ISSET(cpu, all))
            CPU_SET(cpu, &some);
    return CPU_COUNT(&some) == count &&
           sched_setaffinity(0, sizeof(some), &some) == 0;
}

/* Each rank has counted the other's processor before one ends. */
static int is_bound_apart(int rank, int size, void *arg)
{
    const cpu_set_t *all = arg;
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    struct symmcoll_world *world;
    cpu_set_t own;
    int cpu = 0, right;

    (void)size;
    for (int before = rank; before > 0 || !CPU_ISSET(cpu, all); cpu++)
        before -= CPU_ISSET(cpu, all) != 0;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    if (sched_setaffinity(0, sizeof(own), &own) != 0 ||
        symmcoll_init(&args, &world) != SYMMCOLL_OK)
        return 1;
    right = shares_not(symmcoll_world_group(world), rank) &&
            symmcoll_barrier(symmcoll_world_group(world), NULL, NULL) ==
                SYMMCOLL_OK;
    return symmcoll_finalize(world) == SYMMCOLL_OK && right ? 0 : 1;
}

static bool are_bound_apart(cpu_set_t *all)
{
    int statuses[2] = {0};

    return ranks_spawn(2, is_bound_apart, all, statuses) && statuses[0] == 0 &&
           statuses[1] == 0;
}

int main(void)
{
    cpu_set_t all;

    plan(4);
    if (sched_getaffinity(0, sizeof(all), &all) != 0 || !allow(&all, 1))
        return 1;
    ok(ranks_run(2, shares), "two ranks that may use one processor share it");
    if (allow(&all, 2)) {
        ok(ranks_run(2, shares_not), "two that may use two do not");
        ok(ranks_run(3, shares), "three that may use two do");
        ok(are_bound_apart(&all),
            "two that are bound to one processor each do not, either");
    } else {
        skip(3, "one processor");
    }
    return done_testing();
}
