/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests trace.timing: the flight recorder has the time that operations took on
 * the device. The fake driver returns the same time between any two events, so
 * that a time from another source is detected.
 */
#include "t/cuda/members.h"

#include "group/group.h"
#include "trace/view.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#define COUNT 50
#define CALLS 20
#define ELAPSED_NS 1000 /* shorter than any operation */

/* The operations of a rank, and its memory. */
struct run {
    struct symmcoll_group *group;
    CUstream stream;
    void *at;
    struct symmcoll_call call;
};

static struct run begin(struct symmcoll_group *group, int rank)
{
    struct run run = {.group = group, .call = SYMMCOLL_CALL_INIT};

    device_use(rank);
    run.stream = run.call.stream = device_stream();
    run.at = device_alloc(COUNT * sizeof(float));
    return run;
}

static int finish(struct run *run, int right)
{
    device_wait(run->stream);
    device_end_stream(run->stream);
    device_free(run->at);
    return right;
}

static symmcoll_status_t sum(struct run *run, struct symmcoll_work **work)
{
    return symmcoll_all_reduce(
        run->group, run->at, run->at, COUNT, F32, SUM, &run->call, work);
}

/* Runs some operations with works and some without, and waits until all have
 * ended. */
static int call_some(struct run *run, int n)
{
    int right = 1;

    for (int i = 0; i < n && right; i++) {
        struct symmcoll_work *work = NULL;

        right = say(sum(run, i % 2 == 0 ? NULL : &work) == SYMMCOLL_OK, "sum");
        if (work != NULL)
            right = say(symmcoll_work_wait(work, 60) == SYMMCOLL_OK, "wait") &&
                    right;
        symmcoll_work_free(work);
        device_wait(run->stream);
        right = symc_queue_await_running(run->group->runner.queue,
                    symc_now_ns() + 60 * SYMC_NS_PER_S) &&
                right;
    }
    return right;
}

/* Counts the completed sums in the recorder, and those with the duration that
 * the driver returned. */
static void count_sums(
    const struct symmcoll_group *group, int *completed, int *timed)
{
    const struct symc_trace_ring *ring = group->world->trace.ring;
    struct symc_trace_view view;

    *completed = *timed = 0;
    if (symc_trace_view_open(
            &view, ring, symc_trace_capacity_nbytes(ring->capacity)) < 0)
        return;
    for (uint32_t slot = 0; slot < view.capacity; slot++) {
        struct symc_trace_copy copy;
        int64_t ns;

        if (!symc_trace_view_entry(&view, slot, &copy) ||
            copy.kind != SYMC_ALL_REDUCE || copy.state != SYMC_TRACE_COMPLETED)
            continue;
        ns = symc_trace_view_wall_ns(&view, copy.completed) -
             symc_trace_view_wall_ns(&view, copy.started);
        ++*completed;
        *timed += llabs(ns - ELAPSED_NS) <= 2 && copy.started >= copy.created;
    }
}

static int has_sums(
    const struct symmcoll_group *group, int completed, int timed)
{
    int found[2];

    count_sums(group, &found[0], &found[1]);
    if (found[0] == completed && found[1] == timed)
        return 1;
    diag("%d sums have ended and %d of them are timed, not %d and %d", found[0],
        found[1], completed, timed);
    return 0;
}

static int every_entry_is_timed(struct symmcoll_group *group, int rank)
{
    struct run run = begin(group, rank);
    int right = call_some(&run, CALLS) && has_sums(group, CALLS, CALLS);

    return finish(&run, right);
}

/* Checks how many events an operation records and creates. Runs with ranks
 * that are processes, each of which has its own driver. */
static int events_are_few(struct symmcoll_group *group, int rank)
{
    bool timed = group->world->config->trace_timing;
    struct run run = begin(group, rank);
    uint64_t records;
    int right, events;

    right = call_some(&run, 4);
    records = fake_calls("cuEventRecord");
    events = fake_live(FAKE_EVENTS);
    for (int i = 0; i < CALLS && right; i++) {
        right = say(sum(&run, NULL) == SYMMCOLL_OK, "sum");
        device_wait(run.stream);
        right = symc_queue_await_running(
                    group->runner.queue, symc_now_ns() + 60 * SYMC_NS_PER_S) &&
                right;
    }
    records = fake_calls("cuEventRecord") - records;
    events = fake_live(FAKE_EVENTS) - events;
    if (records != (timed ? 2 : 1) * CALLS || events != 0 ||
        (fake_calls("cuEventElapsedTime") != 0) != timed) {
        diag("%d calls recorded %d events, and made %d", CALLS, (int)records,
            events);
        right = 0;
    }
    return finish(&run,
        right && say(fake_calls("cuEventSynchronize") == 0, "a call waited"));
}

static int without_it_none_is(struct symmcoll_group *group, int rank)
{
    struct run run = begin(group, rank);
    int right = call_some(&run, CALLS) && has_sums(group, CALLS, 0);

    return finish(&run, right && events_are_few(group, rank));
}

/* Checks that captured operations have neither an end nor a duration in the
 * recorder, only the host's part. */
static int captured_ones_are_not(struct symmcoll_group *group, int rank)
{
    struct run run = begin(group, rank);
    CUgraph graph = NULL;
    uint64_t records, asked;
    int right = call_some(&run, 2);

    records = fake_calls("cuEventRecord");
    asked = fake_calls("cuEventElapsedTime");
    right = right && cuStreamBeginCapture(run.stream,
                         CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS;
    right = say(sum(&run, NULL) == SYMMCOLL_OK, "captured") && right;
    right = cuStreamEndCapture(run.stream, &graph) == CUDA_SUCCESS && right;
    right = right && say(fake_calls("cuEventRecord") == records &&
                             fake_calls("cuEventElapsedTime") == asked,
                         "an event in a graph");
    if (graph != NULL)
        cuGraphDestroy(graph);
    return finish(&run, right && has_sums(group, 2, 2));
}

/* ---- durations passed to hooks ---- */

static _Atomic int told_right;

static void note(const struct symmcoll_operation *operation, void *arg)
{
    (void)arg;
    if (fabs(operation->duration * 1e9 - ELAPSED_NS) <= 2)
        atomic_fetch_add(&told_right, 1);
    else
        diag("%s took %g s", operation->name, operation->duration);
}

static int it_is_told(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group;
    struct run run;
    int right;

    atomic_store(&told_right, 0);
    right =
        say(symmcoll_group_create(all->world, NULL, &group) == SYMMCOLL_OK &&
                symmcoll_group_notify(group, note, NULL) == SYMMCOLL_OK,
            "a group that tells");
    run = begin(group, rank);
    right = right && call_some(&run, CALLS);
    right = finish(&run, right);
    right = say(symmcoll_group_free(group) == SYMMCOLL_OK, "free") && right;
    return right && atomic_load(&told_right) == CALLS;
}

/* An operation that could not be enqueued already has an event; a leak checker
 * detects if it is lost. */
static int failures_lose_nothing(struct symmcoll_group *group, int rank)
{
    struct run run = begin(group, rank);
    int right = call_some(&run, 2);

    fake_configure("fail=cuLaunchKernelEx:1:701");
    right = right && sum(&run, NULL) < 0;
    return finish(&run, right) && has_sums(group, 2, 2);
}

int main(void)
{
    device_begin();
    if (!fake_configure("elapsed=1"))
        diag("the fake driver does not take its settings");
    ok(ranks_run(2, without_it_none_is),
        "without trace.timing an operation has one event, and no duration of "
        "the device");
    setenv("SYMMCOLL_TRACE_TIMING", "on", 1);
    on_both(2, every_entry_is_timed,
        "trace.timing: an entry has the duration that the device measured");
    ok(ranks_run(3, events_are_few),
        "events are used again, and none is waited for");
    ok(ranks_run(2, captured_ones_are_not), "captured operations have none");
    ok(ranks_run(2, it_is_told), "the duration is told, too");
    ok(ranks_run(2, failures_lose_nothing),
        "what could not be enqueued has no time");
    return done_testing();
}
