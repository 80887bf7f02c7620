/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the cost of a round of the monitor: while no rank has failed a group
 * it reads one counter of each rank, and no group.
 */
#include "group/group.h"
#include "t/ranks.h"
#include "t/tap.h"

#include <symmcoll/collectives.h>

#include <sys/mman.h>
#include <unistd.h>

#define SIZE 2

/* A group in a world's list, with its table of records on a separate page. */
struct listed {
    struct symc_members members;
    struct symc_failure records[SIZE];
    struct symc_failure **table;
};

static bool list(struct listed *listed, struct symmcoll_group *group)
{
    void *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE),
        PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return false;
    listed->table = page;
    for (int r = 0; r < SIZE; r++)
        listed->table[r] = &listed->records[r];
    listed->members = group->runner.members;
    listed->members.failures = page;
    symc_world_add(group->world, &listed->members);
    return true;
}

/* Waits for `rounds` complete rounds after the current one. */
static void await_rounds(struct symmcoll_world *world, uint64_t rounds)
{
    uint64_t before = atomic_load(&world->monitor.beats);

    while (atomic_load(&world->monitor.beats) < before + rounds + 1)
        usleep(1000);
}

static int rounds_read_no_group(struct symmcoll_group *group, int rank)
{
    static struct listed listed;
    size_t nbytes = (size_t)sysconf(_SC_PAGESIZE);

    (void)rank;
    if (!list(&listed, group))
        return 0;
    await_rounds(group->world, 1);
    /* Reading it now crashes. */
    mprotect(listed.table, nbytes, PROT_NONE);
    await_rounds(group->world, 5);
    mprotect(listed.table, nbytes, PROT_READ);
    symc_world_remove(group->world, &listed.members);
    munmap(listed.table, nbytes);
    return symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
}

/* The second rank fails the group; the first makes no call. */
static int a_moved_counter_is_seen(struct symmcoll_group *group, int rank)
{
    if (rank == 1)
        symmcoll_group_abort(group, "enough");
    while (atomic_load(&group->runner.members.stopped) == 0)
        usleep(1000);
    return symmcoll_group_error(group) == SYMMCOLL_ERR_CANCELED;
}

int main(void)
{
    plan(2);
    ok(ranks_run(SIZE, rounds_read_no_group),
        "while no rank has failed a group, a monitor reads no group's records");
    ok(ranks_run(SIZE, a_moved_counter_is_seen),
        "a failure is found by a rank that calls nothing");
    return done_testing();
}
