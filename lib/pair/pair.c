/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives of a group: their numbers, recorder entries and works.
 * They take no ticket of the operation queue, so that a collective that waits
 * for a peer does not delay what the peer waits for. The lock of the rank's
 * sends and receives orders the calls.
 */
#include "pair/pair.h"
#include "group/group.h"
#include "run/call.h"
#include "run/work.h"

#include <stdlib.h>
#include <string.h>

/* ---- one operation ---- */

/* Describes an operation of the group for symc_pairs_start(). */
static void fill(struct symc_pair *pair, const struct symmcoll_group *group,
    const struct symc_op *op)
{
    pair->op = op;
    pair->core = symc_group_core(group);
    pair->key = symc_group_pair_key(group);
    pair->peer = op->peer == SYMC_PAIR_ANY ? SYMC_PAIR_ANY
                                           : symc_group_global(group)[op->peer];
    pair->space = SYMC_PAIR_USER;
    pair->source = -1;
}

/* Does everything that can fail on this rank alone, before a number is taken.
 * Under the lock. */
static symmcoll_status_t prepare(
    struct symmcoll_group *group, const struct symc_op *op)
{
    int peer = op->kind == SYMC_SEND ? symc_group_global(group)[op->peer]
                                     : SYMC_PAIR_ANY;
    size_t nbytes = op->memory == SYMC_MEMORY_HOST ? op->count * op->elem : 0;

    return symc_pairs_prepare(symc_group_world(group)->pairs, peer, nbytes);
}

/* Returns the group rank that a received message is from; -1: none. */
static int find_source(
    const struct symmcoll_group *group, const struct symc_pair *pair)
{
    return pair->op->kind == SYMC_RECV && pair->source >= 0
               ? symmcoll_group_rank_of(group, pair->source)
               : -1;
}

/* Ends the recorder entry, and calls the hooks. */
static void end_entry(struct symmcoll_group *group,
    const struct symc_pair *pair, struct symc_trace_entry *entry,
    symmcoll_status_t status)
{
    if (__builtin_expect(status < 0, 0))
        symc_error_set_call(
            symc_group_name(group), pair->op->kind, pair->op->seq);
    if (symc_run_notifies(symc_group_runner(group)))
        symc_run_notify(symc_group_runner(group), pair->op, entry, status);
    if (entry == NULL)
        return;
    if (pair->peer == SYMC_PAIR_ANY && pair->source >= 0)
        symc_trace_set_peer(entry, find_source(group, pair));
    symc_trace_end(
        &symc_group_world(group)->trace, entry, status == SYMMCOLL_OK);
}

/* Starts an operation and records it. entry (out) is valid until the operation
 * ends. */
static symmcoll_status_t start(struct symmcoll_group *group,
    struct symc_pair *pair, struct symc_trace_entry **entry)
{
    symmcoll_status_t status =
        symc_pairs_start(symc_group_world(group)->pairs, pair);

    *entry = symc_run_record_pair(symc_group_runner(group), pair->op);
    if (status != SYMMCOLL_IN_PROGRESS)
        end_entry(group, pair, *entry, status);
    return status;
}

/* ---- blocking calls ---- */

struct blocking {
    struct symc_pair pair;
    struct symmcoll_group *group;
    struct symc_trace_entry *entry;
    struct symc_error error; /* set if another thread ends the operation */
    _Atomic uint64_t ended;
};

/* Ends a blocking call; called by the thread that has completed it. */
static void end_blocking(struct symc_pair *pair, symmcoll_status_t status)
{
    struct blocking *call = (struct blocking *)pair;

    end_entry(call->group, pair, call->entry, status);
    symc_error_keep(&call->error, status);
    /* From here on the waiting thread may free the call. */
    atomic_store_explicit(&call->ended, 1, memory_order_release);
}

/* Starts a blocking call. A receive is recorded before it starts, while its
 * message travels. */
static symmcoll_status_t start_blocking(
    struct symmcoll_group *group, struct blocking *call)
{
    struct symc_pairs *pairs = symc_group_world(group)->pairs;
    struct symc_pair *pair = &call->pair;
    symmcoll_status_t status;
    uint64_t ticks;

    if (pair->op->kind == SYMC_SEND)
        return start(group, pair, &call->entry);
    call->entry = symc_run_record_pair(symc_group_runner(group), pair->op);
    if (pair->copying == NULL && symc_pairs_recv_small(pairs, pair, &ticks)) {
        if (symc_run_notifies(symc_group_runner(group)))
            symc_run_notify(
                symc_group_runner(group), pair->op, call->entry, SYMMCOLL_OK);
        symc_trace_complete(call->entry, ticks);
        return SYMMCOLL_OK;
    }
    status = symc_pairs_start(pairs, pair);
    if (status != SYMMCOLL_IN_PROGRESS)
        end_entry(group, pair, call->entry, status);
    return status;
}

static symmcoll_status_t run_blocking(
    struct symmcoll_group *group, struct symc_op *op, int *source)
{
    struct symc_pairs *pairs = symc_group_world(group)->pairs;
    struct blocking call;
    symmcoll_status_t status;

    status = symc_group_begin_copying(group, op, &call.pair.copying);
    if (status != SYMMCOLL_OK)
        return status;
    fill(&call.pair, group, op);
    call.pair.end = end_blocking;
    call.group = group;
    atomic_init(&call.ended, 0);
    symc_pairs_enter(pairs);
    status = prepare(group, op);
    if (status != SYMMCOLL_OK) {
        symc_pairs_leave(pairs);
        symc_copying_release(call.pair.copying);
        return status;
    }
    op->seq = symc_run_next_pair(symc_group_runner(group));
    status = start_blocking(group, &call);
    symc_pairs_leave(pairs);
    if (status == SYMMCOLL_IN_PROGRESS) {
        symc_pairs_await(pairs, &call.ended, SYMC_NEVER);
        status = symc_error_return(&call.error);
    }
    if (source != NULL && status == SYMMCOLL_OK)
        *source = find_source(group, &call.pair);
    return status;
}

/* ---- calls with a work ---- */

/* Releases a work that has ended, so that the group may be released. */
static void release_work(
    struct symmcoll_group *group, struct symmcoll_work *work)
{
    struct symc_pairs *pairs = symc_group_world(group)->pairs;

    symc_work_release(work);
    symc_pairs_remove_work(pairs);
    /* Last: after this the group may be released. */
    symc_run_end_pair(symc_group_runner(group));
}

/* Ends a work, with the sender of a received message. */
static void end_work(struct symmcoll_group *group, struct symmcoll_work *work,
    symmcoll_status_t status)
{
    struct symc_pair *pair = &work->pair;

    if (status == SYMMCOLL_OK) {
        work->source = find_source(group, pair);
        if (work->source_out != NULL)
            *work->source_out = work->source;
    }
    symc_work_end(work, status);
    release_work(group, work);
}

static void end_one(struct symc_pair *pair, symmcoll_status_t status)
{
    struct symmcoll_work *work =
        (void *)((char *)pair - offsetof(struct symmcoll_work, pair));
    struct symc_runner *runner = work->queue->runner;
    struct symmcoll_group *group = symc_group_of(&runner->members);

    end_entry(group, pair, work->entry, status);
    end_work(group, work, status);
}

/* Creates a work that the sends and receives of this rank end. */
static struct symmcoll_work *make_work(
    struct symmcoll_group *group, const struct symc_op *op)
{
    struct symmcoll_work *work =
        symc_work_create_paired(symc_group_queue(group), op);

    if (work == NULL)
        return NULL;
    symc_run_add_pair(symc_group_runner(group));
    symc_pairs_add_work(symc_group_world(group)->pairs);
    return work;
}

/* Frees a work that has not been started. */
static void drop_work(struct symmcoll_group *group, struct symmcoll_work *work)
{
    symc_work_release(work);
    release_work(group, work);
}

static symmcoll_status_t run_with_work(struct symmcoll_group *group,
    const struct symc_op *op, int *source, struct symmcoll_work **out)
{
    struct symc_pairs *pairs = symc_group_world(group)->pairs;
    symmcoll_status_t status = symc_pairs_attend(pairs);
    struct symmcoll_work *work;
    struct symc_trace_entry *entry;

    if (status != SYMMCOLL_OK)
        return status;
    work = make_work(group, op);
    if (work == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    status = symc_group_begin_copying(group, &work->op, &work->pair.copying);
    if (status != SYMMCOLL_OK) {
        drop_work(group, work);
        return status;
    }
    fill(&work->pair, group, &work->op);
    work->pair.end = end_one;
    work->source_out = source;
    work->op.issued = symc_ticks();
    symc_pairs_enter(pairs);
    status = prepare(group, op);
    if (status != SYMMCOLL_OK) {
        symc_pairs_leave(pairs);
        symc_copying_release(work->pair.copying);
        drop_work(group, work);
        return status;
    }
    work->op.seq = symc_run_next_pair(symc_group_runner(group));
    status = start(group, &work->pair, &entry);
    work->entry = entry;
    if (status != SYMMCOLL_IN_PROGRESS)
        end_work(group, work, status);
    symc_pairs_leave(pairs);
    *out = work;
    return SYMMCOLL_OK;
}

/* Refuses a call in a group that has stopped, in a fake world or, if it blocks, in
 * a callback. */
static symmcoll_status_t check(
    struct symmcoll_group *group, const struct symc_op *op, bool blocks)
{
    if (symc_group_has_stopped(group))
        return symc_members_status(symc_group_members(group), op);
    if (symc_group_world(group)->fake != NULL)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: expected a world whose ranks are there, found a fake one",
            symc_kind_name(op->kind));
    if (blocks && symc_queue_in_callback(symc_group_queue(group)))
        return symc_callbacks_refuse(symc_kind_name(op->kind));
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_group_pair(struct symmcoll_group *group,
    struct symc_op *op, int *source, struct symmcoll_work **work)
{
    symmcoll_status_t status = check(group, op, work == NULL);

    if (status != SYMMCOLL_OK)
        return status;
    return work == NULL ? run_blocking(group, op, source)
                        : run_with_work(group, op, source, work);
}

/* ---- batches ---- */

struct part {
    struct symc_pair pair;
    struct symc_op op;
    struct symc_batch *batch;
    struct symc_trace_entry *entry;
};

struct symc_batch {
    struct symmcoll_group *group;
    struct symmcoll_work *work; /* NULL: the call blocks */
    _Atomic size_t left; /* parts that have not ended, plus 1 for the start */
    _Atomic symmcoll_status_t status; /* status of the first part that failed */
    _Atomic uint64_t ended;
    struct symc_error error;
    size_t count;
    struct part parts[];
};

struct symc_batch *symc_batch_create(
    struct symmcoll_group *group, size_t count, enum symc_pair_space space)
{
    struct symc_batch *batch = NULL;
    size_t nbytes;

    if (symc_multiply(count, sizeof(struct part), &nbytes) &&
        symc_add(nbytes, sizeof(*batch), &nbytes))
        batch = symc_alloc(nbytes, 1);
    if (batch == NULL)
        return NULL;
    batch->group = group;
    batch->count = count;
    for (size_t i = 0; i < count; i++) {
        batch->parts[i].batch = batch;
        batch->parts[i].pair.space = (uint8_t)space;
    }
    return batch;
}

struct symc_op *symc_batch_op(struct symc_batch *batch, size_t index)
{
    return &batch->parts[index].op;
}

/* Frees a batch that has not been started. */
void symc_batch_free(struct symc_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        symc_copying_release(batch->parts[i].pair.copying);
    free(batch);
}

/* Ends one part, or the start. Returns whether it was the last. */
static bool is_last(struct symc_batch *batch, symmcoll_status_t status)
{
    symmcoll_status_t none = SYMMCOLL_OK;

    if (status < 0 &&
        atomic_compare_exchange_strong(&batch->status, &none, status))
        symc_error_keep(&batch->error, status);
    return atomic_fetch_sub(&batch->left, 1) == 1;
}

/* Ends a part or the start of a batch; the last one ends the batch. */
static void end_some(struct symc_batch *batch, symmcoll_status_t status)
{
    struct symmcoll_work *work = batch->work;

    if (!is_last(batch, status))
        return;
    status = atomic_load(&batch->status);
    if (work == NULL) {
        atomic_store_explicit(&batch->ended, 1, memory_order_release);
        return;
    }
    if (status < 0)
        (void)symc_error_return(&batch->error);
    symc_work_end(work, status);
    release_work(batch->group, work);
    free(batch);
}

static void end_part(struct symc_pair *pair, symmcoll_status_t status)
{
    struct part *part = (struct part *)pair;

    end_entry(part->batch->group, pair, part->entry, status);
    end_some(part->batch, status);
}

/* Starts all parts, under the lock; number (out): the number of the batch. */
static symmcoll_status_t start_parts(struct symc_batch *batch, uint64_t *number)
{
    struct symmcoll_group *group = batch->group;

    for (size_t i = 0; i < batch->count; i++) {
        symmcoll_status_t status = prepare(group, &batch->parts[i].op);

        if (status != SYMMCOLL_OK)
            return status;
    }
    *number = symc_run_next_pair(symc_group_runner(group));
    atomic_init(&batch->left, batch->count + 1);
    if (batch->work != NULL)
        batch->work->op.seq = *number;
    for (size_t i = 0; i < batch->count; i++) {
        struct part *part = &batch->parts[i];
        uint8_t space = part->pair.space;
        symmcoll_status_t status;

        part->op.seq = *number;
        fill(&part->pair, group, &part->op);
        part->pair.space = space;
        part->pair.end = end_part;
        status = start(group, &part->pair, &part->entry);
        /* Never the last one: the start is counted too. */
        if (status != SYMMCOLL_IN_PROGRESS)
            is_last(batch, status);
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_batch_start(struct symc_batch *batch,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    struct symmcoll_group *group = batch->group;
    struct symc_pairs *pairs = symc_group_world(group)->pairs;
    /* An empty batch: stands for it in error messages. */
    const struct symc_op none = {.kind = SYMC_SEND};
    const struct symc_op *first =
        batch->count > 0 ? &batch->parts[0].op : &none;
    symmcoll_status_t status = check(group, first, work == NULL);
    struct symmcoll_work *made = NULL;
    struct symc_op started = {.seq = 0}; /* only seq is used */

    if (status != SYMMCOLL_OK)
        goto free_batch;
    if (work != NULL) {
        status = symc_pairs_attend(pairs);
        if (status != SYMMCOLL_OK)
            goto free_batch;
        status = SYMMCOLL_ERR_NO_MEMORY;
        made = make_work(group, first);
        if (made == NULL)
            goto free_batch;
        batch->work = made;
    }
    for (size_t i = 0; i < batch->count; i++) {
        status = symc_group_begin_copying(
            group, &batch->parts[i].op, &batch->parts[i].pair.copying);
        if (status != SYMMCOLL_OK)
            goto free_batch;
    }
    if (made != NULL)
        made->pair.op = &made->op; /* a batch has no source */
    symc_pairs_enter(pairs);
    status = start_parts(batch, &started.seq);
    symc_pairs_leave(pairs);
    symc_run_put_sequence(call, &started, NULL);
    if (status != SYMMCOLL_OK)
        goto free_batch;
    if (made != NULL) {
        *work = made;
        end_some(batch, SYMMCOLL_OK);
        return SYMMCOLL_OK;
    }
    if (!is_last(batch, SYMMCOLL_OK))
        symc_pairs_await(pairs, &batch->ended, SYMC_NEVER);
    status = atomic_load(&batch->status);
    if (status < 0)
        (void)symc_error_return(&batch->error);
    free(batch);
    return status;

free_batch:
    symc_batch_free(batch);
    if (made != NULL)
        drop_work(group, made);
    return status;
}
