/* SPDX-License-Identifier: BSD-3-Clause */
#include "cuda/nccl/nccl_run.h"
#include "cuda/device_parts.h"
#include "cuda/nccl/nccl_state.h"
#include "cuda/nccl/nccl_window.h"

#include <stdatomic.h>

/* ---- the communicator ---- */

/* Returns whether members share a device.  NCCL makes no communicator for them, unless
 * cuda.nccl_shared says on all members that theirs does. */
static bool has_none(const struct symc_cuda_group *group)
{
    return group->shared && group->limits.nccl_shared == 0;
}

/* Fails because a member is in another context than its device's primary one, as all
 * members know.  NCCL launches in the primary context, whatever context is current,
 * where a stream of another context is invalid. */
static symmcoll_status_t refuse(const struct symc_cuda_group *group)
{
    const struct symc_core *core = group->core;

    return core->fail(SYMMCOLL_ERR_UNSUPPORTED,
        "expected each rank in the primary context of its device, in which alone "
        "NCCL runs; found rank %d in a context that is not its device's primary "
        "one",
        symc_cuda_world_rank(group, group->foreign));
}

/* Returns whether NCCL would serve an operation of this group if there is a communicator,
 * and the operation's elements (out). */
static bool find_need(const struct symc_cuda_group *group,
    const struct symc_op *op, struct symc_cuda_elements *elements)
{
    bool need = symc_cuda_nccl_need(&group->limits, group->size,
        &group->core->kinds[op->kind], op, elements);

    return need && !has_none(group);
}

bool symc_cuda_needs(
    void *state, const struct symc_op *op, const struct symc_agreed *agreed)
{
    const struct symc_cuda_group *group = state;
    struct symc_cuda_elements elements;

    return find_need(group, op, &elements) &&
           (group->comm == NULL || symc_cuda_windows_lack(group, op, agreed));
}

/* ---- groups of calls by the program ---- */

/* Fails because NCCL would return success and do the work when the program ends its
 * group of calls. */
static symmcoll_status_t refuse_grouped(
    const struct symc_cuda_group *group, const struct symc_op *op)
{
    const struct symc_core *core = group->core;

    return core->fail(SYMMCOLL_ERR_INVALID,
        "%s: expected no group of NCCL's calls around it, found a thread of rank "
        "%d between the program's ncclGroupStart() and ncclGroupEnd()",
        core->kinds[op->kind].name,
        core->ranks->global != NULL ? core->ranks->global[group->rank]
                                    : group->rank);
}

/* Returns whether the probe works.  Called once per group; false if NCCL_DEBUG is set,
 * since each probe could write a line. */
static bool can_detect_groups(
    const struct symc_cuda_group *group, const struct symc_nccl *nccl)
{
    struct symc_nccl_variable found;

    return !symc_nccl_find_variable(nccl, group->core->settings->get_variable,
               "NCCL_DEBUG", &found) &&
           symc_nccl_detects_groups(nccl);
}

symmcoll_status_t symc_cuda_check_grouped(
    const struct symc_cuda_group *group, const struct symc_op *op)
{
    const struct symc_cuda_comm *comm = atomic_load(&group->comm);
    struct symc_cuda_elements elements;

    return comm != NULL && find_need(group, op, &elements) &&
                   symc_cuda_comm_is_grouped(comm)
               ? refuse_grouped(group, op)
               : SYMMCOLL_OK;
}

/* ---- making the communicator ---- */

static symmcoll_status_t make_comm(struct symc_cuda_group *group,
    struct symc_cuda_until until, const struct symc_nccl *nccl,
    const struct symc_nccl_config *config)
{
    struct symc_cuda_comm *comm = NULL;
    struct symc_cuda_where where;
    symmcoll_status_t status =
        symc_cuda_comm_adopt(group, until, config, &comm);

    if (status == SYMMCOLL_OK && comm == NULL) {
        status = symc_cuda_find_where(group, &where);
        if (status == SYMMCOLL_OK)
            status = symc_cuda_comm_open(nccl, config, group->core, where,
                until, group->rank, group->size, &comm);
    }
    if (status != SYMMCOLL_OK)
        return status;
    comm->ready = true;
    comm->detects_groups = group->detects_groups;
    comm->keeps = group->limits.nccl_shrink != 0 && nccl->comm_shrink != NULL;
    atomic_store(&group->comm, comm);
    return SYMMCOLL_OK;
}

/* Makes the communicator and the windows that an operation needs.  The context must be
 * current. */
static symmcoll_status_t make_all(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_nccl *nccl,
    const struct symc_nccl_config *config)
{
    const struct symc_cuda_until until =
        symc_cuda_making_until(group->core, op);
    symmcoll_status_t status = SYMMCOLL_OK;

    if (group->comm == NULL)
        group->detects_groups = can_detect_groups(group, nccl);
    if (group->detects_groups && symc_nccl_is_grouped(nccl))
        return refuse_grouped(group, op);
    if (group->comm == NULL)
        status = make_comm(group, until, nccl, config);
    return status == SYMMCOLL_OK &&
                   symc_cuda_windows_lack(group, op, group->agreed)
               ? symc_cuda_windows_prepare(group, until, config)
               : status;
}

static symmcoll_status_t prepare(
    struct symc_cuda_group *group, const struct symc_op *op)
{
    const struct symc_core *core = group->core;
    const struct symc_settings *settings = core->settings;
    struct symc_cuda_entered entered;
    struct symc_nccl_config config;
    const struct symc_nccl *nccl;
    symmcoll_status_t status = symc_nccl_load(
        core->fail, settings->get_text(settings->config, "cuda.nccl"), &nccl);
    if (status == SYMMCOLL_OK)
        status = symc_cuda_nccl_configure(core, nccl, &config);
    if (status == SYMMCOLL_OK)
        status = symc_cuda_group_enter(group, &entered);
    if (status != SYMMCOLL_OK)
        return status;
    status = make_all(group, op, nccl, &config);
    symc_cuda_leave(&entered);
    return status;
}

symmcoll_status_t symc_cuda_prepare(
    void *state, const struct symc_op *op, const struct symc_agreed *agreed)
{
    struct symc_cuda_group *group = state;

    /* Kernels serve the operation then; making a communicator would disturb the
     * capture. */
    if (agreed->captured)
        return SYMMCOLL_OK;
    group->agreed = agreed;
    if (group->foreign >= 0) {
        symc_cuda_drop_inherited(group);
        return refuse(group);
    }
    return prepare(group, op);
}

/* Stops the windows on all members, as they differ after a failure. */
void symc_cuda_forgo(void *state)
{
    struct symc_cuda_group *group = state;

    if (group->comm != NULL)
        symc_cuda_windows_stop(group);
}

/* ---- operations ---- */

bool symc_cuda_is_by_nccl(
    const struct symc_cuda_group *group, const struct symc_op *op)
{
    struct symc_cuda_elements elements;

    return find_need(group, op, &elements) && group->comm != NULL &&
           !group->agreed->captured;
}

static symmcoll_status_t enqueue(
    struct symc_cuda_group *group, const struct symc_op *op, CUstream stream)
{
    const struct symc_kind_info *info = &group->core->kinds[op->kind];
    struct symc_cuda_comm *windowed = symc_cuda_windows_find(group, op);
    struct symc_cuda_part parts[SYMC_KERNEL_RANKS];
    struct symc_cuda_elements elements;

    if (!symc_cuda_comm_collects(group->comm, info, op)) {
        symc_cuda_find_parts(group, op, parts);
        return symc_cuda_comm_exchange(group->comm, op, parts, stream);
    }
    (void)find_need(group, op, &elements);
    if (elements.scaled)
        elements.factor = group->agreed->factors[group->rank];
    group->launching.by_window = windowed != NULL;
    return symc_cuda_comm_collect(
        windowed != NULL ? windowed : group->comm, info, op, elements, stream);
}

symmcoll_status_t symc_cuda_enqueue_nccl(
    struct symc_cuda_group *group, const struct symc_op *op, CUstream stream)
{
    /* The thread may be another one than that of the call. */
    symmcoll_status_t status = symc_cuda_check_grouped(group, op);

    if (status != SYMMCOLL_OK)
        return status;
    atomic_store(&group->in_nccl, true);
    status = enqueue(group, op, stream);
    atomic_store(&group->in_nccl, false);
    return status;
}

const char *symc_cuda_inside(void *state)
{
    const struct symc_cuda_group *group = state;

    return atomic_load(&group->in_nccl) ? "NCCL" : NULL;
}

symmcoll_status_t symc_cuda_watch_nccl(
    const struct symc_cuda_group *group, const struct symc_cuda_token *token)
{
    return symc_cuda_comm_watch(
        token->call.by_window ? symc_cuda_windows_comm(group) : group->comm);
}

symmcoll_status_t symc_cuda_judge_nccl(
    const struct symc_cuda_group *group, const struct symc_cuda_token *token)
{
    const struct symc_core *core = group->core;
    symmcoll_status_t status = symc_cuda_watch_nccl(group, token);

    return status == SYMMCOLL_ERR_ABORTED && core->failed(core->group, -1)
               ? core->failure(core->group, &token->op, -1)
               : status;
}

void symc_cuda_try_abort_nccl(const struct symc_cuda_group *group)
{
    struct symc_cuda_comm *comm = atomic_load(&group->comm);
    struct symc_cuda_comm *windowed = symc_cuda_windows_comm(group);

    if (comm != NULL)
        symc_cuda_comm_try_abort(comm);
    if (windowed != NULL)
        symc_cuda_comm_try_abort(windowed);
}

void symc_cuda_abort_nccl(const struct symc_cuda_group *group)
{
    struct symc_cuda_comm *comm = atomic_load(&group->comm);
    struct symc_cuda_comm *windowed = symc_cuda_windows_comm(group);

    if (comm != NULL)
        symc_cuda_comm_abort(comm);
    if (windowed != NULL)
        symc_cuda_comm_abort(windowed);
}

void symc_cuda_forget_nccl(const struct symc_cuda_group *group)
{
    const struct symc_core *core = group->core;

    if (group->comm != NULL)
        atomic_fetch_sub(core->communicators, 1);
    if (symc_cuda_windows_comm(group) != NULL)
        atomic_fetch_sub(core->communicators, 1);
    for (const struct symc_cuda_comm *comm = group->retired; comm != NULL;
         comm = comm->next)
        atomic_fetch_sub(core->communicators, 1);
}
