/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registration of device memory of the program: an allocation (allocate.c) for
 * which the backend imports the memory. It stays the program's. Memory that
 * overlaps other symmetric memory is refused (symm_overlap.c), also if that was
 * freed or deregistered and is still in use.
 */
#include "base/cancel.h"
#include "registry/registry.h"
#include "symm_mem/symm_mem.h"

static const char where[] = "symm_register";

/* Finds the device of the memory if the caller names none. */
static symmcoll_status_t find_place(const struct symmcoll_world *world,
    const void *data, struct symmcoll_symm_args *args)
{
    int16_t device = 0;

    if (args->device != SYMMCOLL_HOST)
        return SYMMCOLL_OK; /* the backend compares it */
    if (symc_registry_find(&world->registry, data, &device) !=
        SYMC_MEMORY_DEVICE)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: expected memory of a device that a backend serves, found %p, "
            "which is of none: the host's is symmetric if symm_alloc allocates "
            "it, or as a memfd of symm_import",
            where, data);
    if (device == SYMC_UNKNOWN_DEVICE)
        return symc_registry_refuse(&world->registry, where, data);
    if (device == SYMC_NO_DEVICE)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected memory of a device, found %p, which no allocation "
            "has",
            where, data);
    args->device = SYMMCOLL_CUDA;
    args->device_index = device;
    return SYMMCOLL_OK;
}

/* Checks the arguments of a registration. */
static symmcoll_status_t check(
    const void *data, size_t nbytes, const struct symmcoll_symm_args *args)
{
    if (data == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected memory of a device, found NULL", where);
    if (nbytes == 0 || nbytes > PTRDIFF_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected 1 byte or more that memory has, found %zu", where,
            nbytes);
    if (args->id != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected no id, found %lld: the memory is the caller's", where,
            (long long)args->id);
    return SYMMCOLL_OK;
}

static symmcoll_status_t register_memory(struct symmcoll_world *world,
    void *data, size_t nbytes, const struct symmcoll_symm_args *given)
{
    struct symc_symm_request request = {
        .where = where, .nbytes = nbytes, .own = data};
    void *at = NULL;
    symmcoll_status_t status =
        symc_symm_read_args(where, world, &at, given, &request.args);

    if (status != SYMMCOLL_OK)
        return status;
    status = check(data, nbytes, &request.args);
    if (status != SYMMCOLL_OK)
        return status;
    status = find_place(world, data, &request.args);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_symm_allocate(world, &request, &at);
}

symmcoll_status_t symmcoll_symm_register(struct symmcoll_world *world,
    void *data, size_t nbytes, const struct symmcoll_symm_args *args)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = register_memory(world, data, nbytes, args);

    symc_cancel_restore(cancel);
    return status;
}

symmcoll_status_t symmcoll_symm_deregister(
    struct symmcoll_world *world, void *data)
{
    return symc_symm_return(world, "symm_deregister", data, true);
}
