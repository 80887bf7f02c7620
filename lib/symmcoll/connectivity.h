/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Topology: how ranks, processors or GPUs are connected.
 * Manual: symmcoll_connectivity_detect(3).
 */
#ifndef SYMMCOLL_CONNECTIVITY_H
#define SYMMCOLL_CONNECTIVITY_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_call;
struct symmcoll_world;

/* A square matrix.  Initialise it with SYMMCOLL_CONNECTIVITY_INIT. */
struct symmcoll_connectivity {
    size_t size;        /* sizeof(struct symmcoll_connectivity) */
    const char *kind;   /* the kind that was requested; static */
    const char *device; /* "rank", "processor" or "gpu"; static */
    int count;          /* number of rows and of columns */
    const int *numbers; /* count: the rank, processor or GPU of each row */
    const int *values;  /* count * count, row by row */
};
#define SYMMCOLL_CONNECTIVITY_INIT                                      \
    {                                                                   \
        sizeof(struct symmcoll_connectivity), NULL, NULL, 0, NULL, NULL \
    }

/*
 * Determines how each pair of ranks of a world is connected or, if world is
 * NULL, each pair of processors of this machine.  For ranks it is a collective
 * of the group of all ranks, with that group's timeout; every rank passes the
 * same kind.
 *
 * kind  "host"    1 if both are on one machine, else 0
 *       "direct"  1 if each can read and write symmetric memory of the other,
 *                 else 0
 *       "cache"   the level of the nearest cache that both share; 0: none
 *       "numa"    the NUMA distance between them as the kernel reports it: 10
 *                 is the same node
 *       "nvlink"  the number of active NVLinks between two GPUs of this
 *                 machine, in the order of NVML; through a switch, the smaller
 *                 of the two GPUs' numbers of links to switches.  world is NULL
 *
 * A rank that may run on several processors counts as on all of them: "cache"
 * is the nearest cache that all processors of both ranks share, "numa" the
 * longest distance between two of them.
 *
 * Errors: INVALID (an unknown kind: the detail lists the known ones),
 * UNSUPPORTED (nvlink of ranks, or without a driver or a GPU; a fake world),
 * MISMATCH (ranks passed different kinds), NO_MEMORY, SYSTEM (the kernel or
 * NVML does not report it), and those of collectives.
 * Source: torch._C._distributed_c10d._detect_dma_connectivity.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_connectivity_detect(struct symmcoll_world *world,
    const char *kind, struct symmcoll_connectivity *connectivity);

/* Releases the arrays that symmcoll_connectivity_detect() has filled in.  NULL
 * is valid. */
SYMMCOLL_API
void symmcoll_connectivity_free(struct symmcoll_connectivity *connectivity);

SYMMCOLL_END_DECLS

#endif
