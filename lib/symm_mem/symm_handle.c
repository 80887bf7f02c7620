/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles: rendezvous, look-up, release, and checks of a call's arguments.
 */
#include "base/cancel.h"
#include "base/dtype.h"
#include "base/ranks.h"
#include "base/tensor.h"
#include "run/call.h"
#include "symm_mem/share.h"
#include "symm_mem/symm_mem.h"

#include <stdlib.h>

/* ---- checks ---- */

symmcoll_status_t symc_symm_check(
    const struct symmcoll_symm *handle, const char *where)
{
    if (handle == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a handle of symm_rendezvous, found NULL", where);
    if (handle->group == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a handle whose group is there, found that it has "
            "been released or its world finalized",
            where);
    if (*handle->alive != 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected the process that called init, found a fork of it",
            where);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_symm_check_rank(
    const struct symmcoll_symm *handle, const char *where, int rank)
{
    if (rank >= 0 && rank < handle->size)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected a rank of 0 to %d, found %d", where, handle->size - 1,
        rank);
}

symmcoll_status_t symc_symm_check_channel(
    const struct symmcoll_symm *handle, const char *where, int channel)
{
    int channels = handle->share->channels;

    if (channel >= 0 && channel < channels)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected a channel of 0 to %d, found %d: a signal pad of %zu "
        "bytes has %d for %d ranks",
        where, channels - 1, channel, handle->pad_nbytes, channels,
        handle->size);
}

symmcoll_status_t symc_symm_check_range(const struct symmcoll_symm *handle,
    const char *where, size_t offset, size_t nbytes)
{
    size_t end;

    if (symc_add(offset, nbytes, &end) && end <= handle->nbytes)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected a view within %zu bytes, found %zu bytes from byte %zu "
        "on",
        where, handle->nbytes, nbytes, offset);
}

symmcoll_status_t symc_symm_check_group(const char *where, enum symc_kind kind,
    struct symmcoll_group *group, struct symmcoll_symm *const *handle)
{
    if (group == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "%s: expected a group, found NULL", where);
    if (symc_group_is_member(group) && !symc_group_is_usable(group))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected the process that called init, found a fork of it",
            where);
    if (!symc_group_is_usable(group))
        return symc_group_refuse(group, kind);
    if (symc_group_world(group)->fake != NULL && symc_group_size(group) > 1)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: expected ranks that are there, found a fake world", where);
    if (symc_queue_in_callback(symc_group_queue(group)))
        return symc_callbacks_refuse(where);
    if (handle == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a place for the handle, found NULL", where);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_symm_read_timeout_of(struct symmcoll_group *group,
    enum symc_kind kind, const struct symmcoll_call *call, int64_t *timeout_ns)
{
    struct symc_op op = {.kind = kind, .timeout_ns = symc_group_timeout(group)};
    symmcoll_status_t status =
        call != NULL ? symc_run_read_call(call, &op) : SYMMCOLL_OK;

    *timeout_ns = op.timeout_ns;
    return status;
}

/* ---- look-up and rendezvous ---- */

/* Finds the handle for an address; NULL if the group has not joined its
 * allocation. Under the lock. allocation (out): that of the address, or NULL.
 * Errors: NO_MEMORY. */
static symmcoll_status_t find(struct symc_symm *symm,
    const struct symmcoll_group *group, const void *data,
    struct symc_allocation **allocation, struct symmcoll_symm **handle)
{
    struct symc_share *share;

    *handle = NULL;
    *allocation = symc_allocation_find(symm, data);
    share =
        *allocation == NULL ? NULL : symc_share_find(symm, group, *allocation);
    if (share == NULL)
        return SYMMCOLL_OK;
    *handle = symc_share_handle(
        share, (size_t)((const char *)data - (*allocation)->data), true);
    return *handle != NULL ? SYMMCOLL_OK : SYMMCOLL_ERR_NO_MEMORY;
}

/* Finds like find(), under the lock. The result holds a reference: the handle,
 * or else the allocation. */
static symmcoll_status_t find_or_hold(struct symc_symm *symm,
    const struct symmcoll_group *group, const void *data,
    struct symc_allocation **held, struct symmcoll_symm **handle)
{
    symmcoll_status_t status;

    pthread_mutex_lock(&symm->lock);
    status = find(symm, group, data, held, handle);
    if (*handle != NULL)
        (*handle)->share->users++;
    if (status != SYMMCOLL_OK || *handle != NULL)
        *held = NULL;
    else if (*held != NULL)
        (*held)->users++;
    symc_symm_unlock(symm);
    return status;
}

/* Drops the reference that find_or_hold() has added to an allocation. */
static void let_go(struct symc_symm *symm, struct symc_allocation *held)
{
    if (held == NULL)
        return;
    pthread_mutex_lock(&symm->lock);
    symc_allocation_drop(held);
    symc_symm_unlock(symm);
}

/* Joins an allocation under the ticket, unless another thread has done so
 * since. A rank without memory for it takes part, so that the others do not
 * wait for it. */
static symmcoll_status_t join(struct symc_symm *symm,
    struct symmcoll_group *group, const void *data, int64_t timeout_ns,
    struct symmcoll_symm **handle)
{
    struct symc_symm_offer offer = {.kind = SYMC_SYMM_RENDEZVOUS,
        .deadline_ns = symc_deadline_ns(symc_now_ns(), timeout_ns),
        .status = symm == NULL ? SYMMCOLL_ERR_NO_MEMORY : SYMMCOLL_OK};
    struct symmcoll_symm *found = NULL;
    symmcoll_status_t status;

    /* An error here is this rank's alone: all ranks have joined the
     * allocation. */
    if (symm != NULL) {
        status = find_or_hold(symm, group, data, &offer.allocation, &found);
        if (status != SYMMCOLL_OK)
            return status;
    }
    if (found != NULL) {
        *handle = found;
        return SYMMCOLL_OK;
    }
    if (offer.allocation != NULL)
        offer.offset = (size_t)((const char *)data - offer.allocation->data);
    else if (offer.status == SYMMCOLL_OK)
        offer.status = symc_fail(SYMMCOLL_ERR_NOT_SYMMETRIC,
            "expected an address in memory of symm_alloc, symm_import or "
            "symm_register, found %p",
            data);
    status = symc_symm_rendezvous(group, &offer, handle);
    let_go(symm, offer.allocation);
    return status;
}

static symmcoll_status_t rendezvous(struct symmcoll_group *group, void *data,
    const struct symmcoll_call *call, struct symmcoll_symm **handle)
{
    struct symc_symm *symm;
    struct symc_allocation *held = NULL;
    struct symmcoll_symm *found = NULL;
    int64_t timeout_ns;
    uint64_t ticket;
    symmcoll_status_t status = symc_symm_check_group(
        "symm_rendezvous", SYMC_SYMM_RENDEZVOUS, group, handle);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_read_timeout_of(
        group, SYMC_SYMM_RENDEZVOUS, call, &timeout_ns);
    if (status != SYMMCOLL_OK)
        return status;
    symm = symc_symm_of(symc_group_world(group));
    if (symm != NULL) {
        status = find_or_hold(symm, group, data, &held, &found);
        let_go(symm, held);
    }
    if (found != NULL)
        *handle = found;
    if (found != NULL || status != SYMMCOLL_OK)
        return status;
    status = symc_run_take_ticket(
        symc_group_runner(group), SYMC_SYMM_RENDEZVOUS, &ticket);
    if (status != SYMMCOLL_OK)
        return status;
    symc_queue_settle(symc_group_queue(group));
    status = join(symm, group, data, timeout_ns, handle);
    symc_queue_leave(symc_group_queue(group), ticket);
    return status;
}

symmcoll_status_t symmcoll_symm_rendezvous(struct symmcoll_group *group,
    void *data, const struct symmcoll_call *call, struct symmcoll_symm **handle)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = rendezvous(group, data, call, handle);

    symc_cancel_restore(cancel);
    return status;
}

/* Finds the handle for an address that the group has joined. */
static symmcoll_status_t get(struct symmcoll_group *group, const void *data,
    struct symmcoll_symm **handle)
{
    static const char where[] = "symm_get";
    struct symc_symm *symm;
    struct symc_allocation *allocation;
    struct symmcoll_symm *found;
    symmcoll_status_t status =
        symc_symm_check_group(where, SYMC_SYMM_RENDEZVOUS, group, handle);

    if (status != SYMMCOLL_OK)
        return status;
    symm = symc_symm_of(symc_group_world(group));
    if (symm == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    pthread_mutex_lock(&symm->lock);
    status = find(symm, group, data, &allocation, &found);
    symc_symm_unlock(symm);
    if (status != SYMMCOLL_OK)
        return status;
    if (allocation == NULL)
        return symc_fail(SYMMCOLL_ERR_NOT_SYMMETRIC,
            "%s: expected an address in memory of symm_alloc, symm_import or "
            "symm_register, found %p",
            where, data);
    if (found == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected an allocation after its symm_rendezvous in group %s, "
            "found one before",
            where, symc_group_name(group));
    *handle = found;
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_symm_get(struct symmcoll_group *group,
    const void *data, struct symmcoll_symm **handle)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = get(group, data, handle);

    symc_cancel_restore(cancel);
    return status;
}

/* Drops a reference of a handle. The last one on device memory waits for the
 * operations that use it; if they do not end, the memory stays mapped. */
static void release(struct symc_symm *symm, struct symc_share *share)
{
    bool awaited = share->users == 1 && !symc_share_is_host(share) &&
                   symc_share_await(symm, share, "symm_release") == SYMMCOLL_OK;

    symc_share_drop(share, 1, awaited);
    symc_shares_reap(symm);
}

void symmcoll_symm_release(struct symmcoll_symm *handle)
{
    int cancel;
    struct symc_symm *symm;

    if (handle == NULL)
        return;
    cancel = symc_cancel_disable();
    symm = handle->share->home;
    if (symm == NULL) {
        symc_share_drop(handle->share, 1, true);
    } else if (symc_world_is_mine(symm->world)) {
        pthread_mutex_lock(&symm->lock);
        release(symm, handle->share);
        symc_symm_unlock(symm);
    }
    symc_cancel_restore(cancel);
}
