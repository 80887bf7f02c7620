/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tickets, the queue, and the execution of queued operations.
 */
#include "run/device.h"

#include <sched.h>
#include <stddef.h>

/* between two checks of the ticket's holder */
#define LOOK_NS (SYMC_NS_PER_S / 50)

/* ---- tickets ---- */

/* Returns whether the wait for a ticket ends because its holder is stuck; the
 * ticket has been given up then. */
static bool is_in_vain(struct symc_queue *queue, const struct symc_op *op,
    int64_t began_ns, uint64_t ticket)
{
    bool expired = op != NULL && symc_now_ns() - began_ns >= op->timeout_ns;

    if (op == NULL || !symc_slot_stands(queue->runner, expired) ||
        !symc_queue_give_up(queue, ticket))
        return false;
    symc_queue_wake(queue); /* the attendant passes the ticket on */
    return true;
}

/* An earlier operation ends by its own deadline, unless its thread is stuck in
 * a backend. */
bool symc_queue_wait(
    struct symc_queue *queue, const struct symc_op *op, uint64_t ticket)
{
    int64_t began = 0;

    if (symc_run_has_failed(queue->runner) &&
        is_in_vain(queue, op, symc_now_ns(), ticket))
        return false;
    for (;;) {
        struct symc_wait_budget budget = {
            .timeout_ns = LOOK_NS, .polled = began != 0};

        if (symc_wait_plainly(&queue->engine->origin.waiting, &queue->doorbell,
                &queue->serving, ticket, &budget))
            return true;
        if (began == 0)
            began = symc_now_ns() - LOOK_NS;
        symc_queue_skip(queue);
        if (is_in_vain(queue, op, began, ticket))
            return false;
    }
}

/* ---- the queue ---- */

/* Ends a work with the refusal's error, after its ticket has been given up. */
static void end_refused(struct symc_queue *queue, struct symmcoll_work *work)
{
    symmcoll_status_t status =
        symc_device_refuse(queue->runner, &work->op, false);

    if (symc_queue_runs(&work->op)) {
        symc_queue_keep(
            queue, work, symc_device_begin(queue->runner, work, status));
        return;
    }
    symc_work_end(work, status);
    symc_work_release(work);
}

/* Runs the work at the queue's head.  Only blocking calls can hold earlier
 * tickets. */
static void run_one(struct symc_queue *queue, struct symmcoll_work *work)
{
    uint64_t ticket = work->ticket;
    bool begun;

    if (atomic_load_explicit(&queue->serving, memory_order_acquire) != ticket &&
        !symc_queue_wait(queue, &work->op, ticket)) {
        end_refused(queue, work);
        return;
    }
    /* A work that ends does so before the next ticket is served: a thread that
     * finds all tickets served finds all callbacks queued. */
    begun = symc_queue_follow(queue, work) || symc_queue_run(queue, work);
    symc_queue_leave(queue, ticket);
    if (begun)
        symc_queue_wake(queue);
}

/* Runs queued works until none is left, on a thread of the pool. */
static void serve(struct symc_task *task)
{
    struct symc_queue *queue =
        (void *)((char *)task - offsetof(struct symc_queue, task));
    struct symmcoll_work *work;

    pthread_mutex_lock(&queue->lock);
    while ((work = queue->head) != NULL) {
        queue->head = work->next;
        if (queue->head == NULL)
            queue->tail = NULL;
        pthread_mutex_unlock(&queue->lock);
        run_one(queue, work);
        pthread_mutex_lock(&queue->lock);
    }
    queue->served = false;
    pthread_cond_broadcast(&queue->changed);
    /* The queue may be released once the lock is. */
    pthread_mutex_unlock(&queue->lock);
}

/* Starts the attendant and a thread of the pool for the queue if need be.
 * Needs the lock. */
static symmcoll_status_t find_threads(struct symc_queue *queue)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    if (!queue->ready)
        status = symc_attendant_start(queue->engine);
    if (status != SYMMCOLL_OK)
        return status;
    queue->ready = true;
    if (queue->served)
        return SYMMCOLL_OK;
    queue->task.run = serve;
    status = symc_pool_run(&queue->engine->pool, &queue->task);
    queue->served = status == SYMMCOLL_OK;
    return status;
}

/* Adds a work to the queue.  On failure the work is released. */
static symmcoll_status_t enqueue(
    struct symc_queue *queue, struct symmcoll_work *made)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    pthread_mutex_lock(&queue->lock);
    if (queue->stopping)
        status = symc_fail(SYMMCOLL_ERR_ABORTED,
            "%s: the world is being finalized", symc_kind_name(made->op.kind));
    else
        status = find_threads(queue);
    if (status != SYMMCOLL_OK) {
        pthread_mutex_unlock(&queue->lock);
        symc_work_release(made);
        symc_work_release(made);
        return status;
    }
    made->op.issued = symc_ticks();
    /* Under the lock, so that the list is in the order of tickets. */
    made->ticket =
        atomic_fetch_add_explicit(&queue->next, 1, memory_order_acquire);
    if (queue->tail != NULL)
        queue->tail->next = made;
    else
        queue->head = made;
    queue->tail = made;
    pthread_mutex_unlock(&queue->lock);
    return SYMMCOLL_OK;
}

/* Returns whether an operation has arrays that may not outlive the call. */
static inline bool has_arrays(const struct symc_op *op)
{
    return (op->listed || symc_kind_has(op->kind, SYMC_COALESCED)) && !op->kept;
}

/* Creates a work that outlives the call, with copies of the caller's arrays.
 * Returns NULL if no memory is left. */
static inline struct symmcoll_work *create_lasting(
    struct symc_queue *queue, const struct symc_op *op)
{
    struct symmcoll_work *made = symc_work_create(queue, op);

    if (made == NULL || __builtin_expect(!has_arrays(op), 1) ||
        symc_work_copy_arrays(made, queue->runner->size) == SYMMCOLL_OK)
        return made;
    symc_work_release(made);
    symc_work_release(made);
    return NULL;
}

/* Issues a work if that can be done at once; in a failed group, ends it, so that
 * a caller that goes on does not fill the queue.  Starts the attendant for the
 * first work of a world.  Returns false if the work must be queued. */
static bool issue(struct symc_queue *queue, struct symmcoll_work *work)
{
    uint64_t ticket;
    bool ended;

    if (queue->stopping || symc_queue_prepare(queue) != SYMMCOLL_OK ||
        !symc_queue_try(queue, &ticket))
        return false;
    work->issued = symc_queue_issue(queue, work);
    ended = !work->issued && symc_run_has_failed(queue->runner);
    if (ended)
        symc_queue_run(queue, work);
    else if (!work->issued)
        /* the number may be used by another operation */
        symc_op_set_seq(&work->op, 0);
    symc_queue_leave(queue, ticket);
    /* The attendant clears the flag while it holds the ticket, if nothing is
     * issued. */
    if (work->issued && !queue->attended)
        symc_queue_wake(queue);
    return work->issued || ended;
}

symmcoll_status_t symc_queue_submit(struct symc_queue *queue,
    const struct symc_op *op, void *mark, struct symmcoll_work **work)
{
    struct symmcoll_work *made = create_lasting(queue, op);

    if (made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    if (mark != NULL)
        made->mark = mark;
    if (!issue(queue, made)) {
        symmcoll_status_t status = enqueue(queue, made);

        if (status != SYMMCOLL_OK)
            return status;
    }
    *work = made;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_queue_prepare(struct symc_queue *queue)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    if (queue->ready)
        return SYMMCOLL_OK;
    pthread_mutex_lock(&queue->lock);
    status = symc_attendant_start(queue->engine);
    queue->ready = queue->ready || status == SYMMCOLL_OK;
    pthread_mutex_unlock(&queue->lock);
    return status;
}

bool symc_queue_drain_pairs(struct symc_queue *queue, int64_t deadline_ns)
{
    static const _Atomic uint64_t never;
    const struct symc_runner *runner = queue->runner;

    while (atomic_load(&runner->paired) > 0) {
        int64_t now = symc_now_ns();

        if (now >= deadline_ns)
            return false;
        symc_pairs_await(
            runner->world->pairs, &never, now + SYMC_NS_PER_S / 1000);
    }
    return true;
}

bool symc_queue_drain(struct symc_queue *queue, int64_t deadline_ns)
{
    struct symc_wait_budget budget = {.deadline_ns = deadline_ns};
    bool over = false;

    do { /* checks at least once, even if no time is left */
        uint64_t ticket;
        int64_t until;
        bool settled;

        if (!symc_wait_plainly(&queue->engine->origin.waiting, &queue->doorbell,
                &queue->serving, atomic_load(&queue->next), &budget))
            return false;
        if (!symc_queue_try(queue, &ticket))
            continue;
        until = symc_queue_advance(queue, SYMC_ADVANCE_LOOK);
        settled = queue->issued == NULL;
        if (until > deadline_ns)
            until = deadline_ns;
        if (!settled)
            symc_run_await_progress(queue->runner, &queue->issued->op,
                &(struct symc_wait_budget){.deadline_ns = until});
        symc_queue_leave(queue, ticket);
        over = settled && symc_queue_await_running(queue, deadline_ns);
    } while (!over && symc_now_ns() < deadline_ns);
    return over;
}

bool symc_queue_is_over(struct symc_queue *queue)
{
    uint64_t ticket;
    bool over;

    if (!symc_queue_try(queue, &ticket))
        return false;
    over = queue->issued == NULL && atomic_load(&queue->nrunning) == 0;
    symc_queue_leave(queue, ticket);
    return over;
}

void symc_queue_stop(struct symc_queue *queue)
{
    uint64_t ticket;

    pthread_mutex_lock(&queue->lock);
    queue->stopping = true;
    while (queue->served)
        pthread_cond_wait(&queue->changed, &queue->lock);
    pthread_mutex_unlock(&queue->lock);
    symc_queue_unlist(queue);
    (void)symc_queue_enter(queue, NULL, &ticket);
    symc_queue_settle(queue);
    symc_queue_leave(queue, ticket);
}

void symc_queue_close(struct symc_queue *queue)
{
    uint64_t ticket;

    symc_work_drop_spares(queue);
    /* A thread that reaches the group through a work needs the ticket, which is
     * never free again; threads that sleep in the group leave it first. */
    (void)symc_queue_enter(queue, NULL, &ticket);
    atomic_thread_fence(memory_order_seq_cst);
    while (atomic_load(&queue->visitors) != 0)
        sched_yield();
    symc_queue_release(queue);
}
