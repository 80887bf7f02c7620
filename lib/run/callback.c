/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue of callbacks and the thread that runs them in order.
 */
#include "base/cancel.h"
#include "base/thread.h"
#include "run/engine.h"

#include <errno.h>
#include <time.h>

void symc_callbacks_init(struct symc_callbacks *callbacks)
{
    pthread_mutex_init(&callbacks->lock, NULL);
    symc_condition_init(&callbacks->changed);
}

/* Removes and returns the first callback for works of a queue, or of any queue
 * (NULL). */
static struct symc_callback *pop(
    struct symc_callbacks *callbacks, const struct symc_queue *queue)
{
    struct symc_callback **at = &callbacks->head, *callback, *before = NULL;

    while (*at != NULL && queue != NULL && (*at)->queue != queue) {
        before = *at;
        at = &before->next;
    }
    callback = *at;
    if (callback == NULL)
        return NULL;
    *at = callback->next;
    if (callback->next == NULL)
        callbacks->tail = before;
    return callback;
}

/* Runs a callback.  Needs the lock, which is released during the call. */
static void call(
    struct symc_callbacks *callbacks, struct symc_callback *callback)
{
    struct symc_calling calling = {callback->queue, callbacks->calling};

    callbacks->calling = &calling;
    pthread_mutex_unlock(&callbacks->lock);
    callback->run(callback);
    pthread_mutex_lock(&callbacks->lock);
    callbacks->calling = calling.outer;
    pthread_cond_broadcast(&callbacks->changed);
}

static void *run(void *arg)
{
    struct symc_callbacks *callbacks = arg;

    /* A callback must not cancel the thread, which runs all of them. */
    symc_cancel_disable();
    pthread_mutex_lock(&callbacks->lock);
    for (;;) {
        struct symc_callback *callback = pop(callbacks, NULL);

        if (callback == NULL && callbacks->stopping)
            break;
        if (callback == NULL) {
            pthread_cond_wait(&callbacks->changed, &callbacks->lock);
            continue;
        }
        call(callbacks, callback);
    }
    callbacks->over = true;
    pthread_mutex_unlock(&callbacks->lock);
    return NULL;
}

symmcoll_status_t symc_callbacks_start(
    struct symc_callbacks *callbacks, const char *where)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    pthread_mutex_lock(&callbacks->lock);
    if (callbacks->over) {
        status = symc_fail(SYMMCOLL_ERR_ABORTED,
            "%s: the world has been finalized: no callback is run any more",
            where);
    } else if (!atomic_load(&callbacks->running)) {
        status = symc_thread_start(
            &callbacks->thread, "symc-callback", 0, run, callbacks);
        atomic_store(&callbacks->running, status == SYMMCOLL_OK);
    }
    pthread_mutex_unlock(&callbacks->lock);
    return status;
}

bool symc_callbacks_push(
    struct symc_callbacks *callbacks, struct symc_callback *callback)
{
    bool taken;

    callback->next = NULL;
    pthread_mutex_lock(&callbacks->lock);
    taken = !callbacks->over;
    if (taken) {
        if (callbacks->tail != NULL)
            callbacks->tail->next = callback;
        else
            callbacks->head = callback;
        callbacks->tail = callback;
        pthread_cond_broadcast(&callbacks->changed);
    }
    pthread_mutex_unlock(&callbacks->lock);
    return taken;
}

bool symc_callbacks_inside(struct symc_callbacks *callbacks)
{
    return atomic_load_explicit(&callbacks->running, memory_order_acquire) &&
           pthread_equal(callbacks->thread, pthread_self());
}

bool symc_callbacks_is_calling(
    const struct symc_callbacks *callbacks, const struct symc_queue *queue)
{
    const struct symc_calling *calling = callbacks->calling;

    while (calling != NULL && calling->queue != queue)
        calling = calling->outer;
    return calling != NULL;
}

symmcoll_status_t symc_callbacks_refuse(const char *where)
{
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected no blocking call on the callback thread, in a callback "
        "of the same group or in one that such a callback runs",
        where);
}

void symc_callbacks_run_queue(
    struct symc_callbacks *callbacks, const struct symc_queue *queue)
{
    struct symc_callback *callback;

    pthread_mutex_lock(&callbacks->lock);
    while ((callback = pop(callbacks, queue)) != NULL)
        call(callbacks, callback);
    pthread_mutex_unlock(&callbacks->lock);
}

/* Returns whether no callback of a queue (NULL: of any queue) is queued or
 * running.  Needs the lock. */
static bool is_idle(
    const struct symc_callbacks *callbacks, const struct symc_queue *queue)
{
    if (queue == NULL)
        return callbacks->head == NULL && callbacks->calling == NULL;
    if (symc_callbacks_is_calling(callbacks, queue))
        return false;
    for (const struct symc_callback *at = callbacks->head; at != NULL;
         at = at->next) {
        if (at->queue == queue)
            return false;
    }
    return true;
}

bool symc_callbacks_drain(struct symc_callbacks *callbacks,
    const struct symc_queue *queue, int64_t deadline_ns)
{
    struct timespec until = {.tv_sec = deadline_ns / SYMC_NS_PER_S,
        .tv_nsec = deadline_ns % SYMC_NS_PER_S};
    bool idle;

    pthread_mutex_lock(&callbacks->lock);
    while (!(idle = is_idle(callbacks, queue))) {
        if (pthread_cond_timedwait(
                &callbacks->changed, &callbacks->lock, &until) == ETIMEDOUT)
            break;
    }
    pthread_mutex_unlock(&callbacks->lock);
    return idle;
}

void symc_callbacks_stop(struct symc_callbacks *callbacks)
{
    pthread_mutex_lock(&callbacks->lock);
    callbacks->stopping = true;
    if (!atomic_load(&callbacks->running))
        callbacks->over = true;
    pthread_cond_broadcast(&callbacks->changed);
    pthread_mutex_unlock(&callbacks->lock);
    if (atomic_load(&callbacks->running))
        pthread_join(callbacks->thread, NULL);
    atomic_store(&callbacks->running, false);
}

void symc_callbacks_destroy(struct symc_callbacks *callbacks)
{
    pthread_cond_destroy(&callbacks->changed);
    pthread_mutex_destroy(&callbacks->lock);
}
