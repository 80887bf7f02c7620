/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The barrier of a group: no rank's ends before every rank's has begun.
 *
 * Grid        one block, at least one thread for each rank
 * Bytes       R signals of 4 bytes written, and as many read
 * Order       release and acquire, see synchronise() in group.h
 * Reference   none
 */
#ifndef SYMC_KERNELS_BARRIER_H
#define SYMC_KERNELS_BARRIER_H

#include "kernels/group.h"

DEVICE void wait_for_all(const struct symc_device_group *group)
{
    const uint32_t epoch = begin_epoch(group) + 1;

    if (synchronise(group, epoch))
        end_epoch(group, epoch);
}

KERNEL(symc_barrier, struct symc_device_group, wait_for_all)

#endif
