/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A forward, and the begin and finish of a backward.  ready.c has the calls
 * between the two.
 */
#include "ddp/reducer.h"

#include "base/cancel.h"

#include <stdio.h>
#include <string.h>

/* Returns whether a number expects more gradients in this pass. */
static bool is_missing(const struct symmcoll_reducer *reducer, int number)
{
    const struct symc_number *entry = &reducer->numbers[number];

    return !entry->skipped && entry->came < entry->wanted;
}

/* Returns the error of symmcoll_reducer_zero(), which cannot return it, once. */
static symmcoll_status_t report_zeroing(struct symmcoll_reducer *reducer)
{
    symmcoll_status_t status = symc_error_return(&reducer->zeroing);

    reducer->zeroing.status = SYMMCOLL_OK;
    return status == SYMMCOLL_OK
               ? status
               : symc_error_prefix(status,
                     "reducer_begin: gradients have not been set to zero");
}

symmcoll_status_t symc_refuse_unfinished(
    const struct symmcoll_reducer *reducer, const char *where)
{
    char missing[SYMC_DETAIL_MAX / 2];

    if (reducer->unmoved)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected symmcoll_reducer_move() again after its error, found "
            "none",
            where);
    if (symc_numbers_list(reducer, is_missing, missing, sizeof(missing)))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: the backward before has not finished: no gradient of %s",
            where, missing);
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: the backward before has not finished: all gradients came, "
        "symmcoll_reducer_finish() did not",
        where);
}

symmcoll_status_t symc_forward(struct symmcoll_reducer *reducer, int sync)
{
    symmcoll_status_t status;
    /* An error of this rank alone leaves it in step with the others. */
    bool skips = reducer->buffers.skips;

    reducer->buffers.skips = sync == 0;
    if (skips || reducer->buffers.n == 0)
        return SYMMCOLL_OK;
    status = symc_take_stream(reducer, "reducer_forward");
    if (status != SYMMCOLL_OK)
        return status;
    return symc_buffers_send(
        reducer, reducer->join != NULL ? reducer->join->source : 0);
}

symmcoll_status_t symmcoll_reducer_forward(
    struct symmcoll_reducer *reducer, int sync)
{
    symmcoll_status_t status;

    if (reducer == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_forward: expected a reducer, found NULL");
    if (reducer->backward != SYMC_BACKWARD_NONE || reducer->unmoved)
        return symc_refuse_unfinished(reducer, "reducer_forward");
    status = symc_join_take_turn(reducer, SYMC_JOIN_FORWARD, sync);
    return status == SYMMCOLL_OK ? symc_forward(reducer, sync) : status;
}

/* Prepares this rank for a backward. */
static symmcoll_status_t prepare(struct symmcoll_reducer *reducer, int sync)
{
    symmcoll_status_t status = report_zeroing(reducer);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_settle_buckets(reducer, "reducer_begin");
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_take_stream(reducer, "reducer_begin");
    if (status == SYMMCOLL_OK && reducer->gathered)
        status = symc_layout_clear(reducer);
    if (status != SYMMCOLL_OK)
        return status;
    reducer->gathered = false;
    return sync ? symc_used_begin(reducer) : SYMMCOLL_OK;
}

symmcoll_status_t symc_begin(struct symmcoll_reducer *reducer, int sync)
{
    symmcoll_status_t status = prepare(reducer, sync);

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
    reducer->mixed = reducer->mixed || sync;
    reducer->averaged = reducer->averaged || (sync && reducer->shard);
    reducer->backward = sync ? SYMC_BACKWARD_SYNC : SYMC_BACKWARD_LOCAL;
    reducer->launched = 0;
    reducer->done = 0;
    reducer->narrived = 0;
    reducer->failure.status = SYMMCOLL_OK;
    reducer->refusal.status = SYMMCOLL_OK;
    reducer->done_ns = 0;
    if (sync)
        symc_times_note(reducer, SYMC_MOMENT_BEGIN);
    /* A static graph has no gradient of these; an error is recorded as a
     * failure. */
    for (int i = reducer->nparams - 1; sync && i >= 0; i--)
        if (reducer->params[i].left == 0)
            (void)symc_complete_param(reducer, &reducer->params[i]);
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_reducer_begin(
    struct symmcoll_reducer *reducer, int sync)
{
    symmcoll_status_t status;

    if (reducer == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_begin: expected a reducer, found NULL");
    if (reducer->backward != SYMC_BACKWARD_NONE || reducer->unmoved)
        return symc_refuse_unfinished(reducer, "reducer_begin");
    if (reducer->averaged)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_begin: with shard, expected symmcoll_reducer_gather() or "
            "symmcoll_reducer_zero() since the pass that synchronised, found "
            "neither");
    status = symc_join_take_turn(reducer, SYMC_JOIN_BEGIN, sync);
    return status == SYMMCOLL_OK ? symc_begin(reducer, sync) : status;
}

/*
 * Completes the parameters that lack gradients.  In the order of arrival they
 * are last, from the last parameter to the first, as a backward usually
 * computes them.
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
        /* The view gets the average over all ranks, even if this one
         * contributed zeros. */
        param->has_accumulated = !reducer->write_back;
    }
    return SYMMCOLL_OK;
}

/* Completes and starts all buckets.  A late call of ready waits for the lock,
 * and is then refused. */
static void launch_rest(struct symmcoll_reducer *reducer)
{
    int cancel = symc_cancel_disable();

    pthread_mutex_lock(&reducer->lock);
    if (reducer->failure.status == SYMMCOLL_OK &&
        complete_buckets(reducer) == SYMMCOLL_OK) {
        symc_launch_buckets(reducer);
        symc_poll_buckets(reducer);
    }
    pthread_mutex_unlock(&reducer->lock);
    symc_cancel_restore(cancel);
}

/* Applies the results of the first pass to later ones: the counts of a static
 * graph, and the rebuilding of buckets. */
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
        return reducer->failure.status != SYMMCOLL_OK
                   ? symc_repeat_failure(reducer)
                   : symc_report_refusal(reducer);
    }
    if (!reducer->shadows)
        symc_graph_refuse_change(reducer);
    status = symc_keep_stream(reducer);
    symc_times_note(reducer, SYMC_MOMENT_FINISH);
    if (status != SYMMCOLL_OK)
        symc_keep_failure(reducer, -1, status);
    launch_rest(reducer);
    (void)symc_used_await(reducer);
    started = reducer->failure.status == SYMMCOLL_OK;
    if (!reducer->shadows)
        symc_refuse_unplaced(reducer);
    symc_end_hooks(reducer);
    /* After a failure, too, the buckets in flight have to end. */
    status =
        symc_drain_buckets(reducer, reducer->write_back && !reducer->shadows);
    if (status == SYMMCOLL_OK && reducer->used != NULL)
        status = symc_used_restore(reducer);
    if (reducer->done < reducer->launched)
        reducer->done_ns = symc_now_ns();
    symc_hooks_leave(reducer);
    reducer->backward = SYMC_BACKWARD_NONE;
    /* The other ranks call take_first(), so a rank that failed alone does, too. */
    if (started && symc_buckets_ended_well(reducer))
        take_first(reducer);
    if (status != SYMMCOLL_OK)
        return status;
    symc_times_note(reducer, SYMC_MOMENT_END);
    reducer->npasses++;
    reducer->mixed = false;
    return symc_report_refusal(reducer);
}
