/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How any operation whose caller moves the data has elements moved.
 */
#include "cuda/device_moves.h"
#include "cuda/joined.h"
#include "cuda/local.h"

void symc_cuda_move_copy(void *state, void *out, const void *in, size_t nbytes)
{
    struct symc_cuda_moves *moves = state;

    if (moves->status == SYMMCOLL_OK && out != in)
        moves->status =
            symc_cuda_enqueue_copy(moves->group, (CUdeviceptr)(uintptr_t)out,
                (CUdeviceptr)(uintptr_t)in, nbytes, moves->stream);
}

void symc_cuda_move_strided(void *state, const struct symc_strided *copy)
{
    struct symc_cuda_moves *moves = state;
    struct symc_cuda_called called;

    if (moves->status != SYMMCOLL_OK)
        return;
    called = symc_cuda_copy_strided(moves->group->cuda, moves->stream, copy);
    if (called.result != CUDA_SUCCESS)
        moves->status = symc_cuda_group_fail(
            moves->group, called.result, "%s", called.name);
}

/* As many rows as a kernel's arguments have places for. */
void symc_cuda_move_push(void *state, const struct symc_pushed *rows)
{
    struct symc_cuda_moves *moves = state;
    struct symc_cuda_group *group = moves->group;
    struct symc_push_args args = {
        .data = symc_cuda_joined_data(moves->mover->joined, rows->at),
        .row_nbytes = rows->nbytes};

    for (size_t first = 0; first < rows->count && rows->nbytes > 0 &&
                           moves->status == SYMMCOLL_OK;
         first += args.count) {
        args.in = (const unsigned char *)rows->in + first * rows->nbytes;
        args.count = rows->count - first;
        if (args.count > SYMC_KERNEL_PUSHED)
            args.count = SYMC_KERNEL_PUSHED;
        for (size_t i = 0; i < args.count; i++)
            args.to[i] =
                SYMC_PUSH_TO(rows->ranks[first + i], rows->to[first + i]);
        moves->status = symc_kernel_launch(&group->kernels,
            SYMC_KERNEL_PUSH_ROWS, moves->op->dtype,
            symc_cuda_grid(&group->limits, SYMC_KERNEL_PUSH_ROWS, group->size,
                args.count * rows->nbytes),
            moves->stream, &args);
    }
}

void symc_cuda_move_reduce(void *state, const struct symc_rows *rows, void *out)
{
    struct symc_cuda_moves *moves = state;
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
