/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Returns whether ranks are inside an operation. Ranks that are processes and
 * ranks that are threads both publish a header line when an operation begins.
 */
#ifndef T_PUBLISHED_H
#define T_PUBLISHED_H

#include "tap.h"

#include "group/group.h"
#include "host/wire.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#define PUBLISHED_MAX_MS 60000

static inline bool has_published(
    const struct symmcoll_group *group, int rank, uint64_t number)
{
    struct symc_channel *channel = group->runner.peers.channels[rank];

    return atomic_load(&symc_header_at(channel, number)->seq) >= number;
}

/* Waits until a rank has begun the operation with this number, or a later one.
 * group->wire counts the operations that a group has begun. */
static inline bool await_published(
    const struct symmcoll_group *group, int rank, uint64_t number)
{
    for (int ms = 0; ms < PUBLISHED_MAX_MS; ms++) {
        if (has_published(group, rank, number))
            return true;
        usleep(1000);
    }
    diag("rank %d has not published operation %llu", rank,
        (unsigned long long)number);
    return false;
}

#endif
