/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver creates physical memory, maps it and grants access to it in separate calls.
 * A mapping keeps the memory alive, so each rank frees its own mapping independently of
 * the others.
 *
 * According to cuda.h, cuMemUnmap() and cuMemSetAccess() may wait for the device.  They
 * are called when a group is opened or closed and when memory is allocated, joined or
 * freed: kernels of the groups concerned do not run then.  Kernels of other groups, of
 * ranks that are threads on the same device, may delay them, as they may delay the
 * program's own frees.
 */
#include "cuda/memory.h"
#include "cuda/device_group.h"

#include <stdint.h>
#include <stdlib.h>

/* ---- physical memory ---- */

#define DESCRIPTOR ((unsigned int)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
#define FABRIC ((unsigned int)CU_MEM_HANDLE_TYPE_FABRIC)

enum symc_cuda_share symc_cuda_share_of(
    const struct symc_settings *settings, bool threads)
{
    return threads ? SYMC_CUDA_SHARE_THREADS
                   : (enum symc_cuda_share)settings->get_int(
                         settings->config, "cuda.share");
}

static bool has(
    const struct symc_cuda_context *context, CUdevice_attribute attribute)
{
    int value = 0;

    return context->cuda->device_get_attribute(
               &value, attribute, context->device) == CUDA_SUCCESS &&
           value != 0;
}

/* Returns the handle types that memory is first created with.  Threads need none to share
 * it, but a multicast object that they import takes only memory that can be exported. */
static unsigned int types_of(
    const struct symc_cuda_context *context, enum symc_cuda_share share)
{
    if (share == SYMC_CUDA_SHARE_THREADS)
        return has(context, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED)
                   ? DESCRIPTOR
                   : 0;
    if (share == SYMC_CUDA_SHARE_AUTO &&
        !has(context, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED))
        return DESCRIPTOR;
    return share == SYMC_CUDA_SHARE_DESCRIPTOR ? DESCRIPTOR
                                               : DESCRIPTOR | FABRIC;
}

/* Returns the handle types to try after an error. */
static unsigned int fewer_types(enum symc_cuda_share share, unsigned int types)
{
    switch (share) {
    case SYMC_CUDA_SHARE_AUTO:
        return DESCRIPTOR;
    case SYMC_CUDA_SHARE_THREADS:
        return 0;
    default:
        return types;
    }
}

static CUmemAllocationProp properties_of(
    const struct symc_cuda_context *context, unsigned int types)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = (CUmemAllocationHandleType)types,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
            .id = context->device},
        /* Lets network adapters access the memory, if the device supports it: the
         * program may pass it to a library that needs that. */
        .allocFlags = {
            .gpuDirectRDMACapable = has(context,
                CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)}};
}

/* Rounds a size up to the granularity; fails if the sum would overflow. */
static symmcoll_status_t round_up(const struct symc_cuda_context *context,
    symc_cuda_fail_fn fail, const CUmemAllocationProp *properties,
    size_t *nbytes)
{
    size_t granularity = 1, rest;
    char text[32];
    CUresult result = context->cuda->mem_get_allocation_granularity(
        &granularity, properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);

    if (result != CUDA_SUCCESS)
        return symc_cuda_fail(context->cuda, fail, result, context->device,
            "cuMemGetAllocationGranularity");
    rest = *nbytes % granularity;
    if (*nbytes > SIZE_MAX / 2 - granularity)
        return fail(SYMMCOLL_ERR_NO_MEMORY,
            "expected as many bytes as memory has, found %s",
            symc_cuda_format_nbytes(*nbytes, text));
    *nbytes += rest == 0 ? 0 : granularity - rest;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_cuda_physical_create(
    const struct symc_cuda_context *context, symc_cuda_fail_fn fail,
    enum symc_cuda_share share, size_t nbytes, const char *what,
    struct symc_cuda_physical *physical)
{
    const struct symc_cuda *cuda = context->cuda;
    unsigned int types = types_of(context, share);
    unsigned int fewer = fewer_types(share, types);
    CUmemAllocationProp properties = properties_of(context, types);
    symmcoll_status_t status = round_up(context, fail, &properties, &nbytes);
    char text[32];
    CUresult result;

    *physical = (struct symc_cuda_physical){.nbytes = 0};
    if (status != SYMMCOLL_OK)
        return status;
    result = cuda->mem_create(&physical->handle, nbytes, &properties, 0);
    /* Drivers return different errors for handle types that they do not support. */
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY &&
        fewer != types) {
        properties = properties_of(context, types = fewer);
        result = cuda->mem_create(&physical->handle, nbytes, &properties, 0);
    }
    if (result != CUDA_SUCCESS)
        return symc_cuda_fail(cuda, fail, result, context->device,
            "cuMemCreate of %s%s for %s", symc_cuda_format_nbytes(nbytes, text),
            (types & FABRIC) != 0 ? " with a fabric handle" : "", what);
    physical->nbytes = nbytes;
    physical->types = types;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_cuda_map(const struct symc_cuda_context *context,
    symc_cuda_fail_fn fail, CUdeviceptr at, size_t nbytes,
    CUmemGenericAllocationHandle handle, const char *what)
{
    const struct symc_cuda *cuda = context->cuda;
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
                                  .id = context->device},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = cuda->mem_map(at, nbytes, 0, handle, 0);

    if (result != CUDA_SUCCESS)
        return symc_cuda_fail(
            cuda, fail, result, context->device, "cuMemMap of %s", what);
    result = cuda->mem_set_access(at, nbytes, &access, 1);
    if (result == CUDA_SUCCESS)
        return SYMMCOLL_OK;
    (void)cuda->mem_unmap(at, nbytes);
    return symc_cuda_fail(
        cuda, fail, result, context->device, "cuMemSetAccess to %s", what);
}

symmcoll_status_t symc_cuda_physical_map(
    const struct symc_cuda_context *context, symc_cuda_fail_fn fail,
    const char *what, struct symc_cuda_physical *physical)
{
    const struct symc_cuda *cuda = context->cuda;
    CUdeviceptr at = 0;
    char text[32];
    symmcoll_status_t status;
    CUresult result = cuda->mem_address_reserve(&at, physical->nbytes, 0, 0, 0);

    if (result != CUDA_SUCCESS)
        return symc_cuda_fail(cuda, fail, result, context->device,
            "cuMemAddressReserve of %s for %s",
            symc_cuda_format_nbytes(physical->nbytes, text), what);
    status = symc_cuda_map(
        context, fail, at, physical->nbytes, physical->handle, what);
    if (status == SYMMCOLL_OK)
        physical->at = at;
    else
        (void)cuda->mem_address_free(at, physical->nbytes);
    return status;
}

CUstreamCaptureMode symc_cuda_relax(
    const struct symc_cuda *cuda, CUstreamCaptureMode mode)
{
    return cuda->thread_exchange_stream_capture_mode(&mode) == CUDA_SUCCESS
               ? mode
               : CU_STREAM_CAPTURE_MODE_GLOBAL;
}

void symc_cuda_physical_free(
    struct symc_cuda_log *log, struct symc_cuda_physical *physical)
{
    const struct symc_cuda *cuda = log->cuda;

    if (physical->at != 0) {
        symc_cuda_released(
            log, "cuMemUnmap", cuda->mem_unmap(physical->at, physical->nbytes));
        symc_cuda_released(log, "cuMemAddressFree",
            cuda->mem_address_free(physical->at, physical->nbytes));
    }
    if (physical->nbytes != 0)
        symc_cuda_released(
            log, "cuMemRelease", cuda->mem_release(physical->handle));
    *physical = (struct symc_cuda_physical){.nbytes = 0};
}

/* ---- zeroing ---- */

/* Uses a stream of its own: work on other streams may wait for memory that is not joined
 * yet. */
static struct symc_cuda_called clear_words(
    const struct symc_cuda *cuda, CUdeviceptr at, size_t count)
{
    CUstream stream = NULL;
    struct symc_cuda_called called = symc_cuda_called(
        "cuStreamCreateWithPriority",
        cuda->stream_create_with_priority(&stream, CU_STREAM_NON_BLOCKING, 0));

    if (called.result != CUDA_SUCCESS)
        return called;
    called = symc_cuda_called(
        "cuMemsetD32Async", cuda->memset_d32_async(at, 0, count, stream));
    if (called.result == CUDA_SUCCESS)
        called = symc_cuda_called(
            "cuStreamSynchronize", cuda->stream_synchronize(stream));
    (void)cuda->stream_destroy(stream);
    return called;
}

symmcoll_status_t symc_cuda_clear(const struct symc_cuda_context *context,
    symc_cuda_fail_fn fail, CUdeviceptr at, size_t nbytes, const char *what)
{
    struct symc_cuda_called called =
        clear_words(context->cuda, at, nbytes / sizeof(uint32_t));

    return called.result == CUDA_SUCCESS
               ? SYMMCOLL_OK
               : symc_cuda_fail(context->cuda, fail, called.result,
                     context->device, "%s to clear %s", called.name, what);
}

/* ---- memory of a rank ---- */

void symc_cuda_memory_free(void *memory)
{
    struct symc_cuda_memory *freed = memory;
    const struct symc_cuda *cuda;
    CUstreamCaptureMode mode;

    if (freed == NULL || atomic_fetch_sub(&freed->uses, 1) > 1)
        return;
    cuda = freed->context.cuda;
    if (cuda != NULL) {
        mode = symc_cuda_relax(cuda, CU_STREAM_CAPTURE_MODE_RELAXED);
        symc_cuda_physical_free(&freed->log, &freed->physical);
        symc_cuda_context_close(&freed->context);
        (void)symc_cuda_relax(cuda, mode);
    }
    free(freed);
}

struct symc_extent symc_cuda_memory_extent(const void *memory)
{
    const struct symc_cuda_memory *of = memory;
    const struct symc_cuda_physical *physical = &of->physical;
    bool is_mapped = physical->at != 0; /* by us, not by the program */

    return (struct symc_extent){.begin = (void *)(uintptr_t)physical->at,
        .nbytes = is_mapped ? physical->nbytes : 0};
}

/* Creates, maps and zeroes symmetric memory.  The context must be current. */
static symmcoll_status_t allocate(
    const struct symc_memory_request *request, struct symc_cuda_memory *memory)
{
    static const char what[] = "symmetric memory";
    const struct symc_cuda_context *context = &memory->context;
    struct symc_cuda_physical *physical = &memory->physical;
    symmcoll_status_t status = symc_cuda_physical_create(context, request->fail,
        symc_cuda_share_of(request->settings, request->threads),
        request->nbytes, what, physical);

    if (status == SYMMCOLL_OK)
        status = symc_cuda_physical_map(context, request->fail, what, physical);
    return status == SYMMCOLL_OK ? symc_cuda_clear(context, request->fail,
                                       physical->at, physical->nbytes, what)
                                 : status;
}

static symmcoll_status_t open_context(const struct symc_memory_request *request,
    struct symc_cuda_context *context, struct symc_cuda_entered *entered)
{
    symmcoll_status_t status = symc_cuda_request_open(request, context);

    return status == SYMMCOLL_OK
               ? symc_cuda_enter_or_fail(context, request->fail, entered)
               : status;
}

symmcoll_status_t symc_cuda_memory_begin(
    const struct symc_memory_request *request, struct symc_cuda_memory **memory,
    struct symc_cuda_entered *entered)
{
    struct symc_cuda_memory *made = calloc(1, sizeof(*made));
    symmcoll_status_t status;

    entered->in = NULL;
    if (made == NULL) {
        (void)request->fail(
            SYMMCOLL_ERR_NO_MEMORY, "no memory for an allocation");
        return SYMMCOLL_ERR_NO_MEMORY;
    }
    atomic_init(&made->uses, 1);
    made->nbytes = request->nbytes;
    made->threads = request->threads;
    made->words = request->words;
    status = open_context(request, &made->context, entered);
    made->log = (struct symc_cuda_log){
        .cuda = made->context.cuda, .log = request->log, .of = request->of};
    if (status == SYMMCOLL_OK)
        *memory = made;
    else
        symc_cuda_memory_free(made);
    return status;
}

symmcoll_status_t symc_cuda_memory_end(symmcoll_status_t status,
    struct symc_cuda_memory *memory, struct symc_cuda_entered *entered)
{
    symc_cuda_leave(entered);
    if (status != SYMMCOLL_OK)
        symc_cuda_memory_free(memory);
    return status;
}

symmcoll_status_t symc_cuda_memory_allocate(
    const struct symc_memory_request *request, void **memory, void **at)
{
    struct symc_cuda_memory *made;
    struct symc_cuda_entered entered;
    symmcoll_status_t status = symc_cuda_memory_begin(request, &made, &entered);

    if (status != SYMMCOLL_OK)
        return status;
    status = allocate(request, made);
    made->data = made->physical.at;
    status = symc_cuda_memory_end(status, made, &entered);
    if (status != SYMMCOLL_OK)
        return status;
    *memory = made;
    *at = (void *)(uintptr_t)made->data;
    return SYMMCOLL_OK;
}
