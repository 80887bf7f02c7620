/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ending issued works.  Any thread that holds the ticket may do so; a waiter
 * takes it for a moment at a time, so that other threads of its rank can issue
 * in between.  A work that nobody waits for is ended by the progress thread:
 * while works are issued it checks every few milliseconds whether the oldest
 * one is still the same, and only then attends to it.
 */
#include "work/queue.h"
#include "work/work.h"

#include <time.h>

#define TICK_NS (INT64_C(5) * 1000 * 1000) /* between two checks */
#define QUIET_TICKS 200                    /* before it sleeps for good */
#define LONGEST_NS (INT64_C(100) * 1000 * 1000)

/* Whether an operation reads what an issued one is still to write: then it has
 * to wait for that, for issuing reads. */
static bool depends(const struct symc_queue *queue, const struct symc_op *op)
{
    uintptr_t in = (uintptr_t)op->in;
    uintptr_t in_end = in + symc_op_in_nbytes(op, queue->ops.size);

    for (const struct symmcoll_work *at = queue->issued; at != NULL;
         at = at->next) {
        uintptr_t out = (uintptr_t)at->op.out;

        if (in < out + symc_op_out_nbytes(&at->op, queue->ops.size) &&
            out < in_end)
            return true;
    }
    return false;
}

/* Under the ticket. */
static bool issue(struct symc_queue *queue, struct symmcoll_work *work)
{
    if (queue->issued == NULL)
        return queue->ops.issue(queue->ops.group, &work->op);
    if (!depends(queue, &work->op) &&
        queue->ops.issue(queue->ops.group, &work->op))
        return true;
    symc_queue_advance(queue, SYMC_ADVANCE_PEEK);
    return !depends(queue, &work->op) &&
           queue->ops.issue(queue->ops.group, &work->op);
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

bool symc_queue_follow(struct symc_queue *queue, struct symmcoll_work *work)
{
    if (queue->issued == NULL || !issue(queue, work))
        return false;
    symc_queue_append(queue, work);
    return true;
}

/* Under the ticket, in a group that has failed: the work has its status before
 * its owner has the work, so that who goes on calling fills no queue. */
static void end_at_once(struct symc_queue *queue, struct symmcoll_work *work)
{
    symc_queue_settle(queue);
    symc_work_end(work, queue->ops.run(queue->ops.group, &work->op));
    symc_work_release(work);
}

bool symc_queue_issue(struct symc_queue *queue, struct symmcoll_work *work)
{
    uint64_t ticket;

    if (queue->ops.issue == NULL || queue->stopping || !queue->running ||
        !symc_queue_try(queue, &ticket))
        return false;
    work->issued = issue(queue, work);
    if (!work->issued && queue->ops.has_failed(queue->ops.group)) {
        end_at_once(queue, work);
        symc_queue_leave(queue, ticket);
        return true;
    }
    if (work->issued)
        symc_queue_append(queue, work);
    symc_queue_leave(queue, ticket);
    /* The thread clears the flag with the ticket, where nothing is issued. */
    if (work->issued && !queue->attended)
        symc_queue_ask(queue);
    return work->issued;
}

/* The end of an operation's time, which begins with the first close look. */
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
        symmcoll_status_t status = queue->ops.advance(
            queue->ops.group, &work->op, expired ? SYMC_ADVANCE_EXPIRED : how);

        if (status == SYMMCOLL_IN_PROGRESS)
            return work->deadline_ns;
        queue->issued = work->next;
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
            queue->ops.doze(queue->ops.group, &queue->issued->op,
                &(struct symc_wait_budget){.deadline_ns = until});
    }
}

void symc_queue_ask(struct symc_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->attended = true;
    queue->asked = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

/* Wait until the tickets that are taken have been served, or for a while. */
static void await_turn(struct symc_queue *queue)
{
    struct symc_wait_budget budget = {
        .deadline_ns = symc_now_ns() + LONGEST_NS, .polled = true};

    symc_wait_plainly(&queue->origin->waiting, &queue->doorbell,
        &queue->serving, atomic_load(&queue->next), &budget);
}

/* Check the oldest issued work; true where the thread attends to it, with the
 * operation and the time until which to wait for it; 0: at once. */
static bool look_after(
    struct symc_queue *queue, bool asked, struct symc_op *op, int64_t *until)
{
    uint64_t ticket;
    bool stays = false;

    if (!symc_queue_try(queue, &ticket)) {
        /* Its holder ends what it can; what it cannot is asked of this thread,
         * or will be checked with the next tick. */
        if (asked)
            await_turn(queue);
        *until = 0;
        return asked;
    }
    if (queue->issued == NULL) {
        queue->stalled = 0;
        if (++queue->quiet >= QUIET_TICKS)
            queue->attended = false;
    } else {
        stays = asked || queue->issued->op.seq == queue->stalled;
        if (stays)
            *until = symc_queue_advance(queue, SYMC_ADVANCE_LOOK);
        queue->stalled = queue->issued != NULL ? queue->issued->op.seq : 0;
        queue->quiet = 0;
        stays = stays && queue->issued != NULL;
        if (stays)
            *op = queue->issued->op;
    }
    symc_queue_leave(queue, ticket);
    return stays;
}

static void sleep_for_a_tick(struct symc_queue *queue)
{
    int64_t until = symc_now_ns() + TICK_NS;
    struct timespec time = {
        .tv_sec = until / SYMC_NS_PER_S, .tv_nsec = until % SYMC_NS_PER_S};

    pthread_cond_timedwait(&queue->changed, &queue->lock, &time);
}

void symc_queue_attend(struct symc_queue *queue)
{
    bool asked = queue->asked;
    struct symc_op op;
    int64_t until = 0;

    if (!queue->attended) {
        pthread_cond_wait(&queue->changed, &queue->lock);
        return;
    }
    if (!asked) {
        sleep_for_a_tick(queue);
        if (queue->head != NULL || queue->stopping)
            return; /* what is queued settles what is issued */
        asked = queue->asked;
    }
    queue->asked = false;
    if (asked)
        queue->quiet = 0;
    pthread_mutex_unlock(&queue->lock);
    asked = look_after(queue, asked, &op, &until);
    if (asked && until > 0) {
        int64_t longest = symc_now_ns() + LONGEST_NS;

        queue->ops.doze(queue->ops.group, &op,
            &(struct symc_wait_budget){
                .deadline_ns = until < longest ? until : longest});
    }
    pthread_mutex_lock(&queue->lock);
    queue->asked = queue->asked || asked;
}
