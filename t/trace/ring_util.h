/* SPDX-License-Identifier: BSD-3-Clause */
/* Rings for the tests of the flight recorder. */
#ifndef T_TRACE_RING_UTIL_H
#define T_TRACE_RING_UTIL_H

#include "trace/trace.h"

#include <stdlib.h>
#include <string.h>

#define WRITERS 16 /* rings at the same time */

/* Returns a ring's writer. */
static inline struct symc_trace_writer *find_writer(
    const struct symc_trace_ring *ring, bool makes)
{
    static struct symc_trace_writer writers[WRITERS];
    static unsigned int made;

    for (int i = 0; i < WRITERS && !makes; i++)
        if (writers[i].ring == ring)
            return &writers[i];
    if (!makes)
        abort();
    for (int i = 0; i < WRITERS; i++)
        if (writers[i].ring == ring)
            writers[i].ring = NULL;
    return &writers[made++ % WRITERS];
}

#define WRITER(ring) find_writer(ring, false)

/* Creates a ring with `entries` entries, and the group of all four ranks. */
static inline struct symc_trace_ring *make_ring(int64_t entries)
{
    size_t nbytes = symc_trace_nbytes(entries);
    struct symc_trace_ring *ring =
        aligned_alloc(_Alignof(struct symc_trace_ring), nbytes);

    if (ring == NULL)
        abort();
    memset(ring, 0, nbytes);
    symc_trace_init(ring, entries, 2, 4);
    struct symc_trace_writer *writer = find_writer(ring, true);
    symc_trace_close(writer);
    if (symc_trace_open(ring, -1, 0, writer) != SYMMCOLL_OK ||
        symc_trace_add_group(writer, "0", "default_pg", 2, 4, NULL) != 0)
        abort();
    return ring;
}

/* Returns an all_reduce of float32. */
static inline struct symc_op make_op(uint64_t seq, size_t count)
{
    struct symc_op op;

    memset(&op, 0, sizeof(op));
    op.kind = SYMC_ALL_REDUCE;
    op.dtype = SYMMCOLL_FLOAT32;
    op.elem = 4;
    op.count = count;
    op.seq = seq;
    op.timeout_ns = 600 * SYMC_NS_PER_S;
    return op;
}

/* Records operations first to last of a group, all completed. */
static inline void record(
    struct symc_trace_ring *ring, int64_t group, uint64_t first, uint64_t last)
{
    for (uint64_t seq = first; seq <= last; seq++) {
        struct symc_op op = make_op(seq, 12);

        symc_trace_end(
            WRITER(ring), symc_trace_start(WRITER(ring), group, &op), true);
    }
}

#endif
