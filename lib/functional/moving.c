/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functional broadcast and all_gather.
 */
#include "functional/functional.h"

#include <symmcoll/collectives.h>

/* ---- broadcast ---- */

/* Prepares a broadcast. The root broadcasts from its input. It broadcasts from
 * the result instead if the elements are in another order, and on a device,
 * where the kernel writes to the buffer that it broadcasts. */
static symmcoll_status_t ready_broadcast(
    const struct symc_f_spec *spec, struct symc_f_step *step)
{
    struct symc_f_view view = symc_f_view_of(&step->in);

    step->to = step->out.data;
    step->count = step->in_count;
    if (symc_group_rank(spec->group) != spec->root)
        return SYMMCOLL_OK;
    if (step->in.data == step->out.data)
        return SYMMCOLL_OK;
    if (step->site != NULL || !symc_f_view_is_contiguous(&view))
        return symc_f_copy(
            step->site, &view, step->in.data, step->to, step->elem);
    step->to = step->in.data;
    return SYMMCOLL_OK;
}

/* Starts a broadcast. The root copies its own result while the others receive
 * theirs. */
static symmcoll_status_t start_broadcast(const struct symc_f_spec *spec,
    const struct symc_f_step *step, struct symmcoll_work **work)
{
    symmcoll_status_t status = symmcoll_broadcast(spec->group, step->to,
        step->count, step->in.dtype, spec->root, spec->call, work);

    struct symc_f_view view = symc_f_view_of(&step->out);

    if (status == SYMMCOLL_OK && step->to != step->out.data && step->count > 0)
        return symc_f_copy(
            step->site, &view, step->to, step->out.data, step->elem);
    return status;
}

struct symc_f_spec symc_f_broadcast_spec(void)
{
    return (struct symc_f_spec){.name = "f_broadcast",
        .kind = SYMC_BROADCAST,
        .ungrouped = true,
        .from_root = true,
        .shape = symc_f_check_root,
        .ready = ready_broadcast,
        .start = start_broadcast};
}

symmcoll_status_t symmcoll_f_broadcast(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, int root,
    const struct symmcoll_call *call, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint)
{
    struct symc_f_spec spec = symc_f_broadcast_spec();

    spec.group = group;
    spec.call = call;
    spec.root = root;
    return symc_f_perform(&spec, in, 1, out, adjoint);
}

/* ---- all_gather ---- */

symmcoll_status_t symc_f_ready_all_gather(
    const struct symc_f_spec *spec, struct symc_f_step *step)
{
    struct symc_f_view join = symc_f_view_join(
        &step->in, symc_f_dim(spec, step), symc_group_size(spec->group));
    symmcoll_status_t status;

    step->from = step->in.data;
    step->to = step->out.data;
    step->count = step->in_count;
    if (symc_f_view_is_contiguous(&join))
        return SYMMCOLL_OK;
    status = symc_site_alloc(
        spec->name, step->site, step->out_count, step->elem, &step->temp);
    step->after = join;
    step->to = step->temp;
    return status;
}

static symmcoll_status_t start_all_gather(const struct symc_f_spec *spec,
    const struct symc_f_step *step, struct symmcoll_work **work)
{
    return symmcoll_all_gather(spec->group, step->to, step->from, step->count,
        step->in.dtype, spec->call, work);
}

static symmcoll_status_t start_all_gathers(
    const struct symc_f_spec *spec, struct symc_f_operation *operation)
{
    return symmcoll_all_gather_coalesced(spec->group, operation->outs,
        operation->ins, operation->counts, operation->n, operation->dtype,
        spec->call, &operation->work);
}

struct symc_f_spec symc_f_all_gather_spec(void)
{
    return (struct symc_f_spec){.name = "f_all_gather",
        .kind = SYMC_ALL_GATHER,
        .strict = true,
        .shape = symc_f_join_shape,
        .ready = symc_f_ready_all_gather,
        .start = start_all_gather,
        .start_several = start_all_gathers};
}

symmcoll_status_t symmcoll_f_all_gather_coalesced(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, int n, const int *dims,
    const struct symmcoll_call *call, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint)
{
    struct symc_f_spec spec = symc_f_all_gather_spec();

    if (dims == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected dimensions, found NULL", spec.name);
    spec.group = group;
    spec.call = call;
    spec.dims = dims;
    return symc_f_perform(&spec, in, n, out, adjoint);
}

symmcoll_status_t symmcoll_f_all_gather(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, int dim, const struct symmcoll_call *call,
    struct symmcoll_tensor *out, struct symmcoll_adjoint **adjoint)
{
    return symmcoll_f_all_gather_coalesced(
        group, in, 1, &dim, call, out, adjoint);
}
