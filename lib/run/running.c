/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Works on device memory from the moment the members have compared them.  Any
 * number of them run concurrently with later operations, and end in the order
 * in which the backend completes them.  A waiter tests its own work, the
 * attendant tests all of them every few milliseconds.
 *
 * INVARIANT: a work in the list has a token of the backend, and is ended only
 * under the lock and without followers; so a token does not end while it is in
 * use.  Threads hold the lock only for moments.  Tests enter the backend under
 * the lock, so no thread inside the backend may take the lock.
 */
#include "run/device.h"

#include <stdio.h>

#define NAP_LEAST_NS (INT64_C(50) * 1000)
#define NAP_MOST_NS (INT64_C(1000) * 1000)

/* Under the lock, because waiters may end the work at once. */
void symc_queue_add_running(
    struct symc_queue *queue, struct symmcoll_work *work)
{
    pthread_mutex_lock(&queue->running_lock);
    work->next = NULL;
    if (queue->running != NULL)
        queue->running_tail->next = work;
    else
        queue->running = work;
    queue->running_tail = work;
    work->number = atomic_fetch_add(&queue->begun, 1) + 1;
    atomic_fetch_add(&queue->nrunning, 1);
    atomic_store_explicit(&work->started, 1, memory_order_release);
    symc_doorbell_notify(&work->doorbell);
    pthread_mutex_unlock(&queue->running_lock);
}

void symc_queue_keep(struct symc_queue *queue, struct symmcoll_work *work,
    symmcoll_status_t status)
{
    if (status == SYMMCOLL_IN_PROGRESS) {
        symc_queue_add_running(queue, work);
        return;
    }
    symc_work_end(work, status);
    symc_work_release(work);
}

/* Tests a work and ends it if it has finished.  Needs the lock.  Returns
 * whether it has ended. */
static bool test(
    struct symc_queue *queue, struct symmcoll_work *work, enum symc_advance how)
{
    symmcoll_status_t status;

    if (how != SYMC_ADVANCE_PEEK && symc_now_ns() >= work->deadline_ns)
        how = SYMC_ADVANCE_EXPIRED;
    status = symc_device_test(queue->runner, work, how);
    if (status == SYMMCOLL_IN_PROGRESS)
        return false;
    /* The work ends before the count drops: a thread that finds none running
     * finds all callbacks queued. */
    symc_work_end(work, status);
    atomic_fetch_sub(&queue->nrunning, 1);
    return true;
}

/* ---- skipping later works of a stream ---- */

#define STREAMS 8 /* streams remembered; works on others are all tested */

/* Streams with a work that was found running. */
struct streams {
    const void *all[STREAMS];
    int count;
};

/* Returns whether a work need not be tested: what a rank does alone ends in
 * stream order and has no deadline, and an earlier work on its stream was found
 * running.  In a failed group all works are tested. */
static bool comes_later(const struct symc_queue *queue,
    const struct streams *streams, const struct symmcoll_work *work)
{
    int i = 0;

    if (symc_kinds[work->op.kind].counter != SYMC_COUNT_NONE)
        return false;
    while (i < streams->count && streams->all[i] != work->op.stream)
        i++;
    return i < streams->count && !symc_run_has_failed(queue->runner);
}

static void keep_stream(
    struct streams *streams, const struct symmcoll_work *work)
{
    if (symc_kinds[work->op.kind].counter == SYMC_COUNT_NONE &&
        streams->count < STREAMS)
        streams->all[streams->count++] = work->op.stream;
}

struct symc_running symc_queue_look(
    struct symc_queue *queue, enum symc_advance how)
{
    struct symc_running found = {.until = SYMC_NEVER};
    struct streams streams = {.count = 0};
    struct symmcoll_work *before = NULL, *ended = NULL, *work, *next;

    if (atomic_load(&queue->nrunning) == 0)
        return found;
    pthread_mutex_lock(&queue->running_lock);
    for (work = queue->running; work != NULL; work = next) {
        bool later = comes_later(queue, &streams, work);

        next = work->next;
        if (!later && test(queue, work, how)) {
            *(before != NULL ? &before->next : &queue->running) = next;
            if (next == NULL)
                queue->running_tail = before;
            work->next = ended;
            ended = work;
            continue;
        }
        if (before == NULL)
            found.oldest = work->number;
        before = work;
        if (!later)
            keep_stream(&streams, work);
        found.awaited = found.awaited || atomic_load(&work->callbacks) != NULL;
        if (work->deadline_ns < found.until)
            found.until = work->deadline_ns;
        if (how == SYMC_ADVANCE_PEEK)
            break; /* most works end in the order of their start */
    }
    found.count = atomic_load(&queue->nrunning);
    pthread_mutex_unlock(&queue->running_lock);
    for (; ended != NULL; ended = next) {
        next = ended->next;
        symc_work_release(ended);
    }
    return found;
}

void symc_queue_look_at(
    struct symc_queue *queue, struct symmcoll_work *work, enum symc_advance how)
{
    struct symmcoll_work *before = NULL, *at;
    bool ended;

    pthread_mutex_lock(&queue->running_lock);
    for (at = queue->running; at != NULL && at != work; at = at->next)
        before = at;
    ended = at != NULL && test(queue, work, how);
    if (ended) {
        *(before != NULL ? &before->next : &queue->running) = work->next;
        if (queue->running_tail == work)
            queue->running_tail = before;
    }
    pthread_mutex_unlock(&queue->running_lock);
    if (ended)
        symc_work_release(work);
}

symmcoll_status_t symc_queue_order(
    struct symc_queue *queue, struct symmcoll_work *work)
{
    symmcoll_status_t status;
    bool runs;

    pthread_mutex_lock(&queue->running_lock);
    /* A work being cancelled has an error to wait for. */
    runs = atomic_load(&work->ended) == 0 && work->cancel_ns == 0;
    work->followers += runs;
    pthread_mutex_unlock(&queue->running_lock);
    if (!runs)
        return SYMMCOLL_IN_PROGRESS;
    status = symc_slot_follow(queue->runner, &work->op, work->token);
    pthread_mutex_lock(&queue->running_lock);
    work->followers--;
    pthread_mutex_unlock(&queue->running_lock);
    return status;
}

/* ---- waiting ---- */

int64_t symc_running_nap(int64_t *nap_ns, int64_t deadline_ns)
{
    int64_t now = symc_now_ns();

    *nap_ns = *nap_ns == 0                ? NAP_LEAST_NS
              : *nap_ns < NAP_MOST_NS / 2 ? 2 * *nap_ns
                                          : NAP_MOST_NS;
    return deadline_ns - now < *nap_ns ? deadline_ns : now + *nap_ns;
}

uint64_t symc_queue_begun(const struct symc_queue *queue)
{
    return atomic_load(&queue->begun);
}

static bool is_over(const struct symc_running *found, uint64_t number)
{
    return found->oldest == 0 || found->oldest > number;
}

/* The condition of a wait for works up to a number. */
struct wait {
    struct symc_queue *queue;
    uint64_t number;
};

static bool peek(void *arg)
{
    const struct wait *wait = arg;

    return symc_queue_has_ended(wait->queue, wait->number);
}

bool symc_queue_has_ended(struct symc_queue *queue, uint64_t number)
{
    struct symc_running found = symc_queue_look(queue, SYMC_ADVANCE_PEEK);

    return is_over(&found, number);
}

bool symc_queue_await_begun(
    struct symc_queue *queue, uint64_t number, int64_t deadline_ns)
{
    struct wait wait = {queue, number};
    int64_t nap_ns = 0;

    for (;;) {
        struct symc_running found = symc_queue_look(queue, SYMC_ADVANCE_LOOK);
        struct symc_wait_budget budget = {.polled = nap_ns != 0};

        if (is_over(&found, number))
            return true;
        if (symc_now_ns() >= deadline_ns)
            return false;
        budget.deadline_ns = symc_running_nap(
            &nap_ns, found.until < deadline_ns ? found.until : deadline_ns);
        symc_device_nap(queue->runner, peek, &wait, &budget);
    }
}

bool symc_queue_await_running(struct symc_queue *queue, int64_t deadline_ns)
{
    return symc_queue_await_begun(queue, UINT64_MAX, deadline_ns);
}

/* ---- descriptions of running works ---- */

int64_t symc_queue_running_until(struct symc_queue *queue, uint64_t number)
{
    int64_t now = symc_now_ns(), last = now;

    pthread_mutex_lock(&queue->running_lock);
    for (const struct symmcoll_work *at = queue->running;
         at != NULL && at->number <= number; at = at->next) {
        int64_t until = at->deadline_ns;

        if (until == SYMC_NEVER)
            until = symc_deadline_ns(now, at->op.timeout_ns);
        last = until > last ? until : last;
    }
    pthread_mutex_unlock(&queue->running_lock);
    return last;
}

const char *symc_queue_format_running(
    struct symc_queue *queue, uint64_t number, char *buffer, size_t nbytes)
{
    const struct symmcoll_work *first;
    char placed[SYMC_OP_PLACED_TEXT], rest[32] = "";
    int others = 0;

    pthread_mutex_lock(&queue->running_lock);
    first = queue->running;
    for (const struct symmcoll_work *at = first;
         at != NULL && at->next != NULL && at->next->number <= number;
         at = at->next)
        others++;
    if (others > 0)
        snprintf(rest, sizeof(rest), ", and %d more", others);
    if (first == NULL || first->number > number)
        snprintf(buffer, nbytes, "nothing");
    else
        snprintf(buffer, nbytes, "%s%s",
            symc_op_format_placed(&first->op, placed), rest);
    pthread_mutex_unlock(&queue->running_lock);
    return buffer;
}
