/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous of allocations in device memory: after the first round has shown
 * that all members have such memory, of the same size, the group's backend maps
 * the data of all members and then their pads.
 */
#include "base/ranks.h"
#include "run/call.h"
#include "symm_mem/share.h"
#include "symm_mem/symm_rendezvous.h"

#include <stdio.h>

symmcoll_status_t symc_symm_check_device(
    const struct symc_symm_rendezvous *rendezvous)
{
    struct symmcoll_group *group = rendezvous->group;
    const struct symc_allocation *allocation = rendezvous->offer->allocation;
    int found;

    /* Opening the backend fixes the device, and reports a change by another
     * thread. */
    if (symc_run_is_on_device(
            symc_group_runner(group), allocation->device_index, &found))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "expected memory of device %d, as in earlier operations of the group, "
        "found %p of device %d",
        found, (void *)allocation->data, allocation->device_index);
}

static bool are_on_same_device(const void *published, int a, int b)
{
    const struct symc_symm_published *all = published;

    return all[a].device == all[b].device;
}

symmcoll_status_t symc_symm_compare_places(
    const struct symc_symm_rendezvous *rendezvous)
{
    const struct symmcoll_group *group = rendezvous->group;
    const struct symc_symm_published *all = rendezvous->all;
    char who[2][SYMC_RANK_TEXT], place[2][SYMC_SYMM_PLACE];
    int other = 0;

    while (other < symc_group_size(group) && all[other].device == all[0].device)
        other++;
    if (other == symc_group_size(group))
        return SYMMCOLL_OK;
    (void)symc_fail(SYMMCOLL_ERR_MISMATCH,
        "%s: kinds of memory differ: %s passed %s, %s passed %s (group %s)",
        symc_kind_name(rendezvous->offer->kind),
        symc_format_rank(symc_group_ranks(group), 0, SYMC_NO_PID, who[0]),
        symc_symm_format_place(
            (enum symmcoll_device)all[0].device, all[0].device_index, place[0]),
        symc_format_rank(symc_group_ranks(group), other, SYMC_NO_PID, who[1]),
        symc_symm_format_place((enum symmcoll_device)all[other].device,
            all[other].device_index, place[1]),
        symc_group_name(group));
    return symc_error_add_odd(symc_group_ranks(group), are_on_same_device, all);
}

/* Adds the name of the call to an error of the backend. The error of a failed
 * group has it already. */
static symmcoll_status_t fail(
    const struct symc_symm_rendezvous *rendezvous, symmcoll_status_t status)
{
    const struct symmcoll_group *group = rendezvous->group;

    if (symc_members_failed(symc_group_members(rendezvous->group)))
        return status;
    return symc_error_amend(status, "%s: %s (group %s)",
        symc_kind_name(rendezvous->offer->kind), symmcoll_last_error(),
        symc_group_name(group));
}

symmcoll_status_t symc_symm_join(struct symc_symm_rendezvous *rendezvous)
{
    struct symmcoll_group *group = rendezvous->group;
    const struct symc_symm_offer *offer = rendezvous->offer;
    const struct symc_allocation *allocation = offer->allocation;
    const struct symc_near near = allocation->near;
    const struct symc_op op = {.kind = offer->kind,
        .memory = SYMC_MEMORY_DEVICE,
        .device = (int16_t)allocation->device_index,
        .stream =
            near.stream != NULL ? near.stream : symmcoll_group_stream(group),
        .in = near.memory != NULL ? near.memory : allocation->data,
        .timeout_ns = symc_symm_time_left(offer->deadline_ns)};
    struct symc_share *share = rendezvous->share;
    const struct symc_slot_memory own = {
        .backend = allocation->backend, .memory = allocation->memory};
    struct symc_joined *joined = NULL, *pads = NULL;
    symmcoll_status_t status =
        symc_slot_open(symc_group_runner(group), &op, &own);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_slot_join(
        symc_group_runner(group), &op, own, offer->deadline_ns, &joined);
    if (status == SYMMCOLL_OK)
        status = symc_slot_join(symc_group_runner(group), &op,
            (struct symc_slot_memory){.backend = allocation->backend,
                .memory = share->pad_memory,
                .other = joined,
                .table_at = share->table_at},
            offer->deadline_ns, &pads);
    if (status != SYMMCOLL_OK) {
        status = fail(rendezvous, status);
        if (joined != NULL)
            allocation->backend->mem->leave(joined);
        return status;
    }
    symc_share_join(share, joined, pads);
    return SYMMCOLL_OK;
}
