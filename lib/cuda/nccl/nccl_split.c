/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators that NCCL splits from the one of the parent group, and their adoption by
 * the new group, on all its members or on none.
 */
#include "cuda/nccl/nccl_handed.h"

#include <stdatomic.h>
#include <stdlib.h>

#define DROP_NS SYMC_NS_PER_S /* for the other members to drop theirs, too */

/* ---- splitting ---- */

bool symc_cuda_can_split(void *state)
{
    const struct symc_cuda_group *group = state;

    return group->limits.nccl_split != 0 && group->comm != NULL;
}

/* Calls ncclCommSplit with the lock held; the child's keeper receives the result. */
static symmcoll_status_t call_split(struct symc_cuda_comm *parent,
    struct symc_cuda_comm *child, const struct symc_heir *heir,
    struct symc_nccl_config *config)
{
    struct symc_nccl_comm **made = symc_cuda_keeper_expect_none(parent->keeper);
    int color = SYMC_NCCL_NO_COLOR;

    parent->call = "ncclCommSplit";
    if (parent->made == NULL)
        return symc_cuda_comm_refuse_aborted(parent);
    if (child != NULL) {
        made = symc_cuda_keeper_expect(parent->keeper, child->keeper);
        config->comm_name = symc_cuda_keeper_name(child->keeper);
        color = heir->color;
    }
    return symc_cuda_comm_judge(parent, parent->nccl->comm_split(parent->made,
                                            color, heir->rank, made, config));
}

/* Splits the parent.  Once a member has called NCCL all have to, so the members gather
 * first to state that they will. */
static symmcoll_status_t split(struct symc_cuda_comm *parent,
    struct symc_cuda_comm *child, const struct symc_heir *heir,
    struct symc_cuda_until until, struct symc_nccl_config *config, bool *begun)
{
    const struct symc_core *core = parent->core;
    uint32_t *busy = calloc((size_t)parent->size, sizeof(*busy)), mine = 1;
    symmcoll_status_t status;

    if (busy == NULL)
        return core->fail(
            SYMMCOLL_ERR_NO_MEMORY, "no memory for %d members", parent->size);
    status = core->gather(core->group, &mine, busy, sizeof(mine));
    *begun = status == SYMMCOLL_OK;
    if (status == SYMMCOLL_OK) {
        pthread_mutex_lock(&parent->lock);
        status = call_split(parent, child, heir, config);
        pthread_mutex_unlock(&parent->lock);
    }
    if (status >= 0)
        status = symc_cuda_comm_await_all(parent, until, busy);
    free(busy);
    return status == SYMMCOLL_OK ? symc_cuda_comm_take_made(parent, child)
                                 : status;
}

/* Checks NCCL_COMM_SPLIT_SHARE_RESOURCES, which overrides the config: communicators that
 * share resources are aborted together. */
static symmcoll_status_t check_shares(
    const struct symc_core *core, const struct symc_nccl *nccl)
{
    static const char name[] = "NCCL_COMM_SPLIT_SHARE_RESOURCES";
    struct symc_nccl_variable found;
    char place[SYMC_NCCL_PLACE];

    if (!symc_nccl_find_variable(
            nccl, core->settings->get_variable, name, &found) ||
        strtoll(found.value, NULL, 0) == 0)
        return SYMMCOLL_OK;
    return core->fail(SYMMCOLL_ERR_UNSUPPORTED,
        "%s%s: expected it unset or 0, found %.16s, of which an abort of one group "
        "would abort others",
        symc_nccl_format_place(&found, place), name, found.value);
}

/* Prepares this member's part of the split, before any collective call. */
static symmcoll_status_t prepare(const struct symc_cuda_group *group,
    const struct symc_heir *heir, struct symc_nccl_config *config,
    struct symc_cuda_handed *handed)
{
    const struct symc_core *core = group->core;
    const struct symc_nccl *nccl = group->comm->nccl;
    struct symc_cuda_where where;
    symmcoll_status_t status;
    CUresult result;

    if (nccl->comm_split == NULL)
        return core->fail(SYMMCOLL_ERR_UNSUPPORTED,
            "expected an NCCL with ncclCommSplit, found %s", nccl->path);
    if (symc_cuda_comm_is_grouped(group->comm))
        return core->fail(SYMMCOLL_ERR_INVALID,
            "ncclCommSplit: expected no group of NCCL's calls around it, found a "
            "thread in one");
    status = check_shares(core, nccl);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_cuda_nccl_configure(core, nccl, config);
    config->blocking = 0;
    if (status != SYMMCOLL_OK || heir->core == NULL)
        return status;
    handed->device = group->device;
    result = symc_cuda_context_copy(&group->context, &handed->context);
    if (result != CUDA_SUCCESS)
        return symc_cuda_group_fail(
            group, result, "the context of a communicator");
    status = symc_cuda_find_where(group, &where);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_cuda_comm_create(
        nccl, heir->core, where, heir->rank, heir->size, &handed->comm);
    if (status == SYMMCOLL_OK)
        handed->comm->detects_groups = group->detects_groups;
    return status;
}

static void free_handed(struct symc_cuda_handed *handed)
{
    /* The old one first: a communicator made of it may have to be aborted with it. */
    if (handed->old != NULL)
        (void)symc_cuda_comm_release(handed->old, 0);
    if (handed->keeper != NULL)
        (void)symc_cuda_keeper_leave(handed->keeper, 0);
    if (handed->comm != NULL)
        (void)symc_cuda_comm_release(handed->comm, SYMC_CUDA_COMM_FAILED_NS);
    symc_cuda_context_close(&handed->context);
    free(handed);
}

/* Retires a communicator that has failed for good; the members make another one when they
 * need it.  Waits for nothing, since the other members see the error later. */
static void retire(struct symc_cuda_group *group)
{
    struct symc_cuda_comm *comm = group->comm;

    atomic_store(&group->comm, NULL);
    comm->next = group->retired;
    group->retired = comm;
    (void)symc_cuda_comm_end(comm, 0);
}

void symc_cuda_retired_close(struct symc_cuda_group *group)
{
    while (group->retired != NULL) {
        struct symc_cuda_comm *comm = group->retired;

        group->retired = comm->next;
        symc_cuda_comm_close(comm, 0);
    }
}

symmcoll_status_t symc_cuda_split(
    void *state, const struct symc_heir *heir, void **made)
{
    struct symc_cuda_group *group = state;
    const struct symc_cuda_until until =
        symc_cuda_until(group->core, heir->timeout_ns);
    struct symc_cuda_handed *handed = calloc(1, sizeof(*handed));
    struct symc_nccl_config config;
    struct symc_cuda_entered entered;
    symmcoll_status_t status;
    bool begun = false;

    if (handed == NULL)
        return group->core->fail(
            SYMMCOLL_ERR_NO_MEMORY, "no memory for a communicator");
    status = prepare(group, heir, &config, handed);
    if (status != SYMMCOLL_OK)
        goto free_handed;
    status = symc_cuda_group_enter(group, &entered);
    if (status != SYMMCOLL_OK)
        goto free_handed;
    status = split(group->comm, handed->comm, heir, until, &config, &begun);
    if (status != SYMMCOLL_OK && begun)
        retire(group);
    symc_cuda_leave(&entered);
    if (status != SYMMCOLL_OK || handed->comm == NULL)
        goto free_handed;
    *made = handed;
    return SYMMCOLL_OK;

free_handed:
    free_handed(handed);
    return status;
}

void symc_cuda_drop(void *made)
{
    struct symc_cuda_handed *handed = made;
    struct symc_cuda_entered entered;

    if (handed->comm != NULL &&
        symc_cuda_enter(&handed->context, &entered).result == CUDA_SUCCESS) {
        symc_cuda_comm_close(handed->comm, DROP_NS);
        handed->comm = NULL;
        symc_cuda_leave(&entered);
    }
    free_handed(handed);
}

void symc_cuda_drop_inherited(const struct symc_cuda_group *group)
{
    void *made = group->core->inherit(group->core->group);

    if (made != NULL)
        symc_cuda_drop(made);
}

/* ---- adopting ---- */

enum ready {
    NOT_READY,
    SPLIT,
    TO_SHRINK
};

static enum ready find_ready(
    const struct symc_cuda_group *group, struct symc_cuda_handed *handed)
{
    if (handed == NULL || handed->device != group->device)
        return NOT_READY;
    if (handed->keeper != NULL)
        return symc_cuda_shrink_prepare(group, handed) == SYMMCOLL_OK
                   ? TO_SHRINK
                   : NOT_READY;
    return handed->comm != NULL &&
                   symc_cuda_comm_test(handed->comm) == SYMMCOLL_OK
               ? SPLIT
               : NOT_READY;
}

/* Returns half of the remaining time, so that enough is left to make a communicator if
 * shrinking hangs. */
static struct symc_cuda_until find_half(
    const struct symc_core *core, struct symc_cuda_until until)
{
    const int64_t now = core->now();

    until.deadline_ns = now + (until.deadline_ns - now) / 2;
    return until;
}

/* Finds the state of all members; NOT_READY if they differ. */
static symmcoll_status_t agree(
    const struct symc_cuda_group *group, enum ready own, enum ready *ready)
{
    const struct symc_core *core = group->core;
    uint32_t all[SYMC_KERNEL_RANKS], mine = own;
    symmcoll_status_t status =
        core->gather(core->group, &mine, all, sizeof(mine));

    *ready = own;
    for (int r = 0; status == SYMMCOLL_OK && r < group->size; r++)
        if (all[r] != mine)
            *ready = NOT_READY;
    return status;
}

symmcoll_status_t symc_cuda_comm_adopt(struct symc_cuda_group *group,
    struct symc_cuda_until until, const struct symc_nccl_config *config,
    struct symc_cuda_comm **comm)
{
    const struct symc_core *core = group->core;
    struct symc_nccl_config wanted = *config;
    struct symc_cuda_handed *handed;
    symmcoll_status_t status;
    enum ready ready;
    bool made;

    /* The parent group's limits were no higher, so it has handed on nothing. */
    if (group->limits.nccl_split == 0 && group->limits.nccl_shrink == 0)
        return SYMMCOLL_OK;
    handed = core->inherit(core->group);
    status = agree(group, find_ready(group, handed), &ready);
    made = status == SYMMCOLL_OK && ready == SPLIT;
    if (status == SYMMCOLL_OK && ready == TO_SHRINK)
        status = symc_cuda_shrink(
            group, find_half(core, until), &wanted, handed, &made);
    if (handed == NULL)
        return status;
    if (made && status == SYMMCOLL_OK) {
        *comm = handed->comm;
        handed->comm = NULL;
    }
    free_handed(handed);
    return status;
}
