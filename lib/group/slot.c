/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backends of a group, one for each kind of memory, and their operations.
 */
#include "base/ranks.h"
#include "group/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>


/* ---- operations ---- */

/* Whether an operation has had the reason why the group has failed. */
static bool has_told(struct symmcoll_group *group)
{
    return atomic_load(&group->members.reported) != 0;
}

/* An error that the other members need not have: the group has failed.  told:
 * has_told() before the backend was called; if it has said so since, by
 * core->expire() or core->failure(), the status is that. */
static symmcoll_status_t fail_group(struct symmcoll_group *group,
    const struct symc_slot *slot, const struct symc_op *op,
    symmcoll_status_t status, bool told)
{
    char text[SYMC_OP_TEXT], detail[SYMC_FAILURE_TEXT / 2];
    char who[SYMC_RANK_TEXT];

    if (!told && has_told(group))
        return status;
    snprintf(detail, sizeof(detail), "%s", symmcoll_last_error());
    symc_op_format(op->kind, op->seq, op->label, text, sizeof(text));
    symc_members_raise(&group->members, status, op, NULL,
        "%s of group %s: backend %s of %s: %s", text, group->name,
        slot->backend->name,
        symc_format_rank(&group->members.ranks, group->rank, SYMC_NO_PID, who),
        detail);
    return symc_members_status(&group->members, op);
}

static symmcoll_status_t expire(struct symmcoll_group *group,
    const struct symc_slot *slot, const struct symc_op *op)
{
    char text[SYMC_OP_TEXT], who[SYMC_RANK_TEXT];

    symc_op_format(op->kind, op->seq, op->label, text, sizeof(text));
    symc_members_raise(&group->members, SYMMCOLL_ERR_TIMEOUT, op, NULL,
        "%s of group %s timed out after %.3g s: backend %s of %s has not "
        "completed it",
        text, group->name, (double)op->timeout_ns / (double)SYMC_NS_PER_S,
        slot->backend->name,
        symc_format_rank(&group->members.ranks, group->rank, SYMC_NO_PID, who));
    return symc_members_status(&group->members, op);
}

bool symc_slot_serves(const struct symc_slot *slot, enum symc_kind kind)
{
    const struct symc_coll_ops *coll = slot->backend->coll;

    return coll->serves == NULL || coll->serves(&symc_kinds[kind]);
}

symmcoll_status_t symc_slot_check(
    struct symmcoll_group *group, const struct symc_op *op)
{
    struct symc_slot *slot = &group->slots[op->memory];

    if (!atomic_load_explicit(&slot->open, memory_order_acquire) ||
        slot->backend->coll->check == NULL)
        return SYMMCOLL_OK;
    return slot->backend->coll->check(slot->state, op);
}

void *symc_slot_mark(struct symmcoll_group *group, const struct symc_op *op)
{
    struct symc_slot *slot = &group->slots[op->memory];

    if (!atomic_load_explicit(&slot->open, memory_order_acquire) ||
        slot->backend->coll->mark == NULL)
        return NULL;
    return slot->backend->coll->mark(slot->state, op);
}

void symc_slot_unmark(
    struct symmcoll_group *group, unsigned int memory, void *mark)
{
    struct symc_slot *slot = &group->slots[memory];

    if (mark == NULL)
        return;
    pthread_mutex_lock(&slot->lock);
    slot->backend->coll->unmark(slot->state, mark);
    pthread_mutex_unlock(&slot->lock);
}

symmcoll_status_t symc_slot_start(struct symmcoll_group *group,
    const struct symc_op *op, void *mark, void **token)
{
    struct symc_slot *slot = &group->slots[op->memory];
    bool told = has_told(group);
    symmcoll_status_t status;

    if (!symc_slot_serves(slot, op->kind)) {
        symc_slot_unmark(group, op->memory, mark);
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: expected a backend of %s that serves it, found %s, which does "
            "not",
            symc_kind_name(op->kind), symc_memory_name(op->memory),
            slot->backend->name);
    }
    *token = NULL;
    pthread_mutex_lock(&slot->lock);
    status = slot->backend->coll->start(slot->state, op, mark, token);
    pthread_mutex_unlock(&slot->lock);
    return status < 0 && status != SYMMCOLL_ERR_UNSUPPORTED &&
                   status != SYMMCOLL_ERR_INVALID
               ? fail_group(group, slot, op, status, told)
               : status;
}

symmcoll_status_t symc_slot_access(struct symmcoll_group *group,
    const struct symc_access *access, void **token)
{
    const struct symc_op *op = access->op;
    struct symc_slot *slot = &group->slots[op->memory];
    bool told = has_told(group);
    symmcoll_status_t status;

    *token = NULL;
    pthread_mutex_lock(&slot->lock);
    status = slot->backend->mem->access(slot->state, access, token);
    pthread_mutex_unlock(&slot->lock);
    return status < 0 && status != SYMMCOLL_ERR_UNSUPPORTED &&
                   status != SYMMCOLL_ERR_INVALID
               ? fail_group(group, slot, op, status, told)
               : status;
}

symmcoll_status_t symc_slot_test(struct symmcoll_group *group,
    const struct symc_op *op, void *token, enum symc_advance how,
    struct symc_slot_end *end)
{
    struct symc_slot *slot = &group->slots[op->memory];
    const struct symc_coll_ops *coll = slot->backend->coll;
    bool told = has_told(group);
    symmcoll_status_t status;

    pthread_mutex_lock(&slot->lock);
    status = coll->test(slot->state, token);
    end->took_ns = status == SYMMCOLL_OK && coll->took != NULL
                       ? coll->took(slot->state)
                       : 0;
    pthread_mutex_unlock(&slot->lock);
    end->ended = status != SYMMCOLL_IN_PROGRESS;
    if (status < 0)
        return fail_group(group, slot, op, status, told);
    if (end->ended)
        return status;
    if (atomic_load_explicit(&group->members.stopped, memory_order_acquire) !=
            0 ||
        (how != SYMC_ADVANCE_PEEK && symc_members_failed(&group->members)))
        return symc_members_status(&group->members, op);
    return how == SYMC_ADVANCE_EXPIRED ? expire(group, slot, op) : status;
}

symmcoll_status_t symc_slot_follow(
    struct symmcoll_group *group, const struct symc_op *op, void *token)
{
    struct symc_slot *slot = &group->slots[op->memory];
    symmcoll_status_t status;

    if (slot->backend->coll->follow == NULL)
        return SYMMCOLL_IN_PROGRESS;
    pthread_mutex_lock(&slot->lock);
    status = slot->backend->coll->follow(slot->state, token, op->stream);
    pthread_mutex_unlock(&slot->lock);
    return status < 0 ? fail_group(group, slot, op, status, has_told(group))
                      : status;
}

bool symc_slot_cancel(
    struct symmcoll_group *group, unsigned int memory, void *token)
{
    struct symc_slot *slot = &group->slots[memory];
    bool ended;

    pthread_mutex_lock(&slot->lock);
    ended =
        slot->backend->coll->cancel(slot->state, token) != SYMMCOLL_IN_PROGRESS;
    pthread_mutex_unlock(&slot->lock);
    return ended;
}

symmcoll_status_t symc_slot_keep(struct symmcoll_group *group,
    const struct symc_op *op, void *token, symmcoll_status_t status,
    const char *detail)
{
    struct symc_slot *slot = &group->slots[op->memory];
    struct symc_owned *owned = malloc(sizeof(*owned));

    pthread_mutex_lock(&slot->lock);
    slot->nowned++;
    if (owned != NULL) {
        *owned = (struct symc_owned){slot->owned, token};
        slot->owned = owned;
    }
    pthread_mutex_unlock(&slot->lock);
    if (symc_kind_has(op->kind, SYMC_MOVES)) /* out is the call's own */
        return symc_fail(status, "%s; backend %s still owns its buffers",
            detail, slot->backend->name);
    return symc_fail(status,
        "%s; backend %s still owns in (%zu bytes at %p) and out (%zu bytes at "
        "%p)",
        detail, slot->backend->name, symc_op_in_nbytes(op, group->size), op->in,
        symc_op_out_nbytes(op, group->size), op->out);
}

int symc_slot_reclaim(struct symmcoll_group *group, unsigned int memory)
{
    struct symc_slot *slot = &group->slots[memory];
    struct symc_owned **at = &slot->owned, *owned;
    int left;

    pthread_mutex_lock(&slot->lock);
    while ((owned = *at) != NULL) {
        if (slot->backend->coll->cancel(slot->state, owned->token) ==
            SYMMCOLL_IN_PROGRESS) {
            at = &owned->next;
            continue;
        }
        slot->nowned--;
        *at = owned->next;
        free(owned);
    }
    left = slot->nowned;
    pthread_mutex_unlock(&slot->lock);
    return left;
}

void symc_slot_doze(struct symmcoll_group *group, int64_t until_ns)
{
    static const _Atomic uint64_t never;
    int64_t nap = symc_now_ns() + SYMC_SLOT_NAP_NS;
    struct symc_wait_budget budget = {
        .deadline_ns = until_ns < nap ? until_ns : nap};

    group->core.wait(group, &never, 1, -1, &budget);
}

/* ---- what nobody waits for ---- */

bool symc_slot_watch(struct symmcoll_group *group)
{
    struct symc_slot *slot = &group->slots[SYMC_MEMORY_DEVICE];
    bool told = has_told(group);
    symmcoll_status_t status;
    struct symc_op op;

    if (!atomic_load_explicit(&slot->open, memory_order_acquire) ||
        slot->backend->coll->look == NULL)
        return false;
    if (pthread_mutex_trylock(&slot->lock) != 0)
        return true; /* a call enqueues, perhaps for long */
    status = slot->backend->coll->look(slot->state, &op);
    pthread_mutex_unlock(&slot->lock);
    if (status < 0)
        (void)fail_group(group, slot, &op, status, told);
    return status == SYMMCOLL_IN_PROGRESS;
}

/* ---- a group that fails ---- */

void symc_slots_stop(struct symmcoll_group *group)
{
    for (int memory = 0; memory < SYMC_MEMORY_KINDS; memory++) {
        const struct symc_slot *slot = &group->slots[memory];

        if (atomic_load(&slot->open) && slot->backend->coll->abort != NULL)
            slot->backend->coll->abort(slot->state);
    }
}

/* ---- closing ---- */

void symc_slots_init(struct symmcoll_group *group)
{
    group->members.stop = symc_slots_stop;
    for (int memory = 0; memory < SYMC_MEMORY_KINDS; memory++)
        pthread_mutex_init(&group->slots[memory].lock, NULL);
}

void symc_slots_destroy(struct symmcoll_group *group)
{
    for (int memory = 0; memory < SYMC_MEMORY_KINDS; memory++)
        pthread_mutex_destroy(&group->slots[memory].lock);
}

/* Ask a backend once more to let go of what it owns, for some time.  Returns how
 * many it has not. */
static int release_owned(struct symmcoll_group *group, unsigned int memory)
{
    struct symc_slot *slot = &group->slots[memory];
    int64_t until = symc_now_ns() + SYMC_SLOT_CANCEL_NS;

    while (slot->owned != NULL) {
        struct symc_owned **at = &slot->owned, *owned;
        struct timespec nap = {.tv_nsec = SYMC_SLOT_NAP_NS};
        bool over = symc_now_ns() >= until;

        while ((owned = *at) != NULL) {
            bool ended = symc_slot_cancel(group, memory, owned->token);

            slot->nowned -= ended;
            if (!ended && !over) {
                at = &owned->next;
                continue;
            }
            *at = owned->next;
            free(owned);
        }
        if (slot->owned != NULL)
            nanosleep(&nap, NULL);
    }
    return slot->nowned;
}

symmcoll_status_t symc_slots_close(struct symmcoll_group *group)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int memory = SYMC_MEMORY_KINDS - 1; memory >= 0; memory--) {
        struct symc_slot *slot = &group->slots[memory];
        int owned;

        if (slot->backend == NULL)
            continue;
        owned = release_owned(group, (unsigned int)memory);
        if (owned > 0)
            status = symc_fail(SYMMCOLL_ERR_DEVICE,
                "group %s: backend %s still owns the buffers of %d operations",
                group->name, slot->backend->name, owned);
        atomic_store(&slot->open, false);
        slot->backend->close(slot->state);
        slot->backend = NULL;
    }
    return status;
}
