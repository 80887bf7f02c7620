/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory of all members of a group, which each of them has mapped one after
 * the other: that of rank r at base + r * stride.
 */
#ifndef SYMC_CUDA_ROW_H
#define SYMC_CUDA_ROW_H

#include "cuda/memory.h"
#include "kernels/args.h"

struct symc_cuda_group;

/* Zeroed: there is none. */
struct symc_cuda_row {
    CUdeviceptr base; /* 0: no addresses are reserved */
    size_t stride;
    int size;
    size_t mapped[SYMC_KERNEL_RANKS]; /* bytes of each rank; 0: not mapped */
};

/* Where a rank's memory is mapped here. */
static inline CUdeviceptr symc_cuda_row_at(
    const struct symc_cuda_row *row, int rank)
{
    return row->base + (size_t)rank * row->stride;
}

/*
 * Collective: map what every member has created, whose sizes may differ.
 * In the context.  what: "segment", in messages: "rank 3's segment".  When it
 * returns no other member is mapping this one's memory any more.  After an error
 * the row is to be closed, too.
 * Errors: those of core->gather and core->exchange, and of symc_cuda_fail();
 * UNSUPPORTED (cuda.share is fabric, and that of a member is not).
 */
symmcoll_status_t symc_cuda_row_open(const struct symc_cuda_group *group,
    const struct symc_cuda_physical *own, const char *what,
    struct symc_cuda_row *row);

/* Without the group, in any context. */
void symc_cuda_row_close(struct symc_cuda_log *log, struct symc_cuda_row *row);

#endif
