/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the bytes of an allocation come from: the arena, a memfd of its own, one
 * of the caller's, or a device.  Private to this directory.
 */
#ifndef SYMC_SYMM_MEM_BACKING_H
#define SYMC_SYMM_MEM_BACKING_H

#include "symm_mem/symm_mem.h"

struct symc_backing_source {
    size_t nbytes;
    int fd; /* the caller's, borrowed; not imported: -1 */
    uint64_t offset;
    bool imported;
};

/*
 * Fill in where an allocation's data and pad are: buffer, data_at, pad_at, and
 * of a memfd data, fd and mapped.  Where it fails nothing is left.
 * Errors: NO_MEMORY, SYSTEM; of an import also INVALID.
 */
symmcoll_status_t symc_backing_open(struct symmcoll_world *world,
    const char *where, const struct symc_backing_source *source,
    struct symc_allocation *allocation);

/*
 * The same of the data alone, in the memory of the allocation's device: backend,
 * memory, data.  Where it fails nothing is left.
 * Errors: UNSUPPORTED, INVALID, NO_MEMORY, DEVICE.
 */
symmcoll_status_t symc_device_backing_open(struct symmcoll_world *world,
    const char *where, struct symc_allocation *allocation);
void symc_device_backing_close(struct symc_allocation *allocation);

/* The log of a world, for what a backend cannot release: struct
 * symc_memory_request. */
void symc_symm_log(void *world, enum symc_log_level level, const char *format,
    ...) SYMC_PRINTF(3, 4);

/* A number of bytes rounded up to a multiple; false: there is none. */
static inline bool symc_backing_round(
    size_t nbytes, size_t align, size_t *rounded)
{
    if (align == 0 || !symc_add(nbytes, align - 1, rounded))
        return false;
    *rounded = *rounded / align * align;
    return true;
}

/* Whether a descriptor that a peer has sent is memory that cannot become
 * shorter, with so many bytes from an offset on; and map them.  who is the peer,
 * for messages.  Errors: INVALID, NO_MEMORY. */
symmcoll_status_t symc_backing_map(const char *where, const char *who, int fd,
    uint64_t offset, size_t nbytes, void **at);

#endif
