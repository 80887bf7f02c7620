/* SPDX-License-Identifier: BSD-3-Clause */
/* What groups are handed of NCCL's communicators of those that they were made of. */
#ifndef SYMC_CUDA_NCCL_NCCL_HANDED_H
#define SYMC_CUDA_NCCL_NCCL_HANDED_H

#include "cuda/nccl/nccl_run.h"
#include "cuda/nccl/nccl_state.h"

/* ---- nccl_split.c ---- */

/* What a group is handed of the one that it was made of, before it is on any device;
 * its members adopt it, or all make their own. */
struct symc_cuda_handed {
    struct symc_cuda_comm *comm; /* this group's; NULL: not made yet */
    struct symc_cuda_comm *old; /* of which that is made, and then is aborted */
    struct symc_cuda_keeper
        *keeper; /* who has that; NULL: nobody, or not any more */
    const struct symc_nccl *nccl;
    struct symc_cuda_context context;
    int device;
    int nexcluded; /* ranks of the old one that are not in the group */
    int excluded[SYMC_KERNEL_RANKS];
};

void symc_cuda_handed_free(struct symc_cuda_handed *handed);

/* ---- nccl_shrink.c ---- */

/* In the context: take what the old one's keeper has, and make ready for what is made
 * of it.  Errors: UNSUPPORTED (it has nothing). */
symmcoll_status_t symc_cuda_shrink_prepare(
    const struct symc_cuda_group *group, struct symc_cuda_handed *handed);

/* Collective, where all members are ready: make handed->comm until then, on all members or on none
 * (made, out).  Errors: those of core->gather. */
symmcoll_status_t symc_cuda_shrink(const struct symc_cuda_group *group,
    struct symc_cuda_until until, struct symc_nccl_config *config,
    struct symc_cuda_handed *handed, bool *made);

#endif
