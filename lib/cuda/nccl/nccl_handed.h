/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators of NCCL that a group inherits from the group that it was made from. */
#ifndef SYMC_CUDA_NCCL_NCCL_HANDED_H
#define SYMC_CUDA_NCCL_NCCL_HANDED_H

#include "cuda/nccl/nccl_run.h"
#include "cuda/nccl/nccl_state.h"

/* ---- nccl_split.c ---- */

/* The inheritance of a group from its parent, before the group is on any device.  Either
 * all its members adopt it, or all make a communicator of their own. */
struct symc_cuda_handed {
    struct symc_cuda_comm *comm; /* this group's; NULL: not made yet */
    struct symc_cuda_comm *old; /* the parent's to shrink; aborted afterwards */
    struct symc_cuda_keeper
        *keeper; /* of the parent's, before `old` takes it; else NULL */
    const struct symc_nccl *nccl;
    struct symc_cuda_context context;
    int device;
    int nexcluded; /* ranks of the parent's that are not in the group */
    int excluded[SYMC_KERNEL_RANKS];
};

/* ---- nccl_shrink.c ---- */

/* Claims the parent's communicator from its keeper, and prepares the object for the new
 * one.  The context must be current.  Errors: UNSUPPORTED (no quiet communicator),
 * NO_MEMORY, those of symc_cuda_find_where() and symc_cuda_comm_create(). */
symmcoll_status_t symc_cuda_shrink_prepare(
    const struct symc_cuda_group *group, struct symc_cuda_handed *handed);

/* Collective, if all members are prepared: makes handed->comm until the deadline, on all
 * members or on none (made, out).  Errors: those of core->gather. */
symmcoll_status_t symc_cuda_shrink(const struct symc_cuda_group *group,
    struct symc_cuda_until until, struct symc_nccl_config *config,
    struct symc_cuda_handed *handed, bool *made);

#endif
