/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory of all members that a group has joined: the implementation of struct
 * symc_memory_ops (lib/backend/backend.h), and the memory's addresses for kernels.
 */
#ifndef SYMC_CUDA_JOINED_H
#define SYMC_CUDA_JOINED_H

#include "backend/backend.h"
#include "kernels/args.h"

struct symc_cuda_window;

/* This backend's joined memory. */
struct symc_cuda_joined {
    struct symc_joined joined;
    struct symc_device_data data; /* from the beginning of the parts */
    /* The memory that this rank has allocated, in whole granules; empty if it is the
     * program's memory, or foreign. */
    struct symc_extent own;
    bool foreign; /* it belongs to another context than the group's */
    struct symc_cuda_window *window; /* of NCCL; see nccl_window.h */
};

/* Returns the memory's addresses for kernels, offset bytes into each member's part; a
 * multiple of 16 if the kernel needs it.  joined must be of this backend. */
static inline struct symc_device_data symc_cuda_joined_data(
    const struct symc_joined *joined, uint64_t offset)
{
    const struct symc_cuda_joined *whole = (const void *)joined;
    struct symc_device_data data = whole->data;

    data.offset += offset;
    return data;
}

/* join(), tabulate() and leave() of struct symc_memory_ops. */
symmcoll_status_t symc_cuda_join(
    void *state, void *memory, struct symc_joined **joined);
symmcoll_status_t symc_cuda_tabulate(void *state,
    const struct symc_joined *joined, const struct symc_joined *into,
    size_t at);
void symc_cuda_leave_joined(struct symc_joined *joined);

#endif
