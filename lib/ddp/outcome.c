/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records the errors of a backward.  After the first failure this rank starts
 * no more reductions.  After a refusal the backward goes on without the refused
 * call.
 */
#include "ddp/reducer.h"

#include <stdarg.h>
#include <stdio.h>

symmcoll_status_t symc_keep_failure(struct symmcoll_reducer *reducer,
    int bucket, symmcoll_status_t status, const char *detail)
{
    if (reducer->failure != SYMMCOLL_OK)
        return status;
    if (bucket < 0)
        symc_fail(status, "reducer: %s", detail);
    else
        symc_fail(status, "reducer: bucket %d of %d: %s", bucket,
            reducer->layout.nbuckets, detail);
    reducer->failure = status;
    snprintf(reducer->failure_detail, sizeof(reducer->failure_detail), "%s",
        symmcoll_last_error());
    return status;
}

symmcoll_status_t symc_repeat_failure(const struct symmcoll_reducer *reducer)
{
    return symc_fail(reducer->failure, "%s", reducer->failure_detail);
}

symmcoll_status_t symc_keep_refusal(struct symmcoll_reducer *reducer,
    symmcoll_status_t status, const char *format, ...)
{
    va_list args;

    if (reducer->backward == SYMC_BACKWARD_NONE ||
        reducer->refusal != SYMMCOLL_OK)
        return status;
    reducer->refusal = status;
    va_start(args, format);
    vsnprintf(
        reducer->refusal_detail, sizeof(reducer->refusal_detail), format, args);
    va_end(args);
    return status;
}

symmcoll_status_t symc_report_refusal(const struct symmcoll_reducer *reducer)
{
    if (reducer->refusal == SYMMCOLL_OK)
        return SYMMCOLL_OK;
    return symc_fail(
        reducer->refusal, "reducer_finish: %s", reducer->refusal_detail);
}
