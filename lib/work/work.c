/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work handles: one asynchronous operation, held by its user and by the lane
 * that runs it; the last one to let go frees it.
 */
#include "work/work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct symmcoll_work *symc_work_create(
    struct symc_lane *lane, const struct symc_op *op)
{
    size_t nbytes = (sizeof(struct symmcoll_work) + SYMC_APART - 1) /
                    SYMC_APART * SYMC_APART;
    struct symmcoll_work *work = aligned_alloc(SYMC_APART, nbytes);

    if (work == NULL) {
        symc_fail(SYMMCOLL_ERR_NO_MEMORY, "work: %zu bytes asked for", nbytes);
        return NULL;
    }
    memset(work, 0, nbytes);
    symc_origin_hold(lane->origin);
    work->origin = lane->origin;
    work->lane = lane;
    work->op = *op;
    atomic_init(&work->holders, 2);
    pthread_mutex_init(&work->lock, NULL);
    return work;
}

void symc_work_release(struct symmcoll_work *work)
{
    if (atomic_fetch_sub(&work->holders, 1) != 1)
        return;
    pthread_mutex_destroy(&work->lock);
    symc_origin_release(work->origin);
    free(work);
}

void symc_work_end(struct symmcoll_work *work, symmcoll_status_t status)
{
    struct symc_callback *callback, *next;

    work->status = status;
    if (status < 0)
        strncpy(work->detail, symmcoll_last_error(), sizeof(work->detail) - 1);
    atomic_store_explicit(&work->seq, work->op.seq, memory_order_relaxed);
    pthread_mutex_lock(&work->lock);
    atomic_store_explicit(&work->ended, 1, memory_order_release);
    callback = work->callbacks;
    work->callbacks = NULL;
    /* Under the lock: one that is added from now on comes behind these. */
    for (; callback != NULL; callback = next) {
        next = callback->next;
        callback->status = status;
        symc_callbacks_push(&work->origin->callbacks, callback);
    }
    pthread_mutex_unlock(&work->lock);
    symc_bell_touch(&work->bell);
}

/* The final status, with its detail for the asking thread. */
static symmcoll_status_t result(const struct symmcoll_work *work)
{
    return work->status < 0 ? symc_fail(work->status, "%s", work->detail)
                            : work->status;
}

/* A wait has expired in blocking-wait mode: fail the group.  The lock keeps the
 * work from ending, and with it the lane and the group from going. */
static void expire(struct symmcoll_work *work)
{
    pthread_mutex_lock(&work->lock);
    if (atomic_load_explicit(&work->ended, memory_order_acquire) == 0)
        work->lane->ops.expire(work->lane->ops.group, &work->op);
    pthread_mutex_unlock(&work->lock);
}

symmcoll_status_t symmcoll_work_wait(struct symmcoll_work *work, double timeout)
{
    struct symc_patience patience = {.timeout_ns = SYMC_NEVER};

    if (work == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "work_wait: expected a work, found NULL");
    if (isnan(timeout))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "work_wait: expected a timeout in seconds, found NaN");
    if (atomic_load_explicit(&work->ended, memory_order_acquire) != 0)
        return result(work);
    if (*work->origin->alive != 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "work_wait: expected the process that called init, found a fork of "
            "it");
    if (symc_callbacks_inside(&work->origin->callbacks))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "work_wait: expected another thread than the callback thread");
    if (timeout >= 0)
        patience.deadline_ns = symc_deadline_ns(timeout);
    if (timeout != 0 && symc_wait_plainly(&work->origin->waiting, &work->bell,
                            &work->ended, 1, &patience))
        return result(work);
    if (!work->origin->blocking_wait || timeout == 0)
        return symc_fail(SYMMCOLL_ERR_TIMEOUT,
            "work_wait: %s has not ended after %g s; it goes on",
            symc_kind_name(work->op.kind), timeout);
    expire(work);
    patience.deadline_ns = SYMC_NEVER;
    symc_wait_plainly(
        &work->origin->waiting, &work->bell, &work->ended, 1, &patience);
    return result(work);
}

symmcoll_status_t symmcoll_work_test(struct symmcoll_work *work)
{
    if (work == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "work_test: expected a work, found NULL");
    if (atomic_load_explicit(&work->ended, memory_order_acquire) == 0)
        return SYMMCOLL_IN_PROGRESS;
    return result(work);
}

void symmcoll_work_free(struct symmcoll_work *work)
{
    if (work != NULL)
        symc_work_release(work);
}

const char *symmcoll_work_error(const struct symmcoll_work *work)
{
    if (work == NULL ||
        atomic_load_explicit(&work->ended, memory_order_acquire) == 0)
        return "";
    return work->detail;
}

uint64_t symmcoll_work_sequence(const struct symmcoll_work *work)
{
    return work == NULL
               ? 0
               : atomic_load_explicit(&work->seq, memory_order_relaxed);
}

symmcoll_status_t symmcoll_work_then(
    struct symmcoll_work *work, symmcoll_work_fn fn, void *arg)
{
    struct symc_callback *callback;
    symmcoll_status_t status;
    bool ended;

    if (work == NULL || fn == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "work_then: expected a work and a function, found NULL");
    if (*work->origin->alive != 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "work_then: expected the process that called init, found a fork of "
            "it");
    status = symc_callbacks_start(&work->origin->callbacks);
    if (status != SYMMCOLL_OK)
        return status;
    callback = symc_alloc(1, sizeof(*callback));
    if (callback == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    callback->fn = fn;
    callback->arg = arg;
    pthread_mutex_lock(&work->lock);
    ended = atomic_load_explicit(&work->ended, memory_order_acquire) != 0;
    if (!ended) { /* behind those that came before */
        struct symc_callback **at = &work->callbacks;

        while (*at != NULL)
            at = &(*at)->next;
        *at = callback;
    }
    pthread_mutex_unlock(&work->lock);
    if (!ended)
        return SYMMCOLL_OK;
    callback->status = work->status;
    if (symc_callbacks_push(&work->origin->callbacks, callback))
        return SYMMCOLL_OK;
    free(callback);
    /* Stopped meanwhile: starting it says so. */
    return symc_callbacks_start(&work->origin->callbacks);
}
