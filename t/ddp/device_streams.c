/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that calls of the gradient reducer on devices do not wait for the
 * device, and that reducers of several devices are independent.
 */
#include "t/ddp/alone.h"

#include "group/group.h"

#include <math.h>
#include <string.h>

/* ---- calls that do not wait for the device ---- */

/* Runs a whole backward while the stream is blocked: the stream later finds
 * averages, and so does work enqueued after finish. */
static int calls_return(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct alone alone;
    float seen[ALONE_COUNT];
    int size = symmcoll_group_size(group), right;

    args.write_back = 1;
    right = alone_begin(&alone, group, rank, &args);
    for (int step = 0; right && step < 3; step++) {
        fake_stall(alone.stream);
        alone_enqueue(&alone, (float)(size * (rank + step)));
        right = say(symmcoll_reducer_begin(alone.reducer, 1) == SYMMCOLL_OK &&
                        symmcoll_reducer_ready(alone.reducer, 0, alone.grad) ==
                            SYMMCOLL_OK &&
                        symmcoll_reducer_finish(alone.reducer) == SYMMCOLL_OK,
            "a backward");
        cuMemcpyAsync((CUdeviceptr)(uintptr_t)seen,
            (CUdeviceptr)(uintptr_t)alone.grad, sizeof(seen), alone.stream);
        fake_resume(alone.stream);
        device_wait(alone.stream);
        for (int i = 0; right && i < ALONE_COUNT; i++)
            right = say(seen[i] == (float)(size * step + size * (size - 1) / 2),
                "what the stream has seen");
    }
    return alone_end(&alone, right);
}

/* Frees the reducer while buckets are in flight on a blocked stream. */
static int freed_in_flight(struct symmcoll_group *group, int rank)
{
    struct alone alone;
    int right = alone_begin(&alone, group, rank, NULL);

    fake_stall(alone.stream);
    alone_enqueue(&alone, 1);
    right =
        right && say(symmcoll_reducer_begin(alone.reducer, 1) == SYMMCOLL_OK &&
                         symmcoll_reducer_ready(alone.reducer, 0, alone.grad) ==
                             SYMMCOLL_OK,
                     "a backward that does not finish");
    symmcoll_reducer_free(alone.reducer);
    alone.reducer = NULL;
    fake_resume(alone.stream);
    return alone_end(&alone, right);
}

/* ---- times ---- */

#define ELAPSED 250e-6 /* between any two events, as reported by the driver */

/* Checks that all times are this one. */
static int times_are(const struct alone *alone, double expected)
{
    struct symmcoll_reducer_times times = SYMMCOLL_REDUCER_TIMES_INIT;
    int right =
        symmcoll_reducer_get_times(alone->reducer, &times) == SYMMCOLL_OK &&
        fabs(times.backward - expected) < 1e-9 &&
        fabs(times.comm - expected) < 1e-9 &&
        fabs(times.exposed - expected) < 1e-9;

    if (!right)
        diag("expected %g, found %g, %g, %g", expected, times.backward,
            times.comm, times.exposed);
    return right;
}

/* Checks that the times of a backward which the device has not finished are
 * absent, and that this one is measured and not the next. */
static int times_of_the_device(struct symmcoll_group *group, int rank)
{
    struct alone alone;
    int right = alone_begin(&alone, group, rank, NULL) && times_are(&alone, 0);
    int events;

    fake_configure("elapsed=250");
    fake_stall(alone.stream);
    right = right && alone_run(&alone) && times_are(&alone, 0) &&
            alone_run(&alone) && times_are(&alone, 0);
    fake_resume(alone.stream);
    device_wait(alone.stream);
    right = right && times_are(&alone, ELAPSED);
    fake_configure("elapsed=500");
    right = right && times_are(&alone, ELAPSED) && alone_run(&alone);
    device_wait(alone.stream);
    events = fake_live(FAKE_EVENTS);
    right = right && times_are(&alone, 2 * ELAPSED) &&
            say(fake_live(FAKE_EVENTS) <= events - 4, "events are released");
    return alone_end(&alone, right);
}

/* Checks that a device which measures nothing is no error of the backward. */
static int times_that_are_not_told(struct symmcoll_group *group, int rank)
{
    struct alone alone;
    int right = alone_begin(&alone, group, rank, NULL);

    fake_configure("fail=cuEventElapsedTime:0:2");
    right = right && alone_run(&alone);
    device_wait(alone.stream);
    right = right && times_are(&alone, 0) && alone_run(&alone);
    return alone_end(&alone, right);
}

/* ---- hooks ---- */

/* Checks that the all_reduce hook looks up its kernels once, not for each
 * bucket. */
static int hook_opens_once(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct alone alone;
    int right;

    args.hook = symmcoll_hook_all_reduce;
    right = alone_begin(&alone, group, rank, &args) && alone_run(&alone);
    fake_configure("fail=cuLibraryGetKernel:0:1");
    right = right && alone_run(&alone) && alone_run(&alone);
    fake_configure("");
    return alone_end(&alone, right);
}

/* ---- a model on two devices ---- */

/* Runs a step of one reducer, and checks the average on every rank. */
static int averages_once(struct alone *alone, int rank)
{
    int size = symmcoll_group_size(alone->group), right;
    struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;
    float found = 0;

    alone_enqueue(alone, (float)(size * (rank + 1)));
    right =
        say(symmcoll_reducer_begin(alone->reducer, 1) == SYMMCOLL_OK &&
                symmcoll_reducer_ready(alone->reducer, 0, alone->grad) ==
                    SYMMCOLL_OK &&
                symmcoll_reducer_finish(alone->reducer) == SYMMCOLL_OK &&
                symmcoll_reducer_grad(alone->reducer, 0, &view) == SYMMCOLL_OK,
            "a backward");
    device_wait(alone->stream);
    if (right)
        device_read(&found, (char *)view.data + 40, sizeof(found));
    return right && say(found == (float)(size * (size + 1) / 2), "an average");
}

/* Runs a reducer for each device, in separate groups. */
static int two_devices(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group), ranks[4], right;
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *other = NULL;
    struct alone first = {0}, second = {0};

    for (int r = 0; r < size; r++)
        ranks[r] = r;
    args.ranks = ranks;
    args.nranks = size;
    right = alone_begin(&first, group, rank, NULL) &&
            symmcoll_group_create(group->world, &args, &other) == SYMMCOLL_OK &&
            alone_begin(&second, other, rank + size, NULL);
    for (int step = 0; right && step < 2; step++) {
        device_use(rank + size);
        right = averages_once(&second, rank);
        device_use(rank);
        right = right && averages_once(&first, rank);
        symmcoll_reducer_zero(second.reducer);
        symmcoll_reducer_zero(first.reducer);
    }
    device_use(rank + size);
    right = alone_end(&second, right);
    device_use(rank);
    return alone_end(&first, right);
}

int main(void)
{
    device_begin();
    on_both(2, calls_return, "no call waits for the device, streams do");
    on_both(2, freed_in_flight,
        "a reducer is released while its stream stands still");
    ok(ranks_run(2, times_of_the_device),
        "D45: times are the device's, of a backward that has ended there");
    ok(ranks_run(2, times_that_are_not_told),
        "D45: a device that tells no time is no error");
    ok(ranks_run(2, hook_opens_once),
        "the all_reduce hook opens a device once");
    on_both(2, two_devices,
        "D1: a model on two devices has a reducer for each, in groups of their own");
    return done_testing();
}
