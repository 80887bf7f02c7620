/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast objects of the fake driver: their making alone; an address of one is
 * memory of its own. */
#include "t/cuda/fake/physical.h"

static bool is_possible(const CUmulticastObjectProp *properties)
{
    return fake.settings.multicast && properties->numDevices > 0 &&
           properties->size > 0 &&
           properties->size % fake.settings.granularity == 0;
}

FAKE_API CUresult cuMulticastGetGranularity(size_t *granularity,
    const CUmulticastObjectProp *properties,
    CUmulticastGranularity_flags option)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);

    (void)properties;
    (void)option;
    if (result == CUDA_SUCCESS && !fake.settings.multicast)
        result = CUDA_ERROR_NOT_SUPPORTED;
    if (result == CUDA_SUCCESS)
        *granularity = fake.settings.granularity;
    return result;
}

FAKE_API CUresult cuMulticastCreate(CUmemGenericAllocationHandle *handle,
    const CUmulticastObjectProp *properties)
{
    struct fake_physical made = {.multicast = true};
    CUresult result = fake_enter(__func__, FAKE_INIT | FAKE_UNSAFE);

    if (result != CUDA_SUCCESS)
        return result;
    if (!is_possible(properties))
        return fake.settings.multicast ? CUDA_ERROR_INVALID_VALUE
                                       : CUDA_ERROR_NOT_SUPPORTED;
    made.nbytes = properties->size;
    made.wanted = properties->numDevices;
    made.properties.requestedHandleTypes =
        (CUmemAllocationHandleType)properties->handleTypes;
    made.fd = fake_make_file(0, made.nbytes);
    if (made.fd < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    fake_lock();
    *handle = (uintptr_t)fake_add_physical(&made);
    fake_unlock();
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuMulticastAddDevice(
    CUmemGenericAllocationHandle handle, CUdevice device)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);
    struct fake_physical *object;

    if (result != CUDA_SUCCESS)
        return result;
    if (device < 0 || device >= fake.settings.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    fake_lock();
    object = fake_find_physical(handle);
    if (object == NULL || (!object->multicast && !object->imported))
        result = CUDA_ERROR_INVALID_VALUE;
    else
        object->added++;
    fake_unlock();
    return result;
}

FAKE_API CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle,
    size_t at, CUmemGenericAllocationHandle memory, size_t from, size_t nbytes,
    unsigned long long flags)
{
    CUresult result = fake_enter(__func__, FAKE_INIT | FAKE_UNSAFE);
    struct fake_physical *object, *bound;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    object = fake_find_physical(handle);
    bound = fake_find_physical(memory);
    if (flags != 0 || object == NULL || bound == NULL || object->added == 0 ||
        at + nbytes > object->nbytes || from + nbytes > bound->nbytes)
        result = CUDA_ERROR_INVALID_VALUE;
    fake_unlock();
    return result;
}

FAKE_API CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle,
    CUdevice device, size_t at, size_t nbytes)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);
    struct fake_physical *object;

    (void)device;
    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    object = fake_find_physical(handle);
    if (object == NULL || at + nbytes > object->nbytes)
        result = CUDA_ERROR_INVALID_VALUE;
    fake_unlock();
    return result;
}
