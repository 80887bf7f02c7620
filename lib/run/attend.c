/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The attendant, a thread of the world that completes issued works without a
 * waiter.  While works are issued it checks every few milliseconds whether the
 * oldest work of each queue is still the same, and advances it only then.  With
 * one such queue it sleeps until that work can go on; with several it polls all
 * of them, with growing pauses.  Works on devices it tests in every check, and
 * more often if some of them have callbacks.
 *
 * A queue with a group that may have kernels in graphs stays listed and is
 * checked now and then, even when nothing is issued.
 */
#include "base/thread.h"
#include "run/device.h"

#include <time.h>

#define TICK_NS (INT64_C(5) * 1000 * 1000) /* between two checks */
/* idle checks before a queue is unlisted */
#define QUIET_TICKS 200
/* between two checks of captured calls alone */
#define WATCH_NS (INT64_C(50) * 1000 * 1000)
#define PAUSE_LEAST_NS (INT64_C(50) * 1000)
#define PAUSE_MOST_NS (INT64_C(2) * 1000 * 1000)

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
        /* After `attended` has been cleared: a capturing thread captures first
         * and then reads `attended`, so one of the two sees the other. */
        queue->watched = symc_slot_watch(queue->runner);
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
        symc_device_nap(queue->runner, none_runs, queue, &budget);
    } else if (found->until > 0) {
        if (found->until < budget.deadline_ns)
            budget.deadline_ns = found->until;
        symc_run_await_progress(queue->runner, &found->op, &budget);
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
