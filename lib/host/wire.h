/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host backend's part of a group's segment, of every member: written by its
 * owner alone, read by all.
 *
 * A collective begins with a header line on each rank: what the rank was asked
 * to do, a small payload, and the sequence number, stored last with release
 * order, so that one cache line is transferred once.
 *
 * The lines form a ring.  INVARIANT: the line of operation s is written again,
 * for s + SYMC_LINES, when every peer has finished reading s; so there is no
 * leaving barrier.  How far a rank has finished is in its `done`.  That word is
 * seldom read: a rank whose operations all run to their end in turn has
 * finished s - 1 when it publishes s, so a header s implies that, unless it is
 * marked AHEAD: then an earlier operation of its writer has been issued and has
 * not ended.  The areas beside the lines are fewer, for they are large; the
 * same holds of them with SYMC_AREAS.
 */
#ifndef SYMC_HOST_WIRE_H
#define SYMC_HOST_WIRE_H

#include "segment/block.h"

#define SYMC_PAYLOAD 40      /* bytes in the header line */
#define SYMC_FACTOR_AT 32    /* of them, where PREMUL_SUM's factor is */
#define SYMC_LISTED_COUNTS 6 /* of several buffers, counts in the line */
#define SYMC_SLOTS 4         /* staging slots in flight */
#define SYMC_SMALL_MIN 512   /* bytes beside the header, at least */
#define SYMC_REFUSAL 512     /* bytes of why a rank has no staging */
#define SYMC_LINES 8         /* header lines of a rank; a power of two */
#define SYMC_ABSENT_MAX 4096 /* ranks that a monitored barrier can name */
#define SYMC_AREAS 2         /* areas beside them; a power of two */

/* Flags of a header. */
#define SYMC_HEADER_AHEAD 2u    /* an earlier operation has not ended here */
#define SYMC_HEADER_CAPTURED 4u /* of a device: it is captured in a graph */

struct symc_header {
    _Alignas(SYMC_FALSE_SHARING) uint64_t count;
    uint32_t what; /* kind, dtype, op: a byte each, lowest first; flags and
                      kind of memory: half a byte each */
    uint16_t root;
    _Atomic uint16_t cpu; /* where the rank ran, while ranks share processors */
    unsigned char payload[SYMC_PAYLOAD];
    _Atomic uint64_t seq;
};

/* What all ranks of a group must agree on to understand each other. */
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

    /* Rounds of staged algorithms, counted over the group's life: put into this
     * rank's slots, own part summed, nothing more to read. */
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint64_t staged;
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint64_t reduced;
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint64_t drained;

    /* Twice the operation in which this rank has last tried to back its staging
     * with memory, and 1 more where it could not: then the reason. */
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint64_t reserved;
    char refusal[SYMC_REFUSAL];

    /* Ranks that use each other's buffers, see revoke.c: revoked up to this
     * operation; rank + 1 being used. */
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint64_t revoked;
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint32_t inside;

    /* Monitored barriers, some of which may be in a group that has failed: how
     * many this rank has entered, the line of the latest that it has given up,
     * and for whom: a bit for each rank. */
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint64_t entered;
    _Atomic uint64_t given_up;
    _Atomic uint64_t absent[SYMC_ABSENT_MAX / 64];

    _Alignas(SYMC_LINE) struct symc_geometry geometry;
    _Alignas(SYMC_FALSE_SHARING) unsigned char small[]; /* SYMC_AREAS of them */
};

/*
 * The line of a channel for an operation: 0 4 1 6 2 7 3 5 and so on.  Lines
 * used one after another would have a peer's processor fetch the next ones
 * before they are written, and take them away from the writer.
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
