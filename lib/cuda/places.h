/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of all members of a group that is not in a row: where each of them has
 * its own is in a table that kernels read.
 */
#ifndef SYMC_CUDA_PLACES_H
#define SYMC_CUDA_PLACES_H

#include "cuda/memory.h"
#include "kernels/args.h"

struct symc_cuda_group;

/* Zeroed: there are none. */
struct symc_cuda_places {
    struct symc_cuda_context context; /* in which allocations are opened */
    CUdeviceptr
        opened[SYMC_KERNEL_RANKS];   /* of another process; 0: it is not */
    struct symc_cuda_physical table; /* of pointers, by rank */
};

/* What a member tells of memory of cuMemAlloc(), or of a pool. */
struct symc_cuda_allocation {
    CUipcMemHandle ipc; /* of processes */
    CUcontext context;  /* of threads */
    CUmemoryPool pool;  /* of threads; NULL: it is of none */
    CUdeviceptr data;
    uint64_t offset; /* of data, in the allocation */
};

/*
 * Open the allocations of all members; at (out): where each has its data.  In the
 * context of the group.  After an error the places are to be closed, too.
 * Errors: those of symc_cuda_fail().
 */
symmcoll_status_t symc_cuda_places_open(const struct symc_cuda_group *group,
    const struct symc_cuda_allocation *const *all, void **at,
    struct symc_cuda_places *places);

/* Write a table of these addresses, in the context.  Errors: as above. */
symmcoll_status_t symc_cuda_places_write(const struct symc_cuda_group *group,
    void *const *at, struct symc_cuda_places *places);

/* Write bytes of the host's, in the context, and wait until they are there. */
struct symc_cuda_called symc_cuda_write(const struct symc_cuda *cuda,
    CUdeviceptr to, const void *from, size_t nbytes);

/* Without the group, in any context. */
void symc_cuda_places_close(
    struct symc_cuda_log *log, struct symc_cuda_places *places);

#endif
