/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Callbacks of works, also those added while the work completes.
 */
#include "run/work.h"

#include <sched.h>
#include <stddef.h>
#include <stdlib.h>

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
