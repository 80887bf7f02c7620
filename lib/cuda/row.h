/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory of all members of a group, which each member maps at consecutive
 * addresses: rank r's memory is at base + r * stride.
 */
#ifndef SYMC_CUDA_ROW_H
#define SYMC_CUDA_ROW_H

#include "cuda/memory.h"
#include "kernels/args.h"

struct symc_cuda_group;

/* The row's reserved addresses and mappings.  Zeroed: none. */
struct symc_cuda_row {
    CUdeviceptr base; /* 0: no addresses are reserved */
    size_t stride;
    int size;
    size_t mapped[SYMC_KERNEL_RANKS]; /* bytes of each rank; 0: not mapped */
};

/* Returns the address of a rank's memory in this mapping. */
static inline CUdeviceptr symc_cuda_row_at(
    const struct symc_cuda_row *row, int rank)
{
    return row->base + (size_t)rank * row->stride;
}

/*
 * Collective: maps the memory that every member has created; sizes may differ.  The
 * context must be current.  what: "segment", in messages: "rank 3's segment".  On return
 * no other member is still mapping this member's memory.  Close the row after an error,
 * too.
 * Errors: those of core->gather and core->exchange, and of symc_cuda_fail();
 * UNSUPPORTED (cuda.share is fabric, and a member's memory has no fabric handle).
 */
symmcoll_status_t symc_cuda_row_open(const struct symc_cuda_group *group,
    const struct symc_cuda_physical *own, const char *what,
    struct symc_cuda_row *row);

/* Unmaps the row.  Needs neither the group nor a current context. */
void symc_cuda_row_close(struct symc_cuda_log *log, struct symc_cuda_row *row);

#endif
