/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests threads that share a device, one of which does not arrive or has a
 * blocked stream, while kernels of the others wait: all get an error, and
 * every stream ends.
 */
#include "t/gpu/ranks.h"
#include "t/gpu/standing.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WAIT_MAX 60.0
#define ABSENT 2.0 /* seconds for a call: all but the victim arrive sooner */

static _Atomic int told; /* ranks but the victim, in this process */

static bool is_victim(const struct symmcoll_group *group, int rank)
{
    return rank == symmcoll_group_size(group) - 1;
}

static void await_all_told(const struct symmcoll_group *group)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    while (atomic_load(&told) < symmcoll_group_size(group) - 1)
        nanosleep(&pause, NULL);
}

/* Checks a status, and the texts in its detail. */
static int was_told(symmcoll_status_t found, symmcoll_status_t expected,
    const char *text, int victim)
{
    char name[32] = "";

    if (victim >= 0)
        (void)snprintf(name, sizeof(name), "rank %d", victim);
    atomic_fetch_add(&told, 1);
    return ended(found, expected, text) && ended(found, expected, name);
}

/* The victim never calls: nothing is started on the device. */
static int never_calls(struct symmcoll_group *group, int rank)
{
    const int victim = symmcoll_group_size(group) - 1;
    struct standing standing;
    int right = standing_begin(&standing, group, rank);

    if (rank == victim)
        await_all_told(group);
    else
        right = was_told(standing_sum(group, &standing, ABSENT, NULL),
                    SYMMCOLL_ERR_TIMEOUT, "did not come", victim) &&
                right;
    standing_end(&standing);
    return right;
}

/* Wait on the host; then the stream ends, too. */
static int await(struct symmcoll_work *work, symmcoll_status_t expected,
    const char *text, int victim)
{
    const int right =
        was_told(symmcoll_work_wait(work, WAIT_MAX), expected, text, victim);

    symmcoll_work_free(work);
    return right;
}

static int stands_still(struct symmcoll_group *group, int rank)
{
    const int victim = symmcoll_group_size(group) - 1;
    struct symmcoll_work *work = NULL;
    struct standing standing;
    int right = standing_begin(&standing, group, rank);

    if (rank == victim)
        standing_stall(&standing);
    right = say(standing_sum(group, &standing, standing_deadline(), &work) ==
                    SYMMCOLL_OK,
                "the call") &&
            right;
    if (rank == victim) {
        await_all_told(group);
        standing_resume(&standing);
        /* If the others had sent everything, the sum is right, too. */
        right =
            symmcoll_work_wait(work, WAIT_MAX) != SYMMCOLL_IN_PROGRESS && right;
        symmcoll_work_free(work);
    } else {
        right =
            await(work, SYMMCOLL_ERR_TIMEOUT, "did not come", victim) && right;
    }
    standing_end(&standing);
    return right;
}

/* Returns whether the work ended; if all data had arrived, the sum is
 * complete. */
static int ends(struct symmcoll_work *work)
{
    const symmcoll_status_t status = symmcoll_work_wait(work, WAIT_MAX);

    symmcoll_work_free(work);
    return status == SYMMCOLL_OK ||
           ended(status, SYMMCOLL_ERR_CANCELED, "enough");
}

/* Rank 0 aborts while all wait; a rank that calls later gets another error.
 * Ranks are threads of a new process. */
static int is_aborted(struct symmcoll_group *group, int rank)
{
    static atomic_int called;
    const struct timespec pause = {.tv_nsec = 100000000};
    struct symmcoll_work *work = NULL;
    struct standing standing;
    int right = standing_begin(&standing, group, rank);

    if (is_victim(group, rank))
        standing_stall(&standing);
    right = say(standing_sum(group, &standing, -1, &work) == SYMMCOLL_OK,
                "the call") &&
            right;
    atomic_fetch_add(&called, 1);
    if (rank == 0) {
        while (atomic_load(&called) < symmcoll_group_size(group))
            nanosleep(&pause, NULL);
        nanosleep(&pause, NULL);
        symmcoll_group_abort(group, "enough");
    }
    if (is_victim(group, rank)) {
        await_all_told(group);
        standing_resume(&standing);
    }
    right = (is_victim(group, rank)
                    ? ends(work)
                    : await(work, SYMMCOLL_ERR_CANCELED, "enough", -1)) &&
            right;
    standing_end(&standing);
    return right;
}

/* With more ranks some have streams in the same queue of the device, so that a
 * blocked stream also blocks another rank, which is then named, too. */
#define STANDING_MOST 4

static void test_standing(int n)
{
    if (n > STANDING_MOST)
        skip(1, "%d ranks have more streams than a device has queues", n);
    else
        on_threads(n, stands_still,
            "a rank whose stream stands still: the deadline of the kernels that "
            "wait names it, and streams end");
}

int main(void)
{
    gpu_begin(300);
    /* On the host the many threads of a kernel take long to see a deadline. */
    if (gpu_is_rehearsal()) {
        setenv("SYMMCOLL_CUDA_STAGING", "4KiB", 1);
        setenv("SYMMCOLL_CUDA_PACKETS_MAX", "64", 1);
        setenv("SYMMCOLL_CUDA_BLOCKS", "2", 1);
    }
    for (int n = 2; n <= gpu_choose(8, 8, 2); n *= 2) {
        on_threads(n, never_calls,
            "a rank that never calls: a timeout names it, and streams end");
        test_standing(n);
        on_threads(n, is_aborted,
            "a group that is aborted: the kernels that wait end");
    }
    return done_testing();
}
