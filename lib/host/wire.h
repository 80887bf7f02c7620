/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the host backend keeps in every rank's block, for each group: written by
 * its owner alone, read by all.
 *
 * A collective begins with a header line on each rank: what the rank was asked
 * to do, a small payload, and the sequence number, stored last with release
 * order, so that one cache line crosses once.  There are two lines, used in
 * turn.  That is enough without a leaving barrier: to finish operation s a rank
 * needs every header s, and nobody writes s + 2 before it has seen every s + 1,
 * which its peers write only when they are done with s.
 */
#ifndef SYMC_HOST_WIRE_H
#define SYMC_HOST_WIRE_H

#include "segment/block.h"

#define SYMC_PAYLOAD 40    /* bytes in the header line */
#define SYMC_FACTOR_AT 32  /* of them, where PREMUL_SUM's factor is */
#define SYMC_SLOTS 4       /* staging slots in flight */
#define SYMC_SMALL_MIN 512 /* room beside the header, for error details */

/* Flags of a header. */
#define SYMC_HEADER_REFUSED                           \
    1u /* no staging: the detail is beside the header \
        */

struct symc_header {
    _Alignas(SYMC_APART) uint64_t count;
    uint32_t what; /* kind, dtype, op, flags: a byte each, lowest first */
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
    struct symc_header headers[2];

    /* Rounds of staged algorithms, counted over the group's life: put into this
     * rank's slots, own part summed, nothing more to read. */
    _Alignas(SYMC_APART) _Atomic uint64_t staged;
    _Alignas(SYMC_APART) _Atomic uint64_t reduced;
    _Alignas(SYMC_APART) _Atomic uint64_t drained;

    /* Threads that read each other's buffers, see direct.c: revoked up to this
     * operation; rank + 1 being read. */
    _Alignas(SYMC_APART) _Atomic uint64_t revoked;
    _Alignas(SYMC_APART) _Atomic uint32_t inside;

    _Alignas(SYMC_LINE) struct symc_geometry geometry;
    _Alignas(SYMC_APART) unsigned char small[]; /* two areas, used in turn */
};

#endif
