/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barriers: each member counts them in a word of its own for each channel, and
 * waits until the words of all others have the same count.  One crossing,
 * where signals in the pads would take two, and no slot of the pads is used.
 *
 * A member counts a barrier when it has passed it.  So one that has expired is the
 * same one when it is called again, and who arrives late is not taken to be at
 * the next.
 *
 * A member that is one ahead waits for the others there, so words differ by one
 * at most; what a stray store leaves in one is taken for a count that has been
 * reached, or delays to the timeout.
 */
#include "symm_mem/symm_mem.h"

/*
 * The word of a channel for a count.  The first channels have several, each in a
 * line of its own, in turn: a peer that polls one does not take the line from
 * the rank that writes the next.
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
        if (lines == 0) /* there is one for each such number */
            lines = 1;
        at = (SYMC_SYMM_FAST * SYMC_SYMM_TURNS + number % lines) *
                 SYMC_FALSE_SHARING +
             number / lines * sizeof(uint64_t);
    }
    return (_Atomic uint64_t *)(void *)(handle->words[rank] + at);
}

/* A word and the count that it is to have. */
struct awaited {
    const _Atomic uint64_t *word;
    uint64_t count;
};

static bool has_arrived(void *arg)
{
    const struct awaited *awaited = arg;

    return atomic_load_explicit(awaited->word, memory_order_acquire) >=
           awaited->count;
}

/* Wait for the others from this one on. */
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

/* What is not to be done here: wrong, or of a device, whose handles have no
 * channels of the host's. */
static __attribute__((noinline)) symmcoll_status_t refuse(
    struct symmcoll_symm *handle, int channel, double timeout)
{
    const char *where = symc_kind_name(SYMC_SYMM_BARRIER);
    symmcoll_status_t status = symc_symm_check(handle, where);

    if (status == SYMMCOLL_OK)
        status = symc_symm_check_channel(handle, where, channel);
    if (status == SYMMCOLL_OK && timeout != timeout)
        status = symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a timeout in seconds, found NaN", where);
    if (status != SYMMCOLL_OK || handle == NULL)
        return status;
    return symc_symm_enqueue_signal(
        handle, SYMC_SYMM_BARRIER, handle->rank, channel, timeout);
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
        return refuse(handle, channel, timeout);
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
