/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators that NCCL shrinks to the surviving ranks of a group that has failed.
 * The old one is revoked and kept by its thread until the new group's first operation by
 * NCCL.  Then the members find out whether all have it; if not, or if shrinking fails,
 * they all make a new one.
 */
#include "cuda/nccl/nccl_handed.h"

#include <stdlib.h>
#include <string.h>

/* ---- handing it on ---- */

static struct symc_cuda_keeper *take_keeper(struct symc_cuda_comm *comm)
{
    struct symc_cuda_keeper *keeper;

    pthread_mutex_lock(&comm->lock);
    symc_cuda_comm_drop(comm);
    keeper = comm->keeper;
    comm->keeper = NULL;
    pthread_mutex_unlock(&comm->lock);
    return keeper;
}

void *symc_cuda_hand_on(void *state, const int *excluded, int count)
{
    const struct symc_cuda_group *group = state;
    struct symc_cuda_comm *comm = group->comm;
    struct symc_cuda_handed *handed;

    if (comm == NULL || !comm->keeps || count > SYMC_KERNEL_RANKS)
        return NULL;
    handed = calloc(1, sizeof(*handed));
    if (handed == NULL)
        return NULL;
    if (symc_cuda_context_copy(&group->context, &handed->context) !=
        CUDA_SUCCESS) {
        free(handed);
        return NULL;
    }
    handed->nccl = comm->nccl;
    handed->device = group->device;
    handed->nexcluded = count;
    memcpy(handed->excluded, excluded, (size_t)count * sizeof(*excluded));
    handed->keeper = take_keeper(comm);
    if (handed->keeper != NULL)
        return handed;
    /* It had been handed on before. */
    symc_cuda_context_close(&handed->context);
    free(handed);
    return NULL;
}

/* ---- shrinking ---- */

symmcoll_status_t symc_cuda_shrink_prepare(
    const struct symc_cuda_group *group, struct symc_cuda_handed *handed)
{
    const struct symc_core *core = group->core;
    struct symc_cuda_keeper *keeper = handed->keeper;
    struct symc_nccl_comm *made = symc_cuda_keeper_claim(keeper);
    struct symc_cuda_where where;
    symmcoll_status_t status;

    if (made == NULL)
        return core->fail(SYMMCOLL_ERR_UNSUPPORTED,
            "expected a communicator of NCCL that is quiet, found none");
    handed->old = symc_cuda_comm_wrap(
        handed->nccl, core, keeper, group->rank, group->size);
    if (handed->old == NULL) {
        symc_cuda_keeper_end(keeper, handed->nccl->comm_abort, made);
        return SYMMCOLL_ERR_NO_MEMORY;
    }
    handed->keeper = NULL;
    handed->old->made = made;
    status = symc_cuda_find_where(group, &where);
    return status == SYMMCOLL_OK
               ? symc_cuda_comm_create(handed->nccl, core, where, group->rank,
                     group->size, &handed->comm)
               : status;
}

static symmcoll_status_t begin(
    struct symc_cuda_handed *handed, struct symc_nccl_config *config)
{
    struct symc_cuda_comm *old = handed->old;
    struct symc_cuda_keeper *keeper = handed->comm->keeper;
    symmcoll_status_t status;

    config->blocking = 0;
    config->comm_name = symc_cuda_keeper_name(keeper);
    pthread_mutex_lock(&old->lock);
    old->call = "ncclCommShrink";
    status = symc_cuda_comm_judge(old,
        old->nccl->comm_shrink(old->made, handed->excluded, handed->nexcluded,
            symc_cuda_keeper_expect(old->keeper, keeper), config,
            SYMC_NCCL_SHRINK_ABORT));
    pthread_mutex_unlock(&old->lock);
    return status;
}

/* The states that members gather until the call has ended. */
enum state {
    OVER,
    BUSY,
    FAILED
};

/* Waits until the call has ended on all members, or failed.  Each member polls its own
 * call, and all see any member's error or timeout in the gather, so that they agree on
 * making a new communicator instead. */
static symmcoll_status_t await_all(const struct symc_cuda_group *group,
    struct symc_cuda_comm *old, symmcoll_status_t own, int64_t deadline_ns,
    enum state *worst)
{
    const struct symc_core *core = group->core;
    uint32_t all[SYMC_KERNEL_RANKS], mine;

    for (;;) {
        symmcoll_status_t status;

        if (own >= 0)
            own = symc_cuda_comm_test(old);
        mine = own == SYMMCOLL_OK ? OVER : BUSY;
        if (own < 0 || (mine == BUSY && core->now() >= deadline_ns))
            mine = FAILED;
        status = core->gather(core->group, &mine, all, sizeof(mine));
        if (status != SYMMCOLL_OK)
            return status;
        *worst = OVER;
        for (int r = 0; r < group->size; r++)
            *worst = all[r] > *worst ? (enum state)all[r] : *worst;
        if (*worst != BUSY)
            return SYMMCOLL_OK;
        symc_cuda_comm_pause(core, SYMC_CUDA_COMM_NAP_NS);
    }
}

symmcoll_status_t symc_cuda_shrink(const struct symc_cuda_group *group,
    struct symc_cuda_until until, struct symc_nccl_config *config,
    struct symc_cuda_handed *handed, bool *made)
{
    const struct symc_core *core = group->core;
    enum state worst = FAILED;
    symmcoll_status_t own = begin(handed, config);
    symmcoll_status_t status =
        await_all(group, handed->old, own, until.deadline_ns, &worst);

    if (status == SYMMCOLL_OK && worst == OVER) {
        *made = true;
        return symc_cuda_comm_take_made(handed->old, handed->comm);
    }
    if (status == SYMMCOLL_OK)
        core->log(core->group, SYMC_LOG_INFO,
            "NCCL has not shrunk the communicator of the group before, so a new one "
            "is made");
    return status;
}
