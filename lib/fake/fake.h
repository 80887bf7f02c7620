/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that are not there: what a world of them costs.
 */
#ifndef SYMC_FAKE_FAKE_H
#define SYMC_FAKE_FAKE_H

#include "backend/backend.h"

#include <stdatomic.h>

/* What all groups of such a world share. */
struct symc_fake {
    double latency;        /* seconds of each message */
    double byte_time;      /* seconds of each byte on a link */
    _Atomic double clock;  /* seconds: the operations so far, one by one */
    _Atomic int32_t error; /* what operations end with; OK: nothing */
};

/*
 * Seconds that an operation takes on the busiest link of this rank, in a group
 * of so many: messages one after another, each with its latency and bytes.
 *
 *   all_reduce                     ring: 2 (n - 1) messages of a part
 *   reduce_scatter, all_gather     ring: n - 1 messages of a part
 *   all_to_all                     n - 1 messages, of a part each
 *   broadcast, reduce, barriers    tree: log2 n messages of all elements
 *   gather, scatter                n - 1 messages of a part at the root, else 1
 *   send, recv                     1 message
 */
double symc_fake_cost(
    const struct symc_fake *fake, const struct symc_op *op, int rank, int size);

/* Let time pass on the clock. */
void symc_fake_add_time(struct symc_fake *fake, double seconds);

/* Start an operation, which ends at once: gathered elements are this rank's, for
 * each rank; other results are not touched. */
symmcoll_status_t symc_fake_start_absent(struct symc_fake *fake,
    const struct symc_core *core, const struct symc_op *op, int rank, int size);

#endif
