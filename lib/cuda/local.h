/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one rank does alone on a device, without a group.
 */
#ifndef SYMC_CUDA_LOCAL_H
#define SYMC_CUDA_LOCAL_H

#include "backend/backend.h"
#include "cuda/context.h"
#include "cuda/launch.h"

extern const struct symc_local_ops symc_cuda_local_ops;

/* Enqueue copies, so that elements become contiguous, in the current context. */
struct symc_cuda_called symc_cuda_copy_strided(const struct symc_cuda *cuda,
    CUstream stream, const struct symc_strided *copy);

/* ---- what its sources share ---- */

struct symc_cuda_local {
    struct symc_cuda_context context;
    symc_cuda_fail_fn fail;
    struct symc_kernels *kernels; /* see local_sum.c; NULL: none */
    uint32_t blocks;              /* of a kernel, at most */
};

#define symc_cuda_local_fail(local, result, ...)                 \
    symc_cuda_fail((local)->context.cuda, (local)->fail, result, \
        (int)(local)->context.device, __VA_ARGS__)

/* Make its context the thread's, until symc_cuda_leave(). */
static inline symmcoll_status_t symc_cuda_local_enter(
    const struct symc_cuda_local *local, struct symc_cuda_entered *entered)
{
    return symc_cuda_enter_or_fail(&local->context, local->fail, entered);
}

/* ---- local_convert.c ---- */

/* As convert() of struct symc_local_ops. */
symmcoll_status_t symc_cuda_local_convert(
    void *local, void *stream, const struct symc_conversion *conversion);

/* ---- local_pool.c ---- */

/* The pool that memory of its device is allocated from (out).  Any thread. */
struct symc_cuda_called symc_cuda_pool_of(
    const struct symc_cuda_context *context, CUmemoryPool *pool);

/* ---- local_pieces.c ---- */

/* As move() of struct symc_local_ops. */
symmcoll_status_t symc_cuda_local_move(
    void *local, void *stream, const struct symc_local_pieces *pieces);

/* ---- local_sum.c ---- */

/* Load the kernels. */
symmcoll_status_t symc_cuda_local_load(struct symc_cuda_local *local);
/* As add() of struct symc_local_ops. */
symmcoll_status_t symc_cuda_local_add(
    void *local, void *stream, const struct symc_local_sum *sum);

/* ---- local_time.c: as those of struct symc_local_ops ---- */

symmcoll_status_t symc_cuda_local_mark(void *local, void *stream, void **mark);
symmcoll_status_t symc_cuda_local_elapsed(
    void *local, void *from, void *to, int64_t *ns);
void symc_cuda_local_unmark(void *local, void *mark);

#endif
