/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Proposals: records that a rank publishes in its own block for the ranks that
 * request the same key, so that some ranks of a world can agree although others
 * have died.  Only the owner writes a proposal; readers copy and check it.
 *
 * A published proposal is never withdrawn: if its rank dies, all others still
 * read the same content.
 */
#ifndef SYMC_SEGMENT_PROPOSAL_H
#define SYMC_SEGMENT_PROPOSAL_H

#include "segment/peer.h"

#include <pthread.h>

/* A count of the requests for a key.  Some entries are preallocated for a
 * lack of memory: a rank that lost a count could never agree with the others
 * again. */
struct symc_proposal_count {
    struct symc_proposal_count *next;
    uint64_t key;
    uint64_t count;
};
#define SYMC_PROPOSAL_KEPT 64

/* The proposals of one rank. */
struct symc_proposals {
    pthread_mutex_t lock;
    struct symc_block *block;
    uint64_t count; /* of slots taken */
    struct {
        bool used;
        bool finished;
        uint64_t taken; /* value of count at that time */
        uint64_t base;
        int *global; /* the ranks that read it, in readers */
        int size;
    } slots[SYMC_PROPOSALS];
    int *readers; /* for each slot as many as the world has ranks */
    struct symc_proposal_count *counts;
    struct symc_proposal_count kept[SYMC_PROPOSAL_KEPT];
    int nkept; /* how many of them are used */
};

/* Errors: NO_MEMORY. */
symmcoll_status_t symc_proposals_open(
    struct symc_proposals *proposals, struct symc_block *block, int size);
void symc_proposals_close(struct symc_proposals *proposals);

/* Returns in count how many times this rank has requested the key before, and
 * counts this request.  Errors: NO_MEMORY: the request is not counted. */
symmcoll_status_t symc_proposal_count(
    struct symc_proposals *proposals, uint64_t key, uint64_t *count);

/*
 * Takes a slot for a key that the ranks in global read.  A finished slot is
 * reused when all its readers have finished as well or have died.  Returns -1
 * if no slot is free.  Allocates nothing, so that a rank without memory can
 * publish its failure.
 */
int symc_proposal_take(struct symc_proposals *proposals,
    const struct symc_peer *peers, uint64_t base, const int *global, int size);

/* Publishes content in a slot, or replaces what is published there. */
void symc_proposal_put(struct symc_proposals *proposals, int slot,
    const struct symc_proposal *content);

/* Marks a slot as finished: this rank has read all that it needs.  The slot is
 * kept until the others have finished as well; if read is set they have, and it
 * is free. */
void symc_proposal_finish(
    struct symc_proposals *proposals, int slot, bool read);

enum symc_proposal_end {
    SYMC_PROPOSAL_NONE,
    SYMC_PROPOSAL_FOUND,
    SYMC_PROPOSAL_FAILED, /* its rank gave up */
    SYMC_PROPOSAL_LATER   /* its rank is in a later round */
};

/* Finds a rank's proposal for a key in a round, and copies it. */
enum symc_proposal_end symc_proposal_find(const struct symc_block *block,
    uint64_t base, uint64_t round, struct symc_proposal *copy);

/* Copies a proposal that its rank has neither finished nor failed.  Returns
 * false if there is none. */
bool symc_proposal_latest(
    const struct symc_block *block, struct symc_proposal *copy);

#endif
