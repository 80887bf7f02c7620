/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CUDA driver: libcuda.so.1, opened at the first use of a device, never by a
 * constructor and never linked with.  Its functions are in a table, each in the version
 * that its type names, and all errors are formatted in one way.
 *
 * The driver is loaded once per process.  After a fork it does not work in the child,
 * where its calls return CUDA_ERROR_NOT_INITIALIZED.
 */
#ifndef SYMC_CUDA_DRIVER_H
#define SYMC_CUDA_DRIVER_H

#include "base/base.h"

#include <cuda.h>
#include <cudaTypedefs.h>

#define SYMC_CUDA_LIBRARY "libcuda.so.1"
/* The oldest driver that we use, 1000 * major + 10 * minor: older ones cannot read the
 * kernels' image, which is compressed for size. */
#define SYMC_CUDA_VERSION 12040
#define SYMC_CUDA_NAME_MAX 96 /* bytes of a device's name, its zero included */

/* As core->fail: keeps the detail of an error and returns the status. */
typedef symmcoll_status_t (*symc_cuda_fail_fn)(
    symmcoll_status_t status, const char *format, ...) SYMC_PRINTF(2, 3);

/*
 * Functions of the driver: cuMemCreate is mem_create.  Streams follow the driver's API
 * without a per-thread default stream: NULL is the legacy stream.
 *
 * The functions under "optional" are NULL if the driver is too old for them.
 */
struct symc_cuda {
    int version; /* the driver's, 12040 for 12.4 */

    PFN_cuInit_v2000 init;
    PFN_cuGetErrorName_v6000 get_error_name;
    PFN_cuGetErrorString_v6000 get_error_string;

    /* ---- devices ---- */
    PFN_cuDeviceGetCount_v2000 device_get_count;
    PFN_cuDeviceGet_v2000 device_get;
    PFN_cuDeviceGetAttribute_v2000 device_get_attribute;
    PFN_cuDeviceGetName_v2000 device_get_name;
    PFN_cuDeviceGetUuid_v11040 device_get_uuid; /* of a MIG instance, its own */

    /* ---- contexts ---- */
    PFN_cuDevicePrimaryCtxRetain_v7000 device_primary_ctx_retain;
    PFN_cuDevicePrimaryCtxRelease_v11000 device_primary_ctx_release;
    PFN_cuDevicePrimaryCtxGetState_v7000 device_primary_ctx_get_state;
    PFN_cuCtxPushCurrent_v4000 ctx_push_current;
    PFN_cuCtxPopCurrent_v4000 ctx_pop_current;
    PFN_cuCtxGetCurrent_v4000 ctx_get_current;
    PFN_cuCtxGetDevice_v2000 ctx_get_device;
    PFN_cuCtxEnablePeerAccess_v4000 ctx_enable_peer_access;
    PFN_cuCtxGetStreamPriorityRange_v5050 ctx_get_stream_priority_range;
    PFN_cuThreadExchangeStreamCaptureMode_v10010
        thread_exchange_stream_capture_mode;

    /* ---- attributes of an address ---- */
    PFN_cuPointerGetAttributes_v7000 pointer_get_attributes;
    PFN_cuMemGetAddressRange_v3020 mem_get_address_range;

    /* ---- memory by physical allocations ---- */
    PFN_cuMemGetAllocationGranularity_v10020 mem_get_allocation_granularity;
    PFN_cuMemCreate_v10020 mem_create;
    PFN_cuMemRelease_v10020 mem_release;
    PFN_cuMemAddressReserve_v10020 mem_address_reserve;
    PFN_cuMemAddressFree_v10020 mem_address_free;
    PFN_cuMemMap_v10020 mem_map;
    PFN_cuMemUnmap_v10020 mem_unmap;
    PFN_cuMemSetAccess_v10020 mem_set_access;
    PFN_cuMemExportToShareableHandle_v10020 mem_export_to_shareable_handle;
    PFN_cuMemImportFromShareableHandle_v10020 mem_import_from_shareable_handle;
    PFN_cuMemRetainAllocationHandle_v11000 mem_retain_allocation_handle;
    PFN_cuMemGetAllocationPropertiesFromHandle_v10020
        mem_get_allocation_properties_from_handle;
    PFN_cuMemGetInfo_v3020 mem_get_info; /* of the current context's device */

    /* ---- legacy IPC: allocations of cuMemAlloc(), of another process ---- */
    PFN_cuMemAlloc_v3020 mem_alloc;
    PFN_cuMemFree_v3020 mem_free;
    PFN_cuIpcGetMemHandle_v4010 ipc_get_mem_handle;
    PFN_cuIpcOpenMemHandle_v11000 ipc_open_mem_handle;
    PFN_cuIpcCloseMemHandle_v4010 ipc_close_mem_handle;

    /* ---- memory of one rank, in the order of a stream ---- */
    PFN_cuMemAllocFromPoolAsync_v11020 mem_alloc_from_pool_async;
    PFN_cuMemFreeAsync_v11020 mem_free_async;
    PFN_cuMemPoolCreate_v11020 mem_pool_create;
    PFN_cuMemPoolDestroy_v11020 mem_pool_destroy;
    PFN_cuMemPoolSetAttribute_v11020 mem_pool_set_attribute;
    PFN_cuMemPoolSetAccess_v11020 mem_pool_set_access;

    /* ---- memory of the host ---- */
    PFN_cuMemHostAlloc_v2020 mem_host_alloc;
    PFN_cuMemFreeHost_v2000 mem_free_host;
    PFN_cuMemHostGetDevicePointer_v3020 mem_host_get_device_pointer;

    /* ---- copies ---- */
    PFN_cuMemcpyAsync_v4000 memcpy_async;
    PFN_cuMemcpy2DAsync_v3020 memcpy_2d_async;
    PFN_cuMemsetD32Async_v3020 memset_d32_async;
    PFN_cuMemsetD8Async_v3020 memset_d8_async;

    /* ---- streams ---- */
    PFN_cuStreamCreateWithPriority_v5050 stream_create_with_priority;
    PFN_cuStreamDestroy_v4000 stream_destroy;
    PFN_cuStreamQuery_v2000 stream_query;
    PFN_cuStreamSynchronize_v2000 stream_synchronize;
    PFN_cuStreamIsCapturing_v10000 stream_is_capturing;
    PFN_cuStreamWaitEvent_v3020 stream_wait_event;
    PFN_cuStreamGetCtx_v9020 stream_get_ctx;

    /* ---- events ---- */
    PFN_cuEventCreate_v2000 event_create;
    PFN_cuEventDestroy_v4000 event_destroy;
    PFN_cuEventRecord_v2000 event_record;
    PFN_cuEventQuery_v2000 event_query;
    PFN_cuEventElapsedTime_v2000 event_elapsed_time;

    /* ---- kernels ---- */
    PFN_cuLibraryLoadData_v12000 library_load_data;
    PFN_cuLibraryGetKernel_v12000 library_get_kernel;
    PFN_cuKernelGetFunction_v12000 kernel_get_function;
    PFN_cuFuncGetAttribute_v2020 func_get_attribute;
    PFN_cuLaunchKernelEx_v11060 launch_kernel_ex;

    /* ---- optional ---- */
    PFN_cuStreamGetId_v12000 stream_get_id;
    PFN_cuFuncLoad_v12040 func_load; /* func_get_attribute() loads, too */
    PFN_cuStreamWriteValue32_v11070 stream_write_value32;
    PFN_cuMulticastCreate_v12010 multicast_create;
    PFN_cuMulticastAddDevice_v12010 multicast_add_device;
    PFN_cuMulticastBindMem_v12010 multicast_bind_mem;
    PFN_cuMulticastUnbind_v12010 multicast_unbind;
    PFN_cuMulticastGetGranularity_v12010 multicast_get_granularity;
};

/*
 * Returns the table (out), which is static.  The first call that succeeds has opened the
 * library, filled the table and called cuInit().  Any thread may call it.  fail may be
 * NULL: then no detail is kept.
 * Errors: UNSUPPORTED, with the reason: the loader's error, a driver that is too old, an
 * entry that it lacks, the error of cuInit(), or a fork since the driver was loaded.
 */
symmcoll_status_t symc_cuda_load(
    symc_cuda_fail_fn fail, const struct symc_cuda **cuda);

/* Copies the reason why symc_cuda_load() failed last into a buffer of SYMC_DETAIL_MAX
 * bytes and returns it; "" if it has not failed. */
const char *symc_cuda_reason(char *buffer);

/* Returns the table without loading anything; NULL before symc_cuda_load() succeeded. */
const struct symc_cuda *symc_cuda_loaded(void);

/*
 * Formats the detail of a failed call and returns its status:
 *
 *   cuMemCreate of 64 MiB on device 0 (NVIDIA H100): CUDA_ERROR_OUT_OF_MEMORY:
 *   out of memory, 3.1 MiB of 79.1 GiB free
 *
 * device    -1: the call concerns no device
 * format    the call and its purpose, "cuMemCreate of 64 MiB"
 *
 * Returns NO_MEMORY, UNSUPPORTED (beyond this device, driver or image), INVALID (the
 * call is not allowed on a stream that is captured), else DEVICE.
 */
symmcoll_status_t symc_cuda_fail(const struct symc_cuda *cuda,
    symc_cuda_fail_fn fail, CUresult result, int device, const char *format,
    ...) SYMC_PRINTF(5, 6);

/* The result of the last of several calls that a function makes, or of the first one
 * that failed. */
struct symc_cuda_called {
    const char *name; /* "cuMemCreate" */
    CUresult result;
};

static inline struct symc_cuda_called symc_cuda_called(
    const char *name, CUresult result)
{
    return (struct symc_cuda_called){name, result};
}

/* The log for memory that could not be released, where no caller can get an error.
 * Written once: after one failure, further calls on the same memory fail as well. */
struct symc_cuda_log {
    const struct symc_cuda *cuda;
    /* May be NULL: nothing is logged. */
    void (*log)(void *of, enum symc_log_level level, const char *format, ...)
        SYMC_PRINTF(3, 4);
    void *of;
    bool warned;
};

/* Checks the result of a call that releases memory ("cuMemUnmap"), and logs a failure.
 * An error that broke the context is not logged: it has been reported already. */
void symc_cuda_released(
    struct symc_cuda_log *log, const char *call, CUresult result);

/* Returns the status that symc_cuda_fail() returns for a result. */
symmcoll_status_t symc_cuda_status(CUresult result);

/* Returns whether an error is sticky: every later call in the context fails alike, and
 * the contents of its device memory are lost. */
bool symc_cuda_is_fatal(CUresult result);

/* Formats "CUDA_ERROR_OUT_OF_MEMORY: out of memory"; accepts unknown numbers. */
const char *symc_cuda_describe(
    const struct symc_cuda *cuda, CUresult result, char *buffer, size_t nbytes);

/* Formats "64 MiB", "3.1 MiB" (rounded down) into a buffer of 32 bytes. */
const char *symc_cuda_format_nbytes(uint64_t nbytes, char *buffer);

/* Formats "device 0 (NVIDIA H100)" into a buffer of SYMC_CUDA_NAME_MAX bytes. */
const char *symc_cuda_format_device(
    const struct symc_cuda *cuda, int device, char *buffer);

#endif
