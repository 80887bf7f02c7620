/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a rank's device, and memory joined by all ranks of a group, both
 * through the backend interface: helpers that several tests share.
 */
#ifndef T_CUDA_JOINED_H
#define T_CUDA_JOINED_H

#include "backend/backend.h"
#include "group/group.h"
#include "t/cuda/members.h"

/* Opens the device backend of a group, by an operation. */
int joined_open(struct symmcoll_group *group, int rank);

const struct symc_backend *joined_backend(struct symmcoll_group *group);

/* Returns a rank's request for joined memory on a device. */
struct symc_memory_request joined_request(
    struct symmcoll_group *group, int device, size_t nbytes);

/* Allocates memory of a rank's own device; NULL: failed, with a line in the
 * log. */
void *joined_alloc(
    struct symmcoll_group *group, int device, size_t nbytes, void **at);

symmcoll_status_t joined_join(
    struct symmcoll_group *group, void *memory, struct symc_joined **joined);

/* Checks that all members share the joined memory: each member writes its own
 * numbers to the part it allocated, and reads those of the others from theirs
 * through every address. New memory (is_new) must be zero first. */
int joined_is_common(struct symmcoll_group *group, int rank,
    const struct symc_joined *joined, bool is_new);

/* Creates a group of all ranks, with a backend that is not open. */
struct symmcoll_group *joined_group(struct symmcoll_group *all);

/* Returns the number of the driver's objects, except libraries. */
int joined_objects(void);

#endif
