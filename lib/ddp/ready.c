/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes gradients, and skips parameters: checks the call, and writes into the
 * bucket.
 *
 * Without a hook a gradient is divided by the number of ranks while it is
 * written into its bucket, in one pass, so that the sum over the ranks does not
 * overflow if no gradient does.  In a local pass it is only added to the view;
 * the next synchronised pass divides the sum.
 */
#include "ddp/reducer.h"

#include "base/cancel.h"

#include <string.h>

/* ---- checks ---- */

static symmcoll_status_t refuse(
    const struct symmcoll_reducer *reducer, int number, const char *why)
{
    char text[SYMC_PARAM_TEXT];

    return symc_fail(SYMMCOLL_ERR_INVALID, "reducer_ready: %s: %s",
        symc_number_text(reducer, number, text), why);
}

/* Checks that a number may get a gradient, or another one, in this backward. */
static symmcoll_status_t check_turn(
    const struct symmcoll_reducer *reducer, int number)
{
    const struct symc_number *entry = &reducer->numbers[number];
    symmcoll_status_t status;

    if (entry->skipped)
        return refuse(reducer, number,
            "expected no gradient, for it has been skipped in this backward");
    if (reducer->graph == SYMC_GRAPH_DYNAMIC && entry->came > 0)
        return refuse(reducer, number,
            "expected to be ready once in a backward, found it marked twice");
    if (reducer->graph != SYMC_GRAPH_DYNAMIC) {
        status = symc_graph_check(reducer, number);
        if (status != SYMMCOLL_OK)
            return status;
    }
    /* finish has completed the parameter, and has not returned yet. */
    if (reducer->backward == SYMC_BACKWARD_SYNC &&
        symc_number_param(reducer, number)->left <= 0)
        return refuse(reducer, number,
            "expected a gradient before finish, found it has been reduced "
            "already");
    return SYMMCOLL_OK;
}

/* Checks a call of ready.  If *passed is NULL, replaces it by the gradient
 * given at creation, if there is one. */
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
    status = check_turn(reducer, number);
    if (status != SYMMCOLL_OK)
        return status;
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

/* ---- writing into the bucket ---- */

/* Computes view = factor * (view + grad).  grad may be NULL; the view counts if
 * it has accumulated or grad is NULL. */
static symmcoll_status_t write_view(const struct symmcoll_reducer *reducer,
    const struct symc_param *param, const void *grad, double factor)
{
    struct symc_local_sum sum = {.dtype = param->grad_dtype,
        .elem = symmcoll_dtype_size(param->grad_dtype),
        .out = param->view,
        .count = param->count,
        .factor = factor};

    if (grad != NULL && symc_is_wide(param)) {
        symmcoll_status_t status =
            symc_widen(reducer, param, grad, factor, &grad);

        if (status != SYMMCOLL_OK || grad == NULL)
            return status;
    }
    if (param->has_accumulated || grad == NULL)
        sum.in[sum.n++] = param->view;
    if (grad != NULL)
        sum.in[sum.n++] = grad;
    return symc_site_add(reducer->site, &sum);
}

/* Takes a gradient of a parameter.  last: it completes the parameter for the
 * reduction. */
static symmcoll_status_t take_gradient(const struct symmcoll_reducer *reducer,
    struct symc_param *param, const void *grad, bool last)
{
    symmcoll_status_t status;

    if (reducer->write_back) {
        /* The caller's memory has the earlier gradients, too: nothing
         * accumulates here. */
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

/* Prepares the view of a parameter that gets no further gradient: multiplies
 * what has accumulated; with write_back takes the caller's gradient, or zeros
 * if none was passed. */
static symmcoll_status_t take_nothing(
    const struct symmcoll_reducer *reducer, const struct symc_param *param)
{
    if (reducer->write_back && param->origin == NULL)
        return symc_site_clear(reducer->site, param->view, param->grad_nbytes);
    return write_view(reducer, param, param->origin, reducer->factor);
}

/* Moves a parameter to the end of the order of arrival. */
static void arrive(struct symmcoll_reducer *reducer, int index)
{
    int at = 0;

    while (at < reducer->narrived && reducer->arrival[at] != index)
        at++;
    if (at < reducer->narrived) {
        reducer->narrived--;
        memmove(&reducer->arrival[at], &reducer->arrival[at + 1],
            (size_t)(reducer->narrived - at) * sizeof(*reducer->arrival));
    }
    reducer->arrival[reducer->narrived++] = index;
}

/* Records that a parameter's part of its bucket is complete. */
static void complete(struct symmcoll_reducer *reducer, struct symc_param *param)
{
    param->left = 0;
    if (!param->came || !symc_graph_is_counted(reducer))
        reducer->arrival[reducer->narrived++] = (int)(param - reducer->params);
    reducer->layout.buckets[param->bucket].pending--;
}

symmcoll_status_t symc_complete_param(
    struct symmcoll_reducer *reducer, struct symc_param *param)
{
    symmcoll_status_t status = symc_used_keep(reducer, param);

    if (status == SYMMCOLL_OK)
        status = take_nothing(reducer, param);
    complete(reducer, param);
    return status == SYMMCOLL_OK ? status
                                 : symc_keep_failure(reducer, -1, status);
}

symmcoll_status_t symc_refuse_gradient(
    struct symmcoll_reducer *reducer, int number, symmcoll_status_t status)
{
    symc_graph_count_refused(reducer, number);
    return symc_keep_refusal(
        reducer, status, "a gradient was refused: %s", symmcoll_last_error());
}

symmcoll_status_t symc_pass_gradient(
    struct symmcoll_reducer *reducer, int number, const void *grad)
{
    struct symc_param *param;
    symmcoll_status_t status;
    bool last;

    status = check_ready(reducer, number, &grad);
    if (status != SYMMCOLL_OK)
        return symc_refuse_gradient(reducer, number, status);
    if (reducer->failure.status != SYMMCOLL_OK)
        return symc_repeat_failure(reducer);
    param = symc_number_param(reducer, number);
    reducer->numbers[number].came++;
    param->left--;
    param->came = param->used = true;
    if (symc_graph_is_counted(reducer))
        arrive(reducer, (int)(param - reducer->params));
    last = reducer->backward == SYMC_BACKWARD_SYNC && param->left == 0;
    status = symc_keep_stream(reducer);
    if (status == SYMMCOLL_OK)
        status = take_gradient(reducer, param, grad, last);
    if (last)
        complete(reducer, param);
    if (status != SYMMCOLL_OK)
        return symc_keep_failure(reducer, -1, status);
    if (!last)
        return SYMMCOLL_OK;
    status = symc_launch_buckets(reducer);
    symc_poll_buckets(reducer);
    return status;
}

symmcoll_status_t symmcoll_reducer_ready(
    struct symmcoll_reducer *reducer, int number, const void *grad)
{
    symmcoll_status_t status;
    int cancel;

    if (reducer == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_ready: expected a reducer, found NULL");
    cancel = symc_cancel_disable();
    pthread_mutex_lock(&reducer->lock);
    status = symc_pass_gradient(reducer, number, grad);
    pthread_mutex_unlock(&reducer->lock);
    symc_cancel_restore(cancel);
    return status;
}

/* ---- parameters without a gradient ---- */

static symmcoll_status_t check_skip(
    const struct symmcoll_reducer *reducer, const int *params, int n)
{
    char text[SYMC_PARAM_TEXT];

    if (!reducer->find_unused)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_skip: expected a reducer with find_unused, found one "
            "without");
    if (reducer->backward == SYMC_BACKWARD_NONE)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "reducer_skip: no backward has begun");
    for (int i = 0; i < n; i++) {
        symmcoll_status_t status =
            symc_number_check(reducer, "reducer_skip", params[i]);

        if (status != SYMMCOLL_OK)
            return status;
        if (reducer->numbers[params[i]].came > 0)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "reducer_skip: %s: expected no gradient in this backward, "
                "found it is ready",
                symc_number_text(reducer, params[i], text));
    }
    return SYMMCOLL_OK;
}

/* Called with the lock held. */
static symmcoll_status_t skip_params(
    struct symmcoll_reducer *reducer, const int *params, int n)
{
    symmcoll_status_t status = check_skip(reducer, params, n);

    if (status != SYMMCOLL_OK)
        return symc_keep_refusal(reducer, status,
            "a parameter was not skipped: %s", symmcoll_last_error());
    if (reducer->failure.status != SYMMCOLL_OK)
        return symc_repeat_failure(reducer);
    /* A static graph counts gradients instead. */
    if (reducer->backward == SYMC_BACKWARD_LOCAL ||
        reducer->graph != SYMC_GRAPH_DYNAMIC)
        return SYMMCOLL_OK;
    status = symc_keep_stream(reducer);
    if (status != SYMMCOLL_OK)
        return symc_keep_failure(reducer, -1, status);
    for (int i = 0; i < n; i++) {
        struct symc_number *entry = &reducer->numbers[params[i]];
        struct symc_param *param = &reducer->params[entry->param];

        if (entry->skipped)
            continue;
        entry->skipped = true;
        param->left--;
        if (param->left == 0 &&
            symc_complete_param(reducer, param) != SYMMCOLL_OK)
            return symc_repeat_failure(reducer);
    }
    status = symc_launch_buckets(reducer);
    symc_poll_buckets(reducer);
    return status;
}

symmcoll_status_t symmcoll_reducer_skip(
    struct symmcoll_reducer *reducer, const int *params, int n)
{
    symmcoll_status_t status;
    int cancel;

    if (reducer == NULL || n < 0 || (params == NULL && n > 0))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_skip: expected a reducer and numbers of parameters, found "
            "NULL or %d of them",
            n);
    cancel = symc_cancel_disable();
    pthread_mutex_lock(&reducer->lock);
    status = skip_params(reducer, params, n);
    pthread_mutex_unlock(&reducer->lock);
    symc_cancel_restore(cancel);
    return status;
}
