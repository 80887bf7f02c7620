/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The workspace of a group: an allocation that grows.  Who still has a handle on
 * one that has become too small keeps it.
 */
#include "base/cancel.h"
#include "symm_mem/symm_mem.h"

static const char where[] = "symm_workspace";

/* A larger one, under the ticket. */
static symmcoll_status_t grow(struct symmcoll_group *group,
    struct symc_symm_group *of, size_t nbytes, int64_t deadline_ns)
{
    struct symmcoll_world *world = group->world;
    struct symc_symm_offer offer = {.where = where, .deadline_ns = deadline_ns};
    struct symmcoll_symm *handle;
    void *data = NULL;
    symmcoll_status_t status;

    offer.status = symmcoll_symm_alloc(world, nbytes, NULL, &data);
    if (offer.status == SYMMCOLL_OK) {
        pthread_mutex_lock(&of->symm->lock);
        offer.allocation = symc_allocation_find(of->symm, data);
        offer.allocation->users++;
        pthread_mutex_unlock(&of->symm->lock);
    }
    status = symc_symm_rendezvous(group, &offer, &handle);
    pthread_mutex_lock(&of->symm->lock);
    if (status == SYMMCOLL_OK && of->workspace != NULL)
        symc_share_drop(of->workspace->share, 1);
    if (status == SYMMCOLL_OK)
        of->workspace = handle;
    if (offer.allocation != NULL)
        symc_allocation_drop(offer.allocation);
    pthread_mutex_unlock(&of->symm->lock);
    /* Its share keeps it, where there is one. */
    (void)symmcoll_symm_free(world, data);
    return status;
}

static symmcoll_status_t find_or_grow(struct symmcoll_group *group,
    size_t nbytes, int64_t deadline_ns, struct symmcoll_symm **handle)
{
    struct symc_symm_group *of = symc_symm_group_of(group);
    symmcoll_status_t status = SYMMCOLL_OK;

    if (of == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    if (of->workspace == NULL || of->workspace->nbytes < nbytes)
        status = grow(group, of, nbytes, deadline_ns);
    if (status != SYMMCOLL_OK)
        return status;
    pthread_mutex_lock(&of->symm->lock);
    of->workspace->share->users++;
    pthread_mutex_unlock(&of->symm->lock);
    *handle = of->workspace;
    return SYMMCOLL_OK;
}

static symmcoll_status_t workspace(struct symmcoll_group *group, size_t nbytes,
    const struct symmcoll_call *call, struct symmcoll_symm **handle)
{
    int64_t timeout_ns;
    uint64_t ticket;
    symmcoll_status_t status = symc_symm_check_group(where, group);

    if (status == SYMMCOLL_OK && handle == NULL)
        status = symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a place for the handle, found NULL", where);
    if (status == SYMMCOLL_OK)
        status = symc_symm_read_timeout_of(group, call, &timeout_ns);
    if (status != SYMMCOLL_OK)
        return status;
    ticket = symc_queue_enter(group->queue);
    symc_queue_settle(group->queue);
    status = find_or_grow(
        group, nbytes, symc_deadline_ns(symc_now_ns(), timeout_ns), handle);
    symc_queue_leave(group->queue, ticket);
    return status;
}

symmcoll_status_t symmcoll_symm_workspace(struct symmcoll_group *group,
    size_t nbytes, const struct symmcoll_call *call,
    struct symmcoll_symm **handle)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = workspace(group, nbytes, call, handle);

    symc_cancel_restore(cancel);
    return status;
}
