/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The assignment of parameters to buckets: gradients in one bucket are reduced
 * together.
 */
#ifndef SYMC_DDP_BUCKET_H
#define SYMC_DDP_BUCKET_H

#include "base/base.h"

#include <symmcoll/tensor.h>

#define SYMC_BUCKET_NO_LIMIT SIZE_MAX

/* The properties of a parameter that decide its bucket. */
struct symc_bucket_item {
    enum symmcoll_dtype dtype;
    enum symmcoll_device device;
    size_t nbytes;
};

/*
 * Buckets in their order.  Bucket b holds the parameters params[first[b]] to
 * params[first[b + 1] - 1].  It was closed when it held limits[b] bytes or
 * more, or at the end.
 */
struct symc_assignment {
    int nbuckets;
    int *params;    /* each parameter's number once */
    int *first;     /* nbuckets + 1 */
    size_t *limits; /* nbuckets */
};

/*
 * Walks the items and gathers those of equal type and device into buckets.  A
 * bucket is closed when it holds its limit or more, so its last item may exceed
 * it.  The first bucket of a type on a device gets the first limit, each later
 * one the next; the last limit repeats. Buckets still open at the end of the
 * walk are closed then.
 *
 * order    the numbers of all items in the order of the walk; buckets are then
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
