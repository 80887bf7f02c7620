/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread pool.  The thread that became idle last takes the next task, so
 * that surplus threads stay idle and end after a while.
 */
#include "run/engine.h"

#include "base/thread.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#define IDLE_NS SYMC_NS_PER_S /* idle time after which a thread ends */
#define IDLE_KEPT 1           /* idle threads that stay */

struct symc_pool_thread {
    struct symc_pool_thread *next;
    struct symc_pool *pool;
    struct symc_task *task; /* NULL: idle */
    pthread_t thread;
    pthread_cond_t changed;
};

void symc_pool_init(struct symc_pool *pool)
{
    *pool = (struct symc_pool){0};
    pthread_mutex_init(&pool->lock, NULL);
}

void symc_pool_destroy(struct symc_pool *pool)
{
    pthread_mutex_destroy(&pool->lock);
}

static bool is_last(const struct symc_pool *pool)
{
    return pool->threads <= IDLE_KEPT;
}

static void remove_idle(struct symc_pool_thread *self)
{
    struct symc_pool_thread **at = &self->pool->idle;

    while (*at != self)
        at = &(*at)->next;
    *at = self->next;
}

/* Waits for a task.  Needs the lock.  Returns NULL if the thread is to end. */
static struct symc_task *await_task(struct symc_pool_thread *self)
{
    struct symc_pool *pool = self->pool;
    int64_t until = symc_now_ns() + IDLE_NS;
    struct timespec time = {
        .tv_sec = until / SYMC_NS_PER_S, .tv_nsec = until % SYMC_NS_PER_S};

    self->task = NULL;
    self->next = pool->idle;
    pool->idle = self;
    while (self->task == NULL && !pool->stopping) {
        if (is_last(pool))
            pthread_cond_wait(&self->changed, &pool->lock);
        else if (pthread_cond_timedwait(&self->changed, &pool->lock, &time) ==
                     ETIMEDOUT &&
                 self->task == NULL && !is_last(pool))
            break;
    }
    if (self->task == NULL)
        remove_idle(self);
    return self->task;
}

static void *run_tasks(void *arg)
{
    struct symc_pool_thread *self = arg;
    struct symc_pool *pool = self->pool;
    struct symc_task *task = self->task;

    do {
        task->run(task);
        pthread_mutex_lock(&pool->lock);
        task = await_task(self);
        if (task == NULL) {
            pool->threads--;
            self->next = pool->ended;
            pool->ended = self;
        }
        pthread_mutex_unlock(&pool->lock);
    } while (task != NULL);
    return NULL;
}

static void release(struct symc_pool_thread *thread)
{
    pthread_cond_destroy(&thread->changed);
    free(thread);
}

/* Joins threads that have ended or are about to. */
static void join_all(struct symc_pool_thread *ended)
{
    while (ended != NULL) {
        struct symc_pool_thread *next = ended->next;

        pthread_join(ended->thread, NULL);
        release(ended);
        ended = next;
    }
}

/* Starts a thread for a task.  Needs the lock. */
static symmcoll_status_t start(struct symc_pool *pool, struct symc_task *task)
{
    struct symc_pool_thread *made = symc_alloc(1, sizeof(*made));
    symmcoll_status_t status;

    if (made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    made->pool = pool;
    made->task = task;
    symc_condition_init(&made->changed);
    status =
        symc_thread_start(&made->thread, "symc-progress", 0, run_tasks, made);
    if (status == SYMMCOLL_OK)
        pool->threads++;
    else
        release(made);
    return status;
}

symmcoll_status_t symc_pool_run(struct symc_pool *pool, struct symc_task *task)
{
    symmcoll_status_t status = SYMMCOLL_OK;
    struct symc_pool_thread *idle, *ended;

    pthread_mutex_lock(&pool->lock);
    idle = pool->idle;
    if (idle != NULL) {
        pool->idle = idle->next;
        idle->task = task;
        pthread_cond_signal(&idle->changed);
    } else {
        status = start(pool, task);
    }
    ended = pool->ended;
    pool->ended = NULL;
    pthread_mutex_unlock(&pool->lock);
    join_all(ended);
    return status;
}

void symc_pool_stop(struct symc_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    for (struct symc_pool_thread *at = pool->idle; at != NULL; at = at->next)
        pthread_cond_signal(&at->changed);
    while (pool->threads > 0 || pool->ended != NULL) {
        struct symc_pool_thread *ended = pool->ended;

        pool->ended = NULL;
        pthread_mutex_unlock(&pool->lock);
        join_all(ended);
        sched_yield();
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
}
