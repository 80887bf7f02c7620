/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * monitored_barrier.
 */
#include "coll/coll.h"

symmcoll_status_t symmcoll_monitored_barrier(struct symmcoll_group *group,
    uint32_t flags, const struct symmcoll_call *call, int *missing, int *count)
{
    struct symc_monitored monitored = {
        .wait_all = (flags & SYMMCOLL_MONITORED_WAIT_ALL) != 0,
        .missing = missing,
        .count = count};
    struct symc_op made = {.kind = SYMC_MONITORED_BARRIER,
        .dtype = SYMMCOLL_UINT8,
        .out = &monitored};
    int none = 0;

    if ((flags & ~(uint32_t)SYMMCOLL_MONITORED_WAIT_ALL) != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected flags of SYMMCOLL_MONITORED_WAIT_ALL or 0, found "
            "0x%x",
            symc_kind_name(made.kind), flags);
    if (count == NULL)
        monitored.count = &none;
    *monitored.count = 0;
    return symc_coll_issue(group, &made, call, NULL);
}
