/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The launches that operations consist of.  All of them enqueue on a stream of the
 * current context; errors are those of symc_cuda_fail().
 */
#ifndef SYMC_CUDA_DEVICE_LAUNCH_H
#define SYMC_CUDA_DEVICE_LAUNCH_H

#include "cuda/device_choice.h"

/* Returns the description of the group that an operation's kernels receive. */
struct symc_device_group symc_cuda_make_group(
    const struct symc_cuda_group *group, const struct symc_op *op);

/* Returns arguments for one row of the elements in data, without in, out and count. */
struct symc_reduce_args symc_cuda_reduce_args(
    const struct symc_cuda_group *group, const struct symc_op *op,
    struct symc_device_data data);

/* ---- device_launch.c ---- */

/* A piece of an operation: count units of each part, from unit `from`. */
struct symc_cuda_piece {
    uint64_t from;
    uint64_t count;
};

/* Launches a piece of a reduction.  If the driver copies for the operation, the elements
 * are already in the staging.  With parts of different sizes a member reduces as much of
 * a piece as its own part has. */
symmcoll_status_t symc_cuda_launch_reduction(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_cuda_choice *choice,
    struct symc_cuda_piece piece, CUstream stream);

symmcoll_status_t symc_cuda_launch_move(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_cuda_choice *choice,
    struct symc_cuda_piece piece, CUstream stream);

/* Launches a piece of an exchange.  All members launch the same number of pieces: enough
 * for the largest part of all. */
symmcoll_status_t symc_cuda_launch_exchange(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_cuda_choice *choice,
    struct symc_cuda_piece piece, CUstream stream);

symmcoll_status_t symc_cuda_launch_barrier(
    struct symc_cuda_group *group, const struct symc_op *op, CUstream stream);

/* ---- device_copies.c ---- */

/* Does nothing if nbytes is 0. */
symmcoll_status_t symc_cuda_enqueue_copy(const struct symc_cuda_group *group,
    CUdeviceptr to, CUdeviceptr from, uint64_t nbytes, CUstream stream);

symmcoll_status_t symc_cuda_enqueue_copies(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_cuda_choice *choice,
    CUstream stream);

/* ---- device_moves.c, device_symmetric.c: symmetric memory ---- */

/* Checks that the staging holds the splits, and the plan, of an operation.  Errors:
 * UNSUPPORTED, alike on all members. */
symmcoll_status_t symc_cuda_check_moves(
    const struct symc_cuda_group *group, const struct symc_op *op);

symmcoll_status_t symc_cuda_enqueue_moves(
    struct symc_cuda_group *group, const struct symc_op *op, CUstream stream);

/* Enqueues the kernels of a mover's launch. */
symmcoll_status_t symc_cuda_enqueue_kernels(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_launch *launch,
    CUstream stream);

#endif
