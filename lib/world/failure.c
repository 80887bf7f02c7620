/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Raising, adopting and reporting the failure of a group.
 */
#include "world/failure.h"
#include "world/world.h"

#include <ctype.h>
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
    const struct symc_op *op, const bool *late, const char *format, ...)
{
    struct symc_failure *record = own_record(members);
    int64_t at_ns = symc_now_ns();
    va_list arguments;

    if (!claim(members))
        return;
    record->status = status;
    record->at_ns = at_ns;
    record->rank = members->rank;
    if (op != NULL) {
        record->seq = op->seq;
        record->kind = (uint32_t)op->kind;
        memcpy(record->label, op->label, sizeof(record->label));
    }
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
    record->rank = from->rank;
    record->seq = from->seq;
    record->kind = from->kind;
    memcpy(record->label, from->label, sizeof(record->label));
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

/* Whether a text has words as a whole: "reduce" is not in "all_reduce". */
static bool has_words(const char *text, const char *words)
{
    size_t length = strlen(words);

    for (const char *at = strstr(text, words); at != NULL;
         at = strstr(at + 1, words)) {
        char after = at[length];

        if ((at == text || at[-1] == ' ') && after != '_' &&
            !isalnum((unsigned char)after))
            return true;
    }
    return false;
}

/* "all_reduce seq 17: " before a reason, "" where the reason names the
 * operation: no sentence says it twice. */
static const char *format_call(
    const struct symc_op *op, const char *reason, char *buffer, size_t nbytes)
{
    char bare[SYMC_OP_TEXT], whole[SYMC_OP_TEXT];

    symc_op_format(op->kind, op->seq, "", bare, sizeof(bare));
    symc_op_format(op->kind, op->seq, op->label, whole, sizeof(whole));
    if (has_words(reason, bare) && (op->seq != 0 || op->label[0] == '\0'))
        buffer[0] = '\0';
    else
        snprintf(buffer, nbytes, "%s: ", whole);
    return buffer;
}

/* The reason in this rank's own words: it speaks of itself as "this rank". */
static const char *format_reason(
    const struct symc_members *members, char *buffer, size_t nbytes)
{
    const struct symc_failure *record = members->failures[members->rank];
    char self[32];
    int length = snprintf(self, sizeof(self), "rank %d ", members->rank);

    if (strncmp(record->text, self, (size_t)length) == 0)
        snprintf(buffer, nbytes, "this rank %.*s", SYMC_FAILURE_TEXT - length,
            record->text + length);
    else
        snprintf(buffer, nbytes, "%.*s", SYMC_FAILURE_TEXT, record->text);
    return buffer;
}

symmcoll_status_t symc_members_status(
    struct symc_members *members, const struct symc_op *op)
{
    const struct symc_failure *record = own_record(members);
    char reason[SYMC_FAILURE_TEXT + 16], call[SYMC_OP_TEXT + 8];

    format_reason(members, reason, sizeof(reason));
    if (op == NULL)
        return symc_fail(record->status, "%s", reason);
    format_call(op, reason, call, sizeof(call));
    if (atomic_exchange(&members->reported, 1) == 0) {
        symc_world_await_dump(members->world);
        if (is_told_first(members, op))
            return symc_fail(record->status, "%s%s", call, reason);
    }
    return symc_fail(SYMMCOLL_ERR_ABORTED,
        "%sgroup %s has failed before: %s: %s", call, members->name,
        symmcoll_status_name(record->status), reason);
}
