/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a rank's device, and the same joined in a group, by the interface of
 * backends: what tests of it share.
 */
#ifndef T_CUDA_JOINED_H
#define T_CUDA_JOINED_H

#include "backend/backend.h"
#include "group/group.h"
#include "t/cuda/members.h"

/* Open the backend of devices in a group, by an operation. */
int joined_open(struct symmcoll_group *group, int rank);

const struct symc_backend *joined_backend(struct symmcoll_group *group);

/* What a rank asks of it, on a device. */
struct symc_memory_request joined_request(
    struct symmcoll_group *group, int device, size_t nbytes);

/* Memory of a rank's own device; NULL where there is none, and a line says why. */
void *joined_alloc(
    struct symmcoll_group *group, int device, size_t nbytes, void **at);

symmcoll_status_t joined_join(
    struct symmcoll_group *group, void *memory, struct symc_joined **joined);

/* Each member writes numbers of its own where it has allocated its part, and finds
 * those of the others in theirs, by every address; first zeros, if it is new. */
int joined_is_common(struct symmcoll_group *group, int rank,
    const struct symc_joined *joined, bool is_new);

/* A group of all, with a backend that is not open. */
struct symmcoll_group *joined_group(struct symmcoll_group *all);

/* Objects of the driver that there are, but libraries. */
int joined_objects(void);

#endif
