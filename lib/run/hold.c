/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creation and release of what a group's queue and its works share.
 */
#include "run/engine.h"
#include "run/queue.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct symc_queue) % SYMC_FALSE_SHARING == 0,
    "aligned_alloc() wants a multiple");

symmcoll_status_t symc_queue_create(const struct symc_queue_ops *ops,
    struct symc_engine *engine, struct symc_queue **queue)
{
    struct symc_queue *made = aligned_alloc(SYMC_FALSE_SHARING, sizeof(*made));

    if (made == NULL)
        return symc_fail(SYMMCOLL_ERR_NO_MEMORY,
            "operation queue: %zu bytes asked for", sizeof(*made));
    memset(made, 0, sizeof(*made));
    made->ops = *ops;
    symc_engine_hold(engine);
    made->engine = engine;
    pthread_mutex_init(&made->lock, NULL);
    pthread_mutex_init(&made->running_lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    atomic_init(&made->holders, 1);
    *queue = made;
    return SYMMCOLL_OK;
}

void symc_queue_release(struct symc_queue *queue)
{
    struct symc_engine *engine = queue->engine;

    /* Acquire: the last holder must see the other holders' writes. */
    if (atomic_fetch_sub_explicit(&queue->holders, 1, memory_order_acq_rel) > 1)
        return;
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->running_lock);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
    symc_engine_release(engine);
}
