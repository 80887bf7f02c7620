/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations whose caller moves the data, on memory that all members have mapped: by
 * dedicated kernels if there are any (device_symmetric.c), else by the work that the
 * caller enqueues between two barriers.
 */
#include "cuda/device_moves.h"

static const struct symc_enqueue functions = {.copy = symc_cuda_move_copy,
    .reduce = symc_cuda_move_reduce,
    .strided = symc_cuda_move_strided,
    .push = symc_cuda_move_push,
    .reduce_copies = symc_cuda_move_reduce_copies};

symmcoll_status_t symc_cuda_enqueue_moves(
    struct symc_cuda_group *group, const struct symc_op *op, CUstream stream)
{
    struct symc_mover *mover = op->out;
    struct symc_cuda_moves moves = {
        .group = group, .op = op, .mover = mover, .stream = stream};
    struct symc_moving moving = {.op = op,
        .rank = group->rank,
        .size = group->size,
        .group = group->core->name,
        .ranks = group->core->ranks,
        .enqueue = &functions,
        .state = &moves};

    if (mover->launch != NULL)
        return symc_cuda_enqueue_kernels(group, op, mover->launch, stream);
    if (mover->compute != NULL) {
        symc_cuda_enqueue_products(&moves, &moving);
        return moves.status;
    }
    moves.status = symc_cuda_launch_barrier(group, op, stream);
    mover->move(mover, &moving);
    return moves.status == SYMMCOLL_OK
               ? symc_cuda_launch_barrier(group, op, stream)
               : moves.status;
}
