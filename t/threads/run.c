/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests threads as ranks, with symmcoll_threads_run(). */
#include "t/ranks.h"
#include "t/tap.h"

#include <symmcoll.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIZE 4

/* State shared by the ranks of one run: they are threads. */
struct plan {
    int failing;      /* a bit for each rank that fails between collectives */
    int value;        /* what those return */
    _Atomic int ends; /* ranks with a second wait that ended with an error */
    _Atomic int dones;
    _Atomic int gathered;
    _Atomic int worlds; /* ranks that have seen their own world */
    struct symmcoll_world *seen[SIZE];
    symmcoll_status_t statuses[SIZE];
};

static int value_of(struct plan *plan, int rank)
{
    return (plan->failing >> rank & 1) != 0 ? plan->value : 0;
}

static symmcoll_status_t run(struct plan *plan, symmcoll_rank_fn body)
{
    struct symmcoll_threads_args args = SYMMCOLL_THREADS_ARGS_INIT;

    args.statuses = plan->statuses;
    return symmcoll_threads_run(SIZE, body, plan, &args);
}

static symmcoll_status_t gather(struct symmcoll_world *world)
{
    int32_t all[SIZE] = {0}, mine = symmcoll_world_rank(world);
    symmcoll_status_t status = symmcoll_all_gather(
        symmcoll_world_group(world), all, &mine, 1, SYMMCOLL_INT32, NULL, NULL);

    for (int r = 0; r < SIZE && status == SYMMCOLL_OK; r++)
        if (all[r] != r)
            return 1000;
    return status;
}

/* ---- worlds ---- */

static symmcoll_status_t look_around(struct symmcoll_world *world, void *arg)
{
    struct plan *plan = arg;
    int rank = symmcoll_world_rank(world);
    symmcoll_status_t status = gather(world);
    sigset_t blocked;

    plan->seen[rank] = world;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    plan->worlds += symmcoll_world_size(world) == SIZE &&
                    sigismember(&blocked, SIGTERM) == 0;
    plan->dones++;
    return status;
}

static int each_has_a_world(void)
{
    struct plan plan = {.failing = 0};
    symmcoll_status_t status = run(&plan, look_around);

    for (int a = 0; a < SIZE; a++)
        for (int b = 0; b < a; b++)
            if (plan.seen[a] == plan.seen[b])
                return 0;
    return status == SYMMCOLL_OK && plan.worlds == SIZE && plan.dones == SIZE;
}

/* ---- failures ---- */

static symmcoll_status_t fail_between(struct symmcoll_world *world, void *arg)
{
    struct plan *plan = arg;
    int value = value_of(plan, symmcoll_world_rank(world));
    symmcoll_status_t status = gather(world);

    if (status != SYMMCOLL_OK)
        return status;
    /* A rank that is still in the first collective would fail there. */
    for (plan->gathered++; plan->gathered < SIZE;)
        sched_yield();
    if (value != 0)
        return value;
    status = gather(world);
    plan->ends += status != SYMMCOLL_OK;
    return status;
}

/* Checks that the run fails, ends the waits of the other ranks and counts only
 * the failed ones. */
static int fails_by(int failing, int nfailing, int value)
{
    struct plan plan = {.failing = failing, .value = value};
    symmcoll_status_t status = run(&plan, fail_between);
    char expected[64];

    snprintf(
        expected, sizeof(expected), "%d of %d ranks failed", nfailing, SIZE);
    diag("%s", symmcoll_last_error());
    if (status != SYMMCOLL_ERR_PEER || plan.ends != SIZE - nfailing ||
        strstr(symmcoll_last_error(), expected) == NULL)
        return 0;
    for (int r = 0; r < SIZE; r++) {
        symmcoll_status_t wanted =
            (failing >> r & 1) != 0 ? value : SYMMCOLL_ERR_ABORTED;
        char named[32];

        if (nfailing == SIZE - 1)
            snprintf(named, sizeof(named), "ranks 1-3 returned %d", value);
        else
            snprintf(named, sizeof(named), "rank %d returned %d", r, value);
        if (plan.statuses[r] != wanted ||
            (strstr(symmcoll_last_error(), named) != NULL) !=
                (wanted == value || nfailing == SIZE - 1))
            return 0;
    }
    return 1;
}

static int rank_zero_fails(void)
{
    return fails_by(1, 1, 7);
}

static int another_fails(void)
{
    return fails_by(2, 1, 7);
}

static int all_others_fail(void)
{
    return fails_by(14, 3, 7);
}

/* Returns a status of the library, the detail of which is kept. */
static symmcoll_status_t pass_null(struct symmcoll_world *world, void *arg)
{
    (void)arg;
    if (symmcoll_world_rank(world) == 2)
        return symmcoll_all_reduce(symmcoll_world_group(world), NULL, NULL, 1,
            SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, NULL);
    return gather(world);
}

static int details_are_kept(void)
{
    struct plan plan = {.failing = 0};
    symmcoll_status_t status = run(&plan, pass_null);

    return status == SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(),
               "rank 2 returned INVALID: all_reduce: expected in of 4 bytes, "
               "found NULL") != NULL &&
           plan.statuses[2] == SYMMCOLL_ERR_INVALID &&
           plan.statuses[0] == SYMMCOLL_ERR_ABORTED;
}

/* Each rank has a different error; one error cannot describe them all. */
static symmcoll_status_t refuse_own_count(
    struct symmcoll_world *world, void *arg)
{
    (void)arg;
    return symmcoll_all_reduce(symmcoll_world_group(world), NULL, NULL,
        (size_t)symmcoll_world_rank(world) + 1, SYMMCOLL_INT32, SYMMCOLL_SUM,
        NULL, NULL);
}

static int first_details_are_whole(void)
{
    symmcoll_status_t status =
        symmcoll_threads_run(7, refuse_own_count, NULL, NULL);
    const char *said = symmcoll_last_error();

    diag("%s", said);
    return status == SYMMCOLL_ERR_INVALID &&
           strstr(said, "rank 0 returned INVALID: all_reduce: expected in of 4 "
                        "bytes, found NULL; ") != NULL &&
           strstr(said, "rank 1 returned INVALID: all_reduce: expected in of 8 "
                        "bytes, found NULL; ") != NULL &&
           strstr(said, "rank 6 returned INVALID") != NULL;
}

/* An error that all ranks have in common is reported for all. */
static symmcoll_status_t differ(struct symmcoll_world *world, void *arg)
{
    int32_t values[SIZE] = {0};

    (void)arg;
    return symmcoll_broadcast(symmcoll_world_group(world), values,
        (size_t)symmcoll_world_rank(world), SYMMCOLL_INT32, 0, NULL, NULL);
}

static int shared_errors_count(void)
{
    struct plan plan = {.failing = 0};

    return run(&plan, differ) == SYMMCOLL_ERR_MISMATCH &&
           strstr(symmcoll_last_error(), "4 of 4 ranks failed") != NULL;
}

/* A rank that waits for a key that is never set. */
static symmcoll_status_t wait_for_key(struct symmcoll_world *world, void *arg)
{
    struct plan *plan = arg;
    const char *key = "never";
    int value = value_of(plan, symmcoll_world_rank(world));
    symmcoll_status_t status;

    if (value != 0)
        return value;
    status = symmcoll_store_wait(symmcoll_world_store(world), &key, 1, 120);
    plan->ends += status == SYMMCOLL_ERR_CANCELED;
    return status;
}

static int store_waits_end(void)
{
    struct plan plan = {.failing = 8, .value = 1};
    time_t began = time(NULL);

    return run(&plan, wait_for_key) == SYMMCOLL_ERR_PEER && plan.ends == 3 &&
           strstr(symmcoll_last_error(), "1 of 4 ranks failed: rank 3 ret") !=
               NULL &&
           time(NULL) - began < 60;
}

/* ---- skips ---- */

static symmcoll_status_t skip_at_once(struct symmcoll_world *world, void *arg)
{
    (void)world;
    (void)arg;
    return SYMMCOLL_SKIPPED;
}

static int all_skip(void)
{
    struct plan plan = {.failing = 0};

    return run(&plan, skip_at_once) == SYMMCOLL_SKIPPED &&
           plan.statuses[3] == SYMMCOLL_SKIPPED &&
           strcmp(symmcoll_status_name(SYMMCOLL_SKIPPED), "SKIPPED") == 0 &&
           symmcoll_status_category(SYMMCOLL_SKIPPED) == SYMMCOLL_CATEGORY_NONE;
}

static int one_skips(void)
{
    struct plan plan = {.failing = 4, .value = SYMMCOLL_SKIPPED};

    return run(&plan, fail_between) == SYMMCOLL_SKIPPED && plan.ends == 3 &&
           plan.statuses[2] == SYMMCOLL_SKIPPED &&
           plan.statuses[1] == SYMMCOLL_ERR_ABORTED;
}

/* ---- ranks that fail while others join ---- */

#define EARLY_SIZE 6
#define EARLY_WORLDS 100

/* Fails at once on one rank, which may then have left the world before another
 * one has received the ranks. */
static symmcoll_status_t fail_early(struct symmcoll_world *world, void *arg)
{
    const int *failing = arg;

    if (symmcoll_world_rank(world) == *failing)
        return SYMMCOLL_ERR_INVALID;
    return symmcoll_barrier(symmcoll_world_group(world), NULL, NULL);
}

static int early_failures_end_worlds(void)
{
    for (int i = 0; i < EARLY_WORLDS; i++) {
        int failing = i % EARLY_SIZE;

        if (symmcoll_threads_run(EARLY_SIZE, fail_early, &failing, NULL) !=
            SYMMCOLL_ERR_INVALID)
            return 0;
    }
    return 1;
}

/* Uses deadlines that pass before, while and after the ranks receive each
 * other's offers: any rank may have joined while another timed out. */
static int deadlines_end_worlds(void)
{
    struct symmcoll_threads_args args = SYMMCOLL_THREADS_ARGS_INIT;
    int failing = -1;

    for (int i = 0; i < EARLY_WORLDS; i++) {
        symmcoll_status_t status;

        args.timeout = (i % 40) * 0.0004;
        status = symmcoll_threads_run(EARLY_SIZE, fail_early, &failing, &args);
        if (status != SYMMCOLL_OK && status != SYMMCOLL_ERR_TIMEOUT &&
            status != SYMMCOLL_ERR_PEER && status != SYMMCOLL_ERR_CANCELED) {
            diag("%s", symmcoll_last_error());
            return 0;
        }
    }
    return 1;
}

/* ---- arguments ---- */

static int refused(int size, symmcoll_rank_fn body,
    const struct symmcoll_threads_args *args, const char *detail)
{
    return symmcoll_threads_run(size, body, NULL, args) ==
               SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(), detail) != NULL;
}

static int arguments_are_checked(void)
{
    struct symmcoll_threads_args unsized = SYMMCOLL_THREADS_ARGS_INIT;
    char name[80];
    struct symmcoll_threads_args named = SYMMCOLL_THREADS_ARGS_INIT;

    unsized.size = 0;
    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    named.name = name;
    return refused(
               0, skip_at_once, NULL, "expected 1 to 4096 ranks, found 0") &&
           refused(5000, skip_at_once, NULL, "found 5000") &&
           refused(2, NULL, NULL, "expected a function, found NULL") &&
           refused(2, skip_at_once, &unsized, "SYMMCOLL_THREADS_ARGS_INIT") &&
           refused(2, skip_at_once, &named,
               "2 of 2 ranks failed: ranks 0 and 1 returned INVALID: init");
}

static symmcoll_status_t look_at_timeout(
    struct symmcoll_world *world, void *arg)
{
    struct symmcoll_group_info info = SYMMCOLL_GROUP_INFO_INIT;
    symmcoll_status_t status =
        symmcoll_group_get_info(symmcoll_world_group(world), &info);

    return status == SYMMCOLL_OK && info.timeout != *(double *)arg ? 1000
                                                                   : status;
}

/* Checks that a negative timeout selects the setting. */
static int timeouts_are_passed(void)
{
    struct symmcoll_threads_args args = SYMMCOLL_THREADS_ARGS_INIT;
    double expected[] = {1234, 345};

    setenv("SYMMCOLL_TIMEOUTS_COLLECTIVE", "345s", 1);
    args.timeout = 1234;
    return symmcoll_threads_run(2, look_at_timeout, &expected[0], &args) ==
               SYMMCOLL_OK &&
           symmcoll_threads_run(2, look_at_timeout, &expected[1], NULL) ==
               SYMMCOLL_OK;
}

/* Runs several times in one process, also after failed runs. */
static int runs_follow(void)
{
    return each_has_a_world() && another_fails() && each_has_a_world() &&
           store_waits_end() && each_has_a_world();
}

/* Hides /proc from this process. */
static bool hide_proc(void)
{
    return unshare(CLONE_NEWNS | (geteuid() != 0 ? CLONE_NEWUSER : 0)) == 0 &&
           mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", "/proc", "tmpfs", 0, NULL) == 0;
}

static symmcoll_status_t gather_once(struct symmcoll_world *world, void *arg)
{
    (void)arg;
    return gather(world);
}

/* Uses _exit(): a leak checker could not inspect the process at its end. */
static int runs_without_proc(void)
{
    struct plan plan = {.failing = 0};

    _exit(hide_proc() && run(&plan, gather_once) == SYMMCOLL_OK ? 0 : 1);
}

static void check_without_proc(void)
{
    int status;
    pid_t child = fork();

    if (child == 0)
        _exit(hide_proc() ? 0 : 1);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        skip(1, "/proc cannot be hidden");
    else
        ok(process_run(runs_without_proc), "no file of /proc is needed");
}

int main(void)
{
    plan(16);
    ok(process_run(each_has_a_world),
        "each thread is a rank with a world of its own (L1)");
    ok(process_run(rank_zero_fails),
        "where rank 0 fails the others' waits end, and it alone is reported "
        "(L4)");
    ok(process_run(another_fails),
        "where another rank fails the others' waits end, and it alone is "
        "reported (L4)");
    ok(process_run(all_others_fail),
        "where all ranks but rank 0 fail those three are reported (L4)");
    ok(process_run(details_are_kept),
        "an error of the library keeps its detail (L4)");
    ok(process_run(first_details_are_whole),
        "of many unlike errors the first are told whole, the others named");
    ok(process_run(shared_errors_count),
        "an error that all ranks have is that of all (L4)");
    ok(process_run(store_waits_end),
        "waits in the world's store end, too (L4)");
    ok(process_run(all_skip), "ranks that skip are no failure (L5)");
    ok(process_run(one_skips),
        "a rank that skips ends the waits of the others (L5)");
    ok(process_run(early_failures_end_worlds),
        "a rank that fails while others join leaves them its block (L4)");
    ok(process_run(deadlines_end_worlds),
        "a rank whose deadline passes while others join leaves them its block");
    check_without_proc();
    ok(process_run(arguments_are_checked), "wrong arguments are refused");
    ok(process_run(timeouts_are_passed),
        "the timeout of a run is that of its ranks' operations");
    ok(process_run(runs_follow),
        "runs follow each other in one process, those that fail too");
    return done_testing();
}
