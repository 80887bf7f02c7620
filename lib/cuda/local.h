/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations of one rank on a device, without a group: memory, copies and local kernels.
 */
#ifndef SYMC_CUDA_LOCAL_H
#define SYMC_CUDA_LOCAL_H

#include "backend/backend.h"
#include "cuda/context.h"
#include "cuda/launch.h"

extern const struct symc_local_ops symc_cuda_local_ops;

/* Enqueues the copies of a strided tensor, in the current context. */
struct symc_cuda_called symc_cuda_copy_strided(const struct symc_cuda *cuda,
    CUstream stream, const struct symc_strided *copy);

/* ---- shared by the local_*.c ---- */

struct symc_cuda_local {
    struct symc_cuda_context context;
    symc_cuda_fail_fn fail;
    struct symc_kernels *kernels; /* see local_sum.c; NULL: none */
    uint32_t blocks;              /* of a kernel, at most */
};

#define symc_cuda_local_fail(local, result, ...)                 \
    symc_cuda_fail((local)->context.cuda, (local)->fail, result, \
        (int)(local)->context.device, __VA_ARGS__)

/* Makes the local context the thread's current one until symc_cuda_leave(). */
static inline symmcoll_status_t symc_cuda_local_enter(
    const struct symc_cuda_local *local, struct symc_cuda_entered *entered)
{
    return symc_cuda_enter_or_fail(&local->context, local->fail, entered);
}

/* ---- local_convert.c ---- */

/* convert() of struct symc_local_ops. */
symmcoll_status_t symc_cuda_local_convert(
    void *local, void *stream, const struct symc_conversion *conversion);

/* ---- local_pool.c ---- */

/* Returns the pool for allocations on the context's device (out).  Any thread. */
struct symc_cuda_called symc_cuda_pool_of(
    const struct symc_cuda_context *context, CUmemoryPool *pool);

/* ---- local_pieces.c ---- */

/* move() of struct symc_local_ops. */
symmcoll_status_t symc_cuda_local_move(
    void *local, void *stream, const struct symc_local_pieces *pieces);

/* ---- local_sum.c ---- */

/* Loads the kernels for sums, conversions and pieces. */
symmcoll_status_t symc_cuda_local_load(struct symc_cuda_local *local);
/* add() of struct symc_local_ops. */
symmcoll_status_t symc_cuda_local_add(
    void *local, void *stream, const struct symc_local_sum *sum);

/* ---- local_time.c: mark(), elapsed(), unmark() of struct symc_local_ops ---- */

symmcoll_status_t symc_cuda_local_mark(void *local, void *stream, void **mark);
symmcoll_status_t symc_cuda_local_elapsed(
    void *local, void *from, void *to, int64_t *ns);
void symc_cuda_local_unmark(void *local, void *mark);

#endif
