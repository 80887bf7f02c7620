/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels that nobody waits for, and how they end: of a group that is aborted
 * while a thread of it stands in the driver, whose queue is full.
 */
#include "t/cuda/members.h"
#include "t/world/faults.h"

#include <pthread.h>
#include <stdlib.h>

#define SIZE 3
#define VICTIM 1
#define PIECES 40 /* of a sum of COUNT elements, and more; begin.c */
#define COUNT (PIECES * 1024)

struct buffers {
    CUstream stream;
    void *at;
};

static symmcoll_status_t sum(struct symmcoll_group *group,
    const struct buffers *buffers, size_t count, double timeout)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.timeout = timeout;
    call.stream = buffers->stream;
    call.label = "the sum";
    return symmcoll_all_reduce(
        group, buffers->at, buffers->at, count, F32, SUM, &call, NULL);
}

static bool begin(struct faults_rank *self, struct buffers *buffers)
{
    if (!faults_init(self))
        return false;
    device_use(self->rank);
    *buffers =
        (struct buffers){device_stream(), device_alloc(COUNT * sizeof(float))};
    if (sum(self->group, buffers, 3, -1) != SYMMCOLL_OK) {
        diag("rank %d: %s", self->rank, symmcoll_last_error());
        return false;
    }
    device_wait(buffers->stream);
    return true;
}

/* ---- a driver whose queue is full ---- */

static void *abort_group(void *arg)
{
    struct faults_rank *self = arg;

    faults_pass(self, 1);
    symmcoll_group_abort(self->group, "enough");
    return NULL;
}

/* The victim's kernels do not begin; rank 0 has more of them than its driver takes
 * before the first one ends. */
static int stand_in_the_driver(struct faults_rank *self)
{
    struct buffers buffers;
    pthread_t thread = 0;

    if (!begin(self, &buffers))
        return 1;
    if (self->rank == VICTIM)
        fake_stall(buffers.stream);
    if (self->rank == 0 &&
        (!fake_configure("queue=8") ||
            pthread_create(&thread, NULL, abort_group, self) != 0))
        return 1;
    faults_reach(self, 1);
    (void)sum(self->group, &buffers, COUNT, -1);
    faults_note(self, symmcoll_group_error(self->group));
    faults_reach(self, 2);
    if (self->rank == 0)
        pthread_join(thread, NULL);
    if (self->rank == VICTIM) {
        faults_pass(self, 2);
        fake_resume(buffers.stream);
    }
    device_wait(buffers.stream);
    faults_reach(self, 3);
    return faults_finalize(self);
}

static void test_full_queue(void)
{
    const struct timespec pause = {.tv_nsec = 300 * 1000 * 1000};
    struct faults_job job;
    bool told;

    faults_start(&job, SIZE, stand_in_the_driver, NULL);
    told = faults_await(&job, VICTIM, 2) && faults_await(&job, 2, 2);
    (void)nanosleep(&pause, NULL); /* it stands there, most likely */
    told = atomic_load(&job.board->lines[0].step) < 2 && told;
    faults_open(&job, 1);
    told = faults_await(&job, 0, 2) && told;
    faults_open(&job, 2);
    told = faults_await_all(&job, 3) && told;
    told = faults_said(faults_told(&job, 0, 0), SYMMCOLL_ERR_CANCELED, "enough",
               NULL) &&
           told;
    ok(faults_finish(&job, 0) && told,
        "an abort ends kernels while a thread stands in the driver");
}

int main(void)
{
    device_begin();
    faults_begin();
    test_full_queue();
    faults_end();
    return done_testing();
}
