/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls hook_end, and sets a reducer's hooks.  finish calls hook_end for each
 * bucket when its work has ended; hook_end may start another work.  Calls are
 * made in rounds, in the order of buckets, so that all ranks start the same
 * works in the same order.
 */
#include "ddp/reducer.h"

#include "base/cancel.h"

#include <symmcoll/work.h>

/* Calls hook_end for a bucket that has been awaited, and takes the work that it
 * starts. */
static symmcoll_status_t call_end(
    struct symmcoll_reducer *reducer, int index, int round)
{
    struct symc_ddp_bucket *bucket = &reducer->layout.buckets[index];
    struct symmcoll_bucket seen = symc_describe_bucket(reducer, index);
    struct symmcoll_work *work = NULL;
    uint64_t errors = symc_error_count();
    symmcoll_status_t status;
    int cancel;

    seen.reducer = reducer;
    seen.round = round;
    bucket->stream = symc_site_stream(reducer->site);
    cancel = symc_cancel_disable();
    status = reducer->hook_end(reducer->group, &seen, reducer->hook_arg, &work);
    symc_cancel_restore(cancel);
    if (work != NULL) {
        symmcoll_work_free(bucket->work);
        bucket->work = work;
        bucket->awaited = false;
    }
    bucket->goes_on = work != NULL;
    return symc_hook_status(status, errors, "hook_end");
}

/* Runs one round of calls.  goes_on (out): whether a call has started another
 * work. */
static symmcoll_status_t run_round(
    struct symmcoll_reducer *reducer, int round, bool *goes_on)
{
    *goes_on = false;
    for (int b = 0; b < reducer->layout.nbuckets; b++) {
        struct symc_ddp_bucket *bucket = &reducer->layout.buckets[b];
        symmcoll_status_t status;

        if (round > 0 && !bucket->goes_on)
            continue;
        status = symc_await_bucket(reducer, bucket);
        if (status == SYMMCOLL_OK)
            status = call_end(reducer, b, round);
        if (status != SYMMCOLL_OK)
            return symc_keep_failure(reducer, b, status);
        *goes_on = *goes_on || bucket->goes_on;
    }
    return SYMMCOLL_OK;
}

void symc_end_hooks(struct symmcoll_reducer *reducer)
{
    bool goes_on = reducer->hook_end != NULL;

    for (int round = 0; goes_on && reducer->failure.status == SYMMCOLL_OK;
         round++) {
        if (run_round(reducer, round, &goes_on) != SYMMCOLL_OK)
            return;
        /* Works that hook_end starts count as communication. */
        reducer->done_ns = symc_now_ns();
    }
}

/* ---- setting the hook ---- */

double symc_hook_factor(const struct symmcoll_reducer *reducer, int n)
{
    return reducer->hook != NULL ? 1.0 : 1.0 / n;
}

void symc_hook_use(struct symmcoll_reducer *reducer, symmcoll_bucket_fn hook,
    symmcoll_bucket_fn hook_end, void *arg)
{
    reducer->hook = hook;
    reducer->hook_end = hook_end;
    reducer->hook_arg = arg;
    reducer->packs = symc_hook_packs(hook, arg);
    reducer->factor = symc_hook_factor(reducer, reducer->size);
}

symmcoll_status_t symmcoll_reducer_set_hook(struct symmcoll_reducer *reducer,
    symmcoll_bucket_fn hook, symmcoll_bucket_fn hook_end, void *arg)
{
    symmcoll_status_t own = SYMMCOLL_OK, status;

    if (reducer == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_set_hook: expected a reducer, found NULL");
    if (hook == NULL)
        own = symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_set_hook: expected a hook, found NULL");
    else if (reducer->hook != NULL)
        own = symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_set_hook: expected a reducer without a hook, found it has "
            "one");
    else if (reducer->shard)
        own = symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_set_hook: expected a reducer without shard, found one with "
            "it");
    else if (reducer->has_begun)
        own = symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_set_hook: expected a reducer before its first backward, "
            "found it has begun one");
    else if (reducer->join != NULL)
        own = symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_set_hook: expected a reducer in no join, found it in one");
    if (own == SYMMCOLL_OK)
        symc_hook_use(reducer, hook, hook_end, arg);
    status = symc_compare_options(reducer, own);
    if (own == SYMMCOLL_OK && status != SYMMCOLL_OK)
        symc_hook_use(reducer, NULL, NULL, NULL);
    return status;
}
