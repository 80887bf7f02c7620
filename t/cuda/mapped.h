/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory mapped by a program: pages of a fake driver's device, of the
 * granularity of that device, with sizes rounded up to that of any other
 * device.
 */
#ifndef T_CUDA_MAPPED_H
#define T_CUDA_MAPPED_H

#include "t/cuda/members.h"

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define PAGE ((size_t)4096)

/* Pages mapped by a program. */
struct mapped {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    size_t nbytes;
};

static inline void clear_pages(const struct mapped *mapped)
{
    void *zeros = calloc(1, mapped->nbytes);

    if (zeros == NULL)
        abort();
    device_write((void *)(uintptr_t)mapped->at, zeros, mapped->nbytes);
    free(zeros);
}

/* Maps zeroed pages; the device's context must be current. */
static inline struct mapped map_pages(int device, size_t pages, bool exported)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = exported
                                    ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                                    : CU_MEM_HANDLE_TYPE_NONE,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUmemAccessDesc access = {.location = properties.location,
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    struct mapped made = {.nbytes = pages * PAGE};
    size_t granularity;

    if (cuMemGetAllocationGranularity(&granularity, &properties,
            CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS)
        abort();
    made.nbytes = (made.nbytes + granularity - 1) / granularity * granularity;
    if (cuMemCreate(&made.handle, made.nbytes, &properties, 0) !=
            CUDA_SUCCESS ||
        cuMemAddressReserve(&made.at, made.nbytes, 0, 0, 0) != CUDA_SUCCESS ||
        cuMemMap(made.at, made.nbytes, 0, made.handle, 0) != CUDA_SUCCESS ||
        cuMemSetAccess(made.at, made.nbytes, &access, 1) != CUDA_SUCCESS)
        abort();
    clear_pages(&made);
    return made;
}

static inline void unmap_pages(const struct mapped *mapped)
{
    if (cuMemUnmap(mapped->at, mapped->nbytes) != CUDA_SUCCESS ||
        cuMemAddressFree(mapped->at, mapped->nbytes) != CUDA_SUCCESS ||
        cuMemRelease(mapped->handle) != CUDA_SUCCESS)
        abort();
}

#endif
