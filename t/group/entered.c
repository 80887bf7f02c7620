/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that joining and creating groups synchronise: no rank returns before
 * all have called. The other ranks call after rank 0, and after a short delay.
 */
#include "t/group/groups.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#define WORLD 3
#define LATER 2000 /* yields */

/* Shared by ranks that are processes or threads. */
static struct {
    atomic_int called;   /* ranks */
    atomic_int returned; /* before all had called */
} * shared;

static void call_late(int rank)
{
    while (rank != 0 && atomic_load(&shared->called) == 0)
        sched_yield();
    for (int i = 0; rank != 0 && i < LATER; i++)
        sched_yield();
    atomic_fetch_add(&shared->called, 1);
}

static int all_have_called(int size)
{
    return atomic_load(&shared->called) == size;
}

static void begin(void)
{
    atomic_store(&shared->called, 0);
}

static int join(int rank, int size, void *arg)
{
    struct symmcoll_world *world = NULL;
    int good;

    (void)arg;
    ranks_environment_rank(rank, size);
    call_late(rank);
    good = made(rank, symmcoll_init(NULL, &world)) && all_have_called(size);
    return good && symmcoll_finalize(world) == SYMMCOLL_OK ? 0 : 1;
}

static int make_group(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group;
    int good;

    call_late(rank);
    good = made(rank, groups_create(all, NULL, 0, &group)) &&
           all_have_called(WORLD);
    return good && symmcoll_group_free(group) == SYMMCOLL_OK;
}

static int make_locally(struct symmcoll_group *all, int rank)
{
    static const int ranks[] = {0, 2};
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *group;
    int good;

    if (rank == 1)
        return 1;
    args.ranks = ranks;
    args.nranks = 2;
    args.flags = SYMMCOLL_GROUP_LOCAL;
    call_late(rank);
    good = made(rank, symmcoll_group_create(
                          symmcoll_group_world(all), &args, &group)) &&
           all_have_called(2);
    return good && symmcoll_group_free(group) == SYMMCOLL_OK;
}

/* ---- resources that exist afterwards ---- */

/* Starts an operation with a work on the world's group and on a new one: both
 * have everything that small operations need. */
static int small_ones_are_served(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group;
    struct symmcoll_work *works[2] = {NULL, NULL};
    int sum = 0, sent = rank == 0 ? 77 : 0;
    int good = made(rank, symmcoll_all_reduce(all, &sum, &rank, 1,
                              SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, &works[0])) &&
               made(rank, groups_create(all, NULL, 0, &group)) &&
               made(rank, symmcoll_broadcast(group, &sent, 1, SYMMCOLL_INT32, 0,
                              NULL, &works[1])) &&
               made(rank, symmcoll_work_wait(works[1], 60)) &&
               made(rank, symmcoll_work_wait(works[0], 60)) && sum == 3 &&
               sent == 77;

    symmcoll_work_free(works[0]);
    symmcoll_work_free(works[1]);
    return good && symmcoll_group_free(group) == SYMMCOLL_OK;
}

/* Runs a large operation: the first one of a group allocates staging memory. */
static int a_large_one_makes_its_memory(struct symmcoll_group *all, int rank)
{
    const size_t count = (size_t)1 << 20;
    struct symmcoll_group *group = NULL;
    struct symmcoll_work *work = NULL;
    float *x = malloc(count * sizeof(*x));
    int good = x != NULL && made(rank, groups_create(all, NULL, 0, &group));

    for (size_t i = 0; good && i < count; i++)
        x[i] = (float)((int)(i % 64) + rank);
    good = good &&
           made(rank, symmcoll_all_reduce(group, x, x, count, SYMMCOLL_FLOAT32,
                          SYMMCOLL_SUM, NULL, &work)) &&
           made(rank, symmcoll_work_wait(work, 60));
    for (size_t i = 0; good && i < count; i++)
        good = (int)x[i] == 3 * (int)(i % 64) + 3;
    symmcoll_work_free(work);
    free(x);
    return good && symmcoll_group_free(group) == SYMMCOLL_OK;
}

int main(void)
{
    int statuses[WORLD], joined = 1;

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        skip_all("no memory to share");
    plan(9);
    joined = ranks_spawn(WORLD, join, NULL, statuses);
    for (int r = 0; r < WORLD; r++)
        joined = joined && statuses[r] == 0;
    ok(joined, "init returns when all ranks have called it (G4)");
    begin();
    ok(ranks_run(WORLD, make_group),
        "and so does making a group (G4, processes)");
    begin();
    ok(threads_run(WORLD, make_group),
        "and so does making a group (G4, threads)");
    begin();
    ok(ranks_run(WORLD, make_locally),
        "with local synchronisation, when its members have (G4, processes)");
    begin();
    ok(threads_run(WORLD, make_locally),
        "with local synchronisation, when its members have (G4, threads)");
    groups_both(WORLD, small_ones_are_served,
        "what is not waited for is served by a new world and a new group (G5)");
    groups_both(WORLD, a_large_one_makes_its_memory,
        "the first large operation makes its memory, unwaited for too (G6)");
    return done_testing();
}
