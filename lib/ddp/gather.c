/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gathers the parameters that ranks have updated in slices, bucket by bucket,
 * and waits for one of them.
 */
#include "ddp/reducer.h"

/* Checks a call of gather on this rank, and waits for the one before. */
static symmcoll_status_t prepare_gather(struct symmcoll_reducer *reducer)
{
    symmcoll_status_t status;

    for (int i = 0; i < reducer->nparams && !reducer->averaged; i++)
        if (reducer->params[i].has_accumulated)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "reducer_gather: expected averages, found gradients that a pass "
                "without sync has accumulated");
    status = symc_settle_buckets(reducer, "reducer_gather");
    if (status == SYMMCOLL_OK)
        status = symc_take_stream(reducer, "reducer_gather");
    if (status == SYMMCOLL_OK && reducer->captured)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "reducer_gather: expected a stream that is not captured, found it "
            "is");
    return status;
}

symmcoll_status_t symmcoll_reducer_gather(struct symmcoll_reducer *reducer)
{
    symmcoll_status_t status = symc_shard_check(reducer, "reducer_gather");

    if (status != SYMMCOLL_OK)
        return status;
    if (reducer->backward != SYMC_BACKWARD_NONE || reducer->unmoved)
        return symc_refuse_unfinished(reducer, "reducer_gather");
    status = prepare_gather(reducer);
    if (status != SYMMCOLL_OK)
        return status;
    symc_drop_gradients(reducer);
    reducer->gathered = true;
    /* The first parameters, which forward uses first, are in the last bucket. */
    for (int b = reducer->layout.nbuckets - 1; b >= 0; b--) {
        status = symc_shard_gather(reducer, &reducer->layout.buckets[b]);
        if (status != SYMMCOLL_OK)
            return symc_error_prefix(status, "reducer_gather: bucket %d of %d",
                b, reducer->layout.nbuckets);
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_reducer_gather_wait(
    struct symmcoll_reducer *reducer, int number)
{
    const char *where = "reducer_gather_wait";
    symmcoll_status_t status = symc_shard_check(reducer, where);
    int index;

    if (status == SYMMCOLL_OK)
        status = symc_number_check(reducer, where, number);
    if (status != SYMMCOLL_OK)
        return status;
    if (reducer->unmoved)
        return symc_refuse_unfinished(reducer, where);
    /* begin has waited for all. */
    if (reducer->backward != SYMC_BACKWARD_NONE)
        return SYMMCOLL_OK;
    index = symc_number_param(reducer, number)->bucket;
    status = symc_await_bucket(reducer, &reducer->layout.buckets[index]);
    return status == SYMMCOLL_OK
               ? status
               : symc_error_prefix(status, "%s: bucket %d of %d", where, index,
                     reducer->layout.nbuckets);
}
