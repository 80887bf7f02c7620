/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Proposals: what a rank tells those others that ask for the same key, in its own
 * block, so that some ranks of a world agree although others have died.  Its
 * writer alone writes it; readers copy and check.
 *
 * A proposal that has been put is never unsaid: also where its rank has died
 * since, all others read the same.
 */
#ifndef SYMC_SEGMENT_PROPOSAL_H
#define SYMC_SEGMENT_PROPOSAL_H

#include "segment/peer.h"

#include <pthread.h>

/* How often a key was asked for.  Some are kept for when there is no memory: a
 * rank that forgot one would never agree with the others again. */
struct symc_proposal_count {
    struct symc_proposal_count *next;
    uint64_t key;
    uint64_t count;
};
#define SYMC_PROPOSAL_KEPT 64

/* The proposals of one rank that are in use. */
struct symc_proposals {
    pthread_mutex_t lock;
    struct symc_block *block;
    uint64_t count; /* of takings */
    struct {
        bool used;
        bool finished;
        uint64_t taken; /* when */
        uint64_t base;
        int *global; /* who reads it, in readers */
        int size;
    } slots[SYMC_PROPOSALS];
    int *readers; /* of each slot as many as the world has ranks */
    struct symc_proposal_count *counts;
    struct symc_proposal_count kept[SYMC_PROPOSAL_KEPT];
    int nkept; /* that are used */
};

/* Errors: NO_MEMORY. */
symmcoll_status_t symc_proposals_open(
    struct symc_proposals *proposals, struct symc_block *block, int size);
void symc_proposals_close(struct symc_proposals *proposals);

/* How often this rank has asked for a key before.  Errors: NO_MEMORY: it has not,
 * and that is not kept. */
symmcoll_status_t symc_proposal_count(
    struct symc_proposals *proposals, uint64_t key, uint64_t *count);

/*
 * Take a slot for a key that these ranks read.  Those that are finished are used
 * again when all their readers have finished, too, or have died.  -1: none is
 * free at the moment.  Allocates nothing: who has no memory says so here.
 */
int symc_proposal_take(struct symc_proposals *proposals,
    const struct symc_peer *peers, uint64_t base, const int *global, int size);

/* Say something in a slot, or something else. */
void symc_proposal_put(struct symc_proposals *proposals, int slot,
    const struct symc_proposal *content);

/* This rank has read all that it wanted: the slot stays until the others have,
 * or where they have (read) is free. */
void symc_proposal_finish(
    struct symc_proposals *proposals, int slot, bool read);

enum symc_proposal_end {
    SYMC_PROPOSAL_NONE,
    SYMC_PROPOSAL_FOUND,
    SYMC_PROPOSAL_FAILED, /* its rank has given up */
    SYMC_PROPOSAL_LATER   /* its rank is in a later round, without this one */
};

/* Find a rank's proposal in a round, and copy it. */
enum symc_proposal_end symc_proposal_find(const struct symc_block *block,
    uint64_t base, uint64_t round, struct symc_proposal *copy);

/* Copy the latest that a rank has not finished; false where there is none. */
bool symc_proposal_latest(
    const struct symc_block *block, struct symc_proposal *copy);

#endif
