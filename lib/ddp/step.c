/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One backward: begin and finish.  What comes between them is in ready.c.
 */
#include "ddp/reducer.h"

#include "base/cancel.h"

#include <stdio.h>
#include <string.h>

/* Returns whether a parameter has no gradient in this pass. */
static bool is_missing(const struct symmcoll_reducer *reducer, int number)
{
    const struct symc_number *entry = &reducer->numbers[number];

    return !entry->skipped && entry->came < entry->wanted;
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

        if (symc_numbers_list(reducer, is_missing, missing, sizeof(missing)))
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
    if (status == SYMMCOLL_OK && sync)
        status = symc_used_begin(reducer);
    if (reducer->rebuild == SYMC_REBUILD_DUE) {
        status = symc_rebuild_buckets(reducer, status);
        if (status == SYMMCOLL_OK)
            reducer->rebuild = SYMC_REBUILD_DONE;
    }
    if (status != SYMMCOLL_OK)
        return status;
    for (int i = 0; i < reducer->nnumbers; i++) {
        reducer->numbers[i].came = 0;
        reducer->numbers[i].skipped = false;
    }
    for (int i = 0; i < reducer->nparams; i++)
        reducer->params[i].came = false;
    symc_graph_begin(reducer);
    for (int b = 0; b < reducer->layout.nbuckets; b++) {
        reducer->layout.buckets[b].pending = reducer->layout.buckets[b].ngrads;
        reducer->layout.buckets[b].failed = false;
    }
    reducer->has_begun = true;
    reducer->backward = sync ? SYMC_BACKWARD_SYNC : SYMC_BACKWARD_LOCAL;
    reducer->launched = 0;
    reducer->done = 0;
    reducer->narrived = 0;
    reducer->failure = SYMMCOLL_OK;
    reducer->refusal = SYMMCOLL_OK;
    reducer->done_ns = 0;
    if (sync)
        symc_times_note(reducer, SYMC_MOMENT_BEGIN);
    /* No gradient of these comes; an error is a failure of the pass. */
    for (int i = reducer->nparams - 1; sync && i >= 0; i--)
        if (reducer->params[i].left == 0)
            (void)symc_complete_param(reducer, &reducer->params[i]);
    return SYMMCOLL_OK;
}

/*
 * Complete the buckets with the parameters that were not marked.  They are
 * ordered last, in backward's usual order.
 */
static symmcoll_status_t complete_buckets(struct symmcoll_reducer *reducer)
{
    for (int i = reducer->nparams - 1; i >= 0; i--) {
        struct symc_param *param = &reducer->params[i];

        if (param->left > 0) {
            symmcoll_status_t status = symc_complete_param(reducer, param);

            if (status != SYMMCOLL_OK)
                return status;
        }
        /* The average over all ranks, even where this one contributed zeros. */
        param->has_accumulated = !reducer->write_back;
    }
    return SYMMCOLL_OK;
}

/* Completes and starts all buckets. A call of ready that comes too late waits for that,
 * and is refused. */
static void launch_rest(struct symmcoll_reducer *reducer)
{
    int cancel = symc_cancel_disable();

    pthread_mutex_lock(&reducer->lock);
    if (reducer->failure == SYMMCOLL_OK &&
        complete_buckets(reducer) == SYMMCOLL_OK) {
        symc_launch_buckets(reducer);
        symc_poll_buckets(reducer);
    }
    pthread_mutex_unlock(&reducer->lock);
    symc_cancel_restore(cancel);
}

/* Takes what the first pass decides for later ones: the graph, and that buckets are
 * rebuilt. */
static void take_first(struct symmcoll_reducer *reducer)
{
    symc_graph_take(reducer);
    if (reducer->rebuild == SYMC_REBUILD_LATER)
        reducer->rebuild = SYMC_REBUILD_DUE;
}

symmcoll_status_t symmcoll_reducer_finish(struct symmcoll_reducer *reducer)
{
    symmcoll_status_t status;
    bool started;

    if (reducer == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_finish: expected a reducer, found NULL");
    if (reducer->backward == SYMC_BACKWARD_NONE)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "reducer_finish: no backward has begun");
    if (reducer->backward == SYMC_BACKWARD_LOCAL) {
        reducer->backward = SYMC_BACKWARD_NONE;
        return reducer->failure != SYMMCOLL_OK ? symc_repeat_failure(reducer)
                                               : symc_report_refusal(reducer);
    }
    symc_graph_refuse_change(reducer);
    status = symc_keep_stream(reducer);
    symc_times_note(reducer, SYMC_MOMENT_FINISH);
    if (status != SYMMCOLL_OK)
        symc_keep_failure(reducer, -1, status, symmcoll_last_error());
    launch_rest(reducer);
    (void)symc_used_await(reducer);
    started = reducer->failure == SYMMCOLL_OK;
    symc_refuse_unplaced(reducer);
    symc_end_hooks(reducer);
    /* When some bucket failed, those before it still have to end. */
    status = symc_drain_buckets(reducer, reducer->write_back);
    if (status == SYMMCOLL_OK && reducer->used != NULL)
        status = symc_used_restore(reducer);
    if (reducer->done < reducer->launched)
        reducer->done_ns = symc_now_ns();
    reducer->backward = SYMC_BACKWARD_NONE;
    /* What has failed on this rank alone has not on the others, which do the same. */
    if (started && symc_buckets_ended_well(reducer))
        take_first(reducer);
    if (status != SYMMCOLL_OK)
        return status;
    symc_times_note(reducer, SYMC_MOMENT_END);
    reducer->npasses++;
    return symc_report_refusal(reducer);
}
