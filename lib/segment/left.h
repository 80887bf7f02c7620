/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detects which members have left a segment, and takes its range back when all
 * have.  Private to this module.  All functions except symc_left_read_entry()
 * need the lock of the segments.
 */
#ifndef SYMC_SEGMENT_LEFT_H
#define SYMC_SEGMENT_LEFT_H

#include "segment/segment.h"

#define SYMC_ENTRY_BITS 12 /* bits of a generation */
_Static_assert(
    SYMC_SEGMENTS_MAX == 1 << SYMC_ENTRY_BITS, "an entry has its number");

/* Returns the number of a generation's entry in the table of its owner's
 * block. */
static inline uint32_t symc_left_entry(uint64_t generation)
{
    return (uint32_t)(generation & (SYMC_SEGMENTS_MAX - 1));
}

/* Returns the entry in a peer's table for an offer of that peer. */
uint64_t symc_left_read_entry(
    const struct symc_peer *peer, uint64_t generation);

/* Frees a range of this rank's arena and its entry.  Returns false if the
 * caller has to retry later. */
bool symc_left_take_back(
    struct symc_segments *segments, const struct symc_offer *offer);

/* Removes a user from a buffer; NULL is valid. */
void symc_left_drop(struct symc_segments *segments, struct symc_buffer *buffer);

/* Takes back the ranges that all members have left.  Returns how many segments
 * remain. */
int symc_left_reap(struct symc_segments *segments);

/* Frees the memory of the struct, and nothing else. */
void symc_left_free(struct symc_segment *segment);

#endif
