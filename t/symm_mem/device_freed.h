/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helpers for tests of device memory that is freed: a new group with a blocked
 * stream.
 */
#ifndef T_SYMM_MEM_DEVICE_FREED_H
#define T_SYMM_MEM_DEVICE_FREED_H

#include "t/sanitized.h"
#include "t/symm_mem/device.h"
#include "t/world/faults.h"

#define NBYTES 4096
#define SHORT 0.3 /* seconds; timeout of a group */

/* Creates a new group with joined memory. */
static inline bool begin(
    struct symmcoll_group *all, int rank, struct joined *it)
{
    struct symmcoll_group *group = NULL;

    return OK(symmcoll_group_create(symmcoll_group_world(all), NULL, &group)) &&
           begin_joined(it, group, rank, NBYTES) &&
           OK(symmcoll_barrier(all, NULL, NULL));
}

/* Ends the test. released: handle and memory are gone. */
static inline bool end(
    struct symmcoll_group *all, struct joined *it, bool released)
{
    bool right = it->handle != NULL;

    if (!right)
        return false;
    device_wait(it->stream);
    if (!released) {
        symmcoll_symm_release(it->handle);
        right = OK(symmcoll_symm_free(it->world, it->data));
    }
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    right = OK(symmcoll_group_free(it->group)) && right;
    device_end_stream(it->stream);
    return right;
}

/* Blocks the stream, and sets a short timeout for operations that the group
 * enqueues. */
static inline bool stall(struct joined *it)
{
    fake_stall(it->stream);
    return OK(symmcoll_group_set_timeout(it->group, SHORT));
}

/* Enqueues a copy within this rank's part on the blocked stream. */
static inline bool stall_copy(struct joined *it)
{
    write_pattern(it->data, NBYTES / 2, 1);
    return stall(it) && OK(symmcoll_symm_put_data(it->handle, it->rank,
                            NBYTES / 2, it->data, NBYTES / 2));
}

#endif
