/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests device memory that the members of a group join: its contents and its
 * lifetime. Whatever is wrong on one member, all members get the error, none
 * has joined, no resource remains, and the next attempt succeeds.
 */
#include "t/cuda/joined.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define VICTIM 1
#define NBYTES ((size_t)10000)

/* ---- valid memory ---- */

/* Joins in two groups, one after the other and both at once; the memory is
 * freed before it is left. */
static int joins(struct symmcoll_group *group, int rank)
{
    struct symmcoll_group *other;
    struct symc_joined *joined[2] = {NULL, NULL};
    const struct symc_backend *backend;
    void *memory, *at = NULL;
    int right;

    device_use(rank);
    other = joined_group(group);
    right = joined_open(group, rank) && joined_open(other, rank);
    backend = joined_backend(group);
    memory = joined_alloc(group, rank, NBYTES, &at);
    if (memory == NULL || !right)
        return 0;
    right = say(joined_join(group, memory, &joined[0]) == SYMMCOLL_OK, "join");
    right = right && joined[0]->at[rank] == at && joined[0]->nbytes == NBYTES &&
            joined_is_common(group, rank, joined[0], true);
    right =
        say(joined_join(other, memory, &joined[1]) == SYMMCOLL_OK, "again") &&
        right;
    backend->mem->leave(joined[0]);
    right = right && joined_is_common(other, rank, joined[1], false);
    backend->mem->free(memory);
    right = right && joined_is_common(other, rank, joined[1], false);
    backend->mem->leave(joined[1]);
    return symmcoll_group_free(other) == SYMMCOLL_OK && right;
}

/* Frees the group before its joined memory. */
static int outlives_its_group(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group;
    const struct symc_backend *backend;
    struct symc_joined *joined = NULL;
    void *memory, *at = NULL;
    int before, right;

    device_use(rank);
    right = joined_open(all, rank);
    if (symmcoll_barrier(all, NULL, NULL) != SYMMCOLL_OK)
        return 0;
    before = joined_objects();
    group = joined_group(all);
    right = joined_open(group, rank) && right;
    backend = joined_backend(group);
    memory = joined_alloc(group, rank, NBYTES, &at);
    right = say(joined_join(group, memory, &joined) == SYMMCOLL_OK, "join") &&
            right;
    right = say(symmcoll_group_free(group) == SYMMCOLL_OK, "free") && right;
    right = right && joined_is_common(all, rank, joined, true);
    backend->mem->leave(joined);
    backend->mem->free(memory);
    if (symmcoll_barrier(all, NULL, NULL) != SYMMCOLL_OK)
        return 0;
    return say(joined_objects() == before, "nothing is left") && right;
}

/* ---- invalid memory ---- */

/* Checks that all members get the same error from a join, that no resource
 * remains, and that most of them can then join the same memory. */
static int is_refused(struct symmcoll_group *group, void *memory,
    symmcoll_status_t expected, const char *text)
{
    struct symc_joined none, *joined = &none;
    int before, right;

    /* Objects of threads are counted together, so no thread may create any
     * here. */
    if (symmcoll_barrier(group, NULL, NULL) != SYMMCOLL_OK)
        return 0;
    before = joined_objects();
    if (symmcoll_barrier(group, NULL, NULL) != SYMMCOLL_OK)
        return 0;
    right = ended(joined_join(group, memory, &joined), expected, text);
    if (symmcoll_barrier(group, NULL, NULL) != SYMMCOLL_OK)
        return 0;
    right = say(joined == &none, "nothing is joined") && right;
    right = say(joined_objects() == before, "nothing is left") && right;
    return symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK && right;
}

static int joins_afterwards(
    struct symmcoll_group *group, int rank, void *memory)
{
    struct symc_joined *joined = NULL;
    int right =
        say(joined_join(group, memory, &joined) == SYMMCOLL_OK, "afterwards");

    right = right && joined_is_common(group, rank, joined, false);
    if (joined != NULL)
        joined_backend(group)->mem->leave(joined);
    return right;
}

static int sizes_differ(struct symmcoll_group *group, int rank)
{
    void *at, *memory, *other;
    int right;

    device_use(rank);
    right = joined_open(group, rank);
    memory = joined_alloc(group, rank, NBYTES, &at);
    other = joined_alloc(group, rank, NBYTES + 4, &at);
    right = right &&
            is_refused(group, rank == VICTIM ? other : memory,
                SYMMCOLL_ERR_MISMATCH,
                "found 10000 bytes on rank 0 and 10004 on rank 1") &&
            joins_afterwards(group, rank, memory);
    joined_backend(group)->mem->free(memory);
    joined_backend(group)->mem->free(other);
    return right;
}

static int is_of_another_device(struct symmcoll_group *group, int rank)
{
    void *at, *memory, *other;
    int right;

    device_use(rank);
    right = joined_open(group, rank);
    memory = joined_alloc(group, rank, NBYTES, &at);
    other = joined_alloc(group, rank + 4, NBYTES, &at);
    right =
        right &&
        is_refused(group, rank == VICTIM ? other : memory, SYMMCOLL_ERR_INVALID,
            "rank 1: expected memory of device 1, on which group ") &&
        joins_afterwards(group, rank, memory);
    joined_backend(group)->mem->free(memory);
    joined_backend(group)->mem->free(other);
    return right;
}

static int any_call_fails(struct symmcoll_group *group, int rank)
{
    static const char *const names[] = {"cuMemAddressReserve", "cuMemMap",
        "cuMemSetAccess", "cuMemExportToShareableHandle",
        "cuMemImportFromShareableHandle", "cuMemMap:2", "cuMemSetAccess:3"};
    char setting[80], text[80];
    void *at, *memory;
    int right;

    device_use(rank);
    right = joined_open(group, rank);
    memory = joined_alloc(group, rank, NBYTES, &at);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names) && right; i++) {
        bool counted = strchr(names[i], ':') != NULL;
        int length = (int)strcspn(names[i], ":");

        snprintf(setting, sizeof(setting), "fail=%s%s:999", names[i],
            counted ? "" : ":1");
        snprintf(text, sizeof(text), "rank 1: %.*s of", length, names[i]);
        if (strncmp(names[i], "cuMemSetAccess", 14) == 0)
            snprintf(text, sizeof(text), "rank 1: cuMemSetAccess to rank");
        if (rank == VICTIM)
            fake_configure(setting);
        right = is_refused(group, memory, SYMMCOLL_ERR_DEVICE, text) &&
                joins_afterwards(group, rank, memory);
    }
    joined_backend(group)->mem->free(memory);
    return right;
}

/* Makes a call fail in one of the threads, whichever makes it. */
static int a_thread_fails(struct symmcoll_group *group, int rank)
{
    static const char *const settings[] = {"fail=cuMemAddressReserve:2:999",
        "fail=cuMemMap:1:999", "fail=cuMemMap:5:999",
        "fail=cuMemSetAccess:9:999"};
    struct symc_joined *joined = NULL;
    void *at, *memory;
    int right;

    device_use(rank);
    right = joined_open(group, rank);
    memory = joined_alloc(group, rank, NBYTES, &at);
    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++) {
        if (symmcoll_barrier(group, NULL, NULL) != SYMMCOLL_OK)
            return 0;
        if (rank == 0)
            fake_configure(settings[i]);
        if (symmcoll_barrier(group, NULL, NULL) != SYMMCOLL_OK)
            return 0;
        right = ended(joined_join(group, memory, &joined), SYMMCOLL_ERR_DEVICE,
                    "symmetric memory") &&
                joined == NULL && joins_afterwards(group, rank, memory) &&
                right;
    }
    joined_backend(group)->mem->free(memory);
    return right;
}

/* Returns the number of descriptors of this process. */
static rlim_t count_descriptors(void)
{
    int fd = dup(0);

    (void)close(fd);
    return (rlim_t)fd;
}

static int descriptors_end(struct symmcoll_group *group, int rank)
{
    struct rlimit before, few;
    void *at, *memory;
    int right;

    device_use(rank);
    right = joined_open(group, rank);
    memory = joined_alloc(group, rank, NBYTES, &at);
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    if (rank == VICTIM) {
        few.rlim_cur = count_descriptors() + 1;
        setrlimit(RLIMIT_NOFILE, &few);
    }
    right =
        right && joined_join(group, memory, &(struct symc_joined *){NULL}) < 0;
    right =
        say(strstr(symmcoll_last_error(),
                "rank 1 could not send its descriptor: Too many open files") !=
                NULL,
            "whose") &&
        right;
    setrlimit(RLIMIT_NOFILE, &before);
    right = joins_afterwards(group, rank, memory) && right;
    joined_backend(group)->mem->free(memory);
    return right;
}

/* ---- requests of one rank ---- */

static int allocates_in_vain(struct symmcoll_group *group, int rank)
{
    static const size_t sizes[] = {
        (size_t)512 << 20, SIZE_MAX / 2 - 4096, SIZE_MAX};
    static const char *const texts[] = {"CUDA_ERROR_OUT_OF_MEMORY",
        "CUDA_ERROR_OUT_OF_MEMORY", "expected as many bytes as memory has"};
    const struct symc_memory_ops *mem;
    struct symc_memory_request request;
    void *memory = NULL, *at = NULL;
    int before, right;

    device_use(rank);
    right = joined_open(group, rank);
    mem = joined_backend(group)->mem;
    before = joined_objects();
    for (int i = 0; i < 3; i++) {
        request = joined_request(group, rank, sizes[i]);
        right = ended(mem->allocate(&request, &memory, &at),
                    SYMMCOLL_ERR_NO_MEMORY, texts[i]) &&
                memory == NULL && right;
    }
    request = joined_request(group, 8, NBYTES);
    right = ended(mem->allocate(&request, &memory, &at), SYMMCOLL_ERR_INVALID,
                "expected a device of 0 to 7, found 8") &&
            right;
    mem->free(NULL);
    if (group->world->threads)
        return right;
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"cuMemCreate",
            "cuMemAddressReserve", "cuMemMap", "cuMemsetD32Async"};
        char setting[80];

        snprintf(setting, sizeof(setting), "fail=%s:1:999", names[i]);
        fake_configure(setting);
        request = joined_request(group, rank, NBYTES);
        right = ended(mem->allocate(&request, &memory, &at),
                    SYMMCOLL_ERR_DEVICE, "symmetric memory") &&
                right;
    }
    fake_finish();
    return say(joined_objects() == before, "nothing is left") && right;
}

int main(void)
{
    device_begin();
    on_both(1, joins, "one rank joins its own memory");
    on_both(3, joins,
        "members find each other's memory, in two groups at once, and until the "
        "last one has left it");
    ok(ranks_run(2, outlives_its_group),
        "joined memory is left after its group was freed");
    on_both(3, sizes_differ, "sizes that differ: all learn whose");
    on_both(3, is_of_another_device,
        "memory of another device than the group's: all learn whose");
    ok(ranks_run(3, any_call_fails),
        "whatever call of the driver fails, all learn whose and which");
    ok(threads_run(3, a_thread_fails),
        "the same of threads, which map each other's handles");
    ok(ranks_run(3, descriptors_end),
        "a member that has no descriptors left: all learn whose, and the next "
        "attempt succeeds");
    on_both(2, allocates_in_vain,
        "too much memory, no such device, a call that fails: refused, with "
        "nothing left");
    return done_testing();
}
