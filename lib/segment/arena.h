/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank's arena: one memfd whose head is the rank's block and whose rest is
 * address space that is divided into ranges.  A range is backed by memory when
 * it is reserved, and its memory is released when it is returned, so a range
 * always begins as zeros.  The users of a range and its lifetime are described
 * in segment.h.
 */
#ifndef SYMC_SEGMENT_ARENA_H
#define SYMC_SEGMENT_ARENA_H

#include "base/base.h"

#define SYMC_PAGE ((size_t)4096)

static inline size_t symc_round_to_page(size_t nbytes)
{
    return (nbytes + SYMC_PAGE - 1) / SYMC_PAGE * SYMC_PAGE;
}

struct symc_range;

struct symc_arena {
    int fd; /* borrowed */
    size_t end;
    struct symc_range *free; /* unused ranges, by offset, never adjacent */
};

/*
 * Chooses the size of an arena in a world of `ranks` ranks, each of which maps
 * them all: as large as is useful, smaller if RLIMIT_AS, RLIMIT_FSIZE or the
 * processor's address space demand it, and never less than `least`, so that a
 * lack of memory is an error at the allocation that needs it.
 */
size_t symc_arena_choose_nbytes(size_t least, int ranks);

/* Initialises an arena in which the whole pages from first to end are free.
 * Errors: NO_MEMORY. */
symmcoll_status_t symc_arena_init(
    struct symc_arena *arena, int fd, size_t first, size_t end);
void symc_arena_destroy(struct symc_arena *arena);

/* Removes the free ranges after end, for a peer that cannot map that much. */
void symc_arena_trim(struct symc_arena *arena, size_t end);

/* Takes a range of whole pages, which reads as zeros.  Errors: INVALID (nbytes
 * is 0 or too large to round), NO_MEMORY (the message has the size needed
 * and the size available). */
symmcoll_status_t symc_arena_take(
    struct symc_arena *arena, size_t nbytes, size_t *offset);

/* Returns a range and releases its memory.  Returns false if the kernel
 * refuses, or if there is no memory to record the range; the range then remains
 * taken. */
bool symc_arena_return(struct symc_arena *arena, size_t offset, size_t nbytes);

#endif
