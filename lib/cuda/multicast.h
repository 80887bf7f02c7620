/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast memory: one address for the memory of all members of a group.  A switch sends
 * a store there to all members, and reduces a load over all members.
 */
#ifndef SYMC_CUDA_MULTICAST_H
#define SYMC_CUDA_MULTICAST_H

#include "cuda/memory.h"

struct symc_cuda_group;

/* A multicast object and its mapping.  Zeroed: none. */
struct symc_cuda_multicast {
    CUmemGenericAllocationHandle object;
    bool opened;    /* object is valid */
    CUdevice bound; /* the device of the bound memory; if nbytes is not 0 */
    size_t nbytes;
    CUdeviceptr at; /* 0: it is not mapped */
};

/* Returns whether this rank's device, driver and settings allow multicast. */
bool symc_cuda_multicast_is_possible(const struct symc_cuda_group *group);

/*
 * Collective: binds this rank's memory to a multicast object and maps the object.  All
 * members must allow multicast, each on a device of its own.  The context must be
 * current.  If a step fails on any member, no member uses multicast: at is then 0, which
 * is not an error.  Close the object after an error, too.
 * Errors: those of core->gather and core->exchange.
 */
symmcoll_status_t symc_cuda_multicast_open(const struct symc_cuda_group *group,
    struct symc_cuda_log *log, const struct symc_cuda_physical *own,
    struct symc_cuda_multicast *multicast);

/* Unbinds and unmaps; call it before the memory is unmapped.  Needs neither the group nor
 * a current context. */
void symc_cuda_multicast_close(
    struct symc_cuda_log *log, struct symc_cuda_multicast *multicast);

#endif
