/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue with a ticket that is not passed on because its holder is stuck in a
 * backend: giving up tickets, and works.
 */
#include "run/device.h"

#include <stdlib.h>

/* ---- tickets ---- */

void symc_queue_skip(struct symc_queue *queue)
{
    struct symc_given_up *before = NULL, *at;

    if (atomic_load(&queue->given_up) == NULL)
        return;
    pthread_mutex_lock(&queue->lock);
    at = atomic_load(&queue->given_up);
    while (at != NULL) {
        struct symc_given_up *next = at->next;

        if (atomic_load(&queue->serving) != at->ticket) {
            before = at;
            at = next;
            continue;
        }
        if (before != NULL)
            before->next = next;
        else
            atomic_store(&queue->given_up, next);
        symc_queue_leave(queue, at->ticket);
        free(at);
        /* A given-up ticket earlier in the list may be served now. */
        before = NULL;
        at = atomic_load(&queue->given_up);
    }
    pthread_mutex_unlock(&queue->lock);
}

bool symc_queue_give_up(struct symc_queue *queue, uint64_t ticket)
{
    struct symc_given_up *made = malloc(sizeof(*made));
    bool given = false;

    if (made == NULL)
        return false;
    pthread_mutex_lock(&queue->lock);
    if (atomic_load(&queue->serving) != ticket) {
        made->ticket = ticket;
        made->next = atomic_load(&queue->given_up);
        atomic_store(&queue->given_up, made);
        given = true;
    }
    pthread_mutex_unlock(&queue->lock);
    if (!given)
        free(made);
    return given;
}

/* ---- works ---- */

bool symc_work_is_stuck(struct symmcoll_work *work)
{
    bool stuck = false;

    if (symc_work_is_mine(work) && symc_work_enter(work)) {
        stuck = symc_slot_stands(work->queue->runner, false);
        symc_work_leave(work);
    }
    return stuck;
}

symmcoll_status_t symc_work_refuse(struct symmcoll_work *work)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    if (symc_work_enter(work)) {
        status = symc_device_refuse(work->queue->runner, &work->op,
            symc_queue_runs(&work->op) && work->owned);
        symc_work_leave(work);
    }
    return status == SYMMCOLL_OK ? symc_work_result(work) : status;
}
