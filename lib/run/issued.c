/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Issued works, which any thread that holds the ticket may complete; a waiter
 * takes the ticket for a moment at a time, so that other threads of its rank can
 * issue in between.
 */
#include "run/device.h"

/* ---- dependencies ---- */

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

/* Returns whether an operation reads what an issued one has not written yet.
 * It must wait for that one then, because issuing reads the input.  Device
 * memory is never read by issuing, so it never depends. */
static bool depends(const struct symc_queue *queue, const struct symc_op *op)
{
    struct extent in = find_extent(op, queue->runner->size, false);

    for (const struct symmcoll_work *at = queue->issued;
         at != NULL && op->memory == SYMC_MEMORY_HOST; at = at->next) {
        struct extent out = find_extent(&at->op, queue->runner->size, true);

        if (in.lo < out.hi && out.lo < in.hi)
            return true;
    }
    return false;
}

/* ---- issuing and completing ---- */

/* Issues an operation, after completing those it depends on; does nothing if its
 * slot is not ready.  Needs the ticket. */
static bool issue(struct symc_queue *queue, struct symc_op *op)
{
    struct symc_runner *runner = queue->runner;

    if (op->memory != SYMC_MEMORY_HOST && !symc_slot_is_ready(runner, op))
        return false;
    if (queue->issued == NULL)
        return symc_run_issue(runner, op);
    if (!depends(queue, op) && symc_run_issue(runner, op))
        return true;
    symc_queue_advance(queue, SYMC_ADVANCE_PEEK);
    return !depends(queue, op) && symc_run_issue(runner, op);
}

void symc_queue_append(struct symc_queue *queue, struct symmcoll_work *work)
{
    work->next = NULL;
    if (queue->issued != NULL)
        queue->issued_tail->next = work;
    else
        queue->issued = work;
    queue->issued_tail = work;
}

bool symc_queue_issue(struct symc_queue *queue, struct symmcoll_work *work)
{
    if (!issue(queue, &work->op))
        return false;
    symc_queue_append(queue, work);
    return true;
}

bool symc_queue_follow(struct symc_queue *queue, struct symmcoll_work *work)
{
    if (queue->issued == NULL && !symc_queue_runs(&work->op))
        return false;
    return symc_queue_issue(queue, work);
}

/* Returns the deadline of an operation.  Its time begins with the first
 * SYMC_ADVANCE_LOOK. */
static int64_t find_deadline(struct symmcoll_work *work, int64_t now)
{
    if (work->deadline_ns == 0)
        work->deadline_ns = symc_deadline_ns(now, work->op.timeout_ns);
    return work->deadline_ns;
}

int64_t symc_queue_advance(struct symc_queue *queue, enum symc_advance how)
{
    int64_t now = how == SYMC_ADVANCE_PEEK ? 0 : symc_now_ns();

    while (queue->issued != NULL) {
        struct symmcoll_work *work = queue->issued;
        bool expired =
            how != SYMC_ADVANCE_PEEK && find_deadline(work, now) <= now;
        symmcoll_status_t status = symc_run_advance(
            queue->runner, &work->op, expired ? SYMC_ADVANCE_EXPIRED : how);

        if (status == SYMMCOLL_IN_PROGRESS)
            return work->deadline_ns;
        queue->issued = work->next;
        if (__builtin_expect(symc_queue_runs(&work->op), 0)) {
            symc_queue_keep(
                queue, work, symc_device_begin(queue->runner, work, status));
            continue;
        }
        symc_work_end(work, status);
        symc_work_release(work);
    }
    return SYMC_NEVER;
}

void symc_queue_settle(struct symc_queue *queue)
{
    if (queue->issued != NULL)
        symc_queue_advance(queue, SYMC_ADVANCE_PEEK);
    while (queue->issued != NULL) {
        int64_t until = symc_queue_advance(queue, SYMC_ADVANCE_LOOK);

        if (queue->issued != NULL)
            symc_run_await_progress(queue->runner, &queue->issued->op,
                &(struct symc_wait_budget){.deadline_ns = until});
    }
}

bool symc_queue_run(struct symc_queue *queue, struct symmcoll_work *work)
{
    symmcoll_status_t status;

    symc_queue_settle(queue);
    if (symc_queue_runs(&work->op)) {
        symc_queue_keep(queue, work, symc_device_run(queue->runner, work));
        return true;
    }
    status = symc_run_op(queue->runner, &work->op);
    if (status == SYMMCOLL_IN_PROGRESS) {
        symc_queue_append(queue, work);
        return true;
    }
    symc_work_end(work, status);
    symc_work_release(work);
    return false;
}
