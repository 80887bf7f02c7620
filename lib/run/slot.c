/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backends of a group, one per kind of memory, and their operations.
 */
#include "base/ranks.h"
#include "run/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
