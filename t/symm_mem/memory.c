/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests symmetric memory of one rank: its contents, ids, imports, and its end.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "t/symm_mem/symm.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static bool is_zero(const void *data, size_t nbytes)
{
    const unsigned char *bytes = data;

    for (size_t i = 0; i < nbytes; i++) {
        if (bytes[i] != 0)
            return false;
    }
    return true;
}

/* Allocates many sizes and writes each to its end; again after they have been
 * freed. */
static int is_zeroed_and_apart(struct symmcoll_group *group, int rank)
{
    static const size_t sizes[] = {0, 1, 15, 16, 17, 4096, 5000, 1 << 20};
    struct symmcoll_world *world = symmcoll_group_world(group);
    unsigned char *data[LENGTH(sizes)];
    bool right = true;

    for (int round = 0; right && round < 3; round++) {
        for (size_t i = 0; right && i < LENGTH(sizes); i++) {
            right = OK(symmcoll_symm_alloc(
                        world, sizes[i], NULL, (void **)&data[i])) &&
                    HOLDS((uintptr_t)data[i] % 4096 == 0) &&
                    HOLDS(is_zero(data[i], sizes[i]));
            if (right && sizes[i] > 0)
                memset(data[i], rank + 1 + (int)i, sizes[i]);
        }
        for (size_t i = 0; right && i < LENGTH(sizes); i++) {
            for (size_t j = 0; j < sizes[i]; j++)
                right =
                    right && data[i][j] == (unsigned char)(rank + 1 + (int)i);
            right = HOLDS(right) && OK(symmcoll_symm_free(world, data[i]));
        }
    }
    return right;
}

static int a_tensor_is_laid_out(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_tensor plain = SYMMCOLL_TENSOR_INIT, strided = plain;
    struct symmcoll_tensor huge = plain;
    bool right;

    (void)rank;
    plain.dtype = strided.dtype = SYMMCOLL_FLOAT32;
    plain.ndim = strided.ndim = 2;
    plain.shape[0] = strided.shape[0] = 64;
    plain.shape[1] = strided.shape[1] = 32;
    strided.strides[0] = 1;
    strided.strides[1] = 64;
    huge.ndim = 3;
    huge.shape[0] = huge.shape[1] = huge.shape[2] = INT64_C(1) << 40;
    right = OK(symmcoll_symm_alloc_tensor(world, NULL, &plain)) &&
            OK(symmcoll_symm_alloc_tensor(world, NULL, &strided)) &&
            HOLDS(plain.strides[0] == 32 && plain.strides[1] == 1) &&
            HOLDS(strided.strides[0] == 1 && strided.strides[1] == 64) &&
            HOLDS(is_zero(plain.data, 64 * 32 * 4)) &&
            HOLDS(is_zero(strided.data, 64 * 32 * 4)) &&
            OK(symmcoll_symm_free(world, plain.data)) &&
            OK(symmcoll_symm_free(world, strided.data)) &&
            groups_said(rank, symmcoll_symm_alloc_tensor(world, NULL, &huge),
                SYMMCOLL_ERR_INVALID, "product") &&
            HOLDS(huge.data == NULL);
    strided.strides[0] = -1;
    return right &&
           groups_said(rank, symmcoll_symm_alloc_tensor(world, NULL, &strided),
               SYMMCOLL_ERR_INVALID, "found -1 in dimension 0");
}

/* Uses an id again while it is in use, after it was freed, and with another
 * size. */
static int an_id_is_one_memory(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    int *data, *again;
    void *other;
    struct symmcoll_symm *handle, *same;
    bool right;

    args.id = 42;
    right = OK(symmcoll_symm_alloc(world, 8192, &args, (void **)&data)) &&
            groups_said(rank, symmcoll_symm_alloc(world, 8192, &args, &other),
                SYMMCOLL_ERR_INVALID, "found 42") &&
            OK(symmcoll_symm_rendezvous(group, data, NULL, &handle));
    if (!right)
        return false;
    data[0] = 7;
    symmcoll_symm_release(handle);
    right = OK(symmcoll_symm_free(world, data)) &&
            HOLDS(!symmcoll_symm_is_symmetric(world, data)) &&
            groups_said(rank, symmcoll_symm_alloc(world, 4096, &args, &other),
                SYMMCOLL_ERR_INVALID, "8192") &&
            OK(symmcoll_symm_alloc(world, 8192, &args, (void **)&again)) &&
            HOLDS(again == data && again[0] == 7) &&
            OK(symmcoll_symm_get(group, again, &same)) &&
            HOLDS(same == handle) && OK(symmcoll_symm_free(world, again));
    args.id = -1;
    return right &&
           groups_said(rank, symmcoll_symm_alloc(world, 8192, &args, &other),
               SYMMCOLL_ERR_INVALID, "found -1");
}

static int addresses_are_known(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    static int foreign;
    char *data;
    bool right = OK(symmcoll_symm_alloc(world, 100, NULL, (void **)&data)) &&
                 HOLDS(symmcoll_symm_is_symmetric(world, data) == 1) &&
                 HOLDS(symmcoll_symm_is_symmetric(world, data + 99) == 1) &&
                 HOLDS(symmcoll_symm_is_symmetric(world, data + 100) == 0) &&
                 HOLDS(symmcoll_symm_is_symmetric(world, &foreign) == 0) &&
                 HOLDS(symmcoll_symm_is_symmetric(world, NULL) == 0) &&
                 groups_said(rank, symmcoll_symm_free(world, data + 4),
                     SYMMCOLL_ERR_INVALID, "inside of an allocation") &&
                 groups_said(rank, symmcoll_symm_free(world, &foreign),
                     SYMMCOLL_ERR_INVALID, "expected an address") &&
                 OK(symmcoll_symm_free(world, NULL)) &&
                 OK(symmcoll_symm_free(world, data));

    return right && groups_said(rank, symmcoll_symm_free(world, data),
                        SYMMCOLL_ERR_INVALID, "expected an address");
}

static int make_memfd(size_t nbytes, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd >= 0 && ftruncate(fd, (off_t)nbytes) == 0 &&
        (seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0))
        return fd;
    diag("no memfd");
    return -1;
}

/* Checks that the memfd has the data which the program and its peers write. */
static int a_memfd_is_imported(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    int size = symmcoll_group_size(group), peer = (rank + 1) % size;
    int fd = make_memfd(65536, F_SEAL_SHRINK);
    int found = -1, expected = (rank + size - 1) % size;
    void *data, *theirs;
    struct symmcoll_symm *handle;
    bool right;

    right = OK(symmcoll_symm_import(world, fd, 8192, 5000, NULL, &data)) &&
            OK(symmcoll_symm_rendezvous(group, data, NULL, &handle)) &&
            OK(symmcoll_symm_buffer(handle, peer, 4, 4, &theirs));
    if (!right)
        return false;
    memcpy(theirs, &rank, sizeof(rank));
    right =
        OK(symmcoll_symm_barrier(handle, 0, -1)) &&
        HOLDS(pread(fd, &found, sizeof(found), 8192 + 4) == sizeof(found)) &&
        HOLDS(found == expected) &&
        HOLDS(memcmp((char *)data + 4, &expected, 4) == 0);
    close(fd);
    return part(group, data, handle) && right;
}

static int bad_memfds_are_refused(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    int good = make_memfd(65536, F_SEAL_SHRINK), open = make_memfd(65536, 0);
    int pipes[2] = {-1, -1};
    void *data = NULL;
    bool right;

    args.id = 3;
    right =
        pipe(pipes) == 0 &&
        groups_said(rank,
            symmcoll_symm_import(world, open, 0, 65536, NULL, &data),
            SYMMCOLL_ERR_INVALID, "sealed against shrinking") &&
        groups_said(rank,
            symmcoll_symm_import(world, pipes[0], 0, 65536, NULL, &data),
            SYMMCOLL_ERR_INVALID, "found no memfd") &&
        groups_said(rank,
            symmcoll_symm_import(world, good, 4096, 65536, NULL, &data),
            SYMMCOLL_ERR_INVALID, "one of 65536 bytes") &&
        groups_said(rank,
            symmcoll_symm_import(world, good, 100, 4096, NULL, &data),
            SYMMCOLL_ERR_INVALID, "multiple of 4096") &&
        groups_said(rank,
            symmcoll_symm_import(world, good, 0, SIZE_MAX, NULL, &data),
            SYMMCOLL_ERR_INVALID, "found 18446744073709551615") &&
        groups_said(rank, symmcoll_symm_import(world, -1, 0, 4096, NULL, &data),
            SYMMCOLL_ERR_INVALID, "found -1") &&
        groups_said(rank,
            symmcoll_symm_import(world, good, 0, 4096, &args, &data),
            SYMMCOLL_ERR_INVALID, "expected no id") &&
        HOLDS(data == NULL);
    close(good);
    close(open);
    close(pipes[0]);
    close(pipes[1]);
    return right;
}

static int bad_arguments_are_refused(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    void *data = NULL;
    bool right;

    args.pad = 24;
    right = groups_said(rank, symmcoll_symm_alloc(NULL, 1, NULL, &data),
                SYMMCOLL_ERR_INVALID, "expected a world") &&
            groups_said(rank, symmcoll_symm_alloc(world, 1, NULL, NULL),
                SYMMCOLL_ERR_INVALID, "a place for the address") &&
            groups_said(rank, symmcoll_symm_alloc(world, 1, &args, &data),
                SYMMCOLL_ERR_INVALID, "found 24") &&
            groups_said(rank, symmcoll_symm_alloc(world, SIZE_MAX, NULL, &data),
                SYMMCOLL_ERR_NO_MEMORY, "requested") &&
            groups_said(rank,
                symmcoll_symm_alloc(world, (size_t)1 << 46, NULL, &data),
                SYMMCOLL_ERR_NO_MEMORY, "64 TiB");
    args = (struct symmcoll_symm_args)SYMMCOLL_SYMM_ARGS_INIT;
    args.size = 4;
    return right &&
           groups_said(rank, symmcoll_symm_alloc(world, 1, &args, &data),
               SYMMCOLL_ERR_INVALID, "symm_alloc: expected args of size") &&
           HOLDS(data == NULL);
}

/* Allocates and frees repeatedly: few addresses are used. */
static int what_is_freed_is_used_again(struct symmcoll_group *group, int rank)
{
    void *data = NULL, *seen[100] = {NULL};
    struct symmcoll_symm *handle;
    size_t count = 0, at;
    bool right = true;

    (void)rank;
    for (size_t i = 0; right && i < LENGTH(seen); i++) {
        right = join(group, (size_t)8 << 20, &data, &handle) &&
                part(group, data, handle) &&
                (i % 10 != 0 || OK(symmcoll_barrier(group, NULL, NULL)));
        for (at = 0; at < count && seen[at] != data; at++)
            ;
        seen[at] = data;
        count += at == count;
    }
    return right && HOLDS(count < LENGTH(seen) / 2);
}

int main(void)
{
    plan(16);
    groups_both(3, is_zeroed_and_apart,
        "an allocation begins as zeros and on a page, and is nobody else's (S1)");
    groups_both(2, a_tensor_is_laid_out,
        "a tensor has its own strides, or those of a contiguous one");
    groups_both(2, an_id_is_one_memory,
        "an id has the same memory after it has been freed, and not before (S7)");
    groups_both(2, addresses_are_known,
        "an address is symmetric from the allocation until it is freed (S10)");
    groups_both(3, a_memfd_is_imported,
        "memory of a memfd of the program's is joined without a copy");
    groups_both(
        2, bad_memfds_are_refused, "a memfd that may shrink, or is none");
    groups_both(2, bad_arguments_are_refused,
        "bad arguments are named, and nothing is allocated");
    groups_both(2, what_is_freed_is_used_again,
        "what all members have let go of is used again");
    return done_testing();
}
