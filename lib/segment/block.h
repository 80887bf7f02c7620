/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A block is the head of a rank's arena, see segment.h.  The arena is a sealed
 * memfd that every rank maps, or that all threads of one process share in one
 * mapping; the launcher maps the block alone.  The block has no memfd of its
 * own, so that a rank needs one descriptor to be exchanged and one mapping.  In
 * another rank's block a rank writes only doorbells, to wake that rank, `users`,
 * `dumped` and, of rank 0, `blas`; the launcher writes `exit`.
 *
 * Layout: head with the table of segments, then the flight recorder (see struct
 * symc_block_layout).  The block is backed by memory except for the part of the
 * recorder that is not used yet.
 *
 * A stray store of any rank may change any word at any time.  Therefore a rank
 * that maps a block copies its layout, checks the copy and uses only that;
 * fields that change over the life of a block are checked on every read.
 */
#ifndef SYMC_SEGMENT_BLOCK_H
#define SYMC_SEGMENT_BLOCK_H

#include "base/base.h"

#include <stdatomic.h>
#include <sys/types.h>

#define SYMC_BLOCK_MAGIC UINT64_C(0x3630304c4c4f4353) /* "SCOLL006" */
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

/* The exit status of a rank as its parent got it from waitpid(), with a mark
 * that distinguishes it from a stray store. 0: not known yet. */
struct symc_exit {
    _Alignas(SYMC_LINE) _Atomic uint32_t marked;
};

/* Values of symc_block.liveness, apart from the monitor's thread id. */
#define SYMC_LIVENESS_NONE 0u              /* not started */
#define SYMC_LIVENESS_DIED 0x40000000u     /* FUTEX_OWNER_DIED, by kernel */
#define SYMC_LIVENESS_SHUTDOWN 0x3fffffffu /* finalized; no such thread id */
#define SYMC_LEFT_MARK 0x1eaf5eedu         /* in symc_block.left with it */
#define SYMC_LIVENESS_GAVE_UP 0x3ffffffeu  /* init failed after joining */

#define SYMC_WORLD_DEFAULT "default" /* the world's name if none is set */

#define SYMC_SEGMENTS_MAX 4096 /* segments of one rank at the same time */
/* flag in the entry of a generation */
#define SYMC_SEGMENT_LEFT (UINT64_C(1) << 63)

/* The layout of a block: offsets from its start, and sizes in bytes. */
struct symc_block_layout {
    uint64_t nbytes; /* of the block */
    uint64_t trace_offset;
    uint64_t trace_nbytes;
};

/*
 * A part of an arena that is offered to the members of a segment.
 *
 * generation  distinguishes the offer from earlier and later ones of the same
 *             range: the lowest bits are the number of the segment's entry in the
 *             table of its owner's block, the others a count
 */
struct symc_offer {
    uint64_t offset;
    uint64_t nbytes;
    uint64_t generation;
};

#define SYMC_PROPOSALS 16 /* of one rank at the same time */

/* The record that a rank publishes to ranks it must agree with, see
 * proposal.h. */
struct symc_proposal {
    _Alignas(SYMC_LINE) _Atomic uint32_t lock; /* odd: being written */
    uint32_t unused;
    uint64_t base;  /* the key that is being agreed on */
    uint64_t round; /* from 1 */
    struct symc_offer offer;
    uint64_t last;  /* the last operation it has completed */
    int32_t status; /* negative: the rank gave up */
    uint32_t ready; /* 1: it has opened the agreed object */
    uint64_t done;  /* 1: it has read the others' proposals */
    char text[208]; /* the object's name, or why the rank gave up */
    uint64_t excluded[SYMC_RANKS_MAX / 64]; /* ranks that do not take part */
};

#define SYMC_NODE_MAX 256 /* bytes of a machine's name */

/* The head of every block. */
struct symc_block {
    uint64_t magic;
    uint32_t rank;
    uint32_t size; /* ranks of the world */
    int32_t pid;
    uint32_t threads; /* 1: the ranks are threads of one process */
    struct symc_block_layout layout; /* as written by its owner */
    struct symc_offer first;         /* part in the segment of the group of all
                                        ranks */
    char world[64];                  /* the world's name */
    char node[SYMC_NODE_MAX];        /* host.node; "": this machine */

    _Alignas(SYMC_LINE) _Atomic uint32_t liveness; /* robust futex */
    _Atomic uint32_t left; /* SYMC_LEFT_MARK with SYMC_LIVENESS_SHUTDOWN */
    _Alignas(SYMC_LINE) _Atomic uint32_t users; /* threads: the number that map
                                                   it */
    _Atomic uint32_t dumped;   /* 1: its flight recorder has been written */
    _Atomic uint32_t failures; /* groups that this rank has failed */
    _Atomic uint32_t blas;     /* rank 0 only: see symc_blas_load_agreed() */
    _Atomic uint32_t resumed;  /* groups it has shrunk or is shrinking: if not
                                  0, the launcher does not end its job */
    struct symc_exit exit;

    /* Sends and receives: the doorbell of the threads that wait for them (see
     * doorbell.h), and the offset in the arena of their shared state; 0: none
     * yet. */
    _Alignas(SYMC_FALSE_SHARING) unsigned char doorbell[SYMC_FALSE_SHARING];
    _Atomic uint64_t pairs;

    /* The table of segments: the generation of each, with SYMC_SEGMENT_LEFT
     * once this rank has left it; 0: never used. */
    _Alignas(SYMC_LINE) _Atomic uint64_t segments[SYMC_SEGMENTS_MAX];
    struct symc_proposal proposals[SYMC_PROPOSALS];
};

/* A mapped block; all zeros: none. */
struct symc_block_view {
    struct symc_block *block;
    size_t mapped; /* bytes of the arena, from the block's start */
    struct symc_block_layout layout; /* checked and private copy */
    struct symc_offer first;         /* likewise; nbytes 0: none is mapped */
};

/* Returns the bytes of a block with trace_nbytes bytes of flight recorder. */
size_t symc_block_nbytes(size_t trace_nbytes);

/*
 * Creates an arena of nbytes bytes with a block at its head.  The head and the
 * first `backed` bytes of the recorder are backed by memory.  fd (out) is the
 * memfd, to be sent to the peers and closed by the caller.
 *
 * Errors: NO_MEMORY (the message has the size needed and the size
 * available), SYSTEM.
 */
symmcoll_status_t symc_block_create(const char *world, int rank, int size,
    size_t trace_nbytes, size_t backed, size_t nbytes,
    struct symc_block_view *view, int *fd);

/*
 * Maps another rank's arena after checking its seals, size and head.
 *
 * nbytes  the expected size of the arena
 * mapped  how much of it to map; 0: the block and its first segment
 *
 * Errors: INVALID (expected and found), NO_MEMORY.
 */
symmcoll_status_t symc_block_map(int fd, int rank, size_t nbytes, size_t mapped,
    struct symc_block_view *view);

/* Makes a view of the arena of another thread of this process, which keeps the
 * mapping.  Checks it as symc_block_map() does.  Errors: INVALID. */
symmcoll_status_t symc_block_borrow(struct symc_block *block, int rank,
    size_t mapped, struct symc_block_view *view);

/* Releases the mapping, if there is one. */
void symc_block_unmap(struct symc_block_view *view);

/* Return the recorder of a block, and its first segment. */
static inline void *symc_block_trace(const struct symc_block_view *view)
{
    return (char *)view->block + view->layout.trace_offset;
}

static inline void *symc_block_first(const struct symc_block_view *view)
{
    return (char *)view->block + view->first.offset;
}

#endif
