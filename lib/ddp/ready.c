/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One gradient: whether it may be passed, and its way into the bucket.
 *
 * A gradient is divided by the number of ranks while it is written into its
 * bucket, in one pass, so that the sum over the ranks does not overflow where a
 * gradient does not.  Without synchronisation it is only added to the view; the
 * next pass that synchronises divides the sum.
 */
#include "ddp/reducer.h"

/* ---- its check ---- */

static symmcoll_status_t refuse(
    const struct symmcoll_reducer *reducer, int number, const char *why)
{
    char text[SYMC_PARAM_TEXT];

    return symc_fail(SYMMCOLL_ERR_INVALID, "reducer_ready: %s: %s",
        symc_number_text(reducer, number, text), why);
}

/* Checks a call of ready; *passed that is NULL becomes the one that was named. */
static symmcoll_status_t check_ready(
    const struct symmcoll_reducer *reducer, int number, const void **passed)
{
    const void *grad = *passed;
    const struct symc_param *param;
    symmcoll_status_t status =
        symc_number_check(reducer, "reducer_ready", number);

    if (status != SYMMCOLL_OK)
        return status;
    param = symc_number_param(reducer, number);
    if (reducer->backward == SYMC_BACKWARD_NONE)
        return refuse(reducer, number, "no backward has begun");
    if (reducer->numbers[number].came > 0)
        return refuse(reducer, number,
            "expected to be ready once in a backward, found it marked twice");
    if (grad == NULL)
        *passed = grad = param->home;
    if (grad == NULL && param->count > 0)
        return refuse(reducer, number, "expected a gradient, found NULL");
    if (param->count > 0 && reducer->views != (grad == param->view))
        return refuse(reducer, number,
            reducer->views
                ? "expected the view of the bucket that "
                  "symmcoll_reducer_grad() returns, found other memory"
                : "expected the caller's memory, found the view of the bucket "
                  "(gradient_as_bucket_view is not set)");
    status = symc_check_gradient(reducer, "reducer_ready", number, grad);
    if (status != SYMMCOLL_OK)
        return status;
    if (reducer->write_back && param->count > 0)
        return symc_check_origin(reducer, number, grad);
    return SYMMCOLL_OK;
}

/* ---- its way into the bucket ---- */

/* view = factor * (view + grad), each where there is one. */
static symmcoll_status_t write_view(const struct symmcoll_reducer *reducer,
    const struct symc_param *param, const void *grad, double factor)
{
    struct symc_local_sum sum = {.dtype = param->tensor.dtype,
        .elem = symmcoll_dtype_size(param->tensor.dtype),
        .out = param->view,
        .count = param->count,
        .factor = factor};

    if (param->has_accumulated || grad == NULL)
        sum.in[sum.n++] = param->view;
    if (grad != NULL)
        sum.in[sum.n++] = grad;
    return symc_site_add(reducer->site, &sum);
}

/* Takes a gradient; last: the sum of what has come is the parameter's, to be reduced. */
static symmcoll_status_t take_gradient(const struct symmcoll_reducer *reducer,
    struct symc_param *param, const void *grad, bool last)
{
    symmcoll_status_t status;

    if (reducer->write_back) {
        /* What the memory held before is in it still: nothing to keep. */
        param->origin = (void *)(uintptr_t)grad;
        param->has_accumulated = false;
        return last ? write_view(reducer, param, grad, reducer->factor)
                    : SYMMCOLL_OK;
    }
    status = write_view(reducer, param, reducer->views ? NULL : grad,
        last ? reducer->factor : 1.0);
    param->has_accumulated = true;
    return status;
}

/* What has accumulated counts, which is zeros where there is nothing. */
static symmcoll_status_t take_nothing(
    const struct symmcoll_reducer *reducer, const struct symc_param *param)
{
    if (reducer->write_back && param->origin == NULL)
        return symc_site_clear(reducer->site, param->view, param->nbytes);
    return write_view(reducer, param, param->origin, reducer->factor);
}

/* A parameter's part of its bucket is complete. */
static void complete(struct symmcoll_reducer *reducer, struct symc_param *param)
{
    param->left = 0;
    reducer->arrival[reducer->narrived++] = (int)(param - reducer->params);
    reducer->layout.buckets[param->bucket].pending--;
}

symmcoll_status_t symc_complete_param(
    struct symmcoll_reducer *reducer, struct symc_param *param)
{
    symmcoll_status_t status = take_nothing(reducer, param);

    complete(reducer, param);
    return status == SYMMCOLL_OK
               ? status
               : symc_keep_failure(reducer, -1, status, symmcoll_last_error());
}

symmcoll_status_t symmcoll_reducer_ready(
    struct symmcoll_reducer *reducer, int number, const void *grad)
{
    struct symc_param *param;
    symmcoll_status_t status;
    bool last;

    if (reducer == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_ready: expected a reducer, found NULL");
    status = check_ready(reducer, number, &grad);
    if (status != SYMMCOLL_OK)
        return symc_keep_refusal(reducer, status, "a gradient was refused: %s",
            symmcoll_last_error());
    if (reducer->failure != SYMMCOLL_OK)
        return symc_repeat_failure(reducer);
    param = symc_number_param(reducer, number);
    reducer->numbers[number].came++;
    param->left--;
    last = reducer->backward == SYMC_BACKWARD_SYNC && param->left == 0;
    status = symc_keep_stream(reducer);
    if (status == SYMMCOLL_OK)
        status = take_gradient(reducer, param, grad, last);
    if (last)
        complete(reducer, param);
    if (status != SYMMCOLL_OK)
        return symc_keep_failure(reducer, -1, status, symmcoll_last_error());
    if (!last)
        return SYMMCOLL_OK;
    status = symc_launch_buckets(reducer);
    symc_poll_buckets(reducer);
    return status;
}
