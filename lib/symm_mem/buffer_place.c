/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that a caller's buffer is in the memory that a handle's buffers are in:
 * the host's or one device's.
 */
#include "registry/registry.h"
#include "symm_mem/symm_mem.h"

/* The device that holds a byte. */
struct spot {
    enum symmcoll_device device;
    int16_t index;
};

/* Returns whether a byte is in the memory of the handle's buffers; spot (out):
 * its device. */
static bool is_beside(
    const struct symmcoll_symm *handle, const void *at, struct spot *spot)
{
    const struct symc_registry *registry =
        &handle->share->home->world->registry;

    *spot = (struct spot){.device = SYMMCOLL_HOST};
    if (symc_registry_is_other_present(registry) &&
        symc_registry_find(registry, at, &spot->index) != SYMC_MEMORY_HOST)
        spot->device = SYMMCOLL_CUDA;
    return symc_symm_is_host(handle)
               ? spot->device == SYMMCOLL_HOST
               : spot->device == SYMMCOLL_CUDA &&
                     spot->index == handle->share->device_index;
}

static const char *format_expected(
    const struct symmcoll_symm *handle, char buffer[SYMC_SYMM_PLACE])
{
    return symc_symm_format_place(
        handle->share->device, handle->share->device_index, buffer);
}

/* Checks that a buffer's last byte lies in the same allocation as its first,
 * which is in the right memory. */
static symmcoll_status_t check_end(const struct symmcoll_symm *handle,
    const char *where, const char *what, const char *buffer, size_t nbytes)
{
    const struct symc_registry *registry =
        &handle->share->home->world->registry;
    const char *last = buffer + nbytes - 1, *found = "another allocation there";
    char place[SYMC_SYMM_PLACE], expected[SYMC_SYMM_PLACE];
    struct spot spot;
    bool beside = is_beside(handle, last, &spot);

    if (beside && (symc_symm_is_host(handle) ||
                      symc_registry_is_one(registry, buffer, last)))
        return SYMMCOLL_OK;
    if (spot.index == SYMC_UNKNOWN_DEVICE)
        return symc_registry_refuse(registry, where, last);
    if (!beside && spot.index == SYMC_NO_DEVICE)
        found = "none";
    else if (!beside)
        found = symc_symm_format_place(spot.device, spot.index, place);
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected %s to be %zu bytes in %s, found %p there, whose last byte "
        "is in %s",
        where, what, nbytes, format_expected(handle, expected),
        (const void *)buffer, found);
}

/* Checks that the group's device can access the buffer. OK if the group is
 * being released: the call itself reports that. */
static symmcoll_status_t check_reach(const struct symmcoll_symm *handle,
    const char *where, const char *what, const void *buffer)
{
    symmcoll_status_t status;

    if (!symc_symm_hold(handle))
        return SYMMCOLL_OK;
    status =
        symc_slot_reach(symc_group_runner(handle->group), where, what, buffer);
    symc_symm_leave(handle);
    return status;
}

__attribute__((noinline)) symmcoll_status_t symc_symm_check_memory(
    const struct symmcoll_symm *handle, const char *where, const char *what,
    const void *buffer, size_t nbytes)
{
    char found[SYMC_SYMM_PLACE], expected[SYMC_SYMM_PLACE];
    struct spot spot;

    if (is_beside(handle, buffer, &spot)) {
        symmcoll_status_t status =
            check_end(handle, where, what, buffer, nbytes);

        return status == SYMMCOLL_OK && !symc_symm_is_host(handle)
                   ? check_reach(handle, where, what, buffer)
                   : status;
    }
    if (spot.index == SYMC_UNKNOWN_DEVICE)
        return symc_registry_refuse(
            &handle->share->home->world->registry, where, buffer);
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected %s to be in %s, as this rank's buffer at %p, found %p in "
        "%s",
        where, what, format_expected(handle, expected),
        (void *)handle->at[handle->rank], buffer,
        symc_symm_format_place(spot.device, spot.index, found));
}
