/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sequence of every functional call. All tensors are checked and have their
 * memory before the first operation starts, so an invalid argument leaves
 * nothing half done.
 */
#include "base/cancel.h"
#include "functional/functional.h"

#include <symmcoll/work.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int symc_f_dim(const struct symc_f_spec *spec, const struct symc_f_step *step)
{
    return spec->dims[step->index];
}

/* Checks that the tensor has the dimension of the call. */
static symmcoll_status_t check_dim(
    const struct symc_f_spec *spec, const struct symc_f_step *step)
{
    int dim = symc_f_dim(spec, step);

    if (dim >= 0 && dim < step->in.ndim)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected a dimension of 0 to %d, found %d", spec->name,
        step->in.ndim - 1, dim);
}

symmcoll_status_t symc_f_check_root(
    const struct symc_f_spec *spec, struct symc_f_step *step)
{
    (void)step;
    if (spec->root >= 0 &&
        (spec->group == NULL || spec->root < symc_group_size(spec->group)))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected a root of 0 to %d, found %d", spec->name,
        spec->group == NULL ? SYMC_RANKS_MAX : symc_group_size(spec->group) - 1,
        spec->root);
}

symmcoll_status_t symc_f_cut_shape(
    const struct symc_f_spec *spec, struct symc_f_step *step)
{
    symmcoll_status_t status = check_dim(spec, step);
    int size = symc_group_size(spec->group), dim;

    if (status != SYMMCOLL_OK)
        return status;
    dim = symc_f_dim(spec, step);
    if (step->in.shape[dim] % size != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected dimension %d to be a multiple of %d ranks, found %lld",
            spec->name, dim, size, (long long)step->in.shape[dim]);
    step->out.shape[dim] /= size;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_f_join_shape(
    const struct symc_f_spec *spec, struct symc_f_step *step)
{
    symmcoll_status_t status = check_dim(spec, step);
    int64_t *length =
        &step->out.shape[status == SYMMCOLL_OK ? symc_f_dim(spec, step) : 0];

    if (status == SYMMCOLL_OK &&
        __builtin_mul_overflow(
            *length, (int64_t)symc_group_size(spec->group), length))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: dimension %d times %d ranks is too long", spec->name,
            symc_f_dim(spec, step), symc_group_size(spec->group));
    return status;
}

/* ---- checks ---- */

static const char *format_shape(
    const struct symmcoll_tensor *tensor, char *buffer, size_t nbytes)
{
    size_t used = (size_t)snprintf(buffer, nbytes, "[");

    for (int d = 0; d < tensor->ndim && used < nbytes; d++)
        used += (size_t)snprintf(buffer + used, nbytes - used, "%s%lld",
            d > 0 ? ", " : "", (long long)tensor->shape[d]);
    if (used < nbytes)
        snprintf(buffer + used, nbytes - used, "]");
    return buffer;
}

/* Checks the caller's memory for the result: its shape, order and place. */
static symmcoll_status_t check_place(const struct symc_f_spec *spec,
    const struct symmcoll_tensor *place, const struct symc_f_step *step)
{
    const struct symmcoll_tensor *result = &step->out;
    struct symc_f_view in = symc_f_view_of(&step->in);
    struct symc_f_view view = symc_f_view_of(place);
    char found[128], expected[128];

    if (place->dtype != result->dtype || place->ndim != result->ndim ||
        memcmp(place->shape, result->shape,
            (size_t)result->ndim * sizeof(result->shape[0])) != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected out of shape %s of %s, found %s of %s", spec->name,
            format_shape(result, expected, sizeof(expected)),
            symmcoll_dtype_name(result->dtype),
            format_shape(place, found, sizeof(found)),
            symmcoll_dtype_name(place->dtype));
    if (place->data == step->in.data && !symc_f_view_is_contiguous(&in))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: in place: expected a contiguous tensor, found other strides",
            spec->name);
    if (!symc_f_view_is_contiguous(&view) || place->device != result->device)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected out contiguous in %s memory", spec->name,
            result->device == SYMMCOLL_CUDA ? "device" : "host");
    if (result->device == SYMMCOLL_CUDA &&
        place->device_index != result->device_index)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected out in memory of device %d, found device %d",
            spec->name, result->device_index, place->device_index);
    return symc_site_check(spec->name, spec->group, place);
}

/* Checks the memory and the layout of an input. */
static symmcoll_status_t check_input(
    const struct symc_f_spec *spec, const struct symc_f_step *step)
{
    struct symc_f_view view = symc_f_view_of(&step->in);

    if (step->in.device == SYMMCOLL_META)
        return SYMMCOLL_OK;
    if (spec->from_root && spec->group != NULL &&
        symc_group_rank(spec->group) != spec->root)
        return SYMMCOLL_OK;
    if (step->in.data == NULL && step->in_count > 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected data of %zu elements, found NULL", spec->name,
            step->in_count);
    if (spec->strict && !symc_f_view_is_contiguous(&view))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a contiguous tensor, found other strides",
            spec->name);
    return SYMMCOLL_OK;
}

/* Checks the group and the memory of the input. If only the root sends, the
 * inputs of the other ranks are shapes. */
static symmcoll_status_t check_group(
    const struct symc_f_spec *spec, const struct symc_f_step *step)
{
    if (step->in.device == SYMMCOLL_META)
        return SYMMCOLL_OK;
    if (!symc_group_is_usable(spec->group))
        return symc_group_refuse(spec->group, spec->kind);
    return spec->from_root && symc_group_rank(spec->group) != spec->root
               ? SYMMCOLL_OK
               : symc_site_check(spec->name, spec->group, &step->in);
}

static void set_shape(
    struct symmcoll_tensor *tensor, const struct symmcoll_tensor *like)
{
    tensor->ndim = like->ndim;
    memcpy(tensor->shape, like->shape,
        (size_t)like->ndim * sizeof(like->shape[0]));
}

/* Reads one tensor and the place of its result, and computes the result's
 * shape. */
static symmcoll_status_t prepare(const struct symc_f_spec *spec,
    const struct symmcoll_tensor *in, struct symmcoll_tensor *out,
    struct symc_f_step *step)
{
    struct symmcoll_tensor place, checked;
    size_t count;
    symmcoll_status_t status = symc_f_tensor_read_any(
        spec->name, in, step->index, &step->in, &step->in_count);

    if (status != SYMMCOLL_OK)
        return status;
    status =
        symc_f_tensor_read_any(spec->name, out, step->index, &place, &count);
    if (status != SYMMCOLL_OK)
        return status;
    status = check_input(spec, step);
    if (status != SYMMCOLL_OK)
        return status;
    if (spec->group == NULL &&
        !(spec->ungrouped && step->in.device == SYMMCOLL_META))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a group, found NULL", spec->name);
    status = check_group(spec, step);
    if (status != SYMMCOLL_OK)
        return status;
    step->elem = symmcoll_dtype_size(step->in.dtype);
    step->out = step->in;
    step->out.data = NULL;
    status = spec->ends == NULL ? spec->shape(spec, step) : SYMMCOLL_OK;
    if (status != SYMMCOLL_OK)
        return status;
    if (spec->ends != NULL)
        set_shape(&step->out, &spec->ends[step->index].in);
    symc_f_make_contiguous(&step->out);
    status = symc_f_tensor_read_any(
        spec->name, &step->out, 0, &checked, &step->out_count);
    step->taken = place.data != NULL && step->in.device != SYMMCOLL_META;
    if (status != SYMMCOLL_OK || !step->taken)
        return status;
    step->out.data = place.data;
    return check_place(spec, &place, step);
}

/* ---- memory and operations ---- */

/* Allocates the memory of a result. */
static symmcoll_status_t make_result(
    const struct symc_f_spec *spec, struct symc_f_step *step)
{
    symmcoll_status_t status = symc_site_alloc(
        spec->name, step->site, step->out_count, step->elem, &step->out.data);

    if (status != SYMMCOLL_OK || step->site == NULL)
        return status;
    status =
        symc_f_own(symc_group_world(spec->group), step->out.data, step->site);
    if (status != SYMMCOLL_OK) {
        symc_site_release(step->site, step->out.data);
        step->out.data = NULL;
    }
    return status;
}

/* Opens the site, allocates the result, and waits for pending results in both
 * buffers. */
static symmcoll_status_t make_ready(
    const struct symc_f_spec *spec, struct symc_f_step *step)
{
    struct symmcoll_world *world = symc_group_world(spec->group);
    void *stream = NULL;
    symmcoll_status_t status = symc_f_find_site(spec, step, &stream);

    if (status == SYMMCOLL_OK && !step->taken)
        status = make_result(spec, step);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_f_result_await(world, step->in.data, stream);
    if (status != SYMMCOLL_OK || !step->taken ||
        step->out.data == step->in.data)
        return status;
    return symc_f_result_await(world, step->out.data, stream);
}

/* Returns whether two tensors of a call belong to one operation. */
static bool share(
    const struct symc_f_step *one, const struct symc_f_step *other)
{
    return one->in.device == other->in.device &&
           (one->in.device == SYMMCOLL_HOST ||
               one->in.device_index == other->in.device_index) &&
           one->in.dtype == other->in.dtype;
}

/* Starts the operation on all tensors of one type; steps[0] is the first of
 * them. n steps of the call are left. */
static symmcoll_status_t start(
    const struct symc_f_spec *spec, struct symc_f_step *steps, int n)
{
    struct symmcoll_world *world = symc_group_world(spec->group);
    struct symc_f_operation *operation;
    symmcoll_status_t status;
    size_t count = 0;

    for (int i = 0; i < n; i++)
        count += share(&steps[0], &steps[i]);
    operation = symc_f_operation_create(world, spec->name, count);
    if (operation == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    for (int i = 0; i < n; i++) {
        if (share(&steps[0], &steps[i]))
            symc_f_operation_add(operation, &steps[i]);
    }
    status = count == 1 ? spec->start(spec, &steps[0], &operation->work)
                        : spec->start_several(spec, operation);
    if (status != SYMMCOLL_OK) {
        free(operation);
        return status;
    }
    for (int i = 0; i < n; i++) {
        if (share(&steps[0], &steps[i])) {
            steps[i].pending = true;
            steps[i].temp = NULL;
            steps[i].counts = NULL;
        }
    }
    symc_f_operation_list(world, operation);
    return SYMMCOLL_OK;
}

/* Undoes a failed call: waits for the operations that have started, and frees
 * the memory that the library has allocated. Keeps the detail. */
static symmcoll_status_t undo(const struct symc_f_spec *spec,
    struct symc_f_step *steps, int n, symmcoll_status_t status)
{
    struct symc_error error;

    symc_error_keep(&error, status);
    for (int i = 0; i < n; i++) {
        if (steps[i].pending)
            (void)symc_f_result_wait(
                symc_group_world(spec->group), steps[i].out.data, -1);
        if (steps[i].pending &&
            symc_f_result_is_pending(
                symc_group_world(spec->group), steps[i].out.data))
            continue; /* an operation still writes to it */
        if (steps[i].site != NULL && !steps[i].taken)
            symc_f_disown(symc_group_world(spec->group), steps[i].out.data);
        else if (!steps[i].taken)
            free(steps[i].out.data);
        symc_site_release(steps[i].site, steps[i].temp);
        free(steps[i].counts);
    }
    return symc_error_return(&error);
}

static symmcoll_status_t write_results(const struct symc_f_spec *spec,
    const struct symc_f_step *steps, int n, struct symmcoll_tensor *out)
{
    char *place = (char *)out;
    size_t apart = out->size;

    for (int i = 0; i < n; i++) {
        symmcoll_status_t status = symc_sized_write(&symc_tensor_kind,
            spec->name, &steps[i].out, place + (size_t)i * apart);

        if (status != SYMMCOLL_OK)
            return status;
    }
    return SYMMCOLL_OK;
}

/* Prepares all steps, starts their operations, and writes the results. */
static symmcoll_status_t run_steps(const struct symc_f_spec *spec,
    struct symc_f_step *steps, int n, struct symmcoll_tensor *out)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int i = 0; i < n && status == SYMMCOLL_OK; i++) {
        if (steps[i].in.device != SYMMCOLL_META)
            status = make_ready(spec, &steps[i]);
    }
    for (int i = 0; i < n && status == SYMMCOLL_OK; i++) {
        if (steps[i].in.device != SYMMCOLL_META)
            status = spec->ready(spec, &steps[i]);
    }
    for (int i = 0; i < n && status == SYMMCOLL_OK; i++) {
        if (steps[i].in.device != SYMMCOLL_META && !steps[i].pending)
            status = start(spec, &steps[i], n - i);
    }
    return status == SYMMCOLL_OK ? write_results(spec, steps, n, out) : status;
}

static symmcoll_status_t check_lists(const struct symc_f_spec *spec,
    const struct symmcoll_tensor *in, int n, const struct symmcoll_tensor *out)
{
    if (n < 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected one tensor or more, found %d", spec->name, n);
    if (in == NULL || out == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a tensor and a place for the result, found NULL",
            spec->name);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_f_perform(const struct symc_f_spec *spec,
    const struct symmcoll_tensor *in, int n, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint)
{
    symmcoll_status_t status = check_lists(spec, in, n, out);
    struct symc_f_step *steps;

    if (status != SYMMCOLL_OK)
        return status;
    steps = symc_alloc((size_t)n, sizeof(*steps));
    if (steps == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    for (int i = 0; i < n; i++) {
        steps[i].index = i;
        status = prepare(spec, in, out, &steps[i]);
        if (status != SYMMCOLL_OK)
            goto free_steps;
    }
    if (adjoint != NULL) {
        status = symc_f_adjoint_create(spec, steps, n, adjoint);
        if (status != SYMMCOLL_OK)
            goto free_steps;
    }
    status = run_steps(spec, steps, n, out);
    if (status == SYMMCOLL_OK) {
        symc_f_record_calls(spec, steps, n);
        goto free_steps;
    }
    status = undo(spec, steps, n, status);
    if (adjoint != NULL) {
        symmcoll_adjoint_free(*adjoint);
        *adjoint = NULL;
    }
free_steps:
    for (int i = 0; i < n; i++)
        symc_site_close(steps[i].site);
    free(steps);
    return status;
}
