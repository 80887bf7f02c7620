/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who has left a segment, and taking its range back when all have.  Private to
 * this module; all under the lock of the segments, but for reading.
 */
#ifndef SYMC_SEGMENT_LEFT_H
#define SYMC_SEGMENT_LEFT_H

#include "segment/segment.h"

#define SYMC_ENTRY_BITS 12 /* of a generation */
_Static_assert(
    SYMC_SEGMENTS_MAX == 1 << SYMC_ENTRY_BITS, "an entry has its number");

/* The entry of a generation in the table of its owner's block. */
static inline uint32_t symc_left_entry(uint64_t generation)
{
    return (uint32_t)(generation & (SYMC_SEGMENTS_MAX - 1));
}

/* A peer's entry for what it has offered. */
uint64_t symc_left_read_entry(
    const struct symc_peer *peer, uint64_t generation);

/* Free a range of the own arena and its entry; false where that has to be tried
 * again. */
bool symc_left_take_back(
    struct symc_segments *segments, const struct symc_offer *offer);

/* A buffer has a user fewer. */
void symc_left_drop(struct symc_segments *segments, struct symc_buffer *buffer);

/* Take back what all have left; how many segments remain. */
int symc_left_reap(struct symc_segments *segments);

/* Free the struct alone. */
void symc_left_free(struct symc_segment *segment);

#endif
