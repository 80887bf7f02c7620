/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Raising, adopting and reporting the failure of a group.
 */
#include "world/failure.h"
#include "world/world.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

enum {
    NONE,
    WRITING,
    VALID = SYMC_FAILURE_VALID
};

static struct symc_failure *own_record(struct symc_members *members)
{
    return members->failures[members->rank];
}

/* Claim the own record; false where somebody else has, and has finished. */
static bool claim(struct symc_members *members)
{
    struct symc_failure *record = own_record(members);
    uint32_t none = NONE;

    if (atomic_compare_exchange_strong(&record->raised, &none, WRITING))
        return true;
    while (atomic_load(&record->raised) != VALID)
        sched_yield();
    return false;
}

/* The own record is complete: stop this rank's waits, wake everybody. */
static void publish(struct symc_members *members)
{
    struct symmcoll_world *world = members->world;

    symc_world_expect_dump(world);
    atomic_store(&own_record(members)->raised, VALID);
    atomic_store(&members->stopped, 1);
    for (int r = 0; r < members->size; r++) {
        struct symc_bell *bell =
            &world->peers[members->global[r]].view.block->bell;

        if (r == members->rank)
            atomic_fetch_add(&bell->failures, 1);
        symc_bell_ring(bell);
    }
    symc_world_alarm(world);
}

void symc_members_raise(struct symc_members *members, symmcoll_status_t status,
    uint64_t seq, const bool *late, const char *format, ...)
{
    struct symc_failure *record = own_record(members);
    int64_t at_ns = symc_now_ns();
    va_list arguments;

    if (!claim(members))
        return;
    record->status = status;
    record->at_ns = at_ns;
    record->seq = seq;
    for (int r = 0; late != NULL && r < members->size && r < SYMC_FAILURE_RANKS;
         r++) {
        if (late[r])
            record->late[r / 8] |= (uint8_t)(1u << (r % 8));
    }
    va_start(arguments, format);
    vsnprintf(record->text, sizeof(record->text), format, arguments);
    va_end(arguments);
    publish(members);
}

static void adopt(struct symc_members *members, const struct symc_failure *from)
{
    struct symc_failure *record = own_record(members);

    if (!claim(members))
        return;
    record->status = from->status;
    record->at_ns = from->at_ns;
    record->seq = from->seq;
    memcpy(record->late, from->late, sizeof(record->late));
    memcpy(record->text, from->text, sizeof(record->text));
    record->text[sizeof(record->text) - 1] = '\0';
    publish(members);
}

bool symc_members_failed(struct symc_members *members)
{
    const struct symc_failure *first = NULL;

    if (atomic_load_explicit(&members->stopped, memory_order_acquire) != 0)
        return true;
    for (int r = 0; r < members->size; r++) {
        const struct symc_failure *record = members->failures[r];

        if (!symc_failure_is_valid(record))
            continue;
        /* The own one is there a moment before `stopped` says so. */
        if (r == members->rank)
            return true;
        if (first == NULL || record->at_ns < first->at_ns)
            first = record;
    }
    if (first != NULL)
        adopt(members, first);
    return first != NULL;
}

bool symc_members_was_late(const struct symc_members *members)
{
    const struct symc_failure *record = members->failures[members->rank];

    return members->rank < SYMC_FAILURE_RANKS &&
           (record->late[members->rank / 8] >> (members->rank % 8) & 1) != 0;
}

/* Whether a call is interrupted by the failure, or the first to hear of it.  A
 * rank that was late is told that the others went on without it, and an abort
 * has interrupted nothing that had not begun. */
static bool is_told_first(
    const struct symc_members *members, const struct symc_op *op)
{
    if (members->failures[members->rank]->status == SYMMCOLL_ERR_CANCELED)
        return op->seq != 0;
    return !symc_members_was_late(members);
}

symmcoll_status_t symc_members_status(
    struct symc_members *members, const struct symc_op *op)
{
    const struct symc_failure *record = own_record(members);

    if (op == NULL)
        return symc_fail(record->status, "%s", record->text);
    if (atomic_exchange(&members->reported, 1) == 0) {
        symc_world_await_dump(members->world);
        if (is_told_first(members, op) && op->seq == 0)
            return symc_fail(record->status, "%s: %s (group %s)",
                symc_kind_name(op->kind), record->text, members->name);
        if (is_told_first(members, op))
            return symc_fail(record->status, "%s: %s (group %s, seq %llu)",
                symc_kind_name(op->kind), record->text, members->name,
                (unsigned long long)op->seq);
    }
    return symc_fail(SYMMCOLL_ERR_ABORTED,
        "%s: group %s has failed before: %s: %s", symc_kind_name(op->kind),
        members->name, symmcoll_status_name(record->status), record->text);
}
