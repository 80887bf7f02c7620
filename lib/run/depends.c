/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dependencies between an operation's input and the outputs of issued
 * operations.
 */
#include "run/queue.h"
#include "run/work.h"

/* The address range of all that an operation reads, or writes. */
struct extent {
    uintptr_t lo, hi;
};

static struct extent extent_of(const struct symc_op *op, int size, bool writes)
{
    uintptr_t at = (uintptr_t)(writes ? op->out : op->in);

    return (struct extent){at, at + (writes ? symc_op_out_nbytes(op, size)
                                            : symc_op_in_nbytes(op, size))};
}

/* Returns the extent of several buffers, with the gaps between them. */
static __attribute__((noinline)) struct extent extent_of_all(
    const struct symc_op *op, int size, bool writes)
{
    struct extent all = {UINTPTR_MAX, 0};

    for (int i = 0; i < op->buffers; i++) {
        struct symc_op one = symc_op_of(op, i);
        struct extent extent = extent_of(&one, size, writes);

        all.lo = extent.lo < all.lo ? extent.lo : all.lo;
        all.hi = extent.hi > all.hi ? extent.hi : all.hi;
    }
    return all;
}

/* Returns the extent of parts with their own counts or buffers. */
static __attribute__((noinline)) struct extent extent_of_parts(
    const struct symc_op *op, int size, bool writes)
{
    const struct symc_lists *lists = op->lists;
    const void *const *list =
        writes ? (const void *const *)lists->outs : lists->ins;
    struct extent all = {UINTPTR_MAX, 0};

    if (op->memory != SYMC_MEMORY_HOST)
        return all; /* the lists hold several buffers for each rank */
    if (list == NULL) {
        uintptr_t at = (uintptr_t)(writes ? op->out : op->in);
        size_t total = writes ? lists->out_total : lists->in_total;

        return (struct extent){at, at + total * op->elem};
    }
    for (int r = 0; r < size; r++) {
        uintptr_t at = (uintptr_t)list[r];
        size_t count =
            writes ? symc_op_out_count(op, r) : symc_op_in_count(op, r);

        if (count == 0)
            continue;
        all.lo = at < all.lo ? at : all.lo;
        all.hi =
            at + count * op->elem > all.hi ? at + count * op->elem : all.hi;
    }
    return all;
}

static inline struct extent find_extent(
    const struct symc_op *op, int size, bool writes)
{
    if (__builtin_expect(op->listed, 0))
        return extent_of_parts(op, size, writes);
    return symc_kind_has(op->kind, SYMC_COALESCED)
               ? extent_of_all(op, size, writes)
               : extent_of(op, size, writes);
}

/* Device memory is never read by issuing, so it never depends. */
bool symc_queue_depends(
    const struct symc_queue *queue, const struct symc_op *op)
{
    struct extent in = find_extent(op, queue->ops.size, false);

    for (const struct symmcoll_work *at = queue->issued;
         at != NULL && op->memory == SYMC_MEMORY_HOST; at = at->next) {
        struct extent out = find_extent(&at->op, queue->ops.size, true);

        if (in.lo < out.hi && out.lo < in.hi)
            return true;
    }
    return false;
}
