/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A block is one rank's share of a symmetric segment: a sealed memfd, mapped by
 * every rank (and by the launcher), or by all threads of one process at one
 * place.  A rank writes only to its own block, but for four words: `doorbell`,
 * by which others wake it, `exit`, which the launcher fills, `users`, and
 * `dumped`.
 *
 * What is where: head, flight recorder, groups, staging (see struct
 * symc_block_layout).  Everything up to the staging is backed by memory; the
 * staging is address space until symc_block_reserve().
 *
 * A stray store of any rank may change any word at any time.  So whoever maps a
 * block copies its layout, checks the copy, and uses that alone; what changes
 * over the life of a block is checked whenever it is read.
 */
#ifndef SYMC_SEGMENT_BLOCK_H
#define SYMC_SEGMENT_BLOCK_H

#include "base/base.h"

#include <stdatomic.h>
#include <sys/types.h>

#define SYMC_BLOCK_MAGIC UINT64_C(0x3230304c4c4f4353) /* "SCOLL002" */
#define SYMC_LINE 64           /* bytes of a cache line */
#define SYMC_FALSE_SHARING 128 /* alignment; lines are fetched in pairs */

/* The futex on which a rank sleeps.  Others wake it where `sleeping` is not
 * 0. */
struct symc_doorbell {
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint32_t sleeping; /* threads */
    _Atomic uint32_t failed; /* this rank has failed a group that it serves */
    _Alignas(SYMC_LINE) _Atomic uint32_t wakes;
};

/* How a rank ended, as its parent saw it: a status of waitpid() with a mark, so
 * that what a stray store leaves is not taken for one.  0: not known yet. */
struct symc_exit {
    _Alignas(SYMC_LINE) _Atomic uint32_t marked;
};

/* Values of symc_block.liveness, apart from the monitor's thread id. */
#define SYMC_LIVENESS_NONE 0u              /* not begun */
#define SYMC_LIVENESS_DIED 0x40000000u     /* FUTEX_OWNER_DIED, by kernel */
#define SYMC_LIVENESS_SHUTDOWN 0x3fffffffu /* finalized; no such thread id */
#define SYMC_LEFT_MARK 0x1eaf5eedu         /* beside it, in symc_block.left */
#define SYMC_LIVENESS_GAVE_UP 0x3ffffffeu  /* init failed after joining */

#define SYMC_WORLD_DEFAULT "default" /* the name of a world without one */

/* The layout of a block: offsets of its parts from its start, and bytes. */
struct symc_block_layout {
    uint64_t nbytes; /* of the whole */
    uint64_t trace_offset;
    uint64_t trace_nbytes;
    uint64_t group_offset; /* see host/wire.h */
    uint64_t group_nbytes;
    uint64_t staging_offset;
    uint64_t staging_nbytes;
};

/* The head of every block. */
struct symc_block {
    uint64_t magic;
    uint32_t rank;
    uint32_t size; /* ranks of the world */
    int32_t pid;
    uint32_t threads; /* 1: the ranks are threads of one process */
    struct symc_block_layout layout; /* as its owner wrote it */
    char world[64];                  /* the world's name */

    _Alignas(SYMC_LINE) _Atomic uint32_t liveness; /* robust futex */
    _Atomic uint32_t
        left; /* SYMC_LEFT_MARK where `life` is a orderly shutdown */
    _Alignas(SYMC_LINE) _Atomic uint32_t users; /* threads: how many map it */
    _Atomic uint32_t dumped;   /* 1: its flight recorder has been written out */
    _Atomic uint32_t failures; /* groups this rank has failed, so far */
    struct symc_exit exit;
    struct symc_doorbell doorbell;
};

/* How large the parts are; the same on all ranks of a world. */
struct symc_block_sizes {
    size_t trace;
    size_t group;
    size_t staging;
};

/* A mapped block; zeroed: none. */
struct symc_block_view {
    struct symc_block *block;
    struct symc_block_layout layout; /* checked, private to whoever mapped it */
};

/*
 * Make a block: sized, sealed, and backed by memory up to the staging.
 * fd is the memfd, to be passed on and closed.
 * Errors: NO_MEMORY (what was asked, what there was), SYSTEM.
 */
symmcoll_status_t symc_block_create(const char *world, int rank, int size,
    const struct symc_block_sizes *sizes, struct symc_block_view *view,
    int *fd);

/* Map another rank's block, after checking seals, size and head against what is
 * expected.  Errors: INVALID (expected and found), NO_MEMORY. */
symmcoll_status_t symc_block_map(
    int fd, int rank, size_t nbytes, struct symc_block_view *view);

/* View a block of another thread of this process, which remains its mapping;
 * checked as by symc_block_map().  Errors: INVALID. */
symmcoll_status_t symc_block_borrow(struct symc_block *block, int rank,
    size_t nbytes, struct symc_block_view *view);

/* Release the mapping; nothing where there is none. */
void symc_block_unmap(struct symc_block_view *view);

/* Back a part with memory now.  fd is the block's.  Errors: NO_MEMORY. */
symmcoll_status_t symc_block_reserve(
    int fd, size_t offset, size_t nbytes, const char *what);

/* Let this process touch a part of a block, which begins on a page, without
 * page faults; best effort. */
void symc_block_populate(void *part, size_t nbytes);

/* The parts of a block. */
static inline void *symc_block_trace(const struct symc_block_view *view)
{
    return (char *)view->block + view->layout.trace_offset;
}

static inline void *symc_block_group(const struct symc_block_view *view)
{
    return (char *)view->block + view->layout.group_offset;
}

static inline void *symc_block_staging(const struct symc_block_view *view)
{
    return (char *)view->block + view->layout.staging_offset;
}

#endif
