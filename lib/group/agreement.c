/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rounds of an agreement: see agreement.h.
 *
 * A rank in round k + 1 has read all proposals of round k, so each rank keeps
 * its proposals of two rounds.  All others agree on whether a rank has proposed
 * in a round, because a proposal stays: they check first whether the rank has
 * died, then for its proposal.
 */
#include "group/agreement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAUSE_LEAST_NS (INT64_C(20) * 1000)
#define PAUSE_MOST_NS (INT64_C(1) * 1000 * 1000)
#define POLLS 200 /* before the first pause */

symmcoll_status_t symc_agreement_begin(struct symc_agreement *agreement)
{
    size_t size = (size_t)agreement->size;

    agreement->mine.base = agreement->base;
    agreement->excluded = symc_alloc(size, sizeof(bool));
    agreement->gone = symc_alloc(size, sizeof(bool));
    agreement->heard = symc_alloc(size, sizeof(bool));
    agreement->unwanted = symc_alloc(size, sizeof(bool));
    agreement->all = symc_alloc(size, sizeof(*agreement->all));
    return agreement->excluded != NULL && agreement->gone != NULL &&
                   agreement->heard != NULL && agreement->unwanted != NULL &&
                   agreement->all != NULL
               ? SYMMCOLL_OK
               : SYMMCOLL_ERR_NO_MEMORY;
}

static const struct symc_peer *peer_of(
    const struct symc_agreement *agreement, int member)
{
    return &agreement->world->peers[agreement->global[member]];
}

static const char *format_member(
    const struct symc_agreement *agreement, int member, char *buffer)
{
    const struct symc_ranks ranks = {NULL, NULL, agreement->world->size};

    return symc_format_rank(&ranks, agreement->global[member],
        peer_of(agreement, member)->pid, buffer);
}

/* Returns whether this rank still needs a member's proposal in this round. */
static bool is_awaited(const struct symc_agreement *agreement, int member)
{
    return member != agreement->rank && !agreement->excluded[member] &&
           !agreement->unwanted[member] && !agreement->heard[member] &&
           !agreement->gone[member];
}

/* Notes a member's proposal.  Members that it excludes are not waited for,
 * since this rank excludes them too in the next round. */
static void hear(struct symc_agreement *agreement, int member)
{
    const uint64_t *excluded = agreement->all[member].excluded;

    agreement->heard[member] = true;
    for (int m = 0; m < agreement->size; m++) {
        if ((excluded[m / 64] >> (m % 64) & 1) != 0)
            agreement->unwanted[m] = true;
    }
}

/* ---- errors ---- */

/* Adds a member to the ranks that the error concerns. */
static symmcoll_status_t add_member(
    const struct symc_agreement *agreement, int member)
{
    const struct symc_ranks ranks = {
        .group = NULL, .global = agreement->global, .size = agreement->size};

    return symc_error_add_rank(&ranks, member);
}

static symmcoll_status_t fail_dead(
    const struct symc_agreement *agreement, int member)
{
    char who[SYMC_RANK_TEXT], end[SYMC_END_TEXT];

    symc_monitor_describe_end(
        agreement->world, agreement->global[member], end, sizeof(end));
    (void)symc_fail(SYMMCOLL_ERR_PEER, "%s: %s %s, and %s needs it",
        agreement->where, format_member(agreement, member, who), end,
        agreement->mine.text);
    return add_member(agreement, member);
}

static symmcoll_status_t fail_given_up(
    const struct symc_agreement *agreement, int member)
{
    const struct symc_proposal *other = &agreement->all[member];
    char who[SYMC_RANK_TEXT], text[sizeof(other->text)];

    memcpy(text, other->text, sizeof(text));
    symc_make_printable(text);
    (void)symc_fail(other->status, "%s: %s: %s", agreement->where,
        format_member(agreement, member, who), text);
    /* The ranks that another one has waited for are not known here. */
    return symc_error_is_of_others(other->status)
               ? other->status
               : add_member(agreement, member);
}

/* Reports the missing members, and which group each of them is creating. */
static symmcoll_status_t fail_late(const struct symc_agreement *agreement)
{
    char others[320] = "", who[SYMC_RANK_TEXT];
    size_t used = 0;

    for (int m = 0; m < agreement->size && used + 64 < sizeof(others); m++) {
        struct symc_proposal other;
        bool waits;

        if (!is_awaited(agreement, m))
            continue;
        waits = symc_proposal_latest(peer_of(agreement, m)->view.block, &other);
        if (waits)
            symc_make_printable(other.text);
        used += (size_t)snprintf(others + used, sizeof(others) - used,
            "; %s %s%.100s", format_member(agreement, m, who),
            waits ? "waits for the members of " : "did not come",
            waits ? other.text : "");
    }
    (void)symc_fail(SYMMCOLL_ERR_TIMEOUT, "%s: %s: after %.3g s%s",
        agreement->where, agreement->mine.text, agreement->seconds, others);
    for (int m = 0; m < agreement->size; m++) {
        if (is_awaited(agreement, m))
            (void)add_member(agreement, m);
    }
    return SYMMCOLL_ERR_TIMEOUT;
}

/* ---- a round ---- */

static bool pause_until(
    const struct symc_agreement *agreement, int *polls, int64_t *pause_ns)
{
    struct timespec pause;

    if (symc_now_ns() >= agreement->deadline_ns)
        return false;
    if (++*polls < POLLS) {
        symc_pause();
        return true;
    }
    pause = (struct timespec){.tv_nsec = *pause_ns};
    nanosleep(&pause, NULL);
    if (*pause_ns < PAUSE_MOST_NS)
        *pause_ns += *pause_ns / 2;
    return true;
}

static symmcoll_status_t take_slot(struct symc_agreement *agreement, int *slot)
{
    int64_t pause_ns = PAUSE_LEAST_NS;
    int polls = POLLS;

    do {
        *slot = symc_proposal_take(&agreement->world->proposals,
            agreement->world->peers, agreement->base, agreement->global,
            agreement->size);
    } while (*slot < 0 && pause_until(agreement, &polls, &pause_ns));
    if (*slot < 0)
        return symc_fail(SYMMCOLL_ERR_TIMEOUT,
            "%s: after %.3g s: %d groups that this rank has made have not been "
            "made by their other members",
            agreement->where, agreement->seconds, SYMC_PROPOSALS);
    return SYMMCOLL_OK;
}

/* Checks for a member's proposal once.  Returns IN_PROGRESS if there is none
 * yet. */
static symmcoll_status_t look(struct symc_agreement *agreement, int member)
{
    const struct symc_peer *peer = peer_of(agreement, member);
    enum symc_liveness_state state = symc_liveness_state(peer);

    if (peer->view.block == NULL)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: expected all members on this machine", agreement->where);
    switch (symc_proposal_find(peer->view.block, agreement->base,
        agreement->round, &agreement->all[member])) {
    case SYMC_PROPOSAL_FOUND:
        hear(agreement, member);
        return SYMMCOLL_OK;
    case SYMC_PROPOSAL_FAILED:
        /* A member that gave up and has died since counts as dead. */
        if (state != SYMC_LIVENESS_ALIVE && agreement->outlives)
            break;
        return fail_given_up(agreement, member);
    case SYMC_PROPOSAL_LATER:
        return symc_fail(SYMMCOLL_ERR_ABORTED,
            "%s: %s: the others have gone on without this rank",
            agreement->where, agreement->mine.text);
    default:
        break;
    }
    if (state == SYMC_LIVENESS_ALIVE)
        return SYMMCOLL_IN_PROGRESS;
    if (!agreement->outlives)
        return fail_dead(agreement, member);
    agreement->gone[member] = true;
    return SYMMCOLL_OK;
}

static symmcoll_status_t await_all(struct symc_agreement *agreement)
{
    int64_t pause_ns = PAUSE_LEAST_NS;
    int polls = 0;

    for (;;) {
        bool waits = false;

        for (int m = 0; m < agreement->size; m++) {
            symmcoll_status_t status;

            if (!is_awaited(agreement, m))
                continue;
            status = look(agreement, m);
            if (status < 0)
                return status;
            waits = waits || status == SYMMCOLL_IN_PROGRESS;
        }
        if (!waits)
            return SYMMCOLL_OK;
        if (!pause_until(agreement, &polls, &pause_ns))
            return fail_late(agreement);
    }
}

symmcoll_status_t symc_agreement_round(struct symc_agreement *agreement)
{
    struct symc_proposals *proposals = &agreement->world->proposals;
    int before = agreement->slot, slot;
    symmcoll_status_t status = take_slot(agreement, &slot);

    if (status != SYMMCOLL_OK)
        return status;
    agreement->slot = slot;
    agreement->mine.round = ++agreement->round;
    for (int m = 0; m < agreement->size; m++)
        agreement->heard[m] = agreement->gone[m] = agreement->unwanted[m] =
            false;
    symc_proposal_put(proposals, slot, &agreement->mine);
    status = await_all(agreement);
    agreement->all[agreement->rank] = agreement->mine;
    if (before >= 0)
        symc_proposal_finish(proposals, before, status == SYMMCOLL_OK);
    return status;
}

/* Publishes this rank's failure, also if it has proposed nothing before, since
 * others would wait for it until their timeout.  If a slot is free, this does
 * not replace its proposal of this round, which all members must find if some
 * have read it. */
static void tell_failure(
    struct symc_agreement *agreement, symmcoll_status_t status)
{
    struct symc_proposals *proposals = &agreement->world->proposals;
    int before = agreement->slot;
    int slot = symc_proposal_take(proposals, agreement->world->peers,
        agreement->base, agreement->global, agreement->size);

    if (slot < 0)
        slot = before;
    if (slot < 0)
        return;
    agreement->slot = slot;
    agreement->mine.base = agreement->base;
    agreement->mine.status = status;
    snprintf(agreement->mine.text, sizeof(agreement->mine.text), "%.*s",
        (int)sizeof(agreement->mine.text) - 1, symmcoll_last_error());
    symc_proposal_put(proposals, slot, &agreement->mine);
    if (before >= 0 && before != slot)
        symc_proposal_finish(proposals, before, false);
}

void symc_agreement_end(
    struct symc_agreement *agreement, symmcoll_status_t status)
{
    if (status < 0)
        tell_failure(agreement, status);
    if (agreement->slot >= 0)
        symc_proposal_finish(
            &agreement->world->proposals, agreement->slot, false);
    free(agreement->excluded);
    free(agreement->gone);
    free(agreement->heard);
    free(agreement->unwanted);
    free(agreement->all);
}
