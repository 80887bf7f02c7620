/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests sharded updates on devices: each rank updates its slices in stream order, and
 * the parameters are gathered without the host.
 */
#include "t/ddp/alone.h"

#include <string.h>

/* Checks that all elements in device memory are a value. */
static int holds(
    const struct alone *alone, const void *memory, size_t count, float value)
{
    float found[ALONE_COUNT];
    int right = 1;

    device_wait(alone->stream);
    device_read(found, memory, count * sizeof(float));
    for (size_t i = 0; i < count; i++)
        right = right && found[i] == value;
    if (!right)
        diag("expected %g, found %g", (double)value, (double)found[0]);
    return right;
}

/* Writes a value to this rank's slice of the parameter, after the average. */
static int update(struct alone *alone, float average, float value)
{
    struct symmcoll_shard shard = SYMMCOLL_SHARD_INIT;

    return symmcoll_reducer_shard_count(alone->reducer) == 1 &&
           symmcoll_reducer_shard(alone->reducer, 0, &shard) == SYMMCOLL_OK &&
           holds(alone, shard.grad, shard.count, average) &&
           cuMemsetD32Async((CUdeviceptr)(uintptr_t)shard.data,
               alone_bits(value), shard.count, alone->stream) == CUDA_SUCCESS;
}

static int averages(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    int size = symmcoll_group_size(group), right;
    struct alone alone;

    args.shard = 1;
    right = alone_begin(&alone, group, rank, &args);
    for (int step = 0; right && step < 3; step++) {
        float value = (float)(10 + step);

        alone_enqueue(&alone, (float)(size * (rank + 1)));
        right = alone_run(&alone) &&
                update(&alone, (float)(size * (size + 1) / 2), value) &&
                symmcoll_reducer_gather(alone.reducer) == SYMMCOLL_OK &&
                symmcoll_reducer_gather_wait(alone.reducer, 0) == SYMMCOLL_OK &&
                holds(&alone, alone.param.data, ALONE_COUNT, value);
    }
    return alone_end(&alone, right);
}

/* A gather is refused where it would be captured, without an effect. */
static int captured(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct alone alone;
    CUgraph graph = NULL;
    int right;

    args.shard = 1;
    right = alone_begin(&alone, group, rank, &args) && alone_run(&alone) &&
            cuStreamBeginCapture_v2(alone.stream,
                CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS &&
            ended(symmcoll_reducer_gather(alone.reducer),
                SYMMCOLL_ERR_UNSUPPORTED, "expected a stream that is not");
    right = cuStreamEndCapture(alone.stream, &graph) == CUDA_SUCCESS &&
            cuGraphDestroy(graph) == CUDA_SUCCESS && right &&
            symmcoll_reducer_gather(alone.reducer) == SYMMCOLL_OK &&
            alone_run(&alone);
    return alone_end(&alone, right);
}

int main(void)
{
    device_begin();
    on_both(2, averages, "slices have averages, and parameters are gathered");
    on_both(3, averages, "so have those of three ranks");
    on_both(2, captured, "a gather is not captured");
    return done_testing();
}
