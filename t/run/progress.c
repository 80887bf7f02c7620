/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the threads that progress queued and issued operations: one for each
 * group with running operations, and no more.
 */
#include "../tap.h"

#include "run/work.h"

#include <symmcoll.h>

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define QUEUES 40
#define PATIENT_NS (30 * SYMC_NS_PER_S)

/* A group with operations that end when its gate is open. */
struct gated {
    struct symc_runner runner;
    struct symmcoll_work *work;
    _Atomic int open;
    _Atomic int inside; /* operations that run */
};

static struct symc_engine *engine;
static struct gated all[QUEUES];

/* For each kind of threads that have called a backend: 1 if one has a smaller
 * stack than the system's default. */
static _Atomic int progress_small, attend_small;
static _Atomic int progress_seen, attend_seen;

static void note_stack(void)
{
    char name[16] = "";
    pthread_attr_t mine, usual;
    size_t found = 0, expected = 0;
    bool attends;

    (void)pthread_getname_np(pthread_self(), name, sizeof(name));
    attends = strcmp(name, "symc-attend") == 0;
    if (!attends && strcmp(name, "symc-progress") != 0)
        return;
    pthread_getattr_np(pthread_self(), &mine);
    pthread_attr_getstacksize(&mine, &found);
    pthread_attr_destroy(&mine);
    pthread_attr_init(&usual);
    pthread_attr_getstacksize(&usual, &expected);
    pthread_attr_destroy(&usual);
    atomic_store(attends ? &attend_seen : &progress_seen, 1);
    if (found < expected)
        atomic_store(attends ? &attend_small : &progress_small, 1);
}

static symmcoll_status_t start(void *state, const struct symc_op *op)
{
    struct gated *gated = state;

    (void)op;
    note_stack();
    atomic_fetch_add(&gated->inside, 1);
    while (atomic_load(&gated->open) == 0)
        sched_yield();
    atomic_fetch_sub(&gated->inside, 1);
    return SYMMCOLL_OK;
}

static bool issue(void *state, const struct symc_op *op)
{
    (void)state;
    (void)op;
    return true;
}

static symmcoll_status_t advance(
    void *state, const struct symc_op *op, enum symc_advance how)
{
    struct gated *gated = state;

    (void)op;
    (void)how;
    note_stack();
    return atomic_load(&gated->open) != 0 ? SYMMCOLL_OK : SYMMCOLL_IN_PROGRESS;
}

static void await_progress(
    void *state, const struct symc_op *op, struct symc_wait_budget *budget)
{
    struct gated *gated = state;

    (void)op;
    while (
        atomic_load(&gated->open) == 0 && symc_now_ns() < budget->deadline_ns)
        sched_yield();
}

static const struct symc_host_ops host = {.start = start,
    .issue = issue,
    .advance = advance,
    .await_progress = await_progress};
static const struct symc_backend backend = {.name = "gated", .host = &host};

/* Returns the number of threads of this process with a name. */
static int count_threads(const char *name)
{
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;
    int count = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char path[300], found[32] = "";
        FILE *file;

        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        file = fopen(path, "r");
        if (file != NULL && fscanf(file, "%31s", found) == 1 &&
            strcmp(found, name) == 0)
            count++;
        if (file != NULL)
            fclose(file);
    }
    if (dir != NULL)
        closedir(dir);
    return count;
}

/* Returns whether there are soon exactly `expected` threads of that name. */
static bool threads_become(const char *name, int expected)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    int64_t until = symc_now_ns() + PATIENT_NS;
    int found;

    while ((found = count_threads(name)) != expected && symc_now_ns() < until)
        nanosleep(&pause, NULL);
    if (found != expected)
        diag("expected %d threads %s, found %d", expected, name, found);
    return found == expected;
}

static bool open_runner(struct gated *gated)
{
    struct symc_runner *runner = &gated->runner;

    runner->size = 1;
    runner->slots[SYMC_MEMORY_HOST].backend = &backend;
    runner->slots[SYMC_MEMORY_HOST].state = gated;
    return symc_queue_create(runner, engine, &runner->queue) == SYMMCOLL_OK;
}

static void make_all(void)
{
    if (symc_engine_create(&engine) != SYMMCOLL_OK)
        exit(1);
    symc_waiting_init(&engine->origin.waiting, false, 50000, 300, 1000000);
    for (int i = 0; i < QUEUES; i++)
        if (!open_runner(&all[i]))
            exit(1);
}

static symmcoll_status_t submit(struct gated *gated)
{
    struct symc_op op = {.kind = SYMC_BARRIER, .timeout_ns = SYMC_NEVER};

    return symc_queue_submit(gated->runner.queue, &op, NULL, &gated->work);
}

/* Queues an operation: it is not issued while another one has the ticket. */
static symmcoll_status_t submit_behind(struct gated *gated)
{
    symmcoll_status_t status;
    uint64_t ticket;

    (void)symc_queue_enter(gated->runner.queue, NULL, &ticket);
    status = submit(gated);
    symc_queue_leave(gated->runner.queue, ticket);
    return status;
}

static bool end(struct gated *gated)
{
    bool right = symmcoll_work_wait(gated->work, -1) == SYMMCOLL_OK;

    symmcoll_work_free(gated->work);
    gated->work = NULL;
    return right;
}

/* Runs operations one after another: idle threads serve all of them. */
static bool idle_threads_are_used_again(void)
{
    bool right = true;

    for (int i = 0; i < QUEUES; i++) {
        atomic_store(&all[i].open, 1);
        right = right && submit_behind(&all[i]) == SYMMCOLL_OK && end(&all[i]);
        right = right && threads_become("symc-progress", 1);
        atomic_store(&all[i].open, 0);
    }
    return right;
}

/* Each operation waits for the next one, as if another rank ran them in the
 * opposite order. */
static bool none_waits_for_a_thread(void)
{
    int64_t until = symc_now_ns() + PATIENT_NS;
    bool right = true;

    for (int i = 0; i < QUEUES; i++)
        right = submit_behind(&all[i]) == SYMMCOLL_OK && right;
    for (int i = 0; i < QUEUES; i++)
        while (atomic_load(&all[i].inside) == 0 && symc_now_ns() < until)
            sched_yield();
    right = right && count_threads("symc-progress") == QUEUES;
    for (int i = QUEUES - 1; i >= 0; i--) {
        atomic_store(&all[i].open, 1);
        right = end(&all[i]) && right;
        atomic_store(&all[i].open, 0);
    }
    return right;
}

static void count_end(symmcoll_status_t status, void *arg)
{
    _Atomic int *ended = arg;

    if (status == SYMMCOLL_OK)
        atomic_fetch_add(ended, 1);
}

/* No thread waits for these works: they have a callback, or nothing at all. */
static bool one_thread_attends(void)
{
    _Atomic int ended = 0;
    int64_t until = symc_now_ns() + PATIENT_NS;
    bool right = true;

    for (int i = 0; i < QUEUES; i++)
        right =
            right && submit(&all[i]) == SYMMCOLL_OK && all[i].work->issued &&
            symmcoll_work_then(all[i].work, count_end, &ended) == SYMMCOLL_OK;
    for (int i = 0; i < QUEUES; i++) {
        symmcoll_work_free(all[i].work);
        atomic_store(&all[i].open, 1);
        while (atomic_load(&ended) < i + 1 && symc_now_ns() < until)
            sched_yield();
    }
    right = right && atomic_load(&ended) == QUEUES &&
            count_threads("symc-attend") == 1 &&
            count_threads("symc-progress") == 1;
    for (int i = 0; i < QUEUES; i++)
        atomic_store(&all[i].open, 0);
    return right;
}

/* Releases a queue while the attendant handles the others. */
static bool queues_leave_at_any_time(void)
{
    bool right = true;

    for (int i = 0; i < QUEUES; i++)
        right = right && submit(&all[i]) == SYMMCOLL_OK;
    for (int i = 0; i < QUEUES; i++)
        symmcoll_work_free(all[i].work);
    for (int i = 0; i < QUEUES; i++) {
        atomic_store(&all[i].open, 1);
        symc_queue_stop(all[i].runner.queue);
        right = right && symc_queue_is_over(all[i].runner.queue);
        symc_queue_close(all[i].runner.queue);
    }
    return right;
}

static bool nothing_is_left(void)
{
    bool right;

    symc_engine_stop(engine);
    right =
        threads_become("symc-attend", 0) && threads_become("symc-progress", 0);
    symc_engine_release(engine);
    return right;
}

int main(void)
{
    plan(7);
    make_all();
    ok(idle_threads_are_used_again(),
        "groups that queue one after another are served by one thread");
    ok(none_waits_for_a_thread(),
        "operations of as many groups run at once, each on a thread");
    ok(threads_become("symc-progress", 1),
        "threads that have nothing to do end, all but one");
    ok(one_thread_attends(), "one thread attends to what all groups issue");
    ok(queues_leave_at_any_time(),
        "a group is released while others are attended to");
    ok(nothing_is_left(), "no thread outlives its world");
    ok(atomic_load(&progress_seen) == 1 && atomic_load(&attend_seen) == 1 &&
            atomic_load(&progress_small) == 0 &&
            atomic_load(&attend_small) == 0,
        "threads that call backends, and so drivers, have the system's stack");
    return done_testing();
}
