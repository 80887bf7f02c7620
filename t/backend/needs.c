/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests resources that operations need and the members of a group create
 * together: they are created once, and if one member cannot, all continue
 * without them.
 */
#include "modules.h"

static symmcoll_status_t sum(
    struct symmcoll_group *group, int rank, const char *label, float *all)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_work *work = NULL;
    float *at = device(rank);
    symmcoll_status_t status;

    at[0] = (float)rank + 1;
    call.label = label;
    status = symmcoll_all_reduce(group, at + 1, at, 1, F32, SUM, &call, &work);
    if (status == SYMMCOLL_OK)
        status = symmcoll_work_wait(work, 60);
    symmcoll_work_free(work);
    *all = at[1];
    return status;
}

static int sums(struct symmcoll_group *group, int rank, const char *label)
{
    float all;

    return say(sum(group, rank, label, &all) == SYMMCOLL_OK &&
                   all == expected_sum(group),
        label);
}

/* Checks by how much a counter has grown on each rank; ranks that are threads
 * share one module. */
static int counted(struct symmcoll_group *group, int rank,
    const _Atomic int *counter, int before, int times, const char *what)
{
    int found;

    if (sum_host(group, rank) != SYMMCOLL_OK)
        return say(0, "before a look");
    found = atomic_load(counter) - before;
    return say(sum_host(group, rank) == SYMMCOLL_OK, "after a look") &&
           say(found == times || found == times * symmcoll_group_size(group),
               what);
}

/* Checks how often each rank has tried to create the resource. */
static int tried(struct symmcoll_group *group, int rank, int before, int times)
{
    return counted(group, rank, &control()->prepared, before, times,
        "how often it was tried");
}

static int it_is_made_once(struct symmcoll_group *group, int rank)
{
    int before = atomic_load(&control()->prepared);

    atomic_store(&control()->unprepared, -1);
    return sums(group, rank, "") && tried(group, rank, before, 0) &&
           sums(group, rank, "useful") && sums(group, rank, "useful") &&
           tried(group, rank, before, 1) &&
           atomic_load(&control()->strange) == 0;
}

/* Checks that creation is tried once, even if it could succeed later, and that
 * operations without a use for the resource are not affected. */
static int all_do_without_it(struct symmcoll_group *group, int rank)
{
    int before = atomic_load(&control()->prepared);
    int right;

    atomic_store(&control()->unprepared, 1);
    right = sums(group, rank, "useful") && sums(group, rank, "useful") &&
            tried(group, rank, before, 1);
    atomic_store(&control()->unprepared, -1);
    return right && sums(group, rank, "useful") && sums(group, rank, "") &&
           tried(group, rank, before, 1) &&
           atomic_load(&control()->strange) == 0;
}

/* Makes a member's call invalid: a later call creates the resource, or after
 * several failures it is no longer tried. */
static int a_mistake_passes(struct symmcoll_group *group, int rank)
{
    int before = atomic_load(&control()->prepared),
        forgone = atomic_load(&control()->forgone), right;

    atomic_store(&control()->unprepared_by, SYMMCOLL_ERR_INVALID);
    atomic_store(&control()->unprepared, 1);
    right = sums(group, rank, "useful") && sums(group, rank, "useful") &&
            tried(group, rank, before, 2) &&
            counted(group, rank, &control()->forgone, forgone, 2,
                "how often all have heard of it");
    atomic_store(&control()->unprepared, -1);
    right = right && sums(group, rank, "useful") &&
            sums(group, rank, "useful") && tried(group, rank, before, 3);
    atomic_store(&control()->unprepared_by, SYMMCOLL_ERR_SYSTEM);
    return right && atomic_load(&control()->strange) == 0;
}

static int a_mistake_lasts(struct symmcoll_group *group, int rank)
{
    int before = atomic_load(&control()->prepared), right = 1;

    atomic_store(&control()->unprepared_by, SYMMCOLL_ERR_INVALID);
    atomic_store(&control()->unprepared, 1);
    for (int i = 0; i < 12; i++)
        right = right && sums(group, rank, "useful");
    right = right && tried(group, rank, before, 8);
    atomic_store(&control()->unprepared, -1);
    right =
        right && sums(group, rank, "useful") && tried(group, rank, before, 8);
    atomic_store(&control()->unprepared_by, SYMMCOLL_ERR_SYSTEM);
    return right && atomic_load(&control()->strange) == 0;
}

/* ---- captures ---- */

static int stream, captured_one;

/* Checks that n operations on each rank were marked as captured. */
static int captured(struct symmcoll_group *group, int rank, int before, int n)
{
    int found;

    if (sum_host(group, rank) != SYMMCOLL_OK)
        return say(0, "before a look");
    found = atomic_load(&control()->captured) - before;
    return say(sum_host(group, rank) == SYMMCOLL_OK, "after a look") &&
           say(found == n || found == n * symmcoll_group_size(group),
               "how many are captured");
}

/* Starts sums at different addresses, because none is waited for. */
static int sums_on(struct symmcoll_group *group, float *at, void *on)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    at[0] = 1;
    call.stream = on;
    return say(symmcoll_all_reduce(
                   group, at + 1, at, 1, F32, SUM, &call, NULL) == SYMMCOLL_OK,
        "a sum on a stream");
}

/* Checks that all members see the capture of one, from the first operation on,
 * before the backend is open. */
static int all_know_who_captures(struct symmcoll_group *group, int rank)
{
    int before = atomic_load(&control()->captured);
    float *at = device(rank);

    atomic_store(&control()->capturing, &captured_one);
    return sums_on(group, at, rank == 1 ? &captured_one : &stream) &&
           captured(group, rank, before, 1) &&
           sums_on(group, at + 2, &stream) && sums_on(group, at + 4, NULL) &&
           captured(group, rank, before, 1) &&
           sums_on(group, at + 6, rank == 0 ? &captured_one : NULL) &&
           captured(group, rank, before, 2);
}

int main(void)
{
    use_modules_of_tests();
    on_both(3, it_is_made_once, "what operations need is made once");
    on_both(3, all_do_without_it,
        "where one cannot make what is useful, all do without it");
    on_both(3, a_mistake_passes, "after a mistake of one it is tried again");
    on_both(3, a_mistake_lasts, "some times, and then no more");
    on_both(3, all_know_who_captures, "all know whether a member captures");
    return done_testing();
}
