/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread pool of a world, which runs queued operations.
 *
 * INVARIANT: a task never waits for a thread of the pool.  A task runs the
 * queued operations of one group, which may block until those of another group
 * have ended on another rank; so each task gets a thread at once, an idle or a
 * new one.  A world therefore has at most one thread per group with queued
 * operations, plus those that became idle within the last second, one that
 * stays, and the attendant.
 */
#ifndef SYMC_RUN_POOL_H
#define SYMC_RUN_POOL_H

#include "base/base.h"

#include <pthread.h>

/* A task of the pool.  The thread calls run() and does not access the task
 * afterwards. */
struct symc_task {
    void (*run)(struct symc_task *task);
};

struct symc_pool_thread;

struct symc_pool {
    pthread_mutex_t lock;
    struct symc_pool_thread *idle;  /* latest first */
    struct symc_pool_thread *ended; /* to be joined */
    int threads;                    /* threads that have not ended */
    bool stopping;
};

/* Runs a task on an idle or new thread.  Errors: NO_MEMORY, SYSTEM. */
symmcoll_status_t symc_pool_run(struct symc_pool *pool, struct symc_task *task);

void symc_pool_init(struct symc_pool *pool);

/* Ends all threads; no task may be running. */
void symc_pool_stop(struct symc_pool *pool);

/* Releases the resources, after symc_pool_stop(). */
void symc_pool_destroy(struct symc_pool *pool);

#endif
