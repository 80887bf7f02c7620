/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Places of buffers, and the errors for buffers in memory that was freed or
 * that no backend serves.
 */
#include "backend/module.h"
#include "coll/coll.h"
#include "config/config.h"

/* In a barrier, a member without a device of its group takes part all the same. */
void symc_coll_take_device(struct symmcoll_group *group, struct symc_op *op)
{
    int device = symc_group_device(group);

    if (device < 0)
        return;
    op->memory = SYMC_MEMORY_DEVICE;
    op->device = (int16_t)device;
}

/* Returns the error for memory that neither the host nor a backend can
 * access. */
static symmcoll_status_t refuse_unserved(const struct symmcoll_world *world,
    const struct symc_op *op, const char *buffer, const void *at, int device)
{
    bool left_out = world->config->backends[0] != '\0';

    return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
        "%s: expected %s to be in host memory, or a backend with memory of CUDA device "
        "%d, found %p there, and none: %s%s",
        symc_kind_name(op->kind), buffer, device, at,
        left_out ? "the setting backends leaves out module cuda"
                 : "no module cuda is, or can be loaded, in ",
        left_out ? "" : symc_module_folder());
}

symmcoll_status_t symc_coll_find(struct symmcoll_group *group,
    const struct symc_op *op, const char *buffer, const void *at,
    enum symc_memory *memory, int16_t *device)
{
    const struct symmcoll_world *world = symc_group_world(group);

    *memory = symc_registry_find(&world->registry, at, device);
    if (*device == SYMC_UNKNOWN_DEVICE)
        return symc_registry_refuse(
            &world->registry, symc_kind_name(op->kind), at);
    if (*device == SYMC_NO_DEVICE)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %s to be in memory of the host or of a device, found %p, "
            "which is in neither: it may have been freed",
            symc_kind_name(op->kind), buffer, at);
    return *memory != SYMC_MEMORY_HOST && world->registry.unserved
               ? refuse_unserved(world, op, buffer, at, *device)
               : SYMMCOLL_OK;
}
