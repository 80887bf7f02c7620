/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests streams that one rank cannot pass to a fused operation: in the first
 * call of a group, before the resources for the check exist, and in later
 * calls. All ranks get an error, and the group remains usable.
 */
#include "t/fused/device_calls.h"

#include <stdlib.h>

#define SIZE 3

/* Whether the first call of a group has such a stream; later calls follow
 * valid ones. */
static bool is_first;

/* Returns caller's memory for a result, so that nothing is allocated on the
 * stream. */
static struct symmcoll_tensor make_place(const struct fused_call *it, int rows)
{
    struct symmcoll_tensor place =
        SYMMCOLL_TENSOR_SHAPE(NULL, SYMMCOLL_FLOAT32, rows, FUSED_CALL_COLUMNS);

    place.device = SYMMCOLL_CUDA;
    place.device_index = it->device;
    place.data =
        device_alloc(sizeof(float) * FUSED_CALL_COLUMNS * (size_t)rows);
    return place;
}

/* Makes both calls with such a stream on one rank, with both kinds of
 * results. */
static int all_fail(struct fused_call *it, int rank, symmcoll_status_t status,
    const char *of_victim)
{
    const char *text = rank == VICTIM ? of_victim : "rank 1 cannot go on: ";
    struct symmcoll_tensor place =
        make_place(it, FUSED_CALL_ROWS * SIZE * SIZE);
    int right;

    it->out = place;
    right = made_says(fused_call_gather(it), status, text);
    it->out.shape[0] = FUSED_CALL_ROWS;
    right = right && made_says(fused_call_scatter(it), status, text);
    it->out = (struct symmcoll_tensor)SYMMCOLL_TENSOR_INIT;
    on_device_free(&place);
    return right && fused_calls_fail(
                        it, rank, status, of_victim, "rank 1 cannot go on: ");
}

static int all_are_told(struct fused_call *it, int rank, void *stream,
    symmcoll_status_t status, const char *of_victim)
{
    void *own = it->call.stream;
    int right = 1;

    if (!is_first) {
        right = OK(fused_call_gather(it));
        fused_call_drop(it);
        right = right && OK(fused_call_scatter(it));
        fused_call_drop(it);
    }
    if (rank == VICTIM)
        it->call.stream = stream;
    right = right && all_fail(it, rank, status, of_victim);
    it->call.stream = own;
    return right;
}

static int of_another_device(struct symmcoll_group *group, int rank)
{
    struct fused_call it;
    CUstream other;
    int right;

    fused_call_begin(&it, group, rank);
    device_use(rank + 1);
    other = device_stream();
    device_use(rank);
    right = all_are_told(&it, rank, other, SYMMCOLL_ERR_INVALID,
        "expected a stream of device 1");
    device_end_stream(other);
    return fused_call_end(&it, right);
}

static int of_another_context(struct symmcoll_group *group, int rank)
{
    CUcontext made = NULL, popped = NULL;
    struct fused_call it;
    CUstream other;
    int right;

    fused_call_begin(&it, group, rank);
    right = cuCtxCreate(&made, NULL, 0, it.device) == CUDA_SUCCESS;
    other = device_stream();
    right = right && cuCtxPopCurrent(&popped) == CUDA_SUCCESS &&
            all_are_told(
                &it, rank, other, SYMMCOLL_ERR_INVALID, "of another context");
    device_end_stream(other);
    fake_finish();
    (void)cuCtxDestroy(made);
    return fused_call_end(&it, right);
}

static int destroyed(struct symmcoll_group *group, int rank)
{
    struct fused_call it;
    int right;

    fused_call_begin(&it, group, rank);
    /* The handle of a destroyed stream may be reused by another one. */
    right = all_are_told(&it, rank, &it, SYMMCOLL_ERR_DEVICE, "INVALID_HANDLE");
    return fused_call_end(&it, right);
}

static int of_a_thread(struct symmcoll_group *group, int rank)
{
    struct fused_call it;
    int right;

    fused_call_begin(&it, group, rank);
    right = all_are_told(&it, rank, CU_STREAM_PER_THREAD, SYMMCOLL_ERR_INVALID,
        "found the default stream of a thread");
    return fused_call_end(&it, right);
}

/* Runs ranks that are threads and share a device: they share its default
 * stream. */
static int common(struct symmcoll_group *group, int rank)
{
    struct fused_call it;
    int right;

    fused_call_begin(&it, group, rank == 0);
    right = all_are_told(&it, rank, CU_STREAM_LEGACY, SYMMCOLL_ERR_INVALID,
        "expected a stream of this rank's own");
    return fused_call_end(&it, right);
}

/* Captures the streams of some ranks, while those of others are not
 * captured. */
static int captured_by_some(struct symmcoll_group *group, int rank)
{
    struct symmcoll_tensor place;
    struct fused_call it;
    int right;

    fused_call_begin(&it, group, rank);
    right = OK(fused_call_gather(&it));
    fused_call_drop(&it);
    device_wait(it.call.stream);
    place = make_place(&it, FUSED_CALL_ROWS * SIZE * SIZE);
    for (int some = 0; some < 2 && right; some++) {
        bool captures = (rank == VICTIM) == (some == 0);
        CUgraph graph = NULL;

        if (captures)
            right = cuStreamBeginCapture(it.call.stream,
                        CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS;
        it.out = place;
        right =
            right && made_says(fused_call_gather(&it), SYMMCOLL_ERR_MISMATCH,
                         some == 0 ? " of rank 1 that is and "
                                   : " of rank 0 that is and ");
        it.out.shape[0] = FUSED_CALL_ROWS;
        right =
            right && made_says(fused_call_scatter(&it), SYMMCOLL_ERR_MISMATCH,
                         some == 0 ? " of rank 0 that is not "
                                   : " of rank 1 that is not ");
        if (captures)
            right = right &&
                    cuStreamEndCapture(it.call.stream, &graph) == CUDA_SUCCESS;
        if (graph != NULL)
            (void)cuGraphDestroy(graph);
    }
    on_device_free(&place);
    it.out = (struct symmcoll_tensor)SYMMCOLL_TENSOR_INIT;
    return fused_call_end(&it, right);
}

static void both_times(rank_fn body, const char *what)
{
    is_first = true;
    ok(ranks_run(SIZE, body), "%s, in the first call (processes)", what);
    ok(threads_run(SIZE, body), "%s, in the first call (threads)", what);
    is_first = false;
    ok(ranks_run(SIZE, body), "%s, in a later call (processes)", what);
    ok(threads_run(SIZE, body), "%s, in a later call (threads)", what);
}

int main(void)
{
    on_device_begin("2");
    both_times(of_another_device, "a stream of another device");
    both_times(of_another_context, "a stream of another context");
    both_times(destroyed, "a handle that no stream has any more");
    both_times(of_a_thread, "the default stream of a thread");
    on_both(SIZE, captured_by_some,
        "streams of which some are captured: all are told, and the group goes "
        "on");
    setenv("SYMMCOLL_CUDA_SHARE_DEVICE", "on", 1);
    is_first = true;
    ok(threads_run(SIZE, common),
        "a default stream that another rank has, too");
    is_first = false;
    ok(threads_run(SIZE, common), "so in a later call");
    return done_testing();
}
