/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion of issued works.  Any thread that holds the ticket may complete
 * them; a waiter takes the ticket for a moment at a time, so that other threads
 * of its rank can issue in between.  A work without a waiter is completed by
 * the attendant, a thread of the world.  While works are issued it checks every
 * few milliseconds whether the oldest work of each queue is still the same, and
 * advances it only then.  With one such queue it sleeps until that work can go
 * on; with several it polls all of them, with growing pauses.  Works on devices
 * it tests in every check, and more often if some of them have callbacks.
 *
 * A queue with a group that may have kernels in graphs stays listed and is
 * checked now and then, even when nothing is issued.
 */
#include "base/thread.h"
#include "run/queue.h"
#include "run/work.h"

#include <time.h>

#define TICK_NS (INT64_C(5) * 1000 * 1000) /* between two checks */
/* idle checks before a queue is unlisted */
#define QUIET_TICKS 200
/* between two checks of captured calls alone */
#define WATCH_NS (INT64_C(50) * 1000 * 1000)
#define PAUSE_LEAST_NS (INT64_C(50) * 1000)
#define PAUSE_MOST_NS (INT64_C(2) * 1000 * 1000)

/* Issues an operation, after completing those it depends on.  Needs the
 * ticket. */
static bool issue(struct symc_queue *queue, struct symmcoll_work *work)
{
    if (queue->issued == NULL)
        return queue->ops.issue(queue->ops.group, &work->op);
    if (!symc_queue_depends(queue, &work->op) &&
        queue->ops.issue(queue->ops.group, &work->op))
        return true;
    symc_queue_advance(queue, SYMC_ADVANCE_PEEK);
    return !symc_queue_depends(queue, &work->op) &&
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
    if (queue->issued == NULL &&
        (queue->ops.issue == NULL || !symc_queue_runs(&work->op)))
        return false;
    if (!issue(queue, work))
        return false;
    symc_queue_append(queue, work);
    return true;
}

/* Ends a work in a failed group at once.  Needs the ticket.  The work has its
 * status before the caller has the work, so that a caller that goes on does not
 * fill the queue. */
static void end_at_once(struct symc_queue *queue, struct symmcoll_work *work)
{
    symmcoll_status_t status;

    symc_queue_settle(queue);
    status = queue->ops.run(queue->ops.group, &work->op);
    if (symc_queue_runs(&work->op)) {
        symc_queue_begin(queue, work, status);
        return;
    }
    symc_work_end(work, status);
    symc_work_release(work);
}

bool symc_queue_issue(struct symc_queue *queue, struct symmcoll_work *work)
{
    uint64_t ticket;

    if (queue->ops.issue == NULL || queue->stopping || !queue->ready ||
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
    else
        /* the number may be used by another operation */
        symc_op_set_seq(&work->op, 0);
    symc_queue_leave(queue, ticket);
    /* The attendant clears the flag while it holds the ticket, if nothing is
     * issued. */
    if (work->issued && !queue->attended)
        symc_queue_wake(queue);
    return work->issued;
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
        symmcoll_status_t status = queue->ops.advance(
            queue->ops.group, &work->op, expired ? SYMC_ADVANCE_EXPIRED : how);

        if (status == SYMMCOLL_IN_PROGRESS)
            return work->deadline_ns;
        queue->issued = work->next;
        if (__builtin_expect(symc_queue_runs(&work->op), 0)) {
            symc_queue_begin(queue, work, status);
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
            queue->ops.await_progress(queue->ops.group, &queue->issued->op,
                &(struct symc_wait_budget){.deadline_ns = until});
    }
}

/* ---- the attendant's list of queues ---- */

/* Appends a queue to the list.  Needs the attendant's lock, as does
 * unlist(). */
static void list(struct symc_attendant *attendant, struct symc_queue *queue)
{
    queue->listed = true;
    queue->next_listed = NULL;
    if (attendant->tail != NULL)
        attendant->tail->next_listed = queue;
    else
        attendant->head = queue;
    attendant->tail = queue;
    attendant->listed++;
}

static void unlist(struct symc_attendant *attendant, struct symc_queue *queue)
{
    struct symc_queue *before = NULL, *at = attendant->head;

    while (at != queue) {
        before = at;
        at = at->next_listed;
    }
    if (before != NULL)
        before->next_listed = queue->next_listed;
    else
        attendant->head = queue->next_listed;
    if (attendant->tail == queue)
        attendant->tail = before;
    queue->listed = false;
    attendant->listed--;
}

static bool is_listed(
    const struct symc_attendant *attendant, const struct symc_queue *queue)
{
    const struct symc_queue *at = attendant->head;

    while (at != NULL && at != queue)
        at = at->next_listed;
    return at != NULL;
}

void symc_queue_wake(struct symc_queue *queue)
{
    struct symc_attendant *attendant = &queue->engine->attendant;

    pthread_mutex_lock(&attendant->lock);
    if (!queue->left) {
        queue->attended = true;
        queue->requested = true;
        attendant->requested = true;
        if (!queue->listed)
            list(attendant, queue);
        pthread_cond_signal(&attendant->changed);
    }
    pthread_mutex_unlock(&attendant->lock);
}

void symc_queue_unlist(struct symc_queue *queue)
{
    struct symc_attendant *attendant = &queue->engine->attendant;

    pthread_mutex_lock(&attendant->lock);
    while (attendant->visited == queue)
        pthread_cond_wait(&attendant->left, &attendant->lock);
    queue->left = true;
    if (queue->listed)
        unlist(attendant, queue);
    pthread_mutex_unlock(&attendant->lock);
}

/* ---- the attendant thread ---- */

/* The result of a check of one queue that needs attention. */
struct found {
    struct symc_queue *queue; /* NULL: nothing found */
    struct symc_op op;        /* the oldest work's, if the ticket was free */
    int64_t until;            /* deadline of the wait for it */
    bool busy;                /* another thread held the ticket */
    bool runs; /* nothing is issued; running works need attention */
};

/* Checks the oldest issued work of a queue.  Returns true if it needs
 * attention: if `requested` is set or the work is the same as in the last check. */
static bool look_at(
    struct symc_queue *queue, bool requested, struct found *found)
{
    struct symc_running running = symc_queue_look(queue, SYMC_ADVANCE_LOOK);
    uint64_t ticket;
    bool stays = false;

    *found = (struct found){.queue = queue};
    symc_queue_skip(queue);
    if (!symc_queue_try(queue, &ticket)) {
        /* The ticket's holder completes what it can.  The rest is requested
         * from this thread, or found by the next check. */
        found->busy = true;
        return requested;
    }
    if (requested)
        queue->quiet = 0;
    if (queue->issued == NULL) {
        queue->stalled = 0;
        queue->quiet = atomic_load(&queue->nrunning) > 0 ? 0 : queue->quiet + 1;
        if (queue->quiet >= QUIET_TICKS)
            queue->attended = false;
        /* A thread that adds a running work holds no ticket: it adds the work,
         * then reads `attended`, and this thread does the reverse, so one of
         * the two sees the other. */
        if (!queue->attended && atomic_load(&queue->nrunning) > 0)
            queue->attended = true;
    } else {
        stays = requested || queue->issued->op.seq == queue->stalled;
        if (stays)
            found->until = symc_queue_advance(queue, SYMC_ADVANCE_LOOK);
        queue->stalled = queue->issued != NULL ? queue->issued->op.seq : 0;
        queue->quiet = 0;
        stays = stays && queue->issued != NULL;
        if (stays)
            found->op = queue->issued->op;
    }
    if (!stays && running.awaited) {
        *found = (struct found){
            .queue = queue, .until = running.until, .runs = true};
        stays = true;
    }
    symc_queue_leave(queue, ticket);
    return stays;
}

/* Lets other threads release a queue that this thread has checked. */
static void leave_queue(struct symc_attendant *attendant)
{
    attendant->visited = NULL;
    pthread_cond_broadcast(&attendant->left);
}

/* Checks calls captured in graphs, after `attended` has been cleared.  A
 * capturing thread captures first and then reads `attended`, so one of the two
 * sees the other. */
static bool watch(struct symc_queue *queue)
{
    return queue->ops.watch != NULL && queue->ops.watch(queue->ops.group);
}

/* Checks each queue once.  Needs the lock.  Returns how many need attention,
 * with the last of them.  attended (out): whether any has more than captured
 * calls. */
static int go_round(
    struct symc_attendant *attendant, struct found *last, bool *attended)
{
    int count = 0;

    *attended = false;
    attendant->requested = false;
    /* Other threads may unlist queues during the round. */
    for (int i = attendant->listed; i > 0 && attendant->head != NULL; i--) {
        struct symc_queue *queue = attendant->head;
        struct found found;
        bool requested;

        unlist(attendant, queue);
        list(attendant, queue);
        requested = queue->requested;
        queue->requested = false;
        attendant->visited = queue;
        pthread_mutex_unlock(&attendant->lock);
        requested = look_at(queue, requested, &found);
        queue->watched = watch(queue);
        pthread_mutex_lock(&attendant->lock);
        leave_queue(attendant);
        queue->requested = queue->requested || requested;
        *attended = *attended || queue->attended;
        if (!queue->attended && !queue->watched)
            unlist(attendant, queue);
        if (requested) {
            *last = found;
            count++;
        }
    }
    return count;
}

static bool none_runs(void *arg)
{
    return symc_queue_look(arg, SYMC_ADVANCE_PEEK).count == 0;
}

/* Waits for the one queue that needs attention, at most one tick, because
 * another queue may need the attendant. */
static void await_one(
    struct symc_attendant *attendant, const struct found *found, bool again)
{
    struct symc_queue *queue = found->queue;
    struct symc_wait_budget budget = {
        .deadline_ns = symc_now_ns() + TICK_NS, .polled = again};

    if (!is_listed(attendant, queue))
        return; /* the queue may have been released */
    attendant->visited = queue;
    pthread_mutex_unlock(&attendant->lock);
    if (found->busy)
        symc_wait_plainly(&queue->engine->origin.waiting, &queue->doorbell,
            &queue->serving, atomic_load(&queue->next), &budget);
    else if (found->runs) {
        int64_t nap_ns = again ? TICK_NS : 0; /* start with the longest nap */

        budget.deadline_ns = symc_running_nap(&nap_ns, found->until);
        queue->ops.nap(queue->ops.group, none_runs, queue, &budget);
    } else if (found->until > 0) {
        if (found->until < budget.deadline_ns)
            budget.deadline_ns = found->until;
        queue->ops.await_progress(queue->ops.group, &found->op, &budget);
    }
    pthread_mutex_lock(&attendant->lock);
    leave_queue(attendant);
}

static void sleep_for(struct symc_attendant *attendant, int64_t ns)
{
    int64_t until = symc_now_ns() + ns;
    struct timespec time = {
        .tv_sec = until / SYMC_NS_PER_S, .tv_nsec = until % SYMC_NS_PER_S};

    pthread_cond_timedwait(&attendant->changed, &attendant->lock, &time);
}

static void attend_to_all(struct symc_attendant *attendant)
{
    struct found found = {0};
    int64_t pause = PAUSE_LEAST_NS;
    uint64_t seq = 0; /* number of the operation last waited for */
    int count = 0;
    bool attended = false;

    while (!attendant->stopping) {
        int before = count;

        if (attendant->head == NULL) {
            count = 0;
            pthread_cond_wait(&attendant->changed, &attendant->lock);
            continue;
        }
        if (count == 0 && !attendant->requested)
            sleep_for(attendant, attended ? TICK_NS : WATCH_NS);
        count = go_round(attendant, &found, &attended);
        if (count == 1) {
            await_one(attendant, &found, found.op.seq == seq);
            seq = found.op.seq;
        } else if (count > 1 && !attendant->requested) {
            pause = count != before             ? PAUSE_LEAST_NS
                    : pause < PAUSE_MOST_NS / 2 ? 2 * pause
                                                : PAUSE_MOST_NS;
            sleep_for(attendant, pause);
        }
    }
}

static void *run_attendant(void *arg)
{
    struct symc_attendant *attendant = arg;

    pthread_mutex_lock(&attendant->lock);
    attend_to_all(attendant);
    pthread_mutex_unlock(&attendant->lock);
    return NULL;
}

symmcoll_status_t symc_attendant_start(struct symc_engine *engine)
{
    struct symc_attendant *attendant = &engine->attendant;
    symmcoll_status_t status = SYMMCOLL_OK;

    pthread_mutex_lock(&attendant->lock);
    if (!attendant->running)
        status = symc_thread_start(
            &attendant->thread, "symc-attend", 0, run_attendant, attendant);
    attendant->running = attendant->running || status == SYMMCOLL_OK;
    pthread_mutex_unlock(&attendant->lock);
    return status;
}

static void stop_attendant(struct symc_attendant *attendant)
{
    pthread_mutex_lock(&attendant->lock);
    attendant->stopping = true;
    pthread_cond_signal(&attendant->changed);
    pthread_mutex_unlock(&attendant->lock);
    if (attendant->running)
        pthread_join(attendant->thread, NULL);
    attendant->running = false;
}

void symc_engine_stop(struct symc_engine *engine)
{
    symc_callbacks_stop(&engine->callbacks);
    stop_attendant(&engine->attendant);
    symc_pool_stop(&engine->pool);
}
