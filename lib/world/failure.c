/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Raising, adopting and reporting a group's failure.
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

/* The part of a record that the checksum covers and that is copied. */
#define CONTENT offsetof(struct symc_failure, status)
#define CONTENT_NBYTES (sizeof(struct symc_failure) - CONTENT)

/* FNV-1a: enough to detect damage by a stray store. */
static uint32_t sum_content(const struct symc_failure *record)
{
    const unsigned char *bytes = (const unsigned char *)record + CONTENT;
    uint32_t sum = UINT32_C(2166136261);

    for (size_t i = 0; i < CONTENT_NBYTES; i++)
        sum = (sum ^ bytes[i]) * UINT32_C(16777619);
    return sum;
}

static void copy_content(
    struct symc_failure *to, const struct symc_failure *from)
{
    memcpy((char *)to + CONTENT, (const char *)from + CONTENT, CONTENT_NBYTES);
}

bool symc_failure_read(
    const struct symc_failure *published, struct symc_failure *copy)
{
    if (published == NULL ||
        atomic_load_explicit(&published->raised, memory_order_acquire) != VALID)
        return false;
    copy_content(copy, published);
    copy->text[sizeof(copy->text) - 1] = '\0';
    return sum_content(copy) == published->sum && copy->status < 0;
}

/* Claims this rank's own record.  Returns false if another thread has claimed
 * it, after that thread has finished. */
static bool claim(struct symc_members *members)
{
    struct symc_failure *record = &members->own;
    uint32_t none = NONE;

    if (atomic_compare_exchange_strong(&record->raised, &none, WRITING))
        return true;
    while (atomic_load(&record->raised) != VALID)
        sched_yield();
    return false;
}

/* Wakes members that wait in sends and receives. */
static void wake_pairs(const struct symc_members *members)
{
    for (int r = 0; r < members->size; r++) {
        struct symc_block *block =
            members->world->peers[members->global[r]].view.block;

        if (block != NULL)
            symc_doorbell_notify(symc_block_doorbell(block));
    }
}

static struct symc_failure *find_other(const struct symc_failure *published)
{
    return (void *)((char *)(uintptr_t)published + SYMC_OTHER_AT);
}

bool symc_failure_read_other(
    const struct symc_failure *published, struct symc_failure *other)
{
    return published != NULL && symc_failure_read(find_other(published), other);
}

/* Copies the first failure of a group that is not the group of all ranks to
 * where the launcher reads it. */
static void publish_other(const struct symc_members *members)
{
    const struct symc_failure *first = symc_block_first(&members->world->own);
    struct symc_failure *other = find_other(first);
    struct symc_failure copy;
    uint32_t none = NONE;

    if (members->failures[members->rank] == first ||
        !atomic_compare_exchange_strong(&other->raised, &none, WRITING))
        return;
    copy_content(&copy, &members->own);
    /* Ranks of that group mean nothing to the launcher. */
    copy.late = 0;
    memset(copy.ranks, 0, sizeof(copy.ranks));
    copy_content(other, &copy);
    other->sum = sum_content(&copy);
    atomic_store(&other->raised, VALID);
}

/* Publishes the complete own record: stops this rank's waits and wakes all
 * members. */
static void publish(struct symc_members *members)
{
    struct symmcoll_world *world = members->world;
    struct symc_failure *published = members->failures[members->rank];

    symc_world_expect_dump(world);
    publish_other(members);
    copy_content(published, &members->own);
    published->sum = sum_content(&members->own);
    atomic_store(&published->raised, VALID);
    atomic_store(&members->own.raised, VALID);
    atomic_store(&members->stopped, 1);
    if (members->stop != NULL)
        members->stop(members);
    atomic_store(&members->doorbells[members->rank]->failed, 1);
    atomic_fetch_add(&world->own.block->failures, 1);
    for (int r = 0; r < members->size; r++) {
        if (members->doorbells[r] != NULL)
            symc_doorbell_wake(members->doorbells[r]);
    }
    wake_pairs(members);
    symc_world_alarm(world);
    symc_logf(&world->log, SYMC_LOG_DEBUG, "group %s has failed: %s: %s",
        members->name, symmcoll_status_name(members->own.status),
        members->own.text);
}

static void set_ranks(struct symc_failure *record, const bool *ranks, int size)
{
    for (int r = 0; r < size && r < SYMC_FAILURE_RANKS; r++) {
        if (ranks[r])
            record->ranks[r / 8] |= (uint8_t)(1u << (r % 8));
    }
}

static void raise(struct symc_members *members, symmcoll_status_t status,
    const struct symc_op *op, const bool *ranks, const char *format,
    va_list arguments)
{
    struct symc_failure *record = &members->own;
    int64_t at_ns = symc_now_ns();

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
    if (ranks != NULL)
        set_ranks(record, ranks, members->size);
    /* A rank that this rank waits for is late; this rank itself is not. */
    record->late = status == SYMMCOLL_ERR_TIMEOUT && ranks != NULL &&
                   !ranks[members->rank];
    vsnprintf(record->text, sizeof(record->text), format, arguments);
    publish(members);
}

void symc_members_raise(struct symc_members *members, symmcoll_status_t status,
    const struct symc_op *op, const bool *ranks, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    raise(members, status, op, ranks, format, arguments);
    va_end(arguments);
}

void symc_members_raise_one(struct symc_members *members,
    symmcoll_status_t status, const struct symc_op *op, int member,
    const char *format, ...)
{
    bool ranks[SYMC_RANKS_MAX] = {false};
    va_list arguments;

    ranks[member] = true;
    va_start(arguments, format);
    raise(members, status, op, ranks, format, arguments);
    va_end(arguments);
}

static void adopt(struct symc_members *members, const struct symc_failure *from)
{
    struct symc_failure *record = &members->own;

    if (!claim(members))
        return;
    copy_content(record, from);
    publish(members);
}

bool symc_members_failed(struct symc_members *members)
{
    struct symc_failure first, found;
    bool any = false;

    if (atomic_load_explicit(&members->stopped, memory_order_acquire) != 0)
        return true;
    for (int r = 0; r < members->size; r++) {
        if (r == members->rank) {
            /* The own record is valid a moment before `stopped` is set. */
            if (atomic_load(&members->own.raised) == VALID)
                return true;
            continue;
        }
        if (!symc_failure_read(members->failures[r], &found))
            continue;
        if (!any || found.at_ns < first.at_ns)
            copy_content(&first, &found);
        any = true;
    }
    if (any)
        adopt(members, &first);
    return any;
}

/* ---- notes ---- */

static struct symc_failure *find_note(const struct symc_failure *published)
{
    return (void *)((char *)(uintptr_t)published + SYMC_NOTE_AT);
}

bool symc_failure_read_note(
    const struct symc_failure *published, struct symc_failure *note)
{
    return published != NULL && symc_failure_read(find_note(published), note);
}

bool symc_failure_find_cause(
    const struct symmcoll_world *world, int rank, struct symc_failure *cause)
{
    const struct symc_block_view *view = &world->peers[rank].view;
    const struct symc_failure *first;
    struct symc_failure other;
    bool failed, found;

    if (view->block == NULL || view->first.nbytes == 0)
        return false;
    first = symc_block_first(view);
    failed = symc_failure_read(first, cause);
    found = symc_failure_read_other(first, &other);
    if (found && (!failed || other.at_ns < cause->at_ns))
        copy_content(cause, &other);
    return failed || found || symc_failure_read_note(first, cause);
}

/* The group's ticket ensures a single writer. */
void symc_members_note(struct symc_members *members, symmcoll_status_t status,
    const struct symc_op *op)
{
    struct symc_failure *published =
        find_note(members->failures[members->rank]);
    struct symc_failure note = {.status = status,
        .at_ns = symc_now_ns(),
        .seq = op->seq,
        .kind = (uint32_t)op->kind,
        .rank = members->rank};
    bool ranks[SYMC_RANKS_MAX];

    if (symc_error_list_ranks(ranks, members->size))
        set_ranks(&note, ranks, members->size);
    memcpy(note.label, op->label, sizeof(note.label));
    snprintf(note.text, sizeof(note.text), "%s", symmcoll_last_error());
    atomic_store(&published->raised, WRITING);
    copy_content(published, &note);
    published->sum = sum_content(&note);
    atomic_store(&published->raised, VALID);
}

void symc_members_withdraw_note(struct symc_members *members)
{
    atomic_store(&find_note(members->failures[members->rank])->raised, NONE);
}

bool symc_members_find_note(
    const struct symc_members *members, uint64_t seq, struct symc_failure *note)
{
    for (int r = 0; r < members->size; r++) {
        if (symc_failure_read_note(members->failures[r], note) &&
            note->seq == seq)
            return true;
    }
    return false;
}

/* ---- reports of a failure ---- */

bool symc_members_was_late(const struct symc_members *members)
{
    return symc_failure_is_late(&members->own, members->rank);
}

const bool *symc_members_concerned(const struct symc_members *members,
    symmcoll_status_t status, bool ranks[SYMC_RANKS_MAX])
{
    if (symc_error_list_ranks(ranks, members->size))
        return ranks;
    ranks[members->rank] = true;
    return symc_error_is_of_others(status) ? NULL : ranks;
}

/* Adds what a record says of a failure to the thread's current error. */
static void add_record(
    const struct symc_members *members, const struct symc_failure *record)
{
    symc_error_set_call(members->name, record->kind, record->seq);
    symc_error_set_cause(record->status);
    for (int r = 0; r < members->size; r++) {
        if (symc_failure_concerns(record, r))
            symc_error_add_rank(&members->ranks, r);
    }
}

symmcoll_status_t symc_members_fail_as(
    const struct symc_members *members, const struct symc_failure *failure)
{
    (void)symc_fail(failure->status, "%s", failure->text);
    add_record(members, failure);
    return failure->status;
}

/* Returns whether a call gets the first reason rather than ABORTED: the call
 * that was interrupted, or the first later one.  A rank that was late gets
 * ABORTED, because the others went on without it, and an abort interrupts only
 * operations that have begun. */
static bool gets_reason(
    const struct symc_members *members, const struct symc_op *op)
{
    if (members->own.status == SYMMCOLL_ERR_CANCELED)
        return op->seq != 0;
    return !symc_members_was_late(members);
}

/* Returns whether a text contains whole words: "reduce" is not in
 * "all_reduce". */
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

/* Formats "all_reduce seq 17: " as a prefix of a reason, or "" if the reason
 * names the operation itself. */
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

/* Formats the reason for this rank, which it calls "this rank". */
static const char *format_reason(
    const struct symc_members *members, char *buffer, size_t nbytes)
{
    const struct symc_failure *record = &members->own;
    char self[SYMC_RANK_TEXT];
    size_t length = strlen(
        symc_format_rank(&members->ranks, members->rank, SYMC_NO_PID, self));

    if (strncmp(record->text, self, length) == 0 && record->text[length] == ' ')
        snprintf(buffer, nbytes, "this rank%.*s",
            SYMC_FAILURE_TEXT - (int)length, record->text + length);
    else
        snprintf(buffer, nbytes, "%.*s", SYMC_FAILURE_TEXT, record->text);
    return buffer;
}

/* Returns the group's first failure as the error of an operation. */
static symmcoll_status_t fail_first(
    const struct symc_members *members, const struct symc_op *op)
{
    char reason[SYMC_FAILURE_TEXT + 16], call[SYMC_OP_TEXT + 8];

    format_reason(members, reason, sizeof(reason));
    (void)symc_fail(members->own.status, "%s%s",
        format_call(op, reason, call, sizeof(call)), reason);
    symc_error_set_call(members->name, op->kind, op->seq);
    add_record(members, &members->own);
    return members->own.status;
}

symmcoll_status_t symc_members_interrupted(
    struct symc_members *members, const struct symc_op *op)
{
    /* An operation that the abort interrupted as well gets the same reason. */
    return members->own.status != SYMMCOLL_ERR_CANCELED
               ? symc_members_status(members, op)
               : symc_members_cut_short(members, op);
}

symmcoll_status_t symc_members_cut_short(
    struct symc_members *members, const struct symc_op *op)
{
    if (atomic_load(&members->reported) == 0)
        symc_world_await_dump(members->world);
    return fail_first(members, op);
}

symmcoll_status_t symc_members_status(
    struct symc_members *members, const struct symc_op *op)
{
    const struct symc_failure *record = &members->own;
    char reason[SYMC_FAILURE_TEXT + 16], call[SYMC_OP_TEXT + 8];

    if (op != NULL && atomic_exchange(&members->reported, 1) == 0) {
        symc_world_await_dump(members->world);
        if (gets_reason(members, op))
            return fail_first(members, op);
    }
    format_reason(members, reason, sizeof(reason));
    if (op == NULL) {
        (void)symc_fail(record->status, "%s", reason);
        add_record(members, record);
        return record->status;
    }
    (void)symc_fail(SYMMCOLL_ERR_ABORTED,
        "%sgroup %s has failed before: %s: %s",
        format_call(op, reason, call, sizeof(call)), members->name,
        symmcoll_status_name(record->status), reason);
    symc_error_set_call(members->name, op->kind, op->seq);
    add_record(members, record);
    return SYMMCOLL_ERR_ABORTED;
}
