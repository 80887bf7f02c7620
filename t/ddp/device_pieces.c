/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests many parameters on a device: the reducer copies 128 of them with one
 * launch, and the results have the bits of host memory; also in a graph, and
 * if such a launch fails.
 */
#include "kernels/args.h"
#include "t/cuda/kernels.h"
#include "t/ddp/many.h"

#include "group/group.h"

#include <string.h>

/* ---- number of launches ---- */

/* Launches of the kernels of pieces, and copies by the driver. */
struct counts {
    int flatten, unflatten;
    uint64_t copies;
};

static struct counts count(struct many *many)
{
    device_wait(many->stream);
    return (struct counts){kernels_runs("symc_flatten"),
        kernels_runs("symc_unflatten"), fake_calls("cuMemcpyAsync")};
}

static int counted(struct many *many, const struct counts *before, int flatten,
    int unflatten, const char *what)
{
    const struct counts now = count(many);

    if (now.flatten - before->flatten == flatten &&
        now.unflatten - before->unflatten == unflatten &&
        now.copies == before->copies)
        return 1;
    diag("%s: %d and %d launches, %d copies", what,
        now.flatten - before->flatten, now.unflatten - before->unflatten,
        (int)(now.copies - before->copies));
    return 0;
}

/* Returns the launches for one bucket of all parameters: empty ones have no
 * piece. */
static int launches_of(const struct many *many)
{
    int n = 0;

    for (int i = 0; i < MANY; i++)
        n += many->count[i] > 0;
    return (n + SYMC_KERNEL_PIECES - 1) / SYMC_KERNEL_PIECES;
}

static int takes_few_launches(struct symmcoll_group *group, int rank)
{
    struct many many;
    struct counts before;
    int right = many_begin(&many, group, rank, NULL), few = launches_of(&many);

    many_write(&many, 0);
    before = count(&many);
    right = right && many_ready(&many, &many.device);
    right = right &&
            counted(&many, &before, 0, 0, "gradients that are ready") &&
            symmcoll_reducer_finish(many.device.reducer) == SYMMCOLL_OK &&
            counted(&many, &before, 0, few, "averages");
    before = count(&many);
    right = right &&
            symmcoll_reducer_begin(many.device.reducer, 0) == SYMMCOLL_OK &&
            symmcoll_reducer_bucket_count(many.device.reducer) == 1 &&
            counted(&many, &before, few, 0, "buckets that are rebuilt");
    return many_end(&many, right);
}

/* Checks the launches that gather rank 0's values, and write those of the
 * others. */
static int few_for_values(struct symmcoll_group *group, int rank)
{
    struct many many;
    int right = many_begin(&many, group, rank, NULL), few = launches_of(&many);

    right = right &&
            say(symmcoll_reducer_bucket_count(many.device.reducer) == 1,
                "one bucket") &&
            counted(&many, &(struct counts){.copies = count(&many).copies},
                rank == 0 ? few : 0, rank == 0 ? 0 : few, "values");
    return many_end(&many, right);
}

/* Checks that all gradients of a bucket are zeroed at once. */
static int few_for_zeros(struct symmcoll_group *group, int rank)
{
    struct many many;
    struct symmcoll_tensor grad = SYMMCOLL_TENSOR_INIT;
    float found = 1;
    uint64_t before;
    int right = many_begin(&many, group, rank, NULL);

    many_write(&many, 0);
    right = right && many_run(&many, &many.device);
    before = fake_calls("cuMemsetD8Async");
    symmcoll_reducer_zero(many.device.reducer);
    right = right &&
            say(fake_calls("cuMemsetD8Async") == before + 1, "one set") &&
            symmcoll_reducer_grad(many.device.reducer, MANY / 2, &grad) ==
                SYMMCOLL_OK;
    device_wait(many.stream);
    if (right)
        device_read(&found, grad.data, sizeof(found));
    return many_end(&many, say(right && found == 0, "zeros"));
}

/* ---- graphs ---- */

static int capture(struct many *many, CUgraphExec *exec)
{
    const CUstreamCaptureMode mode = many->group->world->threads
                                         ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                                         : CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUgraph graph = NULL;
    int right = say(cuStreamBeginCapture(many->stream, mode) == CUDA_SUCCESS,
                    "a capture begins") &&
                many_run(many, &many->device);

    right = say(cuStreamEndCapture(many->stream, &graph) == CUDA_SUCCESS,
                "a capture ends") &&
            right &&
            say(cuGraphInstantiate(exec, graph, 0) == CUDA_SUCCESS, "a graph");
    if (graph != NULL)
        cuGraphDestroy(graph);
    return right;
}

static int captured(struct symmcoll_group *group, int rank)
{
    struct many many;
    CUgraphExec exec = NULL;
    int right = many_begin(&many, group, rank, NULL);

    for (int step = 0; right && step < 2; step++) {
        many_write(&many, step);
        right = many_run(&many, &many.host) && many_run(&many, &many.device);
    }
    device_wait(many.stream);
    right = right && capture(&many, &exec);
    for (int step = 2; right && step < 5; step++) {
        many_write(&many, step);
        right = many_run(&many, &many.host) &&
                say(cuGraphLaunch(exec, many.stream) == CUDA_SUCCESS,
                    "a graph is launched") &&
                many_agree(&many);
    }
    if (exec != NULL)
        cuGraphExecDestroy(exec);
    return many_end(&many, right);
}

/* ---- failing launches ---- */

/* A hook that leaves the bucket as the average. */
static symmcoll_status_t leave_bucket(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    (void)group, (void)bucket, (void)arg;
    *work = NULL;
    return SYMMCOLL_OK;
}

static int tells_of_a_launch(struct symmcoll_group *group, int rank)
{
    struct many many;
    int right = many_begin(&many, group, rank, leave_bucket);

    many_write(&many, 0);
    right = right && many_ready(&many, &many.device);
    fake_configure("fail=cuLaunchKernelEx:2:400");
    right = right &&
            ended(symmcoll_reducer_finish(many.device.reducer),
                SYMMCOLL_ERR_DEVICE, "reducer: bucket 0 of 1: ") &&
            say(strstr(symmcoll_last_error(), "symc_unflatten") != NULL,
                symmcoll_last_error()) &&
            many_run(&many, &many.device);
    return many_end(&many, right);
}

int main(void)
{
    device_begin();
    on_both(2, many_written_back,
        "averages of many gradients have the bits of host memory");
    on_both(3, many_written_back,
        "averages of many gradients have the bits of host memory");
    ok(ranks_run(2, takes_few_launches),
        "a bucket is written back, and rebuilt, by one launch of 128 gradients");
    ok(ranks_run(2, few_for_values),
        "so are rank 0's values gathered, and written on the others");
    ok(ranks_run(2, few_for_zeros),
        "gradients are set to zero bucket by bucket");
    on_both(2, captured, "a pass of many gradients is captured in a graph");
    ok(ranks_run(2, tells_of_a_launch),
        "a launch that fails is an error of finish, and the next pass has none");
    return done_testing();
}
