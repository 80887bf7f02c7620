/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreement of some ranks of a world, through proposals in their blocks and in
 * rounds: no operation of a group, so it works where others have died.  Private
 * to this directory.
 */
#ifndef SYMC_GROUP_AGREEMENT_H
#define SYMC_GROUP_AGREEMENT_H

#include "group/group.h"
#include "segment/proposal.h"

struct symc_agreement {
    struct symmcoll_world *world;
    const char *where; /* the call, for messages */
    uint64_t base;     /* what all ask for */
    const int *global; /* ranks in the world of all that may take part */
    int size;
    int rank; /* this rank's place among them */
    int64_t deadline_ns;
    double seconds; /* the same, for messages */
    bool outlives;  /* goes on where one has died */
    bool *excluded; /* of each: not waited for */
    bool *gone;     /* died in this round, before it said anything */
    bool *heard;    /* of each, in this round */
    bool *unwanted; /* excluded by one of those heard in this round */
    struct symc_proposal mine;
    struct symc_proposal *all; /* of those heard */
    uint64_t round;
    int slot; /* of the latest round; -1: none, as before the first */
};

/* Errors: NO_MEMORY. */
symmcoll_status_t symc_agreement_begin(struct symc_agreement *agreement);

/*
 * Say mine, and wait until all that are not excluded have said theirs, or have
 * died.
 * Errors: PEER (one has died, where the agreement does not outlive that),
 * TIMEOUT (names who has not come, and what they wait for), that of another rank
 * that has given up, ABORTED (the others go on without this rank).
 */
symmcoll_status_t symc_agreement_round(struct symc_agreement *agreement);

/* The end; status is this rank's.  Where it is an error the others are told, with
 * the detail. */
void symc_agreement_end(
    struct symc_agreement *agreement, symmcoll_status_t status);

#endif
