/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results of the driver, as a status and as text.
 */
#include "cuda/driver.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NBYTES_TEXT 32

symmcoll_status_t symc_cuda_status(CUresult result)
{
    switch (result) {
    case CUDA_SUCCESS:
        return SYMMCOLL_OK;
    case CUDA_ERROR_OUT_OF_MEMORY:
        return SYMMCOLL_ERR_NO_MEMORY;
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_DEVICE_NOT_LICENSED:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_JIT_COMPILATION_DISABLED:
    case CUDA_ERROR_NOT_PERMITTED:
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
    case CUDA_ERROR_MPS_CONNECTION_FAILED:
    case CUDA_ERROR_MPS_RPC_FAILURE:
    case CUDA_ERROR_MPS_SERVER_NOT_READY:
    case CUDA_ERROR_MPS_MAX_CLIENTS_REACHED:
    case CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED:
        return SYMMCOLL_ERR_UNSUPPORTED;
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_MERGE:
    case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
    case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
    case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
    case CUDA_ERROR_CAPTURED_EVENT:
    case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD:
        return SYMMCOLL_ERR_INVALID;
    default:
        return SYMMCOLL_ERR_DEVICE;
    }
}

bool symc_cuda_is_fatal(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
        return true;
    default:
        return false;
    }
}

const char *symc_cuda_describe(
    const struct symc_cuda *cuda, CUresult result, char *buffer, size_t nbytes)
{
    const char *name = NULL, *text = NULL;

    if (cuda->get_error_name(result, &name) != CUDA_SUCCESS || name == NULL) {
        (void)snprintf(buffer, nbytes, "CUDA error %d", (int)result);
        return buffer;
    }
    if (cuda->get_error_string(result, &text) != CUDA_SUCCESS || text == NULL)
        text = "no description";
    (void)snprintf(buffer, nbytes, "%s: %s", name, text);
    return buffer;
}

const char *symc_cuda_format_nbytes(uint64_t nbytes, char *buffer)
{
    static const char units[][4] = {"B", "KiB", "MiB", "GiB", "TiB"};
    unsigned int unit = 0;
    uint64_t tenths;

    while (nbytes >> (10 * unit) >= 1024 && unit + 1 < 5)
        unit++;
    tenths = nbytes % (UINT64_C(1) << (10 * unit)) * 10 >> (10 * unit);
    if (tenths == 0)
        (void)snprintf(buffer, NBYTES_TEXT, "%" PRIu64 " %s",
            nbytes >> (10 * unit), units[unit]);
    else
        (void)snprintf(buffer, NBYTES_TEXT, "%" PRIu64 ".%" PRIu64 " %s",
            nbytes >> (10 * unit), tenths, units[unit]);
    return buffer;
}

const char *symc_cuda_format_device(
    const struct symc_cuda *cuda, int device, char *buffer)
{
    char name[SYMC_CUDA_NAME_MAX - 24] = "";
    CUdevice handle = 0;

    if (cuda->device_get(&handle, device) != CUDA_SUCCESS ||
        cuda->device_get_name(name, sizeof(name), handle) != CUDA_SUCCESS ||
        name[0] == '\0')
        (void)snprintf(buffer, SYMC_CUDA_NAME_MAX, "device %d", device);
    else
        (void)snprintf(
            buffer, SYMC_CUDA_NAME_MAX, "device %d (%s)", device, name);
    return buffer;
}

/* Formats ", 3.1 MiB of 79.1 GiB free"; "" if the device's context is not current. */
static const char *format_free(
    const struct symc_cuda *cuda, int device, char *buffer, size_t nbytes)
{
    char free_text[NBYTES_TEXT], total_text[NBYTES_TEXT];
    size_t free_nbytes = 0, total = 0;
    CUdevice current = -1;

    buffer[0] = '\0';
    if (cuda->ctx_get_device(&current) == CUDA_SUCCESS && current == device &&
        cuda->mem_get_info(&free_nbytes, &total) == CUDA_SUCCESS)
        (void)snprintf(buffer, nbytes, ", %s of %s free",
            symc_cuda_format_nbytes(free_nbytes, free_text),
            symc_cuda_format_nbytes(total, total_text));
    return buffer;
}

symmcoll_status_t symc_cuda_fail(const struct symc_cuda *cuda,
    symc_cuda_fail_fn fail, CUresult result, int device, const char *format,
    ...)
{
    char what[SYMC_DETAIL_MAX / 2], where[SYMC_CUDA_NAME_MAX] = "";
    char error[SYMC_DETAIL_MAX / 2], more[3 * NBYTES_TEXT] = "";
    va_list args;

    va_start(args, format);
    (void)vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    if (device >= 0)
        (void)symc_cuda_format_device(cuda, device, where);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        (void)format_free(cuda, device, more, sizeof(more));
    else if (symc_cuda_is_fatal(result))
        (void)snprintf(more, sizeof(more),
            "; its context cannot be used "
            "any more");
    return fail(symc_cuda_status(result), "%s%s%s: %s%s", what,
        device >= 0 ? " on " : "", where,
        symc_cuda_describe(cuda, result, error, sizeof(error)), more);
}

void symc_cuda_released(
    struct symc_cuda_log *log, const char *call, CUresult result)
{
    char error[SYMC_DETAIL_MAX / 2];

    if (result == CUDA_SUCCESS || symc_cuda_is_fatal(result) || log->warned ||
        log->log == NULL)
        return;
    log->warned = true;
    log->log(log->of, SYMC_LOG_WARN, "memory of a device stays in use: %s: %s",
        call, symc_cuda_describe(log->cuda, result, error, sizeof(error)));
}
