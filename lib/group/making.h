/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups being created by all members of a parent: the state of each member and
 * its messages; see agree.c.
 */
#ifndef SYMC_GROUP_MAKING_H
#define SYMC_GROUP_MAKING_H

#include "group/group.h"

/* A member's message in the first round; it fits in a header line. */
struct symc_entry {
    uint64_t key;
    struct symc_offer offer; /* nbytes 0: in none of the groups */
    int32_t status;
    uint32_t has_it; /* 1: this rank has such a group already */
};
_Static_assert(
    sizeof(struct symc_entry) <= 40, "an entry travels with a header line");
_Static_assert(sizeof(struct symc_entry) <= sizeof(struct symc_verdict),
    "the entries of all fit the parent's verdicts");

/* Groups being created.  partition NULL: the members exchange colors. */
struct symc_making {
    struct symmcoll_group *parent;
    const struct symc_partition *partition;
    const struct symc_group_options *options;
    struct symmcoll_group **groups; /* the caller's array */
    int64_t timeout_ns;             /* timeout of each round */
    int own;                        /* index of this rank's group; -1: none */
    const int *own_ranks;           /* world ranks of its members */
    int own_rank;                   /* this rank's rank in it */
    struct symc_group_part part;
    bool offered;
    struct symc_offer *offers; /* offers of its members */
    struct symc_entry mine;
    uint64_t issued; /* symc_ticks() of the call */
    struct symc_trace_entry *record;
};

/* Returns a digest of this rank's request, which all members compare. */
uint64_t symc_making_key(const struct symc_making *making);

/* Makes the plan of one of the groups, with its members at `ranks`. */
void symc_making_plan(const struct symc_making *making, int index,
    const int *ranks, struct symc_group_plan *plan);

/* Holds a round in which all members exchange why the groups cannot be created.
 * All return the same error.  own: this rank's error, with its detail; OK:
 * none. */
symmcoll_status_t symc_making_explain(
    struct symc_making *making, symmcoll_status_t own);

#endif
