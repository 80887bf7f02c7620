/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments: memory of several ranks, which all of them map.  A rank offers a
 * range of its arena, or, where that is large, a memfd of its own; the members
 * exchange their offers by whatever means they have; each accepts all of them,
 * and leaves the segment when it has no more use for it.
 *
 * INVARIANT: the bytes of a range are used again only when every member has
 * left the segment or has died.  Each rank's block has a table with the
 * generation of each of its offers and whether the rank has left; so a rank
 * looks at its peers' tables before it takes its own range back.  A peer's
 * entry that is of a later generation tells as much: that peer has found that
 * all have left.  And who accepts an offer that has been taken back, because it
 * is late, finds another generation there, and is refused.
 *
 * A stray store of a peer may change its table or what it offers at any time:
 * offers are copied and checked against what is mapped, and an entry counts
 * only where it is one of those that can follow on the one expected.
 */
#ifndef SYMC_SEGMENT_SEGMENT_H
#define SYMC_SEGMENT_SEGMENT_H

#include "segment/arena.h"
#include "segment/peer.h"
#include "segment/place.h"

#include <pthread.h>

struct symc_segment;

/* A range of the own arena of which several segments, one after another or at
 * once, tell their members.  It is used again when its owner has dropped it and
 * all of them have left each of these segments. */
struct symc_buffer {
    struct symc_buffer *next; /* of all */
    uint64_t offset;
    uint64_t nbytes;
    uint32_t users; /* its owner, and segments; under the segments' lock */
};

/* How a kind of segment does what differs. */
struct symc_segment_ops {
    const char *name;
    /* Let go of what this rank has mapped; false where the segment has to be
     * kept until all have left. */
    bool (*leave)(struct symc_segment *segment);
};

struct symc_segment {
    const struct symc_segment_ops *ops;
    int rank; /* this rank's, among the members */
    int size;
    size_t nbytes; /* the smallest that any member offered */
    char **at;     /* of each member; NULL: not on this machine */

    /* Private to segment.c. */
    struct symc_segment *next;
    struct symc_segments *home;
    int fd;                     /* of this rank's bytes */
    int *global;                /* ranks of the members in the world */
    struct symc_offer *offers;  /* of each; nbytes 0: not on this machine */
    struct symc_buffer *buffer; /* what it keeps besides, or NULL */
};

/* All segments of one rank of a world. */
struct symc_segments {
    int rank;
    int size;
    struct symc_block *block;      /* this rank's */
    const struct symc_peer *peers; /* borrowed; NULL before they are known */
    struct symc_arena arena;

    pthread_mutex_t lock;         /* of what follows */
    uint64_t count;               /* offers so far */
    uint32_t used;                /* entries of the table that have been used */
    uint32_t *entries;            /* those of them that are free */
    uint32_t free_entries;        /* how many */
    struct symc_segment *live;    /* accepted */
    struct symc_segment *leaving; /* left, and not by everybody */
    struct symc_buffer *buffers;  /* all; without users: to be returned */
    struct symc_places places;
};

/*
 * Begin with a rank's own arena; fd is borrowed.  Offers can be made, and
 * accepted once the peers are known.  Errors: NO_MEMORY.
 */
symmcoll_status_t symc_segments_open(struct symc_segments *segments, int rank,
    int size, const struct symc_block_view *own, int fd);

/* The ranks have joined: peers is borrowed until symc_segments_close().  A peer
 * whose view has no block is on another machine. */
void symc_segments_connect(
    struct symc_segments *segments, const struct symc_peer *peers);

/* Release everything; no segment may be in use any more. */
void symc_segments_close(struct symc_segments *segments);

/*
 * Offer a range that begins as zeros, the first `backed` bytes of which are
 * backed by memory now.  Local.
 *
 * Errors: NO_MEMORY (what was asked, what there is).
 */
symmcoll_status_t symc_segment_offer(struct symc_segments *segments,
    size_t nbytes, size_t backed, struct symc_offer *offer);

/* Take an offer back that no other rank has been given. */
void symc_segment_withdraw(
    struct symc_segments *segments, const struct symc_offer *offer);

/* Give an offer up that others may have been given, and that this rank does not
 * accept: nobody can know when they have left, so the range is not used again. */
void symc_segment_abandon(
    struct symc_segments *segments, const struct symc_offer *offer);

/*
 * Accept what all members offer.  Local.  Afterwards the own offer belongs to
 * the segment, also where this fails: then it is left.
 *
 * global  the members' ranks in the world; size of them
 * all     their offers; one with nbytes 0 is of a rank on another machine
 *
 * Errors: INVALID (not within the peer's arena, or taken back since: expected
 * and found), NO_MEMORY.
 */
symmcoll_status_t symc_segment_accept(struct symc_segments *segments,
    const int *global, int rank, int size, const struct symc_offer *all,
    struct symc_segment **segment);

/* A number of an accepted segment that no other one of the world has, had or will
 * have; the same on all members. */
uint64_t symc_segment_number(const struct symc_segment *segment);

/*
 * Take a range of the own arena that begins as zeros and is backed by memory.
 * Local.  It is the caller's until symc_buffer_drop().
 * Errors: NO_MEMORY (what was asked, what there is).
 */
symmcoll_status_t symc_buffer_take(
    struct symc_segments *segments, size_t nbytes, struct symc_buffer **buffer);

/* A user more, for a segment that is to be accepted with it; one fewer. */
void symc_buffer_hold(
    struct symc_segments *segments, struct symc_buffer *buffer);
void symc_buffer_drop(
    struct symc_segments *segments, struct symc_buffer *buffer);

/* As symc_segment_accept(); the segment becomes a user of the buffer that it has
 * been held for.  Where this fails the buffer has that user no more. */
symmcoll_status_t symc_segment_accept_with(struct symc_segments *segments,
    const int *global, int rank, int size, const struct symc_offer *all,
    struct symc_buffer *buffer, struct symc_segment **segment);

/*
 * A segment whose bytes are memfds of their own.
 *
 * symc_segment_create() makes this rank's: fd is to be sent to the members and
 * passed to symc_segment_import().  That takes what they sent (fds, of all
 * members, this rank's included: all are closed; -1: not on this machine), and
 * maps so many bytes of each.  Nothing is used again, so nobody has to wait:
 * whoever leaves unmaps.
 *
 * Errors: NO_MEMORY, SYSTEM, INVALID (not a sealed memfd of that size).
 */
symmcoll_status_t symc_segment_create(const char *name, size_t nbytes, int *fd);
symmcoll_status_t symc_segment_import(struct symc_segments *segments,
    const int *global, int rank, int size, int *fds, size_t nbytes,
    struct symc_segment **segment);

/* Back a part of this rank's bytes with memory; what says for what.  Errors:
 * NO_MEMORY. */
symmcoll_status_t symc_segment_reserve(struct symc_segment *segment,
    size_t offset, size_t nbytes, const char *what);

/* Give a segment up; waits for nobody.  This rank touches none of its bytes
 * afterwards.  NULL is valid. */
void symc_segment_leave(struct symc_segment *segment);

/* Whether another member has given it up; asked before this rank does. */
bool symc_segment_is_left(const struct symc_segment *segment, int member);

/* Take the ranges back that all members have left, and their memory; how many
 * remain.  Making an offer does it, too. */
int symc_segments_reap(struct symc_segments *segments);

/*
 * The segment that has all of these bytes in one member's part; NULL where none
 * does.  rank (that member) and offset (in its part) are set then.
 */
struct symc_segment *symc_segment_find(struct symc_segments *segments,
    const void *address, size_t nbytes, int *rank, size_t *offset);

#endif
