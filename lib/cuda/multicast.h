/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One address for the memory of all members of a group: what is stored there
 * reaches all, and what is loaded is the sum, by a switch.
 */
#ifndef SYMC_CUDA_MULTICAST_H
#define SYMC_CUDA_MULTICAST_H

#include "cuda/memory.h"

struct symc_cuda_group;

/* Zeroed: there is none. */
struct symc_cuda_multicast {
    CUmemGenericAllocationHandle object;
    bool opened;    /* object is one */
    CUdevice bound; /* whose memory is bound, where nbytes is not 0 */
    size_t nbytes;
    CUdeviceptr at; /* 0: it is not mapped */
};

/* Whether a rank's device and driver have it, and the settings allow it. */
bool symc_cuda_multicast_is_possible(const struct symc_cuda_group *group);

/*
 * Collective, in a group of which that is true for all, each on a device of its
 * own: bind this rank's memory and map that of all.  In the context.  Where it
 * cannot be had by any member nobody has it, which is no error: at is 0 then.
 * After an error it is to be closed, too.
 * Errors: those of core->gather and core->exchange.
 */
symmcoll_status_t symc_cuda_multicast_open(const struct symc_cuda_group *group,
    struct symc_cuda_log *log, const struct symc_cuda_physical *own,
    struct symc_cuda_multicast *multicast);

/* Before the memory is unmapped.  Without the group, in any context. */
void symc_cuda_multicast_close(
    struct symc_cuda_log *log, struct symc_cuda_multicast *multicast);

#endif
