/* SPDX-License-Identifier: BSD-3-Clause */
/* Physical allocations of the fake driver: each is a file in memory. */
#ifndef T_CUDA_FAKE_PHYSICAL_H
#define T_CUDA_FAKE_PHYSICAL_H

#include "t/cuda/fake/state.h"

#include <stdatomic.h>

/* The state of a multicast object that all processes share, at the beginning
 * of its file. */
struct fake_team {
    _Atomic uint32_t wanted;       /* how many devices */
    _Atomic uint32_t added, bound; /* devices, a bit for each */
};

struct fake_physical {
    struct fake_physical *next;
    CUmemAllocationProp properties;
    size_t nbytes;
    int fd;
    int handles, mappings; /* how many keep it */
    bool imported;
    struct fake_team *team;      /* of a multicast object; NULL: memory */
    struct fake_physical *bound; /* to the object, by this handle; NULL: none */
    size_t bound_nbytes;
    int bindings; /* of this memory */
};

#define FAKE_MULTICAST (-1) /* the device of a multicast object's file */

/* ---- files.c ---- */

/* Creates a file in memory with the device in its name; -1: no descriptor is
 * left. */
int fake_make_file(int device, size_t nbytes);
/* Reads the device and size of such a file; false: another file. */
bool fake_read_file(int fd, int *device, size_t *nbytes);

/* ---- physical.c ---- */

/* Called with the lock. */
struct fake_physical *fake_add_physical(const struct fake_physical *physical);
struct fake_physical *fake_find_physical(CUmemGenericAllocationHandle handle);

/* ---- multicast.c ---- */

/* Maps the shared state of the object in its file; false: no memory. */
bool fake_join_team(struct fake_physical *object);
void fake_leave_team(struct fake_physical *object);

#endif
