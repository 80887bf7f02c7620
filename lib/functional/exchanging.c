/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functional all_to_all and permute, which exchange rows.
 */
#include "functional/functional.h"

#include <symmcoll/collectives.h>

/* ---- all_to_all ---- */

/* Returns the elements of one row, along the first dimension. */
static size_t count_row(const struct symmcoll_tensor *tensor)
{
    size_t row = 1;

    for (int d = 1; d < tensor->ndim; d++)
        row *= (size_t)tensor->shape[d];
    return row;
}

/* Returns the rows of all parts; SIZE_MAX: more than a tensor can have. */
static size_t sum_splits(const size_t *splits, int size)
{
    size_t sum = 0;

    for (int r = 0; r < size; r++) {
        if (!symc_add(sum, splits[r], &sum) || sum > INT64_MAX)
            return SIZE_MAX;
    }
    return sum;
}

/* Sets the shape of a result with rows from all ranks, and checks the
 * splits. */
static symmcoll_status_t split_shape(
    const struct symc_f_spec *spec, struct symc_f_step *step)
{
    int size = symc_group_size(spec->group);
    size_t rows, sum;

    if (step->in.ndim < 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected 1 dimension or more, found 0", spec->name);
    rows = (size_t)step->in.shape[0];
    if ((spec->out_splits == NULL) != (spec->in_splits == NULL))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected out_splits and in_splits or neither, found %s alone",
            spec->name, spec->out_splits == NULL ? "in_splits" : "out_splits");
    if (spec->in_splits == NULL && rows % (size_t)size != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected dimension 0 to be a multiple of %d ranks, found %zu",
            spec->name, size, rows);
    if (spec->in_splits == NULL)
        return SYMMCOLL_OK;
    sum = sum_splits(spec->in_splits, size);
    if (sum != rows)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected in_splits to sum to dimension 0, %zu, found %zu",
            spec->name, rows, sum);
    sum = sum_splits(spec->out_splits, size);
    if (sum > INT64_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: the sum of out_splits is too large", spec->name);
    step->out.shape[0] = (int64_t)sum;
    return SYMMCOLL_OK;
}

/* Allocates temporary memory: zeroed counts, if there are any, and a copy of
 * the elements, if they are not contiguous. */
static symmcoll_status_t make_temp(
    const struct symc_f_spec *spec, struct symc_f_step *step, size_t counts)
{
    struct symc_f_view view = symc_f_view_of(&step->in);
    bool contiguous = symc_f_view_is_contiguous(&view);
    symmcoll_status_t status;

    step->from = step->in.data;
    step->to = step->out.data;
    if (counts > 0)
        step->counts = symc_alloc(counts, sizeof(*step->counts));
    if (counts > 0 && step->counts == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    if (contiguous)
        return SYMMCOLL_OK;
    status = symc_site_alloc(
        spec->name, step->site, step->in_count, step->elem, &step->temp);
    if (status != SYMMCOLL_OK)
        return status;
    step->from = step->temp;
    return symc_f_copy(
        step->site, &view, step->in.data, step->temp, step->elem);
}

/* Starts an uneven all_to_all. step->counts has the counts received and then
 * those sent, and lives as long as the operation. */
static symmcoll_status_t start_uneven(const struct symc_f_spec *spec,
    const struct symc_f_step *step, struct symmcoll_work **work)
{
    const size_t *counts = step->counts;

    return symmcoll_all_to_all_v(spec->group, step->to, step->out_count, counts,
        step->from, step->in_count, counts + symc_group_size(spec->group),
        step->in.dtype, spec->call, work);
}

static symmcoll_status_t ready_all_to_all(
    const struct symc_f_spec *spec, struct symc_f_step *step)
{
    size_t size = (size_t)symc_group_size(spec->group),
           row = count_row(&step->in);
    symmcoll_status_t status =
        make_temp(spec, step, spec->in_splits != NULL ? 2 * size : 0);
    size_t *counts = step->counts;

    step->count = step->in_count / size;
    if (status != SYMMCOLL_OK || spec->in_splits == NULL)
        return status;
    for (size_t r = 0; r < size; r++) {
        counts[r] = spec->out_splits[r] * row;
        counts[size + r] = spec->in_splits[r] * row;
    }
    return SYMMCOLL_OK;
}

static symmcoll_status_t start_all_to_all(const struct symc_f_spec *spec,
    const struct symc_f_step *step, struct symmcoll_work **work)
{
    return spec->in_splits != NULL
               ? start_uneven(spec, step, work)
               : symmcoll_all_to_all(spec->group, step->to, step->from,
                     step->count, step->in.dtype, spec->call, work);
}

struct symc_f_spec symc_f_all_to_all_spec(void)
{
    return (struct symc_f_spec){.name = "f_all_to_all",
        .kind = SYMC_ALL_TO_ALL,
        .strict = true,
        .shape = split_shape,
        .ready = ready_all_to_all,
        .start = start_all_to_all};
}

symmcoll_status_t symmcoll_f_all_to_all(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, const size_t *out_splits,
    const size_t *in_splits, const struct symmcoll_call *call,
    struct symmcoll_tensor *out, struct symmcoll_adjoint **adjoint)
{
    struct symc_f_spec spec = symc_f_all_to_all_spec();

    spec.group = group;
    spec.call = call;
    spec.out_splits = out_splits;
    spec.in_splits = in_splits;
    return symc_f_perform(&spec, in, 1, out, adjoint);
}

/* ---- permute ---- */

/* Returns the rank that sends its tensor to a rank; -1: none. */
static int find_source(const struct symc_f_spec *spec, int rank)
{
    int source = -1;

    for (int r = 0; r < symc_group_size(spec->group); r++) {
        if (spec->dst_of[r] == rank)
            source = r;
    }
    return source;
}

/* Checks the destinations: no two ranks send to the same one, since each
 * receives one tensor. */
static symmcoll_status_t check_permutation(
    const struct symc_f_spec *spec, struct symc_f_step *step)
{
    (void)step;
    if (spec->dst_of == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected the ranks' destinations, found NULL", spec->name);
    for (int r = 0; r < symc_group_size(spec->group); r++) {
        int to = spec->dst_of[r];

        if (to < 0 || to >= symc_group_size(spec->group))
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "%s: destination of rank %d: expected 0 to %d, found %d",
                spec->name, r, symc_group_size(spec->group) - 1, to);
        if (find_source(spec, to) != r)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "%s: expected a permutation, found ranks %d and %d with the "
                "destination %d",
                spec->name, r, find_source(spec, to), to);
    }
    return SYMMCOLL_OK;
}

/* Prepares a permute as an uneven all_to_all in which one part is not empty. */
static symmcoll_status_t ready_permute(
    const struct symc_f_spec *spec, struct symc_f_step *step)
{
    int size = symc_group_size(spec->group),
        rank = symc_group_rank(spec->group);
    symmcoll_status_t status = make_temp(spec, step, 2 * (size_t)size);
    size_t *counts = step->counts;

    if (status != SYMMCOLL_OK)
        return status;
    counts[find_source(spec, rank)] = step->in_count;
    counts[size + spec->dst_of[rank]] = step->in_count;
    return SYMMCOLL_OK;
}

struct symc_f_spec symc_f_permute_spec(void)
{
    return (struct symc_f_spec){.name = "f_permute",
        .kind = SYMC_ALL_TO_ALL_V,
        .strict = true,
        .shape = check_permutation,
        .ready = ready_permute,
        .start = start_uneven};
}

symmcoll_status_t symmcoll_f_permute(struct symmcoll_group *group,
    const struct symmcoll_tensor *in, const int *dst_of,
    const struct symmcoll_call *call, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint)
{
    struct symc_f_spec spec = symc_f_permute_spec();

    spec.group = group;
    spec.call = call;
    spec.dst_of = dst_of;
    return symc_f_perform(&spec, in, 1, out, adjoint);
}
