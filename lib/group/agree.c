/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creation of groups by all members of a parent, in rounds of the parent.  In
 * the first round each member sends a digest of its request and its offer for
 * the group that it will be in; in the second, whether it could open that
 * group.  The groups exist only if all members have opened them; otherwise none
 * exists, and a third round exchanges the reasons.
 */
#include "group/making.h"
#include "run/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- before the first round ---- */

/* Finds the group that this rank will be in. */
static void find_own(struct symc_making *making)
{
    const struct symc_partition *partition = making->partition;
    const int *ranks = partition->ranks;

    making->own = -1;
    for (int i = 0; i < partition->count; i++) {
        for (int r = 0; r < partition->sizes[i]; r++) {
            if (ranks[r] != making->parent->world->rank)
                continue;
            making->own = i;
            making->own_ranks = ranks;
            making->own_rank = r;
        }
        ranks += partition->sizes[i];
    }
}

/* Checks and offers what this rank can before the first round. */
static symmcoll_status_t prepare(struct symc_making *making)
{
    struct symmcoll_world *world = making->parent->world;
    const int *ranks = making->partition->ranks;
    size_t size;
    symmcoll_status_t status;

    for (int i = 0; i < making->partition->count; i++) {
        struct symc_group_plan plan;

        symc_making_plan(making, i, ranks, &plan);
        ranks += making->partition->sizes[i];
        if (making->options->name != NULL &&
            symc_group_find_name(world, plan.name) != NULL)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "expected a new name, found that there is a group %s already",
                plan.name);
    }
    if (making->own < 0)
        return SYMMCOLL_OK;
    size = (size_t)making->partition->sizes[making->own];
    making->offers = symc_alloc(size, sizeof(*making->offers));
    if (making->offers == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    making->part =
        symc_world_take_part(world, (int)size, making->options->staging);
    status = symc_segment_offer(&world->segments, making->part.nbytes,
        making->part.staging, &making->mine.offer);
    making->offered = status == SYMMCOLL_OK;
    if (!making->offered)
        symc_world_return_staging(
            world, making->part.nbytes - making->part.staging);
    return status;
}

/* Withdraws the offer: no member has accepted it, or (known false) it is not
 * known whether one has. */
static void take_back(struct symc_making *making, bool known)
{
    struct symmcoll_world *world = making->parent->world;

    if (!making->offered)
        return;
    if (known)
        symc_segment_withdraw(&world->segments, &making->mine.offer);
    else
        symc_segment_abandon(&world->segments, &making->mine.offer);
    symc_world_return_staging(
        world, making->part.nbytes - making->part.staging);
    making->offered = false;
}

/* ---- opening ---- */

/* Undoes open_all(). */
static void close_all(struct symc_making *making)
{
    for (int i = 0; i < making->partition->count; i++) {
        if (making->groups[i] != NULL)
            (void)symc_group_end(making->groups[i]);
        making->groups[i] = NULL;
    }
}

static symmcoll_status_t open_one(
    struct symc_making *making, int index, const int *ranks)
{
    struct symmcoll_world *world = making->parent->world;
    struct symc_group_plan plan;
    symmcoll_status_t status;

    symc_making_plan(making, index, ranks, &plan);
    if (index != making->own && !making->options->outside)
        return SYMMCOLL_OK;
    if (index != making->own) {
        status = symc_group_open_outside(world, &plan, &making->groups[index]);
    } else {
        making->offered = false; /* the group owns the offer from here on */
        status = symc_group_open(world, &plan, &making->part, making->offers,
            &making->groups[index]);
    }
    return status;
}

static symmcoll_status_t open_all(struct symc_making *making)
{
    const int *ranks = making->partition->ranks;

    for (int i = 0; i < making->partition->count; i++) {
        symmcoll_status_t status = open_one(making, i, ranks);

        if (status != SYMMCOLL_OK)
            return status;
        ranks += making->partition->sizes[i];
    }
    return SYMMCOLL_OK;
}

/* ---- the rounds ---- */

/* Checks that all members made the same request and can go on, and keeps the
 * offers for this rank's group. */
static bool read_entries(struct symc_making *making)
{
    const struct symmcoll_group *parent = making->parent;
    const struct symc_entry *all = (const void *)parent->runner.verdicts;

    for (int r = 0; r < parent->runner.size; r++) {
        if (all[r].status != SYMMCOLL_OK || all[r].key != making->mine.key)
            return false;
    }
    for (int m = 0;
         making->own >= 0 && m < making->partition->sizes[making->own]; m++) {
        int r = symmcoll_group_rank_of(parent, making->own_ranks[m]);

        making->offers[m] = all[r].offer;
    }
    return true;
}

/* Opens the groups once all members have offered, and exchanges whether all
 * could. */
static symmcoll_status_t open_everywhere(struct symc_making *making)
{
    struct symmcoll_group *parent = making->parent;
    const int32_t *all = (const void *)parent->runner.verdicts;
    symmcoll_status_t own = open_all(making);
    struct symc_error error;
    int32_t mine = own;
    symmcoll_status_t status;

    symc_error_keep(&error, own);
    status = symc_run_round(&parent->runner, making->options->kind, &mine,
        parent->runner.verdicts, sizeof(mine), making->timeout_ns);
    for (int r = 0; status == SYMMCOLL_OK && r < parent->runner.size; r++)
        own = own == SYMMCOLL_OK ? all[r] : own;
    if (status != SYMMCOLL_OK) {
        symc_error_keep(&error, status);
        close_all(making);
        return symc_error_return(&error);
    }
    if (own == SYMMCOLL_OK)
        return SYMMCOLL_OK;
    close_all(making);
    (void)symc_error_return(&error);
    return symc_making_explain(making, mine);
}

/* Holds a round in which members exchange whether they have such a group, and
 * returns the existing group if all have it. */
static symmcoll_status_t reuse(struct symc_making *making)
{
    const struct symmcoll_group *parent = making->parent;
    const struct symc_partition *partition = making->partition;
    const struct symc_entry *all = (const void *)parent->runner.verdicts;
    struct symmcoll_group *found = symc_group_find_tag(parent->world,
        making->options->tag, partition->ranks, partition->sizes[0], false);
    struct symc_entry mine = {
        .key = making->mine.key, .has_it = found != NULL ? 1 : 0};
    symmcoll_status_t status =
        symc_run_round(&making->parent->runner, making->options->kind, &mine,
            parent->runner.verdicts, sizeof(mine), making->timeout_ns);
    bool everywhere = status == SYMMCOLL_OK;

    if (status != SYMMCOLL_OK)
        return status;
    for (int r = 0; r < parent->runner.size; r++) {
        if (all[r].status != SYMMCOLL_OK || all[r].key != mine.key)
            return symc_making_explain(making, SYMMCOLL_OK);
        everywhere = everywhere && all[r].has_it == 1;
    }
    if (everywhere)
        making->groups[0] = symc_group_find_tag(parent->world,
            making->options->tag, partition->ranks, partition->sizes[0], true);
    return SYMMCOLL_OK;
}

/* Begins and records the call, whose ticket is served. */
static symmcoll_status_t begin(struct symc_making *making)
{
    struct symmcoll_group *parent = making->parent;
    struct symc_op op = {.kind = making->options->kind};
    const struct symc_group_call call = {.kind = op.kind,
        .trace = parent->runner.trace,
        .seq = atomic_load(&parent->runner.seq[SYMC_COUNT_COLLECTIVE]),
        .name = making->options->name,
        .issued = making->issued,
        .nbytes = sizeof(making->mine),
        .timeout_ns = making->timeout_ns};

    symc_queue_settle(parent->runner.queue);
    if (symc_members_failed(&parent->runner.members))
        return symc_members_status(&parent->runner.members, &op);
    making->record = symc_group_record(parent->world, &call);
    return SYMMCOLL_OK;
}

/* Returns whether a call makes several groups of the parent. */
static bool splits(enum symc_kind kind)
{
    return kind == SYMC_SPLIT_GROUP || kind == SYMC_SPLIT_GROUP_LISTS ||
           kind == SYMC_SPLIT_GROUP_RUNS;
}

static symmcoll_status_t make_all(struct symc_making *making)
{
    struct symmcoll_group *parent = making->parent;
    symmcoll_status_t own, status = begin(making);

    if (status != SYMMCOLL_OK)
        return status;
    making->mine.key = symc_making_key(making);
    if (making->options->reuse) {
        status = reuse(making);
        if (status != SYMMCOLL_OK || making->groups[0] != NULL)
            return status;
    }
    find_own(making);
    own = prepare(making);
    making->mine.status = own;
    status =
        symc_run_round(&parent->runner, making->options->kind, &making->mine,
            parent->runner.verdicts, sizeof(making->mine), making->timeout_ns);
    if (status != SYMMCOLL_OK) {
        take_back(making, false);
        return status;
    }
    if (!read_entries(making)) {
        take_back(making, true);
        return symc_making_explain(making, own);
    }
    status = open_everywhere(making);
    take_back(making, false);
    if (status == SYMMCOLL_OK) {
        parent->children += (uint32_t)making->partition->count;
        atomic_fetch_add(&parent->splits, 1);
        if (splits(making->options->kind))
            symc_groups_inherit(parent, making->options->kind,
                making->partition,
                making->own >= 0 ? making->groups[making->own] : NULL,
                making->timeout_ns);
    }
    return status;
}

/* Holds one round that exchanges colors, in place of the offers. */
static symmcoll_status_t gather(
    struct symc_making *making, struct symc_color mine, struct symc_color *all)
{
    struct symmcoll_group *parent = making->parent;
    const struct symc_entry *entries = (const void *)parent->runner.verdicts;
    symmcoll_status_t status = begin(making);

    if (status != SYMMCOLL_OK)
        return status;
    making->mine.key = symc_making_key(making);
    making->mine.offer.offset = (uint32_t)mine.color;
    making->mine.offer.nbytes = (uint32_t)mine.key;
    status =
        symc_run_round(&parent->runner, making->options->kind, &making->mine,
            parent->runner.verdicts, sizeof(making->mine), making->timeout_ns);
    if (status != SYMMCOLL_OK)
        return status;
    if (!read_entries(making))
        return symc_making_explain(making, SYMMCOLL_OK);
    for (int r = 0; r < parent->runner.size; r++)
        all[r] = (struct symc_color){
            (int32_t)entries[r].offer.offset, (int32_t)entries[r].offer.nbytes};
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_groups_gather(struct symmcoll_group *parent,
    const struct symc_group_options *options, struct symc_color mine,
    struct symc_color *all)
{
    struct symc_making making = {.parent = parent,
        .options = options,
        .own = -1,
        .issued = symc_ticks(),
        .timeout_ns = atomic_load(&parent->runner.timeout_ns)};
    uint64_t ticket;
    symmcoll_status_t status =
        symc_run_take_ticket(&parent->runner, options->kind, &ticket);

    if (status != SYMMCOLL_OK)
        return status;
    status = gather(&making, mine, all);
    symc_group_record_end(parent, options->kind, making.record, status);
    symc_queue_leave(parent->runner.queue, ticket);
    return status;
}

/* Holds a round that reports this rank's failure, and one with the
 * reason. */
static symmcoll_status_t refuse(
    struct symc_making *making, symmcoll_status_t own)
{
    struct symmcoll_group *parent = making->parent;
    struct symc_error error;
    symmcoll_status_t status;

    symc_error_keep(&error, own);
    status = begin(making);
    if (status != SYMMCOLL_OK)
        return status;
    making->mine.status = own;
    status =
        symc_run_round(&parent->runner, making->options->kind, &making->mine,
            parent->runner.verdicts, sizeof(making->mine), making->timeout_ns);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_making_explain(making, symc_error_return(&error));
}

symmcoll_status_t symc_groups_refuse(struct symmcoll_group *parent,
    const struct symc_group_options *options, symmcoll_status_t own)
{
    struct symc_making making = {.parent = parent,
        .options = options,
        .issued = symc_ticks(),
        .timeout_ns = atomic_load(&parent->runner.timeout_ns)};
    uint64_t ticket;
    symmcoll_status_t status =
        symc_run_take_ticket(&parent->runner, options->kind, &ticket);

    if (status != SYMMCOLL_OK)
        return status;
    status = refuse(&making, own);
    symc_group_record_end(parent, options->kind, making.record, status);
    symc_queue_leave(parent->runner.queue, ticket);
    return status;
}

symmcoll_status_t symc_groups_create(struct symmcoll_group *parent,
    const struct symc_partition *partition,
    const struct symc_group_options *options, struct symmcoll_group **groups)
{
    struct symc_making making = {.parent = parent,
        .partition = partition,
        .options = options,
        .groups = groups,
        .issued = symc_ticks(),
        .timeout_ns = atomic_load(&parent->runner.timeout_ns)};
    symmcoll_status_t status;
    uint64_t ticket;

    for (int i = 0; i < partition->count; i++)
        groups[i] = NULL;
    status = symc_run_take_ticket(&parent->runner, options->kind, &ticket);
    if (status != SYMMCOLL_OK)
        return status;
    status = make_all(&making);
    symc_group_record_end(parent, options->kind, making.record, status);
    symc_queue_leave(parent->runner.queue, ticket);
    free(making.offers);
    return status;
}
