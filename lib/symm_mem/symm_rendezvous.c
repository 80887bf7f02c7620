/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous of an allocation, in rounds like those that create a group. In the
 * first round each member publishes the place of its memory, in the second
 * whether it could map the memory of the others; between the two the members
 * exchange memfds, if there are any. For device memory the backend has rounds
 * of its own instead (symm_join.c). No member gets a handle before all have
 * mapped everything. If one cannot, none gets a handle, and a third round
 * carries the reasons.
 *
 * Each rendezvous has a segment for the words of barriers. No part of the
 * allocation is reused until all members have left it. On a device the
 * rendezvous has pads of its own instead, so that a group finds only the words
 * that its members have written.
 *
 * An allocation of a pool that is reused may have been joined before. In the
 * first round each member publishes the number of that rendezvous. If it is the
 * same on all, that rendezvous is valid again; else they join anew.
 */
#include "symm_mem/symm_rendezvous.h"
#include "base/ranks.h"
#include "symm_mem/share.h"

#include <stdio.h>

static const char *where_of(const struct symc_symm_rendezvous *rendezvous)
{
    return symc_kind_name(rendezvous->offer->kind);
}

/* ---- errors ---- */

/* Compares places, sizes, pads and addresses of all members; the same error on
 * all. */
static symmcoll_status_t compare_all(
    const struct symc_symm_rendezvous *rendezvous)
{
    struct symc_symm_values compared[] = {
        {.member = offsetof(struct symc_symm_published, nbytes),
            .name = "sizes differ",
            .unit = " bytes"},
        {.member = offsetof(struct symc_symm_published, pad_nbytes),
            .name = "signal pads differ",
            .unit = " bytes"},
        {.member = offsetof(struct symc_symm_published, offset),
            .name = "addresses differ",
            .unit = " bytes from the start of the allocation"}};
    symmcoll_status_t status = symc_symm_compare_places(rendezvous);

    for (int i = 0; i < 3 && status == SYMMCOLL_OK; i++) {
        compared[i].where = where_of(rendezvous);
        compared[i].all = rendezvous->all;
        compared[i].nbytes = sizeof(struct symc_symm_published);
        status = symc_symm_compare(rendezvous->group, &compared[i]);
    }
    return status;
}

/* Exchanges the errors of all members, and returns the first; the same on
 * all. */
static symmcoll_status_t explain(struct symc_symm_rendezvous *rendezvous)
{
    struct symmcoll_group *group = rendezvous->group;
    const struct symc_verdict *all = symc_group_verdicts(group);
    struct symc_verdict mine = {.status = rendezvous->own.status};
    char who[SYMC_RANK_TEXT];
    symmcoll_status_t status;

    if (rendezvous->own.status != SYMMCOLL_OK)
        snprintf(mine.text, sizeof(mine.text), "%.*s",
            (int)sizeof(mine.text) - 1, rendezvous->own.detail);
    status = symc_run_round(symc_group_runner(group), rendezvous->offer->kind,
        &mine, symc_group_verdicts(group), sizeof(mine),
        symc_symm_time_left(rendezvous->offer->deadline_ns));
    for (int r = 0; status == SYMMCOLL_OK && r < symc_group_size(group); r++) {
        if (all[r].status == SYMMCOLL_OK)
            continue;
        (void)symc_fail((symmcoll_status_t)all[r].status,
            "%s: %s: %.*s (group %s)", where_of(rendezvous),
            symc_format_rank(symc_group_ranks(group), r, SYMC_NO_PID, who),
            (int)sizeof(all[r].text), all[r].text, symc_group_name(group));
        return symc_error_add_reporter(symc_group_ranks(group), r);
    }
    return status == SYMMCOLL_OK
               ? symc_fail(SYMMCOLL_ERR_INTERNAL,
                     "%s: a member has failed, and none says so",
                     where_of(rendezvous))
               : status;
}

/* ---- preparing this member ---- */

/* Finds a share from before the allocation was reused, and makes its handle for
 * the address. */
static symmcoll_status_t find_former(struct symc_symm_rendezvous *rendezvous)
{
    symmcoll_status_t status = SYMMCOLL_OK;
    struct symc_share *found;

    pthread_mutex_lock(&rendezvous->symm->lock);
    found = symc_share_find_former(
        rendezvous->symm, rendezvous->group, rendezvous->offer->allocation);
    if (found != NULL &&
        symc_share_handle(found, rendezvous->offer->offset, true) == NULL)
        status = SYMMCOLL_ERR_NO_MEMORY;
    if (found != NULL && status == SYMMCOLL_OK) {
        found->users++;
        rendezvous->former = found;
        rendezvous->mine.former = found->shared.number;
    }
    symc_symm_unlock(rendezvous->symm);
    return status;
}

/* Allocates the pads of a share on a device. */
static symmcoll_status_t prepare_device(
    const struct symc_symm_rendezvous *rendezvous)
{
    symmcoll_status_t status = symc_symm_check_device(rendezvous);

    return status == SYMMCOLL_OK
               ? symc_device_pads_allocate(
                     symc_group_world(rendezvous->group), rendezvous->share)
               : status;
}

/* Creates a share, and offers the segment of its barrier words. */
static symmcoll_status_t prepare_share(struct symc_symm_rendezvous *rendezvous)
{
    struct symmcoll_group *group = rendezvous->group;
    struct symc_allocation *allocation = rendezvous->offer->allocation;
    size_t words;
    symmcoll_status_t status;

    pthread_mutex_lock(&rendezvous->symm->lock);
    status = symc_shares_sweep(rendezvous->symm, group);
    if (status == SYMMCOLL_OK)
        status = symc_share_create(
            rendezvous->symm, group, allocation, &rendezvous->share);
    if (status == SYMMCOLL_OK && symc_share_handle(rendezvous->share,
                                     rendezvous->offer->offset, true) == NULL)
        status = SYMMCOLL_ERR_NO_MEMORY;
    symc_symm_unlock(rendezvous->symm);
    if (status != SYMMCOLL_OK)
        return status;
    if (rendezvous->share->channels < 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "expected a signal pad of %zu bytes or more for %d ranks, found "
            "%zu",
            sizeof(uint32_t) * (size_t)symc_group_size(group),
            symc_group_size(group), allocation->pad_nbytes);
    if (!symc_allocation_is_host(allocation))
        return prepare_device(rendezvous);
    words = symc_symm_words_nbytes(rendezvous->share->channels);
    status = symc_segment_offer(&symc_group_world(group)->segments, words,
        words, &rendezvous->mine.words);
    if (status != SYMMCOLL_OK)
        return status;
    symc_buffer_hold(&symc_group_world(group)->segments, allocation->buffer);
    rendezvous->offered = true;
    return SYMMCOLL_OK;
}

/* Prepares what this rank publishes in the first round; anew: without a former
 * share. */
static symmcoll_status_t prepare(
    struct symc_symm_rendezvous *rendezvous, bool anew)
{
    const struct symc_allocation *allocation = rendezvous->offer->allocation;
    symmcoll_status_t status = rendezvous->offer->status;

    if (status != SYMMCOLL_OK)
        return status;
    if (rendezvous->symm == NULL ||
        symc_symm_group_of(rendezvous->group) == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    rendezvous->mine.memfd = allocation->fd >= 0;
    rendezvous->mine.device = (int32_t)allocation->device;
    rendezvous->mine.device_index = allocation->device_index;
    rendezvous->mine.nbytes = allocation->nbytes;
    rendezvous->mine.pad_nbytes = allocation->pad_nbytes;
    rendezvous->mine.offset = rendezvous->offer->offset;
    rendezvous->mine.data_at = allocation->data_at;
    rendezvous->mine.pad_at = allocation->pad_at;
    rendezvous->mine.mapped = allocation->mapped;
    rendezvous->mine.former = 0;
    if (!anew)
        status = find_former(rendezvous);
    if (status != SYMMCOLL_OK || rendezvous->former != NULL)
        return status;
    return prepare_share(rendezvous);
}

/*
 * Withdraws the offered segment and drops its buffer. If the round has failed,
 * some members may have accepted the segment, but none accesses it: that takes
 * a handle, and handles exist only after all members have passed the second
 * round.
 */
static void take_back(struct symc_symm_rendezvous *rendezvous)
{
    struct symc_segments *segments =
        &symc_group_world(rendezvous->group)->segments;

    if (!rendezvous->offered)
        return;
    symc_segment_withdraw(segments, &rendezvous->mine.words);
    symc_buffer_drop(segments, rendezvous->offer->allocation->buffer);
    rendezvous->offered = false;
}

/* Releases what was prepared for a rendezvous that failed. */
static void discard(struct symc_symm_rendezvous *rendezvous)
{
    struct symc_symm *symm = rendezvous->symm;

    if (symm == NULL)
        return;
    pthread_mutex_lock(&symm->lock);
    if (rendezvous->share != NULL)
        symc_share_discard(rendezvous->share);
    if (rendezvous->former != NULL)
        symc_share_drop(rendezvous->former, 1, false);
    symc_symm_unlock(symm);
    rendezvous->share = rendezvous->former = NULL;
}

/* Lists the share when all members have mapped everything. Returns the
 * handle. */
static struct symmcoll_symm *list_share(struct symc_symm_rendezvous *rendezvous)
{
    struct symc_share *share = rendezvous->share;
    struct symmcoll_symm *handle;

    pthread_mutex_lock(&rendezvous->symm->lock);
    symc_shared_add(symc_group_shared(rendezvous->group), &share->shared);
    symc_share_enlist(share);
    share->users++;
    handle = share->handles;
    symc_symm_unlock(rendezvous->symm);
    rendezvous->share = NULL;
    return handle;
}

/* ---- former rendezvous ---- */

/* Returns whether a member has a former rendezvous; same (out): all have the
 * same one. */
static bool have_former(
    const struct symc_symm_rendezvous *rendezvous, bool *same)
{
    uint64_t first = rendezvous->all[0].former;
    bool any = false;

    *same = true;
    for (int r = 0; r < symc_group_size(rendezvous->group); r++) {
        any = any || rendezvous->all[r].former != 0;
        *same = *same && rendezvous->all[r].former == first;
    }
    return any;
}

/* Makes the former share valid again. Its additional reference becomes the
 * handle's. */
static struct symmcoll_symm *renew_former(
    struct symc_symm_rendezvous *rendezvous)
{
    struct symc_share *share = rendezvous->former;
    struct symmcoll_symm *handle;

    pthread_mutex_lock(&rendezvous->symm->lock);
    symc_share_renew(share);
    handle = symc_share_handle(share, rendezvous->offer->offset, false);
    symc_symm_unlock(rendezvous->symm);
    rendezvous->former = NULL;
    return handle;
}

/* Retires the former share that this rank has found, if any. */
static void retire_former(struct symc_symm_rendezvous *rendezvous)
{
    if (rendezvous->former == NULL)
        return;
    pthread_mutex_lock(&rendezvous->symm->lock);
    symc_share_retire(rendezvous->former);
    symc_share_drop(rendezvous->former, 1, false);
    symc_symm_unlock(rendezvous->symm);
    rendezvous->former = NULL;
}

/* ---- the rounds ---- */

/* Maps the memory that the members have published, and finds out whether all
 * could. */
static symmcoll_status_t open_everywhere(
    struct symc_symm_rendezvous *rendezvous, struct symmcoll_symm **handle)
{
    struct symmcoll_group *group = rendezvous->group;
    const int32_t *verdicts = (const void *)symc_group_verdicts(group);
    symmcoll_status_t status, first = SYMMCOLL_OK;
    int32_t mine;

    if (!symc_allocation_is_host(rendezvous->offer->allocation)) {
        status = symc_symm_join(rendezvous);
        if (status == SYMMCOLL_OK)
            *handle = list_share(rendezvous);
        return status;
    }
    symc_error_keep(&rendezvous->own, symc_symm_open(rendezvous));
    mine = rendezvous->own.status;
    status = symc_run_round(symc_group_runner(group), rendezvous->offer->kind,
        &mine, symc_group_verdicts(group), sizeof(mine),
        symc_symm_time_left(rendezvous->offer->deadline_ns));
    if (status != SYMMCOLL_OK)
        return rendezvous->own.status != SYMMCOLL_OK &&
                       !symc_members_failed(symc_group_members(group))
                   ? symc_error_return(&rendezvous->own)
                   : status;
    for (int r = 0; r < symc_group_size(group); r++)
        first = first == SYMMCOLL_OK ? verdicts[r] : first;
    if (first != SYMMCOLL_OK)
        return explain(rendezvous);
    *handle = list_share(rendezvous);
    return SYMMCOLL_OK;
}

/* Runs the first round. */
static symmcoll_status_t run_first_round(
    struct symc_symm_rendezvous *rendezvous)
{
    struct symmcoll_group *group = rendezvous->group;
    symmcoll_status_t status;
    bool refused = false;

    rendezvous->mine.status = rendezvous->own.status;
    status = symc_run_round(symc_group_runner(group), rendezvous->offer->kind,
        &rendezvous->mine, symc_group_verdicts(group), sizeof(rendezvous->mine),
        symc_symm_time_left(rendezvous->offer->deadline_ns));
    if (status != SYMMCOLL_OK) {
        take_back(rendezvous);
        return status;
    }
    rendezvous->all = (const void *)symc_group_verdicts(group);
    for (int r = 0; r < symc_group_size(group); r++)
        refused = refused || rendezvous->all[r].status != SYMMCOLL_OK;
    status = refused ? SYMMCOLL_OK : compare_all(rendezvous);
    if (refused || status != SYMMCOLL_OK)
        take_back(rendezvous);
    return refused ? explain(rendezvous) : status;
}

/* Prepares and runs the first round; then either the former rendezvous of all
 * members is valid again, or each maps the memory of the others. */
static symmcoll_status_t join(
    struct symc_symm_rendezvous *rendezvous, struct symmcoll_symm **handle)
{
    symmcoll_status_t status;
    bool same;

    symc_error_keep(&rendezvous->own, prepare(rendezvous, false));
    status = run_first_round(rendezvous);
    if (status == SYMMCOLL_OK && have_former(rendezvous, &same)) {
        if (same) {
            *handle = renew_former(rendezvous);
            return SYMMCOLL_OK;
        }
        take_back(rendezvous);
        retire_former(rendezvous);
        discard(rendezvous);
        symc_error_keep(&rendezvous->own, prepare(rendezvous, true));
        status = run_first_round(rendezvous);
    }
    if (status != SYMMCOLL_OK)
        return status;
    status = open_everywhere(rendezvous, handle);
    take_back(rendezvous); /* if this rank could not accept it */
    return status;
}

struct symc_trace_entry *symc_symm_record(struct symmcoll_group *group,
    enum symc_kind kind, size_t nbytes, int64_t deadline_ns)
{
    const struct symc_group_call call = {.kind = kind,
        .trace = symc_group_trace(group),
        .seq = symmcoll_group_sequence(group),
        .issued = symc_ticks(),
        .nbytes = nbytes,
        .timeout_ns = symc_symm_time_left(deadline_ns)};

    return symc_group_record(symc_group_world(group), &call);
}

symmcoll_status_t symc_symm_rendezvous(struct symmcoll_group *group,
    const struct symc_symm_offer *offer, struct symmcoll_symm **handle)
{
    struct symc_op call = {.kind = offer->kind};
    struct symc_symm_rendezvous made = {.group = group,
        .offer = offer,
        .symm = symc_symm_of(symc_group_world(group))};
    struct symc_trace_entry *record;
    struct symc_error error;
    symmcoll_status_t status;

    if (symc_members_failed(symc_group_members(group)))
        return symc_members_status(symc_group_members(group), &call);
    record = symc_symm_record(group, offer->kind,
        sizeof(struct symc_symm_published), offer->deadline_ns);
    status = join(&made, handle);
    if (status != SYMMCOLL_OK) {
        symc_error_keep(&error, status);
        discard(&made);
        (void)symc_error_return(&error);
    }
    symc_group_record_end(group, offer->kind, record, status);
    return status;
}
