/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory that the program has allocated.  A handle is retained of memory mapped
 * with cuMemMap(), so that it lives until its last user releases it.  Memory of
 * cuMemAlloc() lives until the program frees it: all members must release it before.
 */
#include "cuda/find.h"
#include "cuda/memory.h"

#include <string.h>

#define ALIGNMENT 16 /* bytes; kernels check it for one rank's address only */

/* Checks that the address is in memory of the requested device, and aligned. */
static symmcoll_status_t check_device(
    const struct symc_memory_request *request, const void *data)
{
    int16_t device = SYMC_NO_DEVICE;
    bool is_device = symc_cuda_find(data, &device);

    if (!is_device)
        return request->fail(SYMMCOLL_ERR_UNSUPPORTED,
            "expected memory of device %d, found %p, which is of no device",
            request->device, data);
    if (device == SYMC_UNKNOWN_DEVICE)
        return symc_cuda_refuse(request->fail, "memory of a device", data);
    if (device == SYMC_NO_DEVICE)
        return request->fail(SYMMCOLL_ERR_INVALID,
            "expected memory of device %d, found %p, which no allocation has",
            request->device, data);
    if (device != request->device)
        return request->fail(SYMMCOLL_ERR_INVALID,
            "expected memory of device %d, found %p of device %d",
            request->device, data, device);
    if ((uintptr_t)data % ALIGNMENT != 0)
        return request->fail(SYMMCOLL_ERR_INVALID,
            "expected memory at a multiple of %d, found %p", ALIGNMENT, data);
    return SYMMCOLL_OK;
}

/* Finds the allocation around the address, and checks that the request fits in it. */
static symmcoll_status_t find_allocation(
    const struct symc_memory_request *request, struct symc_cuda_memory *memory,
    CUdeviceptr *begin, size_t *nbytes)
{
    const struct symc_cuda *cuda = memory->context.cuda;
    CUresult result = cuda->mem_get_address_range(begin, nbytes, memory->data);

    if (result != CUDA_SUCCESS)
        return symc_cuda_fail(cuda, request->fail, result, request->device,
            "cuMemGetAddressRange of %p", (void *)(uintptr_t)memory->data);
    memory->offset = memory->data - *begin;
    if (request->nbytes > *nbytes - memory->offset)
        return request->fail(SYMMCOLL_ERR_INVALID,
            "expected %zu bytes at %p, found %zu: the allocation there has %zu "
            "bytes from %p on",
            request->nbytes, (void *)(uintptr_t)memory->data,
            *nbytes - memory->offset, *nbytes, (void *)(uintptr_t)*begin);
    return SYMMCOLL_OK;
}

/* Checks that other processes can map the memory, if they have to. */
static symmcoll_status_t check_physical(
    const struct symc_memory_request *request, struct symc_cuda_memory *memory)
{
    const struct symc_cuda *cuda = memory->context.cuda;
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_INVALID};
    CUresult result = cuda->mem_get_allocation_properties_from_handle(
        &properties, memory->physical.handle);

    if (result != CUDA_SUCCESS)
        return symc_cuda_fail(cuda, request->fail, result, request->device,
            "cuMemGetAllocationPropertiesFromHandle of %p",
            (void *)(uintptr_t)memory->data);
    if (request->threads || (properties.requestedHandleTypes &
                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0)
        return SYMMCOLL_OK;
    return request->fail(SYMMCOLL_ERR_UNSUPPORTED,
        "expected memory that cuMemCreate() made with "
        "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, which other processes can "
        "map; found %p with handle types 0x%x",
        (void *)(uintptr_t)memory->data,
        (unsigned int)properties.requestedHandleTypes);
}

/* Finds the pool of memory of cuMemAllocAsync() or cuMemAllocFromPoolAsync(). */
static symmcoll_status_t find_pool(
    const struct symc_memory_request *request, struct symc_cuda_memory *memory)
{
    const struct symc_cuda *cuda = memory->context.cuda;
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
    void *value = (void *)&memory->pool;
    CUresult result =
        cuda->pointer_get_attributes(1, &attribute, &value, memory->data);

    return result == CUDA_SUCCESS
               ? SYMMCOLL_OK
               : symc_cuda_fail(cuda, request->fail, result, request->device,
                     "cuPointerGetAttributes of %p",
                     (void *)(uintptr_t)memory->data);
}

static symmcoll_status_t take_legacy(const struct symc_memory_request *request,
    struct symc_cuda_memory *memory, CUdeviceptr begin)
{
    const struct symc_cuda *cuda = memory->context.cuda;
    symmcoll_status_t status = find_pool(request, memory);
    CUresult result;

    memory->legacy = true;
    if (status != SYMMCOLL_OK || request->threads)
        return status;
    if (memory->pool != NULL)
        return request->fail(SYMMCOLL_ERR_UNSUPPORTED,
            "expected memory of cuMemAlloc() or cuMemMap(), which other "
            "processes can map; found %p of a memory pool (cuMemAllocAsync)",
            (void *)(uintptr_t)memory->data);
    result = cuda->ipc_get_mem_handle(&memory->ipc, begin);
    return result == CUDA_SUCCESS
               ? SYMMCOLL_OK
               : symc_cuda_fail(cuda, request->fail, result, request->device,
                     "cuIpcGetMemHandle of %p, which other processes are to "
                     "map",
                     (void *)(uintptr_t)begin);
}

/* Takes over memory that the program has allocated.  The context must be current. */
static symmcoll_status_t take(
    const struct symc_memory_request *request, struct symc_cuda_memory *memory)
{
    void *data = (void *)(uintptr_t)memory->data;
    CUdeviceptr begin = 0;
    size_t nbytes = 0;
    symmcoll_status_t status = check_device(request, data);

    if (status == SYMMCOLL_OK)
        status = find_allocation(request, memory, &begin, &nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    if (memory->context.cuda->mem_retain_allocation_handle(
            &memory->physical.handle, data) != CUDA_SUCCESS)
        return take_legacy(request, memory, begin);
    memory->physical.nbytes = nbytes;
    return check_physical(request, memory);
}

symmcoll_status_t symc_cuda_memory_import(
    const struct symc_memory_request *request, void *data, void **memory)
{
    struct symc_memory_request there = *request;
    struct symc_cuda_memory *made;
    struct symc_cuda_entered entered;
    symmcoll_status_t status;

    there.buffer = data;
    status = symc_cuda_memory_begin(&there, &made, &entered);
    if (status != SYMMCOLL_OK)
        return status;
    made->data = (CUdeviceptr)(uintptr_t)data;
    status = symc_cuda_memory_end(take(&there, made), made, &entered);
    if (status == SYMMCOLL_OK)
        *memory = made;
    return status;
}
