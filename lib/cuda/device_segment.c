/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The segments of a group in device memory: physical memory of each member,
 * exchanged by descriptor between processes and by its handle between threads,
 * and mapped by all of them in one row of addresses.
 *
 * A mapping keeps what it maps, so each member closes its own ones whenever it
 * likes, whatever the others still do.
 */
#include "cuda/device_group.h"

#include <unistd.h>

CUmemAllocationProp symc_cuda_segment_properties(
    const struct symc_cuda_group *group)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = group->threads
                                    ? CU_MEM_HANDLE_TYPE_NONE
                                    : CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {
            .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = group->context.device}};
}

/* ---- this rank's memory ---- */

/* What has been mapped stays. */
static void release(
    struct symc_cuda_segment *segment, const struct symc_cuda *cuda)
{
    if (segment->created)
        cuda->mem_release(segment->handle);
    segment->created = false;
}

/* Kernels find nothing there: no signal, and no packet. */
static symmcoll_status_t clear(struct symc_cuda_group *group)
{
    CUresult result = group->cuda->memset_d32_async(
        symc_cuda_segment_at(&group->segment, group->rank), 0,
        group->staging / sizeof(uint32_t), group->order.own);

    if (result == CUDA_SUCCESS)
        result = group->cuda->stream_synchronize(group->order.own);
    return result == CUDA_SUCCESS
               ? SYMMCOLL_OK
               : symc_cuda_group_fail(group, result, "clearing of a segment");
}

static symmcoll_status_t map(struct symc_cuda_group *group, int rank,
    CUmemGenericAllocationHandle handle)
{
    struct symc_cuda_segment *segment = &group->segment;
    CUdeviceptr at = symc_cuda_segment_at(segment, rank);
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
                                  .id = group->context.device},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = group->cuda->mem_map(at, segment->stride, 0, handle, 0);

    if (result != CUDA_SUCCESS)
        return symc_cuda_group_fail(group, result,
            "cuMemMap of rank %d's segment", symc_cuda_world_rank(group, rank));
    segment->mapped |= UINT64_C(1) << rank;
    result = group->cuda->mem_set_access(at, segment->stride, &access, 1);
    return result == CUDA_SUCCESS ? SYMMCOLL_OK
                                  : symc_cuda_group_fail(group, result,
                                        "cuMemSetAccess to rank %d's segment",
                                        symc_cuda_world_rank(group, rank));
}

/* Create and map it, and reserve addresses for all. */
static symmcoll_status_t create(struct symc_cuda_group *group)
{
    struct symc_cuda_segment *segment = &group->segment;
    CUmemAllocationProp properties = symc_cuda_segment_properties(group);
    size_t all = segment->stride * (size_t)group->size;
    char text[32];
    symmcoll_status_t status;
    CUresult result = group->cuda->mem_create(
        &segment->handle, segment->stride, &properties, 0);

    if (result != CUDA_SUCCESS)
        return symc_cuda_group_fail(group, result, "cuMemCreate of %s",
            symc_cuda_format_nbytes(segment->stride, text));
    segment->created = true;
    result = group->cuda->mem_address_reserve(&segment->base, all, 0, 0, 0);
    if (result != CUDA_SUCCESS) {
        segment->base = 0;
        return symc_cuda_group_fail(group, result, "cuMemAddressReserve of %s",
            symc_cuda_format_nbytes(all, text));
    }
    status = map(group, group->rank, segment->handle);
    return status == SYMMCOLL_OK ? clear(group) : status;
}

/* ---- that of the others ---- */

static symmcoll_status_t map_descriptor(
    struct symc_cuda_group *group, int rank, int fd)
{
    CUmemGenericAllocationHandle handle;
    symmcoll_status_t status;
    CUresult result = group->cuda->mem_import_from_shareable_handle(&handle,
        (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);

    if (result != CUDA_SUCCESS)
        return symc_cuda_group_fail(group, result,
            "cuMemImportFromShareableHandle of rank %d's segment",
            symc_cuda_world_rank(group, rank));
    status = map(group, rank, handle);
    group->cuda->mem_release(handle); /* the mapping has its own */
    return status;
}

/* What the members have told, of which this rank has its own. */
static symmcoll_status_t map_others(struct symc_cuda_group *group,
    const CUmemGenericAllocationHandle *handles, const int *fds)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int r = 0; r < group->size && status == SYMMCOLL_OK; r++) {
        if (r != group->rank)
            status = group->threads ? map(group, r, handles[r])
                                    : map_descriptor(group, r, fds[r]);
    }
    return status;
}

/* Of threads handles are good as they are. */
static symmcoll_status_t exchange(struct symc_cuda_group *group,
    CUmemGenericAllocationHandle *handles, int *fds)
{
    const struct symc_core *core = group->core;
    symmcoll_status_t status;
    int fd = -1;
    CUresult result;

    if (group->threads)
        return core->gather(core->group, &group->segment.handle, handles,
            sizeof(group->segment.handle));
    result = group->cuda->mem_export_to_shareable_handle(&fd,
        group->segment.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (result != CUDA_SUCCESS)
        return symc_cuda_group_fail(group, result,
            "cuMemExportToShareableHandle of this rank's segment");
    status = core->exchange(core->group, fd, fds);
    close(fd);
    return status;
}

/* Nobody releases what others still map: all wait until all have mapped, or
 * failed to; who has failed says so after that. */
static symmcoll_status_t await_all(
    const struct symc_cuda_group *group, symmcoll_status_t own)
{
    const struct symc_core *core = group->core;
    uint64_t mine = 0, all[SYMC_KERNEL_RANKS];
    symmcoll_status_t status =
        core->gather(core->group, &mine, all, sizeof(mine));

    return own != SYMMCOLL_OK ? own : status;
}

/* ---- opening and closing ---- */

symmcoll_status_t symc_cuda_segment_open(struct symc_cuda_group *group)
{
    CUmemGenericAllocationHandle handles[SYMC_KERNEL_RANKS] = {0};
    int fds[SYMC_KERNEL_RANKS] = {0};
    symmcoll_status_t status = create(group);

    if (status == SYMMCOLL_OK)
        status = exchange(group, handles, fds);
    if (status != SYMMCOLL_OK)
        return status;
    status = map_others(group, handles, fds);
    for (int r = 0; r < group->size && !group->threads; r++) {
        if (fds[r] >= 0)
            close(fds[r]);
    }
    status = await_all(group, status);
    if (status == SYMMCOLL_OK)
        release(&group->segment, group->cuda);
    return status;
}

void symc_cuda_segment_close(struct symc_cuda_group *group)
{
    struct symc_cuda_segment *segment = &group->segment;

    for (int r = 0; r < group->size; r++) {
        if ((segment->mapped >> r & 1) != 0)
            group->cuda->mem_unmap(
                symc_cuda_segment_at(segment, r), segment->stride);
    }
    if (segment->base != 0)
        group->cuda->mem_address_free(
            segment->base, segment->stride * (size_t)group->size);
    release(segment, group->cuda);
    *segment = (struct symc_cuda_segment){.base = 0};
}
