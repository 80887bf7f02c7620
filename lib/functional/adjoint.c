/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Backward calls: what each call does to gradients. A token keeps shapes and
 * arguments, never data. An unsupported backward call fails when it is run, and
 * not when the token is made, since most results never have a gradient (F22,
 * F24).
 */
#include "base/dtype.h"
#include "functional/functional.h"

#include <symmcoll/collectives.h>

#include <string.h>

/* ---- steps that only backward calls have ---- */

/* Prepares a reduction to the root, in place if the root's elements were
 * copied. The results of the other ranks are zero. */
static symmcoll_status_t ready_reduce(
    const struct symc_f_spec *spec, struct symc_f_step *step)
{
    struct symc_f_view view = symc_f_view_of(&step->in);
    bool is_root = symc_group_rank(spec->group) == spec->root;
    symmcoll_status_t status = SYMMCOLL_OK;

    step->from = step->in.data;
    step->to = step->out.data;
    step->count = step->in_count;
    if (!symc_f_view_is_contiguous(&view)) {
        void *copy = step->to;

        if (!is_root) {
            status = symc_site_alloc(spec->name, step->site, step->in_count,
                step->elem, &step->temp);
            copy = step->temp;
        }
        if (status == SYMMCOLL_OK)
            status =
                symc_f_copy(step->site, &view, step->from, copy, step->elem);
        step->from = copy;
    }
    if (status == SYMMCOLL_OK && !is_root)
        status =
            symc_site_clear(step->site, step->to, step->out_count * step->elem);
    return status;
}

static symmcoll_status_t start_reduce(const struct symc_f_spec *spec,
    const struct symc_f_step *step, struct symmcoll_work **work)
{
    return symmcoll_reduce(spec->group, step->to, step->from, step->count,
        step->in.dtype, SYMMCOLL_SUM, spec->root, spec->call, work);
}

/* Divides by the number of ranks, for an average; in place if from equals
 * to. */
static symmcoll_status_t divide(const struct symc_f_spec *spec,
    const struct symc_f_step *step, const void *from, void *to)
{
    const struct symc_dtype *type = symc_dtype_find(step->in.dtype);
    const struct symc_local_sum quotient = {.dtype = step->in.dtype,
        .elem = step->elem,
        .out = to,
        .in = {from},
        .n = 1,
        .count = step->in_count,
        .factor = 1.0 / symc_group_size(spec->group)};

    if (!symc_dtype_reduces(type, SYMMCOLL_PREMUL_SUM))
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: expected a gradient of floats, found %s", spec->name,
            type->name);
    return symc_site_add(step->site, &quotient);
}

/* Prepares the gather of a reduce_scatter's gradients. Gradients that are in
 * another order, or that are divided, are copied to this rank's part of the
 * result first. */
static symmcoll_status_t ready_gather(
    const struct symc_f_spec *spec, struct symc_f_step *step)
{
    symmcoll_status_t status = symc_f_ready_all_gather(spec, step);
    struct symc_f_view view = symc_f_view_of(&step->in);
    size_t part = step->in_count * step->elem;
    char *own;

    if (status != SYMMCOLL_OK)
        return status;
    own = (char *)step->to + part * (size_t)symc_group_rank(spec->group);
    if (!symc_f_view_is_contiguous(&view)) {
        status = symc_f_copy(step->site, &view, step->from, own, step->elem);
        step->from = own;
    }
    if (status != SYMMCOLL_OK || spec->op != SYMMCOLL_AVG)
        return status;
    status = divide(spec, step, step->from, own);
    step->from = own;
    return status;
}

/* ---- table of backward calls ---- */

static symmcoll_status_t refuse_op(const struct symmcoll_adjoint *adjoint)
{
    const char *name = symmcoll_op_name(adjoint->op);

    return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
        "adjoint_run: %s: expected sum or avg, found %s", adjoint->name,
        name != NULL ? name : "another operation");
}

/* Describes the backward call for a kind of forward call. */
static symmcoll_status_t choose_way(
    const struct symmcoll_adjoint *adjoint, struct symc_f_spec *spec)
{
    bool linear = adjoint->op == SYMMCOLL_SUM || adjoint->op == SYMMCOLL_AVG;

    switch (adjoint->kind) {
    case SYMC_ALL_REDUCE:
        *spec = symc_f_all_reduce_spec();
        spec->op = adjoint->op;
        return linear ? SYMMCOLL_OK : refuse_op(adjoint);
    case SYMC_REDUCE_SCATTER:
        *spec = symc_f_all_gather_spec();
        spec->op = adjoint->op;
        spec->sums = adjoint->op == SYMMCOLL_AVG;
        spec->ready = ready_gather;
        return linear ? SYMMCOLL_OK : refuse_op(adjoint);
    case SYMC_ALL_GATHER:
        *spec = symc_f_reduce_scatter_spec();
        spec->op = SYMMCOLL_SUM;
        return SYMMCOLL_OK;
    case SYMC_BROADCAST:
        *spec = symc_f_broadcast_spec();
        spec->from_root = false;
        spec->ready = ready_reduce;
        spec->start = start_reduce;
        spec->root = adjoint->root;
        return SYMMCOLL_OK;
    case SYMC_GATHER:
        *spec = symc_f_scatter_spec();
        spec->ends = adjoint->ends;
        spec->root = adjoint->root;
        return SYMMCOLL_OK;
    case SYMC_SCATTER:
        *spec = symc_f_gather_spec();
        spec->ends = adjoint->ends;
        spec->root = adjoint->root;
        return SYMMCOLL_OK;
    case SYMC_ALL_TO_ALL:
        *spec = symc_f_all_to_all_spec();
        spec->out_splits = adjoint->splits;
        if (adjoint->splits != NULL)
            spec->in_splits = adjoint->splits + symc_group_size(adjoint->group);
        return SYMMCOLL_OK;
    case SYMC_ALL_TO_ALL_V:
        *spec = symc_f_permute_spec();
        spec->dst_of = adjoint->dst_of;
        return SYMMCOLL_OK;
    default:
        return symc_fail(SYMMCOLL_ERR_INTERNAL,
            "adjoint_run: %s has no way back", adjoint->name);
    }
}

symmcoll_status_t symc_f_adjoint_spec(
    const struct symmcoll_adjoint *adjoint, struct symc_f_spec *spec)
{
    symmcoll_status_t status = choose_way(adjoint, spec);

    spec->name = "adjoint_run";
    spec->group = adjoint->group;
    spec->dims = adjoint->dims;
    spec->strict = false;
    return status;
}

/* Checks that the gradients have the shapes and types of the results. */
static symmcoll_status_t check_grads(
    const struct symmcoll_adjoint *adjoint, const struct symmcoll_tensor *grads)
{
    for (int i = 0; i < adjoint->n; i++) {
        const struct symmcoll_tensor *wanted = &adjoint->ends[i].out;
        struct symmcoll_tensor grad;
        size_t count;
        symmcoll_status_t status =
            symc_f_tensor_read_any("adjoint_run", grads, i, &grad, &count);

        if (status != SYMMCOLL_OK)
            return status;
        if (grad.dtype != wanted->dtype || grad.ndim != wanted->ndim ||
            memcmp(grad.shape, wanted->shape,
                (size_t)wanted->ndim * sizeof(wanted->shape[0])) != 0)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "adjoint_run: %s: gradient %d: expected the shape and the type "
                "of the result, %d dimensions of %s, found others: %d of %s",
                adjoint->name, i, wanted->ndim,
                symmcoll_dtype_name(wanted->dtype), grad.ndim,
                symmcoll_dtype_name(grad.dtype));
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_adjoint_run(const struct symmcoll_adjoint *adjoint,
    const struct symmcoll_tensor *grads, const struct symmcoll_call *call,
    struct symmcoll_tensor *outs)
{
    struct symc_f_spec spec;
    symmcoll_status_t status;

    if (adjoint == NULL || grads == NULL || outs == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "adjoint_run: expected %s, found NULL",
            adjoint == NULL ? "an adjoint" : "gradients and their results");
    status = symc_f_adjoint_spec(adjoint, &spec);
    if (status == SYMMCOLL_OK)
        status = check_grads(adjoint, grads);
    if (status != SYMMCOLL_OK)
        return status;
    spec.call = call;
    return symc_f_perform(&spec, grads, adjoint->n, outs, NULL);
}
