/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of all members of a group that cannot be mapped in a row: kernels read each
 * member's address from a table.
 */
#ifndef SYMC_CUDA_PLACES_H
#define SYMC_CUDA_PLACES_H

#include "cuda/memory.h"
#include "kernels/args.h"

struct symc_cuda_group;

/* The opened allocations and the table.  Zeroed: none. */
struct symc_cuda_places {
    struct symc_cuda_context context; /* in which allocations are opened */
    CUdeviceptr
        opened[SYMC_KERNEL_RANKS];   /* by IPC from another process; 0: none */
    struct symc_cuda_physical table; /* of pointers, by rank */
};

/* A member's description of its memory of cuMemAlloc(), or of a pool. */
struct symc_cuda_allocation {
    CUipcMemHandle ipc; /* between processes */
    CUcontext context;  /* between threads */
    CUmemoryPool pool;  /* between threads; NULL: not of a pool */
    CUdeviceptr data;
    uint64_t offset; /* of data, in the allocation */
};

/*
 * Opens the allocations of all members; at (out): the address of each member's data.  The
 * group's context must be current.  Close the places after an error, too.
 * Errors: those of symc_cuda_fail().
 */
symmcoll_status_t symc_cuda_places_open(const struct symc_cuda_group *group,
    const struct symc_cuda_allocation *const *all, void **at,
    struct symc_cuda_places *places);

/* Writes the table of these addresses.  The context must be current.  Errors: those of
 * symc_cuda_fail(). */
symmcoll_status_t symc_cuda_places_write(const struct symc_cuda_group *group,
    void *const *at, struct symc_cuda_places *places);

/* Copies host bytes to the device and waits for the copy.  The context must be
 * current. */
struct symc_cuda_called symc_cuda_write(const struct symc_cuda *cuda,
    CUdeviceptr to, const void *from, size_t nbytes);

/* Closes the opened allocations and frees the table.  Needs neither the group nor a
 * current context. */
void symc_cuda_places_close(
    struct symc_cuda_log *log, struct symc_cuda_places *places);

#endif
