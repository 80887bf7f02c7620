/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests groups that are split from one that has a communicator of NCCL, with
 * the stand-ins for the driver and for NCCL: their communicator is split from
 * it or created by their members, and either is used.
 */
#include "t/nccl/exchanged.h"
#include "t/nccl/lost.h"
#include "t/nccl/named.h"

#include "group/group.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define SIZE 3

static int exchanges(struct symmcoll_group *group)
{
    return say(exchange(group) == SYMMCOLL_OK, "what was exchanged");
}

/* Checks a counter of this process; threads share one NCCL. */
static int counted(const char *what, int found, int process)
{
    return say(
        found == process || (found > process && found % process == 0), what);
}

static struct symmcoll_group *divide(
    struct symmcoll_group *group, int color, int key)
{
    struct symmcoll_group *child = NULL;

    if (symmcoll_group_split(group, color, key, NULL, &child) != SYMMCOLL_OK)
        diag("split: %s", symmcoll_last_error());
    return child;
}

static bool by_split;

/* Splits into ranks 2 and 0, in this order, and rank 1 alone. */
static int it_is_divided(struct symmcoll_group *group, int rank)
{
    const struct fake_nccl *fake = find_nccl();
    struct symmcoll_group *child;
    int right;

    device_use(rank);
    right = exchanges(group);
    child = divide(group, rank == 1, -rank);
    right = child != NULL && exchanges(child) && exchanges(group) && right;
    if (by_split && rank != 1)
        right =
            counted("they are split", atomic_load(&fake->split), 1) && right;
    else if (by_split)
        right = say(atomic_load(&fake->left_out) == 1, "rank 1 has no color") &&
                right;
    else
        right =
            say(atomic_load(&fake->split) == 0, "nothing is split") && right;
    if (by_split)
        right = say(atomic_load(&fake->begun) == 1 + (rank == 1),
                    "no other is made") &&
                right;
    right = symmcoll_group_free(child) == SYMMCOLL_OK && right;
    atexit(check_nccl);
    return right;
}

/* Splits a communicator that is then not used. */
static int it_is_not_used(struct symmcoll_group *group, int rank)
{
    struct symmcoll_group *child;
    int right;

    device_use(rank);
    right = exchanges(group);
    child = divide(group, 0, rank);
    right = symmcoll_group_free(child) == SYMMCOLL_OK && right;
    atexit(check_nccl);
    return right && exchanges(group);
}

static int in_none(struct symmcoll_group *group, int rank)
{
    struct symmcoll_group *child;
    int right;

    device_use(rank);
    right = exchanges(group);
    child = divide(group, rank == 0 ? -1 : 0, rank);
    right = (rank == 0 ? child == NULL : child != NULL && exchanges(child)) &&
            right;
    if (rank == 0)
        right =
            say(atomic_load(&find_nccl()->left_out) == 1, "no color") && right;
    atexit(check_nccl);
    return symmcoll_group_free(child) == SYMMCOLL_OK && right;
}

/* Waits until communicators have ended by themselves. */
static int none_is_left(const struct fake_nccl *fake)
{
    for (int i = 0; i < 20000 && atomic_load(&fake->live) != 0; i++)
        usleep(500);
    return atomic_load(&fake->live) == 0;
}

static int call_fails, later;

/* Fails the split on rank 1 only: all create their own communicators, also
 * that of the parent. */
static int it_fails(struct symmcoll_group *group, int rank)
{
    struct fake_nccl *fake = find_nccl();
    struct symmcoll_group *child;
    int right;

    device_use(rank);
    right = exchanges(group);
    if (rank == 1) {
        atomic_store(&fake->split_result, call_fails);
        atomic_store(&fake->split_error, later);
    }
    child = divide(group, 0, rank);
    right = say(none_is_left(fake), "nothing is left of it") && right;
    right = child != NULL && exchanges(child) && exchanges(group) && right;
    right = say(atomic_load(&fake->begun) == 3, "they are made anew") && right;
    atexit(check_nccl);
    return symmcoll_group_free(child) == SYMMCOLL_OK && right;
}

/* Sets NCCL's variable for shared resources on rank 1 only. */
static int it_is_shared(struct symmcoll_group *group, int rank)
{
    const struct fake_nccl *fake = find_nccl();
    struct symmcoll_group *child;
    int right;

    device_use(rank);
    if (rank == 1)
        setenv("NCCL_COMM_SPLIT_SHARE_RESOURCES", "1", 1);
    right = exchanges(group);
    child = divide(group, 0, rank);
    right = child != NULL && exchanges(child) && exchanges(group) && right;
    right =
        say(atomic_load(&fake->split) == 0 && atomic_load(&fake->begun) == 2,
            "the new group makes its own") &&
        right;
    atexit(check_nccl);
    return symmcoll_group_free(child) == SYMMCOLL_OK && right;
}

/* Rank 1's part of an exchange does not end, so that no rank's does. */
static int it_is_busy(struct symmcoll_group *group, int rank)
{
    const struct fake_nccl *fake = find_nccl();
    size_t ones[SIZE] = {1, 1, 1};
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_group *child;
    float *at;
    int right;

    device_use(rank);
    right = exchanges(group);
    call.stream = device_stream();
    at = device_alloc(2 * SIZE * sizeof(*at));
    if (rank == 1)
        fake_stall(call.stream);
    right = symmcoll_all_to_all_v(group, at, SIZE, ones, at + SIZE, SIZE, ones,
                F32, &call, NULL) == SYMMCOLL_OK &&
            right;
    child = divide(group, 0, rank);
    right =
        say(atomic_load(&fake->split) == 0 && atomic_load(&fake->begun) == 1,
            "it is left as it is") &&
        right;
    if (rank == 1)
        fake_resume(call.stream);
    device_wait(call.stream);
    right = child != NULL && exchanges(child) && exchanges(group) && right;
    right =
        say(atomic_load(&fake->begun) == 2, "the new group makes its own") &&
        right;
    device_end_stream(call.stream);
    device_free(at);
    atexit(check_nccl);
    return symmcoll_group_free(child) == SYMMCOLL_OK && right;
}

static void *abort_it(void *group)
{
    const struct fake_nccl *fake = find_nccl();

    while (atomic_load(&fake->live) < 2)
        usleep(500);
    symmcoll_group_abort(group, "enough");
    return NULL;
}

/* Aborts during a split that does not end. */
static int it_is_aborted(struct symmcoll_group *group, int rank)
{
    struct fake_nccl *fake = find_nccl();
    struct symmcoll_group *child;
    pthread_t thread = 0;
    int right;

    device_use(rank);
    right = exchanges(group);
    atomic_store(&fake->stuck, 1);
    if (rank == 0 && pthread_create(&thread, NULL, abort_it, group) != 0)
        return 0;
    child = divide(group, 0, rank);
    if (rank == 0)
        pthread_join(thread, NULL);
    atomic_store(&fake->stuck, 0);
    right = say(none_is_left(fake), "nothing is left of it") && right;
    right = child != NULL && exchanges(child) && right;
    atexit(check_nccl);
    return symmcoll_group_free(child) == SYMMCOLL_OK && right;
}

#define HANG 1.5 /* seconds */

/* Checks that a group's communicators stay with it, also that of a failed
 * split; querying NCCL for them would not succeed. */
static int it_stays(struct symmcoll_group *group, int rank)
{
    const struct symmcoll_world *world = group->world;
    struct symmcoll_group *parent, *child;
    int right;

    device_use(rank);
    parent = divide(group, 0, rank);
    right = parent != NULL && exchanges(parent);
    if (rank == 1)
        atomic_store(&find_nccl()->split_result, 5);
    child = divide(parent, 0, rank);
    right =
        symmcoll_group_free(child) == SYMMCOLL_OK && exchanges(parent) && right;
    right = say(world->nccl_comms == 2, "the two are counted") && right;
    right = close_lost(parent) && right;
    right = say(world->nccl_comms == 0, "they are counted no more") && right;
    return right;
}

static int set_timeout(struct symmcoll_group *group, double seconds)
{
    return symmcoll_group_set_timeout(group, seconds) == SYMMCOLL_OK;
}

/* Checks that a split is abandoned after the timeout of the call. */
static int it_hangs(struct symmcoll_group *group, int rank)
{
    struct fake_nccl *fake = find_nccl();
    struct symmcoll_group *child;
    int right;

    device_use(rank);
    right = exchanges(group);
    group->world->config->timeouts_init = SYMC_NS_PER_S;
    right = set_timeout(group, HANG) && right;
    atomic_store(&fake->split_hangs, 1);
    child = divide(group, 0, rank);
    atomic_store(&fake->split_hangs, 0);
    right = child != NULL && set_timeout(group, 60) && set_timeout(child, 60) &&
            right;
    right = say(none_is_left(fake), "nothing is left of it") && right;
    right = exchanges(child) && exchanges(group) && right;
    right = say(atomic_load(&fake->begun) == 3, "they are made anew") && right;
    atexit(check_nccl);
    return symmcoll_group_free(child) == SYMMCOLL_OK && right;
}

int main(void)
{
    device_begin();
    name_nccl();
    on_both(SIZE, it_is_divided, "cuda.nccl_split: off, they are made");
    setenv("SYMMCOLL_CUDA_NCCL_SPLIT", "on", 1);
    by_split = true;
    ok(ranks_run(SIZE, it_is_divided),
        "cuda.nccl_split: communicators are split (3 processes)");
    on_both(SIZE, it_is_not_used, "what was split and not used is ended");
    ok(ranks_run(SIZE, in_none), "a rank without a color is in none");
    call_fails = 5;
    ok(ranks_run(SIZE, it_fails),
        "a split that a rank cannot begin: all make their own");
    call_fails = 0;
    later = 2;
    ok(ranks_run(SIZE, it_fails),
        "one that fails on a rank later: all make their own");
    call_fails = later = 0;
    ok(ranks_run(SIZE, it_is_shared),
        "one that would be aborted with the other is not made");
    ok(ranks_run(SIZE, it_is_busy),
        "one of a group that has something to do is left out");
    ok(ranks_run(SIZE, it_stays),
        "those of a group that is closed after what is lost count no more");
    ok(ranks_run(SIZE, it_hangs),
        "one that does not end is given up: the group and the new one go on");
    ok(ranks_run(SIZE, it_is_aborted),
        "one that is aborted ends with what was made of it, and the new group "
        "makes its own");
    return done_testing();
}
