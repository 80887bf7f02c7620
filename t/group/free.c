/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the release of groups: running operations end first, works outlive
 * their group, and ranks need not release in the same order.
 */
#include "t/group/groups.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define WORLD 3
#define MANY 300
#define LARGE (1 << 17)

static struct symmcoll_group *further(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group;

    return made(rank,
               symmcoll_group_create(symmcoll_group_world(all), NULL, &group))
               ? group
               : NULL;
}

static symmcoll_status_t start_sum(
    struct symmcoll_group *group, int *x, struct symmcoll_work **work)
{
    return symmcoll_all_reduce(
        group, x, x, 1, SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, work);
}

/* ---- what runs ---- */

static int what_runs_ends_first(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group = further(all, rank);
    struct symmcoll_work *works[8] = {NULL}, *large = NULL;
    float *x = calloc(LARGE, sizeof(*x));
    int numbers[8] = {0}, good = group != NULL && x != NULL;

    for (int i = 0; good && i < 8; i++) {
        numbers[i] = rank + i;
        good = start_sum(group, &numbers[i], &works[i]) == SYMMCOLL_OK;
    }
    good = good && symmcoll_all_reduce(group, x, x, LARGE, SYMMCOLL_FLOAT32,
                       SYMMCOLL_SUM, NULL, &large) == SYMMCOLL_OK;
    good = good && symmcoll_group_free(group) == SYMMCOLL_OK;
    for (int i = 0; good && i < 8; i++) {
        good = symmcoll_work_test(works[i]) == SYMMCOLL_OK &&
               symmcoll_work_wait(works[i], -1) == SYMMCOLL_OK &&
               numbers[i] == 3 + WORLD * i;
        symmcoll_work_free(works[i]);
    }
    good = good && symmcoll_work_wait(large, -1) == SYMMCOLL_OK;
    symmcoll_work_free(large);
    free(x);
    return good;
}

/* Starts an operation on rank 0 only, which no other rank joins. */
static int what_does_not_end_is_canceled(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group = further(all, rank);
    struct symmcoll_work *work = NULL;
    int x = 1, good = group != NULL;

    if (rank == 0) {
        good =
            good && start_sum(group, &x, &work) == SYMMCOLL_OK &&
            groups_said(rank, symmcoll_group_free(group), SYMMCOLL_ERR_TIMEOUT,
                "group_free: after 0.3 s operations of group ") &&
            groups_said(rank, symmcoll_work_wait(work, -1),
                SYMMCOLL_ERR_CANCELED, "operations did not end");
        symmcoll_work_free(work);
        return good && groups_sum(all, rank) == 3;
    }
    good = good && groups_sum(all, rank) == 3;
    return good &&
           groups_said(rank, symmcoll_group_error(group), SYMMCOLL_ERR_CANCELED,
               "operations did not end") &&
           symmcoll_group_free(group) == SYMMCOLL_OK;
}

static int who_is_gone_is_named(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group = further(all, rank);
    int x = 1, good = group != NULL && groups_sum(group, rank) == 3;

    if (rank == 1)
        good = good && symmcoll_group_free(group) == SYMMCOLL_OK;
    else
        good = good &&
               groups_said(rank, start_sum(group, &x, NULL), SYMMCOLL_ERR_PEER,
                   "has released the group, and all_reduce seq 2 of group ") &&
               symmcoll_group_free(group) == SYMMCOLL_OK;
    return good && groups_sum(all, rank) == 3;
}

/* ---- callbacks ---- */

struct seen {
    struct symmcoll_group *group;
    _Atomic int calls;
    symmcoll_status_t status;
};

static void on_end(symmcoll_status_t status, void *arg)
{
    struct seen *seen = arg;

    usleep(100000);
    seen->status =
        status == SYMMCOLL_OK ? symmcoll_group_free(seen->group) : SYMMCOLL_OK;
    seen->calls++;
}

static int callbacks_end_first(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group = further(all, rank);
    struct seen seen = {.group = group};
    struct symmcoll_work *work = NULL;
    int x = 1, good = group != NULL;

    good = good && start_sum(group, &x, &work) == SYMMCOLL_OK &&
           symmcoll_work_then(work, on_end, &seen) == SYMMCOLL_OK &&
           symmcoll_group_free(group) == SYMMCOLL_OK && seen.calls == 1 &&
           seen.status == SYMMCOLL_ERR_INVALID;
    symmcoll_work_free(work);
    return good;
}

/* ---- order of releases, and many groups ---- */

static int any_order_will_do(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *groups[WORLD];
    int good = 1;

    for (int i = 0; i < WORLD; i++) {
        groups[i] = further(all, rank);
        good = good && groups[i] != NULL && groups_sum(groups[i], rank) == 3;
    }
    for (int i = 0; i < WORLD; i++)
        good = symmcoll_group_free(groups[(i + rank) % WORLD]) == SYMMCOLL_OK &&
               good;
    return good && groups_sum(all, rank) == 3;
}

/* Finalizes with used and unused groups, and with operations without a
 * waiter. */
static int finalize_releases_the_rest(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *used = further(all, rank);
    struct symmcoll_group *unused = further(all, rank);
    static const int two[] = {0, 2};
    struct symmcoll_group *some;
    struct symmcoll_work *work = NULL;
    static _Thread_local int x;
    int good;

    good = used != NULL && unused != NULL && groups_sum(used, rank) == 3 &&
           made(rank, groups_create(all, two, 2, &some)) &&
           start_sum(used, &x, &work) == SYMMCOLL_OK;
    symmcoll_work_free(work);
    return good;
}

static int count_descriptors(void)
{
    int count = 0;

    for (int fd = 0; fd < 256; fd++)
        count += dup2(fd, fd) == fd;
    return count;
}

static int nothing_is_left_of_many(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group_info info = SYMMCOLL_GROUP_INFO_INIT;
    float *x = calloc(LARGE, sizeof(*x));
    size_t staging = 0;
    int descriptors = 0, good = x != NULL;

    for (int i = 0; good && i < MANY; i++) {
        struct symmcoll_group *group = further(all, rank);

        good = group != NULL &&
               symmcoll_group_get_info(group, &info) == SYMMCOLL_OK;
        if (i == 10) {
            staging = info.staging;
            descriptors = count_descriptors();
        }
        good = good && (i <= 10 || info.staging == staging) &&
               symmcoll_all_reduce(group, x, x, LARGE, SYMMCOLL_FLOAT32,
                   SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK &&
               symmcoll_group_free(group) == SYMMCOLL_OK;
    }
    free(x);
    if (good && count_descriptors() > descriptors)
        diag("%d descriptors, then %d", descriptors, count_descriptors());
    return good && staging > 0 && count_descriptors() <= descriptors &&
           symmcoll_barrier(all, NULL, NULL) == SYMMCOLL_OK;
}

/* ---- a second world in the same process ---- */

/* The number of ranks past the sums, which a failure would cancel; shared by
 * all ranks. */
static _Atomic int *past;

/* Runs one world with groups from beginning to end; ranks leave it in order,
 * or rank 1 fails it while the others have an operation in flight. */
static bool live_in_a_world(int rank, bool fail)
{
    struct symmcoll_world *world;
    struct symmcoll_group *all, *group;
    bool good;

    if (!made(rank, symmcoll_init(NULL, &world)))
        return false;
    all = symmcoll_world_group(world);
    good = made(rank, groups_create(all, NULL, 0, &group)) &&
           groups_sum(group, rank) == WORLD * (WORLD - 1) / 2 &&
           groups_sum(all, rank) == WORLD * (WORLD - 1) / 2;
    if (fail && rank == 1) {
        while (atomic_load(past) < WORLD - 1)
            usleep(1000);
        symmcoll_group_abort(all, "rank 1 wants no more");
    } else if (fail) {
        atomic_fetch_add(past, 1);
        good = symmcoll_barrier(all, NULL, NULL) < 0 &&
               symmcoll_group_error(all) != SYMMCOLL_OK && good;
    }
    return made(rank, symmcoll_finalize(world)) && good;
}

/* arg: whether the first world fails. */
static int live_twice(int rank, int size, void *arg)
{
    const char *fail = arg;
    bool good = live_in_a_world(rank, *fail == 'y');

    (void)size;
    return live_in_a_world(rank, false) && good ? 0 : 1;
}

static bool all_live_twice(const char *fail)
{
    int statuses[WORLD] = {0};
    bool good =
        ranks_spawn(WORLD, live_twice, (void *)(uintptr_t)fail, statuses);

    for (int r = 0; r < WORLD; r++)
        good = statuses[r] == 0 && good;
    return good;
}

int main(void)
{
    plan(16);
    groups_both(WORLD, what_runs_ends_first,
        "what is queued ends before a group is released, works outlive it "
        "(G36)");
    groups_both(WORLD, who_is_gone_is_named,
        "who needs a rank that has released the group is told so (T25)");
    groups_both(WORLD, callbacks_end_first,
        "callbacks end first, and may not release their own group");
    groups_both(
        WORLD, any_order_will_do, "ranks release groups in any order (G35)");
    groups_both(WORLD, finalize_releases_the_rest,
        "finalize releases what is left (G34, G36)");
    groups_both(WORLD, nothing_is_left_of_many,
        "nothing is left of groups that come and go");
    setenv("SYMMCOLL_TIMEOUTS_FINALIZE", "300ms", 1);
    groups_both(WORLD, what_does_not_end_is_canceled,
        "what does not end is canceled, and said (G37)");
    unsetenv("SYMMCOLL_TIMEOUTS_FINALIZE");
    past = mmap(NULL, sizeof(*past), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ok(all_live_twice("no"),
        "a further world of the same processes has its groups (G41)");
    ok(all_live_twice("yes"), "after a world that has failed too (G41)");
    return done_testing();
}
