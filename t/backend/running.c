/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests operations on device memory that run concurrently with later calls,
 * and the order of streams after them. The fake module completes an operation
 * with a number as its label once its `turn` has that value. running_faults.c
 * tests failures during that.
 */
#include "running.h"

/* ---- concurrent operations ---- */

#define SEVERAL 6

/* The attendant ends the latest of them; then one more runs. */
static int one_more(struct symmcoll_group *group, int rank, float *at)
{
    struct symmcoll_work *work = NULL;
    int right;

    while (atomic_load(&group->runner.queue->nrunning) == SEVERAL)
        sched_yield();
    right = say(submit(group, at, rank, 0, &work) == SYMMCOLL_OK &&
                    symmcoll_work_wait(work, 60) == SYMMCOLL_OK &&
                    at[1] == expected_sum(group),
        "one more");
    symmcoll_work_free(work);
    return right;
}

/* Completes the last one first. */
static int several_end_in_any_order(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *works[SEVERAL] = {NULL};
    float *at = device(rank);
    int right = opened(group, rank);

    for (int i = 0; i < SEVERAL && right; i++)
        right = say(submit(group, at + 2 * i, rank, SEVERAL - i, &works[i]) ==
                        SYMMCOLL_OK,
            "a work");
    right = right && all_run(group, SEVERAL);
    for (int turn = 1; turn <= SEVERAL && right; turn++) {
        int ends = SEVERAL - turn;

        right = say(sum_host(group, rank) == SYMMCOLL_OK, "host, beside them");
        for (int i = 0; i <= ends && right; i++)
            right = say(symmcoll_work_test(works[i]) == SYMMCOLL_IN_PROGRESS,
                "one that is under way");
        if (!right || !take_turn(group, rank, turn) ||
            (turn == 1 && !one_more(group, rank, at + 100)))
            return 0;
        right = say(symmcoll_work_wait(works[ends], 60) == SYMMCOLL_OK &&
                        at[2 * ends + 1] == expected_sum(group),
            "its end");
    }
    for (int i = 0; i < SEVERAL; i++)
        symmcoll_work_free(works[i]);
    return right && symmcoll_group_sequence(group) == 3 + 4 * SEVERAL;
}

#define MANY 100

static int count_entries(const struct symmcoll_group *group, int state)
{
    const struct symc_trace_ring *ring = group->world->trace.ring;
    int count = 0;

    for (uint32_t i = 0; i < ring->capacity; i++)
        count += atomic_load(&ring->entries[i].lock) != 0 &&
                 (int)atomic_load(&ring->entries[i].state) == state;
    return count;
}

/* Checks that each operation has its own entry, which is completed when the
 * device is done. */
static int many(struct symmcoll_group *group, int rank)
{
    static struct symmcoll_work *all[FAKE_RANKS][MANY];
    struct symmcoll_work **works = all[rank];
    float *at = device(rank);
    int right = opened(group, rank);
    int before = right ? count_entries(group, SYMC_TRACE_COMPLETED) : 0;

    for (int i = 0; i < MANY && right; i++) {
        right =
            say(submit(group, at + 2 * i, rank, 1, &works[i]) == SYMMCOLL_OK,
                "a work");
        if (right && i % 10 == 0)
            right = say(sum_host(group, rank) == SYMMCOLL_OK, "host");
    }
    right =
        right && all_run(group, MANY) &&
        say(count_entries(group, SYMC_TRACE_STARTED) >= MANY,
            "entries of all") &&
        say(count_entries(group, SYMC_TRACE_COMPLETED) <= before + MANY / 10,
            "none has completed");
    if (!right || !take_turn(group, rank, 1))
        return 0;
    for (int i = 0; i < MANY && right; i++) {
        right = say(symmcoll_work_wait(works[i], 60) == SYMMCOLL_OK &&
                        at[2 * i + 1] == expected_sum(group),
            "its end");
        symmcoll_work_free(works[i]);
    }
    return right && say(atomic_load(&control()->most) >= MANY, "at a time") &&
           say(count_entries(group, SYMC_TRACE_COMPLETED) >= before + MANY,
               "entries of their ends") &&
           atomic_load(&control()->strange) == 0;
}

static void *await(void *work)
{
    return symmcoll_work_wait(work, 60) == SYMMCOLL_OK ? work : NULL;
}

/* One thread tests its work continuously while another one starts others: the
 * backend is in one call at a time. */
static int tested_while_others_start(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *first = NULL, *work;
    void *right = NULL;
    float *at = device(rank);
    pthread_t thread;

    atomic_store(&control()->lingers, opened(group, rank));
    if (!say(submit(group, at, rank, 1, &first) == SYMMCOLL_OK, "a work") ||
        pthread_create(&thread, NULL, await, first) != 0)
        return 0;
    for (int i = 1; i < 2 * MANY; i++) {
        if (!say(submit(group, at + 2 * i, rank, 0, &work) == SYMMCOLL_OK,
                "another one"))
            return 0;
        symmcoll_work_free(work);
    }
    if (!take_turn(group, rank, 1))
        return 0;
    pthread_join(thread, &right);
    symmcoll_work_free(first);
    return say(right != NULL, "its end") &&
           say(atomic_load(&control()->strange) == 0, "one at a time");
}

/* Checks the order of calls: each sum uses the result of the one before. */
static int in_the_order_of_calls(struct symmcoll_group *group, int rank)
{
    float *at = device(rank), expected = 1;
    struct symmcoll_work *works[10] = {NULL};
    int right = opened(group, rank);

    at[0] = 1;
    for (int i = 0; i < 10 && right; i++) {
        right = say(symmcoll_all_reduce(group, at, at, 1, F32, SUM, NULL,
                        &works[i]) == SYMMCOLL_OK,
            "in place");
        expected *= (float)symmcoll_group_size(group);
    }
    for (int i = 0; i < 10 && right; i++) {
        right = say(symmcoll_work_wait(works[i], 60) == SYMMCOLL_OK, "its end");
        symmcoll_work_free(works[i]);
    }
    return right && say(at[0] == expected, "a chain of sums");
}

/* ---- calls without a work ---- */

static int returns_when_enqueued(struct symmcoll_group *group, int rank)
{
    float *at = device(rank);
    struct symmcoll_call call = label_of(1);
    int right = opened(group, rank);

    call.stream = at + 5;
    at[0] = 1;
    right =
        right &&
        say(symmcoll_all_reduce(group, at + 1, at, 1, F32, SUM, &call, NULL) ==
                SYMMCOLL_OK,
            "enqueued") &&
        say(atomic_load(&group->runner.queue->nrunning) == 1, "it runs") &&
        say(atomic_load(&control()->direct) > 0, "on the caller's stream") &&
        say(sum_host(group, rank) == SYMMCOLL_OK, "host, beside it") &&
        say(atomic_load(&group->runner.queue->nrunning) == 1, "it still runs");
    if (!right || !take_turn(group, rank, 1))
        return 0;
    return none_runs(group) && at[1] == (float)symmcoll_group_size(group);
}

/* Checks errors.blocking_wait: calls and waits return when the device has
 * completed, and no stream is ordered. */
static int blocks(struct symmcoll_group *group, int rank)
{
    float *at = device(rank);
    struct symmcoll_work *work = NULL;
    int right = opened(group, rank);

    for (int i = 0; i < 20 && right; i++) {
        right =
            say(sum_device(group, at, rank, NULL) == SYMMCOLL_OK &&
                    at[1] == expected_sum(group),
                "a call") &&
            say(sum_device(group, at, rank, &work) == SYMMCOLL_OK, "a work") &&
            say(symmcoll_work_wait(work, -1) == SYMMCOLL_OK &&
                    at[1] == expected_sum(group),
                "a wait");
        symmcoll_work_free(work);
        work = NULL;
    }
    return right && atomic_load(&control()->followed) == 0;
}

/* Checks that a captured operation has nothing left to test. */
static int captured(struct symmcoll_group *group, int rank)
{
    float *at = device(rank);
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_work *work = NULL;
    int right = opened(group, rank);

    call.label = "captured";
    right = right &&
            say(symmcoll_all_reduce(
                    group, at + 1, at, 1, F32, SUM, &call, NULL) == SYMMCOLL_OK,
                "a call") &&
            say(symmcoll_all_reduce(group, at + 1, at, 1, F32, SUM, &call,
                    &work) == SYMMCOLL_OK,
                "a work") &&
            say(symmcoll_work_wait(work, -1) == SYMMCOLL_OK, "a wait") &&
            say(symmcoll_work_wait(work, 60) == SYMMCOLL_OK, "its end");
    symmcoll_work_free(work);
    return right && atomic_load(&group->runner.queue->nrunning) == 0 &&
           all_is_given_back(group, rank);
}

/* ---- waits ---- */

static int wait_orders_the_stream(struct symmcoll_group *group, int rank)
{
    float *at = device(rank);
    struct symmcoll_call call = label_of(1);
    struct symmcoll_work *work = NULL;
    int right = opened(group, rank);

    call.stream = at + 5;
    at[0] = 1;
    right = right &&
            say(symmcoll_all_reduce(group, at + 1, at, 1, F32, SUM, &call,
                    &work) == SYMMCOLL_OK,
                "a work") &&
            say(symmcoll_work_test(work) == SYMMCOLL_IN_PROGRESS &&
                    symmcoll_work_wait(work, 0) == SYMMCOLL_ERR_TIMEOUT &&
                    symmcoll_work_wait(work, 0.001) == SYMMCOLL_ERR_TIMEOUT,
                "what blocks") &&
            say(symmcoll_work_wait(work, -1) == SYMMCOLL_OK, "what orders") &&
            say(symmcoll_work_test(work) == SYMMCOLL_IN_PROGRESS,
                "it has not ended") &&
            say(atomic_load(&control()->followed) > 0 &&
                    atomic_load(&control()->following) != NULL,
                "the stream follows");
    if (!right || !take_turn(group, rank, 1))
        return 0;
    right = say(symmcoll_work_wait(work, INFINITY) == SYMMCOLL_OK &&
                    at[1] == (float)symmcoll_group_size(group),
                "its end") &&
            say(symmcoll_work_wait(work, -1) == SYMMCOLL_OK, "once more");
    symmcoll_work_free(work);
    return right && atomic_load(&control()->marked) > 0 &&
           all_is_given_back(group, rank);
}

/* Another thread that ends the same works. */
struct other {
    struct symmcoll_work *work;
    _Atomic int wanted;
    _Atomic int stops;
};

static void *end_works(void *arg)
{
    struct other *other = arg;

    while (!atomic_load(&other->stops)) {
        if (!atomic_load(&other->wanted)) {
            sched_yield();
            continue;
        }
        if (symmcoll_work_wait(other->work, 60) != SYMMCOLL_OK)
            abort();
        atomic_store(&other->wanted, 0);
    }
    return NULL;
}

/* Ends a token on another thread while the stream is ordered after it; with
 * `held` most likely when this thread has just seen that it has not ended. */
static int order_and_end(struct symmcoll_group *group, int rank,
    struct other *other, float *at, bool held)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    int right;

    call.label = held ? "held" : NULL;
    at[0] = (float)rank + 1;
    atomic_store(&control()->held, 0);
    right = say(symmcoll_all_reduce(group, at + 1, at, 1, F32, SUM, &call,
                    &other->work) == SYMMCOLL_OK,
        "a work");
    if (!right)
        return 0;
    atomic_store(&other->wanted, 1);
    while (held && !atomic_load(&control()->held))
        sched_yield();
    atomic_store(&control()->held, 2);
    for (int k = 0; k < 3 && right; k++)
        right =
            say(symmcoll_work_wait(other->work, -1) == SYMMCOLL_OK, "a wait");
    while (atomic_load(&other->wanted))
        sched_yield();
    symmcoll_work_free(other->work);
    return right && at[1] == expected_sum(group);
}

static int wait_beside_the_end(struct symmcoll_group *group, int rank)
{
    struct other other = {.work = NULL};
    bool alone = !group->world->threads;
    float *at = device(rank);
    pthread_t thread;
    int right = opened(group, rank);

    if (!right || pthread_create(&thread, NULL, end_works, &other) != 0)
        return 0;
    for (int i = 0; i < 300 && right; i++)
        right = order_and_end(group, rank, &other, at, alone && i % 10 == 0);
    atomic_store(&other.stops, 1);
    pthread_join(thread, NULL);
    return right &&
           say(atomic_load(&control()->strange) == 0, "no rule broken");
}

/* Checks that the wait for a barrier on a device waits for the device. */
static int barrier_blocks(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = label_of(1);
    struct symmcoll_work *work = NULL;
    int right, started;

    atomic_store(&control()->barriers, 1);
    right = opened(group, rank);
    if (!right || sum_host(group, rank) != SYMMCOLL_OK)
        return 0;
    started = atomic_load(&control()->started);
    right =
        say(symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK, "one") &&
        say(atomic_load(&group->runner.queue->nrunning) == 0 &&
                atomic_load(&control()->started) > started,
            "it has ended") &&
        say(symmcoll_barrier(group, &call, &work) == SYMMCOLL_OK, "two") &&
        say(symmcoll_work_wait(work, 0) == SYMMCOLL_ERR_TIMEOUT, "it has not");
    if (!right || !take_turn(group, rank, 1))
        return 0;
    right = say(symmcoll_work_wait(work, -1) == SYMMCOLL_OK &&
                    symmcoll_work_sequence(work) > 0,
        "the wait");
    symmcoll_work_free(work);
    return right && atomic_load(&control()->followed) == 0;
}

/* Checks that a barrier without a device runs on the host, also after
 * operations on a device. */
static int barrier_of_the_host(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *work = NULL;
    int right = opened(group, rank);

    for (int i = 0; i < 3 && right; i++) {
        right = say(symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK &&
                        symmcoll_barrier(group, NULL, &work) == SYMMCOLL_OK &&
                        symmcoll_work_wait(work, -1) == SYMMCOLL_OK,
            "a barrier");
        symmcoll_work_free(work);
    }
    return right && all_is_given_back(group, rank);
}

/* ---- place of the memory ---- */

static int another_device(struct symmcoll_group *group, int rank)
{
    float *at = device(rank);
    float *far = (float *)(void *)(control()->memory + FAKE_NBYTES / 2) +
                 (size_t)rank * ROOM;
    struct symmcoll_work *work = NULL;
    int right = opened(group, rank);
    uint64_t before = symmcoll_group_sequence(group);

    return right &&
           ended(sum_device(group, far, rank, NULL), SYMMCOLL_ERR_INVALID,
               "expected memory of device 0, as in earlier operations of "
               "group ") &&
           ended(sum_device(group, far, rank, &work), SYMMCOLL_ERR_INVALID,
               "found device 1") &&
           symmcoll_group_sequence(group) == before && work == NULL &&
           say(sum_device(group, at, rank, NULL) == SYMMCOLL_OK, "after it");
}

/* Checks that a call without a stream uses the group's. */
static int current_stream(struct symmcoll_group *group, int rank)
{
    static char streams[2];
    float *at = device(rank), host[2] = {1, 0};
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_work *work = NULL;
    int right =
        opened(group, rank) && say(symmcoll_group_stream(group) == NULL &&
                                       atomic_load(&control()->stream) == NULL,
                                   "none at first");

    right = right && sum_host(group, rank) == SYMMCOLL_OK &&
            say(symmcoll_group_set_stream(group, &streams[0]) == SYMMCOLL_OK &&
                    symmcoll_group_stream(group) == &streams[0],
                "set") &&
            say(sum_device(group, at, rank, NULL) == SYMMCOLL_OK &&
                    atomic_load(&control()->stream) == &streams[0],
                "a call") &&
            say(sum_device(group, at + 2, rank, &work) == SYMMCOLL_OK &&
                    symmcoll_work_wait(work, 60) == SYMMCOLL_OK &&
                    atomic_load(&control()->stream) == &streams[0],
                "a work") &&
            sum_host(group, rank) == SYMMCOLL_OK;
    symmcoll_work_free(work);
    call.stream = &streams[1];
    return right &&
           say(symmcoll_all_reduce(group, at + 5, at + 4, 1, F32, SUM, &call,
                   NULL) == SYMMCOLL_OK &&
                   atomic_load(&control()->stream) == &streams[1],
               "a stream of its own") &&
           say(symmcoll_all_reduce(group, host + 1, host, 1, F32, SUM, NULL,
                   NULL) == SYMMCOLL_OK,
               "none of host memory") &&
           sum_host(group, rank) == SYMMCOLL_OK &&
           say(symmcoll_group_set_stream(group, NULL) == SYMMCOLL_OK &&
                   sum_device(group, at + 6, rank, NULL) == SYMMCOLL_OK &&
                   atomic_load(&control()->stream) == NULL,
               "back") &&
           ended(symmcoll_group_set_stream(NULL, NULL), SYMMCOLL_ERR_INVALID,
               "group_set_stream: expected a group, found NULL") &&
           symmcoll_group_stream(NULL) == NULL;
}

/* Checks that the mark of an operation which is not started is returned. */
static int marks(struct symmcoll_group *group, int rank)
{
    float *at = device(rank), *out = at + 8;
    struct symmcoll_work *work = NULL;
    int right = opened(group, rank);

    for (int i = 0; i < 10 && right; i++) {
        right = say(symmcoll_all_reduce(group, out, at, rank == 0 ? 2 : 3, F32,
                        SUM, NULL, &work) == SYMMCOLL_OK,
                    "a work") &&
                ended(symmcoll_work_wait(work, -1), SYMMCOLL_ERR_MISMATCH,
                    "count differs");
        symmcoll_work_free(work);
    }
    if (!right || !all_is_given_back(group, rank))
        return 0;
    right = say(sum_device(group, at, rank, &work) == SYMMCOLL_OK &&
                    symmcoll_work_wait(work, 60) == SYMMCOLL_OK,
        "after it");
    symmcoll_work_free(work);
    return right;
}

int main(void)
{
    use_modules_of_tests();
    for (int n = 2; n <= 4; n++) {
        on_both(n, several_end_in_any_order,
            "several run beside host operations, and end in any order");
        on_both(n, in_the_order_of_calls, "they start in the order of calls");
    }
    on_both(2, many, "a hundred run at once, and are recorded");
    on_both(2, tested_while_others_start,
        "the backend is in one call of a device at a time");
    on_both(3, returns_when_enqueued,
        "a call without a work returns when it has been enqueued");
    on_both(2, captured, "what is captured has ended with its start");
    on_both(2, wait_orders_the_stream,
        "W2 W4 a wait without a timeout orders the stream, one with it blocks");
    on_both(2, wait_beside_the_end, "a stream is ordered while works end");
    on_both(3, barrier_blocks, "W11 a wait for a barrier blocks the host");
    on_both(
        3, barrier_of_the_host, "a barrier that no device has is the host's");
    on_both(2, another_device, "a group is on one device of each rank");
    ok(ranks_run(2, current_stream), "a call without a stream has the group's");
    on_both(3, marks, "marks of what is not started are given back");
    setenv("SYMMCOLL_ERRORS_BLOCKING_WAIT", "on", 1);
    on_both(3, blocks, "W4 with errors.blocking_wait calls and waits block");
    return done_testing();
}
