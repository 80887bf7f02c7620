/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the settings of symmetric memory: its place, its pages, and its pads.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "t/symm_mem/symm.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Returns the bytes of this process's mappings of memfds of allocations. */
static size_t mapped_memfds(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned long from, to;
    size_t nbytes = 0;

    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        if (strstr(line, "memfd:symmcoll:symm") != NULL &&
            sscanf(line, "%lx-%lx", &from, &to) == 2)
            nbytes += to - from;
    }
    if (maps != NULL)
        fclose(maps);
    return nbytes;
}

static int the_pad_is_set(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    struct symmcoll_symm *handle;
    void *data;

    (void)rank;
    return join(group, 100, &data, &handle) &&
           OK(symmcoll_symm_get_info(handle, &info)) &&
           HOLDS(info.pad == 1024 && info.channels == 1024 / 4 / 2) &&
           part(group, data, handle);
}

static int small_is_in_the_arena(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm *handle;
    void *data;

    (void)rank;
    return join(group, 100000, &data, &handle) && HOLDS(mapped_memfds() == 0) &&
           part(group, data, handle);
}

/* Checks that each rank maps its own memfd and those of the others, and that
 * nothing remains in the end. */
static int memfds_are_exchanged(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    struct symmcoll_symm *handle;
    int *data;
    bool right = true;

    for (int round = 0; right && round < 3; round++) {
        right = join(group, 100000, (void **)&data, &handle) &&
                OK(symmcoll_symm_get_info(handle, &info)) &&
                HOLDS(info.buffers[rank] == data) &&
                HOLDS(mapped_memfds() >= 102400u * (unsigned)size);
        if (!right)
            return false;
        data[24999] = rank + 1 + round;
        right = OK(symmcoll_symm_barrier(handle, 0, -1));
        for (int r = 0; right && r < size; r++)
            right = HOLDS(((int *)info.buffers[r])[24999] == r + 1 + round);
        right = OK(symmcoll_symm_barrier(handle, 0, -1)) && right &&
                part(group, data, handle) &&
                OK(symmcoll_barrier(group, NULL, NULL));
    }
    return right && HOLDS(mapped_memfds() == 0);
}

/* Joins allocations of which some have a memfd and some have none. */
static int both_kinds_are_joined(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    struct symmcoll_symm *handle;
    int size = symmcoll_group_size(group), fd;
    int *data;
    bool right;

    if (rank == 1) {
        fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        right = fd >= 0 && ftruncate(fd, 8192) == 0 &&
                fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0 &&
                OK(symmcoll_symm_import(
                    world, fd, 4096, 4000, NULL, (void **)&data));
        close(fd);
    } else {
        right = OK(symmcoll_symm_alloc(world, 4000, NULL, (void **)&data));
    }
    right = right && OK(symmcoll_symm_rendezvous(group, data, NULL, &handle)) &&
            OK(symmcoll_symm_get_info(handle, &info));
    for (int r = 0; right && r < size; r++)
        ((int *)info.buffers[r])[rank] = 10 * r + rank;
    right = right && OK(symmcoll_symm_barrier(handle, 0, -1));
    for (int r = 0; right && r < size; r++)
        right = HOLDS(data[r] == 10 * rank + r);
    return right && part(group, data, handle);
}

/* Checks that with too few huge pages the log has a line and normal pages are
 * used. */
static int huge_pages_or_a_reason(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm *handle;
    char said[4096] = "";
    int log = memfd_create("log", 0), kept = dup(2);
    void *data;
    bool right;

    dup2(log, 2);
    right = join(group, (size_t)4 << 20, &data, &handle);
    dup2(kept, 2);
    if (pread(log, said, sizeof(said) - 1, 0) < 0)
        said[0] = '\0';
    close(log);
    close(kept);
    if (!right)
        return false;
    memset(data, rank + 1, (size_t)4 << 20);
    return HOLDS(strstr(said, "huge pages") != NULL ||
                 mapped_memfds() >= ((size_t)4 << 20)) &&
           OK(symmcoll_symm_barrier(handle, 0, -1)) &&
           part(group, data, handle);
}

int main(void)
{
    plan(8);
    ok(ranks_run(2, small_is_in_the_arena),
        "what is small needs no memfd of its own");
    groups_both(
        3, both_kinds_are_joined, "a memfd of one rank and none of another");
    setenv("SYMMCOLL_SYMM_MEM_PAD", "1KiB", 1);
    ok(ranks_run(2, the_pad_is_set), "symm_mem.pad: a pad has so many bytes");
    unsetenv("SYMMCOLL_SYMM_MEM_PAD");
    setenv("SYMMCOLL_SYMM_MEM_MEMFD_MIN", "0", 1);
    ok(ranks_run(3, memfds_are_exchanged),
        "symm_mem.memfd_min: from there on allocations have memfds");
    ok(threads_run(3, memfds_are_exchanged),
        "symm_mem.memfd_min: and so have those of threads");
    unsetenv("SYMMCOLL_SYMM_MEM_MEMFD_MIN");
    setenv("SYMMCOLL_SYMM_MEM_HUGE_PAGES", "on", 1);
    ok(ranks_run(2, huge_pages_or_a_reason),
        "symm_mem.huge_pages: they are used, or a line says why not");
    unsetenv("SYMMCOLL_SYMM_MEM_HUGE_PAGES");
    ok(ranks_run(2, small_is_in_the_arena), "without them none says so");
    return done_testing();
}
