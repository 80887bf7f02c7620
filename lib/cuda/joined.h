/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory of all members that a group has joined: what lib/backend/backend.h
 * offers as struct symc_memory_ops, and how kernels find it.
 */
#ifndef SYMC_CUDA_JOINED_H
#define SYMC_CUDA_JOINED_H

#include "backend/backend.h"
#include "kernels/args.h"

struct symc_cuda_window;

/* What this backend's struct symc_joined is the beginning of. */
struct symc_cuda_joined {
    struct symc_joined joined;
    struct symc_device_data data; /* from the beginning of the parts on */
    /* That this rank has allocated: whole pieces; nothing where it is memory of the
     * program's, or foreign. */
    struct symc_extent own;
    bool foreign; /* it is of another context than the group */
    struct symc_cuda_window *window; /* of NCCL; see nccl_window.h */
};

/* That, from so many bytes of each member's part on: a multiple of 16 where a
 * kernel needs it.  joined is of this backend. */
static inline struct symc_device_data symc_cuda_joined_data(
    const struct symc_joined *joined, uint64_t offset)
{
    const struct symc_cuda_joined *whole = (const void *)joined;
    struct symc_device_data data = whole->data;

    data.offset += offset;
    return data;
}

/* See struct symc_memory_ops. */
symmcoll_status_t symc_cuda_join(
    void *state, void *memory, struct symc_joined **joined);
symmcoll_status_t symc_cuda_tabulate(void *state,
    const struct symc_joined *joined, const struct symc_joined *into,
    size_t at);
void symc_cuda_leave_joined(struct symc_joined *joined);

#endif
