/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests operations on device memory that are not ended by their device, but by
 * a timeout, a death, an abort, the end of their group or of the world.
 */
#include "await_all.h"
#include "running.h"

#include "t/attempts.h"

#include <sys/wait.h>
#include <unistd.h>

#define SOME 5

static double short_time; /* the timeout */

/* Starts SOME operations that do not complete before the turn. */
static int submit_some(struct symmcoll_group *group, int rank,
    struct symmcoll_work *works[SOME], double timeout)
{
    struct symmcoll_call call = label_of(1);
    float *at = device(rank) + 64;

    call.timeout = timeout;
    for (int i = 0; i < SOME; i++) {
        at[2 * i] = 1;
        if (!say(symmcoll_all_reduce(group, at + 2 * i + 1, at + 2 * i, 1, F32,
                     SUM, &call,
                     works != NULL ? &works[i] : NULL) == SYMMCOLL_OK,
                "one that stays"))
            return 0;
    }
    return all_run(group, SOME);
}

/* Checks that all works have an error: one has the cause, the others follow
 * it. */
static int all_end(struct symmcoll_work *works[SOME], symmcoll_status_t status,
    const char *text)
{
    int first = 0, later = 0;

    for (int i = 0; i < SOME; i++) {
        symmcoll_status_t found = symmcoll_work_wait(works[i], 60);

        first += found == status;
        later += found == SYMMCOLL_ERR_ABORTED;
        if (strstr(symmcoll_last_error(), text) == NULL ||
            strstr(symmcoll_last_error(), "owns") != NULL)
            return say(0, text);
        symmcoll_work_free(works[i]);
    }
    return say(first <= 1 && first + later == SOME, "their ends");
}

/* Waits for the group's failure, without a waiting thread. */
static int group_fails(
    struct symmcoll_group *group, symmcoll_status_t status, const char *text)
{
    while (symmcoll_group_error(group) == SYMMCOLL_OK)
        sched_yield();
    return ended(symmcoll_group_error(group), status, text) &&
           none_runs(group) &&
           say(atomic_load(&control()->strange) == 0, "no rule broken");
}

/* ---- deadlines ---- */

static int deadline_of_works(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *works[SOME];

    return opened(group, rank) && submit_some(group, rank, works, short_time) &&
           all_end(works, SYMMCOLL_ERR_TIMEOUT, "timed out") &&
           none_runs(group);
}

static int deadline_of_calls(struct symmcoll_group *group, int rank)
{
    return opened(group, rank) && submit_some(group, rank, NULL, short_time) &&
           group_fails(group, SYMMCOLL_ERR_TIMEOUT, "has not completed it");
}

struct dated {
    int (*run)(int n, rank_fn body);
    rank_fn body;
};

static bool holds(double seconds, void *arg)
{
    const struct dated *dated = arg;

    short_time = seconds;
    return dated->run(3, dated->body);
}

/* Runs with a timeout in which all ranks start all operations before the first
 * one times out. */
static void on_both_dated(rank_fn body, const char *what)
{
    struct dated dated = {ranks_run, body};

    ok(attempts_hold(holds, 1, &dated), "%s, processes", what);
    dated.run = threads_run;
    ok(attempts_hold(holds, 1, &dated), "%s, threads", what);
}

/* ---- deaths ---- */

static int live_on(struct symmcoll_group *group, int rank, bool waits)
{
    struct symmcoll_work *works[SOME] = {NULL};

    if (!opened(group, rank) ||
        !submit_some(group, rank, waits ? works : NULL, -1) ||
        !await_all(group))
        return 0;
    if (rank == 1)
        _exit(0);
    return waits ? all_end(works, SYMMCOLL_ERR_PEER, "rank 1")
                 : group_fails(group, SYMMCOLL_ERR_PEER, "rank 1");
}

static int one_dies(int rank, int size, void *arg)
{
    struct symmcoll_world *world;
    int right;

    (void)size;
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    right = live_on(symmcoll_world_group(world), rank, arg != NULL) &&
            atomic_load(&control()->running) == 0;
    return symmcoll_finalize(world) == SYMMCOLL_OK && right ? 0 : 1;
}

/* Run a body of bare ranks; whether all have ended well. */
static bool spawn(int n, raw_rank_fn body, void *arg)
{
    int statuses[4];
    bool right;

    atomic_store(here, 0);
    right = ranks_spawn(n, body, arg, statuses);
    for (int r = 0; r < n; r++)
        right =
            right && WIFEXITED(statuses[r]) && WEXITSTATUS(statuses[r]) == 0;
    return right;
}

/* Runs the body; the rank that dies exits with status 0 like the others. */
static bool one_dies_of(int n, void *arg)
{
    return spawn(n, one_dies, arg);
}

/* ---- aborts and errors ---- */

static int aborted(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *works[SOME];

    if (!opened(group, rank) || !submit_some(group, rank, works, -1) ||
        !await_all(group))
        return 0;
    if (rank == 0)
        symmcoll_group_abort(group, "enough");
    return all_end(works, SYMMCOLL_ERR_CANCELED, "enough") &&
           none_runs(group) &&
           say(symmcoll_group_error(group) == SYMMCOLL_ERR_CANCELED,
               "the group");
}

static int one_has_an_error(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *works[SOME];

    if (!opened(group, rank) || !submit_some(group, rank, works, -1) ||
        !await_all(group))
        return 0;
    atomic_store(&control()->fails, 1);
    return all_end(works, SYMMCOLL_ERR_DEVICE, "fake: out of order") &&
           none_runs(group);
}

/* A stream that cannot be ordered fails the group, and its running operations
 * end. Ranks that are threads share one backend, so the other one must not
 * wait before. */
static int cannot_follow(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *works[SOME];
    symmcoll_status_t status;

    if (!opened(group, rank) || !submit_some(group, rank, works, -1) ||
        !await_all(group))
        return 0;
    if (rank == 0) {
        atomic_store(&control()->no_follow, 1);
        /* The attendant may have ended another one first, which then has the
         * cause. */
        status = symmcoll_work_wait(works[0], -1);
        if (!ended(status,
                status == SYMMCOLL_ERR_ABORTED ? status : SYMMCOLL_ERR_DEVICE,
                "fake: no such stream"))
            return 0;
    } else {
        while (symmcoll_group_error(group) == SYMMCOLL_OK)
            sched_yield();
    }
    return all_end(works, SYMMCOLL_ERR_DEVICE, "fake: no such stream") &&
           none_runs(group);
}

/* ---- the end of a group, and of the world ---- */

/* Releases a group; running operations end first. */
static int released(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group;
    float *at = device(rank) + 64;
    int right = 1;

    if (!say(symmcoll_group_create(symmcoll_group_world(all), NULL, &group) ==
                 SYMMCOLL_OK,
            "a group"))
        return 0;
    for (int i = 0; i < SOME && right; i++)
        right = say(
            sum_device(group, at + 2 * i, rank, NULL) == SYMMCOLL_OK, "a call");
    right = right && say(symmcoll_group_free(group) == SYMMCOLL_OK, "free");
    for (int i = 0; i < SOME && right; i++)
        right = at[2 * i + 1] == expected_sum(all);
    return right && atomic_load(&control()->strange) == 0;
}

/* Releases a group with operations that do not end: they are cancelled, and
 * the first rank to do that reports it. */
static int released_in_vain(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group;
    struct symmcoll_work *works[SOME];
    symmcoll_status_t status;

    if (!say(symmcoll_group_create(symmcoll_group_world(all), NULL, &group) ==
                 SYMMCOLL_OK,
            "a group") ||
        !opened(group, rank) || !submit_some(group, rank, works, -1) ||
        !await_all(all))
        return 0;
    status = symmcoll_group_free(group);
    return (status == SYMMCOLL_OK || ended(status, SYMMCOLL_ERR_TIMEOUT,
                                         "had not ended, and were canceled")) &&
           all_end(works, SYMMCOLL_ERR_CANCELED, "operations did not end") &&
           say(sum_host(all, rank) == SYMMCOLL_OK, "another group");
}

static int finalized(int rank, int size, void *arg)
{
    struct symmcoll_world *world;
    struct symmcoll_work *work;
    float *at, expected;
    int right = 1;

    (void)size;
    (void)arg;
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    expected = expected_sum(symmcoll_world_group(world));
    at = device(rank);
    for (int i = 0; i < SOME && right; i++) {
        right = sum_device(symmcoll_world_group(world), at + 2 * i, rank,
                    i % 2 == 0 ? &work : NULL) == SYMMCOLL_OK;
        if (i % 2 == 0 && right)
            symmcoll_work_free(work);
    }
    right = right && symmcoll_finalize(world) == SYMMCOLL_OK;
    for (int i = 0; i < SOME && right; i++)
        right = at[2 * i + 1] == expected;
    return right && atomic_load(&control()->running) == 0 ? 0 : 1;
}

/* A backend that keeps buffers: each error states that it owns them, and
 * finalize reports all of them unless they were returned before. */
static int keeps(int rank, int size, void *lets_go)
{
    struct symmcoll_world *world;
    struct symmcoll_work *works[SOME];
    struct symmcoll_group *group;
    symmcoll_status_t status;
    int owned = 0;

    (void)size;
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    group = symmcoll_world_group(world);
    if (!opened(group, rank) || !submit_some(group, rank, works, -1))
        return 1;
    /* Before this rank sees the other's abort. */
    atomic_store(&control()->keeps, 0);
    if (!await_all(group))
        return 1;
    symmcoll_group_abort(group, "enough");
    for (int i = 0; i < SOME; i++) {
        if (!say(symmcoll_work_wait(works[i], 60) != SYMMCOLL_ERR_TIMEOUT,
                "its end"))
            return 1;
        owned +=
            strstr(symmcoll_work_error(works[i]),
                "backend fake_module still owns in (4 bytes at 0x") != NULL;
        symmcoll_work_free(works[i]);
    }
    if (!say(owned == (rank == 0 ? SOME : 0), "whose they are"))
        return 1;
    if (lets_go != NULL)
        atomic_store(&control()->keeps, -1);
    status = symmcoll_finalize(world);
    if (rank != 0 || lets_go != NULL)
        return say(status == SYMMCOLL_OK, "finalize") ? 0 : 1;
    return ended(status, SYMMCOLL_ERR_DEVICE,
               "still owns the buffers of all_reduce seq ") &&
                   ended(status, status, ", and 4 more")
               ? 0
               : 1;
}

/* Shrinks a group in which host operations overtook running ones, which must
 * be repeated. */
static int shrunk(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group, *left = NULL;
    struct symmcoll_work *works[SOME];
    uint64_t last = 0;
    int right;

    if (!say(symmcoll_group_create(symmcoll_group_world(all), NULL, &group) ==
                 SYMMCOLL_OK,
            "a group") ||
        !opened(group, rank) || !submit_some(group, rank, works, -1) ||
        sum_host(group, rank) != SYMMCOLL_OK || !await_all(all))
        return 0;
    right =
        say(symmcoll_group_shrink(group, NULL, &left, &last) == SYMMCOLL_OK,
            "shrink") &&
        say(last == 2, "the last that all have completed") &&
        say(atomic_load(&group->runner.queue->nrunning) == 0, "none runs") &&
        all_end(works, SYMMCOLL_ERR_CANCELED, "shrinks group") &&
        opened(left, rank);
    if (!right)
        return 0;
    (void)symmcoll_group_free(group);
    return say(symmcoll_group_free(left) == SYMMCOLL_OK, "free");
}

/* ---- reports of the hook ---- */

struct told {
    _Atomic int count;
    _Atomic int wrong;
};

static void tell(const struct symmcoll_operation *operation, void *arg)
{
    struct told *told = arg;

    if (operation->status != SYMMCOLL_OK || operation->duration <= 0 ||
        strcmp(operation->name, "all_reduce") != 0)
        atomic_fetch_add(&told->wrong, 1);
    atomic_fetch_add(&told->count, 1);
}

static void call_back(symmcoll_status_t status, void *arg)
{
    struct told *told = arg;

    if (status != SYMMCOLL_OK)
        atomic_fetch_add(&told->wrong, 1);
    atomic_fetch_add(&told->count, 1);
}

static int await_count(struct told *told, int count)
{
    while (atomic_load(&told->count) < count)
        sched_yield();
    return say(atomic_load(&told->count) == count, "how often") &&
           atomic_load(&told->wrong) == 0;
}

/* Checks that functions of the program are called when the device has
 * completed. */
static int told(struct symmcoll_group *group, int rank)
{
    static struct told all[FAKE_RANKS][2];
    struct told *ends = &all[rank][0], *works_end = &all[rank][1];
    struct symmcoll_work *works[SOME];
    int right = opened(group, rank) &&
                say(symmcoll_group_notify(group, tell, ends) == SYMMCOLL_OK,
                    "notify") &&
                submit_some(group, rank, works, -1);

    for (int i = 0; i < SOME && right; i++) {
        right = say(symmcoll_work_then(works[i], call_back, works_end) ==
                        SYMMCOLL_OK,
                    "then") &&
                say(symmcoll_work_wait(works[i], -1) == SYMMCOLL_OK, "order");
        symmcoll_work_free(works[i]);
    }
    right = right && sum_host(group, rank) == SYMMCOLL_OK &&
            await_count(ends, 1) && atomic_load(&works_end->count) == 0;
    if (!right || !take_turn(group, rank, 1))
        return 0;
    return await_count(works_end, SOME) && await_count(ends, SOME + 3);
}

int main(void)
{
    static int yes;

    share_here();
    use_modules_of_tests();
    on_both_dated(deadline_of_works, "a deadline ends works that run");
    on_both_dated(
        deadline_of_calls, "a deadline ends what nobody waits for, too");
    ok(one_dies_of(3, &yes), "a death ends works that run");
    ok(one_dies_of(3, NULL), "a death ends what nobody waits for, too");
    on_each(3, aborted, "an abort ends what runs");
    on_each(3, one_has_an_error, "an error of one ends all");
    on_each(
        2, cannot_follow, "a stream that cannot be ordered fails the group");
    on_each(2, released, "a group's release waits for what runs");
    ok(spawn(2, finalized, NULL), "finalize waits for what runs");
    ok(spawn(2, keeps, NULL), "buffers that are never let go of are counted");
    ok(spawn(2, keeps, &yes), "those that are let go of later are not");
    on_each(3, shrunk, "a group is shrunk while operations run in it");
    on_each(2, told, "programs are told when the device has completed");
    setenv("SYMMCOLL_TIMEOUTS_FINALIZE", "100ms", 1);
    on_each(2, released_in_vain, "a group's release cancels what does not end");
    return done_testing();
}
