/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The core passed to a backend: functions that look up their data through the
 * runner.
 */
#include "base/cancel.h"
#include "registry/registry.h"
#include "run/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void log_line(
    void *context, enum symc_log_level level, const char *format, ...)
{
    const struct symc_runner *runner = context;
    char line[SYMC_DETAIL_MAX];
    int cancel = symc_cancel_disable();
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    symc_logf(&runner->world->log, level, "%s", line);
    symc_cancel_restore(cancel);
}

/* ---- memory ---- */

static symmcoll_status_t reserve(void *context)
{
    struct symc_runner *runner = context;
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = SYMMCOLL_OK;

    if (!runner->reserved)
        status = symc_segment_reserve(runner->segment, runner->staging_at,
            runner->staging_nbytes, "staging of collectives");
    runner->reserved = status == SYMMCOLL_OK;
    symc_cancel_restore(cancel);
    return status;
}

void *symc_run_inherit(void *context)
{
    struct symc_runner *runner = context;
    void *made = runner->inherited.made;

    if (runner->inherited.backend != runner->opened)
        return NULL;
    runner->inherited.made = NULL;
    return made;
}

/* ---- the recorder ---- */

static void record(void *context, const struct symc_op *op)
{
    struct symc_runner *runner = context;
    struct symc_flight *flight = symc_run_flight(runner, op);

    if (op->seq == 0)
        return; /* an operation of the group's own */
    if (flight->entry == NULL && runner->trace >= 0)
        flight->entry =
            symc_trace_start(&runner->world->trace, runner->trace, op);
}

/* Needs the ticket, like all rounds. */
static uint64_t take_number(void *context)
{
    struct symc_runner *runner = context;

    return atomic_fetch_add(&runner->seq[SYMC_COUNT_COLLECTIVE], 1) + 1;
}

/* ---- failures ---- */

static bool has_finalized(const struct symc_runner *runner, int member)
{
    return symc_liveness_state(&runner->world->peers[runner->global[member]]) ==
           SYMC_LIVENESS_LEFT;
}

/* Returns whether a member takes part in nothing more: it has released the
 * group, as finalize does with all groups. */
static bool has_left(const struct symc_runner *runner, int member)
{
    return member >= 0 && (has_finalized(runner, member) ||
                              symc_segment_is_left(runner->segment, member));
}

static bool failed(void *context, int member)
{
    struct symc_runner *runner = context;
    int cancel = symc_cancel_disable();
    bool found =
        symc_members_failed(&runner->members) || has_left(runner, member);

    symc_cancel_restore(cancel);
    return found;
}

static symmcoll_status_t find_failure(
    struct symc_runner *runner, const struct symc_op *op, int member)
{
    struct symc_members *members = &runner->members;
    struct symc_failure note;
    char text[SYMC_OP_TEXT], who[SYMC_RANK_TEXT];

    /* All members, this rank included, had compared the operation, and it
     * failed for all of them; a member that has exited since has done so
     * because of that. */
    if (symc_kinds[op->kind].counter == SYMC_COUNT_COLLECTIVE &&
        symc_members_find_note(members, op->seq, &note))
        return symc_members_fail_as(members, &note);
    if (!symc_members_failed(members) && has_left(runner, member)) {
        bool noted = symc_failure_read_note(members->failures[member], &note);
        /* Only finalize leaves the group of all ranks, before the liveness
         * word shows it. */
        bool finalized = runner->of_world || has_finalized(runner, member);

        if (!noted && finalized)
            noted = symc_failure_find_cause(
                runner->world, runner->global[member], &note);
        symc_members_raise_one(members, SYMMCOLL_ERR_PEER, op, member,
            "%s has %s%s%.240s, and %s of group %s needs it",
            symc_format_rank(&members->ranks, member,
                runner->world->peers[runner->global[member]].pid, who),
            finalized ? symc_liveness_name_left(
                            &runner->world->peers[runner->global[member]])
                      : "released the group",
            noted ? " after " : "", noted ? note.text : "",
            symc_op_format(op->kind, op->seq, op->label, text, sizeof(text)),
            runner->name);
    }
    if (!symc_members_failed(members))
        return symc_fail(SYMMCOLL_ERR_INTERNAL, "%s: stopped without a reason",
            symc_kind_name(op->kind));
    return symc_members_status(members, op);
}

static symmcoll_status_t failure(
    void *context, const struct symc_op *op, int member)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = find_failure(context, op, member);

    symc_cancel_restore(cancel);
    return status;
}

static symmcoll_status_t raise_error(
    void *context, const struct symc_op *op, symmcoll_status_t status)
{
    struct symc_runner *runner = context;
    int cancel = symc_cancel_disable();
    bool ranks[SYMC_RANKS_MAX];
    char text[SYMC_OP_TEXT];

    symc_op_format(op->kind, op->seq, op->label, text, sizeof(text));
    symc_members_raise(&runner->members, status, op,
        symc_members_concerned(&runner->members, status, ranks),
        "%s of group %s: %.*s", text, runner->name, SYMC_FAILURE_TEXT / 2 - 1,
        symmcoll_last_error());
    status = symc_members_status(&runner->members, op);
    symc_cancel_restore(cancel);
    return status;
}

/* Formats a rank's position, "is after all_reduce seq 16", or how it ended. */
static void describe_rank(
    const struct symc_runner *runner, int member, char *buffer, size_t nbytes)
{
    const struct symmcoll_world *world = runner->world;
    int rank = runner->global[member];
    char position[SYMC_TRACE_POSITION], end[96];
    size_t ring_nbytes;
    const struct symc_trace_ring *ring =
        symc_world_ring(world, rank, &ring_nbytes);

    switch (symc_liveness_state(&world->peers[rank])) {
    case SYMC_LIVENESS_DEAD:
        symc_liveness_format_end(&world->peers[rank], end, sizeof(end));
        snprintf(buffer, nbytes, "%s", end);
        return;
    case SYMC_LIVENESS_LEFT:
        snprintf(buffer, nbytes, "has %s",
            symc_liveness_name_left(&world->peers[rank]));
        return;
    default:
        snprintf(buffer, nbytes, "is %s",
            ring == NULL ? "on another machine"
                         : symc_trace_position(ring, ring_nbytes, runner->name,
                               position, sizeof(position)));
    }
}

/* Formats the positions of the missing ranks, one clause each, as many as
 * fit. */
static const char *describe_missing(const struct symc_runner *runner,
    const bool *missing, char *buffer, size_t nbytes)
{
    size_t used = 0;

    buffer[0] = '\0';
    for (int r = 0; r < runner->size && used + 48 < nbytes; r++) {
        char place[SYMC_TRACE_POSITION + 8], who[SYMC_RANK_TEXT];

        if (!missing[r])
            continue;
        describe_rank(runner, r, place, sizeof(place));
        used += (size_t)snprintf(buffer + used, nbytes - used, "; %s %s",
            symc_format_rank(&runner->members.ranks, r,
                runner->world->peers[runner->global[r]].pid, who),
            place);
    }
    return buffer;
}

/* Fails the group with a timeout.  found: what was received instead; NULL:
 * nothing. */
static symmcoll_status_t raise_timeout(struct symc_runner *runner,
    const struct symc_op *op, const bool *missing, const char *found)
{
    char ranks[192], where[SYMC_FAILURE_TEXT - 160], text[SYMC_OP_TEXT];

    /* Another rank's failure is the earlier reason, and a rank that has died is
     * not merely late. */
    if (symc_monitor_reports_death(&runner->members))
        return symc_members_status(&runner->members, op);
    symc_format_members(&runner->members.ranks, missing, ranks, sizeof(ranks));
    describe_missing(runner, missing, where, sizeof(where));
    symc_op_format(op->kind, op->seq, op->label, text, sizeof(text));
    symc_members_raise(&runner->members, SYMMCOLL_ERR_TIMEOUT, op, missing,
        "%s of group %s timed out after %.3g s: %s%s%s", text, runner->name,
        (double)op->timeout_ns / (double)SYMC_NS_PER_S,
        found != NULL ? found : ranks, found != NULL ? "" : " did not come",
        where);
    return symc_members_status(&runner->members, op);
}

static symmcoll_status_t expire(void *context, const struct symc_op *op,
    const bool *missing, const char *found)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = raise_timeout(context, op, missing, found);

    symc_cancel_restore(cancel);
    return status;
}

static bool gone(void *context, int member)
{
    struct symc_runner *runner = context;
    int cancel = symc_cancel_disable();
    bool found =
        symc_liveness_state(&runner->world->peers[runner->global[member]]) !=
        SYMC_LIVENESS_ALIVE;

    symc_cancel_restore(cancel);
    return found;
}

/* Returns the error of an operation with missing ranks that does not fail the
 * group: their positions, or how they ended. */
static symmcoll_status_t find_absent(
    struct symc_runner *runner, const struct symc_op *op, const bool *missing)
{
    symmcoll_status_t status = SYMMCOLL_ERR_TIMEOUT;
    char ranks[192], where[SYMC_FAILURE_TEXT], text[SYMC_OP_TEXT];

    for (int r = 0; r < runner->size; r++) {
        if (missing[r] && r != runner->rank && gone(runner, r))
            status = SYMMCOLL_ERR_PEER;
    }
    symc_format_members(&runner->members.ranks, missing, ranks, sizeof(ranks));
    symc_op_format(op->kind, op->seq, op->label, text, sizeof(text));
    if (missing[runner->rank])
        (void)symc_fail(status,
            "%s of group %s: this rank came after the others had given up: %s "
            "did not come in time",
            text, runner->name, ranks);
    else
        (void)symc_fail(status,
            "%s of group %s: %s did not come within %.3g s%s", text,
            runner->name, ranks, (double)op->timeout_ns / (double)SYMC_NS_PER_S,
            describe_missing(runner, missing, where, sizeof(where)));
    symc_error_set_call(runner->name, op->kind, op->seq);
    return symc_error_add_ranks(&runner->members.ranks, missing);
}

static symmcoll_status_t absent(
    void *context, const struct symc_op *op, const bool *missing)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = find_absent(context, op, missing);

    symc_cancel_restore(cancel);
    return status;
}

/* Adds members to the ranks that an error concerns. */
static void add_ranks(void *context, const bool *ranks)
{
    const struct symc_runner *runner = context;

    symc_error_add_ranks(&runner->members.ranks, ranks);
}

/* ---- waiting ---- */

/* The member that a thread waits for, and its runner. */
struct awaited {
    struct symc_runner *runner;
    int member;
};

static bool look(void *arg)
{
    const struct awaited *awaited = arg;

    return failed(awaited->runner, awaited->member);
}

/* Makes progress on the rank's sends and receives during a wait. */
static void pass(void *arg, bool sleeps)
{
    const struct awaited *awaited = arg;

    symc_pairs_pass(awaited->runner->world->pairs, sleeps);
}

static struct symc_watch make_watch(struct awaited *awaited)
{
    struct symc_runner *runner = awaited->runner;

    return (struct symc_watch){.waiting = runner->core.waiting,
        .doorbell = runner->doorbells[runner->rank],
        .stopped = &runner->members.stopped,
        .look = look,
        .pass = pass,
        .arg = awaited};
}

static enum symc_wait_end wait_for(void *context, const _Atomic uint64_t *word,
    uint64_t target, int member, struct symc_wait_budget *budget)
{
    struct awaited awaited = {context, member};
    struct symc_watch watch = make_watch(&awaited);

    watch.mark = symc_doorbell_mark(member);
    return symc_wait_long(&watch, word, target, budget);
}

enum symc_wait_end symc_run_wait_until(struct symc_runner *runner, int member,
    bool (*ready)(void *arg), void *arg, struct symc_wait_budget *budget)
{
    struct awaited awaited = {runner, member};
    struct symc_watch watch = make_watch(&awaited);

    return symc_wait_until(&watch, ready, arg, budget);
}

static void wake(void *context, int member)
{
    const struct symc_runner *runner = context;

    for (int r = 0; r < runner->size; r++) {
        if ((member < 0 || r == member) && runner->doorbells[r] != NULL)
            symc_doorbell_notify(runner->doorbells[r]);
    }
}

void symc_run_make_core(struct symc_runner *runner)
{
    runner->settings = symc_registry_settings(runner->world->config);
    runner->core = (struct symc_core){.group = runner,
        .name = runner->name,
        .ranks = &runner->members.ranks,
        .kinds = symc_kinds,
        .settings = &runner->settings,
        .shared = &runner->shared,
        .agreed = &runner->compared,
        .waiting = &runner->world->origin->waiting,
        .stopped = &runner->members.stopped,
        .communicators = &runner->world->nccl_comms,
        .fail = symc_fail,
        .add_ranks = add_ranks,
        .log = log_line,
        .exchange = symc_slot_exchange,
        .gather = symc_slot_gather,
        .inherit = symc_run_inherit,
        .reserve = reserve,
        .record = record,
        .take_number = take_number,
        .raise = raise_error,
        .failed = failed,
        .failure = failure,
        .expire = expire,
        .now = symc_now_ns,
        .gone = gone,
        .absent = absent,
        .wait = wait_for,
        .wake = wake};
}
