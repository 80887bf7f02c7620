/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the fake driver in the order of a stream: of a device's default pool. */
#include "t/cuda/fake/state.h"

FAKE_API CUresult cuMemAllocAsync(
    CUdeviceptr *address, size_t nbytes, CUstream stream)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);

    (void)stream; /* it is there before anybody may use it */
    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    result = fake_allocate(address, nbytes, fake_current()->device);
    if (result == CUDA_SUCCESS)
        fake_find_range(*address)->pooled = true;
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

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    result = fake_find_range(address) != NULL ? fake_enqueue(stream, &work)
                                              : CUDA_ERROR_INVALID_VALUE;
    fake_unlock();
    return result;
}

/* ---- which devices have access ---- */

/* The device whose pool it is; -1: none. */
static int find_device(CUmemoryPool pool)
{
    for (int i = 0; i < fake.settings.devices; i++)
        if (pool == &fake.devices[i].pool)
            return i;
    return -1;
}

static bool is_device(const CUmemLocation *location)
{
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id >= 0 &&
           location->id < fake.settings.devices;
}

/* Its own device has access in any case, and keeps it. */
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
