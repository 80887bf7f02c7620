/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests operations on host memory that end later, in a backend whose members
 * share no memory, when a member does not come, dies or aborts.
 */
#include "await_all.h"
#include "later.h"

#include "../attempts.h"

#include <sys/wait.h>
#include <unistd.h>

#define SOME 3

static double short_time; /* the timeout */

/* Starts works that rank 1 does not join. */
static int submit_some(struct symmcoll_group *group,
    struct symmcoll_work *works[SOME], float out[SOME], double timeout)
{
    static const float one = 1;
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.timeout = timeout;
    for (int i = 0; i < SOME; i++) {
        out[i] = -1;
        if (!say(symmcoll_all_reduce(group, &out[i], &one, 1, F32, SUM, &call,
                     &works[i]) == SYMMCOLL_OK,
                "a work"))
            return 0;
    }
    return 1;
}

/* Checks that all works have an error: one at most has the cause, the others
 * follow it; their results are not written. */
static int all_end(struct symmcoll_work *works[SOME], const float out[SOME],
    symmcoll_status_t status, const char *text)
{
    int first = 0, later = 0, written = 0;

    for (int i = 0; i < SOME; i++) {
        symmcoll_status_t found = symmcoll_work_wait(works[i], 60);

        first += found == status;
        later += found == SYMMCOLL_ERR_ABORTED;
        written += out[i] != -1;
        if (strstr(symmcoll_last_error(), text) == NULL)
            return ended(found, status, text);
        symmcoll_work_free(works[i]);
    }
    return say(
        first <= 1 && first + later == SOME && written == 0, "their ends");
}

/* Waits for the group's failure without a call. */
static int group_fails(
    struct symmcoll_group *group, symmcoll_status_t status, const char *text)
{
    while (symmcoll_group_error(group) == SYMMCOLL_OK)
        sched_yield();
    return ended(symmcoll_group_error(group), status, text);
}

/* ---- timeouts ---- */

static int call_times_out(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    float one = 1, out = -1;
    symmcoll_status_t status;

    if (!is_later(group))
        return 0;
    if (rank == 1)
        return group_fails(group, SYMMCOLL_ERR_TIMEOUT, "did not come");
    call.timeout = short_time;
    status = symmcoll_all_reduce(group, &out, &one, 1, F32, SUM, &call, NULL);
    return (status == SYMMCOLL_ERR_ABORTED ||
               ended(status, SYMMCOLL_ERR_TIMEOUT, "rank 1")) &&
           ended(status, status, "did not come") && out == -1;
}

static int works_time_out(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *works[SOME];
    float out[SOME];

    if (rank == 1)
        return group_fails(group, SYMMCOLL_ERR_TIMEOUT, "did not come");
    return submit_some(group, works, out, short_time) &&
           all_end(works, out, SYMMCOLL_ERR_TIMEOUT, "did not come");
}

/* A wait that expires leaves the work as it is. */
static int waits_expire(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *works[SOME];
    float out[SOME];
    int right = 1;

    if (rank != 1) {
        right = submit_some(group, works, out, -1) &&
                ended(symmcoll_work_wait(works[0], short_time / 20),
                    SYMMCOLL_ERR_TIMEOUT, "it goes on") &&
                say(symmcoll_work_test(works[0]) == SYMMCOLL_IN_PROGRESS,
                    "it is under way");
        symmcoll_group_abort(group, "enough");
        return right && all_end(works, out, SYMMCOLL_ERR_CANCELED, "enough");
    }
    return group_fails(group, SYMMCOLL_ERR_CANCELED, "enough");
}

/* ---- deaths ---- */

/* What a rank does while rank 1 dies. */
enum doing {
    CALLS,
    STARTS_WORKS,
    MAKES_A_GROUP,
    CALLS_ON_A_DEVICE
};

static int do_it(
    struct symmcoll_group *group, int rank, const enum doing *doing)
{
    struct symmcoll_group *made = NULL;
    struct symmcoll_work *works[SOME];
    float one = 1, out[SOME];
    symmcoll_status_t status;

    switch (*doing) {
    case CALLS:
        status = symmcoll_all_reduce(group, out, &one, 1, F32, SUM, NULL, NULL);
        break;
    case STARTS_WORKS:
        return submit_some(group, works, out, -1) &&
               all_end(works, out, SYMMCOLL_ERR_PEER, "rank 1");
    case MAKES_A_GROUP:
        status =
            symmcoll_group_create(symmcoll_group_world(group), NULL, &made);
        break;
    default:
        status = sum_device(group, device(rank), rank, NULL);
    }
    return (status == SYMMCOLL_ERR_ABORTED ||
               ended(status, SYMMCOLL_ERR_PEER, "rank 1")) &&
           ended(status, status, "rank 1");
}

static int one_dies(int rank, int size, void *arg)
{
    struct symmcoll_world *world;
    struct symmcoll_group *group;
    int right;

    (void)size;
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    group = symmcoll_world_group(world);
    right = is_later(group) &&
            say(sum_host(group, rank) == SYMMCOLL_OK, "sum") &&
            await_all(group);
    if (rank == 1)
        _exit(right ? 0 : 1);
    right = right && do_it(group, rank, arg);
    return symmcoll_finalize(world) == SYMMCOLL_OK && right ? 0 : 1;
}

/* Runs bare ranks, of which the dying one exits with status 0 like the
 * others. */
static bool dies(int n, enum doing doing)
{
    int statuses[4];
    bool right;

    atomic_store(here, 0);
    right = ranks_spawn(n, one_dies, &doing, statuses);
    for (int r = 0; r < n; r++)
        right =
            right && WIFEXITED(statuses[r]) && WEXITSTATUS(statuses[r]) == 0;
    return right;
}

/* ---- aborts ---- */

static int aborted(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *works[SOME];
    float out[SOME];

    if (!say(sum_host(group, rank) == SYMMCOLL_OK, "sum") || !await_all(group))
        return 0;
    if (rank == 1) {
        symmcoll_group_abort(group, "enough");
        return say(
            symmcoll_group_error(group) == SYMMCOLL_ERR_CANCELED, "the group");
    }
    /* The group may have failed before the first of them. */
    return submit_some(group, works, out, -1) &&
           all_end(works, out, SYMMCOLL_ERR_CANCELED, "enough");
}

/* After a failure the other members continue in a group without rank 1. */
static int shrunk(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group, *left = NULL;
    const int excluded = 1;
    struct symmcoll_shrink_args args = SYMMCOLL_SHRINK_ARGS_INIT;
    uint64_t last = 0;
    int right = say(symmcoll_group_create(
                        symmcoll_group_world(all), NULL, &group) == SYMMCOLL_OK,
                    "a group") &&
                say(sum_host(group, rank) == SYMMCOLL_OK, "sum");

    if (!right)
        return 0;
    args.exclude = &excluded;
    args.nexclude = 1;
    if (rank != 1)
        right = say(symmcoll_group_shrink(group, &args, &left, &last) ==
                        SYMMCOLL_OK,
                    "shrink") &&
                say(last == 1, "the last that all have completed") &&
                is_later(left) &&
                say(sum_host(left, rank > 1 ? rank - 1 : 0) == SYMMCOLL_OK,
                    "sum of the rest");
    return right && say(sum_host(all, rank) == SYMMCOLL_OK, "the other group");
}

/* ---- attempts ---- */

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

static void on_both_dated(rank_fn body, const char *what)
{
    struct dated dated = {ranks_run, body};

    ok(attempts_hold(holds, 1, &dated), "%s, processes", what);
    dated.run = threads_run;
    ok(attempts_hold(holds, 1, &dated), "%s, threads", what);
}

int main(void)
{
    use_later_host();
    share_here();
    on_both_dated(call_times_out, "a call names the rank that did not come");
    on_both_dated(works_time_out, "works end at the deadline of the first");
    on_both_dated(waits_expire, "a wait expires, and the work goes on");
    ok(dies(3, CALLS), "a death ends a call");
    ok(dies(3, STARTS_WORKS), "a death ends works");
    ok(dies(3, MAKES_A_GROUP), "a death ends a round");
    ok(dies(3, CALLS_ON_A_DEVICE), "a death ends the opening of a device");
    on_each(3, aborted, "an abort ends works");
    on_both(3, shrunk, "the others go on in a shrunk group");
    return done_testing();
}
