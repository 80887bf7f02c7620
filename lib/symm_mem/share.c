/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shares. The struct lives until no handle and no table of the group refers to
 * it; the memory is left with the last handle of a freed allocation.
 */
#include "symm_mem/share.h"
#include "group/release.h"
#include "symm_mem/symm_mem.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

/* ---- allocation ---- */

static void free_share(struct symc_share *share)
{
    while (share->handles != NULL) {
        struct symmcoll_symm *first = share->handles;

        share->handles = first->next;
        free(first->at);
        free(first);
    }
    free(share->at);
    free(share->pads);
    free(share->words);
    free(share->doorbells);
    free(share->counts);
    free(share->maps);
    free(share->mapped);
    symc_group_drop_bytes(share->bytes);
    free(share);
}

symmcoll_status_t symc_share_create(struct symc_symm *symm,
    struct symmcoll_group *group, struct symc_allocation *allocation,
    struct symc_share **share)
{
    size_t size = (size_t)symc_group_size(group);
    struct symc_share *made = symc_alloc(1, sizeof(*made));

    if (made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    *made = (struct symc_share){.home = symm,
        .group = group,
        .bytes = symc_group_hold_bytes(group),
        .allocation = allocation,
        .rank = symc_group_rank(group),
        .size = symc_group_size(group),
        .channels =
            symc_symm_channels(allocation->pad_nbytes, symc_group_size(group)),
        .pad_nbytes = allocation->pad_nbytes,
        .device = allocation->device,
        .device_index = allocation->device_index,
        .uses = allocation->uses};
    made->at = symc_alloc(size, sizeof(*made->at));
    made->pads = symc_alloc(size, sizeof(*made->pads));
    made->words = symc_alloc(size, sizeof(*made->words));
    made->doorbells = symc_alloc(size, sizeof(*made->doorbells));
    made->maps = symc_alloc(size, sizeof(*made->maps));
    made->mapped = symc_alloc(size, sizeof(*made->mapped));
    made->counts =
        symc_alloc((size_t)made->channels + 1, sizeof(*made->counts));
    if (made->counts == NULL || made->at == NULL || made->pads == NULL ||
        made->words == NULL || made->doorbells == NULL || made->maps == NULL ||
        made->mapped == NULL) {
        free_share(made);
        return SYMMCOLL_ERR_NO_MEMORY;
    }
    for (size_t r = 0; r < size; r++)
        made->doorbells[r] = symc_group_members(group)->doorbells[r];
    made->shared.at = made->at;
    made->shared.nbytes = allocation->nbytes;
    atomic_init(&made->shared.state, SYMC_SHARED_LIVE);
    allocation->users++;
    *share = made;
    return SYMMCOLL_OK;
}

/* Sets the addresses of a handle, once those of the share are known. */
static void place(struct symmcoll_symm *handle)
{
    const struct symc_share *share = handle->share;

    for (int r = 0; r < share->size && share->at[r] != NULL; r++)
        handle->at[r] = share->at[r] + handle->offset;
    handle->channels = symc_share_is_host(share) ? share->channels : 0;
}

void symc_share_join(struct symc_share *share, struct symc_joined *joined,
    struct symc_joined *pads)
{
    share->shared.joined = joined;
    share->joined_pads = pads;
    for (int r = 0; r < share->size; r++) {
        share->at[r] = joined->at[r];
        share->pads[r] = pads->at[r];
    }
    share->table = (const char *)pads->at[share->rank] + share->table_at;
    share->multicast = joined->multicast;
}

/* Returns whether the memory of a share has been left. */
static bool is_gone(const struct symc_share *share)
{
    return atomic_load(&share->shared.state) == SYMC_SHARED_GONE;
}

/* Returns whether the backend still uses resources of the group's device
 * operations, and so the memory. */
static bool is_stuck(struct symc_share *share)
{
    if (share->group == NULL || share->shared.joined == NULL)
        return share->stuck;
    share->stuck =
        share->stuck || symc_slot_owned(symc_group_runner(share->group),
                            SYMC_MEMORY_DEVICE) > 0;
    return share->stuck;
}

static void free_plans(struct symc_symm *symm, struct symc_share *share)
{
    while (share->plans != NULL) {
        struct symc_device_plan *plan = share->plans;

        share->plans = plan->next;
        symc_left_memory(symm, plan->mem, plan->memory);
        plan->memory = NULL;
        if (plan->left)
            free(plan);
    }
}

/* Leaves the device memory of a share. What a backend may still use stays
 * mapped. */
static void leave_device(struct symc_share *share)
{
    struct symc_symm *symm = share->allocation->home;
    const struct symc_backend *backend = share->allocation->backend;

    if (share->shared.joined != NULL && !is_stuck(share)) {
        free_plans(symm, share);
        symc_left_joined(symm, backend->mem, share->joined_pads);
        symc_left_joined(symm, backend->mem, share->shared.joined);
    }
    if (share->pad_memory != NULL) /* pads that were joined have to stay */
        symc_left_memory(symm, backend->mem, share->pad_memory);
    share->shared.joined = share->joined_pads = NULL;
    share->pad_memory = NULL;
}

/* Leaves the memory of a share on this rank. */
static void close_share(struct symc_share *share)
{
    atomic_store(&share->shared.state, SYMC_SHARED_GONE);
    for (int r = 0; r < share->size; r++) {
        if (share->maps[r] != NULL)
            munmap(share->maps[r], share->mapped[r]);
        share->maps[r] = NULL;
    }
    leave_device(share);
    if (share->stuck)
        share->allocation->stuck = true;
    symc_segment_leave(share->segment);
    share->segment = NULL;
    symc_allocation_drop(share->allocation);
    share->allocation = NULL;
}

static void delist(struct symc_symm *symm, struct symc_share *share)
{
    struct symc_share **at = &symm->shares;

    while (*at != NULL && *at != share)
        at = &(*at)->next;
    if (*at != NULL)
        *at = share->next;
}

void symc_share_discard(struct symc_share *share)
{
    close_share(share);
    free_share(share);
}

/* ---- references ---- */

struct symc_share *symc_share_find(struct symc_symm *symm,
    const struct symmcoll_group *group,
    const struct symc_allocation *allocation)
{
    struct symc_share *at = symm->shares;

    while (at != NULL && (at->allocation != allocation || at->group != group ||
                             at->uses != allocation->uses))
        at = at->next;
    return at;
}

/* Returns whether an allocation holds a reference to its shares. */
static bool is_owned(const struct symc_allocation *allocation)
{
    return allocation->active || symc_allocation_is_kept(allocation);
}

/* Returns the number of references to a share besides those of handles. */
static uint32_t count_owners(const struct symc_share *share)
{
    return !share->retired && is_owned(share->allocation) ? 1 : 0;
}

struct symc_share *symc_share_find_former(struct symc_symm *symm,
    const struct symmcoll_group *group,
    const struct symc_allocation *allocation)
{
    struct symc_share *at = symm->shares;

    while (at != NULL && (at->allocation != allocation || at->group != group ||
                             at->uses == allocation->uses || at->retired))
        at = at->next;
    return at;
}

void symc_share_renew(struct symc_share *share)
{
    share->uses = share->allocation->uses;
    if (share->allocation->active)
        atomic_store(&share->shared.state, SYMC_SHARED_LIVE);
}

void symc_share_retire(struct symc_share *share)
{
    uint32_t owners = count_owners(share);

    share->retired = true;
    if (owners > 0)
        symc_share_drop(share, owners, false);
}

bool symc_shares_have_handle(
    const struct symc_symm *symm, const struct symc_allocation *allocation)
{
    for (const struct symc_share *at = symm->shares; at != NULL;
         at = at->next) {
        if (at->allocation == allocation && at->users > count_owners(at))
            return true;
    }
    return false;
}

void symc_share_enlist(struct symc_share *share)
{
    struct symc_symm *symm = share->home;

    /* The allocation's reference, unless it was freed during the rendezvous. */
    share->users = count_owners(share);
    if (!share->allocation->active)
        atomic_store(&share->shared.state, SYMC_SHARED_FREED);
    share->next = symm->shares;
    symm->shares = share;
    for (struct symmcoll_symm *at = share->handles; at != NULL; at = at->next)
        place(at);
}

struct symmcoll_symm *symc_share_handle(
    struct symc_share *share, size_t offset, bool make)
{
    struct symmcoll_symm *at = share->handles;

    while (at != NULL && at->offset != offset)
        at = at->next;
    if (at != NULL || !make)
        return at;
    at = symc_alloc(1, sizeof(*at));
    if (at == NULL)
        return NULL;
    *at = (struct symmcoll_symm){.group = share->group,
        .alive = symc_group_world(share->group)->alive,
        .rank = share->rank,
        .size = share->size,
        .pads = share->pads,
        .words = share->words,
        .doorbells = share->doorbells,
        .counts = share->counts,
        .nbytes = share->shared.nbytes - offset,
        .offset = offset,
        .pad_nbytes = share->pad_nbytes,
        .share = share,
        .next = share->handles};
    at->at = symc_alloc((size_t)share->size, sizeof(*at->at));
    if (at->at == NULL) {
        free(at);
        return NULL;
    }
    place(at);
    share->handles = at;
    return at;
}

/* Closes a share without references, and frees it if its group is gone. */
static void end_share(struct symc_share *share)
{
    if (share->home != NULL && !is_gone(share))
        close_share(share);
    if (share->group != NULL)
        return; /* the group's table refers to it: symc_shares_sweep() */
    if (share->home != NULL)
        delist(share->home, share);
    free_share(share);
}

/* Returns, without waiting, whether no operation up to share->through can use
 * the memory. */
static bool is_idle(const struct symc_share *share)
{
    struct symmcoll_group *group = share->group;

    if (group == NULL || symc_share_is_host(share))
        return true;
    /* The group's release waits for its operations, and ends the share. */
    if (atomic_load(&share->cut))
        return false;
    return symc_queue_has_ended(symc_group_queue(group), share->through) &&
           symc_slot_reclaim(symc_group_runner(group), SYMC_MEMORY_DEVICE) == 0;
}

void symc_share_drop(struct symc_share *share, uint32_t users, bool awaited)
{
    bool device = share->group != NULL && !symc_share_is_host(share);

    share->users -= users;
    /* The queue may be gone already: symc_shares_leave_group() ends the
     * share. */
    if (device && atomic_load(&share->cut))
        return;
    /* Waiting for the remaining references does not cover what these
     * enqueued. */
    if (device && !awaited)
        share->through = symc_queue_begun(symc_group_queue(share->group));
    if (share->users > 0)
        return;
    if (device && share->ended < share->through && !is_idle(share))
        return;
    end_share(share);
}

bool symc_shares_reap(struct symc_symm *symm)
{
    struct symc_share *next;
    bool left = false;

    for (struct symc_share *at = symm->shares; at != NULL; at = next) {
        next = at->next;
        if (at->users > 0 || is_gone(at))
            continue;
        if (is_idle(at))
            end_share(at);
        else
            left = true;
    }
    return left;
}

/* ---- shares of an allocation ---- */

bool symc_allocation_is_busy(
    const struct symc_symm *symm, const struct symc_allocation *allocation)
{
    bool busy = allocation->stuck;

    for (const struct symc_share *at = symm->shares; at != NULL && !busy;
         at = at->next)
        busy = at->allocation == allocation && (at->stuck || !is_idle(at));
    return busy;
}

void symc_shares_free(struct symc_symm *symm,
    const struct symc_allocation *allocation, bool awaited)
{
    struct symc_share *next;

    for (struct symc_share *at = symm->shares; at != NULL; at = next) {
        next = at->next;
        if (at->allocation != allocation)
            continue;
        atomic_store(&at->shared.state, SYMC_SHARED_FREED);
        if (!symc_allocation_is_kept(allocation) && !at->retired)
            symc_share_drop(at, 1, awaited);
    }
}

void symc_shares_revive(
    struct symc_symm *symm, const struct symc_allocation *allocation)
{
    for (struct symc_share *at = symm->shares; at != NULL; at = at->next) {
        if (at->allocation == allocation)
            atomic_store(&at->shared.state, SYMC_SHARED_LIVE);
    }
}

/* ---- shares of a group ---- */

symmcoll_status_t symc_shares_sweep(
    struct symc_symm *symm, struct symmcoll_group *group)
{
    struct symc_share *next;
    symmcoll_status_t status;

    symc_shares_reap(symm);
    /* Drops closed shares from the table before they are freed below. */
    status = symc_shared_prepare(symc_group_shared(group));
    for (struct symc_share *at = symm->shares; at != NULL; at = next) {
        next = at->next;
        if (at->group != group || !is_gone(at))
            continue;
        delist(symm, at);
        free_share(at);
    }
    return status;
}

/* Sets the flag, and waits until every thread that entered before has left.
 * Wakes them until they have seen it. */
static void cut(struct symc_share *share)
{
    atomic_store(&share->cut, true);
    while (atomic_load(&share->waiting) > 0) {
        symc_doorbell_wake(share->doorbells[share->rank]);
        sched_yield();
    }
}

void symc_shares_cut(struct symc_symm *symm, struct symmcoll_group *group)
{
    for (struct symc_share *at = symm->shares; at != NULL; at = at->next) {
        if (at->group == group)
            cut(at);
    }
}

/* Detaches a share and its handles from their group. */
static void leave_group(struct symc_share *share)
{
    cut(share);            /* for a share joined since symc_shares_cut() */
    (void)is_stuck(share); /* records it while the slot still exists */
    share->group = NULL;
    for (struct symmcoll_symm *at = share->handles; at != NULL; at = at->next)
        at->group = NULL;
}

void symc_shares_leave_group(
    struct symc_symm *symm, struct symmcoll_group *group)
{
    struct symc_share *next;

    symc_shared_free(symc_group_shared(group));
    for (struct symc_share *at = symm->shares; at != NULL; at = next) {
        next = at->next;
        if (at->group != group)
            continue;
        leave_group(at);
        if (at->users == 0)
            end_share(at);
        else
            symc_share_retire(at); /* no group leads to it any more */
    }
}

/* ---- shares of a world ---- */

void symc_shares_end(struct symc_symm *symm)
{
    /* The groups have been detached. */
    while (symm->shares != NULL) {
        struct symc_share *first = symm->shares;
        bool owned = !is_gone(first) && count_owners(first) > 0;

        symm->shares = first->next;
        if (!is_gone(first))
            close_share(first);
        first->home = NULL;
        if (owned)
            first->users--;
        if (first->users == 0)
            free_share(first);
    }
}
