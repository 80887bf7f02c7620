/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Members map each other's memory.  Processes send file descriptors, or fabric handles if
 * all members have them; threads share the driver's handles.  Each member makes the same
 * collective calls even after a failure, so that no other member waits for it.
 */
#include "cuda/row.h"
#include "cuda/device_group.h"
#include "cuda/memory.h"

#include <stdio.h>
#include <unistd.h>

/* The data that each member contributes to the gather. */
struct offer {
    CUmemGenericAllocationHandle handle; /* between threads */
    size_t nbytes;
    uint64_t has_fabric; /* fabric is valid */
    CUmemFabricHandle fabric;
};

/* ---- mapping ---- */

static const char *format_owner(const struct symc_cuda_group *group, int rank,
    const char *what, char *buffer, size_t nbytes)
{
    (void)snprintf(buffer, nbytes, "rank %d's %s",
        symc_cuda_world_rank(group, rank), what);
    return buffer;
}

static symmcoll_status_t map(const struct symc_cuda_group *group,
    struct symc_cuda_row *row, int rank, CUmemGenericAllocationHandle handle,
    size_t nbytes, const char *what)
{
    char owner[64];
    symmcoll_status_t status = symc_cuda_map(&group->context, group->core->fail,
        symc_cuda_row_at(row, rank), nbytes, handle,
        format_owner(group, rank, what, owner, sizeof(owner)));

    if (status == SYMMCOLL_OK)
        row->mapped[rank] = nbytes;
    return status;
}

/* Imports and maps a rank's memory.  from: a descriptor or a fabric handle. */
static symmcoll_status_t map_imported(const struct symc_cuda_group *group,
    struct symc_cuda_row *row, int rank, void *from,
    CUmemAllocationHandleType type, size_t nbytes, const char *what)
{
    CUmemGenericAllocationHandle handle;
    char owner[64];
    symmcoll_status_t status;
    CUresult result =
        group->cuda->mem_import_from_shareable_handle(&handle, from, type);

    if (result != CUDA_SUCCESS)
        return symc_cuda_group_fail(group, result,
            "cuMemImportFromShareableHandle of %s",
            format_owner(group, rank, what, owner, sizeof(owner)));
    status = map(group, row, rank, handle, nbytes, what);
    result = group->cuda->mem_release(handle); /* the mapping keeps its own */
    return status == SYMMCOLL_OK && result != CUDA_SUCCESS
               ? symc_cuda_group_fail(group, result, "cuMemRelease of %s",
                     format_owner(group, rank, what, owner, sizeof(owner)))
               : status;
}

static symmcoll_status_t map_other(const struct symc_cuda_group *group,
    struct symc_cuda_row *row, int rank, struct offer *offer, const int *fds,
    const char *what)
{
    if (group->threads)
        return map(group, row, rank, offer->handle, offer->nbytes, what);
    if (fds == NULL)
        return map_imported(group, row, rank, &offer->fabric,
            CU_MEM_HANDLE_TYPE_FABRIC, offer->nbytes, what);
    return map_imported(group, row, rank, (void *)(intptr_t)fds[rank],
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, offer->nbytes, what);
}

/* Maps the other ranks' memory.  fds: NULL between threads, and if all members have
 * fabric handles. */
static symmcoll_status_t map_others(const struct symc_cuda_group *group,
    struct symc_cuda_row *row, struct offer *all, const int *fds,
    const char *what)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int r = 0; r < group->size && status == SYMMCOLL_OK; r++) {
        if (r != group->rank)
            status = map_other(group, row, r, &all[r], fds, what);
    }
    return status;
}

/* Reserves addresses for all members, and maps this rank's memory there. */
static symmcoll_status_t reserve(const struct symc_cuda_group *group,
    struct symc_cuda_row *row, const struct offer *all, const char *what)
{
    size_t most = 0;
    char text[32];
    CUresult result;

    for (int r = 0; r < group->size; r++)
        most = all[r].nbytes > most ? all[r].nbytes : most;
    row->size = group->size;
    row->stride = most;
    result = group->cuda->mem_address_reserve(
        &row->base, most * (size_t)group->size, 0, 0, 0);
    if (result != CUDA_SUCCESS) {
        row->base = 0;
        return symc_cuda_group_fail(group, result,
            "cuMemAddressReserve of %s for each rank's %s",
            symc_cuda_format_nbytes(most, text), what);
    }
    return map(group, row, group->rank, all[group->rank].handle,
        all[group->rank].nbytes, what);
}

/* ---- between processes ---- */

static symmcoll_status_t map_exchanged(const struct symc_cuda_group *group,
    struct symc_cuda_row *row, struct offer *all, int fd, const char *what)
{
    int fds[SYMC_KERNEL_RANKS];
    symmcoll_status_t own = reserve(group, row, all, what);
    symmcoll_status_t status =
        group->core->exchange(group->core->group, fd, fds);

    if (status != SYMMCOLL_OK)
        return status;
    if (own == SYMMCOLL_OK)
        own = map_others(group, row, all, fds, what);
    for (int r = 0; r < group->size; r++) {
        if (fds[r] >= 0)
            close(fds[r]);
    }
    return own;
}

static symmcoll_status_t export(const struct symc_cuda_group *group,
    CUmemGenericAllocationHandle handle, const char *what, int *fd)
{
    char owner[64];
    CUresult result = group->cuda->mem_export_to_shareable_handle(
        fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);

    return result == CUDA_SUCCESS ? SYMMCOLL_OK
                                  : symc_cuda_group_fail(group, result,
                                        "cuMemExportToShareableHandle of %s",
                                        format_owner(group, group->rank, what,
                                            owner, sizeof(owner)));
}

/* ---- opening and closing ---- */

/* Maps by handles that do not keep the memory alive, unlike descriptors: no member may
 * release memory that others are still mapping.  All members therefore wait here until
 * all have mapped, or failed to; a member returns its own failure after that. */
static symmcoll_status_t map_offers(const struct symc_cuda_group *group,
    struct symc_cuda_row *row, struct offer *all, const char *what)
{
    const struct symc_core *core = group->core;
    unsigned char mine = 0, ended[SYMC_KERNEL_RANKS];
    symmcoll_status_t own = reserve(group, row, all, what), status;

    if (own == SYMMCOLL_OK)
        own = map_others(group, row, all, NULL, what);
    status = core->gather(core->group, &mine, ended, sizeof(mine));
    return status != SYMMCOLL_OK ? status : own;
}

/* Exports a fabric handle and tries to import it.  If that fails, "auto" uses
 * descriptors. */
static struct symc_cuda_called export_fabric(
    const struct symc_cuda_group *group, const struct symc_cuda_physical *own,
    struct offer *mine)
{
    const struct symc_cuda *cuda = group->cuda;
    CUmemGenericAllocationHandle tried;
    struct symc_cuda_called called =
        symc_cuda_called("cuMemExportToShareableHandle",
            cuda->mem_export_to_shareable_handle(
                &mine->fabric, own->handle, CU_MEM_HANDLE_TYPE_FABRIC, 0));

    if (called.result == CUDA_SUCCESS)
        called = symc_cuda_called("cuMemImportFromShareableHandle",
            cuda->mem_import_from_shareable_handle(
                &tried, &mine->fabric, CU_MEM_HANDLE_TYPE_FABRIC));
    if (called.result == CUDA_SUCCESS)
        called = symc_cuda_called("cuMemRelease", cuda->mem_release(tried));
    mine->has_fabric = called.result == CUDA_SUCCESS;
    return called;
}

/* Exports this rank's memory: a fabric handle (mine), and a descriptor to send (fd). */
static symmcoll_status_t export_own(const struct symc_cuda_group *group,
    const struct symc_cuda_physical *own, const char *what, struct offer *mine,
    int *fd)
{
    enum symc_cuda_share share =
        symc_cuda_share_of(group->core->settings, group->threads);
    struct symc_cuda_called called = {NULL, CUDA_SUCCESS};

    if (group->threads)
        return SYMMCOLL_OK;
    if (share != SYMC_CUDA_SHARE_DESCRIPTOR &&
        (own->types & CU_MEM_HANDLE_TYPE_FABRIC) != 0)
        called = export_fabric(group, own, mine);
    if (share == SYMC_CUDA_SHARE_FABRIC && called.result != CUDA_SUCCESS)
        return symc_cuda_group_fail(group, called.result,
            "%s for a fabric handle (cuda.share) of this rank's %s",
            called.name, what);
    return export(group, own->handle, what, fd);
}

/* Finds whether all members have fabric handles, and fails if cuda.share needs them. */
static symmcoll_status_t check_fabric(const struct symc_cuda_group *group,
    const struct offer *all, bool *have_fabric)
{
    const struct symc_core *core = group->core;
    int without = 0;

    while (without < group->size && all[without].has_fabric)
        without++;
    *have_fabric = without == group->size;
    if (*have_fabric || symc_cuda_share_of(core->settings, group->threads) !=
                            SYMC_CUDA_SHARE_FABRIC)
        return SYMMCOLL_OK;
    return core->fail(SYMMCOLL_ERR_UNSUPPORTED,
        "cuda.share is fabric: expected a fabric handle of each rank's memory, "
        "found none of rank %d's",
        symc_cuda_world_rank(group, without));
}

symmcoll_status_t symc_cuda_row_open(const struct symc_cuda_group *group,
    const struct symc_cuda_physical *own, const char *what,
    struct symc_cuda_row *row)
{
    const struct symc_core *core = group->core;
    struct offer all[SYMC_KERNEL_RANKS],
        mine = {.handle = own->handle, .nbytes = own->nbytes};
    bool have_fabric = false;
    int fd = -1;
    symmcoll_status_t status = export_own(group, own, what, &mine, &fd);

    *row = (struct symc_cuda_row){.base = 0};
    if (status != SYMMCOLL_OK)
        return status; /* the others get the error from their next collective */
    status = core->gather(core->group, &mine, all, sizeof(mine));
    if (status == SYMMCOLL_OK)
        status = check_fabric(group, all, &have_fabric);
    if (status == SYMMCOLL_OK)
        status = group->threads || have_fabric
                     ? map_offers(group, row, all, what)
                     : map_exchanged(group, row, all, fd, what);
    if (fd >= 0)
        close(fd);
    return status;
}

void symc_cuda_row_close(struct symc_cuda_log *log, struct symc_cuda_row *row)
{
    const struct symc_cuda *cuda = log->cuda;

    for (int r = 0; r < row->size; r++) {
        if (row->mapped[r] != 0)
            symc_cuda_released(log, "cuMemUnmap",
                cuda->mem_unmap(symc_cuda_row_at(row, r), row->mapped[r]));
    }
    if (row->base != 0)
        symc_cuda_released(log, "cuMemAddressFree",
            cuda->mem_address_free(row->base, row->stride * (size_t)row->size));
    *row = (struct symc_cuda_row){.base = 0};
}
