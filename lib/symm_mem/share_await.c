/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for device operations before memory is left: all that this rank has
 * enqueued by then in a group that has joined the memory, whichever memory they
 * use.
 *
 * A caller that cannot return a status leaves the memory later, instead of
 * waiting.
 */
#include "symm_mem/share.h"
#include "symm_mem/symm_mem.h"

#include <stdio.h>
#include <time.h>

#define LOOK_NS (SYMC_NS_PER_S / 100) /* interval at which `cut` is checked */
/* pause where there is no event to sleep on */
#define NAP_NS (SYMC_NS_PER_S / 1000)
/* time for operations past their deadline to be ended */
#define GRACE_NS (3 * SYMC_NS_PER_S / 2)

struct wait {
    const char *where;
    struct symc_share *share;
    uint64_t number;            /* wait for the operations up to this one */
    int64_t began, deadline_ns; /* began is 0 before the wait starts */
};

/* ---- waiting for one share ---- */

static void nap(void)
{
    const struct timespec pause = {.tv_nsec = NAP_NS};

    nanosleep(&pause, NULL);
}

/* Returns TIMEOUT with the operations that still run. Returns OK if they have
 * ended while the message was made. */
static symmcoll_status_t end_expired(
    const struct wait *wait, struct symmcoll_group *group)
{
    char place[SYMC_SYMM_PLACE], found[SYMC_OWNED_TEXT + 64];

    /* Made first: if an operation still runs afterwards, the text names one. */
    symc_queue_format_running(
        symc_group_queue(group), wait->number, found, sizeof(found));
    if (symc_queue_has_ended(symc_group_queue(group), wait->number)) {
        char owned[SYMC_OWNED_TEXT];

        if (symc_slot_reclaim(symc_group_runner(group), SYMC_MEMORY_DEVICE) ==
            0)
            return SYMMCOLL_OK;
        snprintf(found, sizeof(found),
            "what was given up when the group failed: %s",
            symc_slot_format_owned(
                symc_group_runner(group), SYMC_MEMORY_DEVICE, owned));
    }
    return symc_fail(SYMMCOLL_ERR_TIMEOUT,
        "%s: after %.3g s there still runs in group %s: %s; %s remains, and the "
        "call can be repeated",
        wait->where,
        (double)(symc_now_ns() - wait->began) / (double)SYMC_NS_PER_S,
        symc_group_name(group), found,
        symc_symm_format_place(
            wait->share->device, wait->share->device_index, place));
}

/* Sets the operations to wait for, and the deadline. */
static void begin(struct wait *wait, struct symmcoll_group *group)
{
    int64_t until;

    wait->began = symc_now_ns();
    wait->number = symc_queue_begun(symc_group_queue(group));
    until = symc_queue_running_until(symc_group_queue(group), wait->number);
    wait->deadline_ns =
        until > SYMC_NEVER - GRACE_NS ? SYMC_NEVER : until + GRACE_NS;
}

/* Waits inside the group, without the lock. IN_PROGRESS: the release of the
 * group has begun. */
static symmcoll_status_t await_group(
    struct wait *wait, struct symmcoll_group *group)
{
    if (wait->began == 0)
        begin(wait, group);
    while (!atomic_load(&wait->share->cut)) {
        int64_t now = symc_now_ns(), until = now + LOOK_NS;

        if (until > wait->deadline_ns)
            until = wait->deadline_ns;
        if (symc_queue_await_begun(
                symc_group_queue(group), wait->number, until)) {
            if (symc_slot_reclaim(
                    symc_group_runner(group), SYMC_MEMORY_DEVICE) == 0)
                return SYMMCOLL_OK;
            nap();
        }
        if (now >= wait->deadline_ns)
            return end_expired(wait, group);
    }
    return SYMMCOLL_IN_PROGRESS;
}

/* Enters like symc_symm_enter(), and waits. The release of the group need not
 * wake this thread, since the wait polls and ends anyway.
 * Memory queued for release is released first, and then the result is
 * IN_PROGRESS: the driver may wait for a device there, and a thread counted in
 * `waiting` would keep the release of the group waiting with the lock held. */
static symmcoll_status_t enter_and_await(
    struct symc_symm *symm, struct wait *wait)
{
    struct symmcoll_group *group = wait->share->group;
    symmcoll_status_t status;

    if (symm->left != NULL) {
        symc_symm_unlock(symm);
        pthread_mutex_lock(&symm->lock);
        return SYMMCOLL_IN_PROGRESS;
    }
    atomic_fetch_add(&wait->share->waiting, 1);
    symc_group_enter(group);
    pthread_mutex_unlock(&symm->lock);
    status = await_group(wait, group);
    symc_group_leave(group);
    atomic_fetch_sub(&wait->share->waiting, 1);
    pthread_mutex_lock(&symm->lock);
    if (status == SYMMCOLL_OK && wait->share->ended < wait->number)
        wait->share->ended = wait->number;
    return status;
}

symmcoll_status_t symc_share_await(
    struct symc_symm *symm, struct symc_share *share, const char *where)
{
    struct wait wait = {.where = where, .share = share};
    symmcoll_status_t status = SYMMCOLL_IN_PROGRESS;

    share->users++;
    while (status == SYMMCOLL_IN_PROGRESS && share->group != NULL) {
        if (!atomic_load(&share->cut)) {
            status = enter_and_await(symm, &wait);
            continue;
        }
        /* The thread that releases the group waits; after that the share has no
         * group. */
        symc_symm_unlock(symm);
        nap();
        pthread_mutex_lock(&symm->lock);
    }
    if (status == SYMMCOLL_IN_PROGRESS)
        status = share->stuck
                     ? symc_fail(SYMMCOLL_ERR_DEVICE,
                           "%s: the group that had joined the memory has been "
                           "released, and device %d may still use it: it "
                           "remains until the process ends",
                           where, share->device_index)
                     : SYMMCOLL_OK;
    symc_share_drop(share, 1, status == SYMMCOLL_OK);
    return status;
}

/* ---- waiting for an allocation ---- */

/* Returns whether call `number` need not wait for a share. It waits a second
 * time if a reference was dropped in between. */
static bool is_awaited(const struct symc_share *share, uint64_t number)
{
    return (share->awaited >= number && share->ended >= share->through) ||
           (share->group == NULL && !share->stuck);
}

symmcoll_status_t symc_allocation_await(struct symc_symm *symm,
    const struct symc_allocation *allocation, uint64_t number,
    const char *where)
{
    struct symc_share *at = symm->shares;
    symmcoll_status_t status;

    if (symc_allocation_is_host(allocation))
        return SYMMCOLL_OK;
    while (
        at != NULL && (at->allocation != allocation || is_awaited(at, number)))
        at = at->next;
    if (at == NULL)
        return SYMMCOLL_OK;
    at->awaited = number;
    status = symc_share_await(symm, at, where);
    return status == SYMMCOLL_OK ? SYMMCOLL_IN_PROGRESS : status;
}
