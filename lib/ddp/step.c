/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One backward: begin, a gradient after the other, finish.
 *
 * A gradient is divided by the number of ranks while it is written into its
 * bucket, in one pass, so that the sum over the ranks does not overflow where a
 * gradient does not.  Without synchronisation it is only added to the view; the
 * next pass that synchronises divides the sum.
 */
#include "ddp/reducer.h"

#include <stdio.h>
#include <string.h>

/* Returns whether a parameter has no gradient in this pass. */
static bool is_missing(
    const struct symmcoll_reducer *reducer, const struct symc_param *param)
{
    (void)reducer;
    return !param->marked;
}

/* Return what symmcoll_reducer_zero() could not, once. */
static symmcoll_status_t report_zeroing(struct symmcoll_reducer *reducer)
{
    symmcoll_status_t status = reducer->zeroing;

    reducer->zeroing = SYMMCOLL_OK;
    return status == SYMMCOLL_OK
               ? status
               : symc_fail(status,
                     "reducer_begin: gradients have not been set to zero: %s",
                     reducer->zeroing_detail);
}

symmcoll_status_t symmcoll_reducer_begin(
    struct symmcoll_reducer *reducer, int sync)
{
    symmcoll_status_t status;

    if (reducer == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_begin: expected a reducer, found NULL");
    if (reducer->backward != SYMC_BACKWARD_NONE) {
        char missing[SYMC_DETAIL_MAX / 2];

        if (symc_params_list(reducer, is_missing, missing, sizeof(missing)))
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "reducer_begin: the backward before has not finished: no "
                "gradient of %s",
                missing);
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_begin: the backward before has not finished: all "
            "gradients came, symmcoll_reducer_finish() did not");
    }
    status = report_zeroing(reducer);
    if (status == SYMMCOLL_OK)
        status = symc_settle_buckets(reducer);
    if (status == SYMMCOLL_OK)
        status = symc_take_stream(reducer, "reducer_begin");
    if (reducer->rebuild == SYMC_REBUILD_DUE) {
        status = symc_rebuild_buckets(reducer, status);
        if (status == SYMMCOLL_OK)
            reducer->rebuild = SYMC_REBUILD_DONE;
    }
    if (status != SYMMCOLL_OK)
        return status;
    for (int i = 0; i < reducer->nparams; i++)
        reducer->params[i].marked = false;
    for (int b = 0; b < reducer->layout.nbuckets; b++)
        reducer->layout.buckets[b].pending = reducer->layout.buckets[b].ngrads;
    reducer->backward = sync ? SYMC_BACKWARD_SYNC : SYMC_BACKWARD_LOCAL;
    reducer->launched = 0;
    reducer->done = 0;
    reducer->narrived = 0;
    reducer->failure = SYMMCOLL_OK;
    reducer->refusal = SYMMCOLL_OK;
    reducer->done_ns = 0;
    if (sync)
        symc_times_note(reducer, SYMC_MOMENT_BEGIN);
    return SYMMCOLL_OK;
}

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

/* A gradient is ready. */
static symmcoll_status_t take_gradient(const struct symmcoll_reducer *reducer,
    struct symc_param *param, const void *grad, bool sync)
{
    symmcoll_status_t status;

    if (reducer->write_back) {
        /* What the memory held before is in it still: nothing to keep. */
        param->origin = (void *)(uintptr_t)grad;
        param->has_accumulated = false;
        return sync ? write_view(reducer, param, grad, reducer->factor)
                    : SYMMCOLL_OK;
    }
    status = write_view(reducer, param, reducer->views ? NULL : grad,
        sync ? reducer->factor : 1.0);
    param->has_accumulated = true;
    return status;
}

/* No gradient came in a synchronised backward: what has accumulated counts,
 * which is zeros where there is nothing. */
static symmcoll_status_t take_nothing(
    const struct symmcoll_reducer *reducer, const struct symc_param *param)
{
    if (reducer->write_back && param->origin == NULL)
        return symc_site_clear(reducer->site, param->view, param->nbytes);
    return write_view(reducer, param, param->origin, reducer->factor);
}

symmcoll_status_t symc_check_gradient(const struct symmcoll_reducer *reducer,
    const char *where, struct symc_param *param, const void *grad,
    const char *text)
{
    struct symmcoll_tensor found = param->tensor;
    char detail[SYMC_DETAIL_MAX / 2];
    size_t align = symc_param_align(param);
    symmcoll_status_t status;

    if (reducer->views || param->count == 0 || grad == param->known)
        return SYMMCOLL_OK;
    if (reducer->site != NULL && (uintptr_t)grad % align != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: %s: expected a gradient at a multiple of %zu, found %p", where,
            text, align, grad);
    /* Elements without gaps, whatever the parameter has. */
    found.data = (void *)(uintptr_t)grad;
    found.ndim = 1;
    found.shape[0] = (int64_t)param->count;
    found.strides[0] = 1;
    status = symc_site_check("its gradient", reducer->group, &found);
    if (status == SYMMCOLL_OK) {
        param->known = reducer->site == NULL ? grad : NULL;
        return status;
    }
    snprintf(detail, sizeof(detail), "%s", symmcoll_last_error());
    return symc_fail(status, "%s: %s: %s", where, text, detail);
}

/* Checks a call of ready; *passed that is NULL becomes the one that was named. */
static symmcoll_status_t check_ready(
    struct symmcoll_reducer *reducer, int number, const void **passed)
{
    const void *grad = *passed;
    struct symc_param *param;
    char text[SYMC_PARAM_TEXT];
    symmcoll_status_t status;

    if (reducer == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_ready: expected a reducer, found NULL");
    if (number < 0 || number >= reducer->nparams)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_ready: expected a parameter from 0 to %d, found %d",
            reducer->nparams - 1, number);
    param = &reducer->params[number];
    symc_param_text(param, number, text);
    if (reducer->backward == SYMC_BACKWARD_NONE)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_ready: %s: no backward has begun", text);
    if (param->marked)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_ready: %s: expected to be ready once in a backward, found "
            "it marked twice",
            text);
    if (grad == NULL)
        *passed = grad = param->home;
    if (grad == NULL && param->count > 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_ready: %s: expected a gradient, found NULL", text);
    if (param->count > 0 && reducer->views != (grad == param->view))
        return symc_fail(SYMMCOLL_ERR_INVALID, "reducer_ready: %s: %s", text,
            reducer->views
                ? "expected the view of the bucket that "
                  "symmcoll_reducer_grad() returns, found other memory"
                : "expected the caller's memory, found the view of the bucket "
                  "(gradient_as_bucket_view is not set)");
    status = symc_check_gradient(reducer, "reducer_ready", param, grad, text);
    if (status != SYMMCOLL_OK)
        return status;
    if (reducer->write_back && param->count > 0)
        return symc_check_origin(reducer, number, grad, text);
    return SYMMCOLL_OK;
}

/* Keep the first refusal of this backward for its finish, and return the
 * status. */
static symmcoll_status_t keep_refusal(
    struct symmcoll_reducer *reducer, symmcoll_status_t status)
{
    if (reducer == NULL || reducer->backward == SYMC_BACKWARD_NONE ||
        reducer->refusal != SYMMCOLL_OK)
        return status;
    reducer->refusal = status;
    snprintf(reducer->refusal_detail, sizeof(reducer->refusal_detail),
        "a gradient was refused: %s", symmcoll_last_error());
    return status;
}

/* How a backward ends that nothing else went wrong in: all ranks have done the
 * same operations, and this one may have refused a gradient meanwhile. */
static symmcoll_status_t report_refusal(const struct symmcoll_reducer *reducer)
{
    if (reducer->refusal == SYMMCOLL_OK)
        return SYMMCOLL_OK;
    return symc_fail(
        reducer->refusal, "reducer_finish: %s", reducer->refusal_detail);
}

symmcoll_status_t symmcoll_reducer_ready(
    struct symmcoll_reducer *reducer, int number, const void *grad)
{
    symmcoll_status_t status = check_ready(reducer, number, &grad);
    struct symc_param *param;
    bool sync;

    if (status != SYMMCOLL_OK)
        return keep_refusal(reducer, status);
    if (reducer->failure != SYMMCOLL_OK)
        return symc_repeat_failure(reducer);
    param = &reducer->params[number];
    sync = reducer->backward == SYMC_BACKWARD_SYNC;
    status = symc_keep_stream(reducer);
    if (status == SYMMCOLL_OK)
        status = take_gradient(reducer, param, grad, sync);
    param->marked = true;
    if (status != SYMMCOLL_OK)
        return symc_keep_failure(reducer, -1, status, symmcoll_last_error());
    if (!sync)
        return SYMMCOLL_OK;
    reducer->arrival[reducer->narrived++] = number;
    reducer->layout.buckets[param->bucket].pending--;
    status = symc_launch_buckets(reducer);
    symc_poll_buckets(reducer);
    return status;
}

/*
 * Complete the buckets with the parameters that were not marked.  They are
 * ordered last, in backward's usual order.
 */
static symmcoll_status_t complete_buckets(struct symmcoll_reducer *reducer)
{
    for (int i = reducer->nparams - 1; i >= 0; i--) {
        struct symc_param *param = &reducer->params[i];

        if (!param->marked) {
            symmcoll_status_t status = take_nothing(reducer, param);

            if (status != SYMMCOLL_OK)
                return symc_keep_failure(
                    reducer, -1, status, symmcoll_last_error());
            reducer->arrival[reducer->narrived++] = i;
            reducer->layout.buckets[param->bucket].pending--;
        }
        /* The average over all ranks, even where this one contributed zeros. */
        param->has_accumulated = !reducer->write_back;
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_reducer_finish(struct symmcoll_reducer *reducer)
{
    symmcoll_status_t status;

    if (reducer == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_finish: expected a reducer, found NULL");
    if (reducer->backward == SYMC_BACKWARD_NONE)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "reducer_finish: no backward has begun");
    if (reducer->backward == SYMC_BACKWARD_LOCAL) {
        reducer->backward = SYMC_BACKWARD_NONE;
        return reducer->failure != SYMMCOLL_OK ? symc_repeat_failure(reducer)
                                               : report_refusal(reducer);
    }
    symc_refuse_unplaced(reducer);
    status = symc_keep_stream(reducer);
    symc_times_note(reducer, SYMC_MOMENT_FINISH);
    if (status != SYMMCOLL_OK)
        symc_keep_failure(reducer, -1, status, symmcoll_last_error());
    if (reducer->failure == SYMMCOLL_OK &&
        complete_buckets(reducer) == SYMMCOLL_OK) {
        symc_launch_buckets(reducer);
        symc_poll_buckets(reducer);
    }
    /* When some bucket failed, those before it still have to end. */
    status = symc_drain_buckets(reducer, reducer->write_back);
    if (reducer->done < reducer->launched)
        reducer->done_ns = symc_now_ns();
    reducer->backward = SYMC_BACKWARD_NONE;
    if (status != SYMMCOLL_OK)
        return status;
    symc_times_note(reducer, SYMC_MOMENT_END);
    if (reducer->rebuild == SYMC_REBUILD_LATER)
        reducer->rebuild = SYMC_REBUILD_DUE;
    return report_refusal(reducer);
}
