/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How members map each other's memory: processes send descriptors, threads tell
 * the driver's handles.  Each member makes the same collective calls, whatever
 * fails in between, so that no other waits for it.
 */
#include "cuda/row.h"
#include "cuda/device_group.h"
#include "cuda/memory.h"

#include <stdio.h>
#include <unistd.h>

/* What each member tells. */
struct told {
    CUmemGenericAllocationHandle handle; /* of threads */
    size_t nbytes;
};

/* ---- mapping ---- */

static const char *format_whose(const struct symc_cuda_group *group, int rank,
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
    char whose[64];
    symmcoll_status_t status = symc_cuda_map(&group->context, group->core->fail,
        symc_cuda_row_at(row, rank), nbytes, handle,
        format_whose(group, rank, what, whose, sizeof(whose)));

    if (status == SYMMCOLL_OK)
        row->mapped[rank] = nbytes;
    return status;
}

static symmcoll_status_t map_descriptor(const struct symc_cuda_group *group,
    struct symc_cuda_row *row, int rank, int fd, size_t nbytes,
    const char *what)
{
    CUmemGenericAllocationHandle handle;
    char whose[64];
    symmcoll_status_t status;
    CUresult result = group->cuda->mem_import_from_shareable_handle(&handle,
        (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);

    if (result != CUDA_SUCCESS)
        return symc_cuda_group_fail(group, result,
            "cuMemImportFromShareableHandle of %s",
            format_whose(group, rank, what, whose, sizeof(whose)));
    status = map(group, row, rank, handle, nbytes, what);
    group->cuda->mem_release(handle); /* the mapping has its own */
    return status;
}

/* fds: NULL of threads. */
static symmcoll_status_t map_others(const struct symc_cuda_group *group,
    struct symc_cuda_row *row, const struct told *all, const int *fds,
    const char *what)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int r = 0; r < group->size && status == SYMMCOLL_OK; r++) {
        if (r == group->rank)
            continue;
        status =
            fds == NULL
                ? map(group, row, r, all[r].handle, all[r].nbytes, what)
                : map_descriptor(group, row, r, fds[r], all[r].nbytes, what);
    }
    return status;
}

/* Addresses for all, and this rank's memory there. */
static symmcoll_status_t reserve(const struct symc_cuda_group *group,
    struct symc_cuda_row *row, const struct told *all, const char *what)
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
    struct symc_cuda_row *row, const struct told *all, int fd, const char *what)
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
    char whose[64];
    CUresult result = group->cuda->mem_export_to_shareable_handle(
        fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);

    return result == CUDA_SUCCESS ? SYMMCOLL_OK
                                  : symc_cuda_group_fail(group, result,
                                        "cuMemExportToShareableHandle of %s",
                                        format_whose(group, group->rank, what,
                                            whose, sizeof(whose)));
}

/* ---- opening and closing ---- */

/* Descriptors keep what they are of, the handles of threads do not: nobody releases
 * what others still map, and all wait until all have mapped, or failed to; who has
 * failed says so after that. */
static symmcoll_status_t map_told(const struct symc_cuda_group *group,
    struct symc_cuda_row *row, const struct told *all, const char *what)
{
    const struct symc_core *core = group->core;
    unsigned char mine = 0, ended[SYMC_KERNEL_RANKS];
    symmcoll_status_t own = reserve(group, row, all, what), status;

    if (own == SYMMCOLL_OK)
        own = map_others(group, row, all, NULL, what);
    status = core->gather(core->group, &mine, ended, sizeof(mine));
    return status != SYMMCOLL_OK ? status : own;
}

symmcoll_status_t symc_cuda_row_open(const struct symc_cuda_group *group,
    CUmemGenericAllocationHandle handle, size_t nbytes, const char *what,
    struct symc_cuda_row *row)
{
    const struct symc_core *core = group->core;
    struct told all[SYMC_KERNEL_RANKS], mine = {handle, nbytes};
    int fd = -1;
    symmcoll_status_t status = SYMMCOLL_OK;

    *row = (struct symc_cuda_row){.base = 0};
    if (!group->threads)
        status = export(group, handle, what, &fd);
    if (status != SYMMCOLL_OK)
        return status; /* the others learn it in their next call */
    status = core->gather(core->group, &mine, all, sizeof(mine));
    if (status == SYMMCOLL_OK)
        status = group->threads ? map_told(group, row, all, what)
                                : map_exchanged(group, row, all, fd, what);
    if (fd >= 0)
        close(fd);
    return status;
}

void symc_cuda_row_close(
    const struct symc_cuda *cuda, struct symc_cuda_row *row)
{
    for (int r = 0; r < row->size; r++) {
        if (row->mapped[r] != 0)
            (void)cuda->mem_unmap(symc_cuda_row_at(row, r), row->mapped[r]);
    }
    if (row->base != 0)
        (void)cuda->mem_address_free(
            row->base, row->stride * (size_t)row->size);
    *row = (struct symc_cuda_row){.base = 0};
}
