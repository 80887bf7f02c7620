/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The placement of an operation's buffers in the group's symmetric memory on
 * devices.  Each member knows its own placement; for some kinds it is part of
 * the members' comparison, so that all know whether it is equal.
 */
#ifndef SYMC_BACKEND_PLACEMENT_H
#define SYMC_BACKEND_PLACEMENT_H

#include "backend/backend.h"

/* Returns whether an operation's placement is compared: libraries may run these
 * kinds differently if the buffers of all members are at the same offset of
 * memory that is registered with them. */
static inline bool symc_is_placed(const struct symc_op *op)
{
    return op->memory != SYMC_MEMORY_HOST && !op->listed &&
           (op->kind == SYMC_ALL_REDUCE || op->kind == SYMC_REDUCE_SCATTER ||
               op->kind == SYMC_ALL_GATHER || op->kind == SYMC_ALL_TO_ALL);
}

/* Returns this rank's placement of an operation in a group of size ranks. */
static inline struct symc_placement symc_placement_of(
    const struct symc_core *core, const struct symc_op *op, int size)
{
    const struct symc_kind_info *info = &core->kinds[op->kind];
    const size_t nbytes = op->count * op->elem;
    const struct symc_shared *shared;
    struct symc_placement found = {.in = 0};
    size_t at = 0;

    shared = symc_shared_find(core->shared, op->in,
        nbytes * symc_parts_count(info->in_parts, size), &at);
    if (shared != NULL) {
        found.in = shared->number;
        found.in_at = at;
    }
    shared = symc_shared_find(core->shared, op->out,
        nbytes * symc_parts_count(info->out_parts, size), &at);
    if (shared != NULL) {
        found.out = shared->number;
        found.out_at = at;
    }
    return found;
}

#endif
