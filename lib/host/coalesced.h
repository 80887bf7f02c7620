/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on several buffers at once: declarations shared by their algorithms.
 * Private to this directory.
 *
 * The elements of all buffers are numbered as if the buffers followed one another; if
 * there is a part for each rank, the elements of one part.  A chunk of elements may thus
 * span several buffers, and many small buffers travel as one message.
 */
#ifndef SYMC_HOST_COALESCED_H
#define SYMC_HOST_COALESCED_H

#include "host/host.h"

/* Elements that are contiguous in one buffer: from `within` of buffer `index`. */
struct symc_piece {
    size_t index;
    size_t within;
    size_t count;
};

/* The position of the last piece, from which a search for the next one starts. */
struct symc_cursor {
    size_t index;
    size_t first; /* the number of the buffer's first element */
};

/* Returns the piece that begins at element `at`, which must exist, and ends at `limit` or
 * earlier. */
struct symc_piece symc_host_piece_at(const struct symc_op *op,
    struct symc_cursor *cursor, size_t at, size_t limit);

/* The payload of a rank's header line. */
struct symc_listed {
    uint64_t digest;                     /* of all counts */
    uint32_t counts[SYMC_LISTED_COUNTS]; /* the first; at most UINT32_MAX */
};

/* Returns the payload for an operation. */
struct symc_listed symc_host_listed(const struct symc_op *op);

/* Compares the counts of all ranks; all lines must be there.  Errors: MISMATCH. */
symmcoll_status_t symc_host_compare_listed(
    struct symc_host *host, const struct symc_op *op);

/* ---- direct_coalesced.c: buffers in symmetric memory ---- */

/* Puts digests of the buffers' places into the area beside the line; waits for room. */
symmcoll_status_t symc_host_name_coalesced(
    struct symc_host *host, const struct symc_op *op);

/* After counts are compared: uses the buffers in place if they are at the same places on
 * all ranks.  Returns false, on all ranks, if they are not. */
bool symc_host_direct_coalesced(struct symc_host *host,
    const struct symc_op *op, symmcoll_status_t *status);

#endif
