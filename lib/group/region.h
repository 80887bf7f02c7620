/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions: operations of one kind that a thread calls on a group between
 * symmcoll_coalesce_begin() and symmcoll_coalesce_end(), kept to run as one.
 * Their memory is here; lib/coll records and runs them.
 */
#ifndef SYMC_GROUP_REGION_H
#define SYMC_GROUP_REGION_H

#include "base/op.h"

#include <pthread.h>
#include <stdbool.h>

struct symmcoll_group;
struct symmcoll_work;

struct symc_region {
    struct symc_region *next; /* in the group's list, used or not */
    /* Needs the world's lock.  taken: the region is open, or an operation reads
     * the arrays, until the end of `work` (held) if that is set. */
    bool taken;
    struct symmcoll_work *work;

    /* Used by the owner while the region is open. */
    pthread_t owner;
    struct symc_op first; /* properties common to all operations */
    size_t n, room;
    void **outs;
    const void **ins;
    size_t *counts;
};

/* Opens the group's region for the calling thread.  Errors: INVALID (one is
 * open), NO_MEMORY. */
symmcoll_status_t symc_region_open(struct symmcoll_group *group);

/* Closes the calling thread's region.  Returns NULL, with INVALID as the last
 * error, if it has none.  The arrays stay unchanged until
 * symc_region_leave(). */
struct symc_region *symc_region_close(struct symmcoll_group *group);

/* Marks the arrays as unused, at once or after the end of a work. */
void symc_region_leave(struct symmcoll_group *group, struct symc_region *region,
    struct symmcoll_work *work);

/* Adds an operation's buffers.  Errors: NO_MEMORY. */
symmcoll_status_t symc_region_add(
    struct symc_region *region, const struct symc_op *op);

/* Releases all regions with the group. */
void symc_regions_free(struct symmcoll_group *group);

#endif
