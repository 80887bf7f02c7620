/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A block is the head of a rank's arena, see segment.h: a sealed memfd, mapped
 * by every rank, or by all threads of one process at one place, and its head by
 * the launcher.  It is at the head, and no memfd of its own, so that a rank
 * needs one descriptor to be exchanged and one mapping.  A rank writes only to
 * its own arena, but for some words: of doorbells, by which others wake it, and
 * the block's `exit`, which the launcher fills, `users`, and `dumped`.
 *
 * What is where: head, table of segments, flight recorder (see struct
 * symc_block_layout).  It is backed by memory, but for
 * what the recorder does not use yet.
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

#define SYMC_BLOCK_MAGIC UINT64_C(0x3530304c4c4f4353) /* "SCOLL005" */
#define SYMC_LINE 64           /* bytes of a cache line */
#define SYMC_FALSE_SHARING 128 /* alignment; lines are fetched in pairs */

/* Prefetch a cache line for writing. */
static inline void symc_claim(const void *line)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1);
#endif
}

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

#define SYMC_SEGMENTS_MAX 4096 /* segments of a rank that live at once */
#define SYMC_SEGMENT_LEFT (UINT64_C(1) << 63) /* beside a generation */

/* The layout of a block: offsets of its parts from its start, and bytes. */
struct symc_block_layout {
    uint64_t nbytes; /* of the block */
    uint64_t trace_offset;
    uint64_t trace_nbytes;
};

/*
 * A part of an arena, offered to the members of a segment.
 *
 * generation  what tells it from what was and will be in the same place: the
 *             number of the segment's entry in the table of its owner's block
 *             in the lowest bits, and a count
 */
struct symc_offer {
    uint64_t offset;
    uint64_t nbytes;
    uint64_t generation;
};

#define SYMC_PROPOSALS 16 /* of a rank, at once */

/* What a rank says to those that agree on something, see proposal.h. */
struct symc_proposal {
    _Alignas(SYMC_LINE) _Atomic uint32_t lock; /* odd: being written */
    uint32_t unused;
    uint64_t base;  /* what is being agreed on */
    uint64_t round; /* from 1 */
    struct symc_offer offer;
    uint64_t last;  /* what it has completed */
    int32_t status; /* negative: it has given up */
    uint32_t ready; /* 1: it has opened what was agreed on */
    uint64_t done;  /* 1: it has read what the others say */
    char text[208]; /* what is made, or why it has given up */
    uint64_t excluded[SYMC_RANKS_MAX / 64]; /* those that do not take part */
};

#define SYMC_NODE_MAX 256 /* bytes of a name of a machine */

/* The head of every block. */
struct symc_block {
    uint64_t magic;
    uint32_t rank;
    uint32_t size; /* ranks of the world */
    int32_t pid;
    uint32_t threads; /* 1: the ranks are threads of one process */
    struct symc_block_layout layout; /* as its owner wrote it */
    struct symc_offer first;         /* the part of the group of all ranks */
    char world[64];                  /* the world's name */
    char node[SYMC_NODE_MAX];        /* host.node; "": this machine */

    _Alignas(SYMC_LINE) _Atomic uint32_t liveness; /* robust futex */
    _Atomic uint32_t left; /* SYMC_LEFT_MARK beside SYMC_LIVENESS_SHUTDOWN */
    _Alignas(SYMC_LINE) _Atomic uint32_t users; /* threads: how many map it */
    _Atomic uint32_t dumped;   /* 1: its flight recorder has been written out */
    _Atomic uint32_t failures; /* groups this rank has failed, so far */
    _Atomic uint32_t blas;     /* rank 0's: see symc_blas_load_agreed() */
    _Atomic uint32_t resumed;  /* groups it has shrunk, one under way included:
                                  the launcher does not end its job */
    struct symc_exit exit;

    /* Sends and receives: the doorbell of those who wait for them (see
     * doorbell.h), and where what they share is in the arena; 0: nothing yet. */
    _Alignas(SYMC_FALSE_SHARING) unsigned char doorbell[SYMC_FALSE_SHARING];
    _Atomic uint64_t pairs;

    /* The table of segments: the generation of each, with SYMC_SEGMENT_LEFT once
     * this rank has left it; 0 where there has been none. */
    _Alignas(SYMC_LINE) _Atomic uint64_t segments[SYMC_SEGMENTS_MAX];
    struct symc_proposal proposals[SYMC_PROPOSALS];
};

/* A mapped block; zeroed: none. */
struct symc_block_view {
    struct symc_block *block;
    size_t mapped; /* bytes of the arena, from the block's start */
    struct symc_block_layout layout; /* checked, private to whoever mapped it */
    struct symc_offer first; /* the same; nbytes 0: none that is mapped */
};

/* Bytes of a block with so many for the recorder. */
size_t symc_block_nbytes(size_t trace_nbytes);

/*
 * Make an arena with a block at its head, which is backed by memory up to the
 * first `backed` bytes for the recorder.
 * nbytes is the arena's; fd is the memfd, to be passed on and closed.
 * Errors: NO_MEMORY (what was asked, what there was), SYSTEM.
 */
symmcoll_status_t symc_block_create(const char *world, int rank, int size,
    size_t trace_nbytes, size_t backed, size_t nbytes,
    struct symc_block_view *view, int *fd);

/*
 * Map another rank's arena, after checking seals, size and head against what is
 * expected.
 *
 * nbytes  of the arena
 * mapped  of them, to be mapped; 0: the block and its first segment
 *
 * Errors: INVALID (expected and found), NO_MEMORY.
 */
symmcoll_status_t symc_block_map(int fd, int rank, size_t nbytes, size_t mapped,
    struct symc_block_view *view);

/* View an arena of another thread of this process, which remains its mapping;
 * checked as by symc_block_map().  Errors: INVALID. */
symmcoll_status_t symc_block_borrow(struct symc_block *block, int rank,
    size_t mapped, struct symc_block_view *view);

/* Release the mapping; nothing where there is none. */
void symc_block_unmap(struct symc_block_view *view);

/* The recorder of a block, and its first segment. */
static inline void *symc_block_trace(const struct symc_block_view *view)
{
    return (char *)view->block + view->layout.trace_offset;
}

static inline void *symc_block_first(const struct symc_block_view *view)
{
    return (char *)view->block + view->first.offset;
}

#endif
