/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the gradient reducer on devices when a rank fails in the middle of a
 * backward: every rank gets an error, from finish or from the next begin, and
 * nothing hangs.
 */
#include "t/attempts.h"
#include "t/ddp/alone.h"
#include "t/world/others.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define SIZE 3
#define VICTIM 1

/* Blocks until the parameters of rank 0 have arrived. */
static bool begin(struct faults_rank *self, struct alone *alone)
{
    if (!faults_init(self) ||
        !alone_begin(alone, self->group, self->rank, NULL))
        return false;
    device_wait(alone->stream);
    return say(
        symmcoll_reducer_begin(alone->reducer, 1) == SYMMCOLL_OK, "begin");
}

static int end(struct faults_rank *self, struct alone *alone)
{
    symmcoll_reducer_free(alone->reducer);
    device_wait(alone->stream);
    return faults_finalize(self);
}

/* The victim dies before its gradient is complete. */
static int die_before_ready(struct faults_rank *self)
{
    struct alone alone;

    if (!begin(self, &alone))
        return 1;
    if (self->rank == VICTIM) {
        faults_reach(self, 1);
        faults_pass(self, 9);
    }
    if (symmcoll_reducer_ready(alone.reducer, 0, alone.grad) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    faults_note(self, symmcoll_reducer_finish(alone.reducer));
    faults_reach(self, 2);
    return end(self, &alone);
}

/* The victim has begun, but its kernel has not; finish has returned, and the
 * streams wait. */
static int stand_still(struct faults_rank *self)
{
    struct alone alone;

    if (!begin(self, &alone))
        return 1;
    if (self->rank == VICTIM)
        fake_stall(alone.stream);
    if (symmcoll_reducer_ready(alone.reducer, 0, alone.grad) != SYMMCOLL_OK ||
        symmcoll_reducer_finish(alone.reducer) != SYMMCOLL_OK) {
        /* The timeout was too short: no rank waits for this one. */
        faults_reach(self, 1);
        faults_reach(self, 2);
        return 1;
    }
    faults_reach(self, 1);
    if (self->rank == VICTIM) {
        faults_pass(self, 1);
        fake_resume(alone.stream);
    }
    device_wait(alone.stream);
    faults_note(self, symmcoll_reducer_begin(alone.reducer, 1));
    faults_reach(self, 2);
    return end(self, &alone);
}

/* The same with a bucket for each of two parameters: both fail. */
static int stand_still_in_two(struct faults_rank *self)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct symmcoll_tensor params[2];
    struct symmcoll_reducer *reducer;
    struct alone alone;
    uint32_t *grad;

    args.bucket_cap = args.first_bucket_cap = sizeof(float);
    if (!begin(self, &alone))
        return 1;
    params[0] = params[1] = alone.param;
    params[1].data = device_alloc(ALONE_COUNT * sizeof(float));
    grad = device_alloc(ALONE_COUNT * sizeof(float));
    if (symmcoll_reducer_create(self->group, params, 2, &args, &reducer) !=
        SYMMCOLL_OK)
        return 1;
    /* The first pass, with one bucket, finds the order of the gradients. */
    for (int pass = 0; pass < 2; pass++) {
        device_wait(alone.stream);
        if (symmcoll_reducer_begin(reducer, 1) != SYMMCOLL_OK)
            return 1;
        if (pass == 1 && self->rank == VICTIM)
            fake_stall(alone.stream);
        if (symmcoll_reducer_ready(reducer, 1, grad) == SYMMCOLL_OK &&
            symmcoll_reducer_ready(reducer, 0, alone.grad) == SYMMCOLL_OK &&
            symmcoll_reducer_finish(reducer) == SYMMCOLL_OK)
            continue;
        faults_reach(self, 1);
        faults_reach(self, 2);
        return 1;
    }
    faults_reach(self, 1);
    if (self->rank == VICTIM) {
        faults_pass(self, 1);
        fake_resume(alone.stream);
    }
    device_wait(alone.stream);
    faults_note(self, symmcoll_reducer_begin(reducer, 1));
    faults_reach(self, 2);
    symmcoll_reducer_free(reducer);
    return end(self, &alone);
}

/* The victim's device fails before its gradient is passed. */
static int break_a_device(struct faults_rank *self)
{
    struct alone alone;
    symmcoll_status_t status;

    if (!begin(self, &alone))
        return 1;
    if (self->rank == VICTIM)
        fake_break(VICTIM, CUDA_ERROR_ILLEGAL_ADDRESS);
    status = symmcoll_reducer_ready(alone.reducer, 0, alone.grad);
    if (self->rank == VICTIM && status == SYMMCOLL_OK)
        return 1;
    faults_note(self, symmcoll_reducer_finish(alone.reducer));
    symmcoll_reducer_free(alone.reducer);
    return faults_finalize(self);
}

/* ---- the tests ---- */

/* Ranks that stand still, and the beginning of the error of the others. */
struct standing {
    faults_fn body;
    const char *error;
};

static bool deadline_names_peer(double seconds, void *arg)
{
    const struct standing *standing = arg;
    struct faults_job job;
    char text[32];
    bool told;

    snprintf(text, sizeof(text), "%dms", (int)(seconds * 1000));
    setenv("SYMMCOLL_TIMEOUTS_COLLECTIVE", text, 1);
    faults_start(&job, SIZE, standing->body, NULL);
    unsetenv("SYMMCOLL_TIMEOUTS_COLLECTIVE");
    told = others_await(&job, VICTIM, 2);
    faults_open(&job, 1);
    told = faults_await(&job, VICTIM, 2) && told;
    for (int r = 0; r < SIZE; r += 2)
        told = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_TIMEOUT,
                   standing->error, "rank 1 did not come", NULL) &&
               told;
    told = faults_told(&job, VICTIM, 0)->status < 0 && told;
    return faults_finish(&job, 0) && told;
}

static bool broken_device_is_told(double seconds, void *arg)
{
    struct faults_job job;
    char text[32];
    bool told;

    (void)arg;
    snprintf(text, sizeof(text), "%dms", (int)(seconds * 1000));
    setenv("SYMMCOLL_TIMEOUTS_COLLECTIVE", text, 1);
    faults_start(&job, SIZE, break_a_device, NULL);
    unsetenv("SYMMCOLL_TIMEOUTS_COLLECTIVE");
    for (int r = 0; r < SIZE; r++)
        faults_reap(&job, r);
    told = faults_said(faults_told(&job, VICTIM, 0), SYMMCOLL_ERR_DEVICE,
        "reducer: ", "CUDA_ERROR_ILLEGAL_ADDRESS", NULL);
    for (int r = 0; r < SIZE; r += 2)
        told = faults_told(&job, r, 0)->status < 0 && told;
    return faults_finish(&job, 0) && told;
}

int main(void)
{
    struct standing one = {
        stand_still, "reducer_begin: bucket 0 of 1 of the backward before: "};
    struct standing two = {stand_still_in_two,
        "reducer_begin: bucket 0 of 2 of the backward before: "};

    device_begin();
    faults_begin();
    ok(others_survive(SIZE, VICTIM, die_before_ready, NULL),
        "a peer that dies in its backward: finish names it on the others");
    ok(others_survive(SIZE, VICTIM, stand_still, NULL),
        "one that dies after finish: streams end, and begin names it");
    ok(attempts_hold(deadline_names_peer, 0.5, &one),
        "a deadline that passes on the device is told by begin, with the peer");
    ok(attempts_hold(deadline_names_peer, 0.5, &two),
        "of two buckets that fail, begin returns the error of the first");
    ok(attempts_hold(broken_device_is_told, 1, NULL),
        "a device that breaks ends the backward of its rank, with the driver's "
        "error, and that of all others");
    faults_end();
    return done_testing();
}
