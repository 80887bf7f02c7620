/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/cuda/fake/physical.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILLED \
    ((size_t)2 << 20) /* bytes of a new allocation that are not
                                  * zero */

static struct fake_physical *physicals;

/* Fills new device memory, which is not zero. */
static void fill_file(int fd, size_t nbytes)
{
    unsigned char pattern[4096];

    memset(pattern, 0xa5, sizeof(pattern));
    if (nbytes > FILLED)
        nbytes = FILLED;
    for (size_t at = 0; at < nbytes; at += sizeof(pattern))
        if (pwrite(fd, pattern, sizeof(pattern), (off_t)at) < 0)
            fake_die("a file in memory cannot be written");
}

/* ---- the table ---- */

struct fake_physical *fake_add_physical(const struct fake_physical *physical)
{
    struct fake_physical *added = fake_alloc(sizeof(*added));

    *added = *physical;
    added->handles = 1;
    added->next = physicals;
    physicals = added;
    fake.live[FAKE_PHYSICAL]++;
    return added;
}

struct fake_physical *fake_find_physical(CUmemGenericAllocationHandle handle)
{
    struct fake_physical *at = physicals;

    while (at != NULL && (uintptr_t)at != handle)
        at = at->next;
    return at != NULL && at->handles > 0 ? at : NULL;
}

/* Frees an allocation without handles and mappings. */
static void drop_physical(struct fake_physical *physical)
{
    struct fake_physical **at = &physicals;

    if (physical->handles > 0 || physical->mappings > 0)
        return;
    if (physical->bound != NULL)
        fake_die("a multicast object is released that has memory");
    if (physical->bindings > 0)
        fake_die("memory is released that is bound to a multicast object");
    while (*at != physical)
        at = &(*at)->next;
    *at = physical->next;
    if (physical->team != NULL)
        fake_leave_team(physical);
    else if (!physical->imported)
        fake_return_memory(physical->properties.location.id, physical->nbytes);
    (void)close(physical->fd);
    free(physical);
}

static bool is_granular(size_t nbytes)
{
    return nbytes > 0 && nbytes % fake.settings.granularity == 0;
}

static bool is_of_device(const CUmemAllocationProp *properties)
{
    return properties->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
           properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
           properties->location.id >= 0 &&
           properties->location.id < fake.settings.devices;
}

/* ---- make and release ---- */

FAKE_API CUresult cuMemGetAllocationGranularity(size_t *granularity,
    const CUmemAllocationProp *properties,
    CUmemAllocationGranularity_flags option)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);

    (void)option;
    if (result == CUDA_SUCCESS && !is_of_device(properties))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *granularity = fake.settings.granularity;
    return result;
}

FAKE_API CUresult cuMemCreate(CUmemGenericAllocationHandle *handle,
    size_t nbytes, const CUmemAllocationProp *properties,
    unsigned long long flags)
{
    struct fake_physical made = {.properties = *properties, .nbytes = nbytes};
    CUresult result = fake_enter(__func__, FAKE_INIT | FAKE_UNSAFE);

    if (result != CUDA_SUCCESS)
        return result;
    if (flags != 0 || !is_of_device(properties) || !is_granular(nbytes) ||
        (properties->allocFlags.gpuDirectRDMACapable != 0 &&
            !fake.settings.rdma))
        return CUDA_ERROR_INVALID_VALUE;
    if ((properties->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC) != 0 &&
        !fake.settings.fabric)
        return CUDA_ERROR_NOT_PERMITTED;
    made.fd = -1;
    fake_lock();
    if (fake_take_memory(properties->location.id, nbytes)) {
        made.fd = fake_make_file(properties->location.id, nbytes);
        if (made.fd < 0)
            fake_return_memory(properties->location.id, nbytes);
    }
    if (made.fd >= 0) {
        fill_file(made.fd, nbytes);
        *handle = (uintptr_t)fake_add_physical(&made);
    }
    fake_unlock();
    return made.fd >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

FAKE_API CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);
    struct fake_physical *physical;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    physical = fake_find_physical(handle);
    if (physical != NULL) {
        physical->handles--;
        fake.live[FAKE_PHYSICAL]--;
        drop_physical(physical);
    }
    fake_unlock();
    return physical != NULL
               ? CUDA_SUCCESS
               : fake_refuse_free((void *)handle, CUDA_ERROR_INVALID_VALUE);
}

FAKE_API CUresult cuMemGetAllocationPropertiesFromHandle(
    CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);
    struct fake_physical *physical;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    physical = fake_find_physical(handle);
    if (physical != NULL)
        *properties = physical->properties;
    fake_unlock();
    return physical != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- sharing with other processes ---- */

/* A handle for other machines; here for a process of this one. */
struct fabric {
    pid_t pid;
    int fd;
};

_Static_assert(sizeof(struct fabric) <= sizeof(CUmemFabricHandle), "it fits");

FAKE_API CUresult cuMemExportToShareableHandle(void *shareable,
    CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
    unsigned long long flags)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);
    struct fake_physical *physical;
    int fd = -1;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    physical = fake_find_physical(handle);
    if (physical == NULL || flags != 0 ||
        (physical->properties.requestedHandleTypes & (unsigned int)type) == 0) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        fd = fcntl(physical->fd, F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
            result = CUDA_ERROR_OPERATING_SYSTEM;
        else
            memcpy(shareable, &fd, sizeof(fd));
    } else if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
        const struct fabric fabric = {getpid(), physical->fd};

        memset(shareable, 0, sizeof(CUmemFabricHandle));
        memcpy(shareable, &fabric, sizeof(fabric));
    } else {
        result = CUDA_ERROR_NOT_SUPPORTED;
    }
    fake_unlock();
    return result;
}

static int open_fabric(const void *handle)
{
    struct fabric fabric;
    char path[64];

    memcpy(&fabric, handle, sizeof(fabric));
    (void)snprintf(
        path, sizeof(path), "/proc/%d/fd/%d", (int)fabric.pid, fabric.fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

FAKE_API CUresult cuMemImportFromShareableHandle(
    CUmemGenericAllocationHandle *handle, void *from,
    CUmemAllocationHandleType type)
{
    struct fake_physical made = {.imported = true, .fd = -1};
    CUresult result = fake_enter(__func__, FAKE_INIT | FAKE_UNSAFE);
    int device = 0;

    if (result != CUDA_SUCCESS)
        return result;
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        made.fd = fcntl((int)(uintptr_t)from, F_DUPFD_CLOEXEC, 0);
    else if (type == CU_MEM_HANDLE_TYPE_FABRIC && fake.settings.fabric)
        made.fd = open_fabric(from);
    else
        return CUDA_ERROR_NOT_SUPPORTED;
    if (made.fd < 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_read_file(made.fd, &device, &made.nbytes)) {
        (void)close(made.fd);
        return CUDA_ERROR_INVALID_VALUE;
    }
    made.properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    made.properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    made.properties.location.id = device == FAKE_MULTICAST ? 0 : device;
    made.properties.requestedHandleTypes = type;
    if (device == FAKE_MULTICAST && !fake_join_team(&made)) {
        (void)close(made.fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    fake_lock();
    *handle = (uintptr_t)fake_add_physical(&made);
    fake_unlock();
    return CUDA_SUCCESS;
}

/* ---- addresses ---- */

/* A range of reserved addresses, or of addresses mapped in one. */
struct span {
    struct span *next;
    uintptr_t begin;
    size_t nbytes;
    struct fake_physical *physical;
};

static struct span *reserved, *mapped;

static struct span *add_span(struct span **list, uintptr_t begin, size_t nbytes,
    struct fake_physical *physical)
{
    struct span *span = fake_alloc(sizeof(*span));

    *span = (struct span){*list, begin, nbytes, physical};
    *list = span;
    return span;
}

/* Returns the span that overlaps a range; NULL: none. */
static struct span **overlapping(
    struct span **list, uintptr_t begin, size_t nbytes)
{
    while (*list != NULL && ((*list)->begin >= begin + nbytes ||
                                begin >= (*list)->begin + (*list)->nbytes))
        list = &(*list)->next;
    return *list != NULL ? list : NULL;
}

static void remove_span(struct span **at)
{
    struct span *span = *at;

    *at = span->next;
    free(span);
}

FAKE_API CUresult cuMemAddressReserve(CUdeviceptr *address, size_t nbytes,
    size_t alignment, CUdeviceptr wanted, unsigned long long flags)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);
    const size_t step = alignment > fake.settings.granularity
                            ? alignment
                            : fake.settings.granularity;
    uintptr_t begin, aligned;
    void *at;

    (void)wanted;
    if (result != CUDA_SUCCESS)
        return result;
    if (flags != 0 || !is_granular(nbytes) ||
        (alignment & (alignment - 1)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    at = mmap(NULL, nbytes + step, PROT_NONE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    begin = (uintptr_t)at;
    aligned = (begin + step - 1) / step * step;
    if (aligned > begin)
        (void)munmap(at, aligned - begin);
    if (begin + step > aligned)
        (void)munmap((void *)(aligned + nbytes), begin + step - aligned);
    fake_lock();
    (void)add_span(&reserved, aligned, nbytes, NULL);
    fake.live[FAKE_RESERVED]++;
    fake_unlock();
    *address = aligned;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuMemAddressFree(CUdeviceptr address, size_t nbytes)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);
    struct span **at;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    at = overlapping(&reserved, address, nbytes);
    if (at == NULL || (*at)->begin != address || (*at)->nbytes != nbytes ||
        overlapping(&mapped, address, nbytes) != NULL) {
        result = fake_refuse_free(
            (void *)(uintptr_t)address, CUDA_ERROR_INVALID_VALUE);
    } else {
        remove_span(at);
        fake.live[FAKE_RESERVED]--;
        (void)munmap((void *)(uintptr_t)address, nbytes);
    }
    fake_unlock();
    return result;
}

/* Called with the lock. */
static CUresult map(
    uintptr_t begin, size_t nbytes, struct fake_physical *physical)
{
    struct span **room = overlapping(&reserved, begin, nbytes);
    const struct fake_range range = {.begin = begin,
        .nbytes = nbytes,
        .reserved = room != NULL ? (*room)->begin : 0,
        .reserved_nbytes = room != NULL ? (*room)->nbytes : 0,
        .type = CU_MEMORYTYPE_DEVICE,
        .device = physical->properties.location.id,
        .fd = -1};

    if (room == NULL || begin < (*room)->begin ||
        begin + nbytes > (*room)->begin + (*room)->nbytes ||
        overlapping(&mapped, begin, nbytes) != NULL ||
        nbytes > physical->nbytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (mmap((void *)begin, nbytes, PROT_NONE, MAP_SHARED | MAP_FIXED,
            physical->fd, 0) == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    physical->mappings++;
    fake.live[FAKE_MAPPED]++;
    (void)add_span(&mapped, begin, nbytes, physical);
    fake_add_range(&range);
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuMemMap(CUdeviceptr address, size_t nbytes, size_t offset,
    CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    CUresult result = fake_enter(__func__, FAKE_INIT | FAKE_UNSAFE);
    struct fake_physical *physical;

    if (result != CUDA_SUCCESS)
        return result;
    if (flags != 0 || offset != 0 || !is_granular(nbytes) ||
        address % fake.settings.granularity != 0)
        return CUDA_ERROR_INVALID_VALUE;
    fake_lock();
    physical = fake_find_physical(handle);
    result = physical != NULL ? map(address, nbytes, physical)
                              : CUDA_ERROR_INVALID_VALUE;
    fake_unlock();
    return result;
}

FAKE_API CUresult cuMemUnmap(CUdeviceptr address, size_t nbytes)
{
    CUresult result = fake_enter(__func__, FAKE_INIT | FAKE_UNSAFE);
    struct fake_range range;
    struct span **at;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    result = CUDA_ERROR_INVALID_VALUE;
    while ((at = overlapping(&mapped, address, nbytes)) != NULL &&
           (*at)->begin >= address &&
           (*at)->begin + (*at)->nbytes <= address + nbytes) {
        (void)mmap((void *)(*at)->begin, (*at)->nbytes, PROT_NONE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        (void)fake_remove_range((*at)->begin, &range);
        (*at)->physical->mappings--;
        fake.live[FAKE_MAPPED]--;
        drop_physical((*at)->physical);
        remove_span(at);
        result = CUDA_SUCCESS;
    }
    if (result != CUDA_SUCCESS)
        result = fake_refuse_free((void *)(uintptr_t)address, result);
    fake_unlock();
    return result;
}

FAKE_API CUresult cuMemSetAccess(CUdeviceptr address, size_t nbytes,
    const CUmemAccessDesc *access, size_t count)
{
    CUresult result = fake_enter(__func__, FAKE_INIT | FAKE_UNSAFE);
    uintptr_t at = address;
    bool is_memory = true;

    if (result != CUDA_SUCCESS)
        return result;
    for (size_t i = 0; i < count; i++)
        if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            access[i].location.id < 0 ||
            access[i].location.id >= fake.settings.devices)
            return CUDA_ERROR_INVALID_VALUE;
    if (count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    fake_lock();
    while (at < address + nbytes && result == CUDA_SUCCESS) {
        struct span **span = overlapping(&mapped, at, 1);

        if (span == NULL)
            result = CUDA_ERROR_INVALID_VALUE;
        else
            at = (*span)->begin + (*span)->nbytes;
        if (span != NULL && (*span)->physical->team != NULL)
            is_memory = false; /* accessible only to multimem instructions */
    }
    if (result == CUDA_SUCCESS && is_memory &&
        mprotect((void *)(uintptr_t)address, nbytes,
            access[0].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                ? PROT_READ | PROT_WRITE
                : PROT_READ) != 0)
        result = CUDA_ERROR_INVALID_VALUE;
    fake_unlock();
    return result;
}

FAKE_API CUresult cuMemRetainAllocationHandle(
    CUmemGenericAllocationHandle *handle, void *address)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);
    struct span **at;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    at = overlapping(&mapped, (uintptr_t)address, 1);
    if (at == NULL) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        (*at)->physical->handles++;
        fake.live[FAKE_PHYSICAL]++;
        *handle = (uintptr_t)(*at)->physical;
    }
    fake_unlock();
    return result;
}
