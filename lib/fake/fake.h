/* SPDX-License-Identifier: BSD-3-Clause */
/* Simulated ranks, and the cost of operations with them. */
#ifndef SYMC_FAKE_FAKE_H
#define SYMC_FAKE_FAKE_H

#include "backend/backend.h"

#include <stdatomic.h>

/* The state of a world of simulated ranks, shared by its groups. */
struct symc_fake {
    double latency;        /* seconds per message */
    double byte_time;      /* seconds per byte on a link */
    _Atomic double clock;  /* seconds: sum over all operations */
    _Atomic int32_t error; /* error of each operation; OK: none */
};

/* Advances the clock. */
void symc_fake_add_time(struct symc_fake *fake, double seconds);

/* Runs an operation, which ends at once: all_gather results are this rank's
 * elements for each rank; other results are not written. */
symmcoll_status_t symc_fake_start_absent(struct symc_fake *fake,
    const struct symc_core *core, const struct symc_op *op, int rank, int size);

#endif
