/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans of exchanges in device memory.
 */
#include "symm_ops/device_plan.h"

#include "registry/registry.h"
#include "symm_mem/backing.h"
#include "symm_mem/share.h"

#include <stdio.h>
#include <stdlib.h>

void symc_plan_hold(struct symmcoll_symm *handle)
{
    struct symc_symm *symm = handle->share->home;

    pthread_mutex_lock(&symm->lock);
    handle->share->users++;
    symc_symm_unlock(symm);
}

static symmcoll_status_t allocate(struct symmcoll_symm *handle,
    const char *where, size_t pieces, struct symc_device_plan *plan)
{
    const struct symc_settings settings =
        symc_registry_settings(symc_group_config(handle->group));
    const struct symc_memory_request request = {.settings = &settings,
        .fail = symc_fail,
        .device = handle->share->device_index,
        .threads = true, /* no other thread uses this memory */
        .nbytes = symc_launch_plan_nbytes(pieces),
        .state = symc_slot_device_state(symc_group_runner(handle->group)),
        .log = symc_symm_log,
        .of = symc_group_world(handle->group)};
    symmcoll_status_t status;

    plan->mem = handle->share->allocation->backend->mem;
    status = plan->mem->allocate(&request, &plan->memory, &plan->at);
    if (status == SYMMCOLL_OK)
        return status;
    return symc_error_prefix(status,
        "%s: %zu bytes for a plan in memory of device %d", where,
        request.nbytes, handle->share->device_index);
}

symmcoll_status_t symc_device_plan_open(struct symmcoll_symm *handle,
    const char *where, size_t pieces, struct symc_device_plan **plan)
{
    struct symc_share *share = handle->share;
    struct symc_device_plan *made = symc_alloc(1, sizeof(*made));
    symmcoll_status_t status = SYMMCOLL_ERR_NO_MEMORY;

    if (made != NULL)
        status = allocate(handle, where, pieces, made);
    if (status != SYMMCOLL_OK) {
        free(made);
        return status;
    }
    pthread_mutex_lock(&share->home->lock);
    made->next = share->plans;
    share->plans = made;
    symc_symm_unlock(share->home);
    *plan = made;
    return SYMMCOLL_OK;
}

/* Frees a plan, under the lock. If a device still uses it, the share frees it
 * later; the caller holds a reference to the share. */
static void close_plan(struct symc_symm *symm, struct symc_share *share,
    struct symc_device_plan *plan)
{
    struct symc_device_plan **at = &share->plans;

    plan->left = plan->memory != NULL &&
                 symc_share_await(symm, share, "symm_plan_free") != SYMMCOLL_OK;
    if (plan->left)
        return;
    if (plan->memory != NULL) {
        while (*at != plan)
            at = &(*at)->next;
        *at = plan->next;
        symc_left_memory(symm, plan->mem, plan->memory);
    }
    free(plan);
}

void symc_device_plan_close(
    struct symmcoll_symm *handle, struct symc_device_plan *plan)
{
    struct symc_symm *symm;

    if (plan == NULL)
        return;
    symm = handle->share->home;
    /* the world's end has freed the memory that no device uses */
    if (symm == NULL) {
        free(plan);
    } else if (symc_world_is_mine(symm->world)) {
        pthread_mutex_lock(&symm->lock);
        close_plan(symm, handle->share, plan);
        symc_symm_unlock(symm);
    }
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
