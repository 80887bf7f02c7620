/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments: memory of several ranks that all of them map.  A rank offers a
 * range of its arena or, for a large segment, a memfd that holds nothing else.
 * The members exchange their offers by any means, each accepts all of them, and
 * each leaves the segment when it no longer needs it.
 *
 * INVARIANT: the bytes of a range are reused only when every member has left
 * the segment or has died.  Each rank's block has a table with the generation
 * of each of its offers and whether the rank has left, and a rank reads its
 * peers' tables before it takes its own range back.  A later generation in a
 * peer's entry also means that the peer has left: it has reused the entry after
 * all members left.  A rank that accepts an offer too late, after the offer was
 * taken back, finds another generation there and gets INVALID.
 *
 * A stray store of a peer may change its table or its offer at any time: offers
 * are copied and checked against the mapping, and an entry counts only if its
 * value can follow the expected one.
 */
#ifndef SYMC_SEGMENT_SEGMENT_H
#define SYMC_SEGMENT_SEGMENT_H

#include "segment/arena.h"
#include "segment/peer.h"
#include "segment/place.h"

#include <pthread.h>

struct symc_segment;

/* A range of this rank's arena that several segments use, one after another or
 * at once.  It is reused when its owner has dropped it and all members have
 * left each of these segments. */
struct symc_buffer {
    struct symc_buffer *next; /* list of all buffers */
    uint64_t offset;
    uint64_t nbytes;
    uint32_t users; /* owner and segments; under the segments' lock */
};

/* The operations of one kind of segment. */
struct symc_segment_ops {
    const char *name;
    /* Releases this rank's mappings.  Returns false if the segment must be kept
     * until all members have left. */
    bool (*leave)(struct symc_segment *segment);
};

struct symc_segment {
    const struct symc_segment_ops *ops;
    int rank; /* this rank's member number */
    int size;
    size_t nbytes; /* the smallest offer of all members */
    char **at;     /* part of each member; NULL: on another machine */

    /* Private to segment.c. */
    struct symc_segment *next;
    struct symc_segments *home;
    int fd;                     /* of this rank's part */
    int *global;                /* each member's rank in the world */
    struct symc_offer *offers;  /* of each member; nbytes 0: on another
                                   machine */
    struct symc_buffer *buffer; /* a buffer that the segment uses, or NULL */
};

/* All segments of one rank of a world. */
struct symc_segments {
    int rank;
    int size;
    struct symc_block *block;      /* this rank's */
    const struct symc_peer *peers; /* borrowed; NULL before
                                      symc_segments_connect() */
    struct symc_arena arena;

    pthread_mutex_t lock;         /* of the members below */
    uint64_t count;               /* offers made */
    uint32_t used;                /* entries of the table that have ever been
                                     used */
    uint32_t *entries;            /* free ones among them */
    uint32_t free_entries;        /* number of free entries */
    struct symc_segment *live;    /* accepted */
    struct symc_segment *leaving; /* left by this rank, not yet by all
                                     members */
    struct symc_buffer *buffers;  /* all; one with no users is still to be
                                     returned */
    struct symc_places places;
};

/*
 * Initialises a rank's segments with its own arena; fd is borrowed.  Offers can
 * be made at once, but accepted only after symc_segments_connect().  Errors:
 * NO_MEMORY.
 */
symmcoll_status_t symc_segments_open(struct symc_segments *segments, int rank,
    int size, const struct symc_block_view *own, int fd);

/* Sets the peers after the rendezvous; peers is borrowed until
 * symc_segments_close().  A peer with no block in its view is on another
 * machine. */
void symc_segments_connect(
    struct symc_segments *segments, const struct symc_peer *peers);

/* Releases everything.  No segment may be in use. */
void symc_segments_close(struct symc_segments *segments);

/*
 * Makes an offer of nbytes bytes that read as zeros; the first `backed` bytes
 * are backed by memory at once.  Local.
 *
 * Errors: NO_MEMORY (the message has the size needed and the size
 * available).
 */
symmcoll_status_t symc_segment_offer(struct symc_segments *segments,
    size_t nbytes, size_t backed, struct symc_offer *offer);

/* Takes back an offer that no other rank has received. */
void symc_segment_withdraw(
    struct symc_segments *segments, const struct symc_offer *offer);

/* Drops an offer that other ranks may have received and that this rank does not
 * accept.  The range is not reused, because when the others have left cannot be
 * determined. */
void symc_segment_abandon(
    struct symc_segments *segments, const struct symc_offer *offer);

/*
 * Accepts the offers of all members.  Local.  Afterwards this rank's offer
 * belongs to the segment; on failure that segment is left.
 *
 * global  the members' ranks in the world, `size` entries
 * all     their offers; nbytes is 0 for a rank on another machine
 *
 * Errors: INVALID (the offer is not within the peer's arena, or was taken back;
 * expected and found), NO_MEMORY.
 */
symmcoll_status_t symc_segment_accept(struct symc_segments *segments,
    const int *global, int rank, int size, const struct symc_offer *all,
    struct symc_segment **segment);

/* Returns a number of an accepted segment that is unique over the life of the
 * world and equal on all members. */
uint64_t symc_segment_number(const struct symc_segment *segment);

/*
 * Takes a range of this rank's arena that reads as zeros and is backed by
 * memory.  Local.  The caller holds it until symc_buffer_drop().
 *
 * Errors: NO_MEMORY (the message has the size needed and the size
 * available).
 */
symmcoll_status_t symc_buffer_take(
    struct symc_segments *segments, size_t nbytes, struct symc_buffer **buffer);

/* Adds a user to a buffer, for a segment that will be accepted with it; removes
 * one. */
void symc_buffer_hold(
    struct symc_segments *segments, struct symc_buffer *buffer);
void symc_buffer_drop(
    struct symc_segments *segments, struct symc_buffer *buffer);

/* As symc_segment_accept(), with a buffer that symc_buffer_hold() has been
 * called for: the segment becomes that user.  On failure the user is
 * removed. */
symmcoll_status_t symc_segment_accept_with(struct symc_segments *segments,
    const int *global, int rank, int size, const struct symc_offer *all,
    struct symc_buffer *buffer, struct symc_segment **segment);

/*
 * Segments made of memfds.
 *
 * symc_segment_create() makes this rank's memfd; fd is sent to the members and
 * passed to symc_segment_import(), which maps nbytes of each member's memfd.
 * fds has one entry per member, this rank's included, -1 for a member on
 * another machine; all are closed.  Memfds are not reused, so a member that
 * leaves unmaps at once.
 *
 * Errors: NO_MEMORY, SYSTEM, INVALID (not a sealed memfd of that size).
 */
symmcoll_status_t symc_segment_create(const char *name, size_t nbytes, int *fd);
symmcoll_status_t symc_segment_import(struct symc_segments *segments,
    const int *global, int rank, int size, int *fds, size_t nbytes,
    struct symc_segment **segment);

/* Backs part of this rank's bytes with memory; `what` names its purpose in
 * messages.  Errors: INVALID (not within the part), NO_MEMORY. */
symmcoll_status_t symc_segment_reserve(struct symc_segment *segment,
    size_t offset, size_t nbytes, const char *what);

/* Leaves a segment without waiting for the other members.  This rank must not
 * access its bytes afterwards.  NULL is valid. */
void symc_segment_leave(struct symc_segment *segment);

/* Returns whether another member has left the segment.  This rank must not have
 * left it. */
bool symc_segment_is_left(const struct symc_segment *segment, int member);

/* Takes back the ranges that all members have left and releases their memory.
 * Returns how many segments remain to be taken back.  Also done by
 * symc_segment_offer(). */
int symc_segments_reap(struct symc_segments *segments);

/*
 * Finds the segment in which one member's part contains all of these bytes.
 * Sets rank (that member) and offset (within its part).  Returns NULL if there
 * is none.
 */
struct symc_segment *symc_segment_find(struct symc_segments *segments,
    const void *address, size_t nbytes, int *rank, size_t *offset);

#endif
