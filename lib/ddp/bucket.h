/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which gradients are reduced together: the assignment of parameters to
 * buckets.
 */
#ifndef SYMC_DDP_BUCKET_H
#define SYMC_DDP_BUCKET_H

#include "base/base.h"

#include <symmcoll/tensor.h>

#define SYMC_BUCKET_NO_LIMIT SIZE_MAX

/* What decides a parameter's bucket. */
struct symc_bucket_item {
    enum symmcoll_dtype dtype;
    enum symmcoll_device device;
    size_t nbytes;
};

/*
 * Buckets in the order made.  Bucket b holds the parameters params[first[b]] to
 * params[first[b + 1] - 1] and was closed at, or before, limits[b] bytes.
 */
struct symc_assignment {
    int nbuckets;
    int *params;    /* every parameter's number once */
    int *first;     /* nbuckets + 1 */
    size_t *limits; /* nbuckets */
};

/*
 * Walk the items and gather those of equal type and device into buckets; a
 * bucket is closed once it holds its limit, so its last item may exceed it. The
 * first bucket of a type gets the first limit, each later one the next, the
 * last limit repeats.  What is open at the end is closed then.
 *
 * order    the numbers of all items in the order of the walk: buckets are then
 *          in the order in which they were closed.  NULL: by number, and
 *          buckets are in the order of their smallest item
 * limits   bytes, nlimits > 0 of them
 *
 * Errors: NO_MEMORY.
 */
symmcoll_status_t symc_assign_buckets(const struct symc_bucket_item *items,
    int nitems, const int *order, const size_t *limits, int nlimits,
    struct symc_assignment *assignment);

void symc_assignment_free(struct symc_assignment *assignment);

#endif
