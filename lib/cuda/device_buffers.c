/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the driver knows of the buffers of an operation, asked before anything is
 * enqueued: a kernel that reads where nothing is breaks the whole context.
 */
#include "cuda/device_group.h"

#include <stdio.h>

/* One byte of a buffer: "out" or "in". */
struct byte {
    const char *buffer;
    const char *at;
};

static symmcoll_status_t refuse(const struct symc_cuda_group *group,
    const struct symc_op *op, struct byte byte, const char *found)
{
    return group->core->fail(SYMMCOLL_ERR_INVALID,
        "%s: expected %s in memory of device %d, found %p %s",
        group->core->kinds[op->kind].name, byte.buffer, group->device,
        (const void *)byte.at, found);
}

static symmcoll_status_t check_byte(const struct symc_cuda_group *group,
    const struct symc_op *op, struct byte byte)
{
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    unsigned int type = 0;
    int ordinal = -1;
    void *values[] = {&type, &ordinal};
    char other[48];
    CUresult result = group->cuda->pointer_get_attributes(
        2, names, values, (CUdeviceptr)(uintptr_t)byte.at);

    if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE)
        return symc_cuda_group_fail(group, result,
            "cuPointerGetAttributes of %s (%p)", byte.buffer,
            (const void *)byte.at);
    if (result != CUDA_SUCCESS || type == 0)
        return refuse(group, op, byte,
            "that no allocation has: it has been freed, or the buffer ends "
            "before it");
    if (type != CU_MEMORYTYPE_DEVICE)
        return refuse(group, op, byte, "in memory of the host");
    if (ordinal == group->device)
        return SYMMCOLL_OK;
    snprintf(other, sizeof(other), "in memory of device %d", ordinal);
    return refuse(group, op, byte, other);
}

/* The last byte: where the first one is has been asked at the call, and what lies
 * in between may be of several allocations, side by side. */
static symmcoll_status_t check_buffer(const struct symc_cuda_group *group,
    const struct symc_op *op, const char *name, const char *at, size_t nbytes)
{
    return nbytes == 0
               ? SYMMCOLL_OK
               : check_byte(group, op, (struct byte){name, at + nbytes - 1});
}

/* Buffers of one part each. */
static symmcoll_status_t check_lists(const struct symc_cuda_group *group,
    const struct symc_op *op, bool sends, bool receives)
{
    const struct symc_lists *lists = op->lists;
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int r = 0; r < group->size && status == SYMMCOLL_OK; r++) {
        if (sends && lists->ins != NULL)
            status = check_buffer(group, op, "in", lists->ins[r],
                symc_op_in_count(op, r) * op->elem);
        if (status == SYMMCOLL_OK && receives && lists->outs != NULL)
            status = check_buffer(group, op, "out", lists->outs[r],
                symc_op_out_count(op, r) * op->elem);
    }
    return status;
}

symmcoll_status_t symc_cuda_check_buffers(
    const struct symc_cuda_group *group, const struct symc_op *op)
{
    const struct symc_kind_info *info = &group->core->kinds[op->kind];
    bool is_root = op->root == group->rank;
    bool sends = is_root || (info->traits & SYMC_FROM_ROOT) == 0;
    bool receives = is_root || (info->traits & SYMC_TO_ROOT) == 0;
    size_t part = op->count * op->elem;
    size_t in =
        sends ? part * symc_parts_count(info->in_parts, group->size) : 0;
    size_t out =
        receives ? part * symc_parts_count(info->out_parts, group->size) : 0;
    symmcoll_status_t status = SYMMCOLL_OK;

    /* What these pass are no buffers. */
    if ((info->traits &
            (SYMC_PAIR | SYMC_COALESCED | SYMC_MONITORED | SYMC_MOVES)) != 0)
        return SYMMCOLL_OK;
    if (op->listed) {
        status = check_lists(group, op, sends, receives);
        in = sends && op->lists->ins == NULL ? op->lists->in_total * op->elem
                                             : 0;
        out = receives && op->lists->outs == NULL
                  ? op->lists->out_total * op->elem
                  : 0;
    }
    if (status == SYMMCOLL_OK)
        status = check_buffer(group, op, "in", op->in, in);
    return status == SYMMCOLL_OK ? check_buffer(group, op, "out", op->out, out)
                                 : status;
}
