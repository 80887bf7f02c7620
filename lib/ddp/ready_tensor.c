/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes gradients that are passed as tensors: checks their type and shape, and
 * copies one with other strides than the parameter's before it is taken.
 */
#include "ddp/reducer.h"

#include "base/cancel.h"
#include "base/tensor.h"
#include "group/group.h"

static bool has_shape(
    const struct symmcoll_tensor *grad, const struct symmcoll_tensor *view)
{
    if (grad->ndim != view->ndim)
        return false;
    for (int d = 0; d < view->ndim; d++)
        if (grad->shape[d] != view->shape[d])
            return false;
    return true;
}

static bool has_strides(
    const struct symmcoll_tensor *grad, const struct symmcoll_tensor *view)
{
    for (int d = 0; d < view->ndim; d++)
        if (view->shape[d] > 1 && grad->strides[d] != view->strides[d])
            return false;
    return true;
}

/* Reads a gradient (given, out) and compares its memory, type and shape with the
 * parameter's. */
static symmcoll_status_t read_grad(const struct symmcoll_reducer *reducer,
    int number, const struct symmcoll_tensor *grad, struct symc_param *given)
{
    const struct symmcoll_tensor *tensor;
    char text[SYMC_PARAM_TEXT], expected[SYMC_SHAPE_TEXT],
        found[SYMC_SHAPE_TEXT];
    symmcoll_status_t status =
        symc_number_check(reducer, "reducer_ready_tensor", number);

    if (status != SYMMCOLL_OK)
        return status;
    symc_number_text(reducer, number, text);
    tensor = &symc_number_param(reducer, number)->tensor;
    status = symc_param_init(given, grad, 0, false, text);
    if (status == SYMMCOLL_OK)
        status = symc_check_memory(reducer, &given->tensor, text);
    if (status != SYMMCOLL_OK)
        return status;
    if (given->tensor.dtype != tensor->dtype)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_ready_tensor: %s: expected a gradient of %s, found %s",
            text, symmcoll_dtype_name(tensor->dtype),
            symmcoll_dtype_name(given->tensor.dtype));
    if (has_shape(&given->tensor, tensor))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "reducer_ready_tensor: %s: expected a gradient of shape %s, found %s",
        text, symc_format_dims(tensor->shape, tensor->ndim, expected),
        symc_format_dims(given->tensor.shape, given->tensor.ndim, found));
}

/* Checks that a gradient may have other strides, in memory that is not kept. */
static symmcoll_status_t check_strides(const struct symmcoll_reducer *reducer,
    int number, const struct symmcoll_tensor *grad,
    const struct symmcoll_tensor *view)
{
    char text[SYMC_PARAM_TEXT], expected[SYMC_SHAPE_TEXT],
        found[SYMC_SHAPE_TEXT];

    if (!reducer->views && !reducer->write_back)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "reducer_ready_tensor: %s: expected the strides %s with %s, found %s",
        symc_number_text(reducer, number, text),
        symc_format_dims(view->strides, view->ndim, expected),
        reducer->write_back
            ? "write_back"
            : (reducer->memory != NULL ? "memory" : "gradient_as_bucket_view"),
        symc_format_dims(grad->strides, grad->ndim, found));
}

/* Allocates memory for one gradient, at the first that has other strides. */
static symmcoll_status_t make_scratch(
    struct symmcoll_reducer *reducer, int number)
{
    char text[SYMC_PARAM_TEXT];
    size_t nbytes = 0;

    if (reducer->arranged != NULL)
        return SYMMCOLL_OK;
    symc_logf(&symc_group_world(reducer->group)->log, SYMC_LOG_WARN,
        "reducer of group %s: %s: the gradient has other strides than the "
        "parameter: it is copied in each pass",
        symc_group_name(reducer->group),
        symc_number_text(reducer, number, text));
    for (int i = 0; i < reducer->nparams; i++)
        if (reducer->params[i].nbytes > nbytes)
            nbytes = reducer->params[i].nbytes;
    return symc_site_alloc("reducer: a gradient with other strides",
        reducer->site, nbytes, 1, &reducer->arranged);
}

/* Copies a gradient to scratch memory, in the order of the view's elements. */
static symmcoll_status_t arrange(struct symmcoll_reducer *reducer, int number,
    const struct symc_param *given, const struct symmcoll_tensor *view)
{
    struct symc_param from = *given;
    int order[SYMMCOLL_MAX_DIMS], n = symc_tensor_order(view, order);
    symmcoll_status_t status =
        check_strides(reducer, number, &given->tensor, view);

    if (status == SYMMCOLL_OK)
        status = symc_keep_stream(reducer);
    if (status == SYMMCOLL_OK)
        status = make_scratch(reducer, number);
    if (status != SYMMCOLL_OK)
        return status;
    from.tensor.ndim = n;
    for (int d = 0; d < n; d++) {
        from.tensor.shape[d] = view->shape[order[n - 1 - d]];
        from.tensor.strides[d] = given->tensor.strides[order[n - 1 - d]];
    }
    return symc_param_pack(reducer->site, &from, reducer->arranged);
}

/* Called with the lock held. */
static symmcoll_status_t pass_tensor(struct symmcoll_reducer *reducer,
    int number, const struct symmcoll_tensor *grad)
{
    struct symc_param given;
    struct symmcoll_tensor view;
    symmcoll_status_t status = read_grad(reducer, number, grad, &given);

    if (status != SYMMCOLL_OK)
        return symc_refuse_gradient(reducer, number, status);
    view = symc_param_view(symc_number_param(reducer, number));
    if (given.count == 0 || reducer->backward == SYMC_BACKWARD_NONE ||
        has_strides(&given.tensor, &view))
        return symc_pass_gradient(reducer, number, given.tensor.data);
    status = arrange(reducer, number, &given, &view);
    if (status != SYMMCOLL_OK)
        return symc_refuse_gradient(reducer, number, status);
    return symc_pass_gradient(reducer, number, reducer->arranged);
}

symmcoll_status_t symmcoll_reducer_ready_tensor(
    struct symmcoll_reducer *reducer, int number,
    const struct symmcoll_tensor *grad)
{
    symmcoll_status_t status;
    int cancel;

    if (reducer == NULL || grad == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_ready_tensor: expected a reducer and a gradient, found "
            "NULL");
    cancel = symc_cancel_disable();
    pthread_mutex_lock(&reducer->lock);
    status = pass_tensor(reducer, number, grad);
    pthread_mutex_unlock(&reducer->lock);
    symc_cancel_restore(cancel);
    return status;
}
