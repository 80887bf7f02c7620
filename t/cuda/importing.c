/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests joining the program's own memory, from cuMemAlloc() and from
 * cuMemMap(), beginning at any address in it; and memory that cannot be
 * joined.
 */
#include "t/cuda/joined.h"
#include "t/cuda/mapped.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NBYTES ((size_t)10000)
#define VICTIM 1

/* ---- memory that can be joined ---- */

static int meets(struct symmcoll_group *group)
{
    return symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
}

static void *import(
    struct symmcoll_group *group, int device, size_t nbytes, void *data)
{
    struct symc_memory_request request = joined_request(group, device, nbytes);
    void *memory = NULL;

    if (joined_backend(group)->mem->import(&request, data, &memory) !=
        SYMMCOLL_OK)
        diag("%s", symmcoll_last_error());
    return memory;
}

/* Checks the joined memory, and that bytes beside it do not change. offset: of
 * this rank's part. */
static int is_joined(struct symmcoll_group *group, int rank, char *begin,
    size_t offset, size_t whole)
{
    const struct symc_memory_ops *mem = joined_backend(group)->mem;
    struct symc_joined *joined[2] = {NULL, NULL};
    void *memory = import(group, rank, NBYTES, begin + offset);
    int right = memory != NULL;

    for (int i = 0; i < 2; i++)
        right = say(joined_join(group, memory, &joined[i]) == SYMMCOLL_OK,
                    "join") &&
                right;
    if (!right)
        return 0;
    right = joined[0]->at[rank] == begin + offset &&
            joined[0]->nbytes == NBYTES &&
            joined_is_common(group, rank, joined[0], true);
    mem->leave(joined[0]);
    right = joined_is_common(group, rank, joined[1], false) && right;
    mem->free(memory);
    right = joined_is_common(group, rank, joined[1], false) && right;
    mem->leave(joined[1]);
    for (size_t i = 0; i < whole; i++)
        right =
            right && (begin[i] == 0) == (i < offset || i >= offset + NBYTES);
    return meets(group) && right;
}

static int joins_allocated(struct symmcoll_group *group, int rank)
{
    size_t whole = NBYTES + 160;
    char *begin;
    int before, right;

    device_use(rank);
    right = joined_open(group, rank);
    before = joined_objects();
    begin = device_alloc(whole);
    right =
        right && is_joined(group, rank, begin, 48 + 16 * (size_t)rank, whole);
    device_free(begin);
    if (!group->world->threads)
        right = say(joined_objects() == before, "nothing is left") && right;
    return right;
}

static int joins_mapped_at(
    struct symmcoll_group *group, int rank, size_t offset, size_t more)
{
    struct mapped mapped;
    int before, right;

    device_use(rank);
    right = joined_open(group, rank);
    before = joined_objects();
    mapped = map_pages(rank, 4 + more, !group->world->threads);
    right = right && is_joined(group, rank, (void *)(uintptr_t)mapped.at,
                         offset, mapped.nbytes);
    unmap_pages(&mapped);
    if (!group->world->threads)
        right = say(joined_objects() == before, "nothing is left") && right;
    return right;
}

static int joins_mapped(struct symmcoll_group *group, int rank)
{
    return joins_mapped_at(group, rank, 32, 0);
}

/* Joins from a different offset on each rank, in allocations of different
 * sizes. */
static int joins_mapped_apart(struct symmcoll_group *group, int rank)
{
    return joins_mapped_at(group, rank, 32 * (size_t)rank, (size_t)rank);
}

/* The program unmaps the memory before the members have left it. */
static int outlives_its_mapping(struct symmcoll_group *group, int rank)
{
    const struct symc_memory_ops *mem;
    struct symc_joined *joined = NULL;
    struct mapped mapped;
    void *memory;
    int right;

    device_use(rank);
    right = joined_open(group, rank);
    mem = joined_backend(group)->mem;
    mapped = map_pages(rank, 4, !group->world->threads);
    memory = import(group, rank, NBYTES, (void *)(uintptr_t)mapped.at);
    right = say(joined_join(group, memory, &joined) == SYMMCOLL_OK, "join") &&
            right;
    memset(joined->at[rank], 3 + rank, NBYTES);
    right = meets(group) && right;
    unmap_pages(&mapped);
    right = meets(group) && right;
    for (int r = 0; r < joined->size; r++)
        right = right && (r == rank || *(char *)joined->at[r] == 3 + r);
    right = meets(group) && right;
    mem->leave(joined);
    mem->free(memory);
    return right;
}

/* ---- memory that cannot be joined ---- */

static int is_refused(const struct symmcoll_group *group,
    struct symc_memory_request request, void *data, symmcoll_status_t expected,
    const char *text)
{
    const struct symc_memory_ops *mem =
        group->runner.slots[SYMC_MEMORY_DEVICE].backend->mem;
    void *memory = NULL;

    return ended(mem->import(&request, data, &memory), expected, text) &&
           memory == NULL;
}

static int refuses_other_memory(struct symmcoll_group *group, int rank)
{
    struct symc_memory_request request;
    void *host = malloc(NBYTES);
    char *other, *own;
    int right;

    device_use(rank + 4);
    other = device_alloc(NBYTES);
    device_use(rank);
    right = joined_open(group, rank);
    own = device_alloc(NBYTES);
    request = joined_request(group, rank, NBYTES);
    right = right &&
            is_refused(group, request, host, SYMMCOLL_ERR_UNSUPPORTED,
                "which is of no device") &&
            is_refused(group, request, NULL, SYMMCOLL_ERR_UNSUPPORTED,
                "which is of no device") &&
            is_refused(group, request, other, SYMMCOLL_ERR_INVALID,
                rank == 0 ? "expected memory of device 0, found 0x"
                          : "expected memory of device 1, found 0x") &&
            is_refused(group, request, own + 8, SYMMCOLL_ERR_INVALID,
                "expected memory at a multiple of 16, found 0x") &&
            is_refused(group, request, own + 16, SYMMCOLL_ERR_INVALID,
                "found 9988: the allocation there has 10004 bytes from");
    request.device = 8;
    right = right && is_refused(group, request, own, SYMMCOLL_ERR_INVALID,
                         "expected a device of 0 to 7, found 8");
    device_free(own);
    request.device = rank;
    right = right && is_refused(group, request, own, SYMMCOLL_ERR_INVALID,
                         "which no allocation has");
    free(host);
    device_free(other);
    return right;
}

/* Checks that memory which other processes cannot map is refused. */
static int refuses_private_memory(struct symmcoll_group *group, int rank)
{
    struct symc_memory_request request;
    struct mapped mapped;
    void *own;
    int before, right;

    device_use(rank);
    right = joined_open(group, rank);
    before = joined_objects();
    mapped = map_pages(rank, 4, false);
    own = device_alloc(NBYTES);
    request = joined_request(group, rank, NBYTES);
    right = right && is_refused(group, request, (void *)(uintptr_t)mapped.at,
                         SYMMCOLL_ERR_UNSUPPORTED,
                         "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR");
    fake_configure("fail=cuIpcGetMemHandle:1:1");
    right = right && is_refused(group, request, own, SYMMCOLL_ERR_DEVICE,
                         "cuIpcGetMemHandle of 0x");
    unmap_pages(&mapped);
    device_free(own);
    return say(joined_objects() == before, "nothing is left") && right;
}

/* ---- pool memory ---- */

static void *pool_alloc(size_t nbytes)
{
    CUdeviceptr at = 0;

    if (cuMemAllocAsync(&at, nbytes, CU_STREAM_PER_THREAD) != CUDA_SUCCESS ||
        cuMemsetD8Async(at, 0, nbytes, CU_STREAM_PER_THREAD) != CUDA_SUCCESS)
        abort();
    device_wait(CU_STREAM_PER_THREAD);
    return (void *)(uintptr_t)at;
}

/* Returns whether a device may access memory of another device's pool. */
static int has_access(int device, int of)
{
    CUmemLocation location = {
        .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    CUmemoryPool pool = NULL;

    return cuDeviceGetDefaultMemPool(&pool, of) == CUDA_SUCCESS &&
           cuMemPoolGetAccess(&flags, pool, &location) == CUDA_SUCCESS &&
           flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

/* Joins memory of pools: threads can give each other access, processes
 * cannot. */
static int joins_of_pools(struct symmcoll_group *group, int rank)
{
    int device = device_use(rank), next, right = joined_open(group, rank);
    char *begin = pool_alloc(NBYTES + 160);
    struct symc_memory_request request = joined_request(group, rank, NBYTES);

    next = device == 0;
    if (group->world->threads)
        right = right && is_joined(group, rank, begin, 48, NBYTES + 160) &&
                say(has_access(device, next), "access to the next one's pool");
    else
        right =
            right && is_refused(group, request, begin, SYMMCOLL_ERR_UNSUPPORTED,
                         "of a memory pool (cuMemAllocAsync)");
    right = meets(group) && right;
    device_free(begin);
    return right;
}

static int names_a_pool(struct symmcoll_group *group, int rank)
{
    struct symc_joined *joined = NULL;
    void *memory, *begin;
    int right;

    device_use(rank);
    right = joined_open(group, rank);
    begin = pool_alloc(NBYTES);
    memory = import(group, rank, NBYTES, begin);
    if (rank == VICTIM)
        fake_configure("fail=cuMemPoolSetAccess:0:801");
    right = ended(joined_join(group, memory, &joined), SYMMCOLL_ERR_UNSUPPORTED,
                "cuMemPoolSetAccess to the pool of rank ") &&
            right;
    joined_backend(group)->mem->free(memory);
    right = meets(group) && right;
    device_free(begin);
    return right;
}

/* One member's memory is invalid, those of the others are valid. */
static int differs(struct symmcoll_group *group, int rank)
{
    const struct symc_memory_ops *mem;
    struct symc_joined *joined = NULL;
    void *memory, *at, *own;
    int right;

    device_use(rank);
    right = joined_open(group, rank);
    mem = joined_backend(group)->mem;
    own = device_alloc(NBYTES);
    memory = rank == VICTIM ? import(group, rank, NBYTES, own)
                            : joined_alloc(group, rank, NBYTES, &at);
    right = right &&
            ended(joined_join(group, memory, &joined), SYMMCOLL_ERR_UNSUPPORTED,
                "found that of cuMemCreate() on rank 0 and of cuMemAlloc() on "
                "rank 1") &&
            joined == NULL;
    mem->free(memory);
    device_free(own);
    return right;
}

static int any_call_fails(struct symmcoll_group *group, int rank)
{
    static const char *const names[] = {"cuDevicePrimaryCtxRetain",
        "cuIpcOpenMemHandle", "cuIpcOpenMemHandle:2", "cuMemCreate",
        "cuMemcpyAsync"};
    struct symc_joined *joined = NULL;
    void *memory, *own;
    int right;

    device_use(rank);
    right = joined_open(group, rank);
    own = device_alloc(NBYTES);
    memory = import(group, rank, NBYTES, own);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names) && right; i++) {
        char setting[80];
        int before = joined_objects();

        snprintf(setting, sizeof(setting), "fail=%s%s:999", names[i],
            strchr(names[i], ':') != NULL ? "" : ":1");
        if (rank == VICTIM)
            fake_configure(setting);
        right = ended(joined_join(group, memory, &joined), SYMMCOLL_ERR_DEVICE,
                    "rank 1: ") &&
                meets(group) &&
                say(joined_objects() == before, "nothing is left") && right;
    }
    right = say(joined_join(group, memory, &joined) == SYMMCOLL_OK, "then") &&
            right;
    right = right && joined_is_common(group, rank, joined, true);
    joined_backend(group)->mem->leave(joined);
    joined_backend(group)->mem->free(memory);
    right = meets(group) && right;
    device_free(own);
    return right;
}

int main(void)
{
    device_begin();
    on_both(3, joins_allocated,
        "memory of cuMemAlloc(), from another address of each on");
    on_both(3, joins_mapped, "mapped memory, from the same offset on");
    on_both(3, joins_mapped_apart, "mapped memory, from other offsets on");
    on_both(2, outlives_its_mapping,
        "mapped memory stays when the program has unmapped it");
    on_both(2, refuses_other_memory,
        "host memory, another device's, freed, misaligned, too little: "
        "refused, with the reason");
    ok(ranks_run(2, refuses_private_memory),
        "memory that other processes cannot map is refused, with the reason");
    on_both(2, joins_of_pools,
        "memory of a pool: threads give access to it, processes are refused");
    ok(threads_run(2, names_a_pool),
        "where access to a pool is refused that is told");
    on_both(3, differs,
        "mapped memory of one and memory of cuMemAlloc() of another member");
    ok(ranks_run(3, any_call_fails),
        "whatever call of the driver fails, all learn whose, and nothing is "
        "left");
    return done_testing();
}
