/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Public functions on works: wait, test, query, release, and their callbacks.
 */
#include "run/work.h"
#include "base/cancel.h"
#include "run/device.h"

#include <sched.h>
#include <stddef.h>
#include <stdlib.h>

/* Longest wait before a waiter checks everything again, and before it tries to
 * take the ticket again. */
#define LOOK_NS (INT64_C(100) * 1000 * 1000)
#define TURN_NS (INT64_C(1000) * 1000)

/* ---- completing an issued work ---- */

/* Fails the group: a wait has expired in blocking-wait mode. */
static void expire(struct symmcoll_work *work)
{
    if (symc_work_is_mine(work) && symc_work_enter(work)) {
        symc_run_expire(work->queue->runner, &work->op);
        symc_work_leave(work);
    }
}

/* Returns whether a work's `ended` or `started` word is set. */
static bool is_set(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_acquire) != 0;
}

static bool has_ended(const struct symmcoll_work *work)
{
    return is_set(&work->ended);
}

/* Takes the ticket if it is free, and completes what can be completed.  Returns
 * whether it did.  A ticket holder may use the group: symc_queue_close() keeps
 * the last ticket. */
static bool advance(struct symmcoll_work *work, enum symc_advance how)
{
    uint64_t ticket;

    if (!symc_queue_try(work->queue, &ticket))
        return false;
    symc_queue_advance(work->queue, how);
    symc_queue_leave(work->queue, ticket);
    return true;
}

/* Polls for a moment; with the ticket, until another thread wants it. */
static void poll_for(struct symmcoll_work *work, const _Atomic uint64_t *word)
{
    struct symc_queue *queue = work->queue;

    for (int i = 0; i < SYMC_QUICK_POLLS && !is_set(word); i++) {
        uint64_t ticket;

        if (!symc_queue_try(queue, &ticket)) {
            symc_pause();
            continue;
        }
        symc_queue_advance(queue, SYMC_ADVANCE_PEEK);
        while (!is_set(word) && ++i < SYMC_QUICK_POLLS &&
               atomic_load_explicit(&queue->next, memory_order_relaxed) ==
                   ticket + 1) {
            symc_pause();
            symc_queue_advance(queue, SYMC_ADVANCE_PEEK);
        }
        symc_queue_leave(queue, ticket);
    }
}

/* Waits while another thread holds the ticket, which is mostly for a moment;
 * otherwise that thread is running an operation and has already completed this
 * work or will not. */
static void await_turn(struct symmcoll_work *work, const _Atomic uint64_t *word,
    int64_t deadline_ns)
{
    struct symc_wait_budget budget = {.deadline_ns = deadline_ns};
    struct symc_queue *queue = work->queue;

    for (int i = 0; i < SYMC_QUICK_POLLS; i++) {
        if (is_set(word) ||
            atomic_load(&queue->serving) == atomic_load(&queue->next))
            return;
        symc_pause();
    }
    symc_wait_plainly(
        &work->engine->origin.waiting, &work->doorbell, word, 1, &budget);
}

static int64_t sooner(int64_t deadline_ns, int64_t now, int64_t wait_ns)
{
    return deadline_ns - now < wait_ns ? deadline_ns : now + wait_ns;
}

/* Waits until a word of an issued work is set or the deadline has passed, and
 * completes works with the ticket.  polled: polling has already failed. */
static void await_issued(struct symmcoll_work *work,
    const _Atomic uint64_t *word, int64_t deadline_ns, bool polled)
{
    struct symc_queue *queue = work->queue;
    struct symc_wait_budget budget = {.polled = polled};

    if (!polled)
        poll_for(work, word);
    for (int64_t now = 0; !is_set(word) && now < deadline_ns;) {
        bool advanced = advance(work, SYMC_ADVANCE_LOOK);

        now = symc_now_ns();
        if (is_set(word))
            break;
        if (!advanced && symc_work_is_stuck(work))
            return;
        if (!advanced) {
            await_turn(work, word, sooner(deadline_ns, now, TURN_NS));
        } else if (symc_work_enter(work)) {
            budget.deadline_ns = sooner(deadline_ns, now, LOOK_NS);
            symc_run_await_progress(queue->runner, &work->op, &budget);
            symc_work_leave(work);
        }
    }
}

/* Waits for a word of a queued work, which a thread of the pool runs.  Returns
 * whether it is set. */
static bool await_queued(struct symmcoll_work *work,
    const _Atomic uint64_t *word, int64_t deadline_ns)
{
    struct symc_wait_budget budget = {.polled = false};
    int64_t now;

    do {
        now = symc_now_ns();
        budget.deadline_ns = sooner(deadline_ns, now, LOOK_NS);
        if (symc_wait_plainly(&work->engine->origin.waiting, &work->doorbell,
                word, 1, &budget))
            return true;
        budget.polled = true;
    } while (symc_now_ns() < deadline_ns && !symc_work_is_stuck(work));
    return false;
}

/* ---- works on device memory ---- */

/* Waits until a work runs or has ended.  Returns false if the deadline has
 * passed or the work is stuck. */
static bool await_start(struct symmcoll_work *work, int64_t deadline_ns)
{
    if (!work->issued)
        return await_queued(work, &work->started, deadline_ns);
    await_issued(work, &work->started, deadline_ns, false);
    return is_set(&work->started);
}

static bool ends(void *arg)
{
    struct symmcoll_work *work = arg;

    symc_queue_look_at(work->queue, work, SYMC_ADVANCE_PEEK);
    return has_ended(work);
}

/* Waits until a work has ended.  Returns false if the deadline has passed or
 * the work is stuck. */
static bool await_device(struct symmcoll_work *work, int64_t deadline_ns)
{
    struct symc_wait_budget budget = {.polled = false};
    int64_t nap_ns = 0;

    if (!await_start(work, deadline_ns))
        return has_ended(work);
    for (;;) {
        symc_queue_look_at(work->queue, work, SYMC_ADVANCE_LOOK);
        if (has_ended(work) || symc_now_ns() >= deadline_ns)
            return has_ended(work);
        if (!symc_work_enter(work))
            continue;
        budget.deadline_ns = symc_running_nap(&nap_ns, deadline_ns);
        symc_device_nap(work->queue->runner, ends, work, &budget);
        symc_work_leave(work);
        budget.polled = true;
    }
}

void symc_work_launch(struct symmcoll_work *work)
{
    int64_t now = symc_now_ns();
    int cancel;

    if (!work->issued)
        return;
    cancel = symc_cancel_disable();
    await_issued(work, &work->started,
        now + symc_wait_polling_ns(&work->engine->origin.waiting, now), false);
    if (!is_set(&work->started))
        symc_queue_wake(work->queue);
    symc_cancel_restore(cancel);
}

symmcoll_status_t symc_queue_run_device(
    struct symc_queue *queue, struct symc_op *op, bool to_the_end)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = symc_queue_prepare(queue);
    struct symmcoll_work *work = NULL;
    uint64_t ticket;
    bool stuck;

    if (status == SYMMCOLL_OK) {
        work = symc_work_create(queue, op);
        status = work != NULL ? SYMMCOLL_OK : SYMMCOLL_ERR_NO_MEMORY;
    }
    if (status != SYMMCOLL_OK) {
        symc_cancel_restore(cancel);
        return status;
    }
    if (!symc_queue_enter(queue, op, &ticket)) {
        status = symc_device_refuse(queue->runner, op, false);
        symc_work_release(work);
        symc_work_release(work);
        symc_cancel_restore(cancel);
        return status;
    }
    work->issued = symc_queue_follow(queue, work);
    if (!work->issued)
        symc_queue_run(queue, work);
    symc_queue_leave(queue, ticket);
    if (!queue->attended)
        symc_queue_wake(queue);
    for (;;) {
        stuck = to_the_end ? !await_device(work, SYMC_NEVER)
                           : !await_start(work, SYMC_NEVER);
        if (!stuck || symc_device_give_up(queue->runner, work))
            break;
        await_turn(work, &work->started, symc_now_ns() + TURN_NS);
    }
    status = stuck             ? symc_work_refuse(work)
             : has_ended(work) ? symc_work_result(work)
                               : SYMMCOLL_OK;
    op->seq = symc_op_get_seq(&work->op);
    symc_work_release(work);
    symc_cancel_restore(cancel);
    return status;
}

symmcoll_status_t symc_queue_enqueue(
    struct symc_queue *queue, const struct symc_access *access)
{
    symmcoll_status_t status = symc_queue_prepare(queue);
    struct symmcoll_work *work;

    if (status != SYMMCOLL_OK)
        return status;
    work = symc_work_create(queue, access->op);
    if (work == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    status = symc_device_enqueue(queue->runner, work, access);
    if (status == SYMMCOLL_IN_PROGRESS) {
        /* takes one of the two references */
        symc_queue_add_running(queue, work);
        status = SYMMCOLL_OK;
    } else {
        symc_work_release(work);
    }
    /* The attendant also watches captured calls. */
    if (status == SYMMCOLL_OK && !queue->attended)
        symc_queue_wake(queue);
    symc_work_release(work);
    return status;
}

/* Waits without a timeout: the stream of the call waits, not the host. */
static symmcoll_status_t order(struct symmcoll_work *work)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    if (!await_start(work, SYMC_NEVER))
        return symc_work_refuse(work);
    if (symc_work_enter(work)) {
        status = symc_queue_order(work->queue, work);
        symc_work_leave(work);
    }
    if (status == SYMMCOLL_IN_PROGRESS)
        await_device(work, SYMC_NEVER);
    else if (status != SYMMCOLL_OK)
        return status;
    return has_ended(work) ? symc_work_result(work) : SYMMCOLL_OK;
}

/* ---- any work ---- */

/* Waits for a send or receive; deadline 0: checks once.  Returns whether it has
 * ended. */
static bool await_pairs(struct symmcoll_work *work, int64_t deadline_ns)
{
    if (symc_work_is_mine(work) && symc_work_enter(work)) {
        struct symc_pairs *pairs = work->queue->runner->world->pairs;

        if (deadline_ns == 0)
            symc_pairs_glance(pairs);
        else
            symc_pairs_await(pairs, &work->ended, deadline_ns);
        symc_work_leave(work);
    }
    return has_ended(work);
}

/* Waits until a work has ended.  Returns false if the deadline has passed or
 * the work is stuck. */
static bool await(struct symmcoll_work *work, int64_t deadline_ns)
{
    if (work->paired)
        return await_pairs(work, deadline_ns);
    if (__builtin_expect(symc_queue_runs(&work->op), 0))
        return await_device(work, deadline_ns);
    if (!work->issued)
        return await_queued(work, &work->ended, deadline_ns);
    if (symc_work_is_mine(work))
        await_issued(work, &work->ended, deadline_ns, false);
    return has_ended(work);
}

/* Checks once, without waiting.  Returns whether the work has ended. */
static bool look_once(struct symmcoll_work *work)
{
    if (work->paired)
        return has_ended(work) || await_pairs(work, 0);
    if (has_ended(work) || !symc_work_is_mine(work))
        return has_ended(work);
    if (work->issued)
        advance(work, SYMC_ADVANCE_PEEK);
    if (__builtin_expect(symc_queue_runs(&work->op), 0))
        symc_queue_look_at(work->queue, work, SYMC_ADVANCE_PEEK);
    return has_ended(work);
}

void symc_work_entrust(struct symmcoll_work *work)
{
    if (work->paired && symc_work_is_mine(work) && symc_work_enter(work)) {
        symc_pairs_wake(work->queue->runner->world->pairs);
        symc_work_leave(work);
    }
    if ((work->issued || symc_queue_runs(&work->op)) && symc_work_is_mine(work))
        symc_queue_wake(work->queue);
}

/* ---- public functions ---- */

/* Reads the clock only for a wait that can expire: reading it costs a fifth of
 * a small operation. */
static int64_t deadline_after(int64_t timeout_ns)
{
    return timeout_ns == SYMC_NEVER
               ? SYMC_NEVER
               : symc_deadline_ns(symc_now_ns(), timeout_ns);
}

/* Waits until a work has ended.  Returns false if the deadline has passed or
 * the work is stuck (out). A work that was stuck a moment ago may go on. */
static bool await_unless_stuck(
    struct symmcoll_work *work, int64_t deadline_ns, bool *stuck)
{
    do {
        if (await(work, deadline_ns))
            return true;
        *stuck = symc_work_is_stuck(work);
    } while (!*stuck && symc_now_ns() < deadline_ns);
    return false;
}

symmcoll_status_t symmcoll_work_wait(struct symmcoll_work *work, double timeout)
{
    symmcoll_status_t status;
    int64_t timeout_ns;
    bool stuck = false;

    if (work == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "work_wait: expected a work, found NULL");
    status = symc_timeout_read("work_wait", timeout, SYMC_NEVER, &timeout_ns);
    if (status != SYMMCOLL_OK)
        return status;
    if (has_ended(work))
        return symc_work_result(work);
    if (*work->engine->origin.alive != 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "work_wait: expected the process that called init, found a fork of "
            "it");
    if (symc_queue_in_callback(work->queue))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "work_wait: expected a work of another group, or an earlier one, "
            "on the callback thread, found a later %s of the same group",
            symc_kind_name(work->op.kind));
    if (__builtin_expect(symc_queue_runs(&work->op), 0) && timeout < 0 &&
        !work->engine->origin.blocking_wait && work->op.kind != SYMC_BARRIER)
        return order(work);
    if (timeout_ns != 0
            ? await_unless_stuck(work, deadline_after(timeout_ns), &stuck)
            : look_once(work))
        return symc_work_result(work);
    if (stuck)
        return symc_work_refuse(work);
    if (!work->engine->origin.blocking_wait || timeout == 0) {
        (void)symc_fail(SYMMCOLL_ERR_TIMEOUT,
            "work_wait: %s has not ended after %g s; it goes on",
            symc_kind_name(work->op.kind), timeout);
        return symc_error_set_call(
            NULL, work->op.kind, symc_op_get_seq(&work->op));
    }
    expire(work);
    return await_unless_stuck(work, SYMC_NEVER, &stuck)
               ? symc_work_result(work)
               : symc_work_refuse(work);
}

/* Waits for an operation with the ticket held, when no memory is left for a
 * work. */
static symmcoll_status_t await_here(
    struct symc_queue *queue, const struct symc_op *op)
{
    struct symc_wait_budget budget = {
        .deadline_ns = symc_deadline_ns(symc_now_ns(), op->timeout_ns),
        .polled = true};
    symmcoll_status_t status;

    for (;;) {
        status = symc_run_advance(queue->runner, op,
            symc_now_ns() >= budget.deadline_ns ? SYMC_ADVANCE_EXPIRED
                                                : SYMC_ADVANCE_LOOK);
        if (status != SYMMCOLL_IN_PROGRESS)
            return status;
        symc_run_await_progress(queue->runner, op, &budget);
    }
}

symmcoll_status_t symc_work_await(
    struct symc_queue *queue, const struct symc_op *op, uint64_t ticket)
{
    int cancel = symc_cancel_disable();
    struct symmcoll_work *work = symc_work_create(queue, op);
    symmcoll_status_t status;

    if (work == NULL) {
        status = await_here(queue, op);
        symc_queue_leave(queue, ticket);
    } else {
        work->issued = true;
        symc_queue_append(queue, work);
        symc_queue_leave(queue, ticket);
        do
            await_issued(work, &work->ended, SYMC_NEVER, true);
        while (!has_ended(work) && !symc_device_give_up(queue->runner, work));
        status =
            has_ended(work) ? symc_work_result(work) : symc_work_refuse(work);
        symc_work_release(work);
    }
    symc_cancel_restore(cancel);
    return status;
}

symmcoll_status_t symmcoll_work_test(struct symmcoll_work *work)
{
    if (work == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "work_test: expected a work, found NULL");
    if (look_once(work))
        return symc_work_result(work);
    /* A caller that polls in a loop may keep the processor from the ranks it
     * waits for. */
    if (symc_wait_shares(&work->engine->origin.waiting) &&
        symc_wait_polling_ns(&work->engine->origin.waiting, symc_now_ns()) > 0)
        symc_wait_yield(&work->engine->origin.waiting);
    return SYMMCOLL_IN_PROGRESS;
}

void symmcoll_work_free(struct symmcoll_work *work)
{
    if (work == NULL)
        return;
    if (!has_ended(work))
        symc_work_entrust(work);
    symc_work_release(work);
}

const char *symmcoll_work_error(const struct symmcoll_work *work)
{
    if (work == NULL ||
        atomic_load_explicit(&work->ended, memory_order_acquire) == 0)
        return "";
    return work->status < 0 ? work->error.detail : "";
}

int symmcoll_work_source(const struct symmcoll_work *work)
{
    return work == NULL || !has_ended(work) ? -1 : work->source;
}

uint64_t symmcoll_work_sequence(const struct symmcoll_work *work)
{
    return work == NULL ? 0 : symc_op_get_seq(&work->op);
}

/* ---- callbacks, also those added while a work completes ---- */

/* One function to be called when a work completes. */
struct notice {
    struct symc_callback callback;
    struct symmcoll_work *work; /* holds a reference */
    symmcoll_work_fn fn;        /* exactly one of the two is set */
    symmcoll_work_ended_fn ended_fn;
    void *arg;
};

static void release(struct notice *notice)
{
    symc_work_release(notice->work);
    free(notice);
}

/* Calls the user's function, on the callback thread. */
static void run(struct symc_callback *callback)
{
    struct notice *notice =
        (void *)((char *)callback - offsetof(struct notice, callback));
    struct symmcoll_work *work = notice->work;

    /* Sets the error for symmcoll_last_error() in the callback. */
    (void)symc_work_result(work);
    if (notice->ended_fn != NULL)
        notice->ended_fn(work, work->status, notice->arg);
    else
        notice->fn(work->status, notice->arg);
    release(notice);
}

/* Adds a callback to a work.  Returns false if the work's callbacks have all
 * been queued. */
static bool add_callback(
    struct symmcoll_work *work, struct symc_callback *callback)
{
    callback->next = atomic_load(&work->callbacks);
    for (;;) {
        if (callback->next == SYMC_CALLED)
            return false;
        if (callback->next == SYMC_CALLING) {
            sched_yield();
            callback->next = atomic_load(&work->callbacks);
        } else if (atomic_compare_exchange_weak(
                       &work->callbacks, &callback->next, callback)) {
            return true;
        }
    }
}

static symmcoll_status_t add_notice(
    const char *where, struct symmcoll_work *work, const struct notice *wanted)
{
    struct notice *notice;
    symmcoll_status_t status;

    if (work == NULL || (wanted->fn == NULL && wanted->ended_fn == NULL))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a work and a function, found NULL", where);
    if (*work->engine->origin.alive != 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected the process that called init, found a fork of it",
            where);
    status = symc_callbacks_start(&work->engine->callbacks, where);
    if (status != SYMMCOLL_OK)
        return status;
    notice = symc_alloc(1, sizeof(*notice));
    if (notice == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    *notice = *wanted;
    notice->callback = (struct symc_callback){.run = run, .queue = work->queue};
    notice->work = work;
    symc_work_hold(work);
    if (add_callback(work, &notice->callback)) {
        symc_work_entrust(work);
        return SYMMCOLL_OK;
    }
    if (symc_callbacks_push(&work->engine->callbacks, &notice->callback))
        return SYMMCOLL_OK;
    release(notice);
    /* The thread was stopped concurrently: starting it reports that. */
    return symc_callbacks_start(&work->engine->callbacks, where);
}

symmcoll_status_t symmcoll_work_then(
    struct symmcoll_work *work, symmcoll_work_fn fn, void *arg)
{
    return add_notice(
        "work_then", work, &(struct notice){.fn = fn, .arg = arg});
}

symmcoll_status_t symmcoll_work_notify(
    struct symmcoll_work *work, symmcoll_work_ended_fn fn, void *arg)
{
    return add_notice(
        "work_notify", work, &(struct notice){.ended_fn = fn, .arg = arg});
}
