/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An allocation of cuMemAlloc() in another process is opened as a whole by legacy IPC; a
 * context gets the same address each time.  An allocation of this process, including
 * memory of a pool, which other processes cannot open, is used at its own address.
 */
#include "cuda/places.h"
#include "cuda/device_group.h"

/* ---- allocations ---- */

/* Grants this device access to a pool.  Peer access between contexts does not cover
 * pools; the access covers all memory of the pool, as long as the pool exists. */
static symmcoll_status_t reach_pool(const struct symc_cuda_group *group,
    int rank, const struct symc_cuda_allocation *allocation)
{
    const CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
            .id = group->context.device},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result =
        group->cuda->mem_pool_set_access(allocation->pool, &access, 1);

    return result == CUDA_SUCCESS
               ? SYMMCOLL_OK
               : symc_cuda_group_fail(group, result,
                     "cuMemPoolSetAccess to the pool of rank %d's memory",
                     symc_cuda_world_rank(group, rank));
}

/* Grants this context access to another thread's allocation. */
static symmcoll_status_t reach(const struct symc_cuda_group *group, int rank,
    const struct symc_cuda_allocation *allocation)
{
    CUresult result;

    if (allocation->context == group->context.context)
        return SYMMCOLL_OK;
    if (allocation->pool != NULL)
        return reach_pool(group, rank, allocation);
    result = group->cuda->ctx_enable_peer_access(allocation->context, 0);
    return result == CUDA_SUCCESS ||
                   result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
               ? SYMMCOLL_OK
               : symc_cuda_group_fail(group, result,
                     "cuCtxEnablePeerAccess to rank %d's device",
                     symc_cuda_world_rank(group, rank));
}

static symmcoll_status_t open_ipc(const struct symc_cuda_group *group, int rank,
    const struct symc_cuda_allocation *allocation, CUdeviceptr *opened)
{
    CUresult result = group->cuda->ipc_open_mem_handle(
        opened, allocation->ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);

    if (result == CUDA_SUCCESS)
        return SYMMCOLL_OK;
    *opened = 0;
    return symc_cuda_group_fail(group, result,
        "cuIpcOpenMemHandle of rank %d's memory",
        symc_cuda_world_rank(group, rank));
}

symmcoll_status_t symc_cuda_places_open(const struct symc_cuda_group *group,
    const struct symc_cuda_allocation *const *all, void **at,
    struct symc_cuda_places *places)
{
    symmcoll_status_t status = SYMMCOLL_OK;
    CUresult result = symc_cuda_context_copy(&group->context, &places->context);

    if (result != CUDA_SUCCESS)
        return symc_cuda_group_fail(group, result, "cuDevicePrimaryCtxRetain");
    for (int r = 0; r < group->size && status == SYMMCOLL_OK; r++) {
        at[r] = (void *)(uintptr_t)all[r]->data;
        if (r == group->rank)
            continue;
        if (group->threads) {
            status = reach(group, r, all[r]);
            continue;
        }
        status = open_ipc(group, r, all[r], &places->opened[r]);
        at[r] = (void *)(uintptr_t)(places->opened[r] + all[r]->offset);
    }
    return status;
}

/* ---- the table ---- */

struct symc_cuda_called symc_cuda_write(const struct symc_cuda *cuda,
    CUdeviceptr to, const void *from, size_t nbytes)
{
    CUstream stream = NULL;
    struct symc_cuda_called called = symc_cuda_called(
        "cuStreamCreateWithPriority",
        cuda->stream_create_with_priority(&stream, CU_STREAM_NON_BLOCKING, 0));

    if (called.result != CUDA_SUCCESS)
        return called;
    called = symc_cuda_called("cuMemcpyAsync",
        cuda->memcpy_async(to, (CUdeviceptr)(uintptr_t)from, nbytes, stream));
    if (called.result == CUDA_SUCCESS)
        called = symc_cuda_called(
            "cuStreamSynchronize", cuda->stream_synchronize(stream));
    (void)cuda->stream_destroy(stream);
    return called;
}

symmcoll_status_t symc_cuda_places_write(const struct symc_cuda_group *group,
    void *const *at, struct symc_cuda_places *places)
{
    static const char what[] = "a table of addresses";
    const struct symc_core *core = group->core;
    size_t nbytes = sizeof(*at) * (size_t)group->size;
    struct symc_cuda_called called;
    symmcoll_status_t status = symc_cuda_physical_create(&group->context,
        core->fail, SYMC_CUDA_SHARE_THREADS, nbytes, what, &places->table);

    if (status == SYMMCOLL_OK)
        status = symc_cuda_physical_map(
            &group->context, core->fail, what, &places->table);
    if (status != SYMMCOLL_OK)
        return status;
    called = symc_cuda_write(group->cuda, places->table.at, at, nbytes);
    return called.result == CUDA_SUCCESS
               ? SYMMCOLL_OK
               : symc_cuda_group_fail(
                     group, called.result, "%s to write %s", called.name, what);
}

/* ---- closing ---- */

/* Closes the opened allocations.  If the context is gone, so is all that was opened in
 * it. */
static void close_opened(
    struct symc_cuda_log *log, struct symc_cuda_places *places)
{
    struct symc_cuda_entered entered;

    if (places->context.cuda == NULL ||
        symc_cuda_enter(&places->context, &entered).result != CUDA_SUCCESS)
        return;
    for (int r = 0; r < SYMC_KERNEL_RANKS; r++) {
        if (places->opened[r] != 0)
            symc_cuda_released(log, "cuIpcCloseMemHandle",
                log->cuda->ipc_close_mem_handle(places->opened[r]));
    }
    symc_cuda_leave(&entered);
}

void symc_cuda_places_close(
    struct symc_cuda_log *log, struct symc_cuda_places *places)
{
    close_opened(log, places);
    symc_cuda_context_close(&places->context);
    symc_cuda_physical_free(log, &places->table);
}
