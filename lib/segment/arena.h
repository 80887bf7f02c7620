/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank's arena: one memfd, the head of which is the rank's block, and whose
 * rest is address space that is cut into ranges.  A range is backed by memory
 * when it is reserved, and loses it when it is returned; so it begins as zeros
 * each time.  Who uses a range, and until when, is segment.h's.
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
    struct symc_range *free; /* what nobody uses, by offset, never adjacent */
};

/*
 * How large an arena may be in a world of so many ranks, each of which maps
 * them all: as large as is useful, less where RLIMIT_AS, RLIMIT_FSIZE or the
 * processor's addresses allow no more, and at least `least`, so that lack of
 * that is an error where it is asked for.
 */
size_t symc_arena_choose_nbytes(size_t least, int ranks);

/* Whole pages from first to end are free.  Errors: NO_MEMORY. */
symmcoll_status_t symc_arena_init(
    struct symc_arena *arena, int fd, size_t first, size_t end);
void symc_arena_destroy(struct symc_arena *arena);

/* Give up what is after end: not every rank can map it. */
void symc_arena_trim(struct symc_arena *arena, size_t end);

/* Take a range of whole pages, which reads as zeros.  Errors: NO_MEMORY (what
 * was asked, what there is). */
symmcoll_status_t symc_arena_take(
    struct symc_arena *arena, size_t nbytes, size_t *offset);

/* Give it back with its memory.  False where the kernel does not take that, or
 * there is no memory to note it; then nothing has happened. */
bool symc_arena_return(struct symc_arena *arena, size_t offset, size_t nbytes);

#endif
