/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a group that is released while another thread of the rank waits in a
 * call of it. The linker makes the library call the wrappers here, which
 * record when a thread waits, and act when the release waits for it.
 */
#include "group/group.h"
#include "symm_mem/symm_mem.h"
#include "t/symm_mem/symm.h"
#include "t/world/faults.h"

#include <pthread.h>
#include <stdlib.h>

enum symc_wait_end __real_symc_run_wait_until(struct symc_runner *runner,
    int member, bool (*ready)(void *arg), void *arg,
    struct symc_wait_budget *budget);
enum symc_wait_end __wrap_symc_run_wait_until(struct symc_runner *runner,
    int member, bool (*ready)(void *arg), void *arg,
    struct symc_wait_budget *budget);
bool __real_symc_group_drain_calls(
    struct symmcoll_group *group, int64_t deadline_ns);
bool __wrap_symc_group_drain_calls(
    struct symmcoll_group *group, int64_t deadline_ns);

enum call {
    WAIT_SIGNAL,
    PUT_SIGNAL,
    BARRIER,
    WAIT_VALUE,
    MATMUL,
    CALLS
};
static const char *const names[CALLS] = {"symm_wait_signal", "symm_put_signal",
    "symm_barrier", "symm_wait_value32", "wait_value32"};

/* A thread of rank 0 that waits for rank 1, or for itself. */
struct waiter {
    struct symmcoll_symm *handle;
    enum call call;
    int peer;
    pthread_t thread;
    symmcoll_status_t status;
    char detail[512];
};

static _Atomic(struct symmcoll_group *) watched; /* the released group */
static _Atomic bool inside;                      /* a thread waits */
static _Atomic(struct waiter *) helped; /* its event happens while the release
                                         * waits */
static _Atomic bool waited;             /* it did */
static _Atomic(struct waiter *) late;   /* it begins after the release has
                                         * waited */

enum symc_wait_end __wrap_symc_run_wait_until(struct symc_runner *runner,
    int member, bool (*ready)(void *arg), void *arg,
    struct symc_wait_budget *budget)
{
    struct symmcoll_group *group = atomic_load(&watched);

    if (group != NULL && runner == &group->runner)
        atomic_store(&inside, true);
    return __real_symc_run_wait_until(runner, member, ready, arg, budget);
}

static bool await_inside(void)
{
    double until = faults_now() + FAULTS_WAIT_MAX;

    while (!atomic_load(&inside) && faults_now() < until)
        faults_rest();
    return atomic_load(&inside);
}

static symmcoll_status_t multiply(struct symmcoll_symm *handle)
{
    float x[4] = {0}, y[4];
    struct symmcoll_tensor a = SYMMCOLL_TENSOR_SHAPE(x, SYMMCOLL_FLOAT32, 2, 2);
    struct symmcoll_tensor out =
        SYMMCOLL_TENSOR_SHAPE(y, SYMMCOLL_FLOAT32, 2, 2);

    return symmcoll_async_input_matmul(handle, 0, 1, 0, &a, &a, NULL, &out);
}

static symmcoll_status_t call(struct waiter *waiter)
{
    struct symmcoll_symm *handle = waiter->handle;
    symmcoll_status_t status;

    switch (waiter->call) {
    case WAIT_SIGNAL:
        return symmcoll_symm_wait_signal(handle, waiter->peer, 0, -1);
    case PUT_SIGNAL:
        status = symmcoll_symm_put_signal(handle, waiter->peer, 0, -1);
        return status == SYMMCOLL_OK
                   ? symmcoll_symm_put_signal(handle, waiter->peer, 0, -1)
                   : status;
    case BARRIER:
        return symmcoll_symm_barrier(handle, 0, -1);
    case WAIT_VALUE:
        return symmcoll_symm_wait_value32(handle, waiter->peer, 0, 1, -1);
    default:
        return multiply(handle);
    }
}

static void *run(void *arg)
{
    struct waiter *waiter = arg;

    waiter->status = call(waiter);
    snprintf(
        waiter->detail, sizeof(waiter->detail), "%s", symmcoll_last_error());
    return NULL;
}

static bool start(struct waiter *waiter)
{
    atomic_store(&inside, false);
    return HOLDS(pthread_create(&waiter->thread, NULL, run, waiter) == 0) &&
           HOLDS(await_inside());
}

bool __wrap_symc_group_drain_calls(
    struct symmcoll_group *group, int64_t deadline_ns)
{
    struct waiter *waiter;
    bool drained;

    if (group == atomic_load(&watched) && deadline_ns != SYMC_NEVER &&
        (waiter = atomic_exchange(&helped, NULL)) != NULL)
        waited = HOLDS(!__real_symc_group_drain_calls(group, 0)) &&
                 OK(symmcoll_symm_put_signal(waiter->handle, 0, 0, -1));
    drained = __real_symc_group_drain_calls(group, deadline_ns);
    if (group == atomic_load(&watched) && deadline_ns == SYMC_NEVER &&
        (waiter = atomic_exchange(&late, NULL)) != NULL)
        (void)start(waiter);
    return drained;
}

/* ---- a group ---- */

struct released {
    struct symmcoll_group *group;
    struct symmcoll_symm *handle;
    void *data;
};

static bool make(struct symmcoll_group *all, struct released *it)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;

    return OK(symmcoll_group_create(
               symmcoll_group_world(all), &args, &it->group)) &&
           join(it->group, 4096, &it->data, &it->handle) &&
           OK(symmcoll_symm_barrier(it->handle, 1, -1));
}

/* Rank 1 releases the group after rank 0. */
static bool leave(
    struct symmcoll_group *all, int rank, const struct released *it)
{
    symmcoll_status_t freed;

    if (!OK(symmcoll_barrier(all, NULL, NULL)))
        return false;
    freed = rank == 0 ? SYMMCOLL_OK : symmcoll_group_free(it->group);
    return OK(freed) && part(all, it->data, it->handle);
}

static int a_release_waits(struct symmcoll_group *all, int rank)
{
    struct waiter waiter = {.call = WAIT_SIGNAL, .peer = 0};
    struct released it;
    bool right = make(all, &it);

    waiter.handle = it.handle;
    if (right && rank == 0) {
        atomic_store(&watched, it.group);
        right = start(&waiter);
        atomic_store(&helped, &waiter);
        atomic_store(&waited, false);
        right = OK(symmcoll_group_free(it.group)) && right;
        pthread_join(waiter.thread, NULL);
        right = HOLDS(waiter.status == SYMMCOLL_OK) && HOLDS(waited) && right;
    }
    return leave(all, rank, &it) && right;
}

static int a_late_one_ends(struct symmcoll_group *all, int rank)
{
    bool right = true;

    for (enum call i = 0; right && i < MATMUL; i++) {
        struct waiter waiter = {.call = i, .peer = 1};
        struct released it;

        right = make(all, &it);
        waiter.handle = it.handle;
        if (right && rank == 0) {
            atomic_store(&watched, it.group);
            atomic_store(&late, &waiter);
            right = OK(symmcoll_group_free(it.group));
            pthread_join(waiter.thread, NULL);
            right = HOLDS(waiter.status == SYMMCOLL_ERR_INVALID) &&
                    HOLDS(strstr(waiter.detail, names[i]) != NULL) &&
                    HOLDS(strstr(waiter.detail, "has released it") != NULL) &&
                    right;
        }
        right = leave(all, rank, &it) && right;
    }
    return right;
}

static int a_release_cancels(struct symmcoll_group *all, int rank)
{
    bool right = true;

    for (enum call i = 0; right && i < CALLS; i++) {
        struct waiter waiter = {.call = i, .peer = 1};
        struct released it;

        right = make(all, &it);
        waiter.handle = it.handle;
        if (right && rank == 0) {
            atomic_store(&watched, it.group);
            right = start(&waiter) &&
                    groups_said(rank, symmcoll_group_free(it.group),
                        SYMMCOLL_ERR_TIMEOUT, "were canceled");
            pthread_join(waiter.thread, NULL);
            right = HOLDS(waiter.status == SYMMCOLL_ERR_CANCELED) &&
                    HOLDS(strstr(waiter.detail, names[i]) != NULL) && right;
        }
        right = leave(all, rank, &it) && right;
    }
    return right;
}

/* Sends signals to itself, none of which blocks, until the group is gone. */
static void *put_and_take(void *arg)
{
    struct waiter *waiter = arg;
    symmcoll_status_t status = SYMMCOLL_OK;

    while (status == SYMMCOLL_OK) {
        status = symmcoll_symm_put_signal(waiter->handle, 0, 0, -1);
        if (status == SYMMCOLL_OK)
            status = symmcoll_symm_wait_signal(waiter->handle, 0, 0, -1);
        atomic_store(&inside, true);
    }
    waiter->status = status;
    snprintf(
        waiter->detail, sizeof(waiter->detail), "%s", symmcoll_last_error());
    return NULL;
}

/* A sanitizer detects whether a call still reads the group after it was
 * freed. */
static int signals_meanwhile(struct symmcoll_group *all, int rank)
{
    bool right = true;

    for (int i = 0; right && i < 20; i++) {
        struct waiter waiter = {.peer = 0};
        const struct symmcoll_group *found;
        struct released it;

        right = make(all, &it);
        waiter.handle = it.handle;
        if (right && rank == 0) {
            found = symc_symm_group(it.handle);
            atomic_store(&inside, false);
            right = HOLDS(pthread_create(&waiter.thread, NULL, put_and_take,
                              &waiter) == 0) &&
                    HOLDS(await_inside()) && OK(symmcoll_group_free(it.group));
            pthread_join(waiter.thread, NULL);
            right = HOLDS(waiter.status == SYMMCOLL_ERR_INVALID) &&
                    HOLDS(strstr(waiter.detail, "released") != NULL) &&
                    HOLDS(symc_symm_group(it.handle) == NULL) &&
                    HOLDS(!symc_symm_is_stopped(found)) && right;
        }
        right = leave(all, rank, &it) && right;
    }
    return right;
}

/* ---- a world ---- */

/* arg: the call. */
static int finalize_while_one_waits(struct faults_rank *self)
{
    struct waiter waiter = {.call = *(const enum call *)self->arg, .peer = 1};
    void *data;

    if (!faults_init(self) || !join(self->group, 4096, &data, &waiter.handle) ||
        !OK(symmcoll_symm_barrier(waiter.handle, 1, -1)))
        return 1;
    if (self->rank == 1) {
        faults_pass(self, 1);
        symmcoll_symm_release(waiter.handle);
        return symmcoll_finalize(self->world) == SYMMCOLL_OK ? 0 : 1;
    }
    atomic_store(&watched, self->group);
    if (!start(&waiter))
        return 1;
    faults_note(self, symmcoll_finalize(self->world));
    pthread_join(waiter.thread, NULL);
    faults_note(self, symc_fail(waiter.status, "%s", waiter.detail));
    symmcoll_symm_release(waiter.handle);
    return 0;
}

static void a_finalize_cancels(void)
{
    bool right = true;

    for (enum call i = 0; i < CALLS; i++) {
        struct faults_job job;

        faults_start(&job, 2, finalize_while_one_waits, &i);
        faults_reap(&job, 0);
        faults_open(&job, 1);
        faults_reap(&job, 1);
        right = faults_said(faults_told(&job, 0, 0), SYMMCOLL_ERR_TIMEOUT,
                    "were canceled", NULL) &&
                faults_said(faults_told(&job, 0, 1), SYMMCOLL_ERR_CANCELED,
                    names[i], NULL) &&
                right;
        right = faults_finish(&job, 0) && right;
    }
    ok(right, "finalize() cancels, after timeouts.finalize, what waits");
}

int main(void)
{
    plan(9);
    faults_begin();
    groups_both(2, a_release_waits,
        "group_free() waits for a thread that waits for a signal");
    groups_both(2, a_late_one_ends,
        "a wait that begins while the group is released ends with INVALID");
    groups_both(2, signals_meanwhile,
        "signals that are put while a group is released end with INVALID");
    setenv("SYMMCOLL_TIMEOUTS_FINALIZE", "100ms", 1);
    groups_both(2, a_release_cancels,
        "group_free() cancels, after timeouts.finalize, what waits");
    a_finalize_cancels();
    faults_end();
    return done_testing();
}
