/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests symmetric memory of the program, with the stand-ins for the driver and
 * for NCCL: it is registered with NCCL, on all members or on none.
 */
#include "t/nccl/windowed.h"

/* Checks the number of registrations of memory without a window. */
static int registered(int n)
{
    int found = atomic_load(&find_nccl()->registered);

    if (found != n)
        diag("expected %d times memory, found %d", n, found);
    return found == n && have(0);
}

static enum use own_expected;

/* Uses memory of the program, until it is no longer symmetric. */
static int use_own(struct symmcoll_group *group, int rank)
{
    struct memory one = {.handle = NULL};
    const int times = own_expected == WINDOW;
    int right;

    one.at = device_alloc(ROOM);
    right = say(symmcoll_symm_register(group->world, one.at, ROOM, NULL) ==
                        SYMMCOLL_OK &&
                    symmcoll_symm_rendezvous(
                        group, one.at, NULL, &one.handle) == SYMMCOLL_OK,
                "registered memory") &&
            registered(0) &&
            every_kind(group, rank, one.at + OUT, one.at, own_expected) &&
            registered(times);
    symmcoll_symm_release(one.handle);
    right = say(symmcoll_symm_deregister(group->world, one.at) == SYMMCOLL_OK,
                "its end") &&
            registered(0) && right;
    device_free(one.at);
    return right;
}

/* Fails the registration on rank 1 only: all ranks use the memory without it,
 * and the others undo theirs. */
static int own_fails(struct symmcoll_group *group, int rank)
{
    begin(rank);
    if (rank == 1)
        atomic_store(&find_nccl()->register_result, SYMC_NCCL_INTERNAL_ERROR);
    return use_own(group, rank);
}

static int own_is_not_wanted(struct symmcoll_group *group, int rank)
{
    begin(rank);
    if (rank == 1)
        atomic_store(&find_nccl()->register_none, 1);
    return use_own(group, rank);
}

/* Checks that the registration ends before the group does. */
static int own_is_closed(struct symmcoll_group *group, int rank)
{
    struct memory one = {.handle = NULL};
    struct symmcoll_group *made = NULL;
    int right;

    begin(rank);
    one.at = device_alloc(ROOM);
    right =
        say(symmcoll_group_split(group, 0, rank, NULL, &made) == SYMMCOLL_OK &&
                symmcoll_symm_register(group->world, one.at, ROOM, NULL) ==
                    SYMMCOLL_OK &&
                symmcoll_symm_rendezvous(made, one.at, NULL, &one.handle) ==
                    SYMMCOLL_OK,
            "registered memory") &&
        collect(made, rank, &kinds[0], one.at + OUT, one.at, WINDOW) &&
        registered(1);
    right = say(symmcoll_group_free(made) == SYMMCOLL_OK, "its end") &&
            registered(0) && right;
    symmcoll_symm_release(one.handle);
    right = say(symmcoll_symm_deregister(group->world, one.at) == SYMMCOLL_OK,
                "that of the memory") &&
            right;
    device_free(one.at);
    return right;
}

static int own_beside(struct symmcoll_group *group, int rank)
{
    struct memory one = {.handle = NULL}, other = {.handle = NULL};
    int right;

    begin(rank);
    right = allocate(group, rank, &one);
    right = right && use_own(group, rank) && allocate(group, rank, &other) &&
            collect(group, rank, &kinds[0], other.at, one.at, WINDOW) &&
            have(2);
    return release(group, &one) && release(group, &other) && right;
}

/* Registers other memory repeatedly. */
static int own_memory(struct symmcoll_group *group, int rank)
{
    struct memory one = {.handle = NULL};
    int right = 1;

    begin(rank);
    for (int i = 0; i < 40 && right; i++)
        right = use_own(group, rank);
    right = right && allocate(group, rank, &one);
    return right &&
           collect(group, rank, &kinds[0], one.at + OUT, one.at, WINDOW) &&
           release(group, &one);
}

/* Uses an NCCL that is too old for windows, or a setting that disables them. */
static int own_is_plain(struct symmcoll_group *group, int rank)
{
    begin(rank);
    return use_own(group, rank);
}

int main(void)
{
    device_begin();
    name_nccl();
    setenv("SYMMCOLL_CUDA_NCCL_MIN", "1000", 1);
    own_expected = PLAIN;
    ok(ranks_run(SIZE, own_is_plain),
        "memory of the program's is not registered unless that is asked for");
    setenv("SYMMCOLL_CUDA_NCCL_WINDOWS", "on", 1);
    name_nccl_of("t/nccl/few");
    ok(ranks_run(SIZE, own_is_plain), "nor with NCCL before 2.28");
    name_nccl();
    own_expected = WINDOW;
    ok(ranks_run(SIZE, own_memory),
        "cuda.nccl_windows: it is registered, until it is symmetric no more");
    ok(ranks_run(SIZE, own_is_closed), "or its group is released");
    ok(ranks_run(SIZE, own_beside),
        "it and memory that has windows are registered beside each other");
    own_expected = PLAIN;
    ok(ranks_run(SIZE, own_fails),
        "where NCCL cannot register it on one rank all use it as it is");
    ok(ranks_run(SIZE, own_is_not_wanted),
        "so they do where NCCL's variables have it register nothing there");
    return done_testing();
}
