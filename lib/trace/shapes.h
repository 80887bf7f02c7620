/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shapes that a dump tells of an operation's buffers.
 */
#ifndef SYMC_TRACE_SHAPES_H
#define SYMC_TRACE_SHAPES_H

#include "trace/view.h"

/* One side of an operation: `lists` of one number each, which is `elements`; or
 * of several buffers, parts * counts[], and what is left of `elements` in one
 * more, where there are more buffers than counts. */
struct symc_trace_side {
    uint64_t lists;
    uint64_t elements;
    uint64_t parts;
    bool counted; /* false: they are alike */
    uint64_t counts[SYMC_TRACE_COUNTS];
};

/* What goes into the operation of an entry of that group, and what comes out. */
void symc_trace_find_sides(const struct symc_trace_view *view,
    const struct symc_trace_copy *entry,
    const struct symc_trace_group_copy *group, struct symc_trace_side *input,
    struct symc_trace_side *output);

/* Elements of one of the lists. */
uint64_t symc_trace_find_elements(
    const struct symc_trace_side *shapes, uint64_t index);

#endif
