/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Things that the members of a group create together in an open backend, in
 * rounds like its opening: what an operation needs, what a new group inherits
 * of it, and joined memory.
 */
#include "run/runner.h"
#include "run/slot_rounds.h"

/* ---- what operations need ---- */

#define LACKS_MOST 8

/* Returns whether a member's invalid call was the reason, known to all: its
 * next call may succeed. */
static bool may_try_again(const struct symc_slot *slot)
{
    return slot->lack.status == SYMMCOLL_ERR_INVALID &&
           slot->lacks < LACKS_MOST;
}

/* Returns whether an operation needs something that can still be created.
 * agreed: NULL if it has not been compared. */
static bool needs(const struct symc_slot *slot, const struct symc_op *op,
    const struct symc_agreed *agreed)
{
    const struct symc_device_ops *device = slot->backend->device;

    return symc_slot_serves(slot, op->kind) &&
           device->needs(slot->state, op, agreed) &&
           (slot->lack.status == SYMMCOLL_OK || may_try_again(slot));
}

bool symc_slot_is_ready(struct symc_runner *runner, const struct symc_op *op)
{
    const struct symc_slot *slot = &runner->slots[op->memory];

    return slot->backend != NULL && !needs(slot, op, NULL);
}

/* Goes on without it, on all members. */
static symmcoll_status_t do_without(
    const struct symc_runner *runner, const struct symc_slot *slot)
{
    symc_logf(&runner->world->log, SYMC_LOG_INFO,
        "backend %s of group %s goes on without what %s would use: %s",
        slot->backend->name, runner->name, slot->lack.call, slot->lack.reason);
    return SYMMCOLL_OK;
}

/* Returns the time for all rounds of a preparation together: more than a
 * backend itself waits for what it creates, so that it can end that, within a
 * second, and report it before the group fails. */
#define TELLING_NS (3 * SYMC_NS_PER_S)

static int64_t find_preparing_ns(
    const struct symc_runner *runner, const struct symc_op *op, int64_t more)
{
    int64_t ns = runner->world->config->timeouts_init;

    if (ns < op->timeout_ns)
        ns = op->timeout_ns;
    return ns < SYMC_NEVER - more ? ns + more : SYMC_NEVER;
}

symmcoll_status_t symc_slot_prepare(
    struct symc_runner *runner, const struct symc_op *op)
{
    struct symc_slot *slot = &runner->slots[op->memory];
    const struct symc_device_ops *device = slot->backend->device;
    symmcoll_status_t status;

    /* All members have failed in the same attempts, so all try again or
     * none. */
    if (!needs(slot, op, &runner->compared))
        return SYMMCOLL_OK;
    symc_slot_begin_rounds(runner, op, slot->backend,
        symc_deadline_ns(
            symc_now_ns(), find_preparing_ns(runner, op, TELLING_NS)));
    status = symc_slot_end_rounds(
        runner, device->prepare(slot->state, op, &runner->compared));
    if (status == SYMMCOLL_OK) {
        /* Nothing has been created for captured operations. */
        if (!needs(slot, op, &runner->compared)) {
            slot->lack.status = SYMMCOLL_OK;
            slot->lacks = 0;
        }
        return status;
    }
    if (!symc_members_failed(&runner->members)) {
        (void)symc_slot_keep_refusal(runner, op, status, &slot->lack);
        device->forgo(slot->state);
        slot->lacks++;
        return do_without(runner, slot);
    }
    return runner->members.own.status == SYMMCOLL_ERR_CANCELED
               ? symc_members_interrupted(&runner->members, op)
               : symc_slot_name_call(op, status);
}

symmcoll_status_t symc_slot_split(struct symc_runner *runner,
    const struct symc_op *op, const struct symc_heir *heir,
    symmcoll_status_t own, void **made)
{
    const struct symc_slot *slot = &runner->slots[op->memory];
    const struct symc_admin_ops *admin = slot->backend->admin;
    void *part = NULL;
    symmcoll_status_t status;

    symc_slot_begin_rounds(runner, op, slot->backend,
        symc_deadline_ns(symc_now_ns(),
            find_preparing_ns(runner, op, TELLING_NS + SYMC_SLOT_QUIET_NS)));
    if (own == SYMMCOLL_OK)
        own = admin->split(slot->state, heir, &part);
    status = symc_slot_end_rounds(runner, own);
    if (status == SYMMCOLL_OK)
        *made = part;
    else if (part != NULL)
        admin->drop(part);
    return status;
}

/* ---- joining ---- */

/* Joins this member's memory.  A backend can only read its own objects. */
static symmcoll_status_t join_here(const struct symc_slot *slot,
    struct symc_slot_memory memory, struct symc_joined **joined)
{
    const struct symc_memory_ops *mem = slot->backend->mem;
    symmcoll_status_t status;

    if (memory.backend != slot->backend)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "expected memory of backend %s, which serves the group's "
            "operations, found memory of backend %s",
            slot->backend->name, memory.backend->name);
    status = mem->join(slot->state, memory.memory, joined);
    if (status != SYMMCOLL_OK || memory.other == NULL)
        return status;
    status = mem->tabulate(slot->state, memory.other, *joined, memory.table_at);
    if (status != SYMMCOLL_OK)
        mem->leave(*joined);
    return status;
}

symmcoll_status_t symc_slot_join(struct symc_runner *runner,
    const struct symc_op *op, struct symc_slot_memory memory,
    int64_t deadline_ns, struct symc_joined **joined)
{
    struct symc_slot *slot = &runner->slots[SYMC_MEMORY_DEVICE];
    const struct symc_memory_ops *mem =
        slot->backend != NULL ? slot->backend->mem : NULL;
    struct symc_joined *made = NULL;
    symmcoll_status_t own, status;

    if (mem == NULL || mem->join == NULL)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "backend %s has no memory that a group can join",
            slot->backend != NULL ? slot->backend->name : "of devices");
    symc_slot_begin_rounds(runner, op, slot->backend, deadline_ns);
    own = join_here(slot, memory, &made);
    status = symc_slot_end_rounds(runner, own);
    if (status == SYMMCOLL_OK)
        *joined = made;
    else if (symc_members_failed(&runner->members))
        status = symc_slot_name_call(op, status);
    if (status != SYMMCOLL_OK && own == SYMMCOLL_OK)
        mem->leave(made);
    return status;
}
