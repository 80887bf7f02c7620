/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of an operation whose caller moves the data, while it is enqueued: the first
 * argument of the functions of struct symc_enqueue.
 */
#ifndef SYMC_CUDA_DEVICE_MOVES_H
#define SYMC_CUDA_DEVICE_MOVES_H

#include "cuda/compute.h"
#include "cuda/device_launch.h"

struct symc_cuda_moves {
    struct symc_cuda_group *group;
    const struct symc_op *op;
    struct symc_mover *mover;
    CUstream stream;          /* the current one */
    CUstream streams[2];      /* for products: the operation's, the side one */
    bool begun;               /* the side stream has work of the operation */
    bool joined;              /* the operation's stream waits for all of it */
    symmcoll_status_t status; /* of the work enqueued so far */
};

/* ---- device_elements.c: the functions for all movers ---- */

void symc_cuda_move_copy(void *state, void *out, const void *in, size_t nbytes);
void symc_cuda_move_strided(void *state, const struct symc_strided *copy);
void symc_cuda_move_push(void *state, const struct symc_pushed *rows);
void symc_cuda_move_reduce(
    void *state, const struct symc_rows *rows, void *out);
void symc_cuda_move_reduce_copies(
    void *state, size_t at, size_t count, void *out);

/* ---- device_products.c ---- */

/* Enqueues an operation with products; see struct symc_mover. */
void symc_cuda_enqueue_products(
    struct symc_cuda_moves *moves, struct symc_moving *moving);

#endif
