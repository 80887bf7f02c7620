/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inheritance of a group from its parent: a backend of devices may split what
 * the parent's members have created together.
 */
#include "group/group.h"

void symc_group_drop_inherited(struct symmcoll_group *group)
{
    if (group->runner.inherited.made != NULL)
        group->runner.inherited.backend->admin->drop(
            group->runner.inherited.made);
    group->runner.inherited.made = NULL;
}

static bool has_several(const struct symc_partition *partition)
{
    for (int i = 0; i < partition->count; i++) {
        if (partition->sizes[i] > 1)
            return true;
    }
    return false;
}

/* The lowest rank of a group is in no other group and serves as its color. */
static struct symc_heir make_heir(
    const struct symmcoll_group *own, int64_t timeout_ns)
{
    struct symc_heir heir = {.color = -1, .timeout_ns = timeout_ns};

    if (own == NULL || own->runner.size < 2)
        return heir;
    heir.core = &own->runner.core;
    heir.color = own->runner.global[0];
    heir.rank = own->runner.rank;
    heir.size = own->runner.size;
    return heir;
}

void symc_groups_inherit(struct symmcoll_group *parent, enum symc_kind kind,
    const struct symc_partition *partition, struct symmcoll_group *own,
    int64_t timeout_ns)
{
    const struct symc_backend *backend =
        parent->runner.slots[SYMC_MEMORY_DEVICE].backend;
    const struct symc_op op = {
        .kind = kind, .memory = SYMC_MEMORY_DEVICE, .timeout_ns = timeout_ns};
    struct symc_heir heir = make_heir(own, timeout_ns);
    symmcoll_status_t status = SYMMCOLL_OK;
    void *made = NULL;

    if (backend == NULL || backend->admin == NULL || !has_several(partition) ||
        !backend->admin->can_split(
            parent->runner.slots[SYMC_MEMORY_DEVICE].state))
        return;
    if (!symc_queue_await_running(parent->runner.queue,
            symc_deadline_ns(symc_now_ns(), SYMC_SLOT_QUIET_NS)))
        status = symc_fail(SYMMCOLL_ERR_TIMEOUT,
            "expected operations on the device to end within %.3g s, found "
            "some that run",
            (double)SYMC_SLOT_QUIET_NS / (double)SYMC_NS_PER_S);
    status = symc_slot_split(&parent->runner, &op, &heir, status, &made);
    if (status != SYMMCOLL_OK)
        symc_logf(&parent->world->log, SYMC_LOG_INFO,
            "backend %s splits nothing of group %s: %s", backend->name,
            parent->name, symmcoll_last_error());
    else if (made != NULL)
        own->runner.inherited = (struct symc_inherited){backend, made};
}

void symc_group_hand_on(struct symmcoll_group *old, struct symmcoll_group *made,
    const bool *excluded)
{
    struct symc_slot *slot = &old->runner.slots[SYMC_MEMORY_DEVICE];
    const struct symc_admin_ops *admin;
    int ranks[SYMC_RANKS_MAX], count = 0;

    for (int r = 0; r < old->runner.size; r++) {
        if (excluded[r])
            ranks[count++] = r;
    }
    if (count == 0 || made->runner.size < 2 || !atomic_load(&slot->open))
        return;
    admin = slot->backend->admin;
    if (admin == NULL || !symc_slot_enter(slot))
        return;
    made->runner.inherited = (struct symc_inherited){
        slot->backend, admin->hand_on(slot->state, ranks, count)};
    symc_slot_leave(slot);
}
