/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a group that is released while other threads of the rank use device
 * memory that it has joined. The linker makes the library call the wrappers
 * here, in which the other threads act when the release has reached that
 * point.
 */
#include "group/group.h"
#include "symm_mem/symm_mem.h"
#include "t/symm_mem/device.h"
#include "t/world/faults.h"

#include <pthread.h>
#include <unistd.h>

#define NBYTES 4096
#define ROUNDS 20

bool __real_symc_queue_await_running(
    struct symc_queue *queue, int64_t deadline_ns);
bool __wrap_symc_queue_await_running(
    struct symc_queue *queue, int64_t deadline_ns);
void __real_symc_queue_stop(struct symc_queue *queue);
void __wrap_symc_queue_stop(struct symc_queue *queue);
void __real_symc_queue_close(struct symc_queue *queue);
void __wrap_symc_queue_close(struct symc_queue *queue);
void __real_symc_group_cut(struct symmcoll_group *group);
void __wrap_symc_group_cut(struct symmcoll_group *group);

enum call {
    WAIT_SIGNAL,
    PUT_SIGNAL,
    BARRIER,
    WAIT_VALUE,
    PUT_DATA,
    GET_DATA,
    WRITE_VALUE,
    MEMSET,
    CALLS
};

/* Makes a call on rank 0, with itself as peer. */
static symmcoll_status_t call(struct joined *it, enum call which)
{
    char *other = it->data + NBYTES / 2;

    switch (which) {
    case WAIT_SIGNAL:
        return symmcoll_symm_wait_signal(it->handle, it->rank, 0, -1);
    case PUT_SIGNAL:
        return symmcoll_symm_put_signal(it->handle, it->rank, 0, -1);
    case BARRIER:
        return symmcoll_symm_barrier(it->handle, 0, -1);
    case WAIT_VALUE:
        return symmcoll_symm_wait_value32(it->handle, it->rank, 0, 0, -1);
    case PUT_DATA:
        return symmcoll_symm_put_data(it->handle, it->rank, 0, other, 64);
    case GET_DATA:
        return symmcoll_symm_get_data(it->handle, it->rank, 0, other, 64);
    case WRITE_VALUE:
        return symmcoll_symm_write_value32(it->handle, it->rank, 0, 0);
    default:
        return symmcoll_symm_memset32(it->handle, it->rank, 0, 0, 4);
    }
}

/* ---- actions during the release ---- */

/* Each thread acts once, for the queue of the group that is released. */
static _Atomic(struct symc_queue *) watched;
static _Atomic(struct joined *) helped;  /* the release waits for running
                                          * work */
static _Atomic(struct joined *) late;    /* the queue has been stopped */
static _Atomic(struct joined *) dropped; /* the queue is about to be stopped */
static _Atomic(struct joined *) closed;  /* the queue is closed */
static _Atomic(struct joined *) hurried; /* drained, not interrupted */
static bool leaves;                      /* the next rank leaves */
static bool helps, ends;                 /* results of the actions */
static pthread_t freeing;

/* Does on another stream what the kernel on the first one waits for. */
static bool help(struct joined *it)
{
    CUstream other = device_stream();
    bool right = OK(symmcoll_group_set_stream(it->group, other)) &&
                 OK(call(it, PUT_SIGNAL));

    device_wait(other);
    device_end_stream(other);
    return right;
}

bool __wrap_symc_queue_await_running(
    struct symc_queue *queue, int64_t deadline_ns)
{
    struct joined *it;

    if (queue == atomic_load(&watched) &&
        (it = atomic_exchange(&helped, NULL)) != NULL)
        helps = help(it);
    return __real_symc_queue_await_running(queue, deadline_ns);
}

static void *free_data(void *arg)
{
    const struct joined *it = arg;

    return OK(symmcoll_symm_free(it->world, it->data)) ? arg : NULL;
}

/* Checks that every call fails with the reason, and that nothing was
 * enqueued. */
static bool refuses_all(struct joined *it)
{
    bool right = true;

    for (enum call i = 0; i < CALLS; i++)
        right = ended(call(it, i), SYMMCOLL_ERR_INVALID, "has released it") &&
                right;
    return right;
}

void __wrap_symc_queue_stop(struct symc_queue *queue)
{
    struct joined *it;

    if (queue == atomic_load(&watched) &&
        (it = atomic_exchange(&dropped, NULL)) != NULL)
        ends = pthread_create(&freeing, NULL, free_data, it) == 0;
    __real_symc_queue_stop(queue);
    if (queue == atomic_load(&watched) &&
        (it = atomic_exchange(&late, NULL)) != NULL)
        ends = refuses_all(it);
}

/* Waits for a signal of the next rank, which then releases the group, or of
 * this rank. */
static bool wait_for(struct joined *it)
{
    struct symmcoll_group *all = symmcoll_world_group(it->world);
    int peer = leaves ? it->next : it->rank;
    bool right = OK(symmcoll_symm_wait_signal(it->handle, peer, 0, -1));

    return (!leaves || OK(symmcoll_barrier(all, NULL, NULL))) && right;
}

void __wrap_symc_group_cut(struct symmcoll_group *group)
{
    struct joined *it;

    if (group->runner.queue == atomic_load(&watched) &&
        (it = atomic_exchange(&hurried, NULL)) != NULL)
        ends = wait_for(it);
    __real_symc_group_cut(group);
}

/* Adds a user to the handle. */
void __wrap_symc_queue_close(struct symc_queue *queue)
{
    struct joined *it = NULL;

    if (queue == atomic_load(&watched))
        it = atomic_exchange(&closed, NULL);
    __real_symc_queue_close(queue);
    if (it == NULL)
        return;
    symmcoll_symm_release(it->handle);
    ends = true;
}

/* ---- a group ---- */

static bool make(struct symmcoll_group *all, int rank, struct joined *it)
{
    struct symmcoll_group *group = NULL;
    bool right =
        OK(symmcoll_group_create(symmcoll_group_world(all), NULL, &group)) &&
        begin_joined(it, group, rank, NBYTES) &&
        OK(symmcoll_barrier(all, NULL, NULL));

    if (right && rank == 0)
        atomic_store(&watched, group->runner.queue);
    return right;
}

/* Rank 1 releases the group after rank 0. freed: rank 0 has freed the
 * memory. */
static bool leave(struct symmcoll_group *all, struct joined *it, bool freed)
{
    bool right = it->handle != NULL && OK(symmcoll_barrier(all, NULL, NULL));

    if (!right)
        return false;
    if (it->rank != 0)
        right = OK(symmcoll_group_free(it->group)) && right;
    else
        atomic_store(&watched, NULL);
    device_wait(it->stream);
    symmcoll_symm_release(it->handle);
    if (it->rank != 0 || !freed)
        right = OK(symmcoll_symm_free(it->world, it->data)) && right;
    device_end_stream(it->stream);
    return right;
}

static int a_release_waits(struct symmcoll_group *all, int rank)
{
    struct joined it = {0};
    bool right = make(all, rank, &it);

    if (right && rank == 0) {
        helps = false;
        right = OK(call(&it, WAIT_SIGNAL));
        atomic_store(&helped, &it);
        right = OK(symmcoll_group_free(it.group)) && HOLDS(helps) && right;
    }
    return leave(all, &it, false) && right;
}

static int a_late_one_ends(struct symmcoll_group *all, int rank)
{
    struct joined it = {0};
    bool right = make(all, rank, &it);

    if (right && rank == 0) {
        ends = false;
        atomic_store(&late, &it);
        right = OK(symmcoll_group_free(it.group)) && HOLDS(ends);
    }
    return leave(all, &it, false) && right;
}

static int a_release_cancels(struct symmcoll_group *all, int rank)
{
    struct joined it = {0};
    bool right = make(all, rank, &it);

    if (right && rank == 0)
        right = OK(call(&it, WAIT_SIGNAL)) &&
                ended(symmcoll_group_free(it.group), SYMMCOLL_ERR_TIMEOUT,
                    "were canceled");
    return leave(all, &it, false) && right;
}

/* Makes a call of another thread for which the release has not waited. */
static int a_hurried_one_ends(struct symmcoll_group *all, int rank)
{
    struct joined it = {0};
    bool right = make(all, rank, &it);

    if (right && rank == 0) {
        ends = false;
        leaves = true;
        atomic_store(&hurried, &it);
        right = OK(symmcoll_group_free(it.group)) && HOLDS(ends);
    } else if (right) {
        right = OK(symmcoll_barrier(all, NULL, NULL)) &&
                OK(symmcoll_group_free(it.group));
    }
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    atomic_store(&watched, NULL);
    device_wait(it.stream);
    symmcoll_symm_release(it.handle);
    right = OK(symmcoll_symm_free(it.world, it.data)) && right;
    device_end_stream(it.stream);
    return right;
}

static int a_hurried_one_is_canceled(struct symmcoll_group *all, int rank)
{
    struct joined it = {0};
    bool right = make(all, rank, &it);

    if (right && rank == 0) {
        ends = leaves = false;
        atomic_store(&hurried, &it);
        right = ended(symmcoll_group_free(it.group), SYMMCOLL_ERR_TIMEOUT,
                    "enqueued during the call in group") &&
                HOLDS(ends);
    }
    return leave(all, &it, false) && right;
}

/* Another thread frees the memory during the release of its group, while a
 * copy waits on a blocked stream: both wait for the copy. */
static int a_free_waits(struct symmcoll_group *all, int rank)
{
    struct joined it = {0};
    bool right = make(all, rank, &it);
    void *result = NULL;

    if (right && rank == 0) {
        ends = false;
        right = OK(call(&it, WAIT_SIGNAL)) && OK(call(&it, PUT_DATA));
        atomic_store(&helped, &it);
        atomic_store(&dropped, &it);
        right = OK(symmcoll_group_free(it.group)) && HOLDS(ends) && right;
        if (ends)
            pthread_join(freeing, &result);
        right = HOLDS(result == &it) && right;
    }
    return leave(all, &it, right) && right;
}

/* Uses a handle late, when there is nothing left to query. */
static int a_handle_is_late(struct symmcoll_group *all, int rank)
{
    struct joined it = {0};
    struct symmcoll_symm *more = NULL;
    bool right = make(all, rank, &it);

    if (right && rank == 0) {
        ends = false;
        right = OK(symmcoll_symm_rendezvous(it.group, it.data, NULL, &more)) &&
                OK(call(&it, PUT_DATA));
        atomic_store(&closed, &it);
        right = OK(symmcoll_group_free(it.group)) && HOLDS(ends) && right;
    }
    return leave(all, &it, false) && right;
}

/* ---- calls at any time ---- */

static void *call_until_released(void *arg)
{
    struct joined *it = arg;
    symmcoll_status_t status = SYMMCOLL_OK;

    device_use(it->rank);
    /* With pauses in which nothing runs, which the release uses. */
    for (int i = 1; status == SYMMCOLL_OK; i++) {
        status = call(it, i % 2 == 0 ? PUT_DATA : WRITE_VALUE);
        if (i % 8 == 0)
            usleep(3000);
    }
    return status == SYMMCOLL_ERR_INVALID &&
                   strstr(symmcoll_last_error(), "released") != NULL
               ? arg
               : NULL;
}

static int calls_end_whenever(struct symmcoll_group *all, int rank)
{
    bool right = true;

    for (int i = 0; i < ROUNDS && right; i++) {
        struct joined it = {0};
        pthread_t thread;
        void *result = NULL;

        right = make(all, rank, &it);
        if (right && rank == 0) {
            right = HOLDS(pthread_create(
                              &thread, NULL, call_until_released, &it) == 0) &&
                    OK(symmcoll_group_free(it.group));
            pthread_join(thread, &result);
            right = HOLDS(result == &it) && right;
        }
        right = leave(all, &it, false) && right;
    }
    return right;
}

/* ---- a world ---- */

static int finalize_while_one_waits(struct faults_rank *self)
{
    struct joined it;

    if (!faults_init(self) ||
        !begin_joined(&it, self->group, self->rank, NBYTES))
        return 1;
    if (self->rank == 1) {
        faults_pass(self, 1);
        symmcoll_symm_release(it.handle);
        return symmcoll_finalize(self->world) == SYMMCOLL_OK ? 0 : 1;
    }
    if (!OK(call(&it, WAIT_SIGNAL)))
        return 1;
    faults_note(self, symmcoll_finalize(self->world));
    faults_note(self, call(&it, PUT_DATA));
    symmcoll_symm_release(it.handle);
    return 0;
}

static void a_finalize_cancels(void)
{
    struct faults_job job;
    bool right;

    faults_start(&job, 2, finalize_while_one_waits, NULL);
    faults_reap(&job, 0);
    faults_open(&job, 1);
    faults_reap(&job, 1);
    right = faults_said(faults_told(&job, 0, 0), SYMMCOLL_ERR_TIMEOUT,
                "were canceled", NULL) &&
            faults_said(faults_told(&job, 0, 1), SYMMCOLL_ERR_INVALID,
                "symm_put_data", "world finalized", NULL);
    ok(faults_finish(&job, 0) && right,
        "finalize() cancels, after timeouts.finalize, kernels that wait");
}

int main(void)
{
    device_begin();
    faults_begin();
    on_both(2, a_release_waits,
        "group_free() waits for a kernel that waits for a signal");
    on_both(2, a_late_one_ends,
        "a call that begins while the group is released ends with INVALID");
    on_both(2, a_hurried_one_ends,
        "what was enqueued a moment before ends with the peer's release");
    on_both(2, a_free_waits,
        "memory that is freed while the group is released: both wait");
    on_both(2, a_handle_is_late,
        "a handle is released when the group's queue is gone");
    on_both(2, calls_end_whenever,
        "calls of another thread end when the group is released");
    setenv("SYMMCOLL_TIMEOUTS_FINALIZE", "100ms", 1);
    on_both(2, a_release_cancels,
        "group_free() cancels, after timeouts.finalize, kernels that wait");
    on_both(2, a_hurried_one_is_canceled,
        "or is canceled after that time, where no peer leaves");
    a_finalize_cancels();
    faults_end();
    return done_testing();
}
