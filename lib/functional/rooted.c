/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functional gather and scatter; each is the backward call of the other.
 */
#include "functional/functional.h"

#include <symmcoll/collectives.h>

static bool is_root(const struct symc_f_spec *spec)
{
    return symc_group_rank(spec->group) == spec->root;
}

/* Allocates temporary memory for the input, which the caller fills. */
static symmcoll_status_t make_temp(
    const struct symc_f_spec *spec, struct symc_f_step *step, size_t count)
{
    return symc_site_alloc(
        spec->name, step->site, count, step->elem, &step->temp);
}

/* ---- gather ---- */

/* Sets the shape: all parts at the root, none elsewhere. */
static symmcoll_status_t gather_shape(
    const struct symc_f_spec *spec, struct symc_f_step *step)
{
    symmcoll_status_t status = symc_f_check_root(spec, step);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_f_join_shape(spec, step);
    if (status == SYMMCOLL_OK && !is_root(spec))
        step->out.shape[symc_f_dim(spec, step)] = 0;
    return status;
}

/* Copies a part that is in another order, which only gradients can be: the
 * root's to its place in the result, the others' to temporary memory. */
static symmcoll_status_t copy_part(
    const struct symc_f_spec *spec, struct symc_f_step *step)
{
    struct symc_f_view view = symc_f_view_of(&step->in);
    symmcoll_status_t status = SYMMCOLL_OK;
    char *copy;

    if (symc_f_view_is_contiguous(&view))
        return SYMMCOLL_OK;
    if (!is_root(spec))
        status = make_temp(spec, step, step->count);
    if (status != SYMMCOLL_OK)
        return status;
    copy = !is_root(spec) ? step->temp
                          : (char *)step->to +
                                (size_t)spec->root * step->count * step->elem;
    step->from = copy;
    return symc_f_copy(step->site, &view, step->in.data, copy, step->elem);
}

static symmcoll_status_t ready_gather(
    const struct symc_f_spec *spec, struct symc_f_step *step)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    step->from = step->in.data;
    step->count = step->in_count;
    if (is_root(spec))
        status = symc_f_ready_all_gather(spec, step);
    else if (step->out_count > 0) /* out_count > 0: a gradient */
        status = symc_site_clear(
            step->site, step->out.data, step->out_count * step->elem);
    return status == SYMMCOLL_OK ? copy_part(spec, step) : status;
}

static symmcoll_status_t start_gather(const struct symc_f_spec *spec,
    const struct symc_f_step *step, struct symmcoll_work **work)
{
    return symmcoll_gather(spec->group, step->to, step->from, step->count,
        step->in.dtype, spec->root, spec->call, work);
}

struct symc_f_spec symc_f_gather_spec(void)
{
    return (struct symc_f_spec){.name = "f_gather",
        .kind = SYMC_GATHER,
        .strict = true,
        .shape = gather_shape,
        .ready = ready_gather,
        .start = start_gather};
}

symmcoll_status_t symmcoll_f_gather(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, int dim, int root,
    const struct symmcoll_call *call, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint)
{
    struct symc_f_spec spec = symc_f_gather_spec();

    spec.group = group;
    spec.call = call;
    spec.root = root;
    spec.dims = &dim;
    return symc_f_perform(&spec, in, 1, out, adjoint);
}

/* ---- scatter ---- */

static symmcoll_status_t scatter_shape(
    const struct symc_f_spec *spec, struct symc_f_step *step)
{
    symmcoll_status_t status = symc_f_check_root(spec, step);

    return status == SYMMCOLL_OK ? symc_f_cut_shape(spec, step) : status;
}

/* Prepares a scatter. The root's parts have to be consecutive. */
static symmcoll_status_t ready_scatter(
    const struct symc_f_spec *spec, struct symc_f_step *step)
{
    struct symc_f_view whole, cut;
    symmcoll_status_t status;

    step->to = step->out.data;
    step->count = step->out_count;
    if (!is_root(spec))
        return SYMMCOLL_OK;
    step->from = step->in.data;
    whole = symc_f_view_of(&step->in);
    cut = symc_f_view_cut(
        &whole, symc_f_dim(spec, step), symc_group_size(spec->group));
    if (symc_f_view_is_contiguous(&cut))
        return SYMMCOLL_OK;
    status = make_temp(spec, step, step->in_count);
    if (status != SYMMCOLL_OK)
        return status;
    step->from = step->temp;
    return symc_f_copy(step->site, &cut, step->in.data, step->temp, step->elem);
}

static symmcoll_status_t start_scatter(const struct symc_f_spec *spec,
    const struct symc_f_step *step, struct symmcoll_work **work)
{
    return symmcoll_scatter(spec->group, step->to, step->from, step->count,
        step->in.dtype, spec->root, spec->call, work);
}

struct symc_f_spec symc_f_scatter_spec(void)
{
    return (struct symc_f_spec){.name = "f_scatter",
        .kind = SYMC_SCATTER,
        .from_root = true,
        .shape = scatter_shape,
        .ready = ready_scatter,
        .start = start_scatter};
}

symmcoll_status_t symmcoll_f_scatter(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, int dim, int root,
    const struct symmcoll_call *call, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint)
{
    struct symc_f_spec spec = symc_f_scatter_spec();

    spec.group = group;
    spec.call = call;
    spec.root = root;
    spec.dims = &dim;
    return symc_f_perform(&spec, in, 1, out, adjoint);
}
