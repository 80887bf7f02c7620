/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers for tests of operations that run on the fake module's memory. */
#ifndef T_BACKEND_RUNNING_H
#define T_BACKEND_RUNNING_H

#include "modules.h"

#include "group/group.h"
#include "run/work.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>

/* Returns the options of an operation that completes at a turn. */
static inline struct symmcoll_call label_of(int turn)
{
    static const char *const labels[] = {
        "0", "1", "2", "3", "4", "5", "6", "7", "8"};
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.label = labels[turn];
    return call;
}

/* Opens the backend on all ranks, and waits until the opening operation has
 * ended. */
static inline int opened(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *work = NULL;
    int right =
        say(sum_device(group, device(rank), rank, &work) == SYMMCOLL_OK &&
                symmcoll_work_wait(work, 60) == SYMMCOLL_OK,
            "the first");

    symmcoll_work_free(work);
    return right && say(sum_host(group, rank) == SYMMCOLL_OK, "host after it");
}

static inline symmcoll_status_t submit(struct symmcoll_group *group, float *at,
    int rank, int turn, struct symmcoll_work **work)
{
    struct symmcoll_call call = label_of(turn);

    at[0] = (float)rank + 1;
    at[1] = 0;
    return symmcoll_all_reduce(group, at + 1, at, 1, F32, SUM, &call, work);
}

/* Waits until exactly `count` operations run on this rank. False: the group
 * has failed. */
static inline int all_run(struct symmcoll_group *group, int count)
{
    while (atomic_load(&group->runner.queue->nrunning) < (uint32_t)count &&
           symmcoll_group_error(group) == SYMMCOLL_OK)
        sched_yield();
    return say(atomic_load(&group->runner.queue->nrunning) == (uint32_t)count,
        "how many run");
}

/* Waits until no operation runs. */
static inline int none_runs(struct symmcoll_group *group)
{
    while (atomic_load(&group->runner.queue->nrunning) > 0)
        sched_yield();
    return 1;
}

/* Sets the next turn after all ranks have called. Threads share one. */
static inline int take_turn(struct symmcoll_group *group, int rank, int turn)
{
    if (sum_host(group, rank) != SYMMCOLL_OK)
        return say(0, "before a turn");
    atomic_store(&control()->turn, turn);
    return say(sum_host(group, rank) == SYMMCOLL_OK, "after a turn");
}

/* Checks, after all ranks have called, that no mark remains and that no rule
 * was broken. */
static inline int all_is_given_back(struct symmcoll_group *group, int rank)
{
    return say(sum_host(group, rank) == SYMMCOLL_OK, "before a look") &&
           say(atomic_load(&control()->marks) == 0, "no mark is left") &&
           say(atomic_load(&control()->strange) == 0, "no rule was broken") &&
           say(sum_host(group, rank) == SYMMCOLL_OK, "after a look");
}

#endif
