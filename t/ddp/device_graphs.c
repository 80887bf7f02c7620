/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the gradient reducer with CUDA graphs: a pass is captured as a whole,
 * on any stream, or refused, and a refused pass affects neither the capture
 * nor the next pass.
 */
#include "t/ddp/alone.h"

#include "group/group.h"

#define SAMPLE 7 /* an element of the gradient */

/* ---- captures ---- */

static int begin_capture(const struct symmcoll_group *group, CUstream stream)
{
    CUstreamCaptureMode mode = group->world->threads
                                   ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                                   : CU_STREAM_CAPTURE_MODE_GLOBAL;

    return say(
        cuStreamBeginCapture(stream, mode) == CUDA_SUCCESS, "a capture begins");
}

/* Checks that the capture ends normally; the graph (out) may be NULL. */
static int end_capture(CUstream stream, CUgraphExec *exec)
{
    CUgraph graph = NULL;
    int right = say(
        cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS, "a capture ends");

    if (right && exec != NULL)
        right = say(cuGraphInstantiate(exec, graph, 0) == CUDA_SUCCESS,
            "a graph is made");
    if (graph != NULL)
        cuGraphDestroy(graph);
    return right;
}

/* Creates a reducer that writes averages back, and runs its first passes. */
static int begin_trained(struct alone *alone, struct symmcoll_group *group,
    int rank, symmcoll_bucket_fn hook)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;

    args.write_back = 1;
    args.hook = hook;
    return alone_begin(alone, group, rank, &args) && alone_run(alone) &&
           alone_run(alone);
}

/* Checks the average of gradients that were size * (r + step) on rank r. */
static int is_average(const struct alone *alone, int step)
{
    int size = symmcoll_group_size(alone->group);
    float found = 0;

    device_wait(alone->stream);
    device_read(&found, alone->grad + SAMPLE, sizeof(found));
    return say(
        found == (float)(size * step + size * (size - 1) / 2), "an average");
}

static void enqueue_step(const struct alone *alone, int rank, int step)
{
    int size = symmcoll_group_size(alone->group);

    alone_enqueue(alone, (float)(size * (rank + step)));
}

/* Runs a pass on the current stream without a capture. */
static int runs_again(struct alone *alone, int rank)
{
    enqueue_step(alone, rank, 11);
    return alone_run(alone) && is_average(alone, 11);
}

static int launch_steps(struct alone *alone, int rank, CUgraphExec exec)
{
    int right = 1;

    for (int step = 0; right && step < 3; step++) {
        enqueue_step(alone, rank, step);
        right = say(cuGraphLaunch(exec, alone->stream) == CUDA_SUCCESS,
                    "a graph is launched") &&
                is_average(alone, step);
    }
    return right;
}

/* ---- captured passes ---- */

/* The reducer has been begun, which went right. */
static int capture_pass(
    struct alone *begun, struct symmcoll_group *group, int rank, int right)
{
    struct alone alone = *begun;
    CUgraphExec exec = NULL;

    right = right && begin_capture(group, alone.stream) && alone_run(&alone);
    right = end_capture(alone.stream, &exec) && right &&
            launch_steps(&alone, rank, exec) && runs_again(&alone, rank);
    if (exec != NULL)
        cuGraphExecDestroy(exec);
    return alone_end(&alone, right);
}

static int capture_with(
    struct symmcoll_group *group, int rank, symmcoll_bucket_fn hook)
{
    struct alone alone;
    int right = begin_trained(&alone, group, rank, hook);

    return capture_pass(&alone, group, rank, right);
}

static int captured_static_graph(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct alone alone;
    int right;

    args.write_back = 1;
    args.static_graph = 1;
    right = alone_begin(&alone, group, rank, &args) && alone_run(&alone) &&
            alone_run(&alone);
    return capture_pass(&alone, group, rank, right);
}

static int captured(struct symmcoll_group *group, int rank)
{
    return capture_with(group, rank, NULL);
}

static int captured_hook(struct symmcoll_group *group, int rank)
{
    return capture_with(group, rank, symmcoll_hook_all_reduce);
}

static int captured_compression(struct symmcoll_group *group, int rank)
{
    return capture_with(group, rank, symmcoll_hook_fp16_compress);
}

static symmcoll_status_t wrap(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    struct symmcoll_hook_wrapped wrapped = SYMMCOLL_HOOK_WRAPPED_INIT;

    (void)arg;
    wrapped.hook = symmcoll_hook_all_reduce;
    return symmcoll_hook_fp16_wrapper(group, bucket, &wrapped, work);
}

/* Captures a pass with a hook that requests its memory in the first pass. */
static int captured_wrapper(struct symmcoll_group *group, int rank)
{
    return capture_with(group, rank, wrap);
}

/* Captures after a pass that rebuilt the buckets without calling the hook. */
static int captured_after_local(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct alone alone;
    CUgraphExec exec = NULL;
    int right;

    args.write_back = 1;
    args.hook = wrap;
    right = alone_begin(&alone, group, rank, &args) && alone_run(&alone) &&
            symmcoll_reducer_begin(alone.reducer, 0) == SYMMCOLL_OK &&
            symmcoll_reducer_finish(alone.reducer) == SYMMCOLL_OK &&
            begin_capture(group, alone.stream) && alone_run(&alone);
    right = end_capture(alone.stream, &exec) && right &&
            launch_steps(&alone, rank, exec);
    if (exec != NULL)
        cuGraphExecDestroy(exec);
    return alone_end(&alone, right);
}

/* The previous passes were on another stream, for which a graph cannot wait;
 * zero and begin leave the capture intact. */
static int capture_after(
    struct symmcoll_group *group, int rank, bool on_default, unsigned int flags)
{
    struct alone alone;
    CUgraphExec exec = NULL;
    CUstream own, other = NULL;
    int right = begin_trained(&alone, group, rank, NULL);

    own = alone.stream;
    device_wait(own);
    if (on_default)
        right = right &&
                symmcoll_group_set_stream(group, NULL) == SYMMCOLL_OK &&
                alone_run(&alone);
    device_wait(NULL);
    right = right && cuStreamCreate(&other, flags) == CUDA_SUCCESS &&
            begin_capture(group, other) &&
            symmcoll_group_set_stream(group, other) == SYMMCOLL_OK;
    alone.stream = other;
    symmcoll_reducer_zero(alone.reducer);
    right = right && alone_run(&alone);
    right =
        end_capture(other, &exec) && right && launch_steps(&alone, rank, exec);
    alone.stream = own;
    right = right && symmcoll_group_set_stream(group, own) == SYMMCOLL_OK &&
            runs_again(&alone, rank);
    if (exec != NULL)
        cuGraphExecDestroy(exec);
    right = alone_end(&alone, right);
    device_end_stream(other);
    return right;
}

static int captured_elsewhere(struct symmcoll_group *group, int rank)
{
    return capture_after(group, rank, false, CU_STREAM_NON_BLOCKING);
}

/* The driver does not report whether the default stream is captured while a
 * blocking stream is. */
static int captured_after_default(struct symmcoll_group *group, int rank)
{
    return capture_after(group, rank, true, CU_STREAM_DEFAULT);
}

/* Passes gradients on a stream that has joined the capture. */
static int captured_on_two(struct symmcoll_group *group, int rank)
{
    struct alone alone;
    CUgraphExec exec = NULL;
    CUevent event = NULL;
    CUstream other;
    int right = begin_trained(&alone, group, rank, NULL);

    other = device_stream();
    right =
        right && cuEventCreate(&event, 0) == CUDA_SUCCESS &&
        begin_capture(group, alone.stream) &&
        say(symmcoll_reducer_begin(alone.reducer, 1) == SYMMCOLL_OK &&
                cuEventRecord(event, alone.stream) == CUDA_SUCCESS &&
                cuStreamWaitEvent(other, event, 0) == CUDA_SUCCESS &&
                symmcoll_group_set_stream(group, other) == SYMMCOLL_OK &&
                symmcoll_reducer_ready(alone.reducer, 0, alone.grad) ==
                    SYMMCOLL_OK &&
                symmcoll_group_set_stream(group, alone.stream) == SYMMCOLL_OK &&
                symmcoll_reducer_finish(alone.reducer) == SYMMCOLL_OK,
            "a backward on two streams");
    right = end_capture(alone.stream, &exec) && right &&
            launch_steps(&alone, rank, exec) && runs_again(&alone, rank);
    if (exec != NULL)
        cuGraphExecDestroy(exec);
    if (event != NULL)
        cuEventDestroy(event);
    right = alone_end(&alone, right);
    device_end_stream(other);
    return right;
}

/* ---- refused passes ---- */

static const char begun_without[] = "expected a pass that is not captured";
static const char begun_within[] = "captured from begin to finish, found that";

/* Begins a capture while the bucket is in flight: finish reports it, and until
 * a stream can wait for that bucket nothing else may use it. */
static int refuses_finish(struct symmcoll_group *group, int rank)
{
    struct alone alone;
    int right = begin_trained(&alone, group, rank, NULL);

    right =
        right &&
        say(symmcoll_reducer_begin(alone.reducer, 1) == SYMMCOLL_OK &&
                symmcoll_reducer_ready(alone.reducer, 0, alone.grad) ==
                    SYMMCOLL_OK,
            "a bucket in flight") &&
        begin_capture(group, alone.stream) &&
        ended(symmcoll_reducer_finish(alone.reducer), SYMMCOLL_ERR_INVALID,
            begun_without) &&
        ended(symmcoll_reducer_begin(alone.reducer, 1), SYMMCOLL_ERR_INVALID,
            "reducer_begin: bucket 0 of 1 of the backward before: stream ");
    right = end_capture(alone.stream, NULL) && right;
    return alone_end(&alone, right && runs_again(&alone, rank));
}

/* Releases the reducer after a refused finish. */
static int freed_after_that(struct symmcoll_group *group, int rank)
{
    struct alone alone;
    int right = begin_trained(&alone, group, rank, NULL);

    right =
        right && symmcoll_reducer_begin(alone.reducer, 1) == SYMMCOLL_OK &&
        symmcoll_reducer_ready(alone.reducer, 0, alone.grad) == SYMMCOLL_OK &&
        begin_capture(group, alone.stream) &&
        ended(symmcoll_reducer_finish(alone.reducer), SYMMCOLL_ERR_INVALID,
            begun_without);
    right = end_capture(alone.stream, NULL) && right;
    return alone_end(&alone, right);
}

/* Begins on one stream and calls ready on another one, of which only the
 * second is captured. */
static int refuses_ready(struct symmcoll_group *group, int rank)
{
    struct alone alone;
    CUstream other;
    int right = begin_trained(&alone, group, rank, NULL);

    other = device_stream();
    right = right && symmcoll_reducer_begin(alone.reducer, 1) == SYMMCOLL_OK &&
            begin_capture(group, other) &&
            symmcoll_group_set_stream(group, other) == SYMMCOLL_OK &&
            ended(symmcoll_reducer_ready(alone.reducer, 0, alone.grad),
                SYMMCOLL_ERR_INVALID, begun_without) &&
            ended(symmcoll_reducer_finish(alone.reducer), SYMMCOLL_ERR_INVALID,
                begun_without);
    right = end_capture(other, NULL) && right &&
            symmcoll_group_set_stream(group, alone.stream) == SYMMCOLL_OK &&
            runs_again(&alone, rank);
    right = alone_end(&alone, right);
    device_end_stream(other);
    return right;
}

/* Begins within the capture of one stream, and calls ready on another one
 * outside of it. */
static int refuses_to_leave(struct symmcoll_group *group, int rank)
{
    struct alone alone;
    CUstream other;
    int right = begin_trained(&alone, group, rank, NULL);

    other = device_stream();
    right =
        right && begin_capture(group, alone.stream) &&
        symmcoll_reducer_begin(alone.reducer, 1) == SYMMCOLL_OK &&
        symmcoll_group_set_stream(group, other) == SYMMCOLL_OK &&
        ended(symmcoll_reducer_ready(alone.reducer, 0, alone.grad),
            SYMMCOLL_ERR_INVALID, begun_within) &&
        ended(symmcoll_reducer_finish(alone.reducer), SYMMCOLL_ERR_INVALID,
            begun_within) &&
        ended(symmcoll_reducer_begin(alone.reducer, 1), SYMMCOLL_ERR_INVALID,
            "reducer_begin: expected a stream of the capture");
    right = end_capture(alone.stream, NULL) && right &&
            symmcoll_group_set_stream(group, alone.stream) == SYMMCOLL_OK &&
            runs_again(&alone, rank);
    right = alone_end(&alone, right);
    device_end_stream(other);
    return right;
}

/* A hook that has compressed nothing before. */
static symmcoll_status_t compress_captured(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    CUstreamCaptureStatus captured = CU_STREAM_CAPTURE_STATUS_NONE;

    cuStreamIsCapturing(bucket->stream, &captured);
    return captured == CU_STREAM_CAPTURE_STATUS_NONE
               ? symmcoll_hook_all_reduce(group, bucket, arg, work)
               : symmcoll_hook_bf16_compress(group, bucket, arg, work);
}

static int refuses_first_compression(struct symmcoll_group *group, int rank)
{
    struct alone alone;
    int right = begin_trained(&alone, group, rank, compress_captured);

    right = right && begin_capture(group, alone.stream) &&
            symmcoll_reducer_begin(alone.reducer, 1) == SYMMCOLL_OK &&
            ended(symmcoll_reducer_ready(alone.reducer, 0, alone.grad),
                SYMMCOLL_ERR_UNSUPPORTED,
                "reducer: bucket 0 of 1: reducer: a bucket in 16 bits: ") &&
            symmcoll_reducer_finish(alone.reducer) == SYMMCOLL_ERR_UNSUPPORTED;
    right = end_capture(alone.stream, NULL) && right;
    return alone_end(&alone, right && runs_again(&alone, rank));
}

/* The host finds which parameters are used, which a graph cannot wait for. */
static int refuses_search(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct alone alone;
    int right;

    args.write_back = 1;
    args.find_unused = 1;
    right = alone_begin(&alone, group, rank, &args) && alone_run(&alone) &&
            begin_capture(group, alone.stream);
    right = right && say(symmcoll_reducer_begin(alone.reducer, 1) ==
                                 SYMMCOLL_ERR_UNSUPPORTED &&
                             strstr(symmcoll_last_error(),
                                 "which parameters are used") != NULL,
                         "a search is refused");
    right =
        end_capture(alone.stream, NULL) && right && runs_again(&alone, rank);
    return alone_end(&alone, right);
}

/* Checks that begin reports an error of zero, once. */
static int tells_of_zero(struct symmcoll_group *group, int rank)
{
    struct alone alone;
    int right = begin_trained(&alone, group, rank, NULL);

    fake_configure("fail=cuMemsetD8Async:1:1");
    symmcoll_reducer_zero(alone.reducer);
    right = right &&
            ended(symmcoll_reducer_begin(alone.reducer, 1), SYMMCOLL_ERR_DEVICE,
                "reducer_begin: gradients have not been set to zero: ") &&
            runs_again(&alone, rank);
    return alone_end(&alone, right);
}

int main(void)
{
    device_begin();
    on_both(2, captured,
        "a backward that is captured is done each time the graph is started");
    on_both(2, captured_hook, "so is one with the all_reduce hook");
    on_both(2, captured_compression, "so is one with a hook that compresses");
    on_both(2, captured_wrapper, "so is one with a hook in 16 bits");
    on_both(2, captured_static_graph, "so is one of a static graph");
    on_both(2, captured_after_local,
        "so is one after a backward that did not synchronise");
    on_both(2, captured_elsewhere,
        "so is one on another stream than the passes before");
    on_both(2, captured_after_default,
        "so is one on a blocking stream after passes on the default one");
    on_both(2, captured_on_two, "so is one on two streams of the capture");
    on_both(2, refuses_finish,
        "a capture that begins before finish is refused, and the bucket is kept");
    on_both(2, freed_after_that, "so is it where the reducer is released");
    on_both(2, refuses_ready,
        "a stream that is captured is refused in a pass that is not");
    on_both(2, refuses_to_leave,
        "a stream that is not captured is refused in a pass that is");
    on_both(2, refuses_first_compression,
        "memory to compress is refused in a capture, if there is none yet");
    on_both(2, refuses_search,
        "a pass that looks for unused parameters is not captured");
    ok(ranks_run(2, tells_of_zero),
        "gradients that cannot be set to zero are an error of begin");
    return done_testing();
}
