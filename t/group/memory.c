/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a rank without memory for a call that creates groups, at each of its
 * allocations: the others get the error at once, and all may continue. The
 * linker makes all allocations of the library call the wrapper here.
 */
#include "t/group/groups.h"
#include "t/world/faults.h"

#include <stdlib.h>

#define SIZE 3
#define POOR 1
#define MOST 64 /* allocations of one call */

void *__real_symc_alloc(size_t count, size_t size);
void *__wrap_symc_alloc(size_t count, size_t size);

/* The number of this thread's next allocations that succeed; -1: all. */
static _Thread_local int left = -1;

void *__wrap_symc_alloc(size_t count, size_t size)
{
    if (left == 0)
        return __real_symc_alloc(SIZE_MAX, 2);
    if (left > 0)
        left--;
    return __real_symc_alloc(count, size);
}

typedef symmcoll_status_t (*call_fn)(
    struct symmcoll_group *all, struct symmcoll_group **group);

static symmcoll_status_t create(
    struct symmcoll_group *all, struct symmcoll_group **group)
{
    return groups_create(all, NULL, 0, group);
}

static symmcoll_status_t create_tagged(
    struct symmcoll_group *all, struct symmcoll_group **group)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;

    args.tag = "blue";
    return symmcoll_group_create(symmcoll_group_world(all), &args, group);
}

static symmcoll_status_t create_local(
    struct symmcoll_group *all, struct symmcoll_group **group)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;

    args.flags = SYMMCOLL_GROUP_LOCAL;
    args.timeout = 60;
    return symmcoll_group_create(symmcoll_group_world(all), &args, group);
}

static symmcoll_status_t create_tagged_local(
    struct symmcoll_group *all, struct symmcoll_group **group)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;

    args.flags = SYMMCOLL_GROUP_LOCAL;
    args.timeout = 60;
    args.tag = "green";
    return symmcoll_group_create(symmcoll_group_world(all), &args, group);
}

static symmcoll_status_t split(
    struct symmcoll_group *all, struct symmcoll_group **group)
{
    return symmcoll_group_split(all, 0, 0, NULL, group);
}

static symmcoll_status_t split_lists(
    struct symmcoll_group *all, struct symmcoll_group **group)
{
    static const int ranks[] = {0, 1, 2}, sizes[] = {SIZE};
    static const struct symmcoll_lists lists = {ranks, sizes, 1};

    return symmcoll_group_split_lists(all, &lists, NULL, group, NULL);
}

static symmcoll_status_t split_runs(
    struct symmcoll_group *all, struct symmcoll_group **group)
{
    return symmcoll_group_split_runs(all, SIZE, NULL, group, NULL);
}

static symmcoll_status_t shrink(
    struct symmcoll_group *all, struct symmcoll_group **group)
{
    struct symmcoll_shrink_args args = SYMMCOLL_SHRINK_ARGS_INIT;

    args.timeout = 60;
    return symmcoll_group_shrink(all, &args, group, NULL);
}

/* Makes one call more than the poor rank has allocations, so that the last one
 * succeeds. Reaching it shows that no other rank blocked. */
static bool outlive(call_fn call, struct symmcoll_group *all,
    struct symmcoll_group *other, int rank)
{
    for (int succeed = 0; succeed < MOST; succeed++) {
        struct symmcoll_group *group = NULL;
        double before = faults_now();
        symmcoll_status_t status;

        left = rank == POOR ? succeed : -1;
        status = call(other, &group);
        left = -1;
        if (status == SYMMCOLL_OK)
            return groups_sum(group, rank) == 3 &&
                   symmcoll_group_free(group) == SYMMCOLL_OK && succeed > 0;
        if (!groups_said(rank, status, SYMMCOLL_ERR_NO_MEMORY,
                rank == POOR ? "memory" : "rank 1") ||
            faults_now() - before > 10)
            return false;
        if (symmcoll_barrier(all, NULL, NULL) != SYMMCOLL_OK)
            return false;
    }
    diag("rank %d: more than %d allocations", rank, MOST);
    return false;
}

static int nobody_waits_for_the_poor(struct symmcoll_group *all, int rank)
{
    static const call_fn calls[] = {create, create_tagged, create_local,
        create_tagged_local, split, split_lists, split_runs};

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (!outlive(calls[i], all, all, rank)) {
            diag("rank %d: call %zu", rank, i);
            return 0;
        }
    return 1;
}

static int nor_to_shrink(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *old;

    return made(rank, create(all, &old)) && outlive(shrink, all, old, rank) &&
           symmcoll_group_free(old) == SYMMCOLL_OK;
}

int main(void)
{
    setenv("SYMMCOLL_TRACE_DUMP_ON_ERROR", "off", 1);
    plan(4);
    groups_both(SIZE, nobody_waits_for_the_poor,
        "who has no memory to make a group is named to all, at once");
    groups_both(
        SIZE, nor_to_shrink, "who has no memory to shrink one is named, too");
    return done_testing();
}
