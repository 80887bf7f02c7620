/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that a backend could not be made to release.
 */
#include "run/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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
