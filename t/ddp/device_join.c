/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests uneven inputs of reducers on devices: ranks make different numbers of passes
 * within a join.
 */
#include "t/ddp/alone.h"

#include <string.h>

/* Checks that all elements in device memory are a value. */
static int holds(const struct alone *alone, const void *memory, float value)
{
    float found[ALONE_COUNT];
    int right = 1;

    device_wait(alone->stream);
    device_read(found, memory, sizeof(found));
    for (int i = 0; i < ALONE_COUNT; i++)
        right = right && found[i] == value;
    if (!right)
        diag("expected %g, found %g", (double)value, (double)found[0]);
    return right;
}

/* Checks that the average is over the divisor, of the ranks with inputs: rank r has
 * 3 - r of them. */
static int is_average(
    struct alone *alone, int step, int size, int divides_by_active)
{
    struct symmcoll_tensor grad = SYMMCOLL_TENSOR_INIT;
    float sum = 0;
    int active = 0;

    for (int r = 0; r < size; r++)
        if (step < 3 - r) {
            sum += 6 * (float)(r + 1);
            active++;
        }
    return symmcoll_reducer_grad(alone->reducer, 0, &grad) == SYMMCOLL_OK &&
           holds(alone, grad.data,
               sum / (float)(divides_by_active ? active : size));
}

static int train(struct symmcoll_group *group, int rank, int divides_by_active)
{
    struct symmcoll_join_args args = SYMMCOLL_JOIN_ARGS_INIT;
    struct symmcoll_join *join = NULL;
    struct alone alone;
    int right = alone_begin(&alone, group, rank, NULL);

    args.divide_by_active = divides_by_active;
    right = right &&
            symmcoll_join_begin(&alone.reducer, 1, &args, &join) == SYMMCOLL_OK;
    for (int step = 0; right && step < 3 - rank; step++) {
        alone_enqueue(&alone, 6 * (float)(rank + 1));
        right = alone_run(&alone) &&
                is_average(&alone, step, symmcoll_group_size(group),
                    divides_by_active);
        symmcoll_reducer_zero(alone.reducer);
        cuMemsetD32Async((CUdeviceptr)(uintptr_t)alone.param.data,
            alone_bits((float)(10 * rank + step)), ALONE_COUNT, alone.stream);
    }
    right = say(symmcoll_join_end(join) == SYMMCOLL_OK, "join_end") && right &&
            holds(&alone, alone.param.data, 2);
    return alone_end(&alone, right);
}

static int averages(struct symmcoll_group *group, int rank)
{
    return train(group, rank, 0) && train(group, rank, 1);
}

/* Begins a capture on rank 1, or ends it. */
static int begin_capture(const struct alone *alone, int rank)
{
    return rank != 1 ||
           cuStreamBeginCapture_v2(alone->stream,
               CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS;
}

static int end_capture(const struct alone *alone, int rank)
{
    CUgraph graph = NULL;

    return rank != 1 ||
           (cuStreamEndCapture(alone->stream, &graph) == CUDA_SUCCESS &&
               cuGraphDestroy(graph) == CUDA_SUCCESS);
}

/* Rank 1 alone is refused, before any rank waits for it; its end of the join ends it
 * on all. */
static int captured(struct symmcoll_group *group, int rank)
{
    struct symmcoll_join *join = NULL;
    struct alone alone;
    int right =
        alone_begin(&alone, group, rank, NULL) && alone_run(&alone) &&
        alone_run(&alone) &&
        symmcoll_join_begin(&alone.reducer, 1, NULL, &join) == SYMMCOLL_OK &&
        begin_capture(&alone, rank);

    if (rank == 1)
        right = right &&
                ended(symmcoll_reducer_forward(alone.reducer, 1),
                    SYMMCOLL_ERR_UNSUPPORTED, "within a join") &&
                ended(symmcoll_reducer_begin(alone.reducer, 1),
                    SYMMCOLL_ERR_UNSUPPORTED, "within a join");
    right = end_capture(&alone, rank) && right && alone_run(&alone) &&
            begin_capture(&alone, rank) &&
            ended(symmcoll_join_end(join),
                rank == 1 ? SYMMCOLL_ERR_UNSUPPORTED : SYMMCOLL_ERR_CANCELED,
                rank == 1 ? "join_end: expected a stream" : "rank 1 has ended");
    right = end_capture(&alone, rank) && right && alone_run(&alone);
    return alone_end(&alone, right);
}

int main(void)
{
    device_begin();
    on_both(3, averages,
        "D50 D51 D52: averages over all, or those with inputs, and their "
        "parameters");
    on_both(2, captured, "a captured pass is refused within a join");
    return done_testing();
}
