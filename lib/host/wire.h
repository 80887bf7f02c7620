/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host backend's part of a group's segment: one channel per member, written by its
 * owner alone and read by all.
 *
 * A collective begins with a header line on each rank: the call's arguments, a small
 * payload, and the sequence number, stored last with release order, so that one cache
 * line is transferred once.
 *
 * The lines form a ring.  INVARIANT: the line of operation s is written again, for
 * s + SYMC_LINES, only after every peer has finished reading s; so there is no leaving
 * barrier.  A rank's `done` holds the operation up to which it has finished.  That word
 * is seldom read: a rank whose operations all run to their end in order has finished
 * s - 1 when it publishes s, so a header s implies that, unless it is marked AHEAD: an
 * earlier operation of its writer has been issued and has not ended.  The areas beside
 * the lines are fewer, as they are large; the same invariant holds for them with
 * SYMC_AREAS.
 */
#ifndef SYMC_HOST_WIRE_H
#define SYMC_HOST_WIRE_H

#include "segment/block.h"

#define SYMC_PAYLOAD 40      /* bytes in the header line */
#define SYMC_FACTOR_AT 32    /* byte of the payload: PREMUL_SUM's factor */
#define SYMC_LISTED_COUNTS 6 /* counts of several buffers in the line */
#define SYMC_SLOTS 4         /* staging slots in flight */
#define SYMC_SMALL_MIN 512   /* bytes beside the header, at least */
#define SYMC_REFUSAL 512     /* bytes of the reason for having no staging */
#define SYMC_LINES 8         /* header lines of a rank; a power of two */
#define SYMC_ABSENT_MAX 4096 /* ranks that a monitored barrier can name */
#define SYMC_AREAS 2         /* areas beside the lines; a power of two */

/* Flags of a header. */
#define SYMC_HEADER_AHEAD 2u    /* an earlier operation has not ended here */
#define SYMC_HEADER_CAPTURED 4u /* on a device: it is captured in a graph */

struct symc_header {
    _Alignas(SYMC_FALSE_SHARING) uint64_t count;
    uint32_t what; /* kind, dtype, op: a byte each, lowest first; flags and
                      kind of memory: half a byte each */
    uint16_t root;
    _Atomic uint16_t cpu; /* of the rank, while ranks share processors */
    unsigned char payload[SYMC_PAYLOAD];
    _Atomic uint64_t seq;
};

/* The layout that must be equal on all ranks of a group. */
struct symc_geometry {
    uint64_t small;
    uint64_t chunk;
    uint64_t direct;
    uint64_t reduce_run;
};

struct symc_channel {
    struct symc_header headers[SYMC_LINES];

    /* The last operation that this rank has finished reading. */
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint64_t done;

    /* Rounds of staging or of access in place, over the life of the group: copied into
     * this rank's slots; own part reduced; nothing more to read. */
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint64_t staged;
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint64_t reduced;
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint64_t drained;

    /* Twice the operation in which this rank last tried to back its staging with memory,
     * plus 1 if it failed, with the reason in `refusal`. */
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint64_t reserved;
    char refusal[SYMC_REFUSAL];

    /* Access to other ranks' buffers, see revoke.c: the operation up to which this rank's
     * buffers are revoked; the owner of the buffers that it is inside, plus 1. */
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint64_t revoked;
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint32_t inside;

    /* Monitored barriers, possibly in a group that has failed: how many this rank has
     * entered, the line of the latest one that it gave up, and the ranks that were
     * missing there, a bit each. */
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint64_t entered;
    _Atomic uint64_t given_up;
    _Atomic uint64_t absent[SYMC_ABSENT_MAX / 64];

    _Alignas(SYMC_LINE) struct symc_geometry geometry;
    _Alignas(SYMC_FALSE_SHARING) unsigned char small[]; /* SYMC_AREAS of them */
};

/*
 * Returns the index of a channel's line for an operation: 0 4 1 6 2 7 3 5 and so on.
 * With consecutive lines, a peer's processor would prefetch the next ones before they
 * are written, and take them away from the writer.
 */
static inline uint64_t symc_line_of(uint64_t seq)
{
    return UINT64_C(0x53726140) >> seq % SYMC_LINES * 4 & (SYMC_LINES - 1);
}

static inline struct symc_header *symc_header_at(
    struct symc_channel *channel, uint64_t seq)
{
    return &channel->headers[symc_line_of(seq)];
}

#endif
