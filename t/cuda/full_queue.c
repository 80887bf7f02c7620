/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a stream that the program never releases, with a full queue: a thread
 * that enqueues blocks in the driver, and the waits of all other threads keep
 * their timeouts.
 */
#include "t/cuda/sums.h"

#include <pthread.h>
#include <stdlib.h>

#define SIZE 2
#define VICTIM 1
#define COUNT 300
#define CALLS 12
#define SOON 5 /* seconds: more than any wait here has, less than operations */

/* A thread of the victim's that enqueues what the stream has no room for. */
struct flood {
    struct faults_rank *self;
    const struct sums *sums;
    double timeout;
    _Atomic int calls; /* that have returned */
};

static void *enqueue(void *arg)
{
    struct flood *flood = arg;
    symmcoll_status_t status = SYMMCOLL_OK;

    device_use(flood->self->rank);
    for (int i = 0; i < CALLS && status == SYMMCOLL_OK; i++) {
        status = sums_add(
            flood->self->group, flood->sums, COUNT, flood->timeout, NULL);
        flood->calls++;
    }
    return NULL;
}

/* Waits until no call has returned for a while. */
static void await_standing(struct flood *flood)
{
    for (int quiet = 0, calls = 0; quiet < 300; quiet++) {
        faults_rest();
        quiet = flood->calls != calls ? 0 : quiet;
        calls = flood->calls;
    }
}

static bool waits_shortly(struct symmcoll_work *work)
{
    double began = faults_now();
    bool right = symmcoll_work_wait(work, 0.2) == SYMMCOLL_ERR_TIMEOUT &&
                 symmcoll_work_test(work) == SYMMCOLL_IN_PROGRESS;

    if (faults_now() - began < SOON && right)
        return true;
    diag("after %.2f s: %s", faults_now() - began, symmcoll_last_error());
    return false;
}

/* Every rank enqueues until its queue is full; the victim's stream is
 * blocked. */
static int flood(struct faults_rank *self, double timeout,
    bool (*judge)(struct faults_rank *self, struct symmcoll_work *work))
{
    struct symmcoll_work *work = NULL;
    struct sums sums;
    struct flood flood = {.self = self, .sums = &sums, .timeout = timeout};
    pthread_t thread;
    bool right = sums_begin(self, &sums, COUNT);

    if (!right || (self->rank == VICTIM && !fake_configure("queue=4")))
        return 1;
    if (self->rank == VICTIM)
        fake_stall(sums.stream);
    if (sums_add(self->group, &sums, COUNT, timeout, &work) != SYMMCOLL_OK ||
        pthread_create(&thread, NULL, enqueue, &flood) != 0)
        return 1;
    if (self->rank == VICTIM) {
        await_standing(&flood);
        right = judge(self, work) && flood.calls < CALLS;
        fake_resume(sums.stream);
    }
    pthread_join(thread, NULL);
    faults_note(self, symmcoll_work_wait(work, FAULTS_WAIT_MAX));
    symmcoll_work_free(work);
    device_wait(sums.stream);
    return faults_finalize(self) != 0 || !right;
}

static bool others_wait(struct faults_rank *self, struct symmcoll_work *work)
{
    (void)self;
    return waits_shortly(work);
}

static int stand_for_a_while(struct faults_rank *self)
{
    return flood(self, 4 * FAULTS_WAIT_MAX, others_wait);
}

static bool group_fails(struct faults_rank *self, struct symmcoll_work *work)
{
    double began = faults_now();
    symmcoll_status_t status = symmcoll_work_wait(work, FAULTS_WAIT_MAX);

    if (status < 0 && faults_now() - began < SOON &&
        symmcoll_group_error(self->group) == SYMMCOLL_ERR_TIMEOUT)
        return true;
    diag("status %d after %.2f s", status, faults_now() - began);
    return false;
}

static int stand_too_long(struct faults_rank *self)
{
    return flood(self, 1, group_fails);
}

int main(void)
{
    struct faults_job job;
    bool told;

    device_begin();
    faults_begin();
    faults_start(&job, SIZE, stand_for_a_while, NULL);
    for (int r = 0; r < SIZE; r++)
        faults_reap(&job, r);
    told = faults_told(&job, VICTIM, 0)->status == SYMMCOLL_OK;
    ok(faults_finish(&job, 0) && told,
        "a wait has its time while another thread stands in the driver");
    faults_start(&job, SIZE, stand_too_long, NULL);
    for (int r = 0; r < SIZE; r++) {
        faults_reap(&job, r);
    }
    told = faults_told(&job, VICTIM, 0)->status < 0 &&
           faults_told(&job, 0, 0)->status < 0;
    ok(faults_finish(&job, 0) && told,
        "what it enqueues times out, and works end while it stands there");
    faults_end();
    return done_testing();
}
