/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The launches that operations consist of.  All of them enqueue on a stream, in
 * the context; errors are those of symc_cuda_fail().
 */
#ifndef SYMC_CUDA_DEVICE_LAUNCH_H
#define SYMC_CUDA_DEVICE_LAUNCH_H

#include "cuda/device_choice.h"

/* What kernels of an operation are told of the group. */
struct symc_device_group symc_cuda_make_group(
    const struct symc_cuda_group *group, const struct symc_op *op);

/* One row of the elements in data; where they come from and go to is left out. */
struct symc_reduce_args symc_cuda_reduce_args(
    const struct symc_cuda_group *group, const struct symc_op *op,
    struct symc_device_data data);

/* ---- device_launch.c ---- */

/* A piece of an operation: so many units of each part, from one on. */
struct symc_cuda_piece {
    uint64_t from;
    uint64_t count;
};

/* Where copies serve the operation, the elements are in the staging already; of unlike
 * parts a member reduces what its own has of a piece. */
symmcoll_status_t symc_cuda_launch_reduction(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_cuda_choice *choice,
    struct symc_cuda_piece piece, CUstream stream);

symmcoll_status_t symc_cuda_launch_move(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_cuda_choice *choice,
    struct symc_cuda_piece piece, CUstream stream);

/* As many pieces on all members as the largest part of all takes. */
symmcoll_status_t symc_cuda_launch_exchange(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_cuda_choice *choice,
    struct symc_cuda_piece piece, CUstream stream);

symmcoll_status_t symc_cuda_launch_barrier(
    struct symc_cuda_group *group, const struct symc_op *op, CUstream stream);

/* ---- device_copies.c ---- */

/* Nothing where there are no bytes. */
symmcoll_status_t symc_cuda_enqueue_copy(const struct symc_cuda_group *group,
    CUdeviceptr to, CUdeviceptr from, uint64_t nbytes, CUstream stream);

symmcoll_status_t symc_cuda_enqueue_copies(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_cuda_choice *choice,
    CUstream stream);

/* ---- device_moves.c, device_symmetric.c: symmetric memory ---- */

/* Errors: UNSUPPORTED (more pieces than the staging has room for), alike on all
 * members. */
symmcoll_status_t symc_cuda_check_moves(
    const struct symc_cuda_group *group, const struct symc_op *op);

symmcoll_status_t symc_cuda_enqueue_moves(
    struct symc_cuda_group *group, const struct symc_op *op, CUstream stream);

/* What a mover has kernels for. */
symmcoll_status_t symc_cuda_enqueue_kernels(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_launch *launch,
    CUstream stream);

#endif
