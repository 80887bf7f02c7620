/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns, the queue, and the progress thread that empties it.
 */
#include "work/lane.h"
#include "base/thread.h"
#include "work/work.h"

#include <sched.h>

void symc_lane_init(struct symc_lane *lane, const struct symc_lane_ops *ops,
    struct symc_origin *origin)
{
    pthread_condattr_t monotonic;

    lane->ops = *ops;
    lane->origin = origin;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&lane->lock, NULL);
    pthread_cond_init(&lane->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

uint64_t symc_lane_wait(struct symc_lane *lane, uint64_t ticket)
{
    struct symc_patience patience = {.timeout_ns = SYMC_NEVER};

    /* An operation before this one ends by its own deadline. */
    symc_wait_plainly(&lane->origin->waiting, &lane->doorbell, &lane->serving,
        ticket, &patience);
    return ticket;
}

/* Run the work at the head, whose ticket is the next but for blocking calls. */
static void run_one(struct symc_lane *lane, struct symmcoll_work *work)
{
    symmcoll_status_t status;

    if (atomic_load_explicit(&lane->serving, memory_order_acquire) !=
        work->ticket)
        symc_lane_wait(lane, work->ticket);
    symc_lane_settle(lane);
    status = lane->ops.run(lane->ops.group, &work->op);
    /* First the end, then the next turn: who finds all turns over finds all
     * callbacks queued. */
    symc_work_end(work, status);
    symc_lane_leave(lane, work->ticket);
    symc_work_release(work);
}

static void *progress(void *arg)
{
    struct symc_lane *lane = arg;

    pthread_mutex_lock(&lane->lock);
    for (;;) {
        struct symmcoll_work *work = lane->head;

        if (work == NULL && lane->stopping)
            break;
        if (work == NULL) {
            symc_lane_attend(lane);
            continue;
        }
        lane->head = work->next;
        if (lane->head == NULL)
            lane->tail = NULL;
        pthread_mutex_unlock(&lane->lock);
        run_one(lane, work);
        pthread_mutex_lock(&lane->lock);
    }
    pthread_mutex_unlock(&lane->lock);
    return NULL;
}

symmcoll_status_t symc_lane_submit(struct symc_lane *lane,
    const struct symc_op *op, struct symmcoll_work **work)
{
    struct symmcoll_work *made = symc_work_create(lane, op);
    symmcoll_status_t status = SYMMCOLL_OK;

    if (made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    if (symc_lane_issue(lane, made)) {
        *work = made;
        return SYMMCOLL_OK;
    }
    pthread_mutex_lock(&lane->lock);
    if (lane->stopping) {
        status = symc_fail(SYMMCOLL_ERR_ABORTED,
            "%s: the world is being finalized", symc_kind_name(op->kind));
    } else if (!lane->running) {
        status = symc_thread_start(
            &lane->thread, "symc-progress", SYMC_STACK_SMALL, progress, lane);
        lane->running = status == SYMMCOLL_OK;
    }
    if (status != SYMMCOLL_OK) {
        pthread_mutex_unlock(&lane->lock);
        symc_work_release(made);
        symc_work_release(made);
        return status;
    }
    made->op.issued = symc_ticks();
    /* Under the lock, so that the queue is in the order of tickets. */
    made->ticket =
        atomic_fetch_add_explicit(&lane->next, 1, memory_order_acquire);
    if (lane->tail != NULL)
        lane->tail->next = made;
    else
        lane->head = made;
    lane->tail = made;
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&lane->lock);
    *work = made;
    return SYMMCOLL_OK;
}

bool symc_lane_drain(struct symc_lane *lane, int64_t deadline_ns)
{
    struct symc_patience patience = {.deadline_ns = deadline_ns};
    bool over = false;

    do { /* what has ended is seen however little time there is */
        uint64_t ticket;
        int64_t until;

        if (!symc_wait_plainly(&lane->origin->waiting, &lane->doorbell,
                &lane->serving, atomic_load(&lane->next), &patience))
            return false;
        if (!symc_lane_try(lane, &ticket))
            continue;
        until = symc_lane_advance(lane, SYMC_ADVANCE_LOOK);
        over = lane->issued == NULL;
        if (!over)
            lane->ops.doze(lane->ops.group, &lane->issued->op,
                until < deadline_ns ? until : deadline_ns);
        symc_lane_leave(lane, ticket);
    } while (!over && symc_now_ns() < deadline_ns);
    return over;
}

bool symc_lane_is_over(struct symc_lane *lane)
{
    uint64_t ticket;
    bool over;

    if (!symc_lane_try(lane, &ticket))
        return false;
    over = lane->issued == NULL;
    symc_lane_leave(lane, ticket);
    return over;
}

void symc_lane_stop(struct symc_lane *lane)
{
    uint64_t ticket;

    pthread_mutex_lock(&lane->lock);
    lane->stopping = true;
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&lane->lock);
    if (lane->running)
        pthread_join(lane->thread, NULL);
    lane->running = false;
    ticket = symc_lane_enter(lane);
    symc_lane_settle(lane);
    symc_lane_leave(lane, ticket);
}

void symc_lane_destroy(struct symc_lane *lane)
{
    /* Who has waited for the last work may not have turned away yet. */
    atomic_thread_fence(memory_order_seq_cst);
    while (atomic_load(&lane->origin->visitors) != 0)
        sched_yield();
    pthread_cond_destroy(&lane->changed);
    pthread_mutex_destroy(&lane->lock);
}
