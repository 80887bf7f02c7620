/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workspace of a group: an allocation that grows. A handle on a former, smaller
 * workspace keeps that memory.
 *
 * Every call is a round in which the members publish the sizes that they
 * request. If only growing were a round, a member that requests less would not
 * take part, and the others would wait for it.
 */
#include "base/cancel.h"
#include "base/ranks.h"
#include "registry/registry.h"
#include "run/call.h"
#include "symm_mem/symm_rendezvous.h"

#include <stdio.h>

static const char where[] = "symm_workspace";

/* The data that a member publishes. */
struct request {
    int32_t status; /* NO_MEMORY: no symmetric memory of the group */
    uint32_t unused;
    uint64_t nbytes;
};
_Static_assert(sizeof(struct request) <= sizeof(struct symc_verdict),
    "what a member publishes fits the group's verdicts");

/* Checks that all members request the same size, and have no error. */
static symmcoll_status_t compare(struct symmcoll_group *group)
{
    const struct request *all = (const void *)symc_group_verdicts(group);
    const struct symc_symm_values values = {.where = where,
        .all = all,
        .nbytes = sizeof(*all),
        .member = offsetof(struct request, nbytes),
        .name = "sizes differ",
        .unit = " bytes"};
    symmcoll_status_t status = symc_symm_compare(group, &values);
    char who[SYMC_RANK_TEXT];

    for (int r = 0; status == SYMMCOLL_OK && r < symc_group_size(group); r++) {
        if (all[r].status != SYMMCOLL_OK)
            status = symc_fail((symmcoll_status_t)all[r].status,
                "%s: %s: no memory for a workspace (group %s)", where,
                symc_format_rank(symc_group_ranks(group), r, SYMC_NO_PID, who),
                symc_group_name(group));
    }
    return status;
}

/* Publishes this rank's request, and compares those of all members. */
static symmcoll_status_t compare_requests(struct symmcoll_group *group,
    const struct symc_symm_group *of, size_t nbytes, int64_t deadline_ns)
{
    const struct request mine = {
        .status = of == NULL ? SYMMCOLL_ERR_NO_MEMORY : SYMMCOLL_OK,
        .nbytes = nbytes};
    const struct symc_op op = {.kind = SYMC_SYMM_WORKSPACE};
    struct symc_trace_entry *record;
    symmcoll_status_t status;

    if (symc_members_failed(symc_group_members(group)))
        return symc_members_status(symc_group_members(group), &op);
    record =
        symc_symm_record(group, SYMC_SYMM_WORKSPACE, sizeof(mine), deadline_ns);
    status = symc_run_round(symc_group_runner(group), SYMC_SYMM_WORKSPACE,
        &mine, symc_group_verdicts(group), sizeof(mine),
        symc_symm_time_left(deadline_ns));
    if (status == SYMMCOLL_OK)
        status = compare(group);
    symc_group_record_end(group, SYMC_SYMM_WORKSPACE, record, status);
    return status;
}

/* Returns whether the workspace has to be in device memory: once the group runs
 * operations there, which is the same on all members, since they open the
 * device together. Memory is allocated from the first backend that has device
 * memory; a group that another backend serves cannot use it. */
static bool is_for_device(struct symmcoll_group *group)
{
    return symc_slot_device_state(symc_group_runner(group)) != NULL;
}

/* Allocates the memory of a workspace, where is_for_device() says. */
static symmcoll_status_t allocate(
    struct symmcoll_group *group, size_t nbytes, void **data)
{
    struct symc_symm_request request = {.where = where, .nbytes = nbytes};
    symmcoll_status_t status = symc_symm_read_args(
        where, symc_group_world(group), data, NULL, &request.args);

    if (status != SYMMCOLL_OK)
        return status;
    if (is_for_device(group)) {
        request.args.device = SYMMCOLL_CUDA;
        request.args.device_index = symc_group_device(group);
    }
    return symc_symm_allocate(symc_group_world(group), &request, data);
}

/* Returns whether the workspace is large enough, and in the right memory. */
static bool serves(struct symmcoll_group *group,
    const struct symmcoll_symm *workspace, size_t nbytes)
{
    return workspace != NULL && workspace->nbytes >= nbytes &&
           symc_symm_is_host(workspace) == !is_for_device(group);
}

/* Replaces the workspace by a larger one, under the ticket. The workspace stays
 * allocated, so that the group's operations recognise it as symmetric memory.
 * The former memory is left when no device uses it any more. */
static symmcoll_status_t grow(struct symmcoll_group *group,
    struct symc_symm_group *of, size_t nbytes, int64_t deadline_ns)
{
    struct symmcoll_world *world = symc_group_world(group);
    struct symc_symm_offer offer = {
        .kind = SYMC_SYMM_WORKSPACE, .deadline_ns = deadline_ns};
    struct symmcoll_symm *handle;
    struct symc_error error;
    void *data = NULL;
    symmcoll_status_t status;

    offer.status = allocate(group, nbytes, &data);
    if (offer.status == SYMMCOLL_OK) {
        pthread_mutex_lock(&of->symm->lock);
        offer.allocation = symc_allocation_find(of->symm, data);
        offer.allocation->users++;
        symc_symm_unlock(of->symm);
    }
    status = symc_symm_rendezvous(group, &offer, &handle);
    symc_error_keep(&error, status);
    pthread_mutex_lock(&of->symm->lock);
    if (status == SYMMCOLL_OK) {
        symc_workspace_free(of);
        of->workspace = handle;
        handle->share->allocation->workspace = true;
    }
    if (offer.allocation != NULL)
        symc_allocation_drop(offer.allocation);
    symc_symm_unlock(of->symm);
    if (status == SYMMCOLL_OK)
        return status;
    (void)symmcoll_symm_free(world, data);
    return symc_error_return(&error);
}

/* Returns the workspace, after it has grown if it is too small. */
static symmcoll_status_t find_or_grow(struct symmcoll_group *group,
    size_t nbytes, int64_t deadline_ns, struct symmcoll_symm **handle)
{
    struct symc_symm_group *of = symc_symm_group_of(group);
    symmcoll_status_t status = compare_requests(group, of, nbytes, deadline_ns);

    if (status == SYMMCOLL_OK && !serves(group, of->workspace, nbytes))
        status = grow(group, of, nbytes, deadline_ns);
    if (status != SYMMCOLL_OK)
        return status;
    pthread_mutex_lock(&of->symm->lock);
    of->workspace->share->users++;
    symc_symm_unlock(of->symm);
    *handle = of->workspace;
    return SYMMCOLL_OK;
}

static symmcoll_status_t workspace(struct symmcoll_group *group, size_t nbytes,
    const struct symmcoll_call *call, struct symmcoll_symm **handle)
{
    int64_t timeout_ns;
    uint64_t ticket;
    symmcoll_status_t status =
        symc_symm_check_group(where, SYMC_SYMM_WORKSPACE, group, handle);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_read_timeout_of(
        group, SYMC_SYMM_WORKSPACE, call, &timeout_ns);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_run_take_ticket(
        symc_group_runner(group), SYMC_SYMM_WORKSPACE, &ticket);
    if (status != SYMMCOLL_OK)
        return status;
    symc_queue_settle(symc_group_queue(group));
    status = find_or_grow(
        group, nbytes, symc_deadline_ns(symc_now_ns(), timeout_ns), handle);
    symc_queue_leave(symc_group_queue(group), ticket);
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
