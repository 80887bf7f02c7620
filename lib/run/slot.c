/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backends of a group, one per kind of memory: entering one, its operations,
 * and those that it could not be made to release.
 */
#include "base/ranks.h"
#include "run/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- entry ---- */

/*
 * Entry to a backend of device memory, which is called by one thread at a time.
 *
 * A call that enqueues may be stuck in the driver as long as its stream's queue
 * is full, without a limit: what is enqueued there may wait for the program.
 * So no thread waits for the lock without a bound: a thread that tests comes
 * back later, and one that enqueues waits for its operation's timeout.
 */

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
static bool expire_inside(struct symc_runner *runner,
    const struct symc_slot *slot, const struct symc_op *op, int64_t took,
    int64_t limit_ns)
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

    return expire_inside(runner, slot, &op, took, limit_ns);
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
               : expire_inside(
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

/* ---- operations that a backend keeps ---- */

/* Needs slot->noted. */
static void append(struct symc_slot *slot, struct symc_owned *owned)
{
    owned->next = NULL;
    if (slot->owned != NULL)
        slot->owned_tail->next = owned;
    else
        slot->owned = owned;
    slot->owned_tail = owned;
}

symmcoll_status_t symc_slot_fail_owned(struct symc_runner *runner,
    const struct symc_op *op, const struct symc_error *error)
{
    const struct symc_slot *slot = &runner->slots[op->memory];
    symmcoll_status_t status = symc_error_return(error);

    /* out belongs to the call, not the caller */
    if (symc_kind_has(op->kind, SYMC_MOVES))
        return symc_error_amend(status, "%s; backend %s still owns its buffers",
            error->detail, slot->backend->name);
    if (symc_kind_has(op->kind, SYMC_COALESCED))
        return symc_error_amend(status,
            "%s; backend %s still owns its %d buffers, and their arrays",
            error->detail, slot->backend->name, op->buffers);
    return symc_error_amend(status,
        "%s; backend %s still owns in (%zu bytes at %p) and out (%zu bytes at "
        "%p)",
        error->detail, slot->backend->name, symc_op_in_nbytes(op, runner->size),
        op->in, symc_op_out_nbytes(op, runner->size), op->out);
}

symmcoll_status_t symc_slot_keep(struct symc_runner *runner,
    const struct symc_op *op, void *token, const struct symc_error *error)
{
    struct symc_slot *slot = &runner->slots[op->memory];
    struct symc_owned *owned = malloc(sizeof(*owned));

    if (owned != NULL) {
        owned->token = token;
        symc_op_format_placed(op, owned->call);
    }
    pthread_mutex_lock(&slot->noted);
    slot->nowned++;
    if (owned != NULL)
        append(slot, owned);
    pthread_mutex_unlock(&slot->noted);
    return symc_slot_fail_owned(runner, op, error);
}

int symc_slot_owned(struct symc_runner *runner, unsigned int memory)
{
    struct symc_slot *slot = &runner->slots[memory];
    int owned;

    pthread_mutex_lock(&slot->noted);
    owned = slot->nowned;
    pthread_mutex_unlock(&slot->noted);
    return owned;
}

const char *symc_slot_format_owned(struct symc_runner *runner,
    unsigned int memory, char buffer[SYMC_OWNED_TEXT])
{
    struct symc_slot *slot = &runner->slots[memory];
    char rest[32] = "";

    pthread_mutex_lock(&slot->noted);
    if (slot->nowned > 1)
        snprintf(rest, sizeof(rest), ", and %d more", slot->nowned - 1);
    snprintf(buffer, SYMC_OWNED_TEXT, "%s%s",
        slot->owned != NULL ? slot->owned->call : "an operation", rest);
    pthread_mutex_unlock(&slot->noted);
    return buffer;
}

/* Takes the list of kept operations; NULL: empty. */
static struct symc_owned *take_owned(struct symc_slot *slot)
{
    struct symc_owned *all;

    pthread_mutex_lock(&slot->noted);
    all = slot->owned;
    slot->owned = NULL;
    pthread_mutex_unlock(&slot->noted);
    return all;
}

static void put_owned(
    struct symc_slot *slot, struct symc_owned *owned, bool ended)
{
    pthread_mutex_lock(&slot->noted);
    slot->nowned -= ended;
    if (!ended)
        append(slot, owned);
    pthread_mutex_unlock(&slot->noted);
    if (ended)
        free(owned);
}

int symc_slot_reclaim(struct symc_runner *runner, unsigned int memory)
{
    struct symc_slot *slot = &runner->slots[memory];
    struct symc_owned *all, *next;

    if (symc_slot_owned(runner, memory) == 0 || !symc_slot_enter(slot))
        return symc_slot_owned(runner, memory);
    for (all = take_owned(slot); all != NULL; all = next) {
        next = all->next;
        put_owned(slot, all,
            slot->backend->device->cancel(slot->state, all->token) !=
                SYMMCOLL_IN_PROGRESS);
    }
    symc_slot_leave(slot);
    return symc_slot_owned(runner, memory);
}

symmcoll_status_t symc_slots_reclaim(
    struct symc_runner *runner, int64_t until_ns)
{
    const struct timespec nap = {.tv_nsec = SYMC_SLOT_NAP_NS};
    char found[SYMC_OWNED_TEXT];

    for (unsigned int memory = 0; memory < SYMC_MEMORY_KINDS; memory++) {
        struct symc_slot *slot = &runner->slots[memory];
        int owned;

        if (slot->backend == NULL)
            continue;
        while ((owned = symc_slot_reclaim(runner, memory)) > 0 &&
               slot->owned != NULL && symc_now_ns() < until_ns)
            nanosleep(&nap, NULL);
        if (owned > 0)
            return symc_fail(SYMMCOLL_ERR_DEVICE,
                "group %s: backend %s still owns the buffers of %s",
                runner->name, slot->backend->name,
                symc_slot_format_owned(runner, memory, found));
    }
    return SYMMCOLL_OK;
}

void symc_slot_forget_owned(struct symc_slot *slot)
{
    struct symc_owned *owned;

    while ((owned = slot->owned) != NULL) {
        slot->owned = owned->next;
        free(owned);
    }
}

/* time for kernels to notice their cancellation */
#define LET_GO_NS (SYMC_NS_PER_S / 50)
#define CAUSE_NS \
    (SYMC_NS_PER_S / 2) /* time for the monitor to find the dead rank */

/* ---- operations ---- */

/* Returns whether a call has reported the reason of the group's failure. */
static bool has_reported(struct symc_runner *runner)
{
    return atomic_load(&runner->members.reported) != 0;
}

/* Returns whether the monitor may still find the dead member: a backend may
 * lose a connection before the monitor notices the death, and does not know
 * which member it was. */
static bool may_find_cause(struct symc_runner *runner, struct symc_slot *slot)
{
    const int64_t now = symc_now_ns();
    int64_t never = 0;

    if (atomic_compare_exchange_strong(&slot->lost_ns, &never, now))
        symc_world_alarm(runner->world);
    return !symc_members_failed(&runner->members) &&
           now < atomic_load(&slot->lost_ns) + CAUSE_NS;
}

static void await_cause(struct symc_runner *runner, struct symc_slot *slot)
{
    const struct timespec nap = {.tv_nsec = SYMC_SLOT_NAP_NS};

    while (may_find_cause(runner, slot))
        nanosleep(&nap, NULL);
}

/* Fails the group for an error that other members may not have.  reported:
 * has_reported() before the backend was called; if the backend has reported a
 * failure since, by core->expire() or core->failure(), the status is returned
 * as it is. */
static symmcoll_status_t fail_group(struct symc_runner *runner,
    struct symc_slot *slot, const struct symc_op *op, symmcoll_status_t status,
    bool reported)
{
    char text[SYMC_OP_TEXT], who[SYMC_RANK_TEXT];
    bool listed[SYMC_RANKS_MAX];
    const bool *ranks;
    struct symc_error error;

    if (!reported && has_reported(runner))
        return status;
    symc_error_keep(&error, status);
    ranks = symc_members_concerned(&runner->members, status, listed);
    if (status == SYMMCOLL_ERR_PEER)
        await_cause(runner, slot);
    symc_op_format(op->kind, op->seq, op->label, text, sizeof(text));
    symc_members_raise(&runner->members, status, op, ranks,
        "%s of group %s: backend %s of %s: %.*s", text, runner->name,
        slot->backend->name,
        symc_format_rank(
            &runner->members.ranks, runner->rank, SYMC_NO_PID, who),
        SYMC_FAILURE_TEXT / 2 - 1, error.detail);
    return symc_members_status(&runner->members, op);
}

/* Fails the group when an operation's time has passed.  If the backend does not
 * name the missing members, this rank's stream may not have reached the
 * operation. */
static symmcoll_status_t expire(struct symc_runner *runner,
    struct symc_slot *slot, const struct symc_op *op, void *token)
{
    symmcoll_status_t status = SYMMCOLL_OK;
    char text[SYMC_OP_TEXT], who[SYMC_RANK_TEXT];

    if (symc_slot_enter(slot)) {
        status = slot->backend->device->expire(slot->state, token);
        symc_slot_leave(slot);
    }
    if (status < 0)
        return status;
    symc_op_format(op->kind, op->seq, op->label, text, sizeof(text));
    symc_members_raise(&runner->members, SYMMCOLL_ERR_TIMEOUT, op, NULL,
        "%s of group %s timed out after %.3g s: backend %s of %s has not "
        "completed it",
        text, runner->name, (double)op->timeout_ns / (double)SYMC_NS_PER_S,
        slot->backend->name,
        symc_format_rank(
            &runner->members.ranks, runner->rank, SYMC_NO_PID, who));
    return symc_members_status(&runner->members, op);
}

bool symc_slot_serves(const struct symc_slot *slot, enum symc_kind kind)
{
    return slot->backend->device->serves(&symc_kinds[kind]);
}

const struct symc_backend *symc_slot_backend(
    const struct symc_runner *runner, unsigned int memory)
{
    const struct symc_slot *slot = &runner->slots[memory];

    return atomic_load_explicit(&slot->open, memory_order_acquire)
               ? slot->backend
               : NULL;
}

symmcoll_status_t symc_slot_check(
    struct symc_runner *runner, const struct symc_op *op)
{
    struct symc_slot *slot = &runner->slots[op->memory];

    if (!atomic_load_explicit(&slot->open, memory_order_acquire))
        return SYMMCOLL_OK;
    return slot->backend->device->check(slot->state, op);
}

symmcoll_status_t symc_slot_reach(struct symc_runner *runner, const char *where,
    const char *what, const void *at)
{
    struct symc_slot *slot = &runner->slots[SYMC_MEMORY_DEVICE];

    if (!atomic_load_explicit(&slot->open, memory_order_acquire))
        return SYMMCOLL_OK;
    return slot->backend->device->reach(slot->state, where, what, at);
}

void *symc_slot_device_state(const struct symc_runner *runner)
{
    const struct symc_backend *open =
        symc_slot_backend(runner, SYMC_MEMORY_DEVICE);

    return open != NULL &&
                   open == symc_registry_memory(
                               &runner->world->registry, SYMC_MEMORY_DEVICE)
               ? runner->slots[SYMC_MEMORY_DEVICE].state
               : NULL;
}

void *symc_slot_mark(struct symc_runner *runner, const struct symc_op *op)
{
    struct symc_slot *slot = &runner->slots[op->memory];

    if (!atomic_load_explicit(&slot->open, memory_order_acquire))
        return NULL;
    return slot->backend->device->mark(slot->state, op);
}

void symc_slot_unmark(
    struct symc_runner *runner, unsigned int memory, void *mark)
{
    struct symc_slot *slot = &runner->slots[memory];

    if (mark != NULL)
        slot->backend->device->unmark(slot->state, mark);
}

/* Cancels what a backend enqueued before an error: its kernels end within
 * moments, unless their stream does not reach them. */
static symmcoll_status_t abandon(struct symc_runner *runner,
    const struct symc_op *op, void *token, symmcoll_status_t status)
{
    const struct timespec nap = {.tv_nsec = SYMC_SLOT_NAP_NS};
    const int64_t until = symc_now_ns() + LET_GO_NS;
    struct symc_error error;

    symc_error_keep(&error, status);
    while (!symc_slot_cancel(runner, op->memory, token)) {
        if (symc_now_ns() >= until)
            return symc_slot_keep(runner, op, token, &error);
        nanosleep(&nap, NULL);
    }
    return symc_error_return(&error);
}

/* Returns the final status of a call that enqueues.  An error that all members
 * get alike is only the call's; any other fails the group. */
static symmcoll_status_t judge(struct symc_runner *runner,
    struct symc_slot *slot, const struct symc_op *op, symmcoll_status_t status,
    bool reported, void **token)
{
    void *enqueued = *token;

    if (status >= 0)
        return status;
    *token = NULL;
    if (enqueued == NULL &&
        (status == SYMMCOLL_ERR_UNSUPPORTED || status == SYMMCOLL_ERR_INVALID))
        return status;
    status = fail_group(runner, slot, op, status, reported);
    return enqueued == NULL ? status : abandon(runner, op, enqueued, status);
}

symmcoll_status_t symc_slot_start(struct symc_runner *runner,
    const struct symc_op *op, void *mark, void **token)
{
    struct symc_slot *slot = &runner->slots[op->memory];
    bool reported = has_reported(runner);
    symmcoll_status_t status;

    if (!symc_slot_serves(slot, op->kind)) {
        symc_slot_unmark(runner, op->memory, mark);
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: expected a backend of %s that serves it, found %s, which does "
            "not",
            symc_kind_name(op->kind), symc_memory_name(op->memory),
            slot->backend->name);
    }
    *token = NULL;
    status = symc_slot_enqueue(runner, slot, op, true);
    if (status != SYMMCOLL_OK) {
        symc_slot_unmark(runner, op->memory, mark);
        return status;
    }
    status = slot->backend->device->start(
        slot->state, op, &runner->compared, mark, token);
    symc_slot_enqueued(slot);
    return judge(runner, slot, op, status, reported, token);
}

symmcoll_status_t symc_slot_access(
    struct symc_runner *runner, const struct symc_access *access, void **token)
{
    const struct symc_op *op = access->op;
    struct symc_slot *slot = &runner->slots[op->memory];
    bool reported = has_reported(runner);
    symmcoll_status_t status;

    *token = NULL;
    status = symc_slot_enqueue(runner, slot, op, false);
    if (status != SYMMCOLL_OK)
        return status;
    status = slot->backend->mem->access(slot->state, access, token);
    symc_slot_enqueued(slot);
    return judge(runner, slot, op, status, reported, token);
}

/* Returns IN_PROGRESS, or why the operation will fail. */
static symmcoll_status_t watch(struct symc_slot *slot, void *token)
{
    symmcoll_status_t status;

    if (!symc_slot_enter(slot))
        return SYMMCOLL_IN_PROGRESS;
    status = slot->backend->device->watch(slot->state, token);
    symc_slot_leave(slot);
    return status == SYMMCOLL_OK ? SYMMCOLL_IN_PROGRESS : status;
}

/* Tests an operation.  Returns whether the backend could be entered for
 * that. */
static bool test(struct symc_slot *slot, void *token, struct symc_slot_end *end,
    symmcoll_status_t *status)
{
    *status = SYMMCOLL_IN_PROGRESS;
    if (token == NULL || !symc_slot_enter(slot))
        return false;
    *status = slot->backend->device->test(slot->state, token, &end->took_ns);
    symc_slot_leave(slot);
    return true;
}

symmcoll_status_t symc_slot_test(struct symc_runner *runner,
    const struct symc_op *op, void *token, enum symc_advance how,
    struct symc_slot_end *end)
{
    struct symc_slot *slot = &runner->slots[op->memory];
    bool reported = has_reported(runner), tested;
    symmcoll_status_t status;

    end->took_ns = 0;
    tested = test(slot, token, end, &status);
    end->ended = status != SYMMCOLL_IN_PROGRESS;
    if (status < 0)
        return fail_group(runner, slot, op, status, reported);
    if (end->ended)
        return status;
    if (atomic_load_explicit(&runner->members.stopped, memory_order_acquire) !=
            0 ||
        (how != SYMC_ADVANCE_PEEK && symc_members_failed(&runner->members)))
        return symc_members_status(&runner->members, op);
    if (!tested) /* the operation may have ended */
        return how != SYMC_ADVANCE_PEEK &&
                       symc_slot_expire_inside(runner, slot, op->timeout_ns)
                   ? symc_members_status(&runner->members, op)
                   : status;
    if (how != SYMC_ADVANCE_PEEK)
        status = watch(slot, token);
    /* The backend returns the error again in the next test. */
    if (status == SYMMCOLL_ERR_PEER && may_find_cause(runner, slot))
        return SYMMCOLL_IN_PROGRESS;
    if (status < 0)
        return fail_group(runner, slot, op, status, reported);
    return how == SYMC_ADVANCE_EXPIRED ? expire(runner, slot, op, token)
                                       : status;
}

symmcoll_status_t symc_slot_follow(
    struct symc_runner *runner, const struct symc_op *op, void *token)
{
    struct symc_slot *slot = &runner->slots[op->memory];
    symmcoll_status_t status;
    bool reported = has_reported(runner);

    /* In a failed group the operation has an error to wait for. */
    if (symc_members_failed(&runner->members) ||
        symc_slot_enqueue(runner, slot, op, false) != SYMMCOLL_OK)
        return SYMMCOLL_IN_PROGRESS;
    status = slot->backend->device->follow(slot->state, token, op->stream);
    symc_slot_enqueued(slot);
    return status < 0 && status != SYMMCOLL_ERR_INVALID
               ? fail_group(runner, slot, op, status, reported)
               : status;
}

bool symc_slot_cancel(
    struct symc_runner *runner, unsigned int memory, void *token)
{
    struct symc_slot *slot = &runner->slots[memory];
    bool ended;

    if (!symc_slot_enter(slot))
        return false;
    ended = slot->backend->device->cancel(slot->state, token) !=
            SYMMCOLL_IN_PROGRESS;
    symc_slot_leave(slot);
    return ended;
}

/* ---- kernels started without a call ---- */

bool symc_slot_watch(struct symc_runner *runner)
{
    struct symc_slot *slot = &runner->slots[SYMC_MEMORY_DEVICE];
    bool reported = has_reported(runner);
    symmcoll_status_t status;
    struct symc_op op;

    if (!atomic_load_explicit(&slot->open, memory_order_acquire))
        return false;
    if (pthread_mutex_trylock(&slot->lock) != 0)
        return true; /* a call is enqueuing, perhaps for long */
    status = slot->backend->device->look(slot->state, &op);
    pthread_mutex_unlock(&slot->lock);
    if (status == SYMMCOLL_ERR_PEER && may_find_cause(runner, slot))
        return true;
    if (status < 0)
        (void)fail_group(runner, slot, &op, status, reported);
    return status == SYMMCOLL_IN_PROGRESS;
}

/* ---- failure of the group ---- */

void symc_slots_stop(struct symc_runner *runner)
{
    const struct symc_slot *slot = &runner->slots[SYMC_MEMORY_DEVICE];

    if (atomic_load(&slot->open))
        slot->backend->device->abort(slot->state);
}

/* ---- closing ---- */

static void stop_backends(struct symc_members *members)
{
    symc_slots_stop(symc_runner_of(members));
}

void symc_slots_init(struct symc_runner *runner)
{
    runner->members.stop = stop_backends;
    for (int memory = 0; memory < SYMC_MEMORY_KINDS; memory++) {
        pthread_mutex_init(&runner->slots[memory].lock, NULL);
        pthread_mutex_init(&runner->slots[memory].noted, NULL);
    }
}

void symc_slots_destroy(struct symc_runner *runner)
{
    for (int memory = 0; memory < SYMC_MEMORY_KINDS; memory++) {
        pthread_mutex_destroy(&runner->slots[memory].noted);
        pthread_mutex_destroy(&runner->slots[memory].lock);
    }
}

void symc_slots_close(struct symc_runner *runner)
{
    for (int memory = SYMC_MEMORY_KINDS - 1; memory >= 0; memory--) {
        struct symc_slot *slot = &runner->slots[memory];

        if (slot->backend == NULL)
            continue;
        symc_slot_forget_owned(slot);
        atomic_store(&slot->open, false);
        slot->backend->close(slot->state);
        slot->backend = NULL;
    }
}
