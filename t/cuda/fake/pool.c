/* SPDX-License-Identifier: BSD-3-Clause */
/* Stream-ordered memory of the fake driver, and its pools. */
#include "t/cuda/fake/state.h"

#include <stdlib.h>

/* Returns the device of a pool; -1: unknown pool. Called with the lock. */
static int find_device(CUmemoryPool pool)
{
    CUmemoryPool made = fake.pools;

    for (int i = 0; i < fake.settings.devices; i++)
        if (pool == &fake.devices[i].pool)
            return i;
    while (made != NULL && made != pool)
        made = made->next;
    return made != NULL ? made->device : -1;
}

/* Orders a stream after the free of the memory that it may reuse. Called with
 * the lock. */
static void order_after_free(CUmemoryPool pool, CUstream stream)
{
    CUstream at = fake.streams;

    while (at != NULL && (at != pool->freed || at->id != pool->used))
        at = at->next;
    if (at != NULL && at != stream && !pool->independent &&
        stream->capture == NULL)
        fake_append_wait(stream, at);
}

/* Called with the lock. */
static CUresult allocate(
    CUdeviceptr *address, size_t nbytes, CUmemoryPool pool, CUstream handle)
{
    CUstream stream = fake_find_stream(handle);
    int device = find_device(pool);
    CUresult result;

    if (stream == NULL || device < 0)
        return CUDA_ERROR_INVALID_VALUE;
    /* The memory exists before the stream reaches the allocation. */
    result = fake_allocate(address, nbytes, device);
    if (result != CUDA_SUCCESS)
        return result;
    fake_find_range(*address)->pool = pool;
    order_after_free(pool, stream);
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuMemAllocAsync(
    CUdeviceptr *address, size_t nbytes, CUstream stream)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock_handles(stream, NULL);
    result = allocate(
        address, nbytes, &fake.devices[fake_current()->device].pool, stream);
    fake_unlock();
    return result;
}

FAKE_API CUresult cuMemAllocFromPoolAsync(
    CUdeviceptr *address, size_t nbytes, CUmemoryPool pool, CUstream stream)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock_handles(stream, NULL);
    result = allocate(address, nbytes, pool, stream);
    fake_unlock();
    return result;
}

static void CUDA_CB free_later(void *at)
{
    fake_lock();
    (void)fake_deallocate((CUdeviceptr)(uintptr_t)at, false);
    fake_unlock();
}

FAKE_API CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    const struct fake_work work = {.kind = FAKE_CALL,
        .to = (void *)(uintptr_t)address,
        .call = free_later};
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);
    const struct fake_range *range;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock_handles(stream, NULL);
    range = fake_find_range(address);
    result = range != NULL ? fake_enqueue(stream, &work)
                           : fake_refuse_free((void *)(uintptr_t)address,
                                 CUDA_ERROR_INVALID_VALUE);
    if (result == CUDA_SUCCESS && range->pool != NULL) {
        range->pool->freed = fake_find_stream(stream);
        range->pool->used = range->pool->freed->id;
    }
    fake_unlock();
    return result;
}

/* ---- pools ---- */

FAKE_API CUresult cuMemPoolCreate(
    CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);

    if (result != CUDA_SUCCESS)
        return result;
    if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        properties->location.id < 0 ||
        properties->location.id >= fake.settings.devices)
        return CUDA_ERROR_INVALID_VALUE;
    fake_lock();
    *pool = fake_alloc(sizeof(**pool));
    (*pool)->device = properties->location.id;
    (*pool)->next = fake.pools;
    fake.pools = *pool;
    fake_unlock();
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);
    CUmemoryPool *at = &fake.pools;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    while (*at != NULL && *at != pool)
        at = &(*at)->next;
    if (*at != NULL)
        *at = pool->next;
    else
        result = fake_refuse_free(pool, CUDA_ERROR_INVALID_VALUE);
    fake_unlock();
    if (result == CUDA_SUCCESS)
        free(pool);
    return result;
}

FAKE_API CUresult cuMemPoolSetAttribute(
    CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    if (find_device(pool) < 0 ||
        attribute != CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
        result = CUDA_ERROR_INVALID_VALUE;
    else
        pool->independent = *(const int *)value == 0;
    fake_unlock();
    return result;
}

/* ---- access of devices ---- */

static bool is_device(const CUmemLocation *location)
{
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id >= 0 &&
           location->id < fake.settings.devices;
}

/* Sets access of other devices. A pool's own device always has access and
 * keeps it. */
FAKE_API CUresult cuMemPoolSetAccess(
    CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    if (find_device(pool) < 0)
        result = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        const uint32_t bit = UINT32_C(1) << (unsigned int)map[i].location.id;

        if (!is_device(&map[i].location) ||
            (map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
                map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE))
            result = CUDA_ERROR_INVALID_VALUE;
        else if (map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            pool->readers |= bit;
        else
            pool->readers &= ~bit;
    }
    fake_unlock();
    return result;
}

FAKE_API CUresult cuMemPoolGetAccess(
    CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    if (find_device(pool) < 0 || !is_device(location))
        result = CUDA_ERROR_INVALID_VALUE;
    else if (location->id == find_device(pool) ||
             (pool->readers >> (unsigned int)location->id & 1) != 0)
        *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    else
        *flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    fake_unlock();
    return result;
}

FAKE_API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);

    if (result != CUDA_SUCCESS)
        return result;
    if (device < 0 || device >= fake.settings.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    *pool = &fake.devices[device].pool;
    return CUDA_SUCCESS;
}
