/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * errors.nan_check: the data that an operation sends is searched before the
 * other ranks see the operation. Device memory is searched by its backend, if
 * that can.
 */
#include "base/nan.h"
#include "coll/coll.h"

#include <stdio.h>

/* Searches one range of the data; part: its index in a list, or -1. */
static symmcoll_status_t inspect(struct symmcoll_group *group,
    const struct symc_op *op, const void *at, size_t count, int part)
{
    struct symmcoll_world *world = symc_group_world(group);
    size_t first = 0;
    size_t found = count > 0 ? symc_nan_count(at, count, op->dtype, &first) : 0;
    char text[SYMC_OP_TEXT], which[32] = "in", who[SYMC_RANK_TEXT];
    const char *plural = found == 1 ? " is" : "s are";

    if (found == 0)
        return SYMMCOLL_OK;
    symc_op_format(op->kind, 0, op->label, text, sizeof(text));
    symc_format_rank(
        symc_group_ranks(group), symc_group_rank(group), SYMC_NO_PID, who);
    if (part >= 0)
        snprintf(which, sizeof(which), "ins[%d]", part);
    if (world->config->errors_nan_check == SYMC_NAN_CHECK_ERROR)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s of group %s: %s: expected numbers, found element %zu of %s NaN "
            "(%zu element%s, of %zu)",
            text, symc_group_name(group), who, first, which, found, plural,
            count);
    symc_logf(&world->log, SYMC_LOG_WARN,
        "%s of group %s: %s: element %zu of %s is NaN (%zu element%s, of %zu)",
        text, symc_group_name(group), who, first, which, found, plural, count);
    return SYMMCOLL_OK;
}

/* Warns, once per world, of data that is not searched although the setting
 * requires it. */
static void tell_unsearched(
    struct symmcoll_group *group, const struct symc_op *op)
{
    struct symmcoll_world *world = symc_group_world(group);
    char text[SYMC_OP_TEXT], who[SYMC_RANK_TEXT];

    if (atomic_exchange(&world->warned_unsearched, true))
        return;
    symc_op_format(op->kind, 0, op->label, text, sizeof(text));
    symc_format_rank(
        symc_group_ranks(group), symc_group_rank(group), SYMC_NO_PID, who);
    symc_logf(&world->log, SYMC_LOG_WARN,
        "%s of group %s: %s: errors.nan_check: expected host memory, found %s, "
        "in which nothing is searched, now and later",
        text, symc_group_name(group), who, symc_memory_name(op->memory));
}

/* Returns whether the backend searches the data when it runs the operation. */
static bool is_searched_later(
    struct symmcoll_group *group, const struct symc_op *op)
{
    const struct symc_registry *registry = &symc_group_world(group)->registry;
    const struct symc_backend *open;

    if (symc_kind_has(op->kind, SYMC_PAIR))
        return false; /* no backend runs it */
    open = symc_slot_backend(symc_group_runner(group), op->memory);
    if (open != NULL)
        return open->device->searches;
    for (int i = 0; i < registry->count; i++) {
        const struct symc_backend *backend = registry->backends[i];

        if (backend->memory == op->memory && backend->device != NULL)
            return backend->device->searches;
    }
    return false;
}

symmcoll_status_t symc_coll_inspect(
    struct symmcoll_group *group, const struct symc_op *op)
{
    const struct symc_lists *lists = op->listed ? op->lists : NULL;
    bool sends = symc_kinds[op->kind].in_parts != SYMC_NO_PART &&
                 symc_kind_sends(op->kind, op->root == symc_group_rank(group));
    symmcoll_status_t status = SYMMCOLL_OK;

    if (symc_group_config(group)->errors_nan_check == SYMC_NAN_CHECK_OFF ||
        !sends)
        return SYMMCOLL_OK;
    if (op->memory != SYMC_MEMORY_HOST) {
        if (!is_searched_later(group, op))
            tell_unsearched(group, op);
        return SYMMCOLL_OK;
    }
    if (lists == NULL)
        return inspect(group, op, op->in,
            symc_op_in_nbytes(op, symc_group_size(group)) / op->elem, -1);
    if (lists->ins == NULL)
        return inspect(group, op, op->in, lists->in_total, -1);
    for (int r = 0; r < symc_group_size(group) && status == SYMMCOLL_OK; r++)
        status = inspect(group, op, lists->ins[r], symc_op_in_count(op, r), r);
    return status;
}
