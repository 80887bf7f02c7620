/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks, kernels and devices that come to a bad end in the middle of an operation
 * on device memory: everybody is told why, no stream hangs, and other groups go
 * on.
 */
#include "t/attempts.h"
#include "t/cuda/members.h"
#include "t/world/faults.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 3
#define VICTIM 1
#define COUNT 300

/* ---- what ranks do ---- */

struct buffers {
    CUstream stream;
    void *at;
};

static struct buffers make_buffers(void)
{
    return (struct buffers){
        device_stream(), device_alloc(COUNT * sizeof(float))};
}

static symmcoll_status_t sum(struct symmcoll_group *group,
    const struct buffers *buffers, double timeout, struct symmcoll_work **work)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.timeout = timeout;
    call.stream = buffers->stream;
    call.label = "the sum";
    return symmcoll_all_reduce(
        group, buffers->at, buffers->at, COUNT, F32, SUM, &call, work);
}

static bool begin(struct faults_rank *self, struct buffers *buffers)
{
    if (!faults_init(self))
        return false;
    device_use(self->rank);
    *buffers = make_buffers();
    if (sum(self->group, buffers, -1, NULL) != SYMMCOLL_OK) {
        diag("rank %d: %s", self->rank, symmcoll_last_error());
        return false;
    }
    device_wait(buffers->stream);
    return true;
}

/* Two groups: of all, and of all but the victim. */
static struct symmcoll_group *make_other(struct faults_rank *self)
{
    static const int ranks[] = {0, 2};
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *other = NULL;

    args.ranks = ranks;
    args.nranks = 2;
    if (symmcoll_group_create(self->world, &args, &other) < 0)
        diag("rank %d: %s", self->rank, symmcoll_last_error());
    return other;
}

/* Wait for a work on the host, note how it ended; then the stream ends, too. */
static void await(struct faults_rank *self, const struct buffers *buffers,
    struct symmcoll_work *work)
{
    faults_note(self, symmcoll_work_wait(work, FAULTS_WAIT_MAX));
    symmcoll_work_free(work);
    device_wait(buffers->stream);
}

/* The victim's stream stands still, so its kernel does not begin. */
static int lose_a_peer(struct faults_rank *self)
{
    struct symmcoll_group *other;
    struct symmcoll_work *work = NULL;
    struct buffers buffers;
    bool right;

    if (!begin(self, &buffers))
        return 1;
    other = make_other(self);
    if (self->rank == VICTIM)
        fake_stall(buffers.stream);
    if (sum(self->group, &buffers, -1, &work) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    await(self, &buffers, work);
    right = sum(other, &buffers, -1, NULL) == SYMMCOLL_OK;
    if (!right)
        diag("rank %d: %s", self->rank, symmcoll_last_error());
    device_wait(buffers.stream);
    faults_reach(self, 2);
    return faults_finalize(self) != 0 || !right;
}

static int miss_a_deadline(struct faults_rank *self)
{
    struct symmcoll_work *work = NULL;
    struct buffers buffers;

    if (!begin(self, &buffers))
        return 1;
    if (self->rank == VICTIM)
        fake_stall(buffers.stream);
    if (sum(self->group, &buffers, *(const double *)self->arg, &work) !=
        SYMMCOLL_OK)
        return 1;
    if (self->rank == VICTIM) {
        faults_pass(self, 1);
        fake_resume(buffers.stream);
    }
    await(self, &buffers, work);
    faults_reach(self, 1);
    return faults_finalize(self);
}

static void *abort_group(void *arg)
{
    struct faults_rank *self = arg;

    faults_pass(self, 1);
    symmcoll_group_abort(self->group, "enough");
    return NULL;
}

/* Another thread of rank 0 aborts the group. */
static int abort_from_thread(struct faults_rank *self)
{
    struct symmcoll_work *work = NULL;
    struct buffers buffers;
    pthread_t thread = 0;

    if (!begin(self, &buffers))
        return 1;
    if (self->rank == VICTIM)
        fake_stall(buffers.stream);
    if (sum(self->group, &buffers, -1, &work) != SYMMCOLL_OK)
        return 1;
    if (self->rank == 0 &&
        pthread_create(&thread, NULL, abort_group, self) != 0)
        return 1;
    faults_reach(self, 1);
    if (self->rank == VICTIM) {
        faults_pass(self, 2);
        fake_resume(buffers.stream);
    }
    await(self, &buffers, work);
    if (self->rank == 0)
        pthread_join(thread, NULL);
    faults_reach(self, 2);
    return faults_finalize(self);
}

/* The victim's device breaks, as it does when a kernel of the program reads where
 * nothing is. */
static int break_a_device(struct faults_rank *self)
{
    struct symmcoll_group *other;
    struct symmcoll_work *work = NULL;
    struct buffers buffers;
    bool right = true;

    if (!begin(self, &buffers))
        return 1;
    other = make_other(self);
    if (self->rank == VICTIM)
        fake_stall(buffers.stream);
    if (sum(self->group, &buffers, -1, &work) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    if (self->rank == VICTIM) {
        faults_pass(self, 1);
        fake_break(VICTIM, CUDA_ERROR_ILLEGAL_ADDRESS);
    }
    faults_note(self, symmcoll_work_wait(work, FAULTS_WAIT_MAX));
    symmcoll_work_free(work);
    if (self->rank != VICTIM) {
        right = sum(other, &buffers, -1, NULL) == SYMMCOLL_OK;
        device_wait(buffers.stream);
    }
    faults_reach(self, 2);
    return faults_finalize(self) != 0 || !right;
}

/* The driver refuses to start the victim's kernel. */
static int refuse_a_launch(struct faults_rank *self)
{
    struct symmcoll_work *work = NULL;
    struct buffers buffers;
    symmcoll_status_t status;

    if (!begin(self, &buffers))
        return 1;
    if (self->rank == VICTIM)
        fake_configure("fail=cuLaunchKernelEx:1:701");
    status = sum(self->group, &buffers, -1, &work);
    if (status == SYMMCOLL_OK)
        await(self, &buffers, work);
    else
        faults_note(self, status);
    faults_reach(self, 1);
    return faults_finalize(self);
}

/* ---- the tests ---- */

static void test_death(void)
{
    struct faults_job job;
    char name[64];
    bool told;

    faults_start(&job, SIZE, lose_a_peer, NULL);
    told = faults_await_all(&job, 1);
    faults_signal(&job, VICTIM, SIGKILL);
    told = faults_await(&job, 0, 2) && faults_await(&job, 2, 2) && told;
    faults_name(&job, VICTIM, name);
    for (int r = 0; r < SIZE; r += 2)
        told = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_PEER, name,
                   "killed by SIGKILL", NULL) &&
               told;
    ok(faults_finish(&job, 1u << VICTIM) && told,
        "a peer that dies while kernels wait for it: its name, streams that end, "
        "and other groups that go on");
}

static bool deadline_names_peer(double seconds, void *arg)
{
    struct faults_job job;
    bool told;

    (void)arg;
    faults_start(&job, SIZE, miss_a_deadline, &seconds);
    told = faults_await(&job, 0, 1) && faults_await(&job, 2, 1);
    faults_open(&job, 1);
    told = faults_await(&job, VICTIM, 1) && told;
    for (int r = 0; r < SIZE; r += 2)
        told = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_TIMEOUT,
                   "all_reduce seq 2 'the sum'", "rank 1 did not come", NULL) &&
               told;
    told = faults_told(&job, VICTIM, 0)->status < 0 && told;
    return faults_finish(&job, 0) && told;
}

static void test_abort(void)
{
    struct faults_job job;
    bool told;

    faults_start(&job, SIZE, abort_from_thread, NULL);
    told = faults_await_all(&job, 1);
    faults_open(&job, 1);
    told = faults_await(&job, 0, 2) && faults_await(&job, 2, 2) && told;
    faults_open(&job, 2);
    told = faults_await(&job, VICTIM, 2) && told;
    for (int r = 0; r < SIZE; r++)
        told = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_CANCELED,
                   "enough", NULL) &&
               told;
    ok(faults_finish(&job, 0) && told,
        "a group that another thread aborts: kernels end, everybody is told");
}

static void test_device_error(
    faults_fn body, const char *text, const char *what)
{
    struct faults_job job;
    bool told;

    faults_start(&job, SIZE, body, NULL);
    told = faults_await_all(&job, 1);
    faults_open(&job, 1);
    for (int r = 0; r < SIZE; r++) {
        faults_reap(&job, r);
        told = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_DEVICE,
                   "backend cuda of rank 1", "device 1", text, NULL) &&
               told;
    }
    ok(faults_finish(&job, 0) && told, "%s", what);
}

int main(void)
{
    device_begin();
    faults_begin();
    test_death();
    ok(attempts_hold(deadline_names_peer, 0.5, NULL),
        "a deadline on the device names the peer for which kernels wait");
    test_abort();
    test_device_error(break_a_device, "CUDA_ERROR_ILLEGAL_ADDRESS",
        "a device that breaks: everybody learns whose, with the driver's error, "
        "and other groups go on");
    test_device_error(refuse_a_launch, "symc_two_shot_f32",
        "a kernel that cannot be started fails the group, with its name");
    faults_end();
    return done_testing();
}
