/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on several buffers at once: what their algorithms share.  Private
 * to this directory.
 *
 * The elements of all buffers are numbered as if one buffer came after the
 * other; of what has a part for each rank, those of one part.  So a chunk of
 * them may be of many buffers, and many small ones travel as one message.
 */
#ifndef SYMC_HOST_COALESCED_H
#define SYMC_HOST_COALESCED_H

#include "host/host.h"

/* Elements that are together in one buffer: from `within` of buffer `index`. */
struct symc_piece {
    size_t index;
    size_t within;
    size_t count;
};

/* Where the pieces of a range are looked for: from where the last one was. */
struct symc_cursor {
    size_t index;
    size_t first; /* number of that buffer's first element */
};

/* The piece that begins at an element, which is there, up to `limit`. */
struct symc_piece symc_host_piece_at(const struct symc_op *op,
    struct symc_cursor *cursor, size_t at, size_t limit);

/* What a rank puts into its header line. */
struct symc_listed {
    uint64_t digest;                     /* of all counts */
    uint32_t counts[SYMC_LISTED_COUNTS]; /* the first; at most UINT32_MAX */
};

/* Fill that in. */
struct symc_listed symc_host_listed(const struct symc_op *op);

/* All lines are there: whether the counts are the same on all ranks, or the
 * status of that. */
symmcoll_status_t symc_host_compare_listed(
    struct symc_host *host, const struct symc_op *op);

/* ---- direct_coalesced.c: buffers in symmetric memory ---- */

/* Put beside the line where they are; waits for room. */
symmcoll_status_t symc_host_name_coalesced(
    struct symc_host *host, const struct symc_op *op);

/* Once counts are compared: use them where they lie, if they are at the same
 * places on all ranks; false, on all ranks, where they are not. */
bool symc_host_direct_coalesced(struct symc_host *host,
    const struct symc_op *op, symmcoll_status_t *status);

#endif
