/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives of device memory: their device and stream. They are
 * matched and end like those of host memory.
 */
#include "pair/pair.h"
#include "run/call.h"

#include <stdio.h>
#include <string.h>

/* Opens a device's copies, for the copier of the rank. */
static symmcoll_status_t open_transfer(void *arg,
    const struct symc_memory_request *request,
    const struct symc_transfer_ops **ops, void **transfer)
{
    const struct symmcoll_group *group = arg;

    return symc_registry_open_transfer(
        &symc_group_world(group)->registry, *request, ops, transfer);
}

/* Puts the name of the call before an error of the copier. */
static symmcoll_status_t name(
    const struct symc_op *op, symmcoll_status_t status)
{
    return symc_error_prefix(
        status, "%s: device %d", symc_kind_name(op->kind), op->device);
}

symmcoll_status_t symc_group_place_pair(
    struct symmcoll_group *group, struct symc_op *op)
{
    symmcoll_status_t status =
        symc_run_take_device(symc_group_runner(group), op);

    if (status != SYMMCOLL_OK)
        return status;
    if (op->stream == NULL)
        op->stream = symmcoll_group_stream(group);
    return op->stream != NULL &&
                   symc_registry_is_captured(&symc_group_world(group)->registry,
                       (enum symc_memory)op->memory, op->stream)
               ? symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
                     "%s: expected a stream that is not captured, for the host "
                     "has a part in each message; found stream %p in a capture",
                     symc_kind_name(op->kind), op->stream)
               : SYMMCOLL_OK;
}

/* Checks that the last byte belongs to the allocation of the first. */
static symmcoll_status_t check_whole(const struct symmcoll_group *group,
    const struct symc_op *op, const void *first)
{
    const struct symc_registry *registry = &symc_group_world(group)->registry;
    const size_t nbytes = op->count * op->elem;
    const void *last = (const char *)first + nbytes - 1;
    int16_t device = 0;

    if (symc_registry_find(registry, last, &device) ==
            (enum symc_memory)op->memory &&
        device == op->device && symc_registry_is_one(registry, first, last))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected %zu bytes of one allocation of device %d at %p, found that "
        "it ends before",
        symc_kind_name(op->kind), nbytes, op->device, first);
}

symmcoll_status_t symc_group_begin_copying(struct symmcoll_group *group,
    struct symc_op *op, struct symc_copying **copying)
{
    const struct symc_memory_request request = {.device = op->device,
        .threads = symc_group_world(group)->threads,
        .stream = op->stream,
        .buffer = op->kind == SYMC_SEND ? op->in : op->out,
        .state = symc_slot_device_state(symc_group_runner(group))};
    const struct symc_copier_opener opener = {open_transfer, group};
    struct symc_copier *copier = NULL;
    symmcoll_status_t status;

    *copying = NULL;
    if (op->memory == SYMC_MEMORY_HOST || op->count == 0)
        return SYMMCOLL_OK;
    status = check_whole(group, op, request.buffer);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_slot_reach(symc_group_runner(group), symc_kind_name(op->kind),
        op->kind == SYMC_SEND ? "in" : "out", request.buffer);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_pairs_open_copier(symc_group_world(group)->pairs, &copier);
    if (status == SYMMCOLL_OK)
        status = symc_copier_begin(copier, &request, &opener, op,
            symc_group_config(group)->cuda_message_chunk, copying);
    return status == SYMMCOLL_OK ? status : name(op, status);
}
