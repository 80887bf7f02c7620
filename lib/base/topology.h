/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The caches that processors share and the distance of their memory, read from
 * the kernel's files.
 */
#ifndef SYMC_BASE_TOPOLOGY_H
#define SYMC_BASE_TOPOLOGY_H

#include "base/base.h"

#define SYMC_CACHES_MAX 8     /* per processor */
#define SYMC_DISTANCE_NEAR 10 /* memory of the processor's own node */

/* A cache that a processor uses. */
struct symc_cache {
    int level;
    int first; /* lowest processor that shares it */
};

struct symc_processor {
    int number;
    int node; /* of its memory; 0 if the kernel has no nodes */
    int caches;
    struct symc_cache cache[SYMC_CACHES_MAX]; /* data caches */
};

struct symc_topology {
    int count; /* processors online, in ascending order */
    struct symc_processor *processors;
};

/* Reads the topology.  Errors: NO_MEMORY, SYSTEM (no such files). */
symmcoll_status_t symc_topology_open(struct symc_topology *topology);
void symc_topology_close(struct symc_topology *topology);

/* Returns the level of the nearest cache that both processors share; 0:
 * none. */
int symc_topology_cache(
    const struct symc_processor *a, const struct symc_processor *b);

/* Returns the kernel's distance between the nodes of two processors;
 * SYMC_DISTANCE_NEAR if it is not known. */
int symc_topology_distance(
    const struct symc_processor *a, const struct symc_processor *b);

#endif
