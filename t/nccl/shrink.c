/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the remainder of a group after a rank's death, with the stand-ins for
 * the driver and for NCCL: its communicator is shrunk from the previous one or
 * newly created, and either is used.
 */
#include "t/nccl/exchanged.h"
#include "t/nccl/named.h"
#include "t/world/faults.h"

#include "group/group.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define SIZE 4
#define VICTIM 1
#define INVALID_USAGE 5
#define SYSTEM_ERROR 2

/* The step that hangs. */
enum hang {
    NOTHING_HANGS,
    SHRINK_HANGS, /* and a new one serves */
    NEW_HANGS,    /* and so does that */
    WINDOWS_HANG  /* no, but one for windows */
};

struct plan {
    bool shrinks; /* the remaining members shrink it; otherwise they create
                   * one */
    bool aborted; /* by rank 0, without a death */
    bool runs;    /* the victim's part of an exchange never arrives */
    bool stuck;   /* shrinking does not end, and rank 0 aborts the group */
    bool unused;  /* nothing needs it */
    bool own;     /* rank 2 continues in its own context */
    bool twice;   /* the group is shrunk again, without a communicator to
                   * shrink */
    enum hang hangs;
    int seconds;  /* for all of that: three less than fail the group */
    int restless; /* of rank 2, as in the stand-in */
    int revoke_result, shrink_result, split_error;
};

static bool counts(const struct fake_nccl *fake, const struct plan *plan)
{
    int shrunk = plan->shrinks && !plan->unused;
    int begun = 1 + (!plan->shrinks && !plan->unused);

    if (fake->shrunk == shrunk && fake->begun == begun)
        return true;
    diag("expected %d shrunk and %d begun, found %d and %d", shrunk, begun,
        fake->shrunk, fake->begun);
    return false;
}

static void set_faults(struct faults_rank *self, struct fake_nccl *fake)
{
    const struct plan *plan = self->arg;

    if (self->rank != 2)
        return;
    atomic_store(&fake->restless, plan->restless);
    atomic_store(&fake->revoke_result, plan->revoke_result);
    atomic_store(&fake->shrink_result, plan->shrink_result);
    atomic_store(&fake->split_error, plan->split_error);
}

/* Runs an operation that would use windows if it had more than the
 * communicator. */
static bool sum_symmetric(struct symmcoll_group *group, int device)
{
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    const struct fake_nccl *fake = find_nccl();
    int enqueued = fake->enqueued;
    struct symmcoll_symm *handle = NULL;
    int32_t *at = NULL;
    bool right;

    args.device = SYMMCOLL_CUDA;
    args.device_index = device;
    right = symmcoll_symm_alloc(group->world, 65536, &args, (void **)&at) ==
                SYMMCOLL_OK &&
            symmcoll_symm_rendezvous(group, at, NULL, &handle) == SYMMCOLL_OK;
    device_use(device);
    call.stream = device_stream();
    right = right && symmcoll_all_reduce(group, at, at, 64, SYMMCOLL_INT32, SUM,
                         &call, NULL) == SYMMCOLL_OK;
    device_wait(call.stream);
    device_end_stream(call.stream);
    if (!right || fake->enqueued != enqueued + 1 || fake->windowed != 0) {
        diag("%d calls, %d in windows: %s", fake->enqueued - enqueued,
            fake->windowed, symmcoll_last_error());
        right = false;
    }
    symmcoll_symm_release(handle);
    return symmcoll_symm_free(group->world, at) == SYMMCOLL_OK && right;
}

/* Checks that the group is usable after a hang, whatever replaces the
 * communicator. */
static bool hangs(struct faults_rank *self, struct symmcoll_group *left)
{
    const struct plan *plan = self->arg;
    struct fake_nccl *fake = find_nccl();
    bool right;

    self->world->config->timeouts_init = SYMC_NS_PER_S * plan->seconds;
    if (symmcoll_group_set_timeout(left, plan->seconds) != SYMMCOLL_OK)
        return false;
    atomic_store(&fake->split_hangs, 1);
    if (plan->hangs == NEW_HANGS)
        atomic_store(&fake->begun_most, 1);
    if (plan->hangs == WINDOWS_HANG) {
        atomic_store(&fake->begun_most, 2);
        right = sum_symmetric(left, self->rank);
    } else {
        right = plan->hangs == NEW_HANGS
                    ? exchanges_without(left, SYMMCOLL_ERR_TIMEOUT,
                          "ncclCommInitRankConfig: expected it to end")
                    : exchange(left) == SYMMCOLL_OK;
    }
    atomic_store(&fake->split_hangs, 0);
    if (right &&
        symmcoll_group_set_timeout(left, FAULTS_WAIT_MAX) == SYMMCOLL_OK &&
        symmcoll_barrier(left, NULL, NULL) == SYMMCOLL_OK)
        return true;
    diag("rank %d: %s", self->rank, symmcoll_last_error());
    return false;
}

/* Begins an exchange that does not end. */
static bool begin(struct faults_rank *self, struct symmcoll_work **work)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    float *at = device_alloc(2 * SIZE * sizeof(*at));
    static const size_t ones[SIZE] = {1, 1, 1, 1};

    call.stream = device_stream();
    return symmcoll_all_to_all_v(self->group, at, SIZE, ones, at + SIZE, SIZE,
               ones, F32, &call, work) == SYMMCOLL_OK;
}

static void *abort_it(void *group)
{
    const struct fake_nccl *fake = find_nccl();

    while (atomic_load(&fake->live) < 2)
        usleep(500);
    symmcoll_group_abort(group, "enough");
    return NULL;
}

/* Rank 0 aborts the operation that hangs. */
static bool is_aborted(struct faults_rank *self, struct symmcoll_group *left)
{
    pthread_t thread = 0;
    bool right;

    atomic_store(&find_nccl()->stuck, 1);
    if (self->rank == 0 && pthread_create(&thread, NULL, abort_it, left) != 0)
        return false;
    right = exchange(left) == SYMMCOLL_ERR_CANCELED &&
            atomic_load(&find_nccl()->begun) == 1;
    if (self->rank == 0)
        pthread_join(thread, NULL);
    return right;
}

/* Checks a group that does without NCCL: the inherited communicator is
 * ended. */
static bool goes_without(struct faults_rank *self, struct symmcoll_group *left)
{
    const struct fake_nccl *fake = find_nccl();
    CUcontext own = NULL;

    if (self->rank == 2 &&
        cuCtxCreate(&own, NULL, 0, self->rank) != CUDA_SUCCESS)
        return false;
    if (!exchanges_without(left, SYMMCOLL_ERR_UNSUPPORTED,
            "found rank 2 in a context that is not its device's primary one"))
        return false;
    for (int i = 0; i < 20000 && atomic_load(&fake->live) != 0; i++)
        usleep(500);
    return atomic_load(&fake->live) == 0 && counts(fake, self->arg);
}

static bool use(struct faults_rank *self, struct symmcoll_group *left)
{
    const struct plan *plan = self->arg;

    if (plan->hangs != NOTHING_HANGS)
        return hangs(self, left);
    if (plan->own)
        return goes_without(self, left);
    if (plan->stuck)
        return is_aborted(self, left);
    return (plan->unused || (exchange(left) == SYMMCOLL_OK &&
                                exchange(left) == SYMMCOLL_OK)) &&
           counts(find_nccl(), plan);
}

static bool use_again(struct faults_rank *self)
{
    struct symmcoll_group *left = NULL;
    bool right =
        symmcoll_group_shrink(self->group, NULL, &left, NULL) == SYMMCOLL_OK &&
        exchange(left) == SYMMCOLL_OK && atomic_load(&find_nccl()->begun) == 2;

    return symmcoll_group_free(left) == SYMMCOLL_OK && right;
}

static int lose_one(struct faults_rank *self)
{
    const struct plan *plan = self->arg;
    struct fake_nccl *fake = find_nccl();
    struct symmcoll_group *left = NULL;
    struct symmcoll_work *work = NULL;
    bool right = true;

    if (fake == NULL || !faults_init(self))
        return 1;
    device_use(self->rank);
    if (exchange(self->group) != SYMMCOLL_OK)
        return 1;
    set_faults(self, fake);
    if (plan->runs && self->rank != VICTIM && !begin(self, &work))
        return 1;
    faults_reach(self, 1);
    faults_pass(self, 1);
    if (plan->runs)
        right = symmcoll_work_wait(work, -1) == SYMMCOLL_ERR_PEER;
    symmcoll_work_free(work);
    if (plan->aborted && self->rank == 0)
        symmcoll_group_abort(self->group, "enough");
    if (symmcoll_group_shrink(self->group, NULL, &left, NULL) != SYMMCOLL_OK) {
        diag("shrink: %s", symmcoll_last_error());
        return 1;
    }
    right = use(self, left) && right;
    right = (!plan->twice || use_again(self)) && right;
    right = symmcoll_group_free(left) == SYMMCOLL_OK && right;
    right = faults_finalize(self) == 0 && right;
    for (int i = 0; i < 20000 && fake->live != 0; i++)
        usleep(500);
    if (fake->live != 0)
        diag("%d communicators are left on rank %d", fake->live, self->rank);
    return !right || fake->live != 0;
}

static void test(const struct plan *plan, const char *what)
{
    struct faults_job job;
    bool right;

    faults_start(&job, SIZE, lose_one, plan);
    right = faults_await_all(&job, 1);
    if (!plan->aborted) {
        faults_signal(&job, VICTIM, SIGKILL);
        faults_await_death(&job, VICTIM);
    }
    faults_open(&job, 1);
    for (int r = 0; r < SIZE; r++)
        if (plan->aborted || r != VICTIM)
            faults_reap(&job, r);
    ok(faults_finish(&job, plan->aborted ? 0 : 1u << VICTIM) && right, "%s",
        what);
}

int main(void)
{
    device_begin();
    name_nccl();
    faults_begin();
    test(&(struct plan){.shrinks = false},
        "cuda.nccl_shrink: off, what is left of a group makes its own");
    setenv("SYMMCOLL_CUDA_NCCL_SHRINK", "on", 1);
    test(&(struct plan){.shrinks = true},
        "cuda.nccl_shrink: the communicator is shrunk to those that are left");
    test(&(struct plan){.shrinks = true, .runs = true},
        "what the lost rank has left in progress is stopped before");
    test(&(struct plan){.stuck = true},
        "a group that is aborted while it is shrunk: nothing is left of it");
    test(&(struct plan){.shrinks = true, .unused = true},
        "what was handed on and not used is ended");
    test(&(struct plan){.shrinks = true, .unused = true, .own = true},
        "so it is where a rank goes on in another context, which is told");
    test(&(struct plan){.shrinks = true, .twice = true},
        "what is left of a group that was shrunk before makes its own");
    test(&(struct plan){.aborted = true},
        "where nobody is lost a new one is made");
    test(&(struct plan){.restless = 1},
        "where that of a rank is not quiet all make a new one");
    test(&(struct plan){.revoke_result = INVALID_USAGE},
        "so they do where a rank could not revoke it");
    test(&(struct plan){.shrink_result = INVALID_USAGE},
        "where a rank cannot begin to shrink it");
    test(&(struct plan){.split_error = SYSTEM_ERROR},
        "and where that fails on a rank later");
    test(&(struct plan){.hangs = SHRINK_HANGS, .seconds = 4},
        "where it does not end a new one is made, for which there is time");
    test(&(struct plan){.hangs = NEW_HANGS, .seconds = 4},
        "where that does not end either kernels serve, in time");
    setenv("SYMMCOLL_CUDA_NCCL_WINDOWS", "on", 1);
    setenv("SYMMCOLL_CUDA_NCCL_MIN", "4", 1);
    test(&(struct plan){.hangs = WINDOWS_HANG, .seconds = 7},
        "nor does a communicator for windows that hangs after it take more");
    faults_end();
    return done_testing();
}
