/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions: operations of one kind that a thread has called on a group between
 * symmcoll_coalesce_begin() and symmcoll_coalesce_end(), kept to run as one.
 * Here is their memory; what is recorded and how it runs is in lib/coll.
 */
#ifndef SYMC_GROUP_REGION_H
#define SYMC_GROUP_REGION_H

#include "base/op.h"

#include <pthread.h>
#include <stdbool.h>

struct symmcoll_group;
struct symmcoll_work;

struct symc_region {
    struct symc_region *next; /* of the group's, in use or not */
    /* Under the world's lock: it is open, or an operation reads the arrays;
     * until when is told by the work, which is held, where there is one. */
    bool taken;
    struct symmcoll_work *work;

    /* The owner's, while it is open. */
    pthread_t owner;
    struct symc_op first; /* what all are like */
    size_t n, room;
    void **outs;
    const void **ins;
    size_t *counts;
};

/* Open the group's region for the calling thread.  Errors: INVALID (one is
 * open), NO_MEMORY. */
symmcoll_status_t symc_region_open(struct symmcoll_group *group);

/* Close it; NULL, with INVALID as the last error, where the calling thread has
 * none.  Its arrays stay as they are until symc_region_leave(). */
struct symc_region *symc_region_close(struct symmcoll_group *group);

/* The arrays are not read any more, or not after the end of a work. */
void symc_region_leave(struct symmcoll_group *group, struct symc_region *region,
    struct symmcoll_work *work);

/* Add a buffer.  Errors: NO_MEMORY. */
symmcoll_status_t symc_region_add(
    struct symc_region *region, const struct symc_op *op);

/* With the group: release all. */
void symc_regions_free(struct symmcoll_group *group);

#endif
