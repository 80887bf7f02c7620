/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators that NCCL splits from the one of the group that a group was made of,
 * and their adoption by that, on all its members or on none.
 */
#include "cuda/nccl_run.h"
#include "cuda/nccl_state.h"

#include <stdatomic.h>
#include <stdlib.h>

#define DROP_NS SYMC_NS_PER_S /* for the others to drop theirs, too */

/* What a group is handed, before it is on any device. */
struct handed {
    struct symc_cuda_comm *comm;
    struct symc_cuda_context context;
    int device;
};

/* ---- splitting ---- */

bool symc_cuda_can_split(void *state)
{
    const struct symc_cuda_group *group = state;

    return group->limits.nccl_split != 0 && group->comm != NULL;
}

/* With the lock: where NCCL writes what it makes of it. */
static symmcoll_status_t call_split(struct symc_cuda_comm *parent,
    struct symc_cuda_comm *child, const struct symc_heir *heir,
    struct symc_nccl_config *config)
{
    struct symc_nccl_comm *none = NULL, **made = &none;
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

/* It has ended on all members; while nobody has aborted the parent. */
static symmcoll_status_t take_made(
    struct symc_cuda_comm *parent, struct symc_cuda_comm *child)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    pthread_mutex_lock(&parent->lock);
    if (parent->made == NULL)
        status = symc_cuda_comm_refuse_aborted(parent);
    else if (child != NULL)
        child->made = symc_cuda_keeper_settle(parent->keeper);
    pthread_mutex_unlock(&parent->lock);
    return status;
}

/* Once a member has called it all have to: they first say that they will. */
static symmcoll_status_t split(struct symc_cuda_comm *parent,
    struct symc_cuda_comm *child, const struct symc_heir *heir,
    struct symc_nccl_config *config, bool *begun)
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
        status = symc_cuda_comm_await_all(parent, heir->timeout_ns, busy);
    free(busy);
    return status == SYMMCOLL_OK ? take_made(parent, child) : status;
}

/* What this member wants for it; before anything has begun. */
static symmcoll_status_t prepare(const struct symc_cuda_group *group,
    const struct symc_heir *heir, struct symc_nccl_config *config,
    struct handed *handed)
{
    const struct symc_core *core = group->core;
    const struct symc_nccl *nccl = group->comm->nccl;
    struct symc_cuda_where where;
    symmcoll_status_t status;
    CUresult result;

    if (nccl->comm_split == NULL)
        return core->fail(SYMMCOLL_ERR_UNSUPPORTED,
            "expected an NCCL with ncclCommSplit, found %s", nccl->path);
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
    return status == SYMMCOLL_OK
               ? symc_cuda_comm_create(nccl, heir->core, where, heir->rank,
                     heir->size, &handed->comm)
               : status;
}

static void free_handed(struct handed *handed)
{
    if (handed->comm != NULL)
        (void)symc_cuda_comm_release(handed->comm, SYMC_CUDA_COMM_FAILED_NS);
    symc_cuda_context_close(&handed->context);
    free(handed);
}

/* It has an error for ever, so all members make another one when they need it.
 * Nothing is waited for, since the others learn of the error later. */
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
    struct handed *handed = calloc(1, sizeof(*handed));
    struct symc_nccl_config config;
    struct symc_cuda_entered entered;
    symmcoll_status_t status;
    bool begun = false;

    if (handed == NULL)
        return group->core->fail(
            SYMMCOLL_ERR_NO_MEMORY, "no memory for a communicator");
    status = prepare(group, heir, &config, handed);
    if (status == SYMMCOLL_OK)
        status = symc_cuda_group_enter(group, &entered);
    if (status == SYMMCOLL_OK) {
        status = split(group->comm, handed->comm, heir, &config, &begun);
        if (status != SYMMCOLL_OK && begun)
            retire(group);
        symc_cuda_leave(&entered);
    }
    if (status == SYMMCOLL_OK && handed->comm != NULL)
        *made = handed;
    else
        free_handed(handed);
    return status;
}

void symc_cuda_drop(void *made)
{
    struct handed *handed = made;
    struct symc_cuda_entered entered;

    if (symc_cuda_enter(&handed->context, &entered).result == CUDA_SUCCESS) {
        symc_cuda_comm_close(handed->comm, DROP_NS);
        handed->comm = NULL;
        symc_cuda_leave(&entered);
    }
    free_handed(handed);
}

/* ---- adopting ---- */

symmcoll_status_t symc_cuda_comm_adopt(struct symc_cuda_group *group)
{
    const struct symc_core *core = group->core;
    struct handed *handed;
    uint32_t all[SYMC_KERNEL_RANKS], mine, have = 0;
    symmcoll_status_t status;

    /* As of the group that it was made of. */
    if (group->limits.nccl_split == 0)
        return SYMMCOLL_OK;
    handed = core->inherit(core->group);
    mine = handed != NULL && handed->device == group->device &&
           symc_cuda_comm_test(handed->comm) == SYMMCOLL_OK;
    status = core->gather(core->group, &mine, all, sizeof(mine));
    for (int r = 0; status == SYMMCOLL_OK && r < group->size; r++)
        have += all[r];
    if (handed == NULL)
        return status;
    if (have == (uint32_t)group->size) {
        atomic_store(&group->comm, handed->comm);
        handed->comm = NULL;
    }
    free_handed(handed);
    return status;
}
