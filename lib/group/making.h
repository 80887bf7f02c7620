/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups that are being made by all members of a parent: what each keeps of that
 * and tells the others; see agree.c.
 */
#ifndef SYMC_GROUP_MAKING_H
#define SYMC_GROUP_MAKING_H

#include "group/group.h"

/* What a member of the parent tells in the first round; it fits a header
 * line. */
struct symc_entry {
    uint64_t key;
    struct symc_offer offer; /* nbytes 0: it is in none of the groups */
    int32_t status;
    uint32_t has_it; /* 1: there is such a group already, here */
};
_Static_assert(
    sizeof(struct symc_entry) <= 40, "an entry travels with a header line");
_Static_assert(sizeof(struct symc_entry) <= sizeof(struct symc_verdict),
    "the entries of all fit the parent's verdicts");

/* Groups that are being made.  partition NULL: the members tell their
 * colors. */
struct symc_making {
    struct symmcoll_group *parent;
    const struct symc_partition *partition;
    const struct symc_group_options *options;
    struct symmcoll_group **groups; /* as the caller's */
    int64_t timeout_ns;             /* of a round */
    int own;                        /* the group this rank is in; -1: none */
    const int *own_ranks;           /* the members of that, in the world */
    int own_rank;                   /* this rank's place among them */
    struct symc_group_part part;
    bool offered;
    struct symc_offer *offers; /* of its members */
    struct symc_entry mine;
    uint64_t issued; /* symc_ticks() of the call */
    struct symc_trace_entry *record;
};

/* A digest of what this rank was asked for, which all members compare. */
uint64_t symc_making_key(const struct symc_making *making);

/* The plan of one of the groups, whose members begin at ranks. */
void symc_making_plan(const struct symc_making *making, int index,
    const int *ranks, struct symc_group_plan *plan);

/* The groups cannot be made: in a round of its own all tell why, and get the same
 * error.  own: this rank's, with its detail; OK: none. */
symmcoll_status_t symc_making_explain(
    struct symc_making *making, symmcoll_status_t own);

#endif
