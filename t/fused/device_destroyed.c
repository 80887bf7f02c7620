/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests streams that are created for one operation and destroyed as early as
 * permitted: after a call without a work has returned, or after a wait for a
 * work, when the device may not have begun. The fake driver ends the process
 * if a destroyed handle is used, or a handle is destroyed during a call that
 * uses it; it reuses no handle, and delays calls. Ranks are threads, and share
 * devices.
 */
#include "t/cuda/device.h"
#include "t/fused/device_calls.h"
#include "t/sanitized.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SIZE 8
#define COUNT 40
#define ROUNDS (SANITIZED ? 2 : 4)
#define RESULTS FUSED_CALL_ROWS *SIZE *SIZE *FUSED_CALL_COLUMNS

/* The state of a rank for all rounds. */
struct side {
    struct fused_call it; /* its stream is used for one operation */
    int rank;
    CUevent event;
    float *at;               /* COUNT elements on the device */
    float first[2][RESULTS]; /* the first results of fused operations */
    bool has_first[2];
    struct symmcoll_tensor place;
};

static void begin(struct side *side, struct symmcoll_group *group, int rank)
{
    fused_call_begin(&side->it, group, rank / 2);
    device_end_stream(side->it.call.stream);
    side->it.call.stream = NULL;
    side->rank = rank;
    side->at = device_alloc(COUNT * sizeof(float));
    side->place = (struct symmcoll_tensor)SYMMCOLL_TENSOR_SHAPE(NULL,
        SYMMCOLL_FLOAT32, FUSED_CALL_ROWS * SIZE * SIZE, FUSED_CALL_COLUMNS);
    side->place.device = SYMMCOLL_CUDA;
    side->place.device_index = side->it.device;
    side->place.data = device_alloc(sizeof(side->first[0]));
    if (!good(cuEventCreate(&side->event, CU_EVENT_DISABLE_TIMING)))
        abort();
}

static void end(struct side *side)
{
    on_device_free(&side->place);
    device_free(side->at);
    (void)good(cuEventDestroy(side->event));
    side->it.call.stream = device_stream();
    fused_call_free(&side->it);
}

/* ---- one stream ---- */

static CUstream open_stream(struct side *side)
{
    CUstream stream = device_stream();

    side->it.call.stream = stream;
    return stream;
}

/* Records the stream's work and destroys the stream at once; the work ends
 * later. */
static int destroy(struct side *side)
{
    CUstream stream = side->it.call.stream;

    side->it.call.stream = NULL;
    return good(cuEventRecord(side->event, stream)) &&
           good(cuStreamDestroy(stream));
}

static int await(const struct side *side)
{
    return good(cuEventSynchronize(side->event));
}

/* ---- sums ---- */

static void fill_sum(struct side *side, CUstream stream)
{
    const float one = (float)(side->rank + 1);
    uint32_t bits;

    memcpy(&bits, &one, sizeof(bits));
    (void)good(cuMemsetD32Async(
        (CUdeviceptr)(uintptr_t)side->at, bits, COUNT, stream));
}

static symmcoll_status_t sum(struct side *side, struct symmcoll_work **work)
{
    return symmcoll_all_reduce(side->it.group, side->at, side->at, COUNT, F32,
        SUM, &side->it.call, work);
}

static int is_sum(const struct side *side)
{
    float found[COUNT];

    device_read(found, side->at, sizeof(found));
    for (int i = 0; i < COUNT; i++)
        if (found[i] != (float)(SIZE * (SIZE + 1) / 2)) {
            diag("rank %d: element %d is %g", side->rank, i, (double)found[i]);
            return 0;
        }
    return 1;
}

static int sums_without_work(struct side *side)
{
    fill_sum(side, open_stream(side));
    return OK(sum(side, NULL)) && destroy(side) && await(side) && is_sum(side);
}

/* Waits for the sum in the stream, or on the host. */
static int sums_with_work(struct side *side, double timeout)
{
    struct symmcoll_work *work = NULL;
    int right;

    fill_sum(side, open_stream(side));
    right = OK(sum(side, &work)) && OK(symmcoll_work_wait(work, timeout)) &&
            destroy(side);
    symmcoll_work_free(work);
    return right && await(side) && is_sum(side);
}

static int launch(struct side *side, CUgraphExec exec)
{
    CUstream stream = open_stream(side);

    fill_sum(side, stream);
    return good(cuGraphLaunch(exec, stream)) && destroy(side) && await(side) &&
           is_sum(side);
}

/* Destroys the stream of a capture, and the graph once it has been launched. */
static int sums_in_graph(struct side *side)
{
    CUstream stream = open_stream(side);
    CUgraphExec exec = NULL;
    CUgraph graph = NULL;

    return good(cuStreamBeginCapture(
               stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) &&
           OK(sum(side, NULL)) && good(cuStreamEndCapture(stream, &graph)) &&
           good(cuStreamDestroy(stream)) &&
           good(cuGraphInstantiate(&exec, graph, 0)) &&
           good(cuGraphDestroy(graph)) && launch(side, exec) &&
           launch(side, exec) && good(cuGraphExecDestroy(exec));
}

/* ---- fused products ---- */

/* Compares results. Sums over ranks are added in another order if all is one
 * product. */
static bool is_near(const float *found, const float *first, size_t count)
{
    size_t i = 0;

    while (i < count && fabsf(found[i] - first[i]) < 1e-5f)
        i++;
    return i == count;
}

static int is_as_first(struct side *side, int which, size_t count)
{
    static const float zeros[RESULTS];
    float found[RESULTS];

    device_read(found, side->place.data, count * sizeof(*found));
    if (!side->has_first[which])
        memcpy(side->first[which], found, count * sizeof(*found));
    side->has_first[which] = true;
    return (!is_near(side->first[which], zeros, count) &&
               is_near(side->first[which], found, count)) ||
           (diag("rank %d: nothing, or other sums than before", side->rank), 0);
}

static int multiplies(struct side *side, int which, int plain)
{
    const int rows = FUSED_CALL_ROWS * (which == 0 ? SIZE * SIZE : 1);
    int right = OK(symmcoll_fused_set_plain(side->it.group, plain));

    (void)open_stream(side);
    side->place.shape[0] = rows;
    side->it.out = side->place;
    right = right && OK(which == 0 ? fused_call_gather(&side->it)
                                   : fused_call_scatter(&side->it));
    right = destroy(side) && right;
    side->it.out = (struct symmcoll_tensor)SYMMCOLL_TENSOR_INIT;
    return right && await(side) &&
           is_as_first(side, which, (size_t)rows * FUSED_CALL_COLUMNS);
}

/* ---- what succeeds ---- */

static int all_of_a_round(struct side *side, int i)
{
    return sums_without_work(side) && sums_with_work(side, -1) &&
           multiplies(side, 0, i % 2) && sums_with_work(side, 60) &&
           sums_in_graph(side) && multiplies(side, 1, i % 2);
}

static int succeed(struct symmcoll_group *group, int rank)
{
    static struct side sides[SIZE];
    struct side *side = &sides[rank];
    int right = 1;

    begin(side, group, rank);
    for (int i = 0; i < ROUNDS && right; i++)
        right = all_of_a_round(side, i);
    end(side);
    return right;
}

/* ---- work that the library's threads begin when the stream no longer exists ---- */

/* Rank 0 calls first, and destroys its stream before the others call: the work
 * of the stream has been marked. */
static int begins_later(struct symmcoll_group *group, int rank)
{
    static struct side sides[SIZE];
    struct symmcoll_work *work = NULL;
    struct side *side = &sides[rank];
    int32_t word = 0;
    int right;

    begin(side, group, rank);
    right = sums_without_work(side);
    fill_sum(side, open_stream(side));
    for (int r = 1; rank == 0 && r < SIZE && right; r++) {
        if (r == 1)
            right = OK(sum(side, &work)) && destroy(side);
        right = right && OK(symmcoll_send(group, &word, 1, SYMMCOLL_INT32, r, 0,
                             NULL, NULL));
    }
    if (rank > 0)
        right = right &&
                OK(symmcoll_recv(
                    group, &word, 1, SYMMCOLL_INT32, 0, 0, NULL, NULL, NULL)) &&
                OK(sum(side, &work)) && destroy(side);
    right = right && OK(symmcoll_work_wait(work, 60)) && is_sum(side);
    symmcoll_work_free(work);
    end(side);
    return right;
}

/* ---- what fails ---- */

/* The numbers of ranks in this process that have called, and that have got the
 * error. */
static _Atomic int called, told;

static void await_ranks(_Atomic int *count, int n)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    while (atomic_load(count) < n)
        nanosleep(&pause, NULL);
}

/* The last rank does not call in time. */
static int expires(struct symmcoll_group *group, int rank)
{
    static struct side sides[SIZE];
    struct side *side = &sides[rank];
    int right;

    begin(side, group, rank);
    right = sums_without_work(side);
    (void)open_stream(side);
    side->it.call.timeout = 1;
    if (rank == SIZE - 1) {
        await_ranks(&told, SIZE - 1);
        right = sum(side, NULL) != SYMMCOLL_OK && right;
    } else {
        right =
            made_says(sum(side, NULL), SYMMCOLL_ERR_TIMEOUT, "rank 7") && right;
    }
    right = destroy(side) && right;
    atomic_fetch_add(&told, 1);
    right = await(side) && right;
    end(side);
    return right;
}

/* The last rank's stream is blocked, and rank 0 aborts. */
static int is_aborted(struct symmcoll_group *group, int rank)
{
    static struct side sides[SIZE];
    struct symmcoll_work *work = NULL;
    struct side *side = &sides[rank];
    symmcoll_status_t status;
    CUstream stream;
    int right;

    begin(side, group, rank);
    right = sums_without_work(side);
    stream = open_stream(side);
    if (rank == SIZE - 1)
        fake_stall(stream);
    right = OK(sum(side, &work)) && right;
    atomic_fetch_add(&called, 1);
    if (rank == 0) {
        await_ranks(&called, SIZE);
        symmcoll_group_abort(group, "enough");
    }
    if (rank == SIZE - 1) {
        await_ranks(&told, SIZE - 1);
        fake_resume(stream);
    }
    status = symmcoll_work_wait(work, 60);
    right = (status == SYMMCOLL_OK ||
                made_says(status, SYMMCOLL_ERR_CANCELED, "enough")) &&
            destroy(side) && right;
    symmcoll_work_free(work);
    atomic_fetch_add(&told, 1);
    right = await(side) && right;
    end(side);
    return right;
}

int main(void)
{
    on_device_begin("2");
    setenv("SYMMCOLL_CUDA_SHARE_DEVICE", "on", 1);
    if (!fake_configure("devices=4 linger=200"))
        diag("the fake driver does not take its settings");
    ok(threads_run(SIZE, succeed),
        "a stream for each operation, destroyed when the call or the wait has "
        "returned: sums, graphs, fused products (%d threads)",
        SIZE);
    ok(threads_run(SIZE, begins_later),
        "what had been marked begins after its stream was destroyed");
    ok(threads_run(SIZE, expires), "streams of an operation that has expired");
    ok(threads_run(SIZE, is_aborted), "streams of a group that is aborted");
    return done_testing();
}
