/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helpers for tests of symmetric device memory. Rank r has device r of the
 * driver; if the driver has fewer devices, ranks share them.
 */
#ifndef T_SYMM_MEM_DEVICE_H
#define T_SYMM_MEM_DEVICE_H

#include "t/cuda/members.h"
#include "t/symm_mem/symm.h"

#include <stdlib.h>

/* Joined memory of a rank's device, and the group's current stream. */
struct joined {
    struct symmcoll_group *group;
    struct symmcoll_world *world;
    struct symmcoll_symm *handle;
    int rank, size, next, before;
    char *data;
    size_t nbytes;
    CUstream stream;
};

static inline struct symmcoll_symm_args device_args(int device)
{
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;

    args.device = SYMMCOLL_CUDA;
    args.device_index = device;
    return args;
}

/* Checks that a call ended with a status and that its error contains both
 * texts. */
static inline bool refused(symmcoll_status_t status, symmcoll_status_t expected,
    const char *text, const char *more)
{
    return ended(status, expected, text) && ended(status, expected, more);
}

static inline bool begin_joined(
    struct joined *it, struct symmcoll_group *group, int rank, size_t nbytes)
{
    struct symmcoll_symm_args args = device_args(device_use(rank));
    int size = symmcoll_group_size(group);

    *it = (struct joined){.group = group,
        .world = symmcoll_group_world(group),
        .rank = rank,
        .size = size,
        .next = (rank + 1) % size,
        .before = (rank + size - 1) % size,
        .nbytes = nbytes,
        .stream = device_stream()};
    return OK(symmcoll_group_set_stream(group, it->stream)) &&
           OK(symmcoll_symm_alloc(
               it->world, nbytes, &args, (void **)&it->data)) &&
           OK(symmcoll_symm_rendezvous(group, it->data, NULL, &it->handle));
}

static inline bool end_joined(struct joined *it, bool right)
{
    device_wait(it->stream);
    symmcoll_symm_release(it->handle);
    right = OK(symmcoll_symm_free(it->world, it->data)) && right;
    right = OK(symmcoll_group_set_stream(it->group, NULL)) && right;
    device_end_stream(it->stream);
    return right;
}

/* Fills with bytes that differ between ranks. */
static inline void make_pattern(unsigned char *at, size_t nbytes, int seed)
{
    for (size_t i = 0; i < nbytes; i++)
        at[i] = (unsigned char)((size_t)seed * 37 + i * 11 + i / 251 + 1);
}

static inline bool is_pattern(const void *device, size_t nbytes, int seed)
{
    unsigned char *found = malloc(nbytes), *expected = malloc(nbytes);
    bool right;

    device_read(found, device, nbytes);
    make_pattern(expected, nbytes, seed);
    right = memcmp(found, expected, nbytes) == 0;
    if (!right)
        diag("the bytes are not those of %d: %02x %02x ...", seed, found[0],
            found[1]);
    free(found);
    free(expected);
    return right;
}

static inline void write_pattern(void *device, size_t nbytes, int seed)
{
    unsigned char *made = malloc(nbytes);

    make_pattern(made, nbytes, seed);
    device_write(device, made, nbytes);
    free(made);
}

static inline bool is_zero(const void *device, size_t nbytes)
{
    unsigned char *found = malloc(nbytes);
    bool right = true;

    device_read(found, device, nbytes);
    for (size_t i = 0; i < nbytes; i++)
        right = right && found[i] == 0;
    free(found);
    return right;
}

#endif
