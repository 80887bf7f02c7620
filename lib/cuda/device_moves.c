/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations whose caller moves the data, on memory that all members have mapped:
 * kernels of their own where there are some (device_symmetric.c), else what the
 * caller enqueues, between two barriers.
 */
#include "cuda/device_launch.h"
#include "cuda/joined.h"

/* One of them, while it is enqueued. */
struct moves {
    struct symc_cuda_group *group;
    const struct symc_op *op;
    const struct symc_mover *mover;
    CUstream stream;
    symmcoll_status_t status; /* of what was enqueued so far */
};

static void copy(void *state, void *out, const void *in, size_t nbytes)
{
    struct moves *moves = state;

    if (moves->status == SYMMCOLL_OK && out != in)
        moves->status =
            symc_cuda_enqueue_copy(moves->group, (CUdeviceptr)(uintptr_t)out,
                (CUdeviceptr)(uintptr_t)in, nbytes, moves->stream);
}

static void reduce(void *state, const struct symc_rows *rows, void *out)
{
    struct moves *moves = state;
    struct symc_cuda_group *group = moves->group;
    uint64_t elements;
    enum symmcoll_dtype type =
        symc_cuda_reduced_type(moves->op->dtype, &elements);
    struct symc_reduce_args args;

    if (moves->status != SYMMCOLL_OK || rows->count == 0 || rows->rows == 0)
        return;
    args = symc_cuda_reduce_args(group, moves->op,
        symc_cuda_joined_data(moves->mover->joined, rows->at));
    args.out = out;
    args.count = rows->count * elements;
    args.rows = rows->rows;
    args.row_pitch = rows->pitch;
    args.out_pitch = rows->out_pitch;
    moves->status =
        symc_kernel_launch(&group->kernels, SYMC_KERNEL_REDUCE_ROWS, type,
            symc_cuda_grid(&group->limits, SYMC_KERNEL_REDUCE_ROWS, group->size,
                rows->rows * rows->count * moves->op->elem),
            moves->stream, &args);
}

static const struct symc_enqueue functions = {.copy = copy, .reduce = reduce};

symmcoll_status_t symc_cuda_enqueue_moves(
    struct symc_cuda_group *group, const struct symc_op *op, CUstream stream)
{
    struct symc_mover *mover = op->out;
    struct moves moves = {
        .group = group, .op = op, .mover = mover, .stream = stream};
    struct symc_moving moving = {.op = op,
        .rank = group->rank,
        .size = group->size,
        .group = group->core->name,
        .ranks = group->core->ranks,
        .enqueue = &functions,
        .state = &moves};

    if (mover->launch != NULL)
        return symc_cuda_enqueue_kernels(group, op, stream);
    moves.status = symc_cuda_launch_barrier(group, op, stream);
    mover->move(mover, &moving);
    return moves.status == SYMMCOLL_OK
               ? symc_cuda_launch_barrier(group, op, stream)
               : moves.status;
}
