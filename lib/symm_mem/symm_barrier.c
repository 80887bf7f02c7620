/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barriers: each member counts them in one word of its own per channel, and
 * waits until the words of all others have reached its count. That takes one
 * crossing, where signals in the pads would take two, and no slot of a pad is
 * used.
 *
 * A member counts a barrier as passed when it returns OK. So a barrier that has
 * expired can be called again, and a late member does not count as arrived at
 * the next one.
 *
 * A member that is one barrier ahead waits there, so words differ by one at
 * most. A stray store to a word looks like a count that has been reached, or
 * delays the members until the timeout.
 */
#include "symm_mem/symm_mem.h"

/*
 * Returns the word of a channel for a count. Each of the first channels has
 * several words, each on a cache line of its own, which take turns: a peer that
 * polls one does not take the line from the rank that writes the next.
 */
static inline _Atomic uint64_t *find_word(
    const struct symmcoll_symm *handle, int rank, int channel, uint64_t count)
{
    size_t number = (size_t)channel, lines, at;

    if (__builtin_expect(number < SYMC_SYMM_FAST, 1)) {
        at = (number * SYMC_SYMM_TURNS + count % SYMC_SYMM_TURNS) *
             SYMC_FALSE_SHARING;
    } else {
        lines = symc_symm_words_nbytes(handle->channels) / SYMC_FALSE_SHARING -
                SYMC_SYMM_FAST * SYMC_SYMM_TURNS;
        if (lines == 0) /* each of these channels has a line of its own */
            lines = 1;
        at = (SYMC_SYMM_FAST * SYMC_SYMM_TURNS + number % lines) *
                 SYMC_FALSE_SHARING +
             number / lines * sizeof(uint64_t);
    }
    return (_Atomic uint64_t *)(void *)(handle->words[rank] + at);
}

/* A word, and the count that it has to reach. */
struct awaited {
    const _Atomic uint64_t *word;
    uint64_t count;
};

/* Returns whether a member has reached the barrier. */
static bool has_arrived(void *arg)
{
    const struct awaited *awaited = arg;

    return atomic_load_explicit(awaited->word, memory_order_acquire) >=
           awaited->count;
}

/* Waits for the members from `first` on. */
static __attribute__((noinline)) symmcoll_status_t await_others(
    struct symmcoll_symm *handle, int first, int channel, double timeout,
    uint64_t count)
{
    struct symc_wait_budget budget;
    symmcoll_status_t status = symc_symm_enter(handle, SYMC_SYMM_BARRIER);

    if (status != SYMMCOLL_OK)
        return status;
    status =
        symc_symm_read_timeout(handle, SYMC_SYMM_BARRIER, timeout, &budget);
    for (int r = first; status == SYMMCOLL_OK && r < handle->size; r++) {
        struct awaited awaited = {find_word(handle, r, channel, count), count};
        const struct symc_symm_wait wait = {.kind = SYMC_SYMM_BARRIER,
            .peer = r,
            .channel = channel,
            .missing = "it did not arrive at the barrier",
            .ready = has_arrived,
            .arg = &awaited};

        if (r != handle->rank && !has_arrived(&awaited))
            status = symc_symm_await(handle, &wait, &budget);
    }
    if (status == SYMMCOLL_OK)
        handle->counts[channel] = count;
    symc_symm_leave(handle);
    return status;
}

symmcoll_status_t symmcoll_symm_barrier(
    struct symmcoll_symm *handle, int channel, double timeout)
{
    const struct symmcoll_group *group;
    uint64_t count;
    int polls = 0;

    if (__builtin_expect(handle == NULL ||
                             (group = symc_symm_group(handle)) == NULL ||
                             *handle->alive != 1 || channel < 0 ||
                             channel >= handle->channels || timeout != timeout,
            0))
        return symc_symm_check_and_enqueue(handle, SYMC_SYMM_BARRIER,
            handle != NULL ? handle->rank : 0, channel, timeout);
    if (__builtin_expect(symc_symm_is_stopped(group), 0))
        return symc_symm_failure(handle, SYMC_SYMM_BARRIER);
    count = handle->counts[channel] + 1;
    atomic_store_explicit(find_word(handle, handle->rank, channel, count),
        count, memory_order_release);
    for (int r = 0; r < handle->size; r++) {
        if (r != handle->rank)
            symc_symm_notify(handle, r);
    }
    symc_claim(find_word(handle, handle->rank, channel, count + 1));
    for (int r = 0; r < handle->size; r++) {
        struct awaited awaited = {find_word(handle, r, channel, count), count};

        while (!has_arrived(&awaited)) {
            if (++polls == SYMC_QUICK_POLLS)
                return await_others(handle, r, channel, timeout, count);
            symc_pause();
        }
    }
    handle->counts[channel] = count;
    return SYMMCOLL_OK;
}
