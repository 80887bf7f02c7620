/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group of the survivors of a failed one.
 *
 * In each round a rank proposes the members it excludes, the last collective it
 * has completed, and its part of the new group.  It excludes those in the
 * call's arguments, dead ranks, and those excluded by others.  When all
 * survivors exclude the same members, each opens the group and confirms in one
 * more round; if a rank dies before that, it is excluded and the group is
 * opened anew.  A round's proposals are the same for all, so all survivors end
 * in the same round.
 */
#include "base/cancel.h"
#include "base/digest.h"
#include "group/agreement.h"
#include "run/call.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAP_US 100 /* between checks of operations in flight */

static const struct symmcoll_shrink_args default_args =
    SYMMCOLL_SHRINK_ARGS_INIT;
static const struct symc_sized args_kind = {.name = "args",
    .macro = "SYMMCOLL_SHRINK_ARGS_INIT",
    .defaults = &default_args,
    .nbytes = sizeof(default_args),
    .least = sizeof(default_args.size)};

struct shrinking {
    struct symmcoll_group *old;
    struct symc_agreement agreement;
    struct symc_group_part part;
    bool offered;
    struct symmcoll_group *made;
    int *global; /* the survivors, with one offer each */
    struct symc_offer *offers;
};

/* ---- exclusion ---- */

static bool is_excluded(const uint64_t *set, int member)
{
    return (set[member / 64] >> (member % 64) & 1) != 0;
}

static void exclude(struct shrinking *shrinking, int member)
{
    struct symc_agreement *agreement = &shrinking->agreement;

    agreement->mine.excluded[member / 64] |= UINT64_C(1) << (member % 64);
    agreement->excluded[member] = true;
}

/* Excludes ranks that have died or finalized.  Returns whether there were
 * any. */
static bool exclude_dead(struct shrinking *shrinking)
{
    struct symc_agreement *agreement = &shrinking->agreement;
    bool any = false;

    for (int m = 0; m < agreement->size; m++) {
        const struct symc_peer *peer =
            &agreement->world->peers[agreement->global[m]];

        if (m == agreement->rank || agreement->excluded[m] ||
            symc_liveness_state(peer) == SYMC_LIVENESS_ALIVE)
            continue;
        exclude(shrinking, m);
        any = true;
    }
    return any;
}

/* Excludes ranks excluded by others or found dead in this round.  Returns
 * whether all proposals exclude the same members. */
static bool merge(struct shrinking *shrinking)
{
    struct symc_agreement *agreement = &shrinking->agreement;
    uint64_t before[SYMC_RANKS_MAX / 64];
    bool same = true;

    memcpy(before, agreement->mine.excluded, sizeof(before));
    for (int m = 0; m < agreement->size; m++) {
        if (agreement->gone[m]) {
            exclude(shrinking, m);
            same = false;
        }
        if (!agreement->heard[m])
            continue;
        same = same &&
               memcmp(before, agreement->all[m].excluded, sizeof(before)) == 0;
        for (int q = 0; q < agreement->size; q++) {
            if (is_excluded(agreement->all[m].excluded, q))
                exclude(shrinking, q);
        }
    }
    return same;
}

/* ---- the new group ---- */

static symmcoll_status_t offer(struct shrinking *shrinking)
{
    struct symmcoll_world *world = shrinking->agreement.world;
    symmcoll_status_t status;

    shrinking->part = symc_world_take_part(world, shrinking->agreement.size, 0);
    status = symc_segment_offer(&world->segments, shrinking->part.nbytes,
        shrinking->part.staging, &shrinking->agreement.mine.offer);
    shrinking->offered = status == SYMMCOLL_OK;
    if (status != SYMMCOLL_OK)
        symc_world_return_staging(
            world, shrinking->part.nbytes - shrinking->part.staging);
    return status;
}

/* Drops the new group: it will not exist, or not with these members. */
static void drop(struct shrinking *shrinking)
{
    struct symmcoll_world *world = shrinking->agreement.world;

    if (shrinking->made != NULL)
        (void)symc_group_end(shrinking->made);
    shrinking->made = NULL;
    if (shrinking->offered) {
        symc_segment_abandon(
            &world->segments, &shrinking->agreement.mine.offer);
        symc_world_return_staging(
            world, shrinking->part.nbytes - shrinking->part.staging);
    }
    shrinking->offered = false;
    shrinking->agreement.mine.ready = 0;
}

static void make_plan(struct shrinking *shrinking, struct symc_group_plan *plan)
{
    const struct symc_agreement *agreement = &shrinking->agreement;
    const struct symmcoll_group *old = shrinking->old;
    struct symc_digest digest = SYMC_DIGEST_INIT;
    char name[2 * SYMC_TRACE_NAME];

    *plan = (struct symc_group_plan){
        .global = shrinking->global, .timeout_ns = old->first_timeout_ns};
    for (int m = 0; m < agreement->size; m++) {
        if (agreement->excluded[m])
            continue;
        if (m == agreement->rank)
            plan->rank = plan->size;
        shrinking->offers[plan->size] = agreement->all[m].offer;
        shrinking->global[plan->size++] = agreement->global[m];
    }
    symc_digest_add_bytes(
        &digest, "base", &agreement->base, sizeof(agreement->base));
    symc_digest_add_bytes(
        &digest, "round", &agreement->round, sizeof(agreement->round));
    snprintf(name, sizeof(name), "%016" PRIx64, digest.a);
    memcpy(plan->id, name, SYMC_GROUP_ID - 1);
    if (strlen(old->name) + strlen(":shrink") < SYMC_TRACE_NAME)
        snprintf(name, sizeof(name), "%s:shrink", old->name);
    if (symc_group_find_name(agreement->world, name) != NULL)
        snprintf(name, sizeof(name), "%.16s:shrink:%s", old->name, plan->id);
    snprintf(plan->name, sizeof(plan->name), "%.*s", SYMC_TRACE_NAME - 1, name);
    snprintf(plan->desc, sizeof(plan->desc), "%.64s:shrink", old->desc);
}

static symmcoll_status_t open_new(struct shrinking *shrinking)
{
    struct symc_group_plan plan;
    symmcoll_status_t status;

    make_plan(shrinking, &plan);
    shrinking->offered = false; /* the group owns the offer from here on */
    status = symc_group_open(shrinking->agreement.world, &plan,
        &shrinking->part, shrinking->offers, &shrinking->made);
    shrinking->agreement.mine.ready = 1;
    return status;
}

/* ---- rounds ---- */

static symmcoll_status_t agree(struct shrinking *shrinking)
{
    struct symc_agreement *agreement = &shrinking->agreement;

    for (;;) {
        bool ready = agreement->mine.ready != 0;
        symmcoll_status_t status = SYMMCOLL_OK;

        if (exclude_dead(shrinking) || (!ready && !shrinking->offered)) {
            drop(shrinking);
            ready = false;
            status = offer(shrinking);
        }
        if (status == SYMMCOLL_OK)
            status = symc_agreement_round(agreement);
        if (status != SYMMCOLL_OK)
            return status;
        if (!merge(shrinking)) {
            if (is_excluded(agreement->mine.excluded, agreement->rank)) {
                (void)symc_fail(SYMMCOLL_ERR_ABORTED,
                    "group_shrink: group %s: the others exclude this rank",
                    shrinking->old->name);
                return symc_error_add_rank(
                    &shrinking->old->runner.members.ranks, agreement->rank);
            }
            drop(shrinking);
            continue;
        }
        if (ready)
            return SYMMCOLL_OK;
        status = open_new(shrinking);
        if (status != SYMMCOLL_OK)
            return status;
    }
}

/* Returns the last collective that all survivors have completed. */
static uint64_t find_last(const struct symc_agreement *agreement)
{
    uint64_t last = agreement->mine.last;

    for (int m = 0; m < agreement->size; m++) {
        if (agreement->heard[m] && agreement->all[m].last < last)
            last = agreement->all[m].last;
    }
    return last;
}

/* ---- the call ---- */

/* Returns the word that counts how often a member has shrunk this group.  It
 * stays readable after that member has released the group, as long as this rank
 * has it. */
static _Atomic uint64_t *shrunk_by(const struct symmcoll_group *old, int member)
{
    return (
        void *)((char *)old->runner.members.failures[member] + SYMC_SHRUNK_AT);
}

/* Returns whether others have ever shrunk the group without this rank. */
static bool is_left_out(const struct symmcoll_group *old, int *by)
{
    uint64_t own = atomic_load(shrunk_by(old, old->runner.rank));

    for (*by = 0; *by < old->runner.size; ++*by) {
        if (old->runner.members.failures[*by] != NULL &&
            atomic_load(shrunk_by(old, *by)) > own)
            return true;
    }
    return false;
}

static symmcoll_status_t fail_left_out(const struct symmcoll_group *old, int by)
{
    char who[SYMC_RANK_TEXT];

    (void)symc_fail(SYMMCOLL_ERR_ABORTED,
        "group_shrink: group %s: %s and others have shrunk it without this "
        "rank",
        old->name,
        symc_format_rank(&old->runner.members.ranks, by, SYMC_NO_PID, who));
    return symc_error_add_rank(&old->runner.members.ranks, old->runner.rank);
}

/* Makes a digest that is equal on all members of this very group, also on
 * error. */
static symmcoll_status_t make_base(
    struct symmcoll_group *old, struct symc_digest *digest)
{
    const struct symc_segment *segment = old->runner.segment;
    symmcoll_status_t status;
    uint64_t count;

    *digest = (struct symc_digest)SYMC_DIGEST_INIT;
    symc_digest_add_bytes(digest, "shrink", old->runner.global,
        (size_t)old->runner.size * sizeof(*old->runner.global));
    symc_digest_add_bytes(digest, "segment", segment->offers,
        (size_t)old->runner.size * sizeof(*segment->offers));
    status = symc_proposal_count(&old->world->proposals, digest->a, &count);
    symc_digest_add_bytes(digest, "count", &count, sizeof(count));
    return status;
}

/*
 * Waits for operations that all members have begun, so that no member leaves
 * before another has completed them.  Operations that a member has not begun
 * are not waited for.
 */
static void await_begun(struct symmcoll_group *old, int64_t deadline_ns)
{
    const struct symc_slot *host = &old->runner.slots[SYMC_MEMORY_HOST];
    uint64_t until = 0;

    while (!host->backend->host->settled(host->state, &until) &&
           !symc_members_failed(&old->runner.members) &&
           symc_now_ns() < deadline_ns)
        usleep(NAP_US);
}

/* Ends the operations of the old group, which fails if it has not already. */
static void stop_old(struct symmcoll_group *old,
    const struct symmcoll_shrink_args *args, int64_t wait_ns)
{
    char who[SYMC_RANK_TEXT];
    uint64_t ticket;

    /* A member that is excluded may never end what all have begun. */
    if (args->nexclude == 0 && !symc_members_failed(&old->runner.members))
        await_begun(old, symc_deadline_ns(symc_now_ns(), wait_ns / 2));
    if (!symc_members_failed(&old->runner.members) &&
        !symc_monitor_reports_death(&old->runner.members))
        symc_members_raise_one(&old->runner.members, SYMMCOLL_ERR_CANCELED,
            NULL, old->runner.rank, "%s shrinks group %s",
            symc_format_rank(
                &old->runner.members.ranks, old->runner.rank, SYMC_NO_PID, who),
            old->name);
    /* If the ticket is not served, its holder is stuck in a backend and ends
     * the operations later. */
    if (symc_run_take_ticket(&old->runner, SYMC_SHRINK_GROUP, &ticket) ==
        SYMMCOLL_OK) {
        symc_queue_settle(old->runner.queue);
        symc_queue_leave(old->runner.queue, ticket);
    }
    (void)symc_queue_await_running(old->runner.queue, SYMC_NEVER);
}

/* Returns the last collective before the first that this rank has not
 * completed: those on device memory may end in any order. */
static uint64_t find_completed(struct symmcoll_group *old)
{
    uint64_t completed = atomic_load(&old->runner.completed);
    uint64_t lost = atomic_load(&old->runner.lost);

    return lost != 0 && lost <= completed ? lost - 1 : completed;
}

static symmcoll_status_t check(struct symmcoll_group *old,
    const struct symmcoll_shrink_args *given, struct symmcoll_shrink_args *args,
    int64_t *wait_ns)
{
    symmcoll_status_t status;

    if (old == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "group_shrink: expected a group, found NULL");
    if (*old->alive == SYMC_GROUP_OUTSIDE)
        return symc_group_refuse(old, SYMC_SHRINK_GROUP);
    if (*old->alive != 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_shrink: expected the process that called init, found a fork "
            "of it");
    if (symc_queue_in_callback(old->runner.queue))
        return symc_callbacks_refuse("group_shrink");
    status = symc_sized_read(&args_kind, "group_shrink", given, args);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_timeout_read("group_shrink", args->timeout,
        old->world->config->timeouts_init, wait_ns);
    if (status != SYMMCOLL_OK)
        return status;
    if (args->nexclude < 0 || args->nexclude > old->runner.size ||
        (args->nexclude > 0 && args->exclude == NULL))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_shrink: expected a list of 0 to %d ranks to exclude, found "
            "%d%s",
            old->runner.size, args->nexclude,
            args->exclude == NULL ? " of NULL" : "");
    for (int i = 0; i < args->nexclude; i++) {
        if (args->exclude[i] < 0 || args->exclude[i] >= old->runner.size ||
            args->exclude[i] == old->runner.rank)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "group_shrink: expected other ranks of 0 to %d to exclude, "
                "found %d%s",
                old->runner.size - 1, args->exclude[i],
                args->exclude[i] == old->runner.rank ? ", this rank" : "");
    }
    return SYMMCOLL_OK;
}

static symmcoll_status_t run(
    struct shrinking *shrinking, const struct symmcoll_shrink_args *args)
{
    struct symc_agreement *agreement = &shrinking->agreement;
    symmcoll_status_t status = symc_agreement_begin(agreement);
    struct symc_error error;

    shrinking->global =
        symc_alloc((size_t)agreement->size, sizeof(*shrinking->global));
    shrinking->offers =
        symc_alloc((size_t)agreement->size, sizeof(*shrinking->offers));
    if (shrinking->global == NULL || shrinking->offers == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    if (status != SYMMCOLL_OK)
        return status;
    for (int i = 0; i < args->nexclude; i++)
        exclude(shrinking, args->exclude[i]);
    symc_error_keep(&error, agree(shrinking));
    if (error.status != SYMMCOLL_OK)
        drop(shrinking);
    return symc_error_return(&error);
}

static symmcoll_status_t run_recorded(struct shrinking *shrinking,
    const struct symmcoll_shrink_args *args, uint64_t issued, int64_t wait_ns)
{
    const struct symmcoll_group *old = shrinking->old;
    struct symc_block *block = old->world->own.block;
    const struct symc_group_call call = {.kind = SYMC_SHRINK_GROUP,
        .trace = old->runner.trace,
        .seq = atomic_load(&old->runner.seq[SYMC_COUNT_COLLECTIVE]),
        .issued = issued,
        .nbytes = sizeof(shrinking->agreement.mine.offer),
        .timeout_ns = wait_ns};
    struct symc_trace_entry *record = symc_group_record(old->world, &call);
    symmcoll_status_t status;

    /* Before the members agree, which may take longer than the launcher's
     * grace. */
    atomic_fetch_add(&block->resumed, 1);
    status = run(shrinking, args);
    if (status != SYMMCOLL_OK) {
        atomic_fetch_sub(&block->resumed, 1);
        symc_error_set_call(old->name, SYMC_SHRINK_GROUP, 0);
    }
    symc_trace_end(&old->world->trace, record, status == SYMMCOLL_OK);
    return status;
}

static symmcoll_status_t shrink(struct symmcoll_group *old,
    const struct symmcoll_shrink_args *given, struct symmcoll_group **made,
    uint64_t *last)
{
    struct symmcoll_shrink_args args = default_args;
    struct shrinking shrinking = {.old = old};
    struct symc_agreement *agreement = &shrinking.agreement;
    uint64_t issued = symc_ticks();
    struct symc_digest digest;
    int64_t wait_ns = 0, deadline_ns;
    symmcoll_status_t status;
    int by;

    if (made == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_shrink: expected a place for the group, found NULL");
    status = check(old, given, &args, &wait_ns);
    if (status != SYMMCOLL_OK)
        return status;
    deadline_ns = symc_deadline_ns(symc_now_ns(), wait_ns);
    stop_old(old, &args, wait_ns);
    if (is_left_out(old, &by))
        return fail_left_out(old, by);
    status = make_base(old, &digest);
    *agreement = (struct symc_agreement){.world = old->world,
        .where = "group_shrink",
        .base = digest.a,
        .global = old->runner.global,
        .size = old->runner.size,
        .slot = -1,
        .rank = old->runner.rank,
        .deadline_ns = deadline_ns,
        .seconds = (double)wait_ns / (double)SYMC_NS_PER_S,
        .outlives = true};
    agreement->mine.last = find_completed(old);
    snprintf(agreement->mine.text, sizeof(agreement->mine.text),
        "what is left of group %s", old->name);
    if (status == SYMMCOLL_OK)
        status = run_recorded(&shrinking, &args, issued, wait_ns);
    if (status == SYMMCOLL_OK) {
        symc_group_hand_on(old, shrinking.made, agreement->excluded);
        *made = shrinking.made;
        atomic_fetch_add(shrunk_by(old, old->runner.rank), 1);
        if (last != NULL)
            *last = find_last(agreement);
    } else if (is_left_out(old, &by))
        status = fail_left_out(old, by);
    symc_agreement_end(agreement, status);
    free(shrinking.global);
    free(shrinking.offers);
    return status;
}

symmcoll_status_t symmcoll_group_shrink(struct symmcoll_group *group,
    const struct symmcoll_shrink_args *args, struct symmcoll_group **shrunk,
    uint64_t *last)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = shrink(group, args, shrunk, last);

    symc_cancel_restore(cancel);
    return status;
}
