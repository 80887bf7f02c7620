/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread that copies messages of device memory.
 */
#include "message/copying.h"

#include "base/cancel.h"
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAP_NS (INT64_C(50) * 1000)           /* between two looks */
#define CLOSE_NS (INT64_C(2) * SYMC_NS_PER_S) /* for copies to end */

struct symc_copier {
    struct symc_copier *next_kept;
    struct symc_waiting *waiting;
    void (*moved)(void *arg, bool settled);
    void *arg;
    pthread_t thread;

    pthread_mutex_t adding; /* of devices, which are never removed */
    struct symc_copier_device *devices;

    pthread_mutex_t lock; /* protects the following */
    pthread_cond_t changed;
    struct symc_copying *added; /* for the thread to take */
    bool requested;             /* there is something to do */
    bool stopping;
    pthread_cond_t ended;              /* `over` is set */
    const struct symc_copying *inside; /* the thread is in the driver for it */
    int64_t inside_ns;                 /* since when */
    bool left;                         /* only the copier still exists */
    bool over;

    struct symc_copying *all; /* used by the thread only */
};

/* Copiers that a device or a driver may still use. */
static struct symc_copier *_Atomic kept;

static void wake_thread(struct symc_copier *copier)
{
    pthread_mutex_lock(&copier->lock);
    copier->requested = true;
    pthread_cond_signal(&copier->changed);
    pthread_mutex_unlock(&copier->lock);
}

/* ---- the thread ---- */

/* Records that the thread is in the driver for a message, and uses only the copier's
 * memory; NULL: it is not.  Returns false if it was left there, and all else of the rank
 * is gone. */
static bool enter(
    struct symc_copier *copier, const struct symc_copying *copying)
{
    bool left;

    pthread_mutex_lock(&copier->lock);
    left = copier->left;
    copier->inside = copying;
    copier->inside_ns = copying != NULL ? symc_now_ns() : 0;
    pthread_mutex_unlock(&copier->lock);
    return !left;
}

/* Takes the messages that were added, and advances all; returns false if it was left. */
static bool advance_all(struct symc_copier *copier, struct symc_copying *added,
    struct symc_copying_step *step)
{
    struct symc_copying **at = &copier->all;

    *step = (struct symc_copying_step){.runs = false};
    while (*at != NULL)
        at = &(*at)->next;
    *at = added;
    at = &copier->all;
    while (*at != NULL) {
        struct symc_copying *copying = *at;

        if (!enter(copier, copying))
            return false;
        symc_copying_advance(copying, step);
        if (!enter(copier, NULL))
            return false;
        if (atomic_load_explicit(&copying->released, memory_order_acquire) &&
            copying->begun == symc_copying_copied(copying)) {
            *at = copying->next;
            symc_copying_discard(copying);
        } else {
            at = &copying->next;
        }
    }
    return true;
}

/* Pauses: polls for a moment after progress, because more is likely soon. */
static void pause_briefly(struct symc_copier *copier, int64_t moved_ns)
{
    const struct symc_waiting *waiting = copier->waiting;
    const struct timespec nap = {.tv_nsec = NAP_NS};
    int64_t now = symc_now_ns();

    if (!symc_wait_shares(waiting) &&
        now - moved_ns < symc_wait_polling_ns(waiting, now))
        symc_pause();
    else
        nanosleep(&nap, NULL);
}

/* Serves until it is to stop and no device copies, or until it was left. */
static void serve(struct symc_copier *copier)
{
    struct symc_copying_step step = {.runs = false};
    int64_t moved_ns = symc_now_ns();

    for (;;) {
        struct symc_copying *added;
        bool stopping;

        pthread_mutex_lock(&copier->lock);
        while (!step.runs && !copier->requested && !copier->stopping)
            pthread_cond_wait(&copier->changed, &copier->lock);
        if (copier->requested)
            moved_ns = symc_now_ns();
        copier->requested = false;
        added = copier->added;
        copier->added = NULL;
        stopping = copier->stopping;
        pthread_mutex_unlock(&copier->lock);
        if (!advance_all(copier, added, &step))
            return;
        if (stopping && (!step.runs || symc_now_ns() - moved_ns > CLOSE_NS))
            return;
        if (step.moved || step.settled) {
            moved_ns = symc_now_ns();
            copier->moved(copier->arg, step.settled);
        }
        if (step.runs && !step.moved)
            pause_briefly(copier, moved_ns);
    }
}

static void *run(void *arg)
{
    struct symc_copier *copier = arg;

    serve(copier);
    pthread_mutex_lock(&copier->lock);
    copier->over = true;
    pthread_cond_signal(&copier->ended);
    pthread_mutex_unlock(&copier->lock);
    return NULL;
}

static void destroy(struct symc_copier *copier)
{
    pthread_cond_destroy(&copier->ended);
    pthread_cond_destroy(&copier->changed);
    pthread_mutex_destroy(&copier->lock);
    pthread_mutex_destroy(&copier->adding);
    free(copier);
}

symmcoll_status_t symc_copier_open(struct symc_waiting *waiting,
    void (*moved)(void *arg, bool settled), void *arg,
    struct symc_copier **copier)
{
    struct symc_copier *made = symc_alloc(1, sizeof(*made));
    pthread_condattr_t monotonic;
    symmcoll_status_t status;

    if (made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    made->waiting = waiting;
    made->moved = moved;
    made->arg = arg;
    pthread_mutex_init(&made->adding, NULL);
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&made->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    status = symc_thread_start(&made->thread, "symc-copier", 0, run, made);
    if (status == SYMMCOLL_OK) {
        *copier = made;
        return status;
    }
    destroy(made);
    return status;
}

/* Explains that the thread has not returned from the driver.  Called with the
 * lock held. */
static void describe_inside(const struct symc_copier *copier, char *text)
{
    const struct symc_copying *copying = copier->inside;

    snprintf(text, SYMC_DETAIL_MAX,
        "the driver of device %d has not returned for %.3g s to the thread "
        "symc-copier, which copies %zu bytes at %p to %s: it is left there, and may "
        "still use them",
        copying->device->number,
        (double)(symc_now_ns() - copier->inside_ns) / (double)SYMC_NS_PER_S,
        copying->nbytes, (void *)copying->at,
        copying->sends ? "send them" : "receive them");
}

/* Waits until the thread is over; false, with a text: it is in the driver at the
 * deadline. */
static bool await_thread(
    struct symc_copier *copier, int64_t until_ns, char *text)
{
    bool over;

    pthread_mutex_lock(&copier->lock);
    copier->stopping = true;
    pthread_cond_signal(&copier->changed);
    while (!copier->over && !copier->left) {
        const int64_t now = symc_now_ns();
        const int64_t wake = now < until_ns ? until_ns : now + NAP_NS;
        const struct timespec at = {wake / SYMC_NS_PER_S, wake % SYMC_NS_PER_S};

        copier->left = now >= until_ns && copier->inside != NULL;
        if (!copier->left)
            (void)pthread_cond_timedwait(&copier->ended, &copier->lock, &at);
    }
    over = copier->over;
    if (!over)
        describe_inside(copier, text);
    pthread_mutex_unlock(&copier->lock);
    return over;
}

static void keep_for_good(struct symc_copier *copier)
{
    copier->next_kept = atomic_load(&kept);
    while (!atomic_compare_exchange_weak(&kept, &copier->next_kept, copier))
        continue;
}

bool symc_copier_leave(
    struct symc_copier *copier, int64_t timeout_ns, char *text)
{
    bool over;

    text[0] = '\0';
    if (copier == NULL)
        return true;
    over = await_thread(
        copier, symc_deadline_ns(symc_now_ns() + CLOSE_NS, timeout_ns), text);
    if (over)
        pthread_join(copier->thread, NULL);
    else
        pthread_detach(copier->thread);
    if (!over || copier->all != NULL) {
        keep_for_good(copier);
        return false;
    }
    for (struct symc_copier_device *at = copier->devices; at != NULL;
         at = at->next)
        at->ops->leave(at->transfer);
    return true;
}

void symc_copier_close(struct symc_copier *copier, bool keep)
{
    if (copier == NULL)
        return;
    while (copier->devices != NULL) {
        struct symc_copier_device *first = copier->devices;

        copier->devices = first->next;
        first->ops->close(first->transfer, keep);
        free(first);
    }
    destroy(copier);
}

/* ---- by callers ---- */

/* Finds, or opens, the device of a request.  Called with `adding` held. */
static symmcoll_status_t find_device(struct symc_copier *copier,
    const struct symc_memory_request *request,
    const struct symc_copier_opener *opener, struct symc_copier_device **device)
{
    struct symc_copier_device *found = copier->devices;
    symmcoll_status_t status;

    while (found != NULL && !found->ops->serves(found->transfer, request))
        found = found->next;
    *device = found;
    if (found != NULL)
        return SYMMCOLL_OK;
    found = symc_alloc(1, sizeof(*found));
    if (found == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    status = opener->open(opener->arg, request, &found->ops, &found->transfer);
    if (status != SYMMCOLL_OK) {
        free(found);
        return status;
    }
    found->number = request->device;
    found->next = copier->devices;
    copier->devices = found;
    *device = found;
    return SYMMCOLL_OK;
}

static symmcoll_status_t prepare(struct symc_copying *copying,
    const struct symc_memory_request *request,
    const struct symc_copier_opener *opener, const struct symc_op *op,
    size_t chunk)
{
    const struct symc_copier_device *device;
    symmcoll_status_t status;

    pthread_mutex_lock(&copying->copier->adding);
    status = find_device(copying->copier, request, opener, &copying->device);
    pthread_mutex_unlock(&copying->copier->adding);
    if (status != SYMMCOLL_OK)
        return status;
    device = copying->device;
    copying->place.chunk = chunk;
    if (copying->sends)
        status = device->ops->stage(device->transfer,
            SYMC_COPIER_AREAS * SYMC_COPIES * chunk, &copying->place.staging);
    return status == SYMMCOLL_OK
               ? device->ops->mark(device->transfer, op->stream, &copying->mark)
               : status;
}

symmcoll_status_t symc_copier_begin(struct symc_copier *copier,
    const struct symc_memory_request *request,
    const struct symc_copier_opener *opener, const struct symc_op *op,
    size_t chunk, struct symc_copying **copying)
{
    struct symc_copying *made = symc_alloc(1, sizeof(*made));
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = SYMMCOLL_ERR_NO_MEMORY;

    if (made != NULL) {
        made->copier = copier;
        made->sends = op->kind == SYMC_SEND;
        made->at = made->sends ? (char *)(uintptr_t)op->in : op->out;
        made->nbytes = op->count * op->elem;
        atomic_init(&made->waits, true);
        status = prepare(made, request, opener, op, chunk);
    }
    if (status == SYMMCOLL_OK) {
        pthread_mutex_lock(&copier->lock);
        made->next = copier->added;
        copier->added = made;
        copier->requested = true;
        pthread_cond_signal(&copier->changed);
        pthread_mutex_unlock(&copier->lock);
        *copying = made;
    } else {
        free(made);
    }
    symc_cancel_restore(cancel);
    return status;
}

void symc_copying_grant(
    struct symc_copying *copying, uint64_t chunks, uint64_t area)
{
    const uint64_t before =
        atomic_load_explicit(&copying->granted, memory_order_relaxed);

    if (chunks <= before)
        return;
    if (before == 0)
        copying->area = area;
    atomic_store_explicit(&copying->granted, chunks, memory_order_release);
    wake_thread(copying->copier);
}

bool symc_copying_stop(struct symc_copying *copying)
{
    if (!atomic_exchange(&copying->stopping, true))
        wake_thread(copying->copier);
    return atomic_load(&copying->idle);
}

void symc_copying_release(struct symc_copying *copying)
{
    struct symc_copier *copier;

    if (copying == NULL)
        return;
    copier = copying->copier;
    atomic_store(&copying->stopping, true);
    atomic_store_explicit(&copying->released, true, memory_order_release);
    /* From here on `copying` may be freed. */
    wake_thread(copier);
}
