/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of addresses, for all kinds of memory of the fake driver. */
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

#define BLOCK ((uintptr_t)2 << 20) /* of which allocations are parts */

/* Returns the extent of an allocation, or of addresses that were reserved at
 * once. */
static void read_range(
    const struct fake_range *range, uintptr_t *begin, size_t *nbytes)
{
    const bool reserved = range->reserved != 0;

    *begin = reserved ? range->reserved : range->begin;
    *nbytes = reserved ? range->reserved_nbytes : range->nbytes;
}

/* Returns the extent of the mapping that holds a range. */
static void read_mapping(
    const struct fake_range *range, uintptr_t *begin, size_t *nbytes)
{
    const uintptr_t end = range->begin + range->nbytes;

    *begin = range->begin;
    if (range->reserved == 0)
        *begin -= *begin % BLOCK;
    *nbytes = end - *begin;
    if (range->reserved == 0)
        *nbytes = (*nbytes + BLOCK - 1) / BLOCK * BLOCK;
}

/* Reads an attribute; 0 at an address without memory. */
static void read_span(
    const struct fake_range *range, CUpointer_attribute attribute, void *value)
{
    uintptr_t begin = 0;
    size_t nbytes = 0;

    if (range != NULL && (attribute == CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR ||
                             attribute == CU_POINTER_ATTRIBUTE_MAPPING_SIZE))
        read_mapping(range, &begin, &nbytes);
    else if (range != NULL)
        read_range(range, &begin, &nbytes);
    if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE ||
        attribute == CU_POINTER_ATTRIBUTE_MAPPING_SIZE)
        *(size_t *)value = nbytes;
    else
        *(CUdeviceptr *)value = begin;
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
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        read_span(range, attribute, value);
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
