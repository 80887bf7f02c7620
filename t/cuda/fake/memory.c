/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the fake driver that does not consist of physical allocations. */
#include "t/cuda/fake/physical.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, nbytes) ((void)(at), (void)(nbytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, nbytes) ((void)(at), (void)(nbytes))
#endif

static struct fake_range *ranges;

/* ---- with the lock ---- */

bool fake_take_memory(int device, size_t nbytes)
{
    if (nbytes > fake.settings.memory - fake.devices[device].used)
        return false;
    fake.devices[device].used += nbytes;
    return true;
}

void fake_return_memory(int device, size_t nbytes)
{
    fake.devices[device].used -= nbytes;
}

struct fake_range *fake_find_range(uintptr_t address)
{
    struct fake_range *range = ranges;

    while (range != NULL &&
           (address < range->begin || address >= range->begin + range->nbytes))
        range = range->next;
    return range;
}

void fake_add_range(const struct fake_range *range)
{
    struct fake_range *added = fake_alloc(sizeof(*added));

    *added = *range;
    added->next = ranges;
    ranges = added;
}

bool fake_remove_range(uintptr_t begin, struct fake_range *removed)
{
    struct fake_range **at = &ranges, *range;

    while (*at != NULL && (*at)->begin != begin)
        at = &(*at)->next;
    range = *at;
    if (range == NULL)
        return false;
    *removed = *range;
    *at = range->next;
    free(range);
    return true;
}

/* ---- device memory ---- */

/* Maps a file with an allocation, and adds its range. */
static CUresult add_allocation(
    int fd, int device, size_t nbytes, CUdeviceptr *address)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct fake_range range = {.nbytes = nbytes,
        .type = CU_MEMORYTYPE_DEVICE,
        .device = device,
        .context = fake_current(),
        .mapping_nbytes = (nbytes + page - 1) / page * page,
        .fd = fd};

    range.mapping = mmap(
        NULL, range.mapping_nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (range.mapping == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    range.begin = (uintptr_t)range.mapping;
    ASAN_POISON_MEMORY_REGION(
        (char *)range.mapping + nbytes, range.mapping_nbytes - nbytes);
    fake_add_range(&range);
    fake.live[FAKE_ALLOCATED]++;
    *address = range.begin;
    return CUDA_SUCCESS;
}

CUresult fake_deallocate(CUdeviceptr address, bool opened)
{
    struct fake_range *found = fake_find_range(address), range;

    if (found == NULL || found->begin != address || found->mapping == NULL ||
        found->type != CU_MEMORYTYPE_DEVICE || (found->opened > 0) != opened)
        return CUDA_ERROR_INVALID_VALUE;
    if (opened && --found->opened > 0)
        return CUDA_SUCCESS;
    (void)fake_remove_range(address, &range);
    if (!opened)
        fake_return_memory(range.device, range.nbytes);
    ASAN_UNPOISON_MEMORY_REGION(range.mapping, range.mapping_nbytes);
    /* Reserves the addresses that the program still holds against reuse. */
    (void)mmap(range.mapping, range.mapping_nbytes, PROT_NONE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    (void)close(range.fd);
    fake.live[FAKE_ALLOCATED]--;
    return CUDA_SUCCESS;
}

CUresult fake_allocate(CUdeviceptr *address, size_t nbytes, int device)
{
    CUresult result;
    int fd;

    if (nbytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_take_memory(device, nbytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    fd = fake_make_file(device, nbytes);
    result = fd >= 0 ? add_allocation(fd, device, nbytes, address)
                     : CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS) {
        fake_return_memory(device, nbytes);
        if (fd >= 0)
            (void)close(fd);
    }
    return result;
}

FAKE_API CUresult cuMemAlloc(CUdeviceptr *address, size_t nbytes)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT | FAKE_UNSAFE);

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    result = fake_allocate(address, nbytes, fake_current()->device);
    fake_unlock();
    return result;
}

FAKE_API CUresult cuMemAllocManaged(
    CUdeviceptr *address, size_t nbytes, unsigned int flags)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT | FAKE_UNSAFE);

    (void)flags;
    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    result = fake_allocate(address, nbytes, fake_current()->device);
    if (result == CUDA_SUCCESS)
        fake_find_range(*address)->managed = true;
    fake_unlock();
    return result;
}

FAKE_API CUresult cuMemFree(CUdeviceptr address)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT | FAKE_UNSAFE);
    const struct fake_range *found;

    if (result != CUDA_SUCCESS || address == 0)
        return result;
    fake_lock();
    found = fake_find_range(address);
    if (found != NULL && found->pool == NULL)
        fake_await_to_free();
    result = fake_deallocate(address, false);
    if (result != CUDA_SUCCESS)
        result = fake_refuse_free((void *)(uintptr_t)address, result);
    fake_unlock();
    return result;
}

/* ---- stream-ordered memory ---- */

FAKE_API CUresult cuMemGetInfo(size_t *free_nbytes, size_t *total)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    *total = fake.settings.memory;
    *free_nbytes = *total - fake.devices[fake_current()->device].used;
    fake_unlock();
    return CUDA_SUCCESS;
}

/* ---- memory of other processes ---- */

struct ipc {
    pid_t pid;
    int fd;
    size_t nbytes;
};

_Static_assert(sizeof(struct ipc) <= sizeof(CUipcMemHandle), "it fits");

FAKE_API CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);
    struct fake_range *range;
    struct ipc ipc;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    range = fake_find_range(address);
    /* Physical allocations have their own handles. */
    if (range == NULL || range->mapping == NULL || range->managed ||
        range->pool != NULL || range->opened > 0 ||
        range->type != CU_MEMORYTYPE_DEVICE) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        ipc = (struct ipc){getpid(), range->fd, range->nbytes};
        memset(handle, 0, sizeof(*handle));
        memcpy(handle, &ipc, sizeof(ipc));
    }
    fake_unlock();
    return result;
}

/* Opens an allocation of another process. Called with the lock. An allocation
 * that is already open keeps its one address, however often it is opened. */
static CUresult open_allocation(const struct ipc *ipc, CUdeviceptr *address)
{
    struct fake_range *range = ranges;
    size_t nbytes = 0;
    int device = 0, fd;
    char path[64];

    while (range != NULL && (range->opened == 0 || range->owner != ipc->pid ||
                                range->owner_fd != ipc->fd))
        range = range->next;
    if (range != NULL) {
        range->opened++;
        *address = range->begin;
        return CUDA_SUCCESS;
    }
    (void)snprintf(
        path, sizeof(path), "/proc/%d/fd/%d", (int)ipc->pid, ipc->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_read_file(fd, &device, &nbytes) || nbytes != ipc->nbytes ||
        add_allocation(fd, device, nbytes, address) != CUDA_SUCCESS) {
        (void)close(fd);
        return CUDA_ERROR_INVALID_VALUE;
    }
    range = fake_find_range(*address);
    range->opened = 1;
    range->owner = ipc->pid;
    range->owner_fd = ipc->fd;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuIpcOpenMemHandle(
    CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT | FAKE_UNSAFE);
    struct ipc ipc;

    if (result != CUDA_SUCCESS)
        return result;
    memcpy(&ipc, &handle, sizeof(ipc));
    if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    if (ipc.pid == getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    fake_lock();
    result = open_allocation(&ipc, address);
    fake_unlock();
    return result;
}

FAKE_API CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT | FAKE_UNSAFE);

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    result = fake_deallocate(address, true);
    if (result != CUDA_SUCCESS)
        result = fake_refuse_free((void *)(uintptr_t)address, result);
    fake_unlock();
    return result;
}

/* ---- host memory ---- */

static void add_host(void *at, size_t nbytes, bool registered)
{
    const struct fake_range range = {.begin = (uintptr_t)at,
        .nbytes = nbytes,
        .type = CU_MEMORYTYPE_HOST,
        .device = fake_current()->device,
        .context = fake_current(),
        .registered = registered,
        .fd = -1};

    fake_add_range(&range);
    fake.live[FAKE_HOST]++;
}

/* Removes the host range of that kind that begins there. */
static CUresult remove_host(const void *at, bool registered)
{
    struct fake_range *found, range;

    fake_lock();
    fake_await_to_free();
    found = fake_find_range((uintptr_t)at);
    if (found == NULL || found->begin != (uintptr_t)at ||
        found->type != CU_MEMORYTYPE_HOST || found->registered != registered) {
        fake_unlock();
        return registered ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
                          : CUDA_ERROR_INVALID_VALUE;
    }
    (void)fake_remove_range((uintptr_t)at, &range);
    fake.live[FAKE_HOST]--;
    fake_unlock();
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuMemHostAlloc(void **at, size_t nbytes, unsigned int flags)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT | FAKE_UNSAFE);

    if (result != CUDA_SUCCESS)
        return result;
    if (nbytes == 0 ||
        (flags & ~(unsigned int)(CU_MEMHOSTALLOC_PORTABLE |
                                 CU_MEMHOSTALLOC_DEVICEMAP |
                                 CU_MEMHOSTALLOC_WRITECOMBINED)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (posix_memalign(at, 4096, nbytes) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    fake_lock();
    add_host(*at, nbytes, false);
    fake_unlock();
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuMemFreeHost(void *at)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT | FAKE_UNSAFE);

    if (result != CUDA_SUCCESS)
        return result;
    result = remove_host(at, false);
    if (result != CUDA_SUCCESS)
        return fake_refuse_free(at, result);
    free(at);
    return result;
}

FAKE_API CUresult cuMemHostRegister(void *at, size_t nbytes, unsigned int flags)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT | FAKE_UNSAFE);

    (void)flags;
    if (result != CUDA_SUCCESS)
        return result;
    if (nbytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    fake_lock();
    if (fake_find_range((uintptr_t)at) != NULL)
        result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    else
        add_host(at, nbytes, true);
    fake_unlock();
    return result;
}

FAKE_API CUresult cuMemHostUnregister(void *at)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT | FAKE_UNSAFE);

    return result != CUDA_SUCCESS ? result : remove_host(at, true);
}

FAKE_API CUresult cuMemHostGetDevicePointer(
    CUdeviceptr *address, void *at, unsigned int flags)
{
    CUresult result = fake_enter(__func__, FAKE_CONTEXT);
    struct fake_range *range;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    range = fake_find_range((uintptr_t)at);
    if (flags != 0 || range == NULL || range->type != CU_MEMORYTYPE_HOST)
        result = CUDA_ERROR_INVALID_VALUE;
    else
        *address = (uintptr_t)at;
    fake_unlock();
    return result;
}
