/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of the collectives.
 */
#include "base/op.h"

const char *symc_kind_name(enum symc_kind kind)
{
    switch (kind) {
    case SYMC_BARRIER:
        return "barrier";
    case SYMC_ALL_REDUCE:
        return "all_reduce";
    case SYMC_REDUCE:
        return "reduce";
    case SYMC_REDUCE_SCATTER:
        return "reduce_scatter";
    case SYMC_ALL_GATHER:
        return "all_gather";
    case SYMC_GATHER:
        return "gather";
    case SYMC_BROADCAST:
        return "broadcast";
    case SYMC_KIND_COUNT:
        break;
    }
    return "unknown";
}
