/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copying one message of device memory, in the copier's thread: it begins the chunks that
 * are granted, and checks for those that have ended.
 */
#include "message/copying.h"

#include <stdio.h>
#include <stdlib.h>

/* Records a failure, keeping the first one. */
static void fail(struct symc_copying *copying, symmcoll_status_t status)
{
    if (atomic_load(&copying->failed))
        return;
    symc_error_keep(&copying->error, status);
    atomic_store_explicit(&copying->failed, true, memory_order_release);
}

/* Returns whether the caller's stream has reached the operation. */
static bool is_due(struct symc_copying *copying)
{
    const struct symc_copier_device *device = copying->device;
    symmcoll_status_t status;

    if (copying->mark == NULL)
        return true;
    status = device->ops->reached(device->transfer, copying->mark);
    if (status == SYMMCOLL_IN_PROGRESS)
        return false;
    device->ops->unmark(device->transfer, copying->mark);
    copying->mark = NULL;
    atomic_store(&copying->waits, false);
    if (status != SYMMCOLL_OK)
        fail(copying, status);
    return status == SYMMCOLL_OK;
}

/* Finds the address of the message's area in the staging. */
static symmcoll_status_t find_staging(struct symc_copying *copying)
{
    const struct symc_copier_device *device = copying->device;
    void *at = (void *)(uintptr_t)copying->place.staging.at;
    symmcoll_status_t status = SYMMCOLL_OK;

    if (copying->staging != NULL)
        return status;
    if (!copying->sends)
        status = device->ops->reach(
            device->transfer, &copying->place.staging, copying->threads, &at);
    if (status == SYMMCOLL_OK)
        copying->staging = (char *)at + copying->area * SYMC_COPIES *
                                            (size_t)copying->place.chunk;
    return status;
}

static symmcoll_status_t begin_chunk(struct symc_copying *copying)
{
    const struct symc_copier_device *device = copying->device;
    const size_t chunk = (size_t)copying->place.chunk;
    const size_t from = (size_t)copying->begun * chunk;
    const size_t left = copying->nbytes - from;
    char *mine = copying->at + from;
    char *staging;
    symmcoll_status_t status = find_staging(copying);

    if (status != SYMMCOLL_OK)
        return status;
    staging = copying->staging + copying->begun % SYMC_COPIES * chunk;
    status =
        device->ops->copy(device->transfer, copying->sends ? staging : mine,
            copying->sends ? mine : staging, left < chunk ? left : chunk,
            &copying->marks[copying->begun % SYMC_COPIES]);
    if (status == SYMMCOLL_OK)
        copying->begun++;
    return status;
}

/* Counts the chunks that have been copied; returns whether there were any. */
static bool end_chunks(struct symc_copying *copying)
{
    const struct symc_copier_device *device = copying->device;
    uint64_t copied = symc_copying_copied(copying), before = copied;

    while (copied < copying->begun) {
        void *mark = copying->marks[copied % SYMC_COPIES];
        symmcoll_status_t status = device->ops->reached(device->transfer, mark);

        if (status == SYMMCOLL_IN_PROGRESS)
            break;
        device->ops->unmark(device->transfer, mark);
        if (status != SYMMCOLL_OK) {
            /* The context is broken: nothing runs there. */
            while (++copied < copying->begun)
                device->ops->unmark(
                    device->transfer, copying->marks[copied % SYMC_COPIES]);
            copying->begun = before;
            fail(copying, status);
            return false;
        }
        copied++;
    }
    atomic_store_explicit(&copying->copied, copied, memory_order_release);
    return copied > before;
}

static bool is_ending(const struct symc_copying *copying)
{
    return atomic_load(&copying->stopping) || atomic_load(&copying->failed);
}

static void begin_chunks(
    struct symc_copying *copying, struct symc_copying_step *step)
{
    const bool waited = atomic_load(&copying->waits);
    symmcoll_status_t status = SYMMCOLL_OK;
    uint64_t granted =
        atomic_load_explicit(&copying->granted, memory_order_acquire);

    if (!is_due(copying))
        return;
    step->moved = step->moved || waited;
    /* Each call may take long, and the message may be given up in that time. */
    while (status == SYMMCOLL_OK && !is_ending(copying) &&
           copying->begun < granted &&
           copying->begun - symc_copying_copied(copying) < SYMC_COPIES)
        status = begin_chunk(copying);
    if (status != SYMMCOLL_OK)
        fail(copying, status);
}

void symc_copying_advance(
    struct symc_copying *copying, struct symc_copying_step *step)
{
    const bool failed = atomic_load(&copying->failed);
    bool runs;

    if (end_chunks(copying))
        step->moved = true;
    if (!is_ending(copying))
        begin_chunks(copying, step);
    runs = copying->begun > symc_copying_copied(copying);
    step->runs =
        step->runs || runs || (copying->mark != NULL && !is_ending(copying));
    if ((atomic_load(&copying->failed) && !failed) ||
        (is_ending(copying) && !runs &&
            !atomic_exchange(&copying->idle, true) &&
            !atomic_load(&copying->released)))
        step->settled = true;
}

void symc_copying_discard(struct symc_copying *copying)
{
    const struct symc_copier_device *device = copying->device;

    if (copying->mark != NULL)
        device->ops->unmark(device->transfer, copying->mark);
    free(copying);
}
