/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How ranks, processors or GPUs are connected.
 * Manual: symmcoll_connectivity_detect(3).
 */
#ifndef SYMMCOLL_CONNECTIVITY_H
#define SYMMCOLL_CONNECTIVITY_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_call;
struct symmcoll_world;

/* A matrix.  Initialise it with SYMMCOLL_CONNECTIVITY_INIT. */
struct symmcoll_connectivity {
    size_t size;        /* sizeof(struct symmcoll_connectivity) */
    const char *kind;   /* static */
    const char *device; /* of what: "rank", "processor", "gpu"; static */
    int count;          /* of rows and of columns */
    const int *numbers; /* count: which of these each is of */
    const int *values;  /* count * count, row by row */
};
#define SYMMCOLL_CONNECTIVITY_INIT                                      \
    {                                                                   \
        sizeof(struct symmcoll_connectivity), NULL, NULL, 0, NULL, NULL \
    }

/*
 * Find out how each two ranks of a world are connected; or, where world is NULL,
 * each two processors of this machine.  Of ranks, a collective of the group of
 * all of them, with its timeout: all ask for the same kind.
 *
 * kind  "host"    1 where both are on one machine, else 0
 *       "direct"  1 where the one can read and write symmetric memory of the
 *                 other, else 0
 *       "cache"   the level of the nearest cache that they share, 0: none
 *       "numa"    the distance of the one's memory from the other, as the kernel
 *                 has it: 10 is near
 *       "nvlink"  between two GPUs of this machine, in the order of NVML: how
 *                 many links are up; through a switch, as many as the one with
 *                 fewer has.  world is NULL
 *
 * A rank that may run on several processors is where all of these are: "cache"
 * is the nearest one that all of both ranks' share, "numa" the longest distance.
 *
 * Errors: INVALID (an unknown kind: lists the known ones), UNSUPPORTED (nvlink of
 * ranks, or without a driver or a GPU), MISMATCH, NO_MEMORY, SYSTEM (the kernel or
 * NVML does not say), those of collectives.
 * Source: torch._C._distributed_c10d._detect_dma_connectivity.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_connectivity_detect(struct symmcoll_world *world,
    const char *kind, struct symmcoll_connectivity *connectivity);

/* Release what has been filled in.  NULL is valid. */
SYMMCOLL_API
void symmcoll_connectivity_free(struct symmcoll_connectivity *connectivity);

SYMMCOLL_END_DECLS

#endif
