/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests works: waiting, testing, releasing, callbacks; and the order of a
 * group's operations, queued and blocking ones mixed. outlive.c tests works
 * after the end of their world.
 */
#include "../ranks.h"
#include "../tap.h"

#include <symmcoll.h>

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MANY 50

static symmcoll_status_t sum(
    struct symmcoll_group *group, int64_t *value, struct symmcoll_work **work)
{
    return symmcoll_all_reduce(
        group, value, value, 1, SYMMCOLL_INT64, SYMMCOLL_SUM, NULL, work);
}

static bool barrier(struct symmcoll_group *group)
{
    return symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
}

static int wait_returns_the_result(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    struct symmcoll_work *work = NULL;
    int64_t value = rank + 1;

    if (sum(group, &value, &work) != SYMMCOLL_OK || work == NULL)
        return 0;
    bool right = symmcoll_work_wait(work, -1) == SYMMCOLL_OK &&
                 value == size * (size + 1) / 2 &&
                 symmcoll_work_wait(work, 0) == SYMMCOLL_OK &&
                 symmcoll_work_test(work) == SYMMCOLL_OK &&
                 symmcoll_work_error(work)[0] == '\0' &&
                 symmcoll_work_sequence(work) == 1;
    symmcoll_work_free(work);
    return right;
}

/* The number of ranks that have done their part, in memory shared by
 * processes. */
static _Atomic int *done;

static void await_done(int ranks)
{
    while (atomic_load(done) < ranks)
        usleep(1000);
}

/* Rank 0 keeps the others waiting until they have tested. */
static int an_expired_wait_leaves_it_running(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *work;
    int64_t value = 1;
    bool right = true;

    if (rank == 0)
        await_done(symmcoll_group_size(group) - 1);
    if (sum(group, &value, &work) != SYMMCOLL_OK)
        return 0;
    if (rank != 0) {
        right = symmcoll_work_test(work) == SYMMCOLL_IN_PROGRESS &&
                symmcoll_work_wait(work, 0) == SYMMCOLL_ERR_TIMEOUT &&
                symmcoll_work_wait(work, 0.01) == SYMMCOLL_ERR_TIMEOUT &&
                strstr(symmcoll_last_error(), "it goes on") != NULL &&
                symmcoll_work_test(work) == SYMMCOLL_IN_PROGRESS &&
                symmcoll_work_error(work)[0] == '\0';
        atomic_fetch_add(done, 1);
    }
    right = symmcoll_work_wait(work, 60) == SYMMCOLL_OK && right &&
            value == symmcoll_group_size(group) &&
            symmcoll_group_error(group) == SYMMCOLL_OK;
    symmcoll_work_free(work);
    return right;
}

/* Checks the operation's own TIMEOUT: rank 0 calls after the operation has
 * failed. */
static int its_own_timeout_is_known(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_work *work;
    int64_t value = 1;
    bool right;

    if (rank == 0) {
        await_done(symmcoll_group_size(group) - 1);
        return sum(group, &value, NULL) < 0;
    }
    call.timeout = 0.01;
    if (symmcoll_all_reduce(group, &value, &value, 1, SYMMCOLL_INT64,
            SYMMCOLL_SUM, &call, &work) != SYMMCOLL_OK)
        return 0;
    right = symmcoll_work_wait(work, 60) == SYMMCOLL_ERR_TIMEOUT &&
            symmcoll_work_test(work) == SYMMCOLL_ERR_TIMEOUT &&
            symmcoll_work_error(work)[0] != '\0' &&
            strstr(symmcoll_work_error(work), "it goes on") == NULL;
    symmcoll_work_free(work);
    atomic_fetch_add(done, 1);
    return right;
}

static int freed_work_goes_on(struct symmcoll_group *group, int rank)
{
    int64_t values[MANY];
    bool right = true;

    for (int i = 0; right && i < MANY; i++) {
        struct symmcoll_work *work;

        values[i] = i + rank;
        right = sum(group, &values[i], &work) == SYMMCOLL_OK;
        symmcoll_work_free(work);
    }
    symmcoll_work_free(NULL);
    right = right && barrier(group); /* its ticket is after theirs */
    for (int i = 0; right && i < MANY; i++) {
        int size = symmcoll_group_size(group);

        right = values[i] == (int64_t)size * i + size * (size - 1) / 2;
    }
    return right;
}

/* Mixes queued and blocking operations on one value: each changes it in the
 * order of the calls. */
static int calls_run_in_order(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *works[MANY];
    int64_t size = symmcoll_group_size(group), expected = 1, value = 1;
    bool right = true;

    for (int i = 0; right && i < MANY; i++) {
        right = sum(group, &value, &works[i]) == SYMMCOLL_OK;
        if (i % 7 == 3)
            right = right && sum(group, &value, NULL) == SYMMCOLL_OK;
    }
    for (int i = 0; i < MANY + MANY / 7; i++)
        expected = (int64_t)((uint64_t)expected * (uint64_t)size);
    /* Freed from both ends, one of them waited for. */
    for (int i = 0; right && i < MANY; i++) {
        struct symmcoll_work *work = works[i % 2 ? MANY - 1 - i / 2 : i / 2];

        if (i == MANY - 1)
            right = symmcoll_work_wait(work, 60) == SYMMCOLL_OK;
        symmcoll_work_free(work);
    }
    right = right && barrier(group) && value == expected &&
            symmcoll_group_sequence(group) == MANY + MANY / 7 + 1;
    (void)rank;
    return right;
}

/* ---- several threads of a rank ---- */

struct caller {
    pthread_t thread;
    struct symmcoll_group *group;
    bool right;
};

static void *call_often(void *arg)
{
    struct caller *caller = arg;
    int size = symmcoll_group_size(caller->group);

    caller->right = true;
    for (int i = 0; caller->right && i < 300; i++) {
        struct symmcoll_work *work = NULL;
        int64_t value = 3;

        /* All calls are alike, so any of them may match. */
        caller->right =
            sum(caller->group, &value, i % 5 == 0 ? &work : NULL) ==
                SYMMCOLL_OK &&
            (work == NULL || symmcoll_work_wait(work, 60) == SYMMCOLL_OK) &&
            value == 3 * size;
        symmcoll_work_free(work);
    }
    return NULL;
}

static int threads_run_in_order(struct symmcoll_group *group, int rank)
{
    struct caller callers[4];
    bool right = true;

    (void)rank;
    for (int i = 0; i < 4; i++) {
        callers[i].group = group;
        if (pthread_create(&callers[i].thread, NULL, call_often, &callers[i]) !=
            0)
            return 0;
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(callers[i].thread, NULL);
        right = right && callers[i].right;
    }
    return right && symmcoll_group_sequence(group) == 4 * 300;
}

/* ---- callbacks ---- */

struct notes {
    struct symmcoll_group *group;
    struct symmcoll_work *other; /* a work in flight */
    int order[8];
    _Atomic int count;
    int64_t value;
    struct symmcoll_work *started;
    bool right;
};

struct note {
    struct notes *notes;
    int number;
};

static void take_note(symmcoll_status_t status, void *arg)
{
    struct note *note = arg;
    struct notes *notes = note->notes;

    if (status != SYMMCOLL_OK)
        notes->right = false;
    notes->order[atomic_load(&notes->count)] = note->number;
    atomic_fetch_add(&notes->count, 1);
}

static bool await_notes(struct notes *notes, int count)
{
    for (int i = 0; i < 60000 && atomic_load(&notes->count) < count; i++)
        usleep(1000);
    return atomic_load(&notes->count) == count;
}

static int callbacks_come_in_order(struct symmcoll_group *group, int rank)
{
    struct notes notes = {.right = true};
    struct note all[5] = {
        {&notes, 0}, {&notes, 1}, {&notes, 2}, {&notes, 3}, {&notes, 4}};
    struct symmcoll_work *first, *second;
    int64_t a = 1, b = 2;

    /* The other ranks join before the end. */
    if (rank == 0)
        await_done(symmcoll_group_size(group) - 1);
    if (sum(group, &a, &first) != SYMMCOLL_OK ||
        symmcoll_work_then(first, take_note, &all[0]) != SYMMCOLL_OK ||
        symmcoll_work_then(first, take_note, &all[1]) != SYMMCOLL_OK)
        return 0;
    if (rank != 0)
        atomic_fetch_add(done, 1);
    if (sum(group, &b, &second) != SYMMCOLL_OK ||
        symmcoll_work_then(second, take_note, &all[2]) != SYMMCOLL_OK ||
        symmcoll_work_wait(second, 60) != SYMMCOLL_OK)
        return 0;
    /* After the end: at once. */
    bool right =
        symmcoll_work_then(second, take_note, &all[3]) == SYMMCOLL_OK &&
        await_notes(&notes, 4);
    for (int i = 0; i < 4; i++)
        right = right && notes.order[i] == i;
    symmcoll_work_free(first);
    symmcoll_work_free(second);
    return right && notes.right;
}

static void call_from_callback(symmcoll_status_t status, void *arg)
{
    struct notes *notes = arg;
    int64_t value = 1;

    notes->right =
        status == SYMMCOLL_OK &&
        symmcoll_barrier(notes->group, NULL, NULL) == SYMMCOLL_ERR_INVALID &&
        strstr(symmcoll_last_error(), "callback thread") != NULL &&
        sum(notes->group, &value, NULL) == SYMMCOLL_ERR_INVALID &&
        symmcoll_work_wait(notes->other, 10) == SYMMCOLL_ERR_INVALID &&
        sum(notes->group, &notes->value, &notes->started) == SYMMCOLL_OK;
    atomic_fetch_add(&notes->count, 1);
}

/* Checks that a callback may start work, but not block. The second work cannot
 * end before the callback of the first has run, because the last rank is
 * late. */
static int callbacks_may_start_work(struct symmcoll_group *group, int rank)
{
    struct notes notes = {.group = group, .value = rank, .right = true};
    struct symmcoll_work *first;
    int64_t a = 1, b = 1;
    int size = symmcoll_group_size(group);

    if (rank == size - 1) {
        if (sum(group, &a, NULL) != SYMMCOLL_OK)
            return 0;
        await_done(size - 1);
        return sum(group, &b, NULL) == SYMMCOLL_OK &&
               sum(group, &notes.value, NULL) == SYMMCOLL_OK &&
               atomic_load(done) == size - 1 &&
               notes.value == size * (size - 1) / 2;
    }
    if (sum(group, &a, &first) != SYMMCOLL_OK ||
        sum(group, &b, &notes.other) != SYMMCOLL_OK ||
        symmcoll_work_then(first, call_from_callback, &notes) != SYMMCOLL_OK)
        return 0;
    if (!await_notes(&notes, 1))
        return 0;
    atomic_fetch_add(done, 1);
    bool right = notes.right &&
                 symmcoll_work_wait(notes.started, 60) == SYMMCOLL_OK &&
                 symmcoll_work_wait(notes.other, 60) == SYMMCOLL_OK &&
                 notes.value == size * (size - 1) / 2;
    symmcoll_work_free(first);
    symmcoll_work_free(notes.other);
    symmcoll_work_free(notes.started);
    return right;
}

/* ---- wrong use, and the end ---- */

static int wrong_use_is_told(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *work;
    int64_t value = rank;

    if (sum(group, &value, &work) != SYMMCOLL_OK)
        return 0;
    bool right =
        symmcoll_work_wait(NULL, 1) == SYMMCOLL_ERR_INVALID &&
        symmcoll_work_test(NULL) == SYMMCOLL_ERR_INVALID &&
        symmcoll_work_then(NULL, take_note, NULL) == SYMMCOLL_ERR_INVALID &&
        symmcoll_work_then(work, NULL, NULL) == SYMMCOLL_ERR_INVALID &&
        symmcoll_work_wait(work, (double)NAN) == SYMMCOLL_ERR_INVALID &&
        symmcoll_work_sequence(NULL) == 0 &&
        symmcoll_work_error(NULL)[0] == '\0' &&
        symmcoll_work_wait(work, (double)INFINITY) == SYMMCOLL_OK;
    symmcoll_work_free(work);
    return right;
}

/* Checks that operations which are queued when a rank finalizes are still
 * executed. */
static int64_t left_over[64];

static int finalize_empties_the_queue(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *work;

    left_over[rank] = 5;
    if (sum(group, &left_over[rank], &work) != SYMMCOLL_OK)
        return 0;
    symmcoll_work_free(work);
    return 1;
}

/* ---- errors.blocking_wait ---- */

/* arg: whether the operation is a barrier, not a sum. */
static int expired_wait_fails_the_group(int rank, int size, void *arg)
{
    struct symmcoll_world *world;
    struct symmcoll_group *group;
    struct symmcoll_work *work = NULL;
    int64_t value = 1;
    bool right = true;

    (void)size;
    setenv("SYMMCOLL_ERRORS_BLOCKING_WAIT", "on", 1);
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    group = symmcoll_world_group(world);
    right = barrier(group);
    if (rank == 0) { /* comes too late */
        while (symmcoll_group_error(group) == SYMMCOLL_OK)
            usleep(1000);
        right = right && sum(group, &value, NULL) < 0;
    } else {
        symmcoll_status_t status = arg != NULL
                                       ? symmcoll_barrier(group, NULL, &work)
                                       : sum(group, &value, &work);

        right = right && status == SYMMCOLL_OK &&
                symmcoll_work_wait(work, 0.05) == SYMMCOLL_ERR_TIMEOUT &&
                strstr(symmcoll_last_error(), "blocking_wait") != NULL;
        symmcoll_work_free(work);
    }
    right = right && symmcoll_group_error(group) == SYMMCOLL_ERR_TIMEOUT &&
            sum(group, &value, NULL) == SYMMCOLL_ERR_ABORTED && value == 1;
    if (!right)
        diag("rank %d: %s", rank, symmcoll_last_error());
    return symmcoll_finalize(world) == SYMMCOLL_OK && right ? 0 : 1;
}

static bool pair_ends_well(raw_rank_fn body, void *arg)
{
    int statuses[2] = {0};

    return ranks_spawn(2, body, arg, statuses) && statuses[0] == 0 &&
           statuses[1] == 0;
}

static void both(int n, rank_fn body, const char *sentence)
{
    atomic_store(done, 0);
    ok(ranks_run(n, body), "%s (ranks: %d as processes)", sentence, n);
    atomic_store(done, 0);
    ok(threads_run(n, body), "%s (ranks: %d as threads)", sentence, n);
}

int main(void)
{
    done = mmap(
        NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (done == MAP_FAILED)
        skip_all("no shared memory");
    both(1, wait_returns_the_result, "a wait returns the result");
    both(3, wait_returns_the_result, "a wait returns the result");
    both(3, an_expired_wait_leaves_it_running,
        "a wait that expires leaves the work running");
    both(2, its_own_timeout_is_known,
        "a work whose own time has passed has ended, and says so");
    both(3, freed_work_goes_on, "work freed before its end goes on");
    both(2, calls_run_in_order,
        "queued and blocking operations run in the order of the calls");
    both(3, threads_run_in_order,
        "threads of a rank run their operations one after another");
    both(3, callbacks_come_in_order, "callbacks come in order, late ones too");
    both(2, callbacks_may_start_work,
        "a callback may start work, and not block");
    both(2, wrong_use_is_told, "wrong use is INVALID");
    both(3, finalize_empties_the_queue, "finalize waits for what is queued");
    ok(pair_ends_well(expired_wait_fails_the_group, NULL),
        "with errors.blocking_wait an expired wait fails the group on all");
    ok(pair_ends_well(expired_wait_fails_the_group, (void *)"barrier"),
        "so does an expired wait for a barrier");
    return done_testing();
}
