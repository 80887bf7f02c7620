/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shares the failure of one rank where all ranks go on together or not at all:
 * every rank returns the error of the lowest rank that failed.
 */
#include "ddp/reducer.h"
#include "group/group.h"

#include <symmcoll/collectives.h>
#include <symmcoll/group.h>

#include <stdio.h>

/* Makes an open coalescing region of the thread refuse the collective.  The
 * region would otherwise run it at its end, when the buffers here have been
 * released. */
static const struct symmcoll_call outside = SYMMCOLL_CALL_INIT;

/* Broadcasts the error of a rank that all ranks know to have failed, and
 * returns it. */
static symmcoll_status_t broadcast_failure(
    const struct symmcoll_reducer *reducer, int rank, symmcoll_status_t own)
{
    struct {
        int64_t status;
        char detail[SYMC_DETAIL_MAX];
    } message = {.status = own};
    symmcoll_status_t status;

    if (own != SYMMCOLL_OK)
        snprintf(message.detail, sizeof(message.detail), "%s",
            symmcoll_last_error());
    status = symmcoll_broadcast(reducer->group, &message, sizeof(message),
        SYMMCOLL_UINT8, rank, &outside, NULL);
    if (status != SYMMCOLL_OK)
        return status;
    message.detail[sizeof(message.detail) - 1] = '\0';
    (void)symc_fail((symmcoll_status_t)message.status, "reducer: rank %d: %s",
        rank, message.detail);
    return symc_error_add_reporter(symc_group_ranks(reducer->group), rank);
}

symmcoll_status_t symc_share_failure(
    const struct symmcoll_reducer *reducer, symmcoll_status_t own)
{
    /* The minimum is that of the lowest rank that failed, or 0. */
    int64_t number = own == SYMMCOLL_OK
                         ? 0
                         : symmcoll_group_rank(reducer->group) - reducer->size;
    struct symc_error error;
    symmcoll_status_t status;

    symc_error_keep(&error, own);
    status = symmcoll_all_reduce(reducer->group, &number, &number, 1,
        SYMMCOLL_INT64, SYMMCOLL_MIN, &outside, NULL);
    (void)symc_error_return(&error);
    if (status != SYMMCOLL_OK || number == 0)
        return own != SYMMCOLL_OK ? own : status;
    return broadcast_failure(reducer, (int)number + reducer->size, own);
}
