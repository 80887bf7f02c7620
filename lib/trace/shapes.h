/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shapes of an operation's buffers, as a dump shows them.
 */
#ifndef SYMC_TRACE_SHAPES_H
#define SYMC_TRACE_SHAPES_H

#include "trace/view.h"

/* One side of an operation: `lists` shapes of `elements` each. If counted,
 * shape i is parts * counts[i], and a last shape has the rest of `elements` if
 * there are more buffers than counts. */
struct symc_trace_side {
    uint64_t lists;
    uint64_t elements;
    uint64_t parts;
    bool counted; /* the shapes are parts * counts[] */
    uint64_t counts[SYMC_TRACE_COUNTS];
};

/* Finds the shapes of an entry's input and output; group is the entry's. */
void symc_trace_find_sides(const struct symc_trace_view *view,
    const struct symc_trace_copy *entry,
    const struct symc_trace_group_copy *group, struct symc_trace_side *input,
    struct symc_trace_side *output);

/* Returns the number of elements of shape `index`. */
uint64_t symc_trace_find_elements(
    const struct symc_trace_side *shapes, uint64_t index);

#endif
