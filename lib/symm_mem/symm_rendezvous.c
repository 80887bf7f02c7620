/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rendezvous of an allocation: rounds of the group, as those in which groups
 * are made.  In the first each member tells where its memory is, in the second
 * whether it could map what the others have told; between the two memfds are
 * exchanged, where there are any.  Nobody has a handle before all could, and
 * where one cannot nobody has: then each says why in a third round.
 *
 * Each rendezvous has a segment, for the words of barriers.  Until all members
 * have left that, no part of the allocation is used again.
 */
#include "base/cancel.h"
#include "base/ranks.h"
#include "symm_mem/backing.h"
#include "symm_mem/symm_mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a member tells in the first round. */
struct told {
    int32_t status;
    uint32_t memfd; /* 1: data_at is there, not in the arena */
    uint64_t nbytes;
    uint64_t pad_nbytes;
    uint64_t offset; /* of the handle */
    uint64_t data_at;
    uint64_t pad_at;
    uint64_t mapped; /* of the memfd */
    struct symc_offer words;
};
_Static_assert(sizeof(struct told) <= sizeof(struct symc_verdict),
    "what all tell fits the group's verdicts");

/* A rendezvous under way. */
struct rendezvous {
    struct symmcoll_group *group;
    const struct symc_symm_offer *offer;
    struct symc_symm *symm;
    struct told mine;
    const struct told *all; /* in the group's verdicts, until the next round */
    bool offered;           /* the segment; the buffer has a user more for it */
    struct symc_share *share;
};

/* ---- errors ---- */

static symmcoll_status_t compare(const struct rendezvous *rendezvous,
    size_t member, const char *name, const char *unit)
{
    const struct symc_symm_values values = {.where = rendezvous->offer->where,
        .all = rendezvous->all,
        .nbytes = sizeof(struct told),
        .member = member,
        .name = name,
        .unit = unit};

    return symc_symm_compare(rendezvous->group, &values);
}

/* Sizes of all members; the same error on all. */
static symmcoll_status_t compare_all(const struct rendezvous *rendezvous)
{
    symmcoll_status_t status = compare(
        rendezvous, offsetof(struct told, nbytes), "sizes differ", " bytes");

    if (status == SYMMCOLL_OK)
        status = compare(rendezvous, offsetof(struct told, pad_nbytes),
            "signal pads differ", " bytes");
    if (status == SYMMCOLL_OK)
        status = compare(rendezvous, offsetof(struct told, offset),
            "addresses differ", " bytes from the start of the allocation");
    return status;
}

/* A member cannot: the same error on all, which names it. */
static symmcoll_status_t explain(
    struct rendezvous *rendezvous, symmcoll_status_t own, const char *detail)
{
    struct symmcoll_group *group = rendezvous->group;
    const struct symc_verdict *all = group->verdicts;
    struct symc_verdict mine = {.status = own};
    char who[SYMC_RANK_TEXT];
    symmcoll_status_t status;

    if (own != SYMMCOLL_OK)
        snprintf(mine.text, sizeof(mine.text), "%s", detail);
    status = symc_group_round(group, SYMC_SYMM_RENDEZVOUS, &mine,
        group->verdicts, sizeof(mine), rendezvous->offer->timeout_ns);
    for (int r = 0; status == SYMMCOLL_OK && r < group->size; r++) {
        if (all[r].status != SYMMCOLL_OK)
            return symc_fail((symmcoll_status_t)all[r].status,
                "%s: %s: %.*s (group %s)", rendezvous->offer->where,
                symc_format_rank(&group->members.ranks, r, SYMC_NO_PID, who),
                (int)sizeof(all[r].text), all[r].text, group->name);
    }
    return status == SYMMCOLL_OK
               ? symc_fail(SYMMCOLL_ERR_INTERNAL,
                     "%s: a member has failed, and none says so",
                     rendezvous->offer->where)
               : status;
}

/* ---- this member's ---- */

/* What this rank can find out before it tells the others. */
static symmcoll_status_t prepare(struct rendezvous *rendezvous)
{
    struct symmcoll_group *group = rendezvous->group;
    struct symc_allocation *allocation = rendezvous->offer->allocation;
    struct symc_symm_group *of;
    size_t words;
    symmcoll_status_t status = rendezvous->offer->status;

    if (status != SYMMCOLL_OK)
        return status;
    of = symc_symm_group_of(group);
    if (of == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    pthread_mutex_lock(&rendezvous->symm->lock);
    status = symc_shares_sweep(rendezvous->symm, group);
    if (status == SYMMCOLL_OK)
        status = symc_share_create(
            rendezvous->symm, group, allocation, &rendezvous->share);
    if (status == SYMMCOLL_OK && symc_share_handle(rendezvous->share,
                                     rendezvous->offer->offset, true) == NULL)
        status = SYMMCOLL_ERR_NO_MEMORY;
    pthread_mutex_unlock(&rendezvous->symm->lock);
    if (status != SYMMCOLL_OK)
        return status;
    if (rendezvous->share->channels < 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "expected a signal pad of %zu bytes or more for %d ranks, found "
            "%zu",
            sizeof(uint32_t) * (size_t)group->size, group->size,
            allocation->pad_nbytes);
    words = symc_symm_words_nbytes(rendezvous->share->channels);
    status = symc_segment_offer(
        &group->world->segments, words, words, &rendezvous->mine.words);
    if (status != SYMMCOLL_OK)
        return status;
    symc_buffer_hold(&group->world->segments, allocation->buffer);
    rendezvous->offered = true;
    rendezvous->mine.memfd = allocation->fd >= 0;
    rendezvous->mine.nbytes = allocation->nbytes;
    rendezvous->mine.pad_nbytes = allocation->pad_nbytes;
    rendezvous->mine.offset = rendezvous->offer->offset;
    rendezvous->mine.data_at = allocation->data_at;
    rendezvous->mine.pad_at = allocation->pad_at;
    rendezvous->mine.mapped = allocation->mapped;
    return SYMMCOLL_OK;
}

/* Take the offer back: nobody has accepted it, or it is not known who has. */
static void take_back(struct rendezvous *rendezvous, bool known)
{
    struct symc_segments *segments = &rendezvous->group->world->segments;

    if (!rendezvous->offered)
        return;
    if (known) {
        symc_segment_withdraw(segments, &rendezvous->mine.words);
        symc_buffer_drop(segments, rendezvous->offer->allocation->buffer);
    } else {
        symc_segment_abandon(segments, &rendezvous->mine.words);
    }
    rendezvous->offered = false;
}

static void discard(struct rendezvous *rendezvous)
{
    if (rendezvous->share == NULL)
        return;
    pthread_mutex_lock(&rendezvous->symm->lock);
    symc_share_discard(rendezvous->share);
    pthread_mutex_unlock(&rendezvous->symm->lock);
    rendezvous->share = NULL;
}

/* ---- the others' ---- */

/* Whether what a member has told is within what is mapped of its arena. */
static symmcoll_status_t check_place(const struct rendezvous *rendezvous,
    int member, uint64_t at, uint64_t nbytes)
{
    const struct symmcoll_group *group = rendezvous->group;
    const struct symc_block_view *view =
        &group->world->peers[group->global[member]].view;
    char who[SYMC_RANK_TEXT];

    if (view->block != NULL && at >= view->layout.nbytes &&
        at <= view->mapped && nbytes <= view->mapped - at)
        return SYMMCOLL_OK;
    symc_format_rank(&group->members.ranks, member, SYMC_NO_PID, who);
    if (view->block == NULL)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "expected all members on one machine, found %s on another", who);
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected memory in %zu bytes of its arena, found %llu bytes from "
        "%llu on",
        who, view->mapped, (unsigned long long)nbytes, (unsigned long long)at);
}

/* Where a member's memory is for this rank; fd is borrowed. */
static symmcoll_status_t find_member(
    struct rendezvous *rendezvous, int member, int fd)
{
    const struct symmcoll_group *group = rendezvous->group;
    const struct told *told = &rendezvous->all[member];
    struct symc_share *share = rendezvous->share;
    char *arena = (char *)group->world->peers[group->global[member]].view.block;
    char who[SYMC_RANK_TEXT + 8];
    void *at = NULL;
    symmcoll_status_t status =
        check_place(rendezvous, member, told->pad_at, told->pad_nbytes);

    if (status != SYMMCOLL_OK)
        return status;
    share->pads[member] = (uint32_t *)(void *)(arena + told->pad_at);
    if (member == group->rank) {
        share->at[member] = rendezvous->offer->allocation->data;
        return SYMMCOLL_OK;
    }
    if (told->memfd == 0) {
        share->at[member] = arena + told->data_at;
        return check_place(rendezvous, member, told->data_at, told->nbytes);
    }
    symc_format_rank(&group->members.ranks, member, SYMC_NO_PID, who);
    strcat(who, ": ");
    if (told->mapped < told->nbytes)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%sexpected %llu bytes or more, found %llu", who,
            (unsigned long long)told->nbytes, (unsigned long long)told->mapped);
    status = symc_backing_map(
        rendezvous->offer->where, who, fd, told->data_at, told->mapped, &at);
    share->at[member] = at;
    share->maps[member] = at;
    share->mapped[member] = told->mapped;
    return status;
}

/* Exchange the memfds; all members do, or none. */
static symmcoll_status_t exchange(struct rendezvous *rendezvous, int *fds)
{
    struct symmcoll_group *group = rendezvous->group;
    bool any = false;

    for (int r = 0; r < group->size; r++)
        any = any || rendezvous->all[r].memfd != 0;
    if (!any || group->size == 1)
        return SYMMCOLL_OK;
    return symc_group_exchange(group, rendezvous->offer->allocation->fd, fds);
}

/* Accept the segment of the words: from then on the others know when this rank
 * has left. */
static symmcoll_status_t accept_words(struct rendezvous *rendezvous)
{
    struct symmcoll_group *group = rendezvous->group;
    struct symc_share *share = rendezvous->share;
    struct symc_offer *words = symc_alloc((size_t)group->size, sizeof(*words));
    symmcoll_status_t status;

    if (words == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    for (int r = 0; r < group->size; r++)
        words[r] = rendezvous->all[r].words;
    rendezvous->offered = false; /* the segment's, also where this fails */
    status = symc_segment_accept_with(&group->world->segments, group->global,
        group->rank, group->size, words, rendezvous->offer->allocation->buffer,
        &share->segment);
    for (int r = 0; status == SYMMCOLL_OK && r < group->size; r++)
        share->words[r] = share->segment->at[r];
    free(words);
    return status;
}

/* Map everything that the members have told. */
static symmcoll_status_t open_all(struct rendezvous *rendezvous)
{
    struct symmcoll_group *group = rendezvous->group;
    int fds[SYMC_RANKS_MAX];
    symmcoll_status_t own, status;

    for (int r = 0; r < group->size; r++)
        fds[r] = -1;
    own = accept_words(rendezvous);
    status = exchange(rendezvous, fds);
    status = own != SYMMCOLL_OK ? own : status;
    for (int r = 0; r < group->size; r++) {
        if (status == SYMMCOLL_OK)
            status = find_member(rendezvous, r, fds[r]);
        if (fds[r] >= 0)
            close(fds[r]);
    }
    return status;
}

/* All have mapped everything: the handle. */
static struct symmcoll_symm *list_share(struct rendezvous *rendezvous)
{
    struct symc_share *share = rendezvous->share;
    struct symmcoll_symm *handle;

    pthread_mutex_lock(&rendezvous->symm->lock);
    symc_shared_add(&rendezvous->group->shared, &share->shared);
    symc_share_enlist(share);
    share->users++;
    handle = share->handles;
    for (int r = 0; r < share->size; r++)
        handle->at[r] = share->at[r] + handle->offset;
    pthread_mutex_unlock(&rendezvous->symm->lock);
    rendezvous->share = NULL;
    return handle;
}

/* ---- the rounds ---- */

/* All have told what they have: map it, and learn whether all could. */
static symmcoll_status_t open_everywhere(
    struct rendezvous *rendezvous, struct symmcoll_symm **handle)
{
    struct symmcoll_group *group = rendezvous->group;
    const int32_t *verdicts = (const void *)group->verdicts;
    symmcoll_status_t own = open_all(rendezvous), status, first = SYMMCOLL_OK;
    char detail[SYMC_DETAIL_MAX] = "";
    int32_t mine = own;

    if (own != SYMMCOLL_OK)
        snprintf(detail, sizeof(detail), "%s", symmcoll_last_error());
    status = symc_group_round(group, SYMC_SYMM_RENDEZVOUS, &mine,
        group->verdicts, sizeof(mine), rendezvous->offer->timeout_ns);
    if (status != SYMMCOLL_OK)
        return own != SYMMCOLL_OK && !symc_members_failed(&group->members)
                   ? symc_fail(own, "%s", detail)
                   : status;
    for (int r = 0; r < group->size; r++)
        first = first == SYMMCOLL_OK ? verdicts[r] : first;
    if (first != SYMMCOLL_OK)
        return explain(rendezvous, own, detail);
    *handle = list_share(rendezvous);
    return SYMMCOLL_OK;
}

static symmcoll_status_t tell(struct rendezvous *rendezvous,
    symmcoll_status_t own, const char *detail, struct symmcoll_symm **handle)
{
    struct symmcoll_group *group = rendezvous->group;
    symmcoll_status_t status;
    bool refused = false;

    status = symc_group_round(group, SYMC_SYMM_RENDEZVOUS, &rendezvous->mine,
        group->verdicts, sizeof(rendezvous->mine),
        rendezvous->offer->timeout_ns);
    if (status != SYMMCOLL_OK) {
        take_back(rendezvous, false);
        return status;
    }
    rendezvous->all = (const void *)group->verdicts;
    for (int r = 0; r < group->size; r++)
        refused = refused || rendezvous->all[r].status != SYMMCOLL_OK;
    status = refused ? SYMMCOLL_OK : compare_all(rendezvous);
    if (refused || status != SYMMCOLL_OK) {
        take_back(rendezvous, true);
        return refused ? explain(rendezvous, own, detail) : status;
    }
    status = open_everywhere(rendezvous, handle);
    take_back(rendezvous, false);
    return status;
}

static struct symc_trace_entry *begin_record(
    struct symmcoll_group *group, const struct symc_symm_offer *offer)
{
    const struct symc_group_call call = {.kind = SYMC_SYMM_RENDEZVOUS,
        .trace = group->trace,
        .seq = atomic_load(&group->seq[SYMC_COUNT_COLLECTIVE]),
        .issued = symc_ticks(),
        .nbytes = sizeof(struct told),
        .timeout_ns = offer->timeout_ns};

    return symc_group_record(group->world, &call);
}

symmcoll_status_t symc_symm_rendezvous(struct symmcoll_group *group,
    const struct symc_symm_offer *offer, struct symmcoll_symm **handle)
{
    struct symc_op call = {.kind = SYMC_SYMM_RENDEZVOUS};
    struct rendezvous made = {
        .group = group, .offer = offer, .symm = symc_symm_of(group->world)};
    struct symc_trace_entry *record;
    char detail[SYMC_DETAIL_MAX] = "";
    symmcoll_status_t own, status;

    if (symc_members_failed(&group->members))
        return symc_members_status(&group->members, &call);
    record = begin_record(group, offer);
    if (offer->status != SYMMCOLL_OK)
        snprintf(detail, sizeof(detail), "%s", symmcoll_last_error());
    own = made.symm == NULL ? SYMMCOLL_ERR_NO_MEMORY : prepare(&made);
    if (own != SYMMCOLL_OK && offer->status == SYMMCOLL_OK)
        snprintf(detail, sizeof(detail), "%s", symmcoll_last_error());
    made.mine.status = own;
    status = tell(&made, own, detail, handle);
    if (status != SYMMCOLL_OK) {
        snprintf(detail, sizeof(detail), "%s", symmcoll_last_error());
        discard(&made);
        symc_fail(status, "%s", detail);
    }
    symc_group_record_end(group, SYMC_SYMM_RENDEZVOUS, record, status);
    return status;
}
