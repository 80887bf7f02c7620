/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functional all_reduce and reduce_scatter.
 */
#include "base/dtype.h"
#include "functional/functional.h"

#include <symmcoll/collectives.h>

/* ---- all_reduce ---- */

/* Checks that the operation is defined for the type, before an operation on
 * another type has started. The collective checks everything else. */
static symmcoll_status_t check_op(
    const struct symc_f_spec *spec, struct symc_f_step *step)
{
    const struct symc_dtype *type = symc_dtype_find(step->in.dtype);
    symmcoll_op_t op =
        spec->op < SYMC_PREMUL_FIRST ? spec->op : SYMMCOLL_PREMUL_SUM;

    if (step->in.device == SYMMCOLL_META || op < 0 || op >= SYMMCOLL_OP_COUNT ||
        symc_dtype_reduces(type, op))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_UNSUPPORTED, "%s: %s is not defined for %s",
        spec->name, symmcoll_op_name(op), type->name);
}

/* Prepares an all_reduce. Elements in another order are copied to the result,
 * and reduced there. */
static symmcoll_status_t ready_all_reduce(
    const struct symc_f_spec *spec, struct symc_f_step *step)
{
    struct symc_f_view view = symc_f_view_of(&step->in);

    (void)spec;
    step->from = step->in.data;
    step->to = step->out.data;
    step->count = step->in_count;
    if (!symc_f_view_is_contiguous(&view)) {
        step->from = step->to;
        return symc_f_copy(
            step->site, &view, step->in.data, step->to, step->elem);
    }
    return SYMMCOLL_OK;
}

static symmcoll_status_t start_all_reduce(const struct symc_f_spec *spec,
    const struct symc_f_step *step, struct symmcoll_work **work)
{
    return symmcoll_all_reduce(spec->group, step->to, step->from, step->count,
        step->in.dtype, spec->op, spec->call, work);
}

static symmcoll_status_t start_all_reduces(
    const struct symc_f_spec *spec, struct symc_f_operation *operation)
{
    return symmcoll_all_reduce_coalesced(spec->group, operation->outs,
        operation->ins, operation->counts, operation->n, operation->dtype,
        spec->op, spec->call, &operation->work);
}

struct symc_f_spec symc_f_all_reduce_spec(void)
{
    return (struct symc_f_spec){.name = "f_all_reduce",
        .kind = SYMC_ALL_REDUCE,
        .ungrouped = true,
        .shape = check_op,
        .ready = ready_all_reduce,
        .start = start_all_reduce,
        .start_several = start_all_reduces};
}

symmcoll_status_t symmcoll_f_all_reduce_coalesced(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, int n, symmcoll_op_t op,
    const struct symmcoll_call *call, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint)
{
    struct symc_f_spec spec = symc_f_all_reduce_spec();

    spec.group = group;
    spec.call = call;
    spec.op = op;
    return symc_f_perform(&spec, in, n, out, adjoint);
}

symmcoll_status_t symmcoll_f_all_reduce(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, symmcoll_op_t op,
    const struct symmcoll_call *call, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint)
{
    return symmcoll_f_all_reduce_coalesced(
        group, in, 1, op, call, out, adjoint);
}

/* ---- reduce_scatter ---- */

static symmcoll_status_t check_cut(
    const struct symc_f_spec *spec, struct symc_f_step *step)
{
    symmcoll_status_t status = check_op(spec, step);

    return status == SYMMCOLL_OK ? symc_f_cut_shape(spec, step) : status;
}

/* Prepares a reduce_scatter. The ranks' parts have to be consecutive. */
static symmcoll_status_t ready_reduce_scatter(
    const struct symc_f_spec *spec, struct symc_f_step *step)
{
    struct symc_f_view whole = symc_f_view_of(&step->in);
    struct symc_f_view cut = symc_f_view_cut(
        &whole, symc_f_dim(spec, step), symc_group_size(spec->group));
    symmcoll_status_t status;

    step->from = step->in.data;
    step->to = step->out.data;
    step->count = step->out_count;
    if (symc_f_view_is_contiguous(&cut))
        return SYMMCOLL_OK;
    status = symc_site_alloc(
        spec->name, step->site, step->in_count, step->elem, &step->temp);
    if (status != SYMMCOLL_OK)
        return status;
    step->from = step->temp;
    return symc_f_copy(step->site, &cut, step->in.data, step->temp, step->elem);
}

static symmcoll_status_t start_reduce_scatter(const struct symc_f_spec *spec,
    const struct symc_f_step *step, struct symmcoll_work **work)
{
    return symmcoll_reduce_scatter(spec->group, step->to, step->from,
        step->count, step->in.dtype, spec->op, spec->call, work);
}

static symmcoll_status_t start_reduce_scatters(
    const struct symc_f_spec *spec, struct symc_f_operation *operation)
{
    return symmcoll_reduce_scatter_coalesced(spec->group, operation->outs,
        operation->ins, operation->counts, operation->n, operation->dtype,
        spec->op, spec->call, &operation->work);
}

struct symc_f_spec symc_f_reduce_scatter_spec(void)
{
    return (struct symc_f_spec){.name = "f_reduce_scatter",
        .kind = SYMC_REDUCE_SCATTER,
        .shape = check_cut,
        .ready = ready_reduce_scatter,
        .start = start_reduce_scatter,
        .start_several = start_reduce_scatters};
}

symmcoll_status_t symmcoll_f_reduce_scatter_coalesced(
    struct symmcoll_group *group, const struct symmcoll_tensor *in, int n,
    symmcoll_op_t op, const int *dims, const struct symmcoll_call *call,
    struct symmcoll_tensor *out, struct symmcoll_adjoint **adjoint)
{
    struct symc_f_spec spec = symc_f_reduce_scatter_spec();

    if (dims == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected dimensions, found NULL", spec.name);
    spec.group = group;
    spec.call = call;
    spec.op = op;
    spec.dims = dims;
    return symc_f_perform(&spec, in, n, out, adjoint);
}

symmcoll_status_t symmcoll_f_reduce_scatter(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, symmcoll_op_t op, int dim,
    const struct symmcoll_call *call, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint)
{
    return symmcoll_f_reduce_scatter_coalesced(
        group, in, 1, op, &dim, call, out, adjoint);
}
