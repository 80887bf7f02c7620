/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The launches that operations consist of.  All of them enqueue on a stream, in
 * the context; errors are those of symc_cuda_fail().
 */
#ifndef SYMC_CUDA_DEVICE_LAUNCH_H
#define SYMC_CUDA_DEVICE_LAUNCH_H

#include "cuda/device_choice.h"

/* A piece of an operation: so many units of each part, from one on. */
struct symc_cuda_piece {
    uint64_t from;
    uint64_t count;
};

/* Where copies serve the operation, the elements are in the staging already. */
symmcoll_status_t symc_cuda_launch_reduction(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_cuda_choice *choice,
    struct symc_cuda_piece piece, CUstream stream);

symmcoll_status_t symc_cuda_launch_move(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_cuda_choice *choice,
    struct symc_cuda_piece piece, CUstream stream);

symmcoll_status_t symc_cuda_launch_barrier(
    struct symc_cuda_group *group, const struct symc_op *op, CUstream stream);

/* ---- device_copies.c ---- */

/* Errors: UNSUPPORTED (counts that differ in a reduction), alike on all
 * members. */
symmcoll_status_t symc_cuda_check_lists(
    const struct symc_cuda_group *group, const struct symc_op *op);

symmcoll_status_t symc_cuda_enqueue_copies(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_cuda_choice *choice,
    CUstream stream);

#endif
