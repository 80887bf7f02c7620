/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreement among ranks of a world, in rounds and through proposals in their
 * blocks.  It uses no operation of a group, so that it works after ranks have
 * died.  Private to this directory.
 */
#ifndef SYMC_GROUP_AGREEMENT_H
#define SYMC_GROUP_AGREEMENT_H

#include "group/group.h"
#include "segment/proposal.h"

struct symc_agreement {
    struct symmcoll_world *world;
    const char *where; /* name of the call, for messages */
    uint64_t base;     /* digest of the request */
    const int *global; /* world ranks of all possible members */
    int size;
    int rank; /* this rank's index in global */
    int64_t deadline_ns;
    double seconds; /* the timeout, for messages */
    bool outlives;  /* goes on when a member has died */
    bool *excluded; /* per member: not waited for */
    bool *gone;     /* per member: died in this round without a proposal */
    bool *heard;    /* per member: has proposed in this round */
    bool *unwanted; /* excluded by a proposal of this round */
    struct symc_proposal mine;
    struct symc_proposal *all; /* the proposals of this round */
    uint64_t round;
    int slot; /* slot of the latest round's proposal; -1: none yet */
};

/* Allocates the agreement's arrays.  Errors: NO_MEMORY. */
symmcoll_status_t symc_agreement_begin(struct symc_agreement *agreement);

/*
 * Publishes `mine` and waits until each member that is not excluded has
 * proposed or died.  Errors: PEER (a member has died and the agreement does not
 * outlive that), TIMEOUT (names the missing members and what they wait for),
 * the error of a member that gave up, ABORTED (the others go on without this
 * rank).
 */
symmcoll_status_t symc_agreement_round(struct symc_agreement *agreement);

/* Ends the agreement with this rank's status.  An error is published with its
 * detail. */
void symc_agreement_end(
    struct symc_agreement *agreement, symmcoll_status_t status);

#endif
