/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an address is, of whatever memory of the fake driver.
 */
#include "t/cuda/fake/physical.h"

FAKE_API CUresult cuMemGetAddressRange(
    CUdeviceptr *begin, size_t *nbytes, CUdeviceptr address)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);
    struct fake_range *range;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    range = fake_find_range(address);
    if (range == NULL) {
        result = CUDA_ERROR_NOT_FOUND;
    } else {
        if (begin != NULL)
            *begin = range->begin;
        if (nbytes != NULL)
            *nbytes = range->nbytes;
    }
    fake_unlock();
    return result;
}

static void read_attribute(
    const struct fake_range *range, CUpointer_attribute attribute, void *value)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned int *)value = range != NULL ? range->type : 0;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = range != NULL ? range->device : -2;
        break;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)value = range != NULL ? range->context : NULL;
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned int *)value = range != NULL && range->managed;
        break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)value = range != NULL ? range->pool : NULL;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)value = range == NULL          ? 0
                                : range->reserved != 0 ? range->reserved
                                                       : range->begin;
        break;
    default:
        fake_die("an attribute of pointers that is not known");
    }
}

FAKE_API CUresult cuPointerGetAttributes(unsigned int n,
    CUpointer_attribute *attributes, void **values, CUdeviceptr address)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);
    const CUcontext context = fake_current();

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    if (context != NULL && context->broken != CUDA_SUCCESS)
        result = context->broken;
    for (unsigned int i = 0; i < n && result == CUDA_SUCCESS; i++)
        read_attribute(fake_find_range(address), attributes[i], values[i]);
    fake_unlock();
    return result;
}
