/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one function that a caller looks up with the loader, and the entry
 * points found through it.
 */
#include "t/cuda/fake/state.h"

#include <cudaTypedefs.h>
#include <string.h>

/* A function, and the version that introduced its type. */
struct entry {
    const char *name;
    int version;
    void (*function)(void);
};

/* The function's type must be that of the version, or this does not compile. */
#define ENTRY(name, version)                                          \
    {                                                                 \
#name, version,                                               \
            (void (*)(void))(1 ? (name) : (PFN_##name##_v##version)0) \
    }

static const struct entry entries[] = {
    ENTRY(cuInit, 2000),
    ENTRY(cuDriverGetVersion, 2020),
    ENTRY(cuGetErrorName, 6000),
    ENTRY(cuGetErrorString, 6000),
    ENTRY(cuDeviceGetCount, 2000),
    ENTRY(cuDeviceGet, 2000),
    ENTRY(cuDeviceGetAttribute, 2000),
    ENTRY(cuDeviceGetName, 2000),
    ENTRY(cuDeviceGetUuid, 11040),
    ENTRY(cuDeviceTotalMem, 3020),
    ENTRY(cuDeviceGetPCIBusId, 4010),
    ENTRY(cuDeviceCanAccessPeer, 4000),
    ENTRY(cuDevicePrimaryCtxRetain, 7000),
    ENTRY(cuDevicePrimaryCtxRelease, 11000),
    ENTRY(cuDevicePrimaryCtxGetState, 7000),
    ENTRY(cuCtxPushCurrent, 4000),
    ENTRY(cuCtxPopCurrent, 4000),
    ENTRY(cuCtxGetCurrent, 4000),
    ENTRY(cuCtxGetDevice, 2000),
    ENTRY(cuCtxEnablePeerAccess, 4000),
    ENTRY(cuCtxGetStreamPriorityRange, 5050),
    ENTRY(cuThreadExchangeStreamCaptureMode, 10010),
    ENTRY(cuPointerGetAttributes, 7000),
    ENTRY(cuMemGetAddressRange, 3020),
    ENTRY(cuMemGetAllocationGranularity, 10020),
    ENTRY(cuMemCreate, 10020),
    ENTRY(cuMemRelease, 10020),
    ENTRY(cuMemAddressReserve, 10020),
    ENTRY(cuMemAddressFree, 10020),
    ENTRY(cuMemMap, 10020),
    ENTRY(cuMemUnmap, 10020),
    ENTRY(cuMemSetAccess, 10020),
    ENTRY(cuMemExportToShareableHandle, 10020),
    ENTRY(cuMemImportFromShareableHandle, 10020),
    ENTRY(cuMemRetainAllocationHandle, 11000),
    ENTRY(cuMemGetAllocationPropertiesFromHandle, 10020),
    ENTRY(cuMemGetInfo, 3020),
    ENTRY(cuMemAlloc, 3020),
    ENTRY(cuMemFree, 3020),
    ENTRY(cuIpcGetMemHandle, 4010),
    ENTRY(cuIpcOpenMemHandle, 11000),
    ENTRY(cuIpcCloseMemHandle, 4010),
    ENTRY(cuMemHostAlloc, 2020),
    ENTRY(cuMemFreeHost, 2000),
    ENTRY(cuMemHostRegister, 6050),
    ENTRY(cuMemHostUnregister, 4000),
    ENTRY(cuMemHostGetDevicePointer, 3020),
    ENTRY(cuMemAllocAsync, 11020),
    ENTRY(cuMemFreeAsync, 11020),
    ENTRY(cuMemAllocFromPoolAsync, 11020),
    ENTRY(cuMemPoolCreate, 11020),
    ENTRY(cuMemPoolDestroy, 11020),
    ENTRY(cuMemPoolSetAttribute, 11020),
    ENTRY(cuMemPoolSetAccess, 11020),
    ENTRY(cuMemcpyAsync, 4000),
    ENTRY(cuMemcpy2DAsync, 3020),
    ENTRY(cuMemsetD32Async, 3020),
    ENTRY(cuMemsetD8Async, 3020),
    ENTRY(cuStreamCreateWithPriority, 5050),
    ENTRY(cuStreamDestroy, 4000),
    ENTRY(cuStreamQuery, 2000),
    ENTRY(cuStreamSynchronize, 2000),
    ENTRY(cuStreamIsCapturing, 10000),
    ENTRY(cuStreamWaitEvent, 3020),
    ENTRY(cuStreamWriteValue32, 11070),
    ENTRY(cuStreamWaitValue32, 11070),
    ENTRY(cuStreamGetCtx, 9020),
    ENTRY(cuStreamGetId, 12000),
    ENTRY(cuEventCreate, 2000),
    ENTRY(cuEventDestroy, 4000),
    ENTRY(cuEventRecord, 2000),
    ENTRY(cuEventQuery, 2000),
    ENTRY(cuEventSynchronize, 2000),
    ENTRY(cuEventElapsedTime, 2000),
    ENTRY(cuLibraryLoadData, 12000),
    ENTRY(cuLibraryUnload, 12000),
    ENTRY(cuLibraryGetKernel, 12000),
    ENTRY(cuKernelGetFunction, 12000),
    ENTRY(cuFuncGetAttribute, 2020),
    ENTRY(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050),
    ENTRY(cuLaunchKernelEx, 11060),
    ENTRY(cuFuncLoad, 12040),
    ENTRY(cuMulticastCreate, 12010),
    ENTRY(cuMulticastAddDevice, 12010),
    ENTRY(cuMulticastBindMem, 12010),
    ENTRY(cuMulticastUnbind, 12010),
    ENTRY(cuMulticastGetGranularity, 12010),
};

FAKE_API CUresult cuGetProcAddress_v2(const char *name, void **function,
    int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    const struct entry *found = NULL;
    CUresult result = fake_enter(__func__, FAKE_NOTHING);

    *function = NULL;
    if (result != CUDA_SUCCESS)
        return result;
    if ((flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < COUNT(entries) && !fake_is_missing(name); i++)
        if (strcmp(entries[i].name, name) == 0)
            found = &entries[i];
    if (status != NULL)
        *status = found == NULL ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
                  : found->version > version
                      ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                      : CU_GET_PROC_ADDRESS_SUCCESS;
    if (found == NULL || found->version > version ||
        found->version > fake.settings.version)
        return CUDA_ERROR_NOT_FOUND;
    memcpy(function, &found->function, sizeof(*function));
    return CUDA_SUCCESS;
}

const char *fake_entry(int index)
{
    return index < (int)COUNT(entries) ? entries[index].name : NULL;
}
