/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the memory of the fake driver: physical allocations, addresses, and
 * sharing with other processes. */
#include "t/cuda/device.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define MIB ((size_t)1 << 20)

static CUmemAllocationProp properties(void)
{
    CUmemAllocationProp made = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};

    made.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return made;
}

static int allow(CUdeviceptr at, size_t nbytes)
{
    CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return good(cuMemSetAccess(at, nbytes, &access, 1));
}

/* Checks the type of memory and its device. */
static int is_memory(const void *at, unsigned int type, int device)
{
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    unsigned int found = 77;
    int ordinal = 77;
    void *values[] = {&found, &ordinal};

    return good(cuPointerGetAttributes(2, names, values, (uintptr_t)at)) &&
           found == type && (type == 0 || ordinal == device);
}

/* ---- physical allocations ---- */

static int an_allocation_has_two_addresses(void *unused)
{
    CUmemAllocationProp of = properties();
    CUmemGenericAllocationHandle handle = 0, again = 0;
    CUdeviceptr at = 0;
    int right = open_device("", 0);

    (void)unused;
    right = right && good(cuMemCreate(&handle, 2 * MIB, &of, 0)) &&
            good(cuMemAddressReserve(&at, 4 * MIB, 0, 0, 0)) &&
            at % (2 * MIB) == 0 && good(cuMemMap(at, 2 * MIB, 0, handle, 0)) &&
            good(cuMemMap(at + 2 * MIB, 2 * MIB, 0, handle, 0)) &&
            allow(at, 4 * MIB) && word_at(at, 5) != 0;
    *(volatile uint32_t *)(uintptr_t)(at + 12) = 34;
    right = right && word_at(at + 2 * MIB, 3) == 34 &&
            is_memory((void *)(uintptr_t)(at + 9), CU_MEMORYTYPE_DEVICE, 0);
    right =
        right &&
        good(
            cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(at + 1))) &&
        good(cuMemRelease(again)) && good(cuMemRelease(handle)) &&
        returned(cuMemAddressFree(at, 4 * MIB), CUDA_ERROR_INVALID_VALUE) &&
        good(cuMemUnmap(at, 4 * MIB)) && good(cuMemAddressFree(at, 4 * MIB)) &&
        is_memory((void *)(uintptr_t)at, 0, 0);
    return right && close_device(0);
}

static int sizes_are_multiples_of_the_granularity(void *unused)
{
    CUmemAllocationProp of = properties();
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr at = 0;
    size_t granularity = 0;
    int right = open_device("granularity=64K", 0);

    (void)unused;
    right =
        right &&
        good(cuMemGetAllocationGranularity(
            &granularity, &of, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)) &&
        granularity == 64 * 1024 &&
        returned(
            cuMemCreate(&handle, 1000, &of, 0), CUDA_ERROR_INVALID_VALUE) &&
        good(cuMemCreate(&handle, granularity, &of, 0)) &&
        returned(cuMemAddressReserve(&at, 4096, 0, 0, 0),
            CUDA_ERROR_INVALID_VALUE) &&
        good(cuMemAddressReserve(&at, granularity, 0, 0, 0)) &&
        returned(cuMemMap(at, 4096, 0, handle, 0), CUDA_ERROR_INVALID_VALUE) &&
        returned(cuMemMap(at + granularity, granularity, 0, handle, 0),
            CUDA_ERROR_INVALID_VALUE) &&
        good(cuMemMap(at, granularity, 0, handle, 0)) &&
        returned(cuMemMap(at, granularity, 0, handle, 0),
            CUDA_ERROR_INVALID_VALUE) &&
        good(cuMemUnmap(at, granularity)) &&
        good(cuMemAddressFree(at, granularity)) && good(cuMemRelease(handle)) &&
        returned(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    return right && close_device(0);
}

static int memory_ends(void *unused)
{
    CUmemAllocationProp of = properties();
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr at = 0;
    size_t left = 0, total = 0;
    int right = open_device("memory=4M", 0);

    (void)unused;
    right = right && good(cuMemCreate(&handle, 2 * MIB, &of, 0)) &&
            good(cuMemAlloc(&at, MIB)) && good(cuMemGetInfo(&left, &total)) &&
            left == MIB && total == 4 * MIB &&
            returned(cuMemCreate(&handle, 2 * MIB, &of, 0),
                CUDA_ERROR_OUT_OF_MEMORY) &&
            returned(cuMemAlloc(&at, 2 * MIB), CUDA_ERROR_OUT_OF_MEMORY) &&
            good(cuMemFree(at)) && good(cuMemRelease(handle)) &&
            good(cuMemGetInfo(&left, &total)) && left == total;
    return right && close_device(0);
}

static int handles_are_of_the_kind_that_was_asked_for(void *unused)
{
    CUmemAllocationProp of = properties();
    CUmemGenericAllocationHandle handle = 0;
    CUmemFabricHandle fabric;
    int fd = -1, right = open_device("", 0);

    (void)unused;
    of.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    right = right && good(cuMemCreate(&handle, 2 * MIB, &of, 0)) &&
            returned(cuMemExportToShareableHandle(&fd, handle,
                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                CUDA_ERROR_INVALID_VALUE) &&
            good(cuMemRelease(handle));
    of.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
    right = right &&
            returned(cuMemCreate(&handle, 2 * MIB, &of, 0),
                CUDA_ERROR_NOT_PERMITTED) &&
            fake_configure("fabric=1") &&
            good(cuMemCreate(&handle, 2 * MIB, &of, 0)) &&
            good(cuMemExportToShareableHandle(
                &fabric, handle, CU_MEM_HANDLE_TYPE_FABRIC, 0)) &&
            good(cuMemRelease(handle));
    return right && close_device(0);
}

/* ---- other processes ---- */

struct shared {
    int fd;
    CUipcMemHandle ipc;
    CUipcMemHandle *published; /* of memory that both processes have */
    _Atomic int *state;
};

/* Runs in the other process: writes 5 to the memory that it received. */
static int write_imported(void *arg)
{
    const struct shared *shared = arg;
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr at = 0;
    int right = open_device("", 0) &&
                good(cuMemImportFromShareableHandle(&handle,
                    (void *)(uintptr_t)shared->fd,
                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) &&
                good(cuMemAddressReserve(&at, 2 * MIB, 0, 0, 0)) &&
                good(cuMemMap(at, 2 * MIB, 0, handle, 0)) &&
                good(cuMemRelease(handle)) && allow(at, 2 * MIB);

    if (right)
        *(volatile uint32_t *)(uintptr_t)at = 5;
    return right && good(cuMemUnmap(at, 2 * MIB)) &&
           good(cuMemAddressFree(at, 2 * MIB)) && close_device(0);
}

/* Runs in a child that was forked before this process uses CUDA, and that
 * waits for a descriptor. */
static int make_and_export(void *arg)
{
    struct shared *shared = arg;
    CUmemAllocationProp of = properties();
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr at = 0;
    int fd = -1;
    int right = open_device("", 0) &&
                good(cuMemCreate(&handle, 2 * MIB, &of, 0)) &&
                good(cuMemExportToShareableHandle(&fd, handle,
                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)) &&
                dup2(fd, shared->fd) == shared->fd && close(fd) == 0;
    pid_t pid = right ? fork() : -1;

    /* The child of a process that has used CUDA may not use it, but a new
     * program may. */
    if (pid == 0) {
        (void)execl("/proc/self/exe", "fake_memory", "import", (char *)NULL);
        _exit(1);
    }
    right = right && end_child(pid) &&
            good(cuMemAddressReserve(&at, 2 * MIB, 0, 0, 0)) &&
            good(cuMemMap(at, 2 * MIB, 0, handle, 0)) &&
            good(cuMemRelease(handle)) && allow(at, 2 * MIB) &&
            word_at(at, 0) == 5 && good(cuMemUnmap(at, 2 * MIB)) &&
            good(cuMemAddressFree(at, 2 * MIB));
    (void)close(shared->fd);
    return right && close_device(0);
}

#define SHARED_FD 77 /* of the exported allocation, in both processes */

static int memory_is_exported(void)
{
    struct shared shared = {.fd = SHARED_FD};

    return run_child(make_and_export, &shared);
}

/* Opens the handle that its parent publishes, and writes 6 at its offset. */
static int write_opened(void *arg)
{
    struct shared *shared = arg;
    CUdeviceptr at = 0, again = 0;
    int right;

    while (atomic_load(shared->state) != 1)
        (void)usleep(1000);
    right = open_device("", 0) &&
            good(cuIpcOpenMemHandle(
                &at, *shared->published, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) &&
            good(cuIpcOpenMemHandle(&again, *shared->published,
                CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) &&
            again == at && good(cuIpcCloseMemHandle(again)) &&
            is_memory((void *)(uintptr_t)at, CU_MEMORYTYPE_DEVICE, 0);
    if (right)
        *(volatile uint32_t *)(uintptr_t)(at + 8) = 6;
    return right && good(cuIpcCloseMemHandle(at)) && close_device(0);
}

static int publish(void *arg)
{
    struct shared *shared = arg;
    pid_t pid = start_child(write_opened, shared);
    CUdeviceptr at = 0, other = 0;
    int right = open_device("", 0) && (at = make_words(100)) != 0 &&
                good(cuIpcGetMemHandle(shared->published, at + 40)) &&
                returned(cuIpcOpenMemHandle(&other, *shared->published,
                             CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                    CUDA_ERROR_INVALID_CONTEXT);

    atomic_store(shared->state, right ? 1 : 0);
    if (!right)
        (void)kill(pid, SIGKILL);
    return right && end_child(pid) && word_at(at, 2) == 6 &&
           good(cuMemFree(at)) && close_device(0);
}

static int memory_is_opened(void)
{
    struct shared shared = {.fd = -1};
    void *both = mmap(
        NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int right;

    if (both == MAP_FAILED)
        return 0;
    shared.published = both;
    shared.state = (_Atomic int *)((char *)both + 2048);
    right = run_child(publish, &shared);
    (void)munmap(both, 4096);
    return right;
}

/* ---- addresses ---- */

static int an_address_is_known(void *unused)
{
    static uint32_t mine[16];
    CUdeviceptr device = 0, managed = 0, begin = 0, mapped = 0;
    void *host = NULL;
    size_t nbytes = 0;
    int right = open_device("devices=2", 1);

    (void)unused;
    right =
        right && good(cuMemAlloc(&device, 100)) &&
        good(cuMemAllocManaged(&managed, 100, CU_MEM_ATTACH_GLOBAL)) &&
        good(cuMemHostAlloc(&host, 100, CU_MEMHOSTALLOC_PORTABLE)) &&
        is_memory((void *)(uintptr_t)(device + 99), CU_MEMORYTYPE_DEVICE, 1) &&
        is_memory((void *)(uintptr_t)(device + 100), 0, 0) &&
        is_memory(host, CU_MEMORYTYPE_HOST, 1) && is_memory(mine, 0, 0) &&
        good(cuMemHostRegister(mine, sizeof(mine), 0)) &&
        returned(cuMemHostRegister(mine, sizeof(mine), 0),
            CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) &&
        is_memory(&mine[3], CU_MEMORYTYPE_HOST, 1) &&
        good(cuMemHostGetDevicePointer(&mapped, mine, 0)) &&
        mapped == (uintptr_t)mine && good(cuMemHostUnregister(mine)) &&
        is_memory(mine, 0, 0);
    right = right && good(cuMemGetAddressRange(&begin, &nbytes, device + 50)) &&
            begin == device && nbytes == 100 && good(cuMemFreeHost(host)) &&
            good(cuMemFree(managed)) && good(cuMemFree(device)) &&
            returned(cuMemFree(device), CUDA_ERROR_INVALID_VALUE);
    return right && close_device(1);
}

/* ---- contexts ---- */

static int calls_need_a_context(void *unused)
{
    CUcontext context = NULL, popped = NULL;
    CUdeviceptr at = 0;
    int count = 0, right;

    (void)unused;
    right = returned(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED) &&
            good(cuInit(0)) && good(cuDeviceGetCount(&count)) && count == 1 &&
            returned(cuMemAlloc(&at, 64), CUDA_ERROR_INVALID_CONTEXT) &&
            returned(cuDevicePrimaryCtxRetain(&context, 1),
                CUDA_ERROR_INVALID_DEVICE) &&
            good(cuDevicePrimaryCtxRetain(&context, 0)) &&
            returned(cuMemAlloc(&at, 64), CUDA_ERROR_INVALID_CONTEXT) &&
            good(cuCtxPushCurrent(context)) && fake_pushed() == 1 &&
            good(cuMemAlloc(&at, 64)) && good(cuMemFree(at)) &&
            good(cuDevicePrimaryCtxRelease(0)) &&
            returned(cuMemAlloc(&at, 64), CUDA_ERROR_CONTEXT_IS_DESTROYED) &&
            good(cuCtxPopCurrent(&popped)) && popped == context &&
            returned(cuCtxPopCurrent(&popped), CUDA_ERROR_INVALID_CONTEXT);
    return right;
}

static int ask_in_a_fork(void *unused)
{
    int count = 0;

    (void)unused;
    return returned(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
}

static int a_fork_has_no_driver(void *unused)
{
    (void)unused;
    return good(cuInit(0)) && run_child(ask_in_a_fork, NULL);
}

static int multicast_is_made(void *unused)
{
    CUmulticastObjectProp of = {.numDevices = 2,
        .size = 2 * MIB,
        .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    CUmemAllocationProp memory = properties(), unshared = properties();
    CUmemGenericAllocationHandle object = 0, handle = 0, other = 0;
    int can = -1, right = open_device("devices=3", 0);

    (void)unused;
    unshared.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    right =
        right &&
        good(cuDeviceGetAttribute(
            &can, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0)) &&
        can == 0 &&
        returned(cuMulticastCreate(&object, &of), CUDA_ERROR_NOT_SUPPORTED) &&
        fake_configure("multicast=1") &&
        good(cuMulticastCreate(&object, &of)) &&
        good(cuMemCreate(&handle, 2 * MIB, &memory, 0)) &&
        returned(cuMulticastAddDevice(handle, 0), CUDA_ERROR_INVALID_VALUE) &&
        good(cuMulticastAddDevice(object, 1)) &&
        returned(cuMulticastAddDevice(object, 1), CUDA_ERROR_INVALID_VALUE) &&
        returned(cuMulticastBindMem(object, 0, handle, 0, 2 * MIB, 0),
            CUDA_ERROR_ILLEGAL_STATE) &&
        good(cuMulticastAddDevice(object, 0)) &&
        returned(cuMulticastAddDevice(object, 2), CUDA_ERROR_INVALID_VALUE) &&
        good(cuMemCreate(&other, 2 * MIB, &unshared, 0)) &&
        returned(cuMulticastBindMem(object, 0, other, 0, 2 * MIB, 0),
            CUDA_ERROR_INVALID_VALUE) &&
        good(cuMulticastBindMem(object, 0, handle, 0, 2 * MIB, 0)) &&
        returned(cuMulticastBindMem(object, 0, handle, 0, 2 * MIB, 0),
            CUDA_ERROR_INVALID_VALUE) &&
        returned(
            cuMulticastUnbind(object, 0, 0, MIB), CUDA_ERROR_INVALID_VALUE) &&
        good(cuMulticastUnbind(object, 0, 0, 2 * MIB)) &&
        good(cuMemRelease(object)) && good(cuMemRelease(handle)) &&
        good(cuMemRelease(other));
    return right && close_device(0);
}

static int peers_are_reached_once(void *unused)
{
    CUcontext own = NULL, other = NULL;
    int right = open_device("devices=2", 0);

    (void)unused;
    right =
        right && good(cuCtxGetCurrent(&own)) &&
        returned(cuCtxEnablePeerAccess(own, 0), CUDA_ERROR_INVALID_CONTEXT) &&
        good(cuDevicePrimaryCtxRetain(&other, 1)) &&
        returned(cuCtxEnablePeerAccess(other, 1), CUDA_ERROR_INVALID_VALUE) &&
        good(cuCtxEnablePeerAccess(other, 0)) &&
        returned(cuCtxEnablePeerAccess(other, 0),
            CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) &&
        good(cuDevicePrimaryCtxRelease(1));
    return right && close_device(0);
}

/* Releases the object, or the memory, while it is bound: the program ends. */
static int release_bound(void *first)
{
    CUmulticastObjectProp of = {.numDevices = 1,
        .size = 2 * MIB,
        .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    CUmemAllocationProp memory = properties();
    CUmemGenericAllocationHandle object = 0, handle = 0;

    (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    return open_device("multicast=1", 0) &&
           good(cuMulticastCreate(&object, &of)) &&
           good(cuMulticastAddDevice(object, 0)) &&
           good(cuMemCreate(&handle, 2 * MIB, &memory, 0)) &&
           good(cuMulticastBindMem(object, 0, handle, 0, 2 * MIB, 0)) &&
           good(cuMemRelease(first != NULL ? object : handle));
}

static int bound_memory_is_unbound(void)
{
    int one = 1;

    return !run_child(release_bound, NULL) && !run_child(release_bound, &one);
}

int main(int argc, char **argv)
{
    struct shared shared = {.fd = SHARED_FD};

    (void)argv;
    if (argc > 1)
        return write_imported(&shared) ? 0 : 1;
    /* Freeing memory that does not exist returns an error. */
    (void)fake_configure("reuse=1");
    plan(12);
    ok(run_child(an_allocation_has_two_addresses, NULL),
        "an allocation is mapped at two addresses");
    ok(run_child(sizes_are_multiples_of_the_granularity, NULL),
        "sizes are multiples of the granularity");
    ok(run_child(memory_ends, NULL), "a device's memory ends");
    ok(run_child(handles_are_of_the_kind_that_was_asked_for, NULL),
        "handles are of the kind that was asked for");
    ok(memory_is_exported(), "another process imports an allocation");
    ok(memory_is_opened(),
        "another process opens an allocation by IPC, its own one does not");
    ok(run_child(an_address_is_known, NULL),
        "it is known what is at an address");
    ok(run_child(calls_need_a_context, NULL), "calls need a current context");
    ok(run_child(a_fork_has_no_driver, NULL),
        "the child of a process that has used CUDA cannot use it");
    ok(run_child(multicast_is_made, NULL),
        "a multicast object is made of memory of all its devices");
    ok(run_child(peers_are_reached_once, NULL),
        "access to a peer is enabled once");
    ok(bound_memory_is_unbound(),
        "memory that is bound is not released, nor its object");
    return done_testing();
}
