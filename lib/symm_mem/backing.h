/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sources of an allocation's bytes: the arena, a memfd of its own, a memfd of
 * the caller, or a device. Private to this directory.
 */
#ifndef SYMC_SYMM_MEM_BACKING_H
#define SYMC_SYMM_MEM_BACKING_H

#include "symm_mem/symm_mem.h"

struct symc_backing_source {
    size_t nbytes;
    int fd; /* borrowed from the caller; -1: not imported */
    uint64_t offset;
    bool imported;
};

/*
 * Allocates the data and the pad of an allocation: sets buffer, data_at and
 * pad_at, and for a memfd data, fd and mapped. On failure nothing remains
 * allocated.
 * Errors: NO_MEMORY, SYSTEM; for an import also INVALID.
 */
symmcoll_status_t symc_backing_open(struct symmcoll_world *world,
    const char *where, const struct symc_backing_source *source,
    struct symc_allocation *allocation);

/*
 * Allocates the data alone, in memory of the allocation's device: sets backend,
 * memory and data. On failure nothing remains allocated.
 * Errors: UNSUPPORTED, INVALID, NO_MEMORY, DEVICE.
 */
symmcoll_status_t symc_device_backing_open(struct symmcoll_world *world,
    const char *where, struct symc_allocation *allocation);
void symc_device_backing_close(struct symc_allocation *allocation);

/* Writes to the log of a world. A backend reports with it what it cannot
 * release; see struct symc_memory_request. */
void symc_symm_log(void *world, enum symc_log_level level, const char *format,
    ...) SYMC_PRINTF(3, 4);

/* Rounds a number of bytes up to a multiple of align; false: overflow. */
static inline bool symc_backing_round(
    size_t nbytes, size_t align, size_t *rounded)
{
    if (align == 0 || !symc_add(nbytes, align - 1, rounded))
        return false;
    *rounded = *rounded / align * align;
    return true;
}

/* Checks that a descriptor from a peer is a memfd sealed against shrinking,
 * with nbytes from an offset on, and maps them. peer: its name in messages.
 * Errors: INVALID, NO_MEMORY. */
symmcoll_status_t symc_backing_map(const char *where, const char *peer, int fd,
    uint64_t offset, size_t nbytes, void **at);

#endif
