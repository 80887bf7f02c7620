/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests several buffers on devices in an operation that a rank abandons: it
 * has done its part of the first buffer, and its launch for the second one
 * does not happen.
 */
#include "t/attempts.h"
#include "t/cuda/members.h"
#include "t/world/others.h"

#include "group/group.h"
#include "group/region.h"

#include <stdlib.h>

#define SIZE 3
#define VICTIM 1
#define N 3
#define COUNT 50 /* elements of a buffer: one launch */

struct several {
    CUstream stream;
    float *at[N];
    bool region;
};

/* The timeout and the form of a job's operations. */
struct manner {
    double seconds; /* -1: the default timeout */
    bool region;
};

static symmcoll_status_t call_region(struct symmcoll_group *group,
    const struct several *it, const struct symmcoll_call *call,
    struct symmcoll_work **work)
{
    symmcoll_status_t status = symmcoll_coalesce_begin(group);

    for (int i = 0; i < N && status == SYMMCOLL_OK; i++)
        status = symmcoll_all_reduce(
            group, it->at[i], it->at[i], COUNT, F32, SUM, NULL, NULL);
    return status == SYMMCOLL_OK ? symmcoll_coalesce_end(group, call, work)
                                 : status;
}

static symmcoll_status_t call(struct symmcoll_group *group,
    const struct several *it, double timeout, struct symmcoll_work **work)
{
    static const size_t counts[N] = {COUNT, COUNT, COUNT};
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.timeout = timeout;
    call.stream = it->stream;
    call.label = "the buffers";
    if (it->region)
        return call_region(group, it, &call, work);
    return symmcoll_all_reduce_coalesced(group, (void *const *)it->at,
        (const void *const *)it->at, counts, N, F32, SUM, &call, work);
}

/* Joins the world, selects a device, and runs an operation that ends. */
static bool begin(struct faults_rank *self, struct several *it)
{
    const struct manner *manner = self->arg;

    if (!faults_init(self))
        return false;
    device_use(self->rank);
    *it = (struct several){.stream = device_stream(), .region = manner->region};
    for (int i = 0; i < N; i++)
        it->at[i] = device_alloc(COUNT * sizeof(float));
    if (call(self->group, it, -1, NULL) != SYMMCOLL_OK) {
        diag("rank %d: %s", self->rank, symmcoll_last_error());
        return false;
    }
    device_wait(it->stream);
    if (self->rank == VICTIM)
        fake_skip(VICTIM, "cuLaunchKernelEx", 2);
    return true;
}

/* Uses new arrays, because another thread may still be reading those of the
 * previous region. */
static bool fails_again(struct faults_rank *self, const struct several *it)
{
    return call(self->group, it, -1, NULL) < 0 &&
           (!it->region || self->group->regions->next != NULL);
}

/* Records how the abandoned operation ends, and the one after it; then the
 * streams must end, too. */
static int leave_one(struct faults_rank *self)
{
    const struct manner *manner = self->arg;
    struct symmcoll_work *work = NULL;
    struct several it;
    bool right;

    if (!begin(self, &it) ||
        call(self->group, &it, manner->seconds, &work) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    if (self->rank == VICTIM)
        faults_pass(self, 1);
    faults_note(self, symmcoll_work_wait(work, FAULTS_WAIT_MAX));
    symmcoll_work_free(work);
    device_wait(it.stream);
    right = self->rank != VICTIM ? fails_again(self, &it)
                                 : fake_has_skipped(VICTIM);
    faults_reach(self, 2);
    (void)faults_finalize(self);
    return !right;
}

/* ---- the tests ---- */

static void test_death(bool region, const char *what)
{
    struct manner manner = {-1, region};

    ok(others_survive(SIZE, VICTIM, leave_one, &manner), "%s", what);
}

static bool deadline_names_peer(double seconds, void *arg)
{
    struct manner manner = {seconds, false};
    struct faults_job job;
    bool told;

    (void)arg;
    faults_start(&job, SIZE, leave_one, &manner);
    told = others_await(&job, VICTIM, 2);
    faults_open(&job, 1);
    told = faults_await(&job, VICTIM, 2) && told;
    for (int r = 0; r < SIZE; r += 2)
        told = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_TIMEOUT,
                   "all_reduce_coalesced seq 2 'the buffers'",
                   "rank 1 did not come", NULL) &&
               told;
    return faults_finish(&job, 0) && told;
}

int main(void)
{
    device_begin();
    faults_begin();
    test_death(false,
        "a peer that dies between two buffers: the others are told its name, and "
        "their streams end");
    test_death(true, "also where they were called in a region");
    ok(attempts_hold(deadline_names_peer, 0.5, NULL),
        "a deadline between two buffers names the peer for which kernels wait");
    faults_end();
    return done_testing();
}
