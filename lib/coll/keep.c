/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls in a region: each is compared with the calls that the region has, and
 * kept there.
 */
#include "coll/coll.h"
#include "group/region.h"

#include <string.h>

enum symc_kind symc_coll_coalesced_kind(enum symc_kind kind)
{
    switch (kind) {
    case SYMC_ALL_REDUCE:
        return SYMC_ALL_REDUCE_COALESCED;
    case SYMC_ALL_GATHER:
        return SYMC_ALL_GATHER_COALESCED;
    case SYMC_REDUCE_SCATTER:
        return SYMC_REDUCE_SCATTER_COALESCED;
    default:
        return (enum symc_kind)0;
    }
}

/* Checks that a call can be part of the region's operation, like the first
 * call. */
static symmcoll_status_t compare(
    const struct symc_op *first, const struct symc_op *op)
{
    const char *name = symc_kind_name(op->kind);
    char places[2][SYMC_MEMORY_TEXT];

    if (op->kind != first->kind)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %s, as called first in this region", name,
            symc_kind_name(first->kind));
    if (op->dtype != first->dtype)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %s, as passed first in this region, found %s", name,
            symmcoll_dtype_name(first->dtype), symmcoll_dtype_name(op->dtype));
    if (op->op != first->op)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %s, as passed first in this region, found %s", name,
            symmcoll_op_name(first->op), symmcoll_op_name(op->op));
    if (op->op == SYMMCOLL_PREMUL_SUM &&
        memcmp(&op->factor, &first->factor, sizeof(op->factor)) != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected the factor %g, as passed first in this region, found "
            "%g",
            name, first->factor, op->factor);
    /* A buffer without bytes has no place. */
    if (op->count > 0 && first->count > 0 &&
        (op->memory != first->memory || op->device != first->device))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a buffer in %s, as passed first in this region, found "
            "%s",
            name, symc_memory_format(first->memory, first->device, places[0]),
            symc_memory_format(op->memory, op->device, places[1]));
    return SYMMCOLL_OK;
}

/* Keeps an operation in the region of this thread. */
static symmcoll_status_t keep(struct symc_region *region,
    const struct symc_op *op, const struct symmcoll_call *call,
    struct symmcoll_work **work)
{
    const char *name = symc_kind_name(op->kind);
    symmcoll_status_t status = SYMMCOLL_OK;

    if (symc_coll_coalesced_kind(op->kind) == 0 || op->listed)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected all_reduce, all_gather or reduce_scatter of one "
            "buffer in a region",
            name);
    if (work != NULL || call != NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %s NULL in a region, which symmcoll_coalesce_end() "
            "is passed",
            name, work != NULL ? "work" : "call");
    if (region->n == SYMC_BUFFERS_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected at most %d calls in a region", name,
            SYMC_BUFFERS_MAX);
    if (region->n > 0)
        status = compare(&region->first, op);
    return status == SYMMCOLL_OK ? symc_region_add(region, op) : status;
}

bool symc_coll_in_region(const struct symmcoll_group *group)
{
    const struct symc_region *region = symc_region_current(group);

    return region != NULL && pthread_equal(region->owner, pthread_self());
}

bool symc_coll_keep(struct symmcoll_group *group, const struct symc_op *op,
    const struct symmcoll_call *call, struct symmcoll_work **work,
    symmcoll_status_t *status)
{
    struct symc_region *region = symc_region_current(group);

    if (region == NULL || !pthread_equal(region->owner, pthread_self()))
        return false;
    *status = keep(region, op, call, work);
    return true;
}
