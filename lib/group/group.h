/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The internals of a group: its members, its operation queue, its backend, and
 * the core that the backend is given.
 */
#ifndef SYMC_GROUP_GROUP_H
#define SYMC_GROUP_GROUP_H

#include "backend/backend.h"
#include "work/queue.h"
#include "world/world.h"

#include <symmcoll/group.h>

/* What the group knows of an operation while it is under way. */
struct symc_flight {
    struct symc_trace_entry *entry; /* NULL: not recorded, or not yet */
};

struct symmcoll_group {
    struct symmcoll_world *world;
    const uint32_t *alive;      /* the world's mark: 1 */
    char id[16];                /* within its world */
    char name[SYMC_TRACE_NAME]; /* for people: with the world's */
    int rank;
    int size;
    int *global; /* global_rank of each member */
    struct symc_members members;
    struct symc_queue queue;
    _Atomic uint64_t seq[SYMC_COUNTERS]; /* of the latest operations */
    uint64_t wire;                       /* of the latest of all members */
    bool noted; /* none has succeeded since one that was noted */
    _Atomic int64_t timeout_ns;
    int trace; /* index in the recorder, or -1 */
    struct symc_segment *segment;
    size_t staging_at;     /* in each member's part of it */
    size_t staging_nbytes; /* of each: what the members have agreed on */
    bool reserved;         /* this rank's staging is backed by memory */
    uint32_t exchanges;    /* of descriptors, so far */
    struct symc_flight flights[SYMC_FLIGHTS + 1];

    const struct symc_backend *backend;
    void *state;
    struct symc_settings settings;
    struct symc_core core;
    struct symc_peers peers;
    struct symc_doorbell **doorbells;
    void **channels;
    void **staging;
};

/* The group of all ranks.  Errors: NO_MEMORY, UNSUPPORTED, SYSTEM. */
symmcoll_status_t symc_group_open(
    struct symmcoll_world *world, struct symmcoll_group **group);

/* Release a group that has been stopped. */
void symc_group_close(struct symmcoll_group *group);

/* Run one operation, whose ticket is served, to its end. */
symmcoll_status_t symc_group_run(
    struct symmcoll_group *group, struct symc_op *op);

/* Where an operation of a pair is: one at a time. */
#define SYMC_FLIGHT_PAIR SYMC_FLIGHTS

static inline struct symc_flight *symc_group_flight(
    struct symmcoll_group *group, const struct symc_op *op)
{
    return &group->flights[op->flight];
}

/* The settings of the group's world. */
const struct symc_config *symc_group_config(const struct symmcoll_group *group);

/* ---- drain.c ---- */

/*
 * Let the operations of all groups and their callbacks end, and what these
 * start, within timeouts.finalize; the groups that are not done by then are
 * aborted.  Takes no more operations afterwards.
 * Errors: TIMEOUT (what had not ended, and where the others are).
 */
symmcoll_status_t symc_groups_drain(struct symmcoll_world *world);

/* ---- exchange.c ---- */

/* As of struct symc_core. */
symmcoll_status_t symc_group_exchange(void *group, int fd, int *fds);

/* ---- core.c ---- */

/* Fill in what the backend may ask for. */
void symc_group_make_core(struct symmcoll_group *group);

#endif
