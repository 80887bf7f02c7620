/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests ranks in a context created by the program: NCCL launches in the
 * primary context of each device, so all members do without it.
 */
#include "t/nccl/by.h"
#include "t/nccl/exchanged.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define INT32 SYMMCOLL_INT32
#define OWN 1 /* the rank with its own context */

static const struct collective sum = {
    .kind = SYMC_ALL_REDUCE, .dtype = INT32, .count = ELEMENTS};
static const struct collective gather = {
    .kind = SYMC_ALL_GATHER, .dtype = F32, .count = 3 * ELEMENTS};

/* Creates a new context of the device and makes it current. */
static void use_own(int rank)
{
    CUcontext own = NULL;

    if (cuInit(0) != CUDA_SUCCESS ||
        cuCtxCreate(&own, NULL, 0, rank) != CUDA_SUCCESS)
        abort();
}

static int does_without(struct symmcoll_group *group)
{
    return exchanges_without(group, SYMMCOLL_ERR_UNSUPPORTED,
        "expected each rank in the primary context of its device, in which alone "
        "NCCL runs; found rank 1 in a context that is not its device's primary "
        "one");
}

static bool before, second;

/* Checks that the group does without NCCL, whichever operation comes first. */
static int goes_without(struct symmcoll_group *group, int rank)
{
    int right = 1;

    if (rank == OWN || (second && rank == SIZE - 1))
        use_own(rank);
    else
        device_use(rank);
    if (before)
        right = does_without(group);
    right = right_by(group, rank, &sum, false) &&
            right_by(group, rank, &gather, false) && does_without(group) &&
            right_by(group, rank, &sum, false) && right;
    return say(atomic_load(&find_nccl()->drawn) == 0,
               "no communicator is made") &&
           right;
}

static int in_the_primary_one(struct symmcoll_group *group, int rank)
{
    device_use(rank);
    return right_by(group, rank, &sum, true) &&
           say(exchange(group) == SYMMCOLL_OK, "an exchange");
}

/* Checks that an unusable split communicator is ended before the group. */
static int a_part_goes_without(struct symmcoll_group *group, int rank)
{
    const struct fake_nccl *fake = find_nccl();
    struct symmcoll_group *part = NULL;
    int right;

    device_use(rank);
    right =
        say(exchange(group) == SYMMCOLL_OK, "an exchange of all") &&
        say(symmcoll_group_split(group, 0, rank, NULL, &part) == SYMMCOLL_OK,
            "a part") &&
        say(atomic_load(&fake->split) == 1, "it is split");
    if (rank == OWN)
        use_own(rank);
    right = right && does_without(part);
    for (int i = 0; i < 20000 && atomic_load(&fake->live) != 1; i++)
        usleep(500);
    right = say(atomic_load(&fake->live) == 1, "what was split is ended") &&
            right_by(part, rank, &sum, false) && right;
    device_use(rank);
    right = say(exchange(group) == SYMMCOLL_OK, "another one of all") && right;
    atexit(check_nccl);
    return symmcoll_group_free(part) == SYMMCOLL_OK && right;
}

static bool everywhere; /* on all ranks */

/* A window belongs to the context in which NCCL is called. Memory of another
 * context on one rank, or on all, is in no window on any rank. */
static int memory_is_in_no_window(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    int right, counted;

    args.device = SYMMCOLL_CUDA;
    args.device_index = device_use(rank);
    right = say(exchange(group) == SYMMCOLL_OK, "an exchange");
    if (rank == OWN || everywhere)
        use_own(rank);
    right =
        say(symmcoll_symm_alloc(world, 2 * MIN, &args, &data) == SYMMCOLL_OK,
            "memory") &&
        right;
    device_use(rank);
    counted = enqueued();
    right =
        say(symmcoll_symm_rendezvous(group, data, NULL, &handle) == SYMMCOLL_OK,
            "joined") &&
        say(symmcoll_all_reduce(group, data, data, ELEMENTS, INT32, SUM, NULL,
                NULL) == SYMMCOLL_OK,
            "a sum") &&
        was_by(counted, true, "a sum") &&
        say(atomic_load(&find_nccl()->windows) == 0, "no window") &&
        say(atomic_load(&find_nccl()->registered) == 0,
            "nor is it registered") &&
        right;
    device_wait(NULL);
    symmcoll_symm_release(handle);
    return say(symmcoll_symm_free(world, data) == SYMMCOLL_OK, "its end") &&
           right;
}

int main(void)
{
    device_begin();
    name_nccl();
    setenv("SYMMCOLL_CUDA_NCCL_MIN", "1000", 1);
    on_both(SIZE, in_the_primary_one,
        "NCCL serves ranks in the primary contexts of their devices");
    on_both(SIZE, goes_without,
        "where one is in another all go without, for that reason");
    before = second = true;
    on_both(SIZE, goes_without, "where two are the first one is named");
    setenv("SYMMCOLL_CUDA_NCCL_WINDOWS", "on", 1);
    on_both(SIZE, goes_without, "so it is with windows");
    ok(ranks_run(SIZE, memory_is_in_no_window),
        "memory of another context is in no window");
    everywhere = true;
    ok(ranks_run(SIZE, memory_is_in_no_window),
        "nor is it where all ranks have such memory");
    unsetenv("SYMMCOLL_CUDA_NCCL_WINDOWS");
    setenv("SYMMCOLL_CUDA_NCCL_SPLIT", "on", 1);
    ok(ranks_run(SIZE, a_part_goes_without),
        "a group that is split off another goes without by itself");
    return done_testing();
}
