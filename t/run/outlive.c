/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests works that are tested, waited for and released while their world is
 * finalized and afterwards.
 */
#include "../ranks.h"
#include "../tap.h"

#include <symmcoll.h>

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static symmcoll_status_t sum(
    struct symmcoll_group *group, int64_t *value, struct symmcoll_work **work)
{
    return symmcoll_all_reduce(
        group, value, value, 1, SYMMCOLL_INT64, SYMMCOLL_SUM, NULL, work);
}

/* A thread that tests a work while the world ends. */
struct waiter {
    pthread_t thread;
    struct symmcoll_work *work;
    symmcoll_status_t status;
};

static void *wait_and_free(void *arg)
{
    struct waiter *waiter = arg;

    waiter->status = symmcoll_work_wait(waiter->work, 60);
    symmcoll_work_free(waiter->work);
    return NULL;
}

static bool start_waiter(struct waiter *waiter, struct symmcoll_work *work)
{
    waiter->work = work;
    return pthread_create(&waiter->thread, NULL, wait_and_free, waiter) == 0;
}

static void free_here(symmcoll_status_t status, void *arg)
{
    struct waiter *waiter = arg;

    waiter->status = status;
    symmcoll_work_free(waiter->work);
}

/* Tests one work that succeeded and one that failed, after the end of the
 * world. */
static bool ask_afterwards(
    struct symmcoll_work *good, struct symmcoll_work *bad)
{
    bool right = symmcoll_work_test(good) == SYMMCOLL_OK &&
                 symmcoll_work_wait(good, 0) == SYMMCOLL_OK &&
                 symmcoll_work_wait(good, -1) == SYMMCOLL_OK &&
                 symmcoll_work_sequence(good) == 1 &&
                 symmcoll_work_error(good)[0] == '\0' &&
                 symmcoll_work_wait(bad, 5) == SYMMCOLL_ERR_MISMATCH &&
                 strstr(symmcoll_last_error(), "count differs") != NULL &&
                 symmcoll_work_test(bad) == SYMMCOLL_ERR_MISMATCH &&
                 strstr(symmcoll_work_error(bad), "count differs") != NULL &&
                 symmcoll_work_sequence(bad) == 2;

    if (!right)
        diag("after finalize: %s", symmcoll_last_error());
    return right;
}

static int works_outlive_the_world(int rank, int size, void *arg)
{
    struct symmcoll_world *world;
    struct symmcoll_group *group;
    struct symmcoll_work *good = NULL, *bad = NULL;
    struct waiter called = {.status = SYMMCOLL_IN_PROGRESS}, other;
    int64_t value = 1, values[2] = {1, 1};
    bool right;

    (void)size;
    (void)arg;
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    group = symmcoll_world_group(world);
    right =
        sum(group, &value, &good) == SYMMCOLL_OK &&
        symmcoll_all_reduce(group, values, values, rank == 0 ? 1 : 2,
            SYMMCOLL_INT64, SYMMCOLL_SUM, NULL, &bad) == SYMMCOLL_OK &&
        sum(group, &value, &called.work) == SYMMCOLL_OK &&
        symmcoll_work_then(called.work, free_here, &called) == SYMMCOLL_OK &&
        symmcoll_finalize(world) == SYMMCOLL_OK && called.status == SYMMCOLL_OK;
    right = right && ask_afterwards(good, bad) &&
            symmcoll_work_then(good, free_here, NULL) == SYMMCOLL_ERR_ABORTED &&
            strstr(symmcoll_last_error(), "finalized") != NULL;
    symmcoll_work_free(bad);
    right = right && start_waiter(&other, good) &&
            pthread_join(other.thread, NULL) == 0 &&
            other.status == SYMMCOLL_OK;
    return right ? 0 : 1;
}

/* Rank 1 calls later, so that rank 0's threads wait while it finalizes. */
static int waits_outlive_the_world(int rank, int size, void *arg)
{
    struct symmcoll_world *world;
    struct symmcoll_work *works[8];
    struct waiter waiters[8];
    int64_t values[8] = {0};
    bool right = true;

    (void)size;
    (void)arg;
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    if (rank == 1)
        usleep(100000);
    for (int i = 0; i < 8 && right; i++)
        right = sum(symmcoll_world_group(world), &values[i], &works[i]) ==
                    SYMMCOLL_OK &&
                start_waiter(&waiters[i], works[i]);
    right = right && symmcoll_finalize(world) == SYMMCOLL_OK;
    for (int i = 0; i < 8 && right; i++)
        right = pthread_join(waiters[i].thread, NULL) == 0 &&
                waiters[i].status == SYMMCOLL_OK;
    return right ? 0 : 1;
}

static bool pair_ends_well(raw_rank_fn body)
{
    int statuses[2] = {0};

    return ranks_spawn(2, body, NULL, statuses) && statuses[0] == 0 &&
           statuses[1] == 0;
}

int main(void)
{
    plan(2);
    ok(pair_ends_well(works_outlive_the_world),
        "works are asked and released when their world is gone");
    ok(pair_ends_well(waits_outlive_the_world),
        "a wait that is under way at finalize has the work's status");
    return done_testing();
}
