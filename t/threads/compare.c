/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests comparisons with one rank's elements, and callbacks that see their
 * rank's world.
 */
#include "t/ranks.h"
#include "t/tap.h"

#include <symmcoll.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MANY 10000 /* of 8 bytes: more than a call compares at once */

static symmcoll_status_t compare(struct symmcoll_group *group, const void *buf,
    size_t count, int root, int *equal)
{
    *equal = -1;
    return symmcoll_compare(
        group, buf, count, SYMMCOLL_INT64, root, NULL, equal);
}

static int compares(struct symmcoll_group *group, int rank)
{
    int64_t *values = calloc(MANY, sizeof(*values));
    int first = -1, second = -1, third = -1, none = -1, size, good;

    size = symmcoll_group_size(group);
    for (int i = 0; i < MANY; i++)
        values[i] = i;
    good = compare(group, values, MANY, 1, &first) == SYMMCOLL_OK && first == 1;
    values[MANY - 1] += rank; /* the last chunk only */
    good &= compare(group, values, MANY, 0, &second) == SYMMCOLL_OK &&
            second == (rank == 0);
    values[MANY - 1] = MANY - 1;
    values[0] += rank; /* the first chunk only */
    good &= compare(group, values, MANY, size - 1, &third) == SYMMCOLL_OK &&
            third == (rank == size - 1);
    good &= compare(group, NULL, 0, 0, &none) == SYMMCOLL_OK && none == 1;
    good &= values[0] == rank && values[MANY - 1] == MANY - 1; /* read only */
    free(values);
    return good;
}

static int refuses(struct symmcoll_group *group, int rank)
{
    uint64_t before = symmcoll_group_sequence(group);
    int64_t value = 0;
    int equal = 5;

    (void)rank;
    return symmcoll_compare(NULL, &value, 1, SYMMCOLL_INT64, 0, NULL, &equal) ==
               SYMMCOLL_ERR_INVALID &&
           symmcoll_compare(group, NULL, 1, SYMMCOLL_INT64, 0, NULL, &equal) ==
               SYMMCOLL_ERR_INVALID &&
           symmcoll_compare(group, &value, 1, (enum symmcoll_dtype)77, 0, NULL,
               &equal) == SYMMCOLL_ERR_INVALID &&
           compare(group, &value, 1, 99, &equal) == SYMMCOLL_ERR_INVALID &&
           symmcoll_compare(group, &value, 1, SYMMCOLL_INT64, 0, NULL, NULL) ==
               SYMMCOLL_ERR_INVALID &&
           symmcoll_group_sequence(group) == before;
}

/* Passes different numbers of elements: as many chunks or not, and one chunk
 * on one of the ranks. */
static int counts_differ(struct symmcoll_group *group, int rank)
{
    static const size_t pairs[][2] = {
        {5000, 3000}, {100, 5000}, {5000, 5001}, {7000, 2048}, {10, 11}};
    static _Thread_local int64_t values[7000];
    int equal = -1, good = 1;

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        good = symmcoll_compare(group, values, pairs[i][rank], SYMMCOLL_INT64,
                   0, NULL, &equal) == SYMMCOLL_ERR_MISMATCH &&
               equal == -1 && good;
    return symmcoll_compare(group, values, 7000, SYMMCOLL_INT64, 1, NULL,
               &equal) == SYMMCOLL_OK &&
           equal == 1 && good;
}

/* ---- callbacks ---- */

struct seen {
    struct symmcoll_group *group;
    int32_t rank, doubled, sum;
    symmcoll_status_t status;
    struct symmcoll_work *work; /* started by the callback */
    _Atomic int done;
};

/* Starts the sum of the ranks' results on its own rank's group, as a backward
 * would. */
static void continue_there(
    struct symmcoll_work *work, symmcoll_status_t status, void *arg)
{
    struct seen *seen = arg;

    (void)work;
    if (status == SYMMCOLL_OK && seen->rank == symmcoll_group_rank(seen->group))
        status = symmcoll_all_reduce(seen->group, &seen->sum, &seen->doubled, 1,
            SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, &seen->work);
    seen->status = status;
    atomic_store(&seen->done, 1);
}

static int callback_sees_its_rank(struct symmcoll_group *group, int rank)
{
    struct seen seen = {.group = group, .rank = rank, .doubled = 2 * rank};
    struct symmcoll_work *work = NULL;
    int good;

    good = symmcoll_barrier(group, NULL, &work) == SYMMCOLL_OK &&
           symmcoll_work_notify(work, continue_there, &seen) == SYMMCOLL_OK;
    while (good && atomic_load(&seen.done) == 0)
        sched_yield();
    good = good && seen.status == SYMMCOLL_OK &&
           symmcoll_work_wait(seen.work, -1) == SYMMCOLL_OK && seen.sum == 12;
    symmcoll_work_free(seen.work);
    symmcoll_work_free(work);
    return good;
}

/* ---- another thread of the rank ---- */

static void *sum_there(void *arg)
{
    struct seen *seen = arg;

    seen->status = symmcoll_all_reduce(seen->group, &seen->sum, &seen->rank, 1,
        SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, NULL);
    return NULL;
}

static int another_thread_may_use_it(struct symmcoll_group *group, int rank)
{
    struct seen seen = {.group = group, .rank = rank};
    pthread_t thread;

    if (pthread_create(&thread, NULL, sum_there, &seen) != 0)
        return 0;
    pthread_join(thread, NULL);
    return seen.status == SYMMCOLL_OK && seen.sum == 6;
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(4, compares),
        "%s: elements are equal at the rank that is compared with, and where "
        "they are the same (L7)",
        kind);
    ok(run(2, refuses), "%s: wrong arguments are refused, without effect",
        kind);
    ok(run(2, counts_differ),
        "%s: numbers of elements that differ are told (L7)", kind);
    ok(run(4, callback_sees_its_rank),
        "%s: a callback continues on its own rank's group (L9)", kind);
    ok(run(4, another_thread_may_use_it),
        "%s: another thread of a rank may use its group (L8)", kind);
}

int main(void)
{
    plan(10);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    return done_testing();
}
