/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An operation whose caller moves the data, while it is enqueued: what the
 * functions of struct symc_enqueue are given.
 */
#ifndef SYMC_CUDA_DEVICE_MOVES_H
#define SYMC_CUDA_DEVICE_MOVES_H

#include "cuda/device_launch.h"

struct symc_cuda_moves {
    struct symc_cuda_group *group;
    const struct symc_op *op;
    struct symc_mover *mover;
    CUstream stream;
    symmcoll_status_t status; /* of what was enqueued so far */
};

/* ---- device_elements.c: the functions that all movers have ---- */

void symc_cuda_move_copy(void *state, void *out, const void *in, size_t nbytes);
void symc_cuda_move_reduce(
    void *state, const struct symc_rows *rows, void *out);

#endif
