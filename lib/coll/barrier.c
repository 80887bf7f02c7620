/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier, and its placement on a device.
 */
#include "coll/coll.h"
#include "registry/registry.h"

#define WHERE "barrier_devices"

symmcoll_status_t symmcoll_barrier(struct symmcoll_group *group,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    struct symc_op made = {.kind = SYMC_BARRIER, .dtype = SYMMCOLL_UINT8};

    return symc_coll_issue(group, &made, call, work);
}

/* Checks that this machine has the device. */
static symmcoll_status_t check_device(struct symmcoll_group *group, int device)
{
    const struct symc_memory_request request = {.device = device,
        .state = symc_slot_device_state(symc_group_runner(group))};
    const struct symc_local_ops *ops;
    void *local = NULL;
    symmcoll_status_t status = symc_registry_open_device(
        &symc_group_world(group)->registry, WHERE, request, &ops, &local);

    if (status == SYMMCOLL_OK)
        ops->close(local);
    return status;
}

/* Makes the device that of the group's operations, if the group has none. */
static symmcoll_status_t take_device(struct symmcoll_group *group, int device)
{
    symmcoll_status_t status;
    bool first;
    int found;

    if (device < 0 || device > INT16_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            WHERE ": expected a device of 0 or more, found %d", device);
    status = check_device(group, device);
    if (status != SYMMCOLL_OK ||
        symc_slot_take_device(symc_group_runner(group), device, &found, &first))
        return status;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        WHERE ": expected device %d, on which group %s is on this rank, found "
              "%d",
        found, symc_group_name(group), device);
}

symmcoll_status_t symmcoll_barrier_devices(struct symmcoll_group *group,
    const int *device_ids, size_t n, const struct symmcoll_call *call,
    struct symmcoll_work **work)
{
    symmcoll_status_t status;

    if (group == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, WHERE ": expected a group, found NULL");
    if (!symc_group_is_usable(group))
        return symc_coll_refuse(symc_group_refuse(group, SYMC_BARRIER), work);
    if (n > 1 || (n == 1 && device_ids == NULL))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            WHERE ": expected one device of this rank, or none, found %zu%s", n,
            device_ids == NULL ? " at NULL" : "");
    if (n == 1) {
        status = take_device(group, device_ids[0]);
        if (status != SYMMCOLL_OK)
            return status;
    }
    return symmcoll_barrier(group, call, work);
}
