/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Entry to a backend of device memory, which is called by one thread at a time.
 *
 * A call that enqueues may be stuck in the driver as long as its stream's queue
 * is full, without a limit: what is enqueued there may wait for the program.
 * So no thread waits for the lock without a bound: a thread that tests comes
 * back later, and one that enqueues waits for its operation's timeout.
 */
#include "run/runner.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Time that an enqueuing call may take before it counts as stuck. */
#define MOMENT_NS (SYMC_NS_PER_S / 50)
#define NAP_NS 50000

/* Locks by trying: ThreadSanitizer does not know pthread_mutex_clocklock(). */
static bool lock_until(struct symc_slot *slot, int64_t until_ns)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};

    for (int i = 0; pthread_mutex_trylock(&slot->lock) != 0; i++) {
        if (i < SYMC_QUICK_POLLS) {
            symc_pause();
            continue;
        }
        if (symc_now_ns() >= until_ns)
            return false;
        nanosleep(&nap, NULL);
    }
    return true;
}

bool symc_slot_enter(struct symc_slot *slot)
{
    int64_t since;

    if (pthread_mutex_trylock(&slot->lock) == 0)
        return true;
    pthread_mutex_lock(&slot->noted);
    since = slot->inside != NULL ? slot->entered_ns : symc_now_ns();
    pthread_mutex_unlock(&slot->noted);
    return lock_until(slot, since + MOMENT_NS);
}

void symc_slot_leave(struct symc_slot *slot)
{
    pthread_mutex_unlock(&slot->lock);
}

/* Returns how long an operation (out) has been inside; 0: none, or none of the
 * ticket's holder if has_ticket. */
static int64_t find_inside(
    struct symc_slot *slot, struct symc_op *op, bool has_ticket)
{
    int64_t took = 0;

    pthread_mutex_lock(&slot->noted);
    if (slot->inside != NULL && (slot->has_ticket || !has_ticket)) {
        *op = *slot->inside;
        took = symc_now_ns() - slot->entered_ns;
        took = took > 0 ? took : 1;
    }
    pthread_mutex_unlock(&slot->noted);
    return took;
}

#define WHERE_TEXT 64

/* Formats what has not returned: "the driver of device 1" or "NCCL". */
static const char *format_where(
    const char *library, int device, char buffer[WHERE_TEXT])
{
    if (library == NULL)
        snprintf(buffer, WHERE_TEXT, "the driver of device %d", device);
    else
        snprintf(buffer, WHERE_TEXT, "%s", library);
    return buffer;
}

/* Fails the group if an operation has been inside for limit_ns or its own
 * timeout.  Returns whether it did. */
static bool expire(struct symc_runner *runner, const struct symc_slot *slot,
    const struct symc_op *op, int64_t took, int64_t limit_ns)
{
    char text[SYMC_OP_TEXT], who[SYMC_RANK_TEXT], where[WHERE_TEXT];
    bool own[SYMC_RANKS_MAX] = {false};
    const char *library;

    if (took == 0 || (took < op->timeout_ns && took < limit_ns))
        return false;
    library = slot->backend->device->inside(slot->state);
    symc_op_format(op->kind, op->seq, op->label, text, sizeof(text));
    /* A library may wait for other ranks. */
    own[runner->rank] = library == NULL;
    symc_members_raise(&runner->members, SYMMCOLL_ERR_TIMEOUT, op, own,
        "%s of group %s timed out after %.3g s: %s has not returned to backend "
        "%s of %s, which enqueues it on stream %p: %s",
        text, runner->name, (double)took / (double)SYMC_NS_PER_S,
        format_where(library, op->device, where), slot->backend->name,
        symc_format_rank(
            &runner->members.ranks, runner->rank, SYMC_NO_PID, who),
        op->stream,
        library == NULL ? "the queue of that may be full"
                        : "another rank may not have come to it");
    return true;
}

bool symc_slot_expire_inside(
    struct symc_runner *runner, struct symc_slot *slot, int64_t limit_ns)
{
    struct symc_op op = {.kind = SYMC_BARRIER};
    int64_t took = find_inside(slot, &op, false);

    return expire(runner, slot, &op, took, limit_ns);
}

symmcoll_status_t symc_slot_enqueue(struct symc_runner *runner,
    struct symc_slot *slot, const struct symc_op *op, bool has_ticket)
{
    bool entered = pthread_mutex_trylock(&slot->lock) == 0;

    while (!entered) {
        entered = lock_until(slot, symc_now_ns() + MOMENT_NS);
        if (!entered &&
            (symc_members_failed(&runner->members) ||
                symc_slot_expire_inside(runner, slot, op->timeout_ns)))
            return symc_members_status(&runner->members, op);
    }
    pthread_mutex_lock(&slot->noted);
    slot->inside = op;
    slot->has_ticket = has_ticket;
    slot->entered_ns = symc_now_ns();
    pthread_mutex_unlock(&slot->noted);
    return SYMMCOLL_OK;
}

void symc_slot_enqueued(struct symc_slot *slot)
{
    pthread_mutex_lock(&slot->noted);
    slot->inside = NULL;
    pthread_mutex_unlock(&slot->noted);
    pthread_mutex_unlock(&slot->lock);
}

/* ---- functions for threads that wait for the ticket ---- */

bool symc_slot_stands(struct symc_runner *runner, bool expired)
{
    struct symc_slot *slot = &runner->slots[SYMC_MEMORY_DEVICE];
    struct symc_op op = {.kind = SYMC_BARRIER};
    int64_t took;

    if (!atomic_load_explicit(&slot->open, memory_order_acquire))
        return false;
    took = find_inside(slot, &op, true);
    if (took == 0)
        return false;
    /* In a failed group an unobstructed call ends soon.  A caller at its
     * deadline checks again, after the moment that each call is given. */
    return symc_members_failed(&runner->members)
               ? took >= SYMC_SLOT_CANCEL_NS
               : expire(
                     runner, slot, &op, took, expired ? MOMENT_NS : SYMC_NEVER);
}

bool symc_slot_mark_inside(
    struct symc_runner *runner, bool (*mark)(void *arg), void *arg)
{
    struct symc_slot *slot = &runner->slots[SYMC_MEMORY_DEVICE];
    bool marked;

    pthread_mutex_lock(&slot->noted);
    marked = slot->inside != NULL && slot->has_ticket && mark(arg);
    pthread_mutex_unlock(&slot->noted);
    return marked;
}

bool symc_slot_format_inside(
    struct symc_runner *runner, char *buffer, size_t nbytes)
{
    struct symc_slot *slot = &runner->slots[SYMC_MEMORY_DEVICE];
    struct symc_op op = {.kind = SYMC_BARRIER};
    char placed[SYMC_OP_PLACED_TEXT], where[WHERE_TEXT];
    int64_t took = find_inside(slot, &op, false);

    if (took > 0)
        snprintf(buffer, nbytes,
            "%s has not returned for %.3g s to backend %s, which enqueues %s",
            format_where(
                slot->backend->device->inside(slot->state), op.device, where),
            (double)took / (double)SYMC_NS_PER_S, slot->backend->name,
            symc_op_format_placed(&op, placed));
    return took > 0;
}

symmcoll_status_t symc_slot_refuse(
    struct symc_runner *runner, const struct symc_op *op)
{
    symmcoll_status_t status = symc_members_cut_short(&runner->members, op);
    const char *detail = symmcoll_last_error();
    char inside[SYMC_DETAIL_MAX / 2];

    /* The group may have failed for another reason. */
    return strstr(detail, "has not returned") != NULL ||
                   !symc_slot_format_inside(runner, inside, sizeof(inside))
               ? status
               : symc_error_amend(status, "%s; %s", detail, inside);
}
