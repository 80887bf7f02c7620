/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests ranks, kernels and devices that fail in the middle of an operation on
 * device memory: every rank gets the cause, no stream hangs, and other groups
 * continue.
 */
#include "t/attempts.h"
#include "t/cuda/sums.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 3
#define VICTIM 1
#define COUNT 300

/* ---- bodies of ranks ---- */

/* Waits for a work on the host and records its status; then the stream must
 * end, too. */
static void await(struct faults_rank *self, const struct sums *sums,
    struct symmcoll_work *work)
{
    faults_note(self, symmcoll_work_wait(work, FAULTS_WAIT_MAX));
    symmcoll_work_free(work);
    device_wait(sums->stream);
}

/* Kills the victim while its stream is blocked, so that its kernel does not
 * begin. */
static int lose_a_peer(struct faults_rank *self)
{
    struct symmcoll_group *other;
    struct symmcoll_work *work = NULL;
    struct sums sums;
    bool right;

    if (!sums_begin(self, &sums, COUNT))
        return 1;
    other = others_group(self, VICTIM);
    if (self->rank == VICTIM)
        fake_stall(sums.stream);
    if (sums_add(self->group, &sums, COUNT, -1, &work) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    await(self, &sums, work);
    right = sums_add(other, &sums, COUNT, -1, NULL) == SYMMCOLL_OK;
    if (!right)
        diag("rank %d: %s", self->rank, symmcoll_last_error());
    device_wait(sums.stream);
    faults_reach(self, 2);
    return faults_finalize(self) != 0 || !right;
}

static int miss_a_deadline(struct faults_rank *self)
{
    struct symmcoll_work *work = NULL;
    struct sums sums;

    if (!sums_begin(self, &sums, COUNT))
        return 1;
    if (self->rank == VICTIM)
        fake_stall(sums.stream);
    if (sums_add(self->group, &sums, COUNT, *(const double *)self->arg,
            &work) != SYMMCOLL_OK)
        return 1;
    if (self->rank == VICTIM) {
        faults_pass(self, 1);
        fake_resume(sums.stream);
    }
    await(self, &sums, work);
    faults_reach(self, 1);
    return faults_finalize(self);
}

/* Earlier work on the other ranks' streams takes most of the timeout before
 * their kernels begin. The victim, which would report itself, has a longer
 * timeout. */
static int begin_late(struct faults_rank *self)
{
    const double seconds = *(const double *)self->arg;
    struct symmcoll_work *work = NULL;
    struct sums sums;

    if (!sums_begin(self, &sums, COUNT))
        return 1;
    fake_stall(sums.stream);
    if (sums_add(self->group, &sums, COUNT,
            self->rank == VICTIM ? 2 * seconds : seconds, &work) != SYMMCOLL_OK)
        return 1;
    if (self->rank == VICTIM)
        faults_pass(self, 1);
    else /* blocked for longer than kernels wait before they end early */
        usleep((useconds_t)(seconds * 0.6e6));
    fake_resume(sums.stream);
    await(self, &sums, work);
    faults_reach(self, 1);
    return faults_finalize(self);
}

/* Aborts the group from another thread of rank 0. */
static int abort_from_thread(struct faults_rank *self)
{
    struct symmcoll_work *work = NULL;
    struct sums sums;
    pthread_t thread = 0;

    if (!sums_begin(self, &sums, COUNT))
        return 1;
    if (self->rank == VICTIM)
        fake_stall(sums.stream);
    if (sums_add(self->group, &sums, COUNT, -1, &work) != SYMMCOLL_OK)
        return 1;
    if (self->rank == 0 && pthread_create(&thread, NULL, sums_abort, self) != 0)
        return 1;
    faults_reach(self, 1);
    if (self->rank == VICTIM) {
        faults_pass(self, 2);
        fake_resume(sums.stream);
    }
    await(self, &sums, work);
    if (self->rank == 0)
        pthread_join(thread, NULL);
    faults_reach(self, 2);
    return faults_finalize(self);
}

/* Breaks the victim's device, as an illegal access by a kernel of the program
 * does. */
static int break_a_device(struct faults_rank *self)
{
    struct symmcoll_group *other;
    struct symmcoll_work *work = NULL;
    struct sums sums;
    bool right = true;

    if (!sums_begin(self, &sums, COUNT))
        return 1;
    other = others_group(self, VICTIM);
    if (self->rank == VICTIM)
        fake_stall(sums.stream);
    if (sums_add(self->group, &sums, COUNT, -1, &work) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    if (self->rank == VICTIM) {
        faults_pass(self, 1);
        fake_break(VICTIM, CUDA_ERROR_ILLEGAL_ADDRESS);
    }
    faults_note(self, symmcoll_work_wait(work, FAULTS_WAIT_MAX));
    symmcoll_work_free(work);
    if (self->rank != VICTIM) {
        right = sums_add(other, &sums, COUNT, -1, NULL) == SYMMCOLL_OK;
        device_wait(sums.stream);
    }
    faults_reach(self, 2);
    return faults_finalize(self) != 0 || !right;
}

/* Makes a driver call of the victim fail. */
static int refuse(struct faults_rank *self, const char *fault)
{
    struct symmcoll_work *work = NULL;
    struct sums sums;
    symmcoll_status_t status;

    if (!sums_begin(self, &sums, COUNT))
        return 1;
    if (self->rank == VICTIM)
        fake_configure(fault);
    status = sums_add(self->group, &sums, COUNT, -1, &work);
    if (status == SYMMCOLL_OK)
        await(self, &sums, work);
    else
        faults_note(self, status);
    faults_reach(self, 1);
    return faults_finalize(self);
}

/* Makes the launch of its kernel fail. */
static int refuse_a_launch(struct faults_rank *self)
{
    return refuse(self, "fail=cuLaunchKernelEx:1:701");
}

/* Makes the record of the caller's stream position fail. */
static int refuse_a_mark(struct faults_rank *self)
{
    return refuse(self, "fail=cuEventRecord:0:304");
}

/* ---- the tests ---- */

struct deadline {
    faults_fn body;
    const char *says; /* besides, or NULL */
};

static bool deadline_names_peer(double seconds, void *arg)
{
    const struct deadline *deadline = arg;
    struct faults_job job;
    bool told;

    faults_start(&job, SIZE, deadline->body, &seconds);
    told = others_await(&job, VICTIM, 1);
    faults_open(&job, 1);
    told = faults_await(&job, VICTIM, 1) && told;
    for (int r = 0; r < SIZE; r += 2)
        told = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_TIMEOUT,
                   "all_reduce seq 2 'the sum'", "rank 1 did not come",
                   deadline->says, NULL) &&
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
    told = others_await(&job, VICTIM, 2) && told;
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
    struct deadline running = {miss_a_deadline, NULL},
                    late = {begin_late, NULL},
                    sharing = {miss_a_deadline, "cuda.groups"};

    device_begin();
    faults_begin();
    ok(others_survive(SIZE, VICTIM, lose_a_peer, NULL),
        "a peer that dies while kernels wait for it: its name, streams that end, "
        "and other groups that go on");
    ok(attempts_hold(deadline_names_peer, 0.5, &running),
        "a deadline on the device names the peer for which kernels wait");
    ok(attempts_hold(deadline_names_peer, 1, &late),
        "so does one that has passed before kernels, which began late, give up");
    test_abort();
    test_device_error(break_a_device, "CUDA_ERROR_ILLEGAL_ADDRESS",
        "a device that breaks: everybody learns whose, with the driver's error, "
        "and other groups go on");
    test_device_error(refuse_a_launch, "cuLaunchKernelEx of symc_two_shot_f32",
        "a kernel that cannot be started fails the group, with its name");
    test_device_error(refuse_a_mark, "cuEventRecord for stream 0x",
        "so does a stream whose place cannot be noted, with the driver's error");
    setenv("SYMMCOLL_CUDA_SHARE_DEVICE", "on", 1);
    ok(fake_configure("devices=1") &&
            attempts_hold(deadline_names_peer, 0.5, &sharing),
        "where ranks share a device, it says what may keep a peer from it");
    faults_end();
    return done_testing();
}
