/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices of the fake driver, and its errors. */
#include "t/cuda/fake/state.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

FAKE_API CUresult cuDriverGetVersion(int *version)
{
    CUresult result = fake_enter(__func__, FAKE_NOTHING);

    if (result == CUDA_SUCCESS)
        *version = fake.settings.version;
    return result;
}

FAKE_API CUresult cuInit(unsigned int flags)
{
    CUresult result = fake_enter(__func__, FAKE_NOTHING);

    if (result != CUDA_SUCCESS)
        return result;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (fake.settings.devices == 0)
        return CUDA_ERROR_NO_DEVICE;
    fake_lock();
    if (fake.initialised && fake.pid != getpid())
        result = CUDA_ERROR_NOT_INITIALIZED;
    for (int i = 0; i < FAKE_DEVICES && !fake.initialised; i++)
        fake.devices[i].primary =
            (struct CUctx_st){.device = i, .primary = true};
    if (!fake.initialised)
        fake.pid = getpid();
    fake.initialised = true;
    fake_unlock();
    return result;
}

static CUresult enter_device(const char *function, CUdevice device)
{
    CUresult result = fake_enter(function, FAKE_INIT);

    if (result == CUDA_SUCCESS &&
        (device < 0 || device >= fake.settings.devices))
        result = CUDA_ERROR_INVALID_DEVICE;
    return result;
}

FAKE_API CUresult cuDeviceGetCount(int *count)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);

    if (result == CUDA_SUCCESS)
        *count = fake.settings.devices;
    return result;
}

FAKE_API CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    CUresult result = enter_device(__func__, ordinal);

    if (result == CUDA_SUCCESS)
        *device = ordinal;
    return result;
}

FAKE_API CUresult cuDeviceGetName(char *name, int nbytes, CUdevice device)
{
    CUresult result = enter_device(__func__, device);

    if (result == CUDA_SUCCESS)
        (void)snprintf(name, (size_t)nbytes, "Fake GPU %d", device);
    return result;
}

FAKE_API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    CUresult result = enter_device(__func__, device);

    if (result != CUDA_SUCCESS)
        return result;
    memset(uuid->bytes, 0, sizeof(uuid->bytes));
    memcpy(uuid->bytes, "FAKE", 4);
    uuid->bytes[14] = (char)fake.settings.uuid;
    uuid->bytes[15] = (char)device;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuDeviceTotalMem(size_t *nbytes, CUdevice device)
{
    CUresult result = enter_device(__func__, device);

    if (result == CUDA_SUCCESS)
        *nbytes = fake.settings.memory;
    return result;
}

FAKE_API CUresult cuDeviceGetPCIBusId(char *id, int nbytes, CUdevice device)
{
    CUresult result = enter_device(__func__, device);

    if (result == CUDA_SUCCESS)
        (void)snprintf(id, (size_t)nbytes, "0000:%02x:00.0", device + 1);
    return result;
}

FAKE_API CUresult cuDeviceCanAccessPeer(
    int *can, CUdevice device, CUdevice peer)
{
    CUresult result = enter_device(__func__, device);

    if (result == CUDA_SUCCESS)
        result = peer >= 0 && peer < fake.settings.devices
                     ? CUDA_SUCCESS
                     : CUDA_ERROR_INVALID_DEVICE;
    if (result == CUDA_SUCCESS)
        *can = device != peer;
    return result;
}

FAKE_API CUresult cuDeviceGetAttribute(
    int *value, CUdevice_attribute attribute, CUdevice device)
{
    CUresult result = enter_device(__func__, device);

    if (result != CUDA_SUCCESS)
        return result;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = fake.settings.sms;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = fake.settings.capability / 10;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = fake.settings.capability % 10;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        *value = 32;
        break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        *value = device + 1;
        break;
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
        *value = fake.settings.multicast;
        break;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
        *value = fake.settings.fabric;
        break;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
        *value = fake.settings.rdma;
        break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES:
        *value = 1;
        break;
    default: /* other attributes do not exist */
        *value = 0;
    }
    return CUDA_SUCCESS;
}

/* ---- errors ---- */

static const struct {
    CUresult result;
    const char *name, *text;
} errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED",
        "initialization error"},
    {CUDA_ERROR_STUB_LIBRARY, "CUDA_ERROR_STUB_LIBRARY",
        "CUDA driver is a stub library"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE",
        "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE",
        "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE",
        "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT",
        "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
        "no kernel image is available for execution on the device"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE",
        "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
        "an illegal memory access was encountered"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED",
        "context is destroyed"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED",
        "unspecified launch failure"},
    {CUDA_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED",
        "operation not permitted"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED",
        "operation not supported"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
        "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        "operation failed due to a previous error during capture"},
    {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
        "capturing stream has unjoined work"},
    {CUDA_ERROR_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT",
        "operation not permitted on an event last recorded in a capturing "
        "stream"},
};

/* Returns the index of an error; -1: unknown. */
static int find_error(CUresult result)
{
    for (size_t i = 0; i < COUNT(errors); i++)
        if (errors[i].result == result)
            return (int)i;
    return -1;
}

/* Looks up the text for an error; INVALID_VALUE: unknown. */
static CUresult describe(
    const char *function, CUresult error, bool named, const char **text)
{
    CUresult result = fake_enter(function, FAKE_NOTHING);
    int found = find_error(error);

    *text = NULL;
    if (result != CUDA_SUCCESS)
        return result;
    if (found < 0)
        return CUDA_ERROR_INVALID_VALUE;
    *text = named ? errors[found].name : errors[found].text;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuGetErrorName(CUresult error, const char **name)
{
    return describe(__func__, error, true, name);
}

FAKE_API CUresult cuGetErrorString(CUresult error, const char **text)
{
    return describe(__func__, error, false, text);
}
