/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests buffers of a reducer on devices: they are broadcast in the order of the
 * stream, and in each launch of a captured forward.
 */
#include "t/ddp/alone.h"

#include <string.h>

#define BUFFERS 2
#define COUNT 6

/* A reducer with two buffers: floats with gaps, and counters. */
struct normed {
    struct alone alone;
    struct symmcoll_tensor buffers[BUFFERS];
};

static int begin(struct normed *normed, struct symmcoll_group *group, int rank)
{
    const struct symmcoll_tensor made[BUFFERS] = {
        SYMMCOLL_TENSOR_SHAPE(NULL, SYMMCOLL_FLOAT32, COUNT / 2, 1),
        SYMMCOLL_TENSOR_FLAT(NULL, COUNT, SYMMCOLL_INT32)};
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    int device = device_use(rank);

    memcpy(normed->buffers, made, sizeof(made));
    normed->buffers[0].strides[0] = 2;
    for (int b = 0; b < BUFFERS; b++) {
        normed->buffers[b].data = device_alloc(COUNT * sizeof(uint32_t));
        normed->buffers[b].device = SYMMCOLL_CUDA;
        normed->buffers[b].device_index = device;
    }
    args.buffers = normed->buffers;
    args.nbuffers = BUFFERS;
    return alone_begin(&normed->alone, group, rank, &args);
}

static int end(struct normed *normed, int right)
{
    right = alone_end(&normed->alone, right);
    for (int b = 0; b < BUFFERS; b++)
        device_free(normed->buffers[b].data);
    return right;
}

/* Enqueues a forward's update of the buffers. */
static void update(const struct normed *normed, uint32_t value)
{
    for (int b = 0; b < BUFFERS; b++)
        cuMemsetD32Async((CUdeviceptr)(uintptr_t)normed->buffers[b].data, value,
            COUNT, normed->alone.stream);
}

/* Checks that the buffers are rank 0's, and the gaps this rank's. */
static int are(const struct normed *normed, uint32_t zero, uint32_t own)
{
    uint32_t found[BUFFERS][COUNT];
    int right = 1;

    device_wait(normed->alone.stream);
    for (int b = 0; b < BUFFERS; b++)
        device_read(found[b], normed->buffers[b].data, sizeof(found[b]));
    for (int i = 0; i < COUNT; i++)
        right = right && found[0][i] == (i % 2 == 0 ? zero : own) &&
                found[1][i] == zero;
    return say(right, "rank 0's buffers, and own gaps");
}

/* The gradient of the forwards' passes is the same everywhere. */
static int run(struct normed *normed, int sync)
{
    alone_enqueue(&normed->alone, 2);
    return symmcoll_reducer_forward(normed->alone.reducer, sync) ==
               SYMMCOLL_OK &&
           symmcoll_reducer_begin(normed->alone.reducer, sync) == SYMMCOLL_OK &&
           symmcoll_reducer_ready(
               normed->alone.reducer, 0, normed->alone.grad) == SYMMCOLL_OK &&
           symmcoll_reducer_finish(normed->alone.reducer) == SYMMCOLL_OK;
}

static int buffers_are_sent(struct symmcoll_group *group, int rank)
{
    static const int syncs[] = {1, 1, 0, 1, 1};
    struct normed normed;
    int right = begin(&normed, group, rank);

    for (uint32_t i = 0; right && i < 5; i++) {
        bool sends = i == 0 || syncs[i - 1] != 0;
        uint32_t own = 10 * i + (uint32_t)rank + 1;

        update(&normed, own);
        right = say(run(&normed, syncs[i]), "a forward and a pass") &&
                are(&normed, sends ? 10 * i + 1 : own, own);
    }
    return end(&normed, right);
}

/* Launches a captured forward after each update. */
static int captured(struct symmcoll_group *group, int rank)
{
    struct normed normed;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    int right = begin(&normed, group, rank) && run(&normed, 1);

    right = right &&
            cuStreamBeginCapture_v2(normed.alone.stream,
                CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS &&
            symmcoll_reducer_forward(normed.alone.reducer, 1) == SYMMCOLL_OK;
    right = cuStreamEndCapture(normed.alone.stream, &graph) == CUDA_SUCCESS &&
            right &&
            cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS;
    for (uint32_t i = 0; right && i < 3; i++) {
        uint32_t own = 10 * i + (uint32_t)rank + 1;

        update(&normed, own);
        right = cuGraphLaunch(exec, normed.alone.stream) == CUDA_SUCCESS &&
                are(&normed, 10 * i + 1, own);
    }
    if (exec != NULL)
        cuGraphExecDestroy(exec);
    if (graph != NULL)
        cuGraphDestroy(graph);
    return end(&normed, right);
}

/* A buffer in host memory beside parameters on a device. */
static int another_memory(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    float values[COUNT];
    struct symmcoll_tensor buffer = SYMMCOLL_TENSOR_FLAT(values, COUNT, F32);
    struct symmcoll_tensor param = SYMMCOLL_TENSOR_FLAT(NULL, COUNT, F32);
    struct symmcoll_reducer *reducer = NULL;
    int right;

    param.device = SYMMCOLL_CUDA;
    param.device_index = device_use(rank);
    param.data = device_alloc(sizeof(values));
    args.buffers = &buffer;
    args.nbuffers = 1;
    right = ended(symmcoll_reducer_create(group, &param, 1, &args, &reducer),
                SYMMCOLL_ERR_INVALID, "buffer 0: expected device memory") &&
            reducer == NULL;
    device_free(param.data);
    return right;
}

int main(void)
{
    device_begin();
    on_both(2, buffers_are_sent,
        "D5 D55: buffers become rank 0's in the stream's order");
    on_both(2, captured, "D5: each launch of a captured forward sends them");
    on_both(1, another_memory, "buffers are in the memory of the parameters");
    return done_testing();
}
