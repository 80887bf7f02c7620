/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of operations with lists of buffers, or with a count per rank.
 */
#include "coll/coll.h"

#include <stdio.h>

/* One side of an operation: its input or its output. */
struct side {
    const char *name;        /* name of the buffer: "in" */
    bool parts;              /* one part per rank */
    const void *const *list; /* the parts; NULL: they are in one buffer */
    const void *buffer;      /* the one buffer */
    const size_t *counts;    /* counts of the parts; NULL: each has `count` */
    size_t count;            /* count of a part, or of a buffer without parts */
    size_t total;
    bool unlike;
};

/* Returns the number of separate ranges of a side. */
static int count_ranges(const struct side *side, int size)
{
    return side->list != NULL ? size : 1;
}

/* Returns one range of a side, and its bytes. */
static const char *range_at(
    const struct side *side, int index, size_t elem, size_t *nbytes)
{
    if (side->list == NULL) {
        *nbytes = side->total * elem;
        return side->buffer;
    }
    *nbytes = (side->counts != NULL ? side->counts[index] : side->count) * elem;
    return side->list[index];
}

/* Checks that a side with parts has a list, if its kind needs one. */
static symmcoll_status_t check_list(
    const struct symc_op *op, const struct side *side, int size)
{
    if (!side->parts || side->list != NULL ||
        !symc_kind_has(op->kind, SYMC_LIST))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected %ss, a list of %d buffers, found NULL",
        symc_kind_name(op->kind), side->name, size);
}

/* Checks that an all_to_all of lists has counts for both sides. */
static symmcoll_status_t check_counts(const struct symc_op *op)
{
    const struct symc_lists *lists = op->lists;

    if (op->kind != SYMC_ALL_TO_ALL_LIST ||
        (lists->out_counts != NULL && lists->in_counts != NULL))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID, "%s: expected %s_counts, found NULL",
        symc_kind_name(op->kind), lists->out_counts == NULL ? "out" : "in");
}

/* Adds up the counts, and compares the sum with the count of the one buffer. */
static symmcoll_status_t add_up(
    const struct symc_op *op, struct side *side, int size)
{
    size_t sum = 0;
    bool fits = true;

    if (!side->parts) {
        side->total = side->count;
        return SYMMCOLL_OK;
    }
    if (side->counts == NULL && side->list == NULL &&
        side->total % (size_t)size)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %s_splits, or a count of %s that %d ranks divide, "
            "found NULL and %zu",
            symc_kind_name(op->kind), side->name, side->name, size,
            side->total);
    if (side->counts == NULL && side->list == NULL)
        side->count = side->total / (size_t)size;
    for (int r = 0; r < size; r++) {
        size_t count = side->counts != NULL ? side->counts[r] : side->count;

        fits = fits && !__builtin_add_overflow(sum, count, &sum);
        side->unlike =
            side->unlike || (side->counts != NULL && count != side->counts[0]);
    }
    if (!fits || sum > PTRDIFF_MAX / op->elem)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: the parts of %s are more bytes than memory has",
            symc_kind_name(op->kind), side->name);
    if (side->list == NULL && sum != side->total)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %s_splits with a sum of %zu, found %zu",
            symc_kind_name(op->kind), side->name, side->total, sum);
    side->total = sum;
    return SYMMCOLL_OK;
}

/* Checks that no range with elements is NULL. */
static symmcoll_status_t check_present(
    const struct symc_op *op, const struct side *side, int size)
{
    for (int i = 0; i < count_ranges(side, size); i++) {
        size_t nbytes;
        char text[32] = "";

        if (range_at(side, i, op->elem, &nbytes) != NULL || nbytes == 0)
            continue;
        if (side->list != NULL)
            snprintf(text, sizeof(text), "s[%d]", i);
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %s%s of %zu bytes, found NULL",
            symc_kind_name(op->kind), side->name, text, nbytes);
    }
    return SYMMCOLL_OK;
}

/* Returns the lowest address of a side; end (out): after its last byte. */
static uintptr_t find_bounds(
    const struct side *side, int size, size_t elem, uintptr_t *end)
{
    uintptr_t low = UINTPTR_MAX;

    *end = 0;
    for (int i = 0; i < count_ranges(side, size); i++) {
        size_t nbytes;
        uintptr_t at = (uintptr_t)range_at(side, i, elem, &nbytes);

        if (nbytes == 0)
            continue;
        low = at < low ? at : low;
        *end = at + nbytes > *end ? at + nbytes : *end;
    }
    return low;
}

/* Checks that no part of the result overlaps another one. */
static symmcoll_status_t check_result(
    const struct symc_op *op, const struct side *out, int size)
{
    uintptr_t low = UINTPTR_MAX, high = 0;

    for (int i = 0; i < count_ranges(out, size); i++) {
        size_t nbytes, other_nbytes;
        const char *at = range_at(out, i, op->elem, &nbytes);
        bool apart = (uintptr_t)at >= high || (uintptr_t)at + nbytes <= low;

        for (int j = 0; j < i && !apart; j++) {
            const char *other = range_at(out, j, op->elem, &other_nbytes);

            if (symc_overlap(at, nbytes, other, other_nbytes))
                return symc_fail(SYMMCOLL_ERR_INVALID,
                    "%s: expected buffers apart, found outs[%d] and outs[%d] "
                    "overlapping",
                    symc_kind_name(op->kind), j, i);
        }
        if (nbytes == 0)
            continue;
        low = (uintptr_t)at < low ? (uintptr_t)at : low;
        high = (uintptr_t)at + nbytes > high ? (uintptr_t)at + nbytes : high;
    }
    return SYMMCOLL_OK;
}

/* Checks that the result does not overlap the input, except in place: the
 * single part of one side is this rank's part of the other. */
static symmcoll_status_t check_apart(const struct symc_op *op,
    const struct side *out, const struct side *in, int rank, int size)
{
    uintptr_t out_end, in_end;
    uintptr_t out_low = find_bounds(out, size, op->elem, &out_end);
    uintptr_t in_low = find_bounds(in, size, op->elem, &in_end);
    bool may_be_in_place = out->parts != in->parts;

    if (out_low >= in_end || in_low >= out_end)
        return SYMMCOLL_OK;
    for (int i = 0; i < count_ranges(out, size); i++) {
        for (int j = 0; j < count_ranges(in, size); j++) {
            size_t out_nbytes, in_nbytes;
            const char *to = range_at(out, i, op->elem, &out_nbytes);
            const char *from = range_at(in, j, op->elem, &in_nbytes);
            bool own = (out->parts ? i : j) == rank && to == from;

            if ((may_be_in_place && own) ||
                !symc_overlap(to, out_nbytes, from, in_nbytes))
                continue;
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "%s: expected out and in apart%s, found out %d and in %d "
                "overlapping",
                symc_kind_name(op->kind),
                may_be_in_place ? ", or equal where they are this rank's part"
                                : "",
                i, j);
        }
    }
    return SYMMCOLL_OK;
}

/* Places a rank without bytes in the memory of the ranks that have some: where
 * its empty buffers are, or, if these are NULL, on the device of the group's
 * operations. Called for uneven kinds only; in other kinds no rank has a byte
 * then. */
static void place_empty(
    struct symmcoll_group *group, struct symc_op *op, const struct side *sides)
{
    bool any = false;

    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < count_ranges(&sides[s], symc_group_size(group));
             i++) {
            size_t nbytes;
            const void *at = range_at(&sides[s], i, op->elem, &nbytes);
            int16_t device;

            any = any || at != NULL;
            if (at == NULL || op->memory != SYMC_MEMORY_HOST ||
                symc_registry_find(&symc_group_world(group)->registry, at,
                    &device) == SYMC_MEMORY_HOST ||
                device == SYMC_NO_DEVICE || device == SYMC_UNKNOWN_DEVICE)
                continue;
            op->memory = SYMC_MEMORY_DEVICE;
            op->device = device;
        }
    }
    if (!any)
        symc_coll_take_device(group, op);
}

/* Checks that all parts are in one memory, which becomes the operation's. */
static symmcoll_status_t find_memory(
    struct symmcoll_group *group, struct symc_op *op, const struct side *sides)
{
    char places[2][SYMC_MEMORY_TEXT];
    bool found = false;

    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < count_ranges(&sides[s], symc_group_size(group));
             i++) {
            size_t nbytes;
            const void *at = range_at(&sides[s], i, op->elem, &nbytes);
            int16_t device;
            enum symc_memory memory;
            symmcoll_status_t status;

            if (nbytes == 0)
                continue;
            status =
                symc_coll_find(group, op, sides[s].name, at, &memory, &device);
            if (status != SYMMCOLL_OK)
                return status;
            if (found && (memory != op->memory || device != op->device))
                return symc_fail(SYMMCOLL_ERR_INVALID,
                    "%s: expected all buffers in one memory, found %s and %s",
                    symc_kind_name(op->kind),
                    symc_memory_format(op->memory, op->device, places[0]),
                    symc_memory_format(memory, device, places[1]));
            op->memory = (uint8_t)memory;
            op->device = device;
            found = true;
        }
    }
    if (!found && !symc_group_world(group)->registry.unserved &&
        symc_kind_has(op->kind, SYMC_UNEVEN) && sides[0].parts &&
        sides[1].parts)
        place_empty(group, op, sides);
    return SYMMCOLL_OK;
}

/* Fills in both sides from the call. */
static void take_sides(
    const struct symc_op *op, struct side *out, struct side *in)
{
    const struct symc_kind_info *info = &symc_kinds[op->kind];
    const struct symc_lists *lists = op->lists;

    *out = (struct side){.name = "out",
        .parts = info->out_parts == SYMC_ALL_PARTS,
        .list = (const void *const *)lists->outs,
        .buffer = op->out,
        .counts = lists->out_counts,
        .count = lists->out_count,
        .total = lists->out_total};
    *in = (struct side){.name = "in",
        .parts = info->in_parts == SYMC_ALL_PARTS,
        .list = lists->ins,
        .buffer = op->in,
        .counts = lists->in_counts,
        .count = lists->in_count,
        .total = lists->in_total};
}

/* Checks the lists, counts and buffers of both sides. */
static symmcoll_status_t check_sides(
    const struct symc_op *op, struct side *sides, int size)
{
    symmcoll_status_t status = check_counts(op);

    for (int s = 0; s < 2 && status == SYMMCOLL_OK; s++)
        status = check_list(op, &sides[s], size);
    for (int s = 0; s < 2 && status == SYMMCOLL_OK; s++)
        status = add_up(op, &sides[s], size);
    for (int s = 0; s < 2 && status == SYMMCOLL_OK; s++)
        status = check_present(op, &sides[s], size);
    return status;
}

symmcoll_status_t symc_coll_check_lists(
    struct symmcoll_group *group, struct symc_op *op)
{
    struct symc_lists *lists = op->lists;
    struct side sides[2];
    struct side *out = &sides[0], *in = &sides[1];
    symmcoll_status_t status;

    if (symc_kind_has(op->kind, SYMC_ROOTED) &&
        op->root != symc_group_rank(group))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a list on rank %d, the root, alone, found one on "
            "rank %d",
            symc_kind_name(op->kind), op->root, symc_group_rank(group));
    take_sides(op, out, in);
    status = check_sides(op, sides, symc_group_size(group));
    if (status != SYMMCOLL_OK)
        return status;
    lists->out_count = out->count;
    lists->in_count = in->count;
    lists->out_total = out->total;
    lists->in_total = in->total;
    lists->out_unlike = out->unlike;
    lists->in_unlike = in->unlike;
    if (symc_kind_has(op->kind, SYMC_UNEVEN))
        op->count = in->total;
    if (symc_op_in_count(op, symc_group_rank(group)) !=
        symc_op_out_count(op, symc_group_rank(group)))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected equal counts of this rank's part for itself, found "
            "%zu in out and %zu in in",
            symc_kind_name(op->kind),
            symc_op_out_count(op, symc_group_rank(group)),
            symc_op_in_count(op, symc_group_rank(group)));
    status = check_result(op, out, symc_group_size(group));
    if (status != SYMMCOLL_OK)
        return status;
    status = check_apart(
        op, out, in, symc_group_rank(group), symc_group_size(group));
    if (status == SYMMCOLL_OK &&
        symc_registry_is_other_present(&symc_group_world(group)->registry))
        status = find_memory(group, op, sides);
    if (status != SYMMCOLL_OK || !symc_group_world(group)->inspects)
        return status;
    return symc_coll_inspect(group, op);
}
