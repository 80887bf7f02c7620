/* SPDX-License-Identifier: BSD-3-Clause */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A function's name and version.  The member's type has both in its name; ENTRY() does
 * not compile if they differ. */
struct entry {
    const char *name;
    int version;
    size_t offset;
};

#define ENTRY(member, name, version)                      \
    {                                                     \
#name, version,                                   \
            offsetof(struct symc_cuda, member) +          \
                _Generic(((struct symc_cuda *)0)->member, \
                    PFN_##name##_v##version : 0)          \
    }

static const struct entry needed[] = {
    ENTRY(init, cuInit, 2000),
    ENTRY(get_error_name, cuGetErrorName, 6000),
    ENTRY(get_error_string, cuGetErrorString, 6000),

    ENTRY(device_get_count, cuDeviceGetCount, 2000),
    ENTRY(device_get, cuDeviceGet, 2000),
    ENTRY(device_get_attribute, cuDeviceGetAttribute, 2000),
    ENTRY(device_get_name, cuDeviceGetName, 2000),
    ENTRY(device_get_uuid, cuDeviceGetUuid, 11040),

    ENTRY(device_primary_ctx_retain, cuDevicePrimaryCtxRetain, 7000),
    ENTRY(device_primary_ctx_release, cuDevicePrimaryCtxRelease, 11000),
    ENTRY(device_primary_ctx_get_state, cuDevicePrimaryCtxGetState, 7000),
    ENTRY(ctx_push_current, cuCtxPushCurrent, 4000),
    ENTRY(ctx_pop_current, cuCtxPopCurrent, 4000),
    ENTRY(ctx_get_current, cuCtxGetCurrent, 4000),
    ENTRY(ctx_get_device, cuCtxGetDevice, 2000),
    ENTRY(ctx_enable_peer_access, cuCtxEnablePeerAccess, 4000),
    ENTRY(ctx_get_stream_priority_range, cuCtxGetStreamPriorityRange, 5050),
    ENTRY(thread_exchange_stream_capture_mode,
        cuThreadExchangeStreamCaptureMode, 10010),

    ENTRY(pointer_get_attributes, cuPointerGetAttributes, 7000),
    ENTRY(mem_get_address_range, cuMemGetAddressRange, 3020),

    ENTRY(mem_get_allocation_granularity, cuMemGetAllocationGranularity, 10020),
    ENTRY(mem_create, cuMemCreate, 10020),
    ENTRY(mem_release, cuMemRelease, 10020),
    ENTRY(mem_address_reserve, cuMemAddressReserve, 10020),
    ENTRY(mem_address_free, cuMemAddressFree, 10020),
    ENTRY(mem_map, cuMemMap, 10020),
    ENTRY(mem_unmap, cuMemUnmap, 10020),
    ENTRY(mem_set_access, cuMemSetAccess, 10020),
    ENTRY(mem_export_to_shareable_handle, cuMemExportToShareableHandle, 10020),
    ENTRY(mem_import_from_shareable_handle, cuMemImportFromShareableHandle,
        10020),
    ENTRY(mem_retain_allocation_handle, cuMemRetainAllocationHandle, 11000),
    ENTRY(mem_get_allocation_properties_from_handle,
        cuMemGetAllocationPropertiesFromHandle, 10020),
    ENTRY(mem_get_info, cuMemGetInfo, 3020),

    ENTRY(mem_alloc, cuMemAlloc, 3020),
    ENTRY(mem_free, cuMemFree, 3020),
    ENTRY(ipc_get_mem_handle, cuIpcGetMemHandle, 4010),
    ENTRY(ipc_open_mem_handle, cuIpcOpenMemHandle, 11000),
    ENTRY(ipc_close_mem_handle, cuIpcCloseMemHandle, 4010),

    ENTRY(mem_alloc_from_pool_async, cuMemAllocFromPoolAsync, 11020),
    ENTRY(mem_free_async, cuMemFreeAsync, 11020),
    ENTRY(mem_pool_create, cuMemPoolCreate, 11020),
    ENTRY(mem_pool_destroy, cuMemPoolDestroy, 11020),
    ENTRY(mem_pool_set_attribute, cuMemPoolSetAttribute, 11020),
    ENTRY(mem_pool_set_access, cuMemPoolSetAccess, 11020),

    ENTRY(mem_host_alloc, cuMemHostAlloc, 2020),
    ENTRY(mem_free_host, cuMemFreeHost, 2000),
    ENTRY(mem_host_get_device_pointer, cuMemHostGetDevicePointer, 3020),

    ENTRY(memcpy_async, cuMemcpyAsync, 4000),
    ENTRY(memcpy_2d_async, cuMemcpy2DAsync, 3020),
    ENTRY(memset_d32_async, cuMemsetD32Async, 3020),
    ENTRY(memset_d8_async, cuMemsetD8Async, 3020),

    ENTRY(stream_create_with_priority, cuStreamCreateWithPriority, 5050),
    ENTRY(stream_destroy, cuStreamDestroy, 4000),
    ENTRY(stream_query, cuStreamQuery, 2000),
    ENTRY(stream_synchronize, cuStreamSynchronize, 2000),
    ENTRY(stream_is_capturing, cuStreamIsCapturing, 10000),
    ENTRY(stream_wait_event, cuStreamWaitEvent, 3020),
    ENTRY(stream_get_ctx, cuStreamGetCtx, 9020),

    ENTRY(event_create, cuEventCreate, 2000),
    ENTRY(event_destroy, cuEventDestroy, 4000),
    ENTRY(event_record, cuEventRecord, 2000),
    ENTRY(event_query, cuEventQuery, 2000),
    ENTRY(event_elapsed_time, cuEventElapsedTime, 2000),

    ENTRY(library_load_data, cuLibraryLoadData, 12000),
    ENTRY(library_get_kernel, cuLibraryGetKernel, 12000),
    ENTRY(kernel_get_function, cuKernelGetFunction, 12000),
    ENTRY(func_get_attribute, cuFuncGetAttribute, 2020),
    ENTRY(launch_kernel_ex, cuLaunchKernelEx, 11060),
};

static const struct entry optional[] = {
    ENTRY(stream_get_id, cuStreamGetId, 12000),
    ENTRY(func_load, cuFuncLoad, 12040),
    ENTRY(stream_write_value32, cuStreamWriteValue32, 11070),
    ENTRY(multicast_create, cuMulticastCreate, 12010),
    ENTRY(multicast_add_device, cuMulticastAddDevice, 12010),
    ENTRY(multicast_bind_mem, cuMulticastBindMem, 12010),
    ENTRY(multicast_unbind, cuMulticastUnbind, 12010),
    ENTRY(multicast_get_granularity, cuMulticastGetGranularity, 12010),
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* State of the process: the driver is loaded once, and never unloaded. */
static struct {
    pthread_mutex_t lock;
    _Atomic(const struct symc_cuda *) loaded; /* the table, once complete */
    pid_t pid;                                /* the process that loaded it */
    void *library;
    struct symc_cuda table;
    char reason[SYMC_DETAIL_MAX];
} driver = {.lock = PTHREAD_MUTEX_INITIALIZER};

static symmcoll_status_t refuse(const char *format, ...) SYMC_PRINTF(1, 2);

static symmcoll_status_t refuse(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(driver.reason, sizeof(driver.reason), format, args);
    va_end(args);
    return SYMMCOLL_ERR_UNSUPPORTED;
}

/* Stores a function pointer from the loader; ISO C has no cast for it. */
static void set_function(void *member, void *function)
{
    memcpy(member, &function, sizeof(function));
}

/* Explains why the library was refused, by the version that it reports. */
static symmcoll_status_t refuse_old(void *library)
{
    PFN_cuDriverGetVersion_v2020 get_version = NULL;
    int version = 0;

    set_function(&get_version, dlsym(library, "cuDriverGetVersion"));
    if (get_version == NULL || get_version(&version) != CUDA_SUCCESS)
        return refuse("%s: expected a CUDA driver, found no version of "
                      "one",
            SYMC_CUDA_LIBRARY);
    if (version >= SYMC_CUDA_VERSION)
        return refuse("%s: expected cuGetProcAddress_v2, found none in a "
                      "driver of CUDA %d.%d",
            SYMC_CUDA_LIBRARY, version / 1000, version % 1000 / 10);
    return refuse("%s: expected a driver of CUDA %d.%d or later, found %d.%d",
        SYMC_CUDA_LIBRARY, SYMC_CUDA_VERSION / 1000,
        SYMC_CUDA_VERSION % 1000 / 10, version / 1000, version % 1000 / 10);
}

/* Fills in one member; returns false if the driver lacks the function. */
static bool find_entry(PFN_cuGetProcAddress_v12000 get,
    const struct entry *entry, struct symc_cuda *table)
{
    void *function = NULL;

    if (get(entry->name, &function, entry->version,
            CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL) != CUDA_SUCCESS)
        function = NULL;
    set_function((char *)table + entry->offset, function);
    return function != NULL;
}

static symmcoll_status_t fill_table(
    PFN_cuGetProcAddress_v12000 get, struct symc_cuda *table)
{
    for (size_t i = 0; i < COUNT(needed); i++) {
        if (find_entry(get, &needed[i], table))
            continue;
        return refuse("%s: expected %s of CUDA %d.%d, found none in a "
                      "driver of CUDA %d.%d",
            SYMC_CUDA_LIBRARY, needed[i].name, needed[i].version / 1000,
            needed[i].version % 1000 / 10, table->version / 1000,
            table->version % 1000 / 10);
    }
    for (size_t i = 0; i < COUNT(optional); i++)
        (void)find_entry(get, &optional[i], table);
    return SYMMCOLL_OK;
}

/* Opens the library, fills the table and initialises the driver.  Called with the lock
 * held. */
static symmcoll_status_t load(struct symc_cuda *table)
{
    PFN_cuGetProcAddress_v12000 get = NULL;
    PFN_cuDriverGetVersion_v2020 get_version = NULL;
    char text[SYMC_DETAIL_MAX / 2];
    symmcoll_status_t status;
    CUresult result;

    if (driver.library == NULL)
        driver.library = dlopen(SYMC_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (driver.library == NULL)
        return refuse("no CUDA driver: %s", dlerror());
    set_function(&get, dlsym(driver.library, "cuGetProcAddress_v2"));
    set_function(&get_version, dlsym(driver.library, "cuDriverGetVersion"));
    *table = (struct symc_cuda){0};
    if (get == NULL || get_version == NULL ||
        get_version(&table->version) != CUDA_SUCCESS ||
        table->version < SYMC_CUDA_VERSION)
        return refuse_old(driver.library);
    status = fill_table(get, table);
    if (status != SYMMCOLL_OK)
        return status;
    result = table->init(0);
    if (result != CUDA_SUCCESS)
        return refuse("%s: cuInit: %s", SYMC_CUDA_LIBRARY,
            symc_cuda_describe(table, result, text, sizeof(text)));
    driver.pid = getpid();
    driver.reason[0] = '\0';
    atomic_store_explicit(&driver.loaded, table, memory_order_release);
    return SYMMCOLL_OK;
}

const struct symc_cuda *symc_cuda_loaded(void)
{
    return atomic_load_explicit(&driver.loaded, memory_order_acquire);
}

symmcoll_status_t symc_cuda_load(
    symc_cuda_fail_fn fail, const struct symc_cuda **cuda)
{
    char reason[SYMC_DETAIL_MAX];
    symmcoll_status_t status = SYMMCOLL_OK;

    pthread_mutex_lock(&driver.lock);
    if (symc_cuda_loaded() == NULL)
        status = load(&driver.table);
    else if (driver.pid != getpid())
        status = refuse("CUDA: expected a process that was forked before "
                        "CUDA was first used, found one that was forked "
                        "from pid %d afterwards",
            (int)driver.pid);
    memcpy(reason, driver.reason, sizeof(reason));
    pthread_mutex_unlock(&driver.lock);
    if (status == SYMMCOLL_OK) {
        *cuda = symc_cuda_loaded();
        return SYMMCOLL_OK;
    }
    return fail != NULL ? fail(status, "%s", reason) : status;
}

const char *symc_cuda_reason(char *buffer)
{
    pthread_mutex_lock(&driver.lock);
    memcpy(buffer, driver.reason, sizeof(driver.reason));
    pthread_mutex_unlock(&driver.lock);
    return buffer;
}
