/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the arguments of a work's callback, and the operations for which it
 * may wait.
 */
#include "../ranks.h"
#include "../tap.h"

#include "run/work.h"

#include <symmcoll.h>

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- arguments of the callback ---- */

struct told {
    _Atomic int calls;
    struct symmcoll_work *expected; /* NULL: another one */
    symmcoll_status_t status;
    int right;
};

static void await_calls(struct told *told, int n)
{
    while (atomic_load(&told->calls) < n)
        sched_yield();
}

static void ask_work(
    struct symmcoll_work *work, symmcoll_status_t status, void *arg)
{
    struct told *told = arg;
    const char *detail = symmcoll_work_error(work);

    told->right =
        work == told->expected && status == told->status &&
        symmcoll_work_sequence(work) == 1 &&
        symmcoll_work_test(work) == status &&
        symmcoll_work_wait(work, -1) == status &&
        (status == SYMMCOLL_OK ? detail[0] == '\0'
                               : strstr(detail, "count differs") != NULL);
    atomic_fetch_add(&told->calls, 1);
}

static void ask_detail(symmcoll_status_t status, void *arg)
{
    struct told *told = arg;

    told->right = status == told->status &&
                  strstr(symmcoll_last_error(), "count differs") != NULL;
    atomic_fetch_add(&told->calls, 1);
}

/* The handle is released first: the callback has its own reference. */
static int a_callback_is_given_its_work(struct symmcoll_group *group, int rank)
{
    struct told told = {.status = SYMMCOLL_OK};

    (void)rank;
    if (symmcoll_barrier(group, NULL, &told.expected) != SYMMCOLL_OK ||
        symmcoll_work_notify(told.expected, ask_work, &told) != SYMMCOLL_OK)
        return 0;
    symmcoll_work_free(told.expected);
    await_calls(&told, 1);
    return told.right;
}

static int a_callback_is_given_the_detail(
    struct symmcoll_group *group, int rank)
{
    struct told told = {.status = SYMMCOLL_ERR_MISMATCH}, plain = told;
    int values[2] = {0};

    if (symmcoll_all_reduce(group, values, values, rank == 0 ? 1 : 2,
            SYMMCOLL_INT32, SYMMCOLL_SUM, NULL,
            &told.expected) != SYMMCOLL_OK ||
        symmcoll_work_notify(told.expected, ask_work, &told) != SYMMCOLL_OK ||
        symmcoll_work_then(told.expected, ask_detail, &plain) != SYMMCOLL_OK)
        return 0;
    await_calls(&told, 1);
    await_calls(&plain, 1);
    symmcoll_work_free(told.expected);
    return told.right && plain.right;
}

static int wrong_use(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *work;
    int right;

    (void)rank;
    if (symmcoll_barrier(group, NULL, &work) != SYMMCOLL_OK)
        return 0;
    right =
        symmcoll_work_notify(NULL, ask_work, NULL) == SYMMCOLL_ERR_INVALID &&
        symmcoll_work_notify(work, NULL, NULL) == SYMMCOLL_ERR_INVALID &&
        strstr(symmcoll_last_error(), "work_notify: ") != NULL &&
        symmcoll_work_wait(work, -1) == SYMMCOLL_OK;
    symmcoll_work_free(work);
    return right;
}

/* ---- permitted waits: two groups of one world ---- */

/* An operation with the root's number ends when its gate is open. */
struct gate {
    _Atomic int open;
    struct symc_runner runner;
};

static symmcoll_status_t pass_gate(void *state, const struct symc_op *op)
{
    struct gate *gate = state;

    while (atomic_load(&gate->open) < op->root)
        sched_yield();
    return SYMMCOLL_OK;
}

static const struct symc_host_ops host = {.start = pass_gate};
static const struct symc_backend backend = {.name = "gate", .host = &host};

static bool open_runner(struct gate *gate, struct symc_engine *engine)
{
    struct symc_runner *runner = &gate->runner;

    runner->size = 1;
    runner->slots[SYMC_MEMORY_HOST].backend = &backend;
    runner->slots[SYMC_MEMORY_HOST].state = gate;
    return symc_queue_create(runner, engine, &runner->queue) == SYMMCOLL_OK;
}

struct waiting {
    struct gate *other_gate;
    struct symmcoll_work *own, *earlier, *later, *other;
    symmcoll_status_t on_own, on_earlier, on_later, on_other, test_later;
    char refusal[SYMC_DETAIL_MAX];
    _Atomic int done;
};

static void wait_in_callback(
    struct symmcoll_work *work, symmcoll_status_t status, void *arg)
{
    struct waiting *waiting = arg;

    (void)status;
    waiting->on_own = symmcoll_work_wait(work, -1);
    waiting->on_earlier = symmcoll_work_wait(waiting->earlier, -1);
    waiting->on_later = symmcoll_work_wait(waiting->later, -1);
    strcpy(waiting->refusal, symmcoll_last_error());
    waiting->test_later = symmcoll_work_test(waiting->later);
    waiting->on_other = symmcoll_work_wait(waiting->other, 0.01);
    if (waiting->on_other == SYMMCOLL_ERR_TIMEOUT) {
        atomic_store(&waiting->other_gate->open, 1);
        waiting->on_other = symmcoll_work_wait(waiting->other, -1);
    }
    atomic_store(&waiting->done, 1);
}

static symmcoll_status_t submit(
    struct gate *gate, int least, struct symmcoll_work **work)
{
    struct symc_op op = {.kind = SYMC_BARRIER, .root = least};

    return symc_queue_submit(gate->runner.queue, &op, NULL, work);
}

static void callbacks_wait(void)
{
    static struct gate gates[2];
    struct waiting waiting = {.other_gate = &gates[1]};
    struct symc_engine *engine;

    if (symc_engine_create(&engine) != SYMMCOLL_OK)
        exit(1);
    symc_waiting_init(&engine->origin.waiting, false, 50000, 300, 1000000);
    for (int i = 0; i < 2; i++)
        if (!open_runner(&gates[i], engine))
            exit(1);
    if (submit(&gates[0], 0, &waiting.earlier) != SYMMCOLL_OK ||
        submit(&gates[0], 1, &waiting.own) != SYMMCOLL_OK ||
        submit(&gates[0], 2, &waiting.later) != SYMMCOLL_OK ||
        submit(&gates[1], 1, &waiting.other) != SYMMCOLL_OK ||
        symmcoll_work_notify(waiting.own, wait_in_callback, &waiting) !=
            SYMMCOLL_OK)
        exit(1);
    atomic_store(&gates[0].open, 1);
    while (atomic_load(&waiting.done) == 0)
        sched_yield();
    ok(waiting.on_own == SYMMCOLL_OK && waiting.on_earlier == SYMMCOLL_OK,
        "a callback may wait for its own work and for earlier ones");
    ok(waiting.on_later == SYMMCOLL_ERR_INVALID &&
            strstr(waiting.refusal, "later barrier of the same group") &&
            waiting.test_later == SYMMCOLL_IN_PROGRESS,
        "for a later one of its group it is refused, and may ask");
    ok(waiting.on_other == SYMMCOLL_OK,
        "for one of another group it waits, with a timeout or without");
    atomic_store(&gates[0].open, 2);
    for (int i = 0; i < 2; i++)
        symc_queue_stop(gates[i].runner.queue);
    symc_engine_stop(engine);
    symmcoll_work_free(waiting.earlier);
    symmcoll_work_free(waiting.own);
    symmcoll_work_free(waiting.later);
    symmcoll_work_free(waiting.other);
    for (int i = 0; i < 2; i++)
        symc_queue_close(gates[i].runner.queue);
    symc_engine_release(engine);
}

static void both(int n, rank_fn body, const char *sentence)
{
    ok(ranks_run(n, body), "%s (ranks: %d as processes)", sentence, n);
    ok(threads_run(n, body), "%s (ranks: %d as threads)", sentence, n);
}

/* ---- cache lines that waiting threads read ---- */

#define ENGINES 16

static bool are_in_lines_of_their_own(void)
{
    struct symc_engine *engines[ENGINES];
    bool right = true;

    for (int i = 0; i < ENGINES; i++) {
        if (symc_engine_create(&engines[i]) != SYMMCOLL_OK)
            return false;
        right = (uintptr_t)engines[i] % SYMC_FALSE_SHARING == 0 && right;
    }
    for (int i = 0; i < ENGINES; i++) {
        symc_callbacks_stop(&engines[i]->callbacks);
        symc_engine_release(engines[i]);
    }
    return right;
}

int main(void)
{
    plan(10);
    both(2, a_callback_is_given_its_work,
        "a callback is given its work, which may have been released");
    both(2, a_callback_is_given_the_detail,
        "a callback of a failed work finds the detail");
    both(2, wrong_use, "notify without a work or a function is INVALID");
    callbacks_wait();
    ok(are_in_lines_of_their_own(),
        "what waiting threads read is in lines of its own");
    return done_testing();
}
