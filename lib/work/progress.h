/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The threads of a world that end works for which nobody waits: a pool that
 * runs queued operations, and one thread that attends to issued ones.
 *
 * INVARIANT: a task never waits for a thread of the pool.  It is the queued
 * operations of one group, which may run until those of another group have
 * ended on another rank; so each task gets a thread at once, one that is idle or
 * a new one.  Therefore the threads of a world are at most one for each group
 * that has queued operations at this moment, those that have become idle within
 * the last second, one that stays, and the one that attends.
 */
#ifndef SYMC_WORK_PROGRESS_H
#define SYMC_WORK_PROGRESS_H

#include "base/base.h"

#include <pthread.h>

struct symc_queue;

/* What a thread of the pool is given: it calls run, and touches the task no
 * more. */
struct symc_task {
    void (*run)(struct symc_task *task);
};

struct symc_pool_thread;

struct symc_pool {
    pthread_mutex_t lock;
    struct symc_pool_thread *idle;  /* the latest first */
    struct symc_pool_thread *ended; /* to be joined */
    int threads;                    /* that have not ended */
    bool stopping;
};

/* The thread that attends to issued works, and the queues that have some. */
struct symc_attendant {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a queue is listed or asks, or it is to stop */
    pthread_cond_t left;    /* it looks at no queue */
    struct symc_queue *head, *tail;
    int listed;                 /* how many */
    struct symc_queue *visited; /* the one that it looks at */
    pthread_t thread;
    bool running;
    bool asked; /* some queue asks */
    bool stopping;
};

/* Run a task on an idle thread or on a new one.  Errors: NO_MEMORY, SYSTEM. */
symmcoll_status_t symc_pool_run(struct symc_pool *pool, struct symc_task *task);

void symc_pool_init(struct symc_pool *pool);

/* End all threads; no task may be running. */
void symc_pool_stop(struct symc_pool *pool);

/* Release, after symc_pool_stop(). */
void symc_pool_destroy(struct symc_pool *pool);

void symc_attendant_init(struct symc_attendant *attendant);
void symc_attendant_destroy(struct symc_attendant *attendant);

#endif
