/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contents of a handle: the buffer and the signal pad of every member.
 */
#include "base/dtype.h"
#include "base/tensor.h"
#include "symm_mem/symm_mem.h"

symmcoll_status_t symmcoll_symm_get_info(
    const struct symmcoll_symm *handle, struct symmcoll_symm_info *info)
{
    static const struct symmcoll_symm_info none = SYMMCOLL_SYMM_INFO_INIT;
    static const struct symc_sized kind = {.name = "info",
        .macro = "SYMMCOLL_SYMM_INFO_INIT",
        .defaults = &none,
        .nbytes = sizeof(none),
        .least = sizeof(none.size)};
    struct symmcoll_symm_info found = SYMMCOLL_SYMM_INFO_INIT;
    const struct symc_share *share;

    if (handle == NULL || info == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "symm_get_info: expected a handle and a place for what is known, "
            "found NULL");
    share = handle->share;
    found.group = handle->group;
    found.rank = handle->rank;
    found.nranks = handle->size;
    found.nbytes = handle->nbytes;
    found.offset = handle->offset;
    found.pad = handle->pad_nbytes;
    found.channels = share->channels;
    found.buffers = (void *const *)handle->at;
    found.pads = handle->pads;
    found.device = share->device;
    found.device_index = share->device_index;
    if (share->multicast != NULL)
        found.multicast = share->multicast + handle->offset;
    if (share->table != NULL) {
        found.device_starts = (void *const *)(const void *)share->table;
        found.device_pads =
            (uint32_t *const *)(const void *)share->table + share->size;
    }
    return symc_sized_write(&kind, "symm_get_info", &found, info);
}

/* Checks that the memory of a handle exists, and that a rank is a member. */
static symmcoll_status_t check(
    const struct symmcoll_symm *handle, const char *where, int rank)
{
    if (handle == NULL)
        return symc_symm_check(handle, where);
    if (handle->share->home == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a handle whose memory is there, found that its world "
            "has been finalized",
            where);
    if (!symc_world_is_mine(handle->share->home->world))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected the process that called init, found a fork of it",
            where);
    return symc_symm_check_rank(handle, where, rank);
}

symmcoll_status_t symmcoll_symm_buffer(struct symmcoll_symm *handle, int rank,
    size_t offset, size_t nbytes, void **buffer)
{
    static const char where[] = "symm_buffer";
    symmcoll_status_t status = check(handle, where, rank);

    if (status != SYMMCOLL_OK)
        return status;
    if (buffer == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a place for the address, found NULL", where);
    status = symc_symm_check_range(handle, where, offset, nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    *buffer = handle->at[rank] + offset;
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_symm_tensor(struct symmcoll_symm *handle, int rank,
    int64_t offset, struct symmcoll_tensor *tensor)
{
    static const char where[] = "symm_tensor";
    struct symmcoll_tensor view;
    size_t count, at, nbytes;
    char place[SYMC_SYMM_PLACE];
    symmcoll_status_t status = check(handle, where, rank);

    if (status != SYMMCOLL_OK)
        return status;
    if (tensor == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "%s: expected a tensor, found NULL", where);
    status = symc_tensor_read(where, tensor, 0, &view);
    if (status != SYMMCOLL_OK)
        return status;
    if (view.device != SYMMCOLL_HOST && view.device != handle->share->device)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: expected a tensor in %s, found device kind %d", where,
            symc_symm_format_place(
                handle->share->device, handle->share->device_index, place),
            (int)view.device);
    status = symc_symm_lay_out(where, &view, true, &count);
    if (status != SYMMCOLL_OK)
        return status;
    if (offset < 0 ||
        !symc_multiply(
            (size_t)offset, symc_dtype_find(view.dtype)->size, &at) ||
        !symc_multiply(count, symc_dtype_find(view.dtype)->size, &nbytes))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected an offset of 0 or more elements within %zu bytes, "
            "found %lld",
            where, handle->nbytes, (long long)offset);
    status = symc_symm_check_range(handle, where, at, nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    view.data = handle->at[rank] + at;
    view.device = handle->share->device;
    view.device_index = handle->share->device_index;
    return symc_sized_write(&symc_tensor_kind, where, &view, tensor);
}

symmcoll_status_t symmcoll_symm_pad(struct symmcoll_symm *handle, int rank,
    size_t offset, size_t count, uint32_t **pad)
{
    static const char where[] = "symm_pad";
    size_t words;
    symmcoll_status_t status = check(handle, where, rank);

    if (status == SYMMCOLL_OK && pad == NULL)
        status = symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a place for the address, found NULL", where);
    if (status != SYMMCOLL_OK)
        return status;
    words = handle->pad_nbytes / sizeof(uint32_t);
    if (offset > words || count > words - offset)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a view within the %zu words of a signal pad of %zu "
            "bytes, found %zu words from word %zu on",
            where, words, handle->pad_nbytes, count, offset);
    *pad = handle->pads[rank] + offset;
    return SYMMCOLL_OK;
}
