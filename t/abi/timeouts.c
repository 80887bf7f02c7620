/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the rule for every timeout of the public interface: negative is the
 * setting, 0 does not block, any positive time expires, INFINITY waits
 * forever, and NaN is refused.
 */
#include <symmcoll.h>

#include "t/attempts.h"
#include "t/published.h"
#include "t/ranks.h"
#include "t/tap.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define TINY 1e-12 /* seconds: less than any clock's resolution */

/* The progress of ranks that are threads. */
static _Atomic int step;

static void await_step(int wanted)
{
    while (atomic_load(&step) < wanted)
        sched_yield();
}

static int says(
    symmcoll_status_t status, symmcoll_status_t expected, const char *what)
{
    return status == expected && strstr(symmcoll_last_error(), what) != NULL;
}

/* Waits without a call until the other rank has failed the group. */
static int see_failure(struct symmcoll_group *group)
{
    while (symmcoll_group_error(group) == SYMMCOLL_OK)
        sched_yield();
    return 1;
}

/* ---- an operation's ---- */

static symmcoll_status_t meet(
    struct symmcoll_group *group, double timeout, struct symmcoll_work **work)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.timeout = timeout;
    return symmcoll_barrier(group, &call, work);
}

static int calls_wait(struct symmcoll_group *group, int rank)
{
    (void)rank;
    return meet(group, -1, NULL) == SYMMCOLL_OK &&
           meet(group, -INFINITY, NULL) == SYMMCOLL_OK &&
           meet(group, INFINITY, NULL) == SYMMCOLL_OK &&
           meet(group, 1e300, NULL) == SYMMCOLL_OK &&
           says(meet(group, NAN, NULL), SYMMCOLL_ERR_INVALID, "NaN");
}

static int call_of_zero(struct symmcoll_group *group, int rank)
{
    return rank == 1
               ? see_failure(group)
               : says(meet(group, 0, NULL), SYMMCOLL_ERR_TIMEOUT, "rank 1");
}

static int call_of_tiny(struct symmcoll_group *group, int rank)
{
    return rank == 1
               ? see_failure(group)
               : says(meet(group, TINY, NULL), SYMMCOLL_ERR_TIMEOUT, "rank 1");
}

/* Checks that a call with timeout 0 succeeds if the others have arrived. */
static int call_of_zero_finds_the_others(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *work = NULL;
    int right;

    right = meet(group, -1, &work) == SYMMCOLL_OK &&
            symmcoll_work_wait(work, -1) == SYMMCOLL_OK;
    symmcoll_work_free(work);
    if (rank == 0)
        return right && await_published(group, 1, group->runner.wire + 1) &&
               meet(group, 0, NULL) == SYMMCOLL_OK;
    work = NULL;
    right = right && meet(group, -1, &work) == SYMMCOLL_OK &&
            symmcoll_work_wait(work, -1) == SYMMCOLL_OK;
    symmcoll_work_free(work);
    return right;
}

/* ---- a group's ---- */

static int groups_wait(struct symmcoll_group *group, int rank)
{
    (void)rank;
    return says(symmcoll_group_set_timeout(group, NAN), SYMMCOLL_ERR_INVALID,
               "NaN") &&
           symmcoll_group_set_timeout(group, INFINITY) == SYMMCOLL_OK &&
           symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK &&
           symmcoll_group_set_timeout(group, 0) == SYMMCOLL_OK &&
           symmcoll_group_set_timeout(group, -1) == SYMMCOLL_OK &&
           symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
}

static int group_of(struct symmcoll_group *group, int rank, double timeout)
{
    return rank == 1
               ? see_failure(group)
               : symmcoll_group_set_timeout(group, timeout) == SYMMCOLL_OK &&
                     says(symmcoll_barrier(group, NULL, NULL),
                         SYMMCOLL_ERR_TIMEOUT, "rank 1");
}

static int group_of_zero(struct symmcoll_group *group, int rank)
{
    return group_of(group, rank, 0);
}

static int group_of_tiny(struct symmcoll_group *group, int rank)
{
    return group_of(group, rank, TINY);
}

/* ---- a work's ---- */

static int works_wait(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *work = NULL;
    int right;

    if (rank == 1) {
        await_step(1);
        return symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK &&
               symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
    }
    right =
        symmcoll_barrier(group, NULL, &work) == SYMMCOLL_OK &&
        says(symmcoll_work_wait(work, 0), SYMMCOLL_ERR_TIMEOUT, "goes on") &&
        says(symmcoll_work_wait(work, TINY), SYMMCOLL_ERR_TIMEOUT, "goes on") &&
        says(symmcoll_work_wait(work, NAN), SYMMCOLL_ERR_INVALID, "NaN");
    atomic_store(&step, 1);
    right = right && symmcoll_work_wait(work, -1) == SYMMCOLL_OK;
    symmcoll_work_free(work);
    right = right && symmcoll_barrier(group, NULL, &work) == SYMMCOLL_OK &&
            symmcoll_work_wait(work, INFINITY) == SYMMCOLL_OK;
    symmcoll_work_free(work);
    return right;
}

static double short_time; /* timeout of an operation */

/* Checks that the two kinds of expiry have one status, and that the work's
 * state distinguishes them. */
static int expiries_differ(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *work = NULL;
    int right;

    if (rank == 1)
        return see_failure(group);
    right = meet(group, short_time, &work) == SYMMCOLL_OK &&
            symmcoll_work_wait(work, TINY) == SYMMCOLL_ERR_TIMEOUT &&
            symmcoll_work_test(work) == SYMMCOLL_IN_PROGRESS &&
            symmcoll_work_error(work)[0] == '\0' &&
            symmcoll_group_error(group) == SYMMCOLL_OK &&
            symmcoll_work_wait(work, INFINITY) == SYMMCOLL_ERR_TIMEOUT &&
            symmcoll_work_test(work) == SYMMCOLL_ERR_TIMEOUT &&
            strstr(symmcoll_work_error(work), "rank 1") != NULL &&
            symmcoll_group_error(group) == SYMMCOLL_ERR_TIMEOUT;
    symmcoll_work_free(work);
    return right;
}

/* Runs with a timeout of the operation that is longer than that of the first
 * wait. */
static bool differ_within(double seconds, void *arg)
{
    (void)arg;
    short_time = seconds;
    return threads_run(2, expiries_differ) && ranks_run(2, expiries_differ);
}

/* ---- joining ---- */

static symmcoll_status_t join(int world_size, double timeout)
{
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    struct symmcoll_world *world;
    symmcoll_status_t status;

    args.world_size = world_size;
    args.timeout = timeout;
    if (symmcoll_store_create_hash(&args.store) != SYMMCOLL_OK)
        return SYMMCOLL_ERR_INTERNAL;
    status = symmcoll_init(&args, &world);
    if (status == SYMMCOLL_OK)
        status = symmcoll_finalize(world);
    symmcoll_store_close(args.store);
    return status;
}

/* ---- a store's ---- */

static void stores_wait(void)
{
    const char *here[] = {"here"}, *gone[] = {"gone"};
    struct symmcoll_store *store;
    void *value;
    size_t nbytes;
    int right = 1;

    if (symmcoll_store_create_hash(&store) != SYMMCOLL_OK ||
        symmcoll_store_set(store, "here", "1", 1) != SYMMCOLL_OK)
        exit(1);
    ok(symmcoll_store_set_timeout(store, 0) == SYMMCOLL_OK &&
            symmcoll_store_get(store, "gone", &value, &nbytes) ==
                SYMMCOLL_ERR_TIMEOUT &&
            symmcoll_store_wait(store, gone, 1, -1) == SYMMCOLL_ERR_TIMEOUT &&
            symmcoll_store_set_timeout(store, TINY) == SYMMCOLL_OK &&
            symmcoll_store_get(store, "gone", &value, &nbytes) ==
                SYMMCOLL_ERR_TIMEOUT,
        "store_set_timeout: 0 and next to nothing do not wait");
    ok(symmcoll_store_set_timeout(store, -1) == SYMMCOLL_OK &&
            symmcoll_store_timeout(store) == 300,
        "store_set_timeout: a negative one is what it was at first");
    ok(symmcoll_store_set_timeout(store, INFINITY) == SYMMCOLL_OK &&
            symmcoll_store_wait(store, here, 1, -1) == SYMMCOLL_OK &&
            says(symmcoll_store_set_timeout(store, NAN), SYMMCOLL_ERR_INVALID,
                "NaN") &&
            isinf(symmcoll_store_timeout(store)),
        "store_set_timeout: INFINITY is one, NaN is not");
    for (int i = 0; i < 2; i++)
        right = right && symmcoll_store_wait(store, gone, 1, i * TINY) ==
                             SYMMCOLL_ERR_TIMEOUT;
    ok(right && symmcoll_store_wait(store, here, 1, INFINITY) == SYMMCOLL_OK &&
            says(symmcoll_store_wait(store, here, 1, NAN), SYMMCOLL_ERR_INVALID,
                "NaN"),
        "store_wait: 0 and next to nothing expire, NaN is refused");
    symmcoll_store_close(store);
}

int main(void)
{
    plan(18);
    ok(threads_run(2, calls_wait),
        "call: negative and infinite ones wait, NaN is refused");
    ok(threads_run(2, call_of_zero), "call: 0 does not wait for a late rank");
    ok(threads_run(2, call_of_tiny), "call: nor does next to nothing");
    ok(threads_run(2, call_of_zero_finds_the_others),
        "call: 0 is enough where the others are there");
    ok(threads_run(2, groups_wait),
        "group_set_timeout: negative is as at first, NaN is refused");
    ok(threads_run(2, group_of_zero), "group_set_timeout: 0 does not wait");
    ok(threads_run(2, group_of_tiny),
        "group_set_timeout: nor does next to nothing");
    ok(threads_run(2, works_wait),
        "work_wait: 0 and next to nothing expire, others wait, NaN is refused");
    ok(attempts_hold(differ_within, 0.2, NULL),
        "work_wait: the work tells a wait's expiry from the operation's");
    ok(join(1, -1) == SYMMCOLL_OK, "init: negative is the settings'");
    ok(join(1, 0) == SYMMCOLL_OK, "init: 0 is enough for a rank alone");
    ok(join(1, INFINITY) == SYMMCOLL_OK, "init: a rank may wait for ever");
    ok(join(2, 0) == SYMMCOLL_ERR_TIMEOUT &&
            join(2, TINY) == SYMMCOLL_ERR_TIMEOUT,
        "init: 0 and next to nothing do not wait for the others");
    ok(says(join(1, NAN), SYMMCOLL_ERR_INVALID, "NaN"), "init: NaN is refused");
    stores_wait();
    return done_testing();
}
