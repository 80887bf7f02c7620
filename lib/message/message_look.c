/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank's sends and receives: the lock, starting one, advancing all, and ending those
 * that have failed or timed out.
 */
#include "message/message_state.h"

#include "base/cancel.h"

#include <sched.h>
#include <string.h>

#define LOCK_POLLS 128 /* before the processor is yielded */
#define LOOK_NS (INT64_C(1000) * 1000)

/* ---- under the lock ---- */

void symc_pairs_wait_turn(struct symc_pairs *pairs, uint64_t ticket)
{
    for (int i = 0;
         atomic_load_explicit(&pairs->serving, memory_order_acquire) != ticket;
         i++) {
        if (i < LOCK_POLLS && !pairs->setup.waiting->oversubscribed)
            symc_pause();
        else
            sched_yield();
    }
}

symmcoll_status_t symc_pairs_start(
    struct symc_pairs *pairs, struct symc_pair *pair)
{
    pair->started = false;
    pair->postponed = false;
    pair->deadline_ns = 0;
    if (pair->op->kind == SYMC_SEND)
        symc_pair_send(pairs, pair);
    else
        symc_pair_recv(pairs, pair);
    if (pair->state == SYMC_PAIR_ENDED)
        return pair->status;
    symc_pair_enlist(pairs, pair);
    return SYMMCOLL_IN_PROGRESS;
}

/*
 * Reads a line of each rank that has sent to this one, and of each that this one has
 * sent to.  The lines stay in this processor's cache until their writers store
 * something: some tens of instructions per rank, so with up to 64 ranks a look costs
 * less than the transfers that it waits for.  A common word in which senders announce
 * themselves would be written by all of them: one more transfer for each message, for
 * all receives.
 */
void symc_pairs_advance(struct symc_pairs *pairs)
{
    int size = pairs->setup.size, rank = pairs->turn;

    if (pairs->peers == NULL)
        return;
    for (int i = 0; i < size; i++) {
        rank = rank + 1 < size ? rank + 1 : 0;
        if (rank == pairs->setup.rank)
            continue;
        symc_pair_advance_receives(pairs, rank);
        symc_pair_advance_sends(pairs, rank);
    }
    if (!pairs->noticed)
        return;
    /* The owner of one that has ended may sleep. */
    pairs->noticed = false;
    symc_doorbell_notify(pairs->doorbell);
}

/* ---- failures ---- */

/* No member; failures use ranks within the group, and -1 for any. */
#define NO_MEMBER (-2)

static bool is_over(const struct symc_core *core, int member)
{
    return core->failed(core->group, member);
}

/* Returns a member that has failed, so that the wait cannot succeed; -1: no particular
 * member; NO_MEMBER: none. */
static int find_failed(
    const struct symc_pairs *pairs, const struct symc_pair *pair)
{
    const struct symc_core *core = pair->core;
    int left = NO_MEMBER;

    if (pair->op->peer != SYMC_PAIR_ANY)
        return is_over(core, pair->op->peer) ? pair->op->peer : NO_MEMBER;
    if (is_over(core, -1))
        return -1;
    for (int r = 0; r < core->ranks->size; r++) {
        int global = core->ranks->global != NULL ? core->ranks->global[r] : r;

        if (global == pairs->setup.rank)
            continue;
        if (!is_over(core, r))
            return NO_MEMBER;
        left = r;
    }
    return left;
}

/* A send or receive that has been taken out of the lists, and the reason. */
struct given_up {
    struct symc_pair *pair;
    int member; /* NO_MEMBER: it has timed out, or a copy has failed */
    char found
        [SYMC_PAIR_FOUND]; /* what came instead of a message; "": nothing */
};

static void give_up(struct symc_pairs *pairs, const struct given_up *what)
{
    struct symc_pair *pair = what->pair;
    const struct symc_core *core = pair->core;
    bool missing[SYMC_RANKS_MAX] = {false};
    symmcoll_status_t status = SYMMCOLL_OK;

    if (what->member != NO_MEMBER)
        status = core->failure(core->group, pair->op, what->member);
    else if (pair->copying != NULL)
        status = symc_pair_explain(pair);
    if (status == SYMMCOLL_OK) {
        for (int r = 0; r < core->ranks->size; r++) {
            int global =
                core->ranks->global != NULL ? core->ranks->global[r] : r;

            missing[r] = pair->op->peer == SYMC_PAIR_ANY
                             ? global != pairs->setup.rank
                             : r == pair->op->peer;
        }
        status = core->expire(core->group, pair->op, missing,
            what->found[0] != '\0' ? what->found : NULL);
    }
    pair->status = status;
    symc_pair_warn_running(pair);
    symc_copying_release(pair->copying);
    pair->copying = NULL;
    pair->end(pair, status);
    symc_doorbell_notify(pairs->doorbell);
}

/* Finds one that has failed or timed out, and whose copies have stopped. */
static bool find_given_up(struct symc_pairs *pairs, int64_t now,
    struct given_up *what, int64_t *next_ns)
{
    *next_ns = SYMC_NEVER;
    for (struct symc_pair *at = pairs->all; at != NULL; at = at->all_next) {
        if (at->deadline_ns == 0)
            at->deadline_ns = symc_deadline_ns(now, at->op->timeout_ns);
        if (at->deadline_ns < *next_ns)
            *next_ns = at->deadline_ns;
        what->member = find_failed(pairs, at);
        if (what->member == NO_MEMBER && now < at->deadline_ns &&
            !symc_pair_copy_failed(at))
            continue;
        if (!symc_pair_is_still(at, now)) {
            if (now + LOOK_NS < *next_ns || *next_ns <= now)
                *next_ns = now + LOOK_NS;
            continue;
        }
        what->pair = at;
        return true;
    }
    return false;
}

int64_t symc_pairs_look(struct symc_pairs *pairs)
{
    int cancel = symc_cancel_disable();
    struct given_up what = {.member = NO_MEMBER};
    int64_t next_ns;
    bool found;

    do {
        int64_t now;

        symc_pairs_enter(pairs);
        now = symc_now_ns();
        found = find_given_up(pairs, now, &what, &next_ns);
        /* A message that a peer has written counts before any failure. */
        symc_pairs_advance(pairs);
        if (found) {
            struct symc_pair *at = pairs->all;

            while (at != NULL && at != what.pair)
                at = at->all_next;
            what.pair = at;
            if (at != NULL) {
                symc_pair_describe_kept(
                    pairs, at, what.found, sizeof(what.found));
                symc_pair_withdraw(pairs, at);
            }
        }
        pairs->look_ns = now + LOOK_NS;
        symc_pairs_leave(pairs);
        if (found && what.pair != NULL)
            give_up(pairs, &what);
    } while (found);
    symc_cancel_restore(cancel);
    return next_ns;
}
