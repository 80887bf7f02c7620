/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Advancing a rank's sends and receives: waits, and the thread that advances them when no
 * other thread waits.
 */
#include "message/message_state.h"

#include "base/cancel.h"
#include "base/thread.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_NS (INT64_C(1000) * 1000)
#define TICK_NS (INT64_C(5) * 1000 * 1000)
#define QUIET_TICKS 200 /* before the thread sleeps indefinitely */
#define YIELD_EVERY 4 /* polls between two yields, on a processor of its own */
#define LONGEST_NS (INT64_C(100) * 1000 * 1000)

symmcoll_status_t symc_pairs_open(
    const struct symc_pair_setup *setup, struct symc_pairs **made)
{
    struct symc_pairs *pairs =
        aligned_alloc(SYMC_FALSE_SHARING, sizeof(*pairs));
    pthread_condattr_t monotonic;

    if (pairs == NULL)
        return symc_fail(SYMMCOLL_ERR_NO_MEMORY, "pairs: %zu bytes requested",
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

void symc_pairs_close(struct symc_pairs *pairs, int64_t timeout_ns, char *text)
{
    text[0] = '\0';
    if (pairs == NULL)
        return;
    if (symc_copier_leave(pairs->copier, timeout_ns, text))
        symc_copier_close(pairs->copier, !symc_pair_leave_staging(pairs));
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

/* ---- waiting ---- */

static bool is_set(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_acquire) != 0;
}

/* Polls with the lock held, until another thread wants it.  moved (out): chunks moved. */
static bool poll(
    struct symc_pairs *pairs, const _Atomic uint64_t *word, uint64_t *moved)
{
    int polls = symc_wait_shares(pairs->setup.waiting) ? 1 : SYMC_QUICK_POLLS;

    symc_pairs_enter(pairs);
    for (int i = 0; i < polls && !is_set(word); i++) {
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

/* Looks once more after peers can see that the thread sleeps, for anything written just
 * before.  Returns true if a group has failed. */
static bool look_last(struct symc_pairs *pairs)
{
    bool stopped = false;

    symc_pairs_enter(pairs);
    symc_pairs_advance(pairs);
    for (const struct symc_pair *at = pairs->all; at != NULL && !stopped;
         at = at->all_next)
        /* A failure with a copy in flight is handled when the copy has ended. */
        stopped = atomic_load_explicit(
                      at->core->stopped, memory_order_acquire) != 0 &&
                  (at->copying == NULL || at->copying->stop_ns == 0);
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
    struct symc_waiting *waiting = pairs->setup.waiting;
    struct sleeper sleeper = {pairs, word};
    int64_t now, spun, looked = 0;
    uint64_t moved;

    if (poll(pairs, word, &moved))
        return true;
    now = symc_now_ns();
    spun = now + symc_wait_polling_ns(waiting, now);
    for (int round = 1; !is_set(word); round++) {
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
            now = symc_now_ns();
            spun = now + symc_wait_polling_ns(waiting, now);
        } else if (!poll(pairs, word, &moved) && moved == before &&
                   (symc_wait_shares(waiting) || round % YIELD_EVERY == 0) &&
                   symc_wait_yield(waiting) == 0) {
            spun = 0; /* go to sleep */
        }
        now = symc_now_ns();
        /* While data flows, the next chunk arrives sooner than a sleep ends. */
        if (moved != before)
            spun = now + symc_wait_polling_ns(waiting, now);
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
    /* A rank that has sent to this one may be waiting for room. */
    if (pairs->area == NULL && !symc_pair_is_sent_to(pairs))
        return;
    symc_pairs_enter(pairs);
    if (symc_pairs_prepare(pairs, SYMC_PAIR_ANY, 0) == SYMMCOLL_OK)
        symc_pairs_advance(pairs);
    symc_pairs_leave(pairs);
    if (sleeps && atomic_load(&pairs->pending) > 0)
        symc_pairs_wake(pairs);
}

/* ---- the thread ---- */

void symc_pairs_wake(struct symc_pairs *pairs)
{
    pthread_mutex_lock(&pairs->lock);
    pairs->requested = true;
    pthread_cond_signal(&pairs->changed);
    pthread_mutex_unlock(&pairs->lock);
}

static bool has_nothing(void *arg)
{
    struct symc_pairs *pairs = arg;

    return look_last(pairs) || atomic_load(&pairs->pending) == 0;
}

/* Looks after sends and receives, then sleeps until a peer has written, or for a
 * while. */
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

/* Sleeps until there is a work, as there has been none for a long time. */
static void wait_for_works(struct symc_pairs *pairs)
{
    atomic_store(&pairs->attending, false);
    if (atomic_load(&pairs->pending) == 0 && !pairs->requested &&
        !pairs->stopping)
        pthread_cond_wait(&pairs->changed, &pairs->lock);
    atomic_store(&pairs->attending, true);
}

void symc_pairs_add_work(struct symc_pairs *pairs)
{
    atomic_fetch_add(&pairs->pending, 1);
    if (!atomic_load(&pairs->attending))
        symc_pairs_wake(pairs);
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
        else if (!pairs->requested || none)
            sleep_for_a_tick(pairs);
        if (atomic_load(&pairs->pending) == 0) {
            pairs->requested = false;
            continue;
        }
        /* Another thread looks often: this thread need not. */
        if (!pairs->requested && atomic_load(&pairs->visits) != visits) {
            visits = atomic_load(&pairs->visits);
            continue;
        }
        pthread_mutex_unlock(&pairs->lock);
        attend(pairs);
        pthread_mutex_lock(&pairs->lock);
        if (atomic_load(&pairs->visits) != visits)
            pairs->requested = false;
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

/* Advances all sends and receives after copies; called by the copier's thread.  Counts as
 * no visit, as that thread does not look again by itself. */
static void take_copied(void *arg, bool settled)
{
    struct symc_pairs *pairs = arg;

    symc_pairs_enter(pairs);
    symc_pairs_advance(pairs);
    settled = settled || symc_now_ns() >= pairs->look_ns;
    symc_pairs_leave(pairs);
    if (settled)
        (void)symc_pairs_look(pairs);
}

symmcoll_status_t symc_pairs_open_copier(
    struct symc_pairs *pairs, struct symc_copier **copier)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = SYMMCOLL_OK;

    pthread_mutex_lock(&pairs->lock);
    if (pairs->copier == NULL)
        status = symc_copier_open(
            pairs->setup.waiting, take_copied, pairs, &pairs->copier);
    *copier = pairs->copier;
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
