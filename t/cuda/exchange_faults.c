/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests an exchange of unlike parts by kernels that a rank abandons in the
 * middle: its first launch has moved a chunk of the largest part, and the
 * second launch does not happen.
 */
#include "t/attempts.h"
#include "t/cuda/unlike.h"
#include "t/world/others.h"

#include <pthread.h>
#include <stdlib.h>

#define SIZE 3
#define VICTIM 1
#define MOST 2000 /* bytes of a part: two launches */

struct exchange {
    struct unlike one;
    CUstream stream;
    char *in, *out;
};

static symmcoll_status_t call(struct symmcoll_group *group,
    const struct exchange *it, double timeout, struct symmcoll_work **work)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.timeout = timeout;
    call.stream = it->stream;
    call.label = "the exchange";
    return unlike_call(group, &it->one, it->out, it->in, &call, work);
}

/* Joins the world, selects a device, and runs an exchange that ends. */
static bool begin(struct faults_rank *self, struct exchange *it)
{
    if (!faults_init(self))
        return false;
    device_use(self->rank);
    *it = (struct exchange){
        .one = {.shape = UNLIKE_ONE, .dtype = SYMMCOLL_UINT8, .most = MOST},
        .stream = device_stream(),
        .in = device_alloc((size_t)SIZE * MOST),
        .out = device_alloc((size_t)SIZE * MOST)};
    unlike_plan(&it->one, self->rank, SIZE);
    if (call(self->group, it, -1, NULL) != SYMMCOLL_OK) {
        diag("rank %d: %s", self->rank, symmcoll_last_error());
        return false;
    }
    device_wait(it->stream);
    if (self->rank == VICTIM)
        fake_skip(VICTIM, "cuLaunchKernelEx", 2);
    return true;
}

/* Starts an exchange in which the victim skips the second launch, and blocks
 * until both launches have been called: an error that ended the group earlier
 * would be another one. */
static bool start(struct faults_rank *self, const struct exchange *it,
    double timeout, struct symmcoll_work **work)
{
    const double until = faults_now() + FAULTS_WAIT_MAX;
    const uint64_t before = fake_calls("cuLaunchKernelEx");

    if (call(self->group, it, timeout, work) != SYMMCOLL_OK)
        return false;
    while (fake_calls("cuLaunchKernelEx") < before + 2) {
        if (faults_now() > until)
            return false;
        faults_rest();
    }
    return true;
}

/* Records how the abandoned exchange ends; then the streams must end, too. */
static int leave_one(struct faults_rank *self)
{
    const double *seconds = self->arg;
    struct symmcoll_work *work = NULL;
    struct exchange it;

    if (!begin(self, &it) ||
        !start(self, &it, seconds != NULL ? *seconds : -1, &work))
        return 1;
    faults_reach(self, 1);
    if (self->rank == VICTIM)
        faults_pass(self, 1);
    faults_note(self, symmcoll_work_wait(work, FAULTS_WAIT_MAX));
    symmcoll_work_free(work);
    device_wait(it.stream);
    faults_reach(self, 2);
    (void)faults_finalize(self);
    return self->rank != VICTIM ? 0 : !fake_has_skipped(VICTIM);
}

static void *abort_later(void *arg)
{
    struct faults_rank *self = arg;

    faults_pass(self, 1);
    symmcoll_group_abort(self->group, "enough");
    return NULL;
}

/* Runs such an exchange, which another thread of rank 0 ends by aborting the
 * group. */
static int abort_one(struct faults_rank *self)
{
    struct symmcoll_work *work = NULL;
    struct exchange it;
    pthread_t thread = 0;

    if (!begin(self, &it) || !start(self, &it, -1, &work) ||
        (self->rank == 0 &&
            pthread_create(&thread, NULL, abort_later, self) != 0))
        return 1;
    faults_reach(self, 1);
    if (self->rank != VICTIM)
        faults_note(self, symmcoll_work_wait(work, FAULTS_WAIT_MAX));
    else
        faults_pass(self, 2);
    symmcoll_work_free(work);
    device_wait(it.stream);
    if (self->rank == 0)
        pthread_join(thread, NULL);
    faults_reach(self, 2);
    (void)faults_finalize(self);
    return 0;
}

/* ---- the tests ---- */

static bool deadline_names_peer(double seconds, void *arg)
{
    struct faults_job job;
    bool told;

    (void)arg;
    faults_start(&job, SIZE, leave_one, &seconds);
    told = others_await(&job, VICTIM, 2);
    faults_open(&job, 1);
    told = faults_await(&job, VICTIM, 2) && told;
    for (int r = 0; r < SIZE; r += 2)
        told = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_TIMEOUT,
                   "all_to_all_v seq 2 'the exchange'", "rank 1 did not come",
                   NULL) &&
               told;
    return faults_finish(&job, 0) && told;
}

static void test_abort(void)
{
    struct faults_job job;
    bool told;

    faults_start(&job, SIZE, abort_one, NULL);
    told = faults_await_all(&job, 1);
    faults_open(&job, 1);
    told = others_await(&job, VICTIM, 2) && told;
    faults_open(&job, 2);
    told = faults_await(&job, VICTIM, 2) && told;
    for (int r = 0; r < SIZE; r += 2)
        told = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_CANCELED,
                   "enough", NULL) &&
               told;
    ok(faults_finish(&job, 0) && told,
        "a group that another thread aborts between two launches: kernels end");
}

int main(void)
{
    device_begin();
    faults_begin();
    ok(others_survive(SIZE, VICTIM, leave_one, NULL),
        "a peer that dies between two launches: the others are told its name, and "
        "their streams end");
    ok(attempts_hold(deadline_names_peer, 0.5, NULL),
        "a deadline between two launches names the peer for which kernels wait");
    test_abort();
    faults_end();
    return done_testing();
}
