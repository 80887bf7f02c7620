/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations whose parts may be in separate buffers, which only one member may know.  The
 * driver copies parts between the buffers and the staging, and kernels between the copies
 * synchronise the members: on a stream, a copy has ended before the next kernel begins,
 * and begins only after the kernel before it has ended.
 */
#include "cuda/device_launch.h"

/* ---- copies ---- */

/* A range of bytes of each part. */
struct stretch {
    uint64_t from;
    uint64_t nbytes;
};

/* Returns how many bytes of a stretch a part of count elements has. */
static uint64_t bytes_in(
    struct stretch stretch, const struct symc_op *op, uint64_t count)
{
    uint64_t nbytes = count * op->elem;
    uint64_t left = nbytes > stretch.from ? nbytes - stretch.from : 0;

    return left < stretch.nbytes ? left : stretch.nbytes;
}

symmcoll_status_t symc_cuda_enqueue_copy(const struct symc_cuda_group *group,
    CUdeviceptr to, CUdeviceptr from, uint64_t nbytes, CUstream stream)
{
    CUresult result = nbytes == 0
                          ? CUDA_SUCCESS
                          : group->cuda->memcpy_async(to, from, nbytes, stream);

    return result == CUDA_SUCCESS
               ? SYMMCOLL_OK
               : symc_cuda_group_fail(group, result,
                     "cuMemcpyAsync of %llu bytes from %p to %p",
                     (unsigned long long)nbytes, (void *)(uintptr_t)from,
                     (void *)(uintptr_t)to);
}

/* Copies a stretch of this rank's input into its staging. */
static symmcoll_status_t copy_in(const struct symc_cuda_group *group,
    const struct symc_op *op, uint64_t pitch, struct stretch stretch,
    CUstream stream)
{
    const struct symc_kind_info *info = &group->core->kinds[op->kind];
    bool sends =
        op->root == group->rank || (info->traits & SYMC_FROM_ROOT) == 0;
    CUdeviceptr to =
        symc_cuda_row_at(&group->segment, group->rank) + group->staging;
    bool parts = info->in_parts == SYMC_ALL_PARTS;

    for (int r = 0; sends && r < (parts ? group->size : 1); r++) {
        const char *from = parts ? symc_op_in_at(op, r) : op->in;
        symmcoll_status_t status =
            symc_cuda_enqueue_copy(group, to + (uint64_t)r * pitch,
                (CUdeviceptr)(uintptr_t)from + stretch.from,
                bytes_in(stretch, op, symc_op_in_count(op, r)), stream);

        if (status != SYMMCOLL_OK)
            return status;
    }
    return SYMMCOLL_OK;
}

/* Copies a stretch from the senders' staging into this rank's output. */
static symmcoll_status_t copy_out(const struct symc_cuda_group *group,
    const struct symc_op *op, uint64_t pitch, struct stretch stretch,
    CUstream stream)
{
    const struct symc_kind_info *info = &group->core->kinds[op->kind];
    bool receives =
        op->root == group->rank || (info->traits & SYMC_TO_ROOT) == 0;
    bool parts = info->out_parts == SYMC_ALL_PARTS;
    uint64_t begin =
        group->staging +
        (info->in_parts == SYMC_ALL_PARTS ? (uint64_t)group->rank * pitch : 0);

    for (int i = 0; receives && i < (parts ? group->size : 1); i++) {
        /* Each rank starts with a different sender, to spread the load of links. */
        int r = parts ? (group->rank + i) % group->size : op->root;
        char *to = parts ? symc_op_out_at(op, r) : op->out;
        symmcoll_status_t status = symc_cuda_enqueue_copy(group,
            (CUdeviceptr)(uintptr_t)to + stretch.from,
            symc_cuda_row_at(&group->segment, r) + begin,
            bytes_in(stretch, op, symc_op_out_count(op, r)), stream);

        if (status != SYMMCOLL_OK)
            return status;
    }
    return SYMMCOLL_OK;
}

/* ---- operations ---- */

static symmcoll_status_t move_stretch(struct symc_cuda_group *group,
    const struct symc_op *op, uint64_t pitch, struct stretch stretch,
    CUstream stream)
{
    symmcoll_status_t status = copy_in(group, op, pitch, stretch, stream);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_cuda_launch_barrier(group, op, stream);
    if (status != SYMMCOLL_OK)
        return status;
    status = copy_out(group, op, pitch, stretch, stream);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_cuda_launch_barrier(group, op, stream);
}

static symmcoll_status_t reduce_stretch(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_cuda_choice *choice,
    struct stretch stretch, CUstream stream)
{
    struct symc_cuda_piece piece = {
        stretch.from / choice->unit, stretch.nbytes / choice->unit};
    symmcoll_status_t status =
        copy_in(group, op, choice->pitch, stretch, stream);

    return status == SYMMCOLL_OK
               ? symc_cuda_launch_reduction(group, op, choice, piece, stream)
               : status;
}

symmcoll_status_t symc_cuda_enqueue_copies(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_cuda_choice *choice,
    CUstream stream)
{
    const struct symc_kind_info *info = &group->core->kinds[op->kind];
    bool reduces = (info->traits & SYMC_REDUCES) != 0;
    uint64_t nbytes = symc_cuda_find_part(info, op, group->size);
    symmcoll_status_t status = SYMMCOLL_OK;

    for (struct stretch stretch = {.from = 0};
         stretch.from < nbytes && status == SYMMCOLL_OK;
         stretch.from += stretch.nbytes) {
        stretch.nbytes = nbytes - stretch.from;
        if (stretch.nbytes > choice->pitch)
            stretch.nbytes = choice->pitch;
        status = reduces
                     ? reduce_stretch(group, op, choice, stretch, stream)
                     : move_stretch(group, op, choice->pitch, stretch, stream);
    }
    return status;
}
