/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations whose caller multiplies: products on the operation's stream, copies and
 * barriers on a side stream.  Each stream waits for the other by an event when the caller
 * enqueues such a wait.
 */
#include "cuda/calls.h"
#include "cuda/device_moves.h"
#include "cuda/local.h"

/* ---- streams ---- */

static void check(
    struct symc_cuda_moves *moves, CUresult result, const char *call)
{
    if (result != CUDA_SUCCESS)
        moves->status = symc_cuda_group_fail(moves->group, result, "%s", call);
}

/* Lets the current stream wait for the other one.  One event is enough: a wait covers the
 * event's record at the time when the wait is enqueued. */
static void follow(void *state)
{
    struct symc_cuda_moves *moves = state;
    const struct symc_cuda *cuda = moves->group->cuda;
    const struct symc_cuda_compute *compute = moves->mover->compute;
    CUstream other = moves->streams[moves->stream == moves->streams[0]];

    if (moves->status == SYMMCOLL_OK)
        check(moves, cuda->event_record(compute->event, other),
            "cuEventRecord beside products");
    if (moves->status == SYMMCOLL_OK)
        check(moves, cuda->stream_wait_event(moves->stream, compute->event, 0),
            "cuStreamWaitEvent beside products");
    moves->joined = moves->status == SYMMCOLL_OK && other == moves->streams[1];
}

/* Chooses the stream for the following work.  At its first use the side stream waits for
 * the operation's stream. */
static void set_stream(void *state, bool beside)
{
    struct symc_cuda_moves *moves = state;

    moves->stream = moves->streams[beside];
    if (beside && !moves->begun)
        follow(moves);
    moves->begun = moves->begun || beside;
    moves->joined = moves->joined && !beside;
}

static void synchronise(void *state)
{
    struct symc_cuda_moves *moves = state;

    if (moves->status == SYMMCOLL_OK)
        moves->status =
            symc_cuda_launch_barrier(moves->group, moves->op, moves->stream);
}

static void launch(void *state, const struct symc_launch *launch)
{
    struct symc_cuda_moves *moves = state;

    if (moves->status == SYMMCOLL_OK)
        moves->status = symc_cuda_enqueue_kernels(
            moves->group, moves->op, launch, moves->stream);
}

/* ---- elements ---- */

static void clear(void *state, void *at, size_t nbytes)
{
    struct symc_cuda_moves *moves = state;

    if (moves->status == SYMMCOLL_OK && nbytes > 0)
        check(moves,
            moves->group->cuda->memset_d8_async(
                (CUdeviceptr)(uintptr_t)at, 0, nbytes, moves->stream),
            "cuMemsetD8Async");
}

static void multiply(
    void *state, void *plan, const struct symc_product_operands *operands)
{
    struct symc_cuda_moves *moves = state;

    if (moves->status == SYMMCOLL_OK)
        moves->status = symc_lt_matmul(plan, operands, moves->stream);
}

static void round_floats(void *state, enum symmcoll_dtype dtype, void *out,
    const void *in, size_t count)
{
    struct symc_cuda_moves *moves = state;
    struct symc_cuda_group *group = moves->group;
    const struct symc_cuda_limits limits = {.blocks = group->blocks};
    enum symc_kernel kernel =
        dtype == SYMMCOLL_FLOAT16 ? SYMC_KERNEL_TO_F16 : SYMC_KERNEL_TO_BF16;
    const struct symc_convert_args args = {
        .in = in, .out = out, .count = count, .factor = 1};

    if (moves->status == SYMMCOLL_OK && count > 0)
        moves->status = symc_kernel_launch(&group->kernels, kernel, dtype,
            symc_cuda_grid(&limits, kernel, group->size, count * sizeof(float)),
            moves->stream, &args);
}

/* ---- one operation ---- */

static const struct symc_enqueue functions = {.copy = symc_cuda_move_copy,
    .reduce = symc_cuda_move_reduce,
    .set_stream = set_stream,
    .follow = follow,
    .synchronise = synchronise,
    .launch = launch,
    .strided = symc_cuda_move_strided,
    .push = symc_cuda_move_push,
    .reduce_copies = symc_cuda_move_reduce_copies,
    .clear = clear,
    .multiply = multiply,
    .round = round_floats};

/* Lets the operation's stream wait for the side stream, also after an error, since the
 * work that the driver has accepted runs.  If that fails, the end of the side stream is
 * tested with the token (order.beside) before the memory is released.  Does nothing if
 * the caller has enqueued the wait itself. */
static void join(struct symc_cuda_moves *moves)
{
    const struct symc_cuda *cuda = moves->group->cuda;
    const struct symc_cuda_compute *compute = moves->mover->compute;
    struct symc_cuda_called called;

    if (moves->joined)
        return;
    called = symc_cuda_called(
        "cuEventRecord", cuda->event_record(compute->event, moves->streams[1]));
    if (called.result == CUDA_SUCCESS)
        called = symc_cuda_called("cuStreamWaitEvent",
            cuda->stream_wait_event(moves->streams[0], compute->event, 0));
    if (called.result == CUDA_SUCCESS)
        return;
    if (moves->group->launching.number < SYMC_CUDA_CAPTURED)
        moves->group->order.beside = moves->streams[1];
    if (moves->status == SYMMCOLL_OK)
        moves->status = symc_cuda_group_fail(
            moves->group, called.result, "%s after products", called.name);
}

void symc_cuda_enqueue_products(
    struct symc_cuda_moves *moves, struct symc_moving *moving)
{
    const struct symc_cuda_compute *compute = moves->mover->compute;
    bool captured = moves->group->launching.number >= SYMC_CUDA_CAPTURED;

    moves->streams[0] = moves->stream;
    moves->streams[1] = captured ? compute->beside_captured : compute->beside;
    moves->joined = true;
    moving->enqueue = &functions;
    moves->mover->move(moves->mover, moving);
    join(moves);
}
