/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of an operation's buffers with the driver before anything is enqueued: a kernel
 * that reads an address without memory breaks the whole context.
 */
#include "cuda/device_choice.h"
#include "cuda/device_group.h"

#include <stdio.h>

/* A buffer of at least 1 byte; name: "out" or "in". */
struct buffer {
    const char *name;
    const char *at;
    size_t nbytes;
};

/* Returns the bytes that kernels load and store at once: an address that is not a
 * multiple of them breaks the context, too.  1 if the operation only moves bytes. */
static size_t unit_of(
    const struct symc_cuda_group *group, const struct symc_op *op)
{
    uint64_t numbers; /* of an element */

    if ((group->core->kinds[op->kind].traits & SYMC_REDUCES) == 0)
        return 1;
    (void)symc_cuda_reduced_type(op->dtype, &numbers);
    return op->elem / numbers;
}

/* The driver's attributes of a buffer's last byte. */
struct place {
    unsigned int type;
    int device;
    CUdeviceptr begin; /* of the allocation, or of the reservation */
    CUcontext context; /* in which it was allocated; NULL: none */
};

static symmcoll_status_t refuse(const struct symc_cuda_group *group,
    const struct symc_op *op, const struct buffer *buffer, const char *found)
{
    return group->core->fail(SYMMCOLL_ERR_INVALID,
        "%s: expected %s to be in memory of device %d, found the last of %zu "
        "bytes at %p %s",
        group->core->kinds[op->kind].name, buffer->name, group->device,
        buffer->nbytes, (const void *)(buffer->at + buffer->nbytes - 1), found);
}

/* Fails because a buffer's end lies in another allocation than its beginning. */
static symmcoll_status_t refuse_next(const struct symc_cuda_group *group,
    const struct symc_op *op, const struct buffer *buffer,
    const struct place *place)
{
    return group->core->fail(SYMMCOLL_ERR_INVALID,
        "%s: expected %s of %zu bytes at %p to be in one allocation, found that "
        "another one begins at %p",
        group->core->kinds[op->kind].name, buffer->name, buffer->nbytes,
        (const void *)buffer->at, (void *)(uintptr_t)place->begin);
}

static CUresult find_place(
    const struct symc_cuda *cuda, const char *at, struct place *place)
{
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_CONTEXT};
    void *values[] = {
        &place->type, &place->device, &place->begin, &place->context};

    *place = (struct place){.device = -1};
    return cuda->pointer_get_attributes(
        4, names, values, (CUdeviceptr)(uintptr_t)at);
}

static symmcoll_status_t refuse_odd(const struct symc_cuda_group *group,
    const struct symc_op *op, const struct buffer *buffer)
{
    return group->core->fail(SYMMCOLL_ERR_INVALID,
        "%s: expected %s at a multiple of %zu bytes in device memory, found %p",
        group->core->kinds[op->kind].name, buffer->name, unit_of(group, op),
        (const void *)buffer->at);
}

/* Checks the alignment and the last byte; the first byte was looked up at the call. */
static symmcoll_status_t check_buffer(const struct symc_cuda_group *group,
    const struct symc_op *op, const char *name, const char *at, size_t nbytes)
{
    const struct buffer buffer = {name, at, nbytes};
    struct place place;
    char other[48];
    CUresult result;

    if (nbytes == 0)
        return SYMMCOLL_OK;
    if ((uintptr_t)at % unit_of(group, op) != 0)
        return refuse_odd(group, op, &buffer);
    result = find_place(group->cuda, at + nbytes - 1, &place);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE)
        return symc_cuda_group_fail(group, result,
            "cuPointerGetAttributes of %s (%p)", name,
            (const void *)(at + nbytes - 1));
    if (result != CUDA_SUCCESS || place.type == 0)
        return refuse(group, op, &buffer,
            "that no allocation has: it has been freed, or the buffer ends "
            "before it");
    if (place.type != CU_MEMORYTYPE_DEVICE)
        return refuse(group, op, &buffer, "in memory of the host");
    if (place.device == group->device &&
        !symc_cuda_context_reaches(&group->context, place.context, at))
        return symc_cuda_refuse_reach(&group->context, group->core->fail,
            group->core->kinds[op->kind].name, name, place.context, at);
    if (place.device == group->device)
        return place.begin <= (CUdeviceptr)(uintptr_t)at
                   ? SYMMCOLL_OK
                   : refuse_next(group, op, &buffer, &place);
    (void)snprintf(
        other, sizeof(other), "in memory of device %d", place.device);
    return refuse(group, op, &buffer, other);
}

/* Checks lists of buffers, one per part. */
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

static symmcoll_status_t check_one(
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

symmcoll_status_t symc_cuda_check_buffers(
    const struct symc_cuda_group *group, const struct symc_op *op)
{
    const unsigned int traits = group->core->kinds[op->kind].traits;
    symmcoll_status_t status = SYMMCOLL_OK;

    /* The pointers of these operations are not buffers. */
    if ((traits & (SYMC_PAIR | SYMC_MONITORED | SYMC_MOVES)) != 0)
        return SYMMCOLL_OK;
    if ((traits & SYMC_COALESCED) == 0)
        return check_one(group, op);
    for (int i = 0; i < op->buffers && status == SYMMCOLL_OK; i++) {
        struct symc_op one = symc_op_of_listed(op, i);

        status = check_one(group, &one);
    }
    return status;
}

symmcoll_status_t symc_cuda_reach(
    void *state, const char *where, const char *what, const void *at)
{
    const struct symc_cuda_group *group = state;

    return symc_cuda_check_reach(
        &group->context, group->core->fail, where, what, at);
}
