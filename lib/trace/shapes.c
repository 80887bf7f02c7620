/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffer shapes of an operation, from its recorded kind, counts and root.
 */
#include "trace/shapes.h"

#include <string.h>

static uint64_t multiply_or_most(uint64_t a, uint64_t b)
{
    uint64_t product;

    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static struct symc_trace_side alike(uint64_t lists, uint64_t elements)
{
    return (struct symc_trace_side){.lists = lists, .elements = elements};
}

/* Returns one side of an operation with uneven parts. For parts that differ
 * only their sum is recorded. */
static struct symc_trace_side find_uneven(const struct symc_trace_copy *entry,
    unsigned int parts, uint32_t size, uint64_t total)
{
    uint64_t elements = total & ~SYMC_TRACE_UNLIKE;

    if (parts != SYMC_ALL_PARTS || size == 0 || elements != total ||
        !symc_kind_has((enum symc_kind)entry->kind, SYMC_LIST))
        return alike(1, elements);
    return alike(size, elements / size);
}

/* Returns one side of an operation on several buffers. counts NULL:
 * overwritten. */
static struct symc_trace_side find_coalesced(
    const struct symc_trace_copy *entry, unsigned int parts,
    const struct symc_trace_group_copy *group, const uint64_t *counts)
{
    uint64_t size = parts == SYMC_ALL_PARTS ? group->size : 1;
    uint64_t lists = entry->root > 0 ? (uint64_t)entry->root : 0;
    struct symc_trace_side shapes = alike(lists, entry->count);

    if (counts == NULL)
        return alike(1, multiply_or_most(entry->count, size));
    if (lists > SYMC_TRACE_COUNTS)
        shapes.lists = SYMC_TRACE_COUNTS + 1;
    shapes.parts = size;
    shapes.counted = true;
    memcpy(shapes.counts, counts, sizeof(shapes.counts));
    return shapes;
}

/* Returns one side of any other operation. A barrier has the shape of
 * torch.distributed's, an all_reduce of one element. */
static struct symc_trace_side find_even(const struct symc_trace_copy *entry,
    unsigned int parts, const struct symc_trace_group_copy *group)
{
    bool is_root = entry->root == group->rank;

    if (symc_kind_has((enum symc_kind)entry->kind, SYMC_PAIR))
        return alike(1, entry->count); /* sender and receiver record both */
    if (parts == SYMC_ALL_PARTS &&
        symc_kind_has((enum symc_kind)entry->kind, SYMC_LIST))
        return alike(is_root ? group->size : 0, entry->count);
    if (parts == SYMC_NO_PART)
        return alike(1, 1);
    if (parts == SYMC_ONE_PART)
        return alike(1, entry->count);
    return alike(1, multiply_or_most(entry->count, group->size));
}

void symc_trace_find_sides(const struct symc_trace_view *view,
    const struct symc_trace_copy *entry,
    const struct symc_trace_group_copy *group, struct symc_trace_side *input,
    struct symc_trace_side *output)
{
    const struct symc_kind_info *info = &symc_kinds[entry->kind];
    uint64_t counts[SYMC_TRACE_COUNTS] = {0};

    if (symc_kind_has((enum symc_kind)entry->kind, SYMC_COALESCED)) {
        const uint64_t *kept =
            symc_trace_view_counts(view, entry, counts) ? counts : NULL;

        *input = find_coalesced(entry, info->in_parts, group, kept);
        *output = find_coalesced(entry, info->out_parts, group, kept);
    } else if (symc_kind_has((enum symc_kind)entry->kind, SYMC_UNEVEN)) {
        *input = find_uneven(entry, info->in_parts, group->size, entry->count);
        *output =
            find_uneven(entry, info->out_parts, group->size, entry->out_count);
    } else {
        *input = find_even(entry, info->in_parts, group);
        *output = find_even(entry, info->out_parts, group);
    }
}

uint64_t symc_trace_find_elements(
    const struct symc_trace_side *shapes, uint64_t index)
{
    uint64_t left = shapes->elements;

    if (!shapes->counted)
        return shapes->elements;
    if (index < SYMC_TRACE_COUNTS)
        return multiply_or_most(shapes->counts[index], shapes->parts);
    for (int i = 0; i < SYMC_TRACE_COUNTS; i++)
        left -= shapes->counts[i] < left ? shapes->counts[i] : left;
    return multiply_or_most(left, shapes->parts);
}
