/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moving a rank's sends and receives: the lock, waiting, failures, and the
 * thread that does it where no other one waits.
 */
#include "host/pair_state.h"

#include "base/cancel.h"
#include "base/thread.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOCK_POLLS 128 /* before the processor is yielded */
#define LOOK_NS (INT64_C(1000) * 1000)
#define TICK_NS (INT64_C(5) * 1000 * 1000)
#define QUIET_TICKS 200 /* before it sleeps for good */
#define LONGEST_NS (INT64_C(100) * 1000 * 1000)

symmcoll_status_t symc_pairs_open(
    const struct symc_pair_setup *setup, struct symc_pairs **made)
{
    struct symc_pairs *pairs =
        aligned_alloc(SYMC_FALSE_SHARING, sizeof(*pairs));
    pthread_condattr_t monotonic;

    if (pairs == NULL)
        return symc_fail(SYMMCOLL_ERR_NO_MEMORY, "pairs: %zu bytes asked for",
            sizeof(*pairs));
    memset(pairs, 0, sizeof(*pairs));
    pairs->setup = *setup;
    pairs->doorbell = symc_block_doorbell(setup->block);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&pairs->lock, NULL);
    pthread_cond_init(&pairs->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    *made = pairs;
    return SYMMCOLL_OK;
}

void symc_pairs_close(struct symc_pairs *pairs)
{
    if (pairs == NULL)
        return;
    for (int r = 0; pairs->peers != NULL && r < pairs->setup.size; r++) {
        while (pairs->peers[r].kept != NULL) {
            struct symc_pair_message *first = pairs->peers[r].kept;

            pairs->peers[r].kept = first->next;
            free(first);
        }
    }
    while (pairs->spare != NULL) {
        struct symc_pair_message *first = pairs->spare;

        pairs->spare = first->next;
        free(first);
    }
    free(pairs->peers);
    pthread_cond_destroy(&pairs->changed);
    pthread_mutex_destroy(&pairs->lock);
    free(pairs);
}

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
 * Looks at a line of each rank that has sent to this one, and of each that this
 * one has sent to.  These stay in this processor's cache until their writers
 * have news: some tens of instructions a rank, so up to 64 ranks a look costs
 * less than the transfers that it waits for.  A word in which senders announce
 * themselves would be written by all of them: one such transfer more for each
 * message, for all receives.
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
    /* Its owner may sleep. */
    pairs->noticed = false;
    symc_doorbell_notify(pairs->doorbell);
}

/* ---- failures ---- */

/* A member without which this cannot go on, where that is so; -2: none. */
#define NOBODY (-2)

static bool is_over(const struct symc_core *core, int member)
{
    return core->failed(core->group, member);
}

/* Where the wait is in vain: for whom; -1: for nobody in particular. */
static int find_failed(
    const struct symc_pairs *pairs, const struct symc_pair *pair)
{
    const struct symc_core *core = pair->core;
    int left = NOBODY;

    if (pair->op->peer != SYMC_PAIR_ANY)
        return is_over(core, pair->op->peer) ? pair->op->peer : NOBODY;
    if (is_over(core, -1))
        return -1;
    for (int r = 0; r < core->ranks->size; r++) {
        int global = core->ranks->global != NULL ? core->ranks->global[r] : r;

        if (global == pairs->setup.rank)
            continue;
        if (!is_over(core, r))
            return NOBODY;
        left = r;
    }
    return left;
}

/* What has been taken out of the lists, with what is to be said. */
struct given_up {
    struct symc_pair *pair;
    int member; /* NOBODY: its time has passed */
    char found
        [SYMC_PAIR_FOUND]; /* what came instead of a message; "": nothing */
};

static void give_up(struct symc_pairs *pairs, const struct given_up *what)
{
    struct symc_pair *pair = what->pair;
    const struct symc_core *core = pair->core;
    bool missing[SYMC_RANKS_MAX] = {false};
    symmcoll_status_t status;

    if (what->member != NOBODY) {
        status = core->failure(core->group, pair->op, what->member);
    } else {
        for (int r = 0; r < core->ranks->size; r++) {
            int global =
                core->ranks->global != NULL ? core->ranks->global[r] : r;

            missing[r] = pair->op->peer == SYMC_PAIR_ANY
                             ? global != pairs->setup.rank
                             : r == pair->op->peer;
        }
        status =
            what->found[0] != '\0'
                ? core->unmatched(core->group, pair->op, missing, what->found)
                : core->expire(core->group, pair->op, missing);
    }
    pair->status = status;
    pair->end(pair, status);
    symc_doorbell_notify(pairs->doorbell);
}

/* Find one that has failed or is too late, and take it out of the lists. */
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
        if (what->member == NOBODY && now < at->deadline_ns)
            continue;
        what->pair = at;
        return true;
    }
    return false;
}

int64_t symc_pairs_look(struct symc_pairs *pairs)
{
    int cancel = symc_cancel_disable();
    struct given_up what = {.member = NOBODY};
    int64_t next_ns;
    bool found;

    do {
        int64_t now;

        symc_pairs_enter(pairs);
        now = symc_now_ns();
        found = find_given_up(pairs, now, &what, &next_ns);
        /* What a peer has written counts before any failure. */
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

/* ---- waiting ---- */

static bool is_set(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_acquire) != 0;
}

/* Poll with the lock, as long as nobody else wants it.  moved  out: chunks so
 * far */
static bool poll(
    struct symc_pairs *pairs, const _Atomic uint64_t *word, uint64_t *moved)
{
    symc_pairs_enter(pairs);
    for (int i = 0; i < SYMC_QUICK_POLLS && !is_set(word); i++) {
        symc_pairs_advance(pairs);
        if (is_set(word) || symc_pairs_wanted(pairs))
            break;
        symc_pause();
    }
    *moved = pairs->moved;
    symc_pairs_leave(pairs);
    return is_set(word);
}

struct sleeper {
    struct symc_pairs *pairs;
    const _Atomic uint64_t *word;
};

/* After others can see that a thread sleeps: the last look at what has been
 * written.  True where a group has failed meanwhile. */
static bool look_last(struct symc_pairs *pairs)
{
    bool stopped = false;

    symc_pairs_enter(pairs);
    symc_pairs_advance(pairs);
    for (const struct symc_pair *at = pairs->all; at != NULL && !stopped;
         at = at->all_next)
        stopped =
            atomic_load_explicit(at->core->stopped, memory_order_acquire) != 0;
    symc_pairs_leave(pairs);
    return stopped;
}

static bool is_ready(void *arg)
{
    const struct sleeper *sleeper = arg;

    return look_last(sleeper->pairs) || is_set(sleeper->word);
}

bool symc_pairs_await(
    struct symc_pairs *pairs, const _Atomic uint64_t *word, int64_t until_ns)
{
    const struct symc_waiting *waiting = pairs->setup.waiting;
    struct sleeper sleeper = {pairs, word};
    int64_t polling =
        waiting->oversubscribed ? waiting->yield_ns : waiting->spin_ns;
    int64_t now, spun, looked = 0;
    uint64_t moved;

    if (poll(pairs, word, &moved))
        return true;
    now = symc_now_ns();
    spun = now + polling;
    while (!is_set(word)) {
        int64_t next = SYMC_NEVER;
        uint64_t before = moved;

        atomic_fetch_add_explicit(&pairs->visits, 1, memory_order_relaxed);
        if (now >= looked + LOOK_NS || now >= spun) {
            next = symc_pairs_look(pairs);
            looked = now;
        }
        if (is_set(word) || now >= until_ns)
            break;
        if (now >= spun) {
            int64_t sleep = now + waiting->nap_ns;

            sleep = sleep < next ? sleep : next;
            symc_doorbell_sleep(waiting, pairs->doorbell, is_ready, &sleeper,
                sleep < until_ns ? sleep : until_ns);
            spun = symc_now_ns() + polling;
        } else {
            poll(pairs, word, &moved);
            if (waiting->oversubscribed)
                sched_yield();
        }
        now = symc_now_ns();
        /* While data flows the next chunk comes sooner than a sleep ends. */
        if (moved != before)
            spun = now + polling;
    }
    return is_set(word);
}

void symc_pairs_glance(struct symc_pairs *pairs)
{
    atomic_fetch_add_explicit(&pairs->visits, 1, memory_order_relaxed);
    symc_pairs_enter(pairs);
    symc_pairs_advance(pairs);
    symc_pairs_leave(pairs);
}

void symc_pairs_pass(struct symc_pairs *pairs, bool sleeps)
{
    /* Whoever has sent to this rank may wait for room. */
    if (pairs->area == NULL && !symc_pair_is_sent_to(pairs))
        return;
    symc_pairs_enter(pairs);
    if (symc_pairs_prepare(pairs, SYMC_PAIR_ANY, 0) == SYMMCOLL_OK)
        symc_pairs_advance(pairs);
    symc_pairs_leave(pairs);
    if (sleeps && atomic_load(&pairs->pending) > 0)
        symc_pairs_ask(pairs);
}

/* ---- the thread ---- */

void symc_pairs_ask(struct symc_pairs *pairs)
{
    pthread_mutex_lock(&pairs->lock);
    pairs->asked = true;
    pthread_cond_signal(&pairs->changed);
    pthread_mutex_unlock(&pairs->lock);
}

static bool has_nothing(void *arg)
{
    struct symc_pairs *pairs = arg;

    return look_last(pairs) || atomic_load(&pairs->pending) == 0;
}

/* Look after what waits, until a peer has written something or for a while. */
static void attend(struct symc_pairs *pairs)
{
    int64_t next = symc_pairs_look(pairs), most = symc_now_ns() + LONGEST_NS;

    symc_doorbell_sleep(pairs->setup.waiting, pairs->doorbell, has_nothing,
        pairs, next < most ? next : most);
}

static void sleep_for_a_tick(struct symc_pairs *pairs)
{
    int64_t until = symc_now_ns() + TICK_NS;
    struct timespec time = {
        .tv_sec = until / SYMC_NS_PER_S, .tv_nsec = until % SYMC_NS_PER_S};

    pthread_cond_timedwait(&pairs->changed, &pairs->lock, &time);
}

/* Nothing has waited for long: sleep until something does. */
static void wait_for_works(struct symc_pairs *pairs)
{
    atomic_store(&pairs->attending, false);
    if (atomic_load(&pairs->pending) == 0 && !pairs->asked && !pairs->stopping)
        pthread_cond_wait(&pairs->changed, &pairs->lock);
    atomic_store(&pairs->attending, true);
}

void symc_pairs_add_work(struct symc_pairs *pairs)
{
    atomic_fetch_add(&pairs->pending, 1);
    if (!atomic_load(&pairs->attending))
        symc_pairs_ask(pairs);
}

void symc_pairs_remove_work(struct symc_pairs *pairs)
{
    atomic_fetch_sub(&pairs->pending, 1);
}

static void *run(void *arg)
{
    struct symc_pairs *pairs = arg;
    uint32_t visits = 0;
    int quiet = 0;

    pthread_mutex_lock(&pairs->lock);
    while (!pairs->stopping) {
        bool none = atomic_load(&pairs->pending) == 0;

        quiet = none ? quiet + 1 : 0;
        if (quiet >= QUIET_TICKS)
            wait_for_works(pairs);
        else if (!pairs->asked || none)
            sleep_for_a_tick(pairs);
        if (atomic_load(&pairs->pending) == 0) {
            pairs->asked = false;
            continue;
        }
        /* Another thread looks often: this one need not. */
        if (!pairs->asked && atomic_load(&pairs->visits) != visits) {
            visits = atomic_load(&pairs->visits);
            continue;
        }
        pthread_mutex_unlock(&pairs->lock);
        attend(pairs);
        pthread_mutex_lock(&pairs->lock);
        if (atomic_load(&pairs->visits) != visits)
            pairs->asked = false;
    }
    pthread_mutex_unlock(&pairs->lock);
    return NULL;
}

symmcoll_status_t symc_pairs_attend(struct symc_pairs *pairs)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = SYMMCOLL_OK;

    pthread_mutex_lock(&pairs->lock);
    if (!pairs->running) {
        status = symc_thread_start(
            &pairs->thread, "symc-pairs", SYMC_STACK_SMALL, run, pairs);
        pairs->running = status == SYMMCOLL_OK;
    }
    pthread_mutex_unlock(&pairs->lock);
    symc_cancel_restore(cancel);
    return status;
}

void symc_pairs_stop(struct symc_pairs *pairs)
{
    pthread_mutex_lock(&pairs->lock);
    pairs->stopping = true;
    pthread_cond_signal(&pairs->changed);
    pthread_mutex_unlock(&pairs->lock);
    if (pairs->running)
        pthread_join(pairs->thread, NULL);
    pairs->running = false;
}
