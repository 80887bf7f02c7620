/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings for the tests of the flight recorder.
 */
#ifndef T_TRACE_RING_UTIL_H
#define T_TRACE_RING_UTIL_H

#include "trace/trace.h"

#include <stdlib.h>
#include <string.h>

/* A ring's writer, for one call. */
#define WRITER(ring) \
    (&(struct symc_trace_writer){ring, (ring)->birth, (ring)->capacity})

/* A ring for so many entries, with the group of all of four ranks. */
static inline struct symc_trace_ring *make_ring(int64_t entries)
{
    size_t nbytes = symc_trace_nbytes(entries);
    struct symc_trace_ring *ring =
        aligned_alloc(_Alignof(struct symc_trace_ring), nbytes);

    if (ring == NULL)
        abort();
    memset(ring, 0, nbytes);
    symc_trace_init(ring, entries, 2, 4);
    if (symc_trace_add_group(ring, "0", "default_pg", 2, 4) != 0)
        abort();
    return ring;
}

/* An all_reduce of float32. */
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

/* Record operations first to last of a group, all completed. */
static inline void record(
    struct symc_trace_ring *ring, int group, uint64_t first, uint64_t last)
{
    for (uint64_t seq = first; seq <= last; seq++) {
        struct symc_op op = make_op(seq, 12);

        symc_trace_end(
            WRITER(ring), symc_trace_start(WRITER(ring), group, &op), true);
    }
}

#endif
