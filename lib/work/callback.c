/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue of callbacks and the thread that runs them, in order.
 */
#include "work/callback.h"
#include "work/thread.h"

#include <stdlib.h>

void symc_callbacks_init(struct symc_callbacks *callbacks)
{
    pthread_mutex_init(&callbacks->lock, NULL);
    pthread_cond_init(&callbacks->changed, NULL);
}

static struct symc_callback *pop(struct symc_callbacks *callbacks)
{
    struct symc_callback *callback = callbacks->head;

    if (callback != NULL)
        callbacks->head = callback->next;
    if (callbacks->head == NULL)
        callbacks->tail = NULL;
    return callback;
}

static void *run(void *arg)
{
    struct symc_callbacks *callbacks = arg;

    pthread_mutex_lock(&callbacks->lock);
    for (;;) {
        struct symc_callback *callback = pop(callbacks);

        if (callback == NULL && callbacks->stopping)
            break;
        if (callback == NULL) {
            pthread_cond_wait(&callbacks->changed, &callbacks->lock);
            continue;
        }
        pthread_mutex_unlock(&callbacks->lock);
        callback->fn(callback->status, callback->arg);
        free(callback);
        pthread_mutex_lock(&callbacks->lock);
    }
    pthread_mutex_unlock(&callbacks->lock);
    return NULL;
}

symmcoll_status_t symc_callbacks_start(struct symc_callbacks *callbacks)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    pthread_mutex_lock(&callbacks->lock);
    if (!atomic_load(&callbacks->running)) {
        status = symc_thread_start(
            &callbacks->thread, "symc-callback", run, callbacks);
        atomic_store(&callbacks->running, status == SYMMCOLL_OK);
    }
    pthread_mutex_unlock(&callbacks->lock);
    return status;
}

void symc_callbacks_push(
    struct symc_callbacks *callbacks, struct symc_callback *callback)
{
    callback->next = NULL;
    pthread_mutex_lock(&callbacks->lock);
    if (callbacks->tail != NULL)
        callbacks->tail->next = callback;
    else
        callbacks->head = callback;
    callbacks->tail = callback;
    pthread_cond_signal(&callbacks->changed);
    pthread_mutex_unlock(&callbacks->lock);
}

bool symc_callbacks_inside(struct symc_callbacks *callbacks)
{
    return atomic_load_explicit(&callbacks->running, memory_order_relaxed) &&
           pthread_equal(callbacks->thread, pthread_self());
}

void symc_callbacks_destroy(struct symc_callbacks *callbacks)
{
    pthread_mutex_lock(&callbacks->lock);
    callbacks->stopping = true;
    pthread_cond_signal(&callbacks->changed);
    pthread_mutex_unlock(&callbacks->lock);
    if (atomic_load(&callbacks->running))
        pthread_join(callbacks->thread, NULL);
    pthread_cond_destroy(&callbacks->changed);
    pthread_mutex_destroy(&callbacks->lock);
}
