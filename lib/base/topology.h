/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which processors share which caches, and how far their memory is, from the
 * files of the kernel.
 */
#ifndef SYMC_BASE_TOPOLOGY_H
#define SYMC_BASE_TOPOLOGY_H

#include "base/base.h"

#define SYMC_CACHES_MAX 8     /* of a processor */
#define SYMC_DISTANCE_NEAR 10 /* of memory on a processor's own node */

/* A cache that a processor uses. */
struct symc_cache {
    int level;
    int first; /* the lowest processor that shares it */
};

struct symc_processor {
    int number;
    int node; /* of its memory; 0 where the kernel has no nodes */
    int caches;
    struct symc_cache cache[SYMC_CACHES_MAX]; /* of data */
};

struct symc_topology {
    int count; /* processors that are online, in the order of their numbers */
    struct symc_processor *processors;
};

/* Read it.  Errors: NO_MEMORY, SYSTEM (no such files). */
symmcoll_status_t symc_topology_open(struct symc_topology *topology);
void symc_topology_close(struct symc_topology *topology);

/* That of a number; NULL: there is none. */
const struct symc_processor *symc_topology_find(
    const struct symc_topology *topology, int number);

/* The level of the nearest cache that both use; 0: none. */
int symc_topology_cache(
    const struct symc_processor *a, const struct symc_processor *b);

/* The distance of memory, as the kernel has it. */
int symc_topology_distance(
    const struct symc_processor *a, const struct symc_processor *b);

#endif
