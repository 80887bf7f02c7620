/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts the communication of buckets, and waits for it.
 *
 * Buckets start in the order of their index, on every rank, in whatever order
 * the gradients come; a bucket that is ready early waits for those before it.
 */
#include "ddp/reducer.h"

#include "base/cancel.h"

#include <symmcoll/collectives.h>
#include <symmcoll/work.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- start of buckets ---- */

/* Calls the program's hook, with thread cancellation disabled, since the hook
 * may contain cancellation points. */
static symmcoll_status_t call_hook(struct symmcoll_reducer *reducer,
    struct symc_ddp_bucket *bucket, const struct symmcoll_bucket *seen)
{
    int cancel = symc_cancel_disable();
    uint64_t errors = symc_error_count();
    symmcoll_status_t status;

    bucket->packing = SYMC_PACKING_NONE;
    status =
        reducer->hook(reducer->group, seen, reducer->hook_arg, &bucket->work);
    symc_cancel_restore(cancel);
    return symc_hook_status(status, errors, "hook");
}

/* Starts the sum of a bucket, without a hook.  If it is captured there is no
 * work: the operation is part of the graph. */
static symmcoll_status_t reduce_bucket(
    struct symmcoll_reducer *reducer, struct symc_ddp_bucket *bucket)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    char label[SYMC_BUCKET_TEXT];

    call.label =
        symc_bucket_text((int)(bucket - reducer->layout.buckets), label);
    call.stream = bucket->stream;
    reducer->sent_nbytes += bucket->count * symmcoll_dtype_size(bucket->dtype);
    if (reducer->shard)
        return symc_shard_reduce(reducer, bucket, &call);
    return symmcoll_all_reduce(reducer->group, bucket->buffer, bucket->buffer,
        bucket->count, bucket->dtype, SYMMCOLL_SUM, &call,
        reducer->captured ? NULL : &bucket->work);
}

/* Starts the sums of used parameters if all buckets have been started. */
static symmcoll_status_t launch_used(struct symmcoll_reducer *reducer)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    if (reducer->launched == reducer->layout.nbuckets)
        status = symc_used_start(reducer);
    return status == SYMMCOLL_OK ? status
                                 : symc_keep_failure(reducer, -1, status);
}

symmcoll_status_t symc_launch_buckets(struct symmcoll_reducer *reducer)
{
    struct symc_layout *layout = &reducer->layout;

    while (reducer->launched < layout->nbuckets &&
           layout->buckets[reducer->launched].pending == 0) {
        int index = reducer->launched;
        struct symc_ddp_bucket *bucket = &layout->buckets[index];
        struct symmcoll_bucket seen = symc_describe_bucket(reducer, index);
        symmcoll_status_t status;

        seen.reducer = reducer;
        bucket->stream = symc_site_stream(reducer->site);
        if (index == 0) {
            symc_times_note(reducer, SYMC_MOMENT_LAUNCH);
            reducer->sent_nbytes = 0;
        }
        if (reducer->hook != NULL)
            status = call_hook(reducer, bucket, &seen);
        else
            status = reduce_bucket(reducer, bucket);
        if (status != SYMMCOLL_OK)
            return symc_keep_failure(reducer, index, status);
        reducer->launched++;
    }
    return launch_used(reducer);
}

void symc_poll_buckets(struct symmcoll_reducer *reducer)
{
    if (reducer->site != NULL)
        return;
    while (reducer->done < reducer->launched) {
        struct symmcoll_work *work =
            reducer->layout.buckets[reducer->done].work;

        if (work != NULL && symmcoll_work_test(work) == SYMMCOLL_IN_PROGRESS)
            return;
        reducer->done++;
        reducer->done_ns = symc_now_ns();
    }
}

/* ---- end of buckets ---- */

/* Takes the result of a bucket's work that has ended, or that its stream waits
 * for. */
static symmcoll_status_t take_result(
    const struct symmcoll_reducer *reducer, struct symc_ddp_bucket *bucket)
{
    symmcoll_status_t status = symc_unpack_bucket(reducer, bucket);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_follow_stream(reducer, bucket->stream);
    if (status != SYMMCOLL_OK || !bucket->gathers)
        return status;
    return symc_shard_spread(reducer, bucket);
}

symmcoll_status_t symc_await_bucket(
    const struct symmcoll_reducer *reducer, struct symc_ddp_bucket *bucket)
{
    symmcoll_status_t status;

    if (bucket->awaited ||
        (bucket->work == NULL && bucket->packing != SYMC_PACKING_DONE))
        return SYMMCOLL_OK;
    if (bucket->work != NULL) {
        status = symmcoll_work_wait(bucket->work, -1.0);
        bucket->failed = status != SYMMCOLL_OK;
        if (status != SYMMCOLL_OK)
            return status;
    }
    status = take_result(reducer, bucket);
    bucket->awaited = status == SYMMCOLL_OK && bucket->work != NULL;
    return status;
}

/* Returns whether a bucket's operation is in flight and neither the host nor a
 * stream waits for it, so that it may use the bucket's memory at any time. */
static bool is_loose(const struct symc_ddp_bucket *bucket)
{
    return bucket->work != NULL && !bucket->awaited &&
           symmcoll_work_test(bucket->work) == SYMMCOLL_IN_PROGRESS;
}

static void release_work(struct symc_ddp_bucket *bucket)
{
    symmcoll_work_free(bucket->work);
    bucket->work = NULL;
    bucket->awaited = false;
    bucket->gathers = false;
    bucket->packing = SYMC_PACKING_NONE;
}

symmcoll_status_t symc_drain_buckets(
    struct symmcoll_reducer *reducer, bool averages)
{
    /* A bucket that was not launched may have a work, too: of a hook that
     * failed after it started one. */
    for (int b = 0; b < reducer->layout.nbuckets; b++) {
        struct symc_ddp_bucket *bucket = &reducer->layout.buckets[b];
        symmcoll_status_t status = symc_await_bucket(reducer, bucket);

        if (status != SYMMCOLL_OK)
            symc_keep_failure(reducer, b, status);
        if (bucket->awaited ? reducer->site == NULL : !is_loose(bucket))
            release_work(bucket);
        if (averages)
            symc_return_averages(reducer, b);
    }
    return reducer->failure.status != SYMMCOLL_OK ? symc_repeat_failure(reducer)
                                                  : SYMMCOLL_OK;
}

bool symc_buckets_ended_well(const struct symmcoll_reducer *reducer)
{
    for (int b = 0; b < reducer->layout.nbuckets; b++)
        if (reducer->layout.buckets[b].failed)
            return false;
    return true;
}

symmcoll_status_t symc_settle_buckets(
    struct symmcoll_reducer *reducer, const char *where)
{
    struct symc_error failure = {.status = SYMMCOLL_OK};

    for (int b = 0; b < reducer->layout.nbuckets; b++) {
        struct symc_ddp_bucket *bucket = &reducer->layout.buckets[b];
        symmcoll_status_t status = symc_await_bucket(reducer, bucket);

        if (status == SYMMCOLL_OK && bucket->work != NULL)
            status = symmcoll_work_test(bucket->work);
        if (status < SYMMCOLL_OK && failure.status == SYMMCOLL_OK) {
            (void)symc_error_prefix(status,
                "%s: bucket %d of %d of the %s before", where, b,
                reducer->layout.nbuckets,
                bucket->gathers ? "gather" : "backward");
            symc_error_keep(&failure, status);
        }
        if (!is_loose(bucket))
            release_work(bucket);
    }
    return symc_error_return(&failure);
}

void symc_abandon_buckets(struct symmcoll_reducer *reducer)
{
    (void)symc_drain_buckets(reducer, false);
    for (int b = 0; b < reducer->layout.nbuckets; b++) {
        struct symc_ddp_bucket *bucket = &reducer->layout.buckets[b];

        /* No stream waits for the work, so the host does. */
        if (is_loose(bucket) &&
            symmcoll_work_wait(bucket->work, INFINITY) != SYMMCOLL_OK &&
            is_loose(bucket))
            bucket->buffer = bucket->packed = NULL;
        release_work(bucket);
    }
}
