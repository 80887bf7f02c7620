/* SPDX-License-Identifier: BSD-3-Clause */
/* Physical allocations of the fake driver: each is a file in memory. */
#ifndef T_CUDA_FAKE_PHYSICAL_H
#define T_CUDA_FAKE_PHYSICAL_H

#include "t/cuda/fake/state.h"

struct fake_physical {
    struct fake_physical *next;
    CUmemAllocationProp properties;
    size_t nbytes;
    int fd;
    int handles, mappings; /* how many keep it */
    bool imported;
    bool multicast;
    unsigned int wanted, added; /* devices of a multicast object */
};

/* A file in memory whose name says of which device it is; -1: none is left. */
int fake_make_file(int device, size_t nbytes);
/* The device and size of such a file; false: it is another. */
bool fake_read_file(int fd, int *device, size_t *nbytes);

/* With the lock. */
struct fake_physical *fake_add_physical(const struct fake_physical *physical);
struct fake_physical *fake_find_physical(CUmemGenericAllocationHandle handle);

#endif
