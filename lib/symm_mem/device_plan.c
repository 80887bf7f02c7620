/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans in the memory of a device.
 */
#include "symm_mem/device_plan.h"

#include "registry/registry.h"

#include <stdio.h>

symmcoll_status_t symc_device_plan_open(const struct symmcoll_symm *handle,
    const char *where, size_t pieces, struct symc_device_plan *plan)
{
    const struct symc_settings settings =
        symc_registry_settings(handle->group->world->config);
    const struct symc_memory_request request = {.settings = &settings,
        .fail = symc_fail,
        .device = handle->share->device_index,
        .threads = true, /* nobody else uses it */
        .nbytes = symc_launch_plan_nbytes(pieces)};
    const struct symc_memory_ops *mem = handle->share->allocation->backend->mem;
    char detail[SYMC_DETAIL_MAX];
    symmcoll_status_t status =
        mem->allocate(&request, &plan->memory, &plan->at);

    if (status == SYMMCOLL_OK) {
        plan->mem = mem;
        return status;
    }
    snprintf(detail, sizeof(detail), "%s", symmcoll_last_error());
    return symc_fail(status,
        "%s: %zu bytes for a plan in memory of device %d: %s", where,
        request.nbytes, handle->share->device_index, detail);
}

void symc_device_plan_close(
    const struct symmcoll_symm *handle, struct symc_device_plan *plan)
{
    if (plan->mem == NULL)
        return;
    /* Of a group that has been released nothing runs. */
    if (handle->group != NULL)
        (void)symc_queue_await_running(handle->group->queue, SYMC_NEVER);
    plan->mem->free(plan->memory);
    plan->mem = NULL;
}

void symc_device_plan_describe(const struct symc_symm_call *call,
    const struct symc_exchange *exchange, const struct symc_device_plan *plan,
    struct symc_launch *launch)
{
    const struct symmcoll_symm_exchange *args = &exchange->args;
    const struct symmcoll_symm *handle = call->handle;

    launch->at = handle->offset + args->in_offset;
    launch->out = symc_symm_at(call, handle->rank, args->out_offset);
    launch->slice = exchange->row_nbytes;
    launch->pieces = (struct symc_launch_pieces){
        .in_splits = handle->offset + args->in_splits_offset,
        .out_splits = symc_symm_at(call, handle->rank, args->out_splits_offset),
        .in_rows = args->in_rows,
        .out_rows = args->out_rows,
        .major_align = args->major_align,
        .experts = args->experts,
        .back = exchange->back,
        .plan = plan != NULL ? plan->at : NULL};
}
