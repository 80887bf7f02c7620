/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests functional calls on devices: the order of streams, lists, results in
 * the caller's memory, and unsupported calls.
 */
#include "t/cuda/members.h"

#include "group/group.h"

#include <stdlib.h>
#include <string.h>

static size_t nbytes_of(const struct symmcoll_tensor *tensor)
{
    size_t count = 1;

    for (int d = 0; d < tensor->ndim; d++)
        count *= (size_t)tensor->shape[d];
    return count * sizeof(float);
}

/* ---- the stream ---- */

struct flow {
    struct symmcoll_group *group;
    int size;
    CUstream stream;
    struct symmcoll_call call;
    struct symmcoll_tensor in, out, next;
};

static int begin(struct flow *flow, struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    struct symmcoll_tensor in = SYMMCOLL_TENSOR_SHAPE(NULL, F32, 2 * size, 3);
    struct symmcoll_tensor none = SYMMCOLL_TENSOR_INIT;

    *flow = (struct flow){.group = group, .size = size, .in = in};
    flow->out = flow->next = none;
    flow->call = (struct symmcoll_call)SYMMCOLL_CALL_INIT;
    flow->in.device = SYMMCOLL_CUDA;
    flow->in.device_index = device_use(rank);
    flow->in.data = device_alloc(nbytes_of(&flow->in));
    flow->stream = flow->call.stream = device_stream();
    return 1;
}

/* Enqueues writes that set everything to 1. */
static void enqueue_ones(const struct flow *flow)
{
    const float one = 1;
    uint32_t bits;

    memcpy(&bits, &one, sizeof(bits));
    cuMemsetD32Async((CUdeviceptr)(uintptr_t)flow->in.data, bits,
        (size_t)flow->size * 6, flow->stream);
}

static int all_are(const struct symmcoll_tensor *tensor, float value)
{
    size_t count = nbytes_of(tensor) / sizeof(float);
    float *found = malloc(count * sizeof(float) + 1);
    int right = 1;

    device_read(found, tensor->data, count * sizeof(float));
    for (size_t i = 0; i < count && right; i++) {
        if (found[i] != value)
            diag("element %zu is %g, not %g", i, found[i], value);
        right = found[i] == value;
    }
    free(found);
    return right;
}

static int end(struct flow *flow, int right)
{
    symmcoll_f_free(flow->group->world, &flow->next);
    symmcoll_f_free(flow->group->world, &flow->out);
    device_wait(flow->stream);
    device_end_stream(flow->stream);
    device_free(flow->in.data);
    return right;
}

/* Runs a sum, gathered along the second dimension: the received data is copied
 * after it has arrived. */
static symmcoll_status_t sum_and_gather(struct flow *flow)
{
    symmcoll_status_t status = symmcoll_f_all_reduce(
        flow->group, &flow->in, SUM, &flow->call, &flow->out, NULL);

    return status == SYMMCOLL_OK
               ? symmcoll_f_all_gather(
                     flow->group, &flow->out, 1, &flow->call, &flow->next, NULL)
               : status;
}

/* Calls and waits return at once while the stream is blocked, except for a
 * wait with a timeout (W4); later work of the stream comes after the result. */
static int streams_wait(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = group->world;
    struct flow flow;
    float *seen;
    int right = begin(&flow, group, rank);

    fake_stall(flow.stream);
    enqueue_ones(&flow);
    right = right && say(sum_and_gather(&flow) == SYMMCOLL_OK, "calls") &&
            ended(symmcoll_f_wait(world, &flow.next, 0.05),
                SYMMCOLL_ERR_TIMEOUT, "") &&
            say(symmcoll_f_wait(world, &flow.next, -1) == SYMMCOLL_OK,
                "a wait of the stream");
    seen = malloc(nbytes_of(&flow.next) + 1);
    if (right)
        cuMemcpyAsync((CUdeviceptr)(uintptr_t)seen,
            (CUdeviceptr)(uintptr_t)flow.next.data, nbytes_of(&flow.next),
            flow.stream);
    fake_resume(flow.stream);
    device_wait(flow.stream);
    for (size_t i = 0; right && i < nbytes_of(&flow.next) / sizeof(float); i++)
        right = say(seen[i] == (float)flow.size, "what the stream has seen");
    free(seen);
    return end(&flow, right && all_are(&flow.next, (float)flow.size));
}

/* Uses a result on another stream, and one without a wait. */
static int crosses_streams(struct symmcoll_group *group, int rank)
{
    struct flow flow;
    CUstream other;
    int right = begin(&flow, group, rank);

    other = device_stream();
    enqueue_ones(&flow);
    right = right && symmcoll_f_all_gather(group, &flow.in, 1, &flow.call,
                         &flow.out, NULL) == SYMMCOLL_OK;
    flow.call.stream = other;
    right = right &&
            symmcoll_f_all_reduce(group, &flow.out, SUM, &flow.call, &flow.next,
                NULL) == SYMMCOLL_OK &&
            symmcoll_f_wait(group->world, &flow.next, 60) == SYMMCOLL_OK &&
            all_are(&flow.next, (float)flow.size);
    right = end(&flow, say(right, "across streams"));
    device_wait(other);
    device_end_stream(other);
    return right;
}

/* Checks that results which the program does not free are freed with the
 * world. */
static int leaves_results(struct symmcoll_group *group, int rank)
{
    struct flow flow;
    int right = begin(&flow, group, rank);

    enqueue_ones(&flow);
    right = right && sum_and_gather(&flow) == SYMMCOLL_OK &&
            symmcoll_f_wait(group->world, &flow.next, 60) == SYMMCOLL_OK;
    return right;
}

/* ---- captures ---- */

/* A result that is pending when a stream is captured is neither copied nor
 * freed by the graph: the wait is refused, and memory freed then is freed
 * once. */
static int waits_outside(struct flow *flow, CUstream stream, const char *why)
{
    struct symmcoll_group *group = flow->group;
    CUstreamCaptureMode mode = group->world->threads
                                   ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                                   : CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    int live, right;

    enqueue_ones(flow);
    right = say(sum_and_gather(flow) == SYMMCOLL_OK, "calls");
    device_wait(flow->stream);
    live = fake_live(FAKE_ALLOCATED);
    right = right && cuStreamBeginCapture(stream, mode) == CUDA_SUCCESS &&
            ended(symmcoll_f_wait(group->world, &flow->next, -1),
                SYMMCOLL_ERR_INVALID, why) &&
            ended(symmcoll_f_wait(group->world, &flow->next, 60),
                SYMMCOLL_ERR_INVALID, why);
    symmcoll_f_free(group->world, &flow->out);
    right = say(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS &&
                    cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS &&
                    cuGraphLaunch(exec, stream) == CUDA_SUCCESS &&
                    cuGraphLaunch(exec, stream) == CUDA_SUCCESS,
                "a graph") &&
            right;
    device_wait(stream);
    right = right && say(fake_live(FAKE_ALLOCATED) == live, "none is freed") &&
            say(symmcoll_f_wait(group->world, &flow->next, 60) == SYMMCOLL_OK,
                "a wait after the capture") &&
            all_are(&flow->next, (float)flow->size);
    if (exec != NULL)
        cuGraphExecDestroy(exec);
    if (graph != NULL)
        cuGraphDestroy(graph);
    return right;
}

static int waits_outside_captures(struct symmcoll_group *group, int rank)
{
    struct flow flow;
    int right = begin(&flow, group, rank);

    right = right && waits_outside(&flow, flow.stream, "f_all_gather: stream ");
    return end(&flow, right);
}

/* The result is on the default stream, and a stream that waits for it is
 * captured. */
static int waits_outside_of_others(struct symmcoll_group *group, int rank)
{
    struct flow flow;
    CUstream own, stream = NULL;
    int right = begin(&flow, group, rank);

    own = flow.stream;
    flow.stream = flow.call.stream = NULL;
    right = right &&
            cuStreamCreate(&stream, CU_STREAM_DEFAULT) == CUDA_SUCCESS &&
            waits_outside(
                &flow, stream, "f_all_gather: cuStreamIsCapturing of stream ");
    right = end(&flow, right);
    device_end_stream(stream);
    device_end_stream(own);
    return right;
}

/* ---- lists ---- */

/* Checks that a list takes one operation for each type, as in host memory. */
static int lists(struct symmcoll_group *group, int rank)
{
    struct symmcoll_tensor out[2] = {
        SYMMCOLL_TENSOR_INIT, SYMMCOLL_TENSOR_INIT};
    struct symmcoll_tensor in[2];
    struct flow flow, second;
    uint64_t before;
    int right = begin(&flow, group, rank) && begin(&second, group, rank);

    in[0] = flow.in;
    in[1] = second.in;
    enqueue_ones(&flow);
    device_wait(flow.stream);
    before = symmcoll_group_sequence(group);
    right = right &&
            symmcoll_f_all_reduce_coalesced(
                group, in, 2, SUM, &flow.call, out, NULL) == SYMMCOLL_OK &&
            symmcoll_f_wait(group->world, &out[0], 60) == SYMMCOLL_OK &&
            symmcoll_f_wait(group->world, &out[1], 60) == SYMMCOLL_OK &&
            all_are(&out[0], (float)flow.size) && all_are(&out[1], 0) &&
            symmcoll_group_sequence(group) == before + 1;
    symmcoll_f_free(group->world, &out[0]);
    symmcoll_f_free(group->world, &out[1]);
    out[0] = out[1] = (struct symmcoll_tensor)SYMMCOLL_TENSOR_INIT;
    in[1].dtype = SYMMCOLL_INT32;
    right = say(right, "a list") &&
            symmcoll_f_all_reduce_coalesced(
                group, in, 2, SUM, &flow.call, out, NULL) == SYMMCOLL_OK &&
            symmcoll_f_wait(group->world, &out[0], 60) == SYMMCOLL_OK &&
            symmcoll_f_wait(group->world, &out[1], 60) == SYMMCOLL_OK &&
            all_are(&out[0], (float)flow.size) &&
            symmcoll_group_sequence(group) == before + 3;
    symmcoll_f_free(group->world, &out[0]);
    symmcoll_f_free(group->world, &out[1]);
    right = end(&second, say(right, "a list of two types"));
    return end(&flow, right);
}

/* ---- refused calls ---- */

static symmcoll_status_t sum(struct flow *flow)
{
    return symmcoll_f_all_reduce(
        flow->group, &flow->in, SUM, NULL, &flow->out, NULL);
}

static int wrong_places(struct flow *flow, int rank)
{
    struct symmcoll_tensor in = flow->in, none = SYMMCOLL_TENSOR_INIT;
    float host[64] = {0};
    int right;

    flow->in.data = host;
    right = ended(sum(flow), SYMMCOLL_ERR_INVALID, "in host memory");
    flow->in.device = SYMMCOLL_HOST;
    flow->in.device_index = 0;
    flow->in.data = in.data;
    right = ended(sum(flow), SYMMCOLL_ERR_INVALID,
                "expected a tensor in host memory, found 0x") &&
            right;
    flow->in = in;
    flow->in.device_index = rank + 1;
    right =
        ended(sum(flow), SYMMCOLL_ERR_INVALID, "in device memory of") && right;
    flow->in = in;
    flow->out = in;
    flow->out.data = host;
    flow->out.device = SYMMCOLL_HOST;
    right = ended(sum(flow), SYMMCOLL_ERR_INVALID, "in device memory") && right;
    flow->out.device = SYMMCOLL_CUDA;
    right = ended(sum(flow), SYMMCOLL_ERR_INVALID, "in host memory") && right;
    flow->out.device_index = rank + 1;
    right = ended(sum(flow), SYMMCOLL_ERR_INVALID, "found device ") && right;
    flow->out = none;
    return right;
}

/* Checks the calls for which there is no kernel. */
static int not_served(struct flow *flow)
{
    int right;

    cuStreamBeginCapture(flow->stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    right = ended(symmcoll_f_all_reduce(flow->group, &flow->in, SUM,
                      &flow->call, &flow->out, NULL),
        SYMMCOLL_ERR_UNSUPPORTED,
        "memory of the caller's for what is captured");
    {
        CUgraph graph = NULL;

        cuStreamEndCapture(flow->stream, &graph);
        cuGraphDestroy(graph);
    }
    return right;
}

static int refusals(struct symmcoll_group *group, int rank)
{
    struct flow flow;
    int right = begin(&flow, group, rank);

    right = right && wrong_places(&flow, rank) && not_served(&flow);
    enqueue_ones(&flow);
    right =
        right &&
        say(sum_and_gather(&flow) == SYMMCOLL_OK &&
                symmcoll_f_wait(group->world, &flow.next, 60) == SYMMCOLL_OK,
            "the group works") &&
        all_are(&flow.next, (float)flow.size);
    return end(&flow, right);
}

/* Puts a result into the caller's memory, in place and not. */
static int takes_memory(struct symmcoll_group *group, int rank)
{
    struct symmcoll_tensor into;
    struct flow flow;
    int right = begin(&flow, group, rank);

    into = flow.in;
    into.data = device_alloc(nbytes_of(&flow.in));
    enqueue_ones(&flow);
    right = right &&
            symmcoll_f_all_reduce(
                group, &flow.in, SUM, &flow.call, &into, NULL) == SYMMCOLL_OK &&
            symmcoll_f_wait(group->world, &into, 60) == SYMMCOLL_OK &&
            all_are(&into, (float)flow.size) && all_are(&flow.in, 1) &&
            symmcoll_f_all_reduce(group, &into, SUM, &flow.call, &into, NULL) ==
                SYMMCOLL_OK &&
            symmcoll_f_wait(group->world, &into, 60) == SYMMCOLL_OK &&
            all_are(&into, (float)(flow.size * flow.size));
    device_free(into.data);
    return end(&flow, say(right, "memory of the caller's"));
}

int main(void)
{
    device_begin();
    on_both(3, streams_wait,
        "a wait has the stream wait, and the host with a timeout (W2, W3, W4)");
    on_both(3, crosses_streams, "a result is used on another stream");
    on_both(2, waits_outside_captures,
        "a result whose stream is captured is waited for before that, or after");
    on_both(2, waits_outside_of_others,
        "so is one on the default stream where a blocking one is captured");
    on_both(2, leaves_results, "results that are not freed end with the world");
    on_both(2, lists, "a list is an operation for each type");
    on_both(2, takes_memory, "a result in memory of the caller's");
    on_both(2, refusals, "what is not served says so, and leaves nothing");
    return done_testing();
}
