/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records the errors of a backward.  After the first failure this rank starts
 * no more reductions.  After a refusal the backward goes on without the refused
 * call.
 */
#include "ddp/reducer.h"

#include <stdarg.h>
#include <stdio.h>

symmcoll_status_t symc_hook_status(
    symmcoll_status_t status, uint64_t errors, const char *name)
{
    return status == SYMMCOLL_OK || symc_error_count() != errors
               ? status
               : symc_fail(status, "the program's %s returned %s", name,
                     symmcoll_status_name(status));
}

symmcoll_status_t symc_keep_failure(
    struct symmcoll_reducer *reducer, int bucket, symmcoll_status_t status)
{
    if (reducer->failure.status != SYMMCOLL_OK)
        return status;
    if (bucket < 0)
        (void)symc_error_prefix(status, "reducer");
    else
        (void)symc_error_prefix(status, "reducer: bucket %d of %d", bucket,
            reducer->layout.nbuckets);
    symc_error_keep(&reducer->failure, status);
    return status;
}

symmcoll_status_t symc_repeat_failure(const struct symmcoll_reducer *reducer)
{
    return symc_error_return(&reducer->failure);
}

symmcoll_status_t symc_keep_refusal(struct symmcoll_reducer *reducer,
    symmcoll_status_t status, const char *format, ...)
{
    va_list args;

    if (reducer->backward == SYMC_BACKWARD_NONE ||
        reducer->refusal.status != SYMMCOLL_OK)
        return status;
    reducer->refusal = (struct symc_error){.status = status};
    va_start(args, format);
    vsnprintf(
        reducer->refusal.detail, sizeof(reducer->refusal.detail), format, args);
    va_end(args);
    return status;
}

symmcoll_status_t symc_report_refusal(const struct symmcoll_reducer *reducer)
{
    return reducer->refusal.status == SYMMCOLL_OK
               ? SYMMCOLL_OK
               : symc_error_prefix(
                     symc_error_return(&reducer->refusal), "reducer_finish");
}
