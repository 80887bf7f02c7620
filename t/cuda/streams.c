/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests streams: an operation begins after earlier work of the caller's
 * stream, later work of the stream follows the operation after a wait, and the
 * host waits for neither; any number of operations may be in flight. A stream
 * is blocked until the test releases it, so that missing order is detected.
 */
#include "t/cuda/members.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define COUNT 50
#define MANY 40

/* One operation on a blocked stream, with its buffers. */
struct run {
    struct symmcoll_group *group;
    int rank, size;
    CUstream stream;
    float *in, *out; /* of the device */
    float host[COUNT];
    struct symmcoll_call call;
};

static void begin(struct run *run, struct symmcoll_group *group, int rank)
{
    device_use(rank);
    *run = (struct run){.group = group,
        .rank = rank,
        .size = symmcoll_group_size(group),
        .stream = device_stream(),
        .in = device_alloc(sizeof(run->host)),
        .out = device_alloc(sizeof(run->host)),
        .call = SYMMCOLL_CALL_INIT};
    run->call.stream = run->stream;
    for (int i = 0; i < COUNT; i++)
        run->host[i] = (float)(rank + i);
}

static int finish(struct run *run, int right)
{
    device_wait(run->stream);
    device_end_stream(run->stream);
    device_free(run->in);
    device_free(run->out);
    return right;
}

static CUdeviceptr address(const void *at)
{
    return (CUdeviceptr)(uintptr_t)at;
}

static void enqueue_write(struct run *run)
{
    cuMemcpyAsync(
        address(run->in), address(run->host), sizeof(run->host), run->stream);
}

static void enqueue_read(struct run *run, float *to)
{
    cuMemcpyAsync(
        address(to), address(run->out), sizeof(run->host), run->stream);
}

static symmcoll_status_t sum(struct run *run, struct symmcoll_work **work)
{
    return symmcoll_all_reduce(
        run->group, run->out, run->in, COUNT, F32, SUM, &run->call, work);
}

static int is_sum(const struct run *run, const float *found, float more)
{
    for (int i = 0; i < COUNT; i++) {
        float expected = more * (float)run->size;

        for (int r = 0; r < run->size; r++)
            expected += (float)(r + i);
        if (found[i] != expected) {
            diag("element %d is %g, not %g", i, found[i], expected);
            return 0;
        }
    }
    return 1;
}

/* ---- order of one operation ---- */

/* Opens the group's backend, so that later operations are typical. */
static int open_backend(struct run *run)
{
    enqueue_write(run);
    return say(sum(run, NULL) == SYMMCOLL_OK, "the first operation") &&
           (device_wait(run->stream), 1);
}

static int waits_for_stream(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *work = NULL;
    struct run run;
    float found[COUNT];
    int right;

    begin(&run, group, rank);
    right = open_backend(&run);
    for (int i = 0; i < COUNT; i++)
        run.host[i] += 1;
    fake_stall(run.stream);
    enqueue_write(&run);
    right = right && say(sum(&run, &work) == SYMMCOLL_OK, "the call") &&
            say(symmcoll_work_test(work) == SYMMCOLL_IN_PROGRESS, "test");
    fake_resume(run.stream);
    right =
        right && say(symmcoll_work_wait(work, 60) == SYMMCOLL_OK, "the wait");
    symmcoll_work_free(work);
    device_read(found, run.out, sizeof(found));
    return finish(&run, right && is_sum(&run, found, 1));
}

/* The last rank's stream is blocked until all ranks have waited. */
static int stream_comes_after(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *work = NULL;
    struct run run;
    float found[COUNT] = {0}, one = 1, all;
    int right;

    begin(&run, group, rank);
    right = open_backend(&run);
    cuMemsetD32Async(address(run.out), 0, COUNT, run.stream);
    if (rank == run.size - 1)
        fake_stall(run.stream);
    right = right && say(sum(&run, &work) == SYMMCOLL_OK, "the call") &&
            say(symmcoll_work_wait(work, -1) == SYMMCOLL_OK, "the wait");
    enqueue_read(&run, found);
    right = right && say(cuStreamQuery(run.stream) == CUDA_ERROR_NOT_READY,
                         "a stream that goes on before the operation");
    /* An operation on host memory at the same time. */
    right = say(symmcoll_all_reduce(
                    group, &all, &one, 1, F32, SUM, NULL, NULL) == SYMMCOLL_OK,
                "an operation in host memory beside it") &&
            right;
    if (rank == run.size - 1)
        fake_resume(run.stream);
    device_wait(run.stream);
    symmcoll_work_free(work);
    return finish(&run, right && is_sum(&run, found, 0));
}

static int host_does_not_wait(struct symmcoll_group *group, int rank)
{
    struct run run;
    float found[COUNT] = {0};
    int right;

    begin(&run, group, rank);
    right = open_backend(&run);
    for (int i = 0; i < COUNT; i++)
        run.host[i] += 2;
    fake_stall(run.stream);
    enqueue_write(&run);
    right = right && say(sum(&run, NULL) == SYMMCOLL_OK, "the call");
    enqueue_read(&run, found);
    right = right && say(cuStreamQuery(run.stream) == CUDA_ERROR_NOT_READY,
                         "the stream stands still");
    fake_resume(run.stream);
    device_wait(run.stream);
    return finish(&run, right && is_sum(&run, found, 2));
}

/* ---- captured streams ---- */

/* Checks that a captured stream refuses the wait, which can be made
 * afterwards. */
static int waits_when_captured(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *work = NULL;
    CUgraph graph = NULL;
    struct run run;
    int right;

    begin(&run, group, rank);
    right = open_backend(&run);
    fake_stall(run.stream);
    right = right && say(sum(&run, &work) == SYMMCOLL_OK, "the call");
    cuStreamBeginCapture(run.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    right = right &&
            ended(symmcoll_work_wait(work, -1), SYMMCOLL_ERR_INVALID,
                "is being captured") &&
            say(symmcoll_group_error(group) == SYMMCOLL_OK, "the group");
    cuStreamEndCapture(run.stream, &graph);
    cuGraphDestroy(graph);
    right = right && say(symmcoll_work_wait(work, -1) == SYMMCOLL_OK, "a wait");
    fake_resume(run.stream);
    right = right && say(sum(&run, NULL) == SYMMCOLL_OK, "a later call");
    symmcoll_work_free(work);
    return finish(&run, right);
}

/* The last rank calls while the other streams are captured: operations called
 * before are started then, and are not in the graph. */
static int starts_beside_a_capture(struct symmcoll_group *group, int rank)
{
    struct symmcoll_group *other = NULL;
    struct symmcoll_work *work = NULL;
    CUgraph graph = NULL;
    struct run run;
    float found[COUNT], one = 1, all;
    int right, late;

    begin(&run, group, rank);
    run.call.timeout = 20;
    late = rank == run.size - 1;
    right = open_backend(&run) &&
            say(symmcoll_group_create(
                    symmcoll_group_world(group), NULL, &other) == SYMMCOLL_OK,
                "a group");
    cuMemsetD32Async(address(run.out), 0, COUNT, run.stream);
    if (right && !late) {
        right = say(sum(&run, &work) == SYMMCOLL_OK, "the call");
        cuStreamBeginCapture(run.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    }
    right = right && say(symmcoll_barrier(other, NULL, NULL) == SYMMCOLL_OK,
                         "a barrier");
    if (right && late)
        right = say(sum(&run, &work) == SYMMCOLL_OK, "the late call");
    /* This operation comes after the start. */
    right = right && say(symmcoll_all_reduce(group, &all, &one, 1, F32, SUM,
                             NULL, NULL) == SYMMCOLL_OK,
                         "an operation in host memory");
    if (!late) {
        cuStreamEndCapture(run.stream, &graph);
        cuGraphDestroy(graph);
    }
    right =
        right && say(symmcoll_work_wait(work, 60) == SYMMCOLL_OK, "the wait");
    symmcoll_work_free(work);
    symmcoll_group_free(other);
    device_read(found, run.out, sizeof(found));
    return finish(&run, right && is_sum(&run, found, 0));
}

/* ---- reused handles ---- */

/* Returns how many waits for events an operation adds to its stream. */
static int waits(struct run *run, int *right)
{
    uint64_t before = fake_calls("cuStreamWaitEvent");

    *right = say(sum(run, NULL) == SYMMCOLL_OK, "an operation") && *right;
    device_wait(run->stream);
    return (int)(fake_calls("cuStreamWaitEvent") - before);
}

/* The next stream has the handle of a destroyed one. */
static int tells_streams_apart(struct symmcoll_group *group, int rank)
{
    struct run run;
    CUstream former;
    int right;

    (void)fake_configure("reuse=1");
    begin(&run, group, rank);
    former = run.stream;
    right = open_backend(&run);
    right = say(waits(&run, &right) == 0, "the same stream") && right;
    device_end_stream(run.stream);
    fake_finish();
    run.stream = run.call.stream = device_stream();
    right = say(run.stream == former, "the same handle") &&
            say(waits(&run, &right) == 1, "another stream") && right;
    return finish(&run, right);
}

/* Uses a driver that does not report ids of streams. */
static int waits_always(struct symmcoll_group *group, int rank)
{
    struct run run;
    int right;

    (void)fake_configure("missing=cuStreamGetId");
    begin(&run, group, rank);
    right = open_backend(&run);
    right = say(waits(&run, &right) == 1, "the same stream") && right;
    return finish(&run, right);
}

/* ---- many ---- */

/* Calls all operations while the first one is blocked, on two streams
 * alternately, with works and without; then each has its result. */
static int many_are_under_way(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *works[MANY] = {NULL};
    float *outs[MANY], found[COUNT];
    struct run run;
    CUstream other;
    int right;

    begin(&run, group, rank);
    other = device_stream();
    right = open_backend(&run);
    /* Allocates before the stall: an allocation waits for its own stream,
     * which may share a hardware queue with the blocked one. */
    for (int i = 0; i < MANY; i++)
        outs[i] = device_alloc(sizeof(found));
    fake_stall(run.stream);
    for (int i = 0; i < MANY; i++) {
        run.call.stream = i % 2 == 0 ? run.stream : other;
        right =
            say(symmcoll_all_reduce(group, outs[i], run.in, COUNT, F32, SUM,
                    &run.call, i % 3 == 0 ? NULL : &works[i]) == SYMMCOLL_OK,
                "a call") &&
            right;
    }
    fake_resume(run.stream);
    for (int i = MANY - 1; i >= 0; i--) {
        if (works[i] != NULL)
            right = say(symmcoll_work_wait(works[i], 60) == SYMMCOLL_OK,
                        "a wait") &&
                    right;
        symmcoll_work_free(works[i]);
    }
    device_wait(run.stream);
    device_wait(other);
    for (int i = 0; i < MANY; i++) {
        device_read(found, outs[i], sizeof(found));
        right = right && is_sum(&run, found, 0);
        device_free(outs[i]);
    }
    device_end_stream(other);
    return finish(&run, right);
}

/* Runs operations in host memory in between. */
static int memories_mix(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *works[2 * MANY] = {NULL};
    float sums[MANY], one = (float)rank, found[COUNT];
    struct run run;
    int right;

    begin(&run, group, rank);
    right = open_backend(&run);
    for (int i = 0; i < MANY; i++) {
        right = say(sum(&run, &works[2 * i]) == SYMMCOLL_OK, "a device") &&
                say(symmcoll_all_reduce(group, &sums[i], &one, 1, F32, SUM,
                        NULL, &works[2 * i + 1]) == SYMMCOLL_OK,
                    "the host") &&
                right;
    }
    for (int i = 0; i < 2 * MANY; i++) {
        right =
            say(symmcoll_work_wait(works[i], 60) == SYMMCOLL_OK, "a wait") &&
            right;
        symmcoll_work_free(works[i]);
    }
    for (int i = 0; i < MANY; i++)
        right = right && sums[i] == (float)(run.size * (run.size - 1)) / 2;
    device_wait(run.stream);
    device_read(found, run.out, sizeof(found));
    return finish(&run, right && is_sum(&run, found, 0));
}

/* ---- no bytes ---- */

static int empty_sums(struct run *run)
{
    struct symmcoll_work *work = NULL;
    int right = say(symmcoll_all_reduce(run->group, run->out, run->in, 0, F32,
                        SUM, &run->call, NULL) == SYMMCOLL_OK,
                    "a call without elements") &&
                say(symmcoll_all_reduce(run->group, NULL, NULL, 0, F32, SUM,
                        &run->call, &work) == SYMMCOLL_OK,
                    "one with a work") &&
                say(symmcoll_work_wait(work, -1) == SYMMCOLL_OK, "its end");

    symmcoll_work_free(work);
    return right;
}

static int nothing_to_order(struct symmcoll_group *group, int rank)
{
    float host[2] = {1, 0};
    struct run run;
    int right;

    begin(&run, group, rank);
    right = empty_sums(&run) &&
            ended(symmcoll_barrier(group, &run.call, NULL),
                SYMMCOLL_ERR_UNSUPPORTED,
                "barrier: expected no stream before the group's first") &&
            open_backend(&run) && empty_sums(&run) &&
            say(symmcoll_barrier(group, &run.call, NULL) == SYMMCOLL_OK,
                "a barrier") &&
            ended(symmcoll_all_reduce(
                      group, host + 1, host, 1, F32, SUM, &run.call, NULL),
                SYMMCOLL_ERR_UNSUPPORTED, "expected no stream for host memory");
    return finish(&run, right);
}

/* Checks the stream priority of an operation with a work, so that it does not
 * wait for blocks of the program's later kernels. */
static int goes_first(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *work = NULL;
    int least = 0, greatest = 0;
    struct run run;
    int right;

    begin(&run, group, rank);
    cuCtxGetStreamPriorityRange(&least, &greatest);
    right = open_backend(&run) &&
            say(fake_priority(rank) == least, "a call on the caller's") &&
            say(sum(&run, &work) == SYMMCOLL_OK &&
                    symmcoll_work_wait(work, 60) == SYMMCOLL_OK,
                "a work") &&
            (device_wait(run.stream),
                say(fake_priority(rank) == greatest, "the work on its own"));
    symmcoll_work_free(work);
    return finish(&run, right);
}

/* Makes the query of the capture status fail. */
static int names_the_drivers_error(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *work = NULL;
    struct run run;
    int right;

    begin(&run, group, rank);
    right = open_backend(&run);
    fake_configure("fail=cuStreamIsCapturing:0:700");
    right = right && ended(sum(&run, &work), SYMMCOLL_ERR_DEVICE,
                         "cuStreamIsCapturing of stream");
    return finish(&run, right);
}

int main(void)
{
    device_begin();
    ok(ranks_run(1, names_the_drivers_error),
        "a stream of which the driver says an error is not taken for captured");
    for (int n = 2; n <= 3; n++) {
        on_both(n, waits_for_stream,
            "an operation waits for what its stream had at the call");
        on_both(n, stream_comes_after,
            "what a stream has after a wait comes after the operation");
        on_both(n, waits_when_captured,
            "a wait that a captured stream cannot make is refused alone");
        on_both(n, starts_beside_a_capture,
            "a capture that begins after a call has nothing of it");
        on_both(n, goes_first,
            "a work's kernels are on a stream of the greatest priority");
        on_both(n, host_does_not_wait,
            "a call without a work returns before the device is there");
        ok(ranks_run(n, tells_streams_apart),
            "a stream that has the handle of a former one waits for the "
            "operation before");
        ok(ranks_run(n, waits_always),
            "any stream does where streams cannot be told apart");
        on_both(n, many_are_under_way, "many operations are under way");
        on_both(n, memories_mix, "operations in both memories in turn");
        on_both(n, nothing_to_order,
            "a stream is no error where there is no byte to order");
    }
    if (!fake_configure("connections=1"))
        diag("the fake driver does not take one hardware queue");
    on_both(2, many_are_under_way, "and so they are on one hardware queue");
    return done_testing();
}
