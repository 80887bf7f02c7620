/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Signals: the word at slot size * channel + source of the destination's pad is
 * 1 from the put to the wait, and 0 otherwise.
 *
 * One thread of the source puts, and one of the destination waits: only a put
 * changes a 0, and only a wait changes a 1. So a wait takes the signal with a
 * store; a compare-and-swap would stall the processor until it owns the cache
 * line.
 */
#include "symm_mem/symm_mem.h"

/* Returns the word of a pad that carries signals from source to destination. */
static inline _Atomic uint32_t *find_slot(const struct symmcoll_symm *handle,
    int destination, int channel, int source)
{
    size_t index = (size_t)handle->size * (size_t)channel + (size_t)source;

    return (_Atomic uint32_t *)(void *)(handle->pads[destination] + index);
}

/* Checks the arguments of both calls; group (out): the handle's. */
static inline bool is_usable(const struct symmcoll_symm *handle,
    const struct symmcoll_group **group, int rank, int channel, double timeout)
{
    return handle != NULL && (*group = symc_symm_group(handle)) != NULL &&
           *handle->alive == 1 && rank >= 0 && rank < handle->size &&
           channel >= 0 && channel < handle->channels && timeout == timeout;
}

__attribute__((noinline)) symmcoll_status_t symc_symm_check_and_enqueue(
    struct symmcoll_symm *handle, enum symc_kind kind, int rank, int channel,
    double timeout)
{
    const char *where = symc_kind_name(kind);
    symmcoll_status_t status = symc_symm_check(handle, where);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_check_rank(handle, where, rank);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_check_channel(handle, where, channel);
    if (status != SYMMCOLL_OK)
        return status;
    if (timeout != timeout)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a timeout in seconds, found NaN", where);
    return symc_symm_enqueue_signal(handle, kind, rank, channel, timeout);
}

/* ---- put ---- */

/* Tries to set a free slot. Acquire: orders this put after the wait that took
 * the previous signal. */
static inline bool put(_Atomic uint32_t *slot)
{
    uint32_t free = 0;

    return atomic_compare_exchange_strong_explicit(
        slot, &free, 1, memory_order_acq_rel, memory_order_relaxed);
}

static bool is_free(void *arg)
{
    const _Atomic uint32_t *slot = arg;

    return atomic_load_explicit(slot, memory_order_relaxed) == 0;
}

/* Waits until the previous signal has been taken, and puts. */
static __attribute__((noinline)) symmcoll_status_t put_later(
    struct symmcoll_symm *handle, int dst, int channel, enum symc_kind kind,
    double timeout, _Atomic uint32_t *slot)
{
    const struct symc_symm_wait wait = {.kind = kind,
        .peer = dst,
        .channel = channel,
        .missing = "it has not taken the signal before",
        .ready = is_free,
        .arg = slot};
    struct symc_wait_budget budget;
    symmcoll_status_t status = symc_symm_enter(handle, wait.kind);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_read_timeout(handle, wait.kind, timeout, &budget);
    while (status == SYMMCOLL_OK && !put(slot))
        status = symc_symm_await(handle, &wait, &budget);
    if (status == SYMMCOLL_OK)
        symc_symm_notify(handle, dst);
    symc_symm_leave(handle);
    return status;
}

/* Puts a signal; waits only if the slot is not free. */
static inline __attribute__((always_inline)) symmcoll_status_t put_signal(
    struct symmcoll_symm *handle, enum symc_kind kind, int dst, int channel,
    double timeout)
{
    const struct symmcoll_group *group;
    _Atomic uint32_t *slot;

    if (__builtin_expect(!is_usable(handle, &group, dst, channel, timeout), 0))
        return symc_symm_check_and_enqueue(handle, kind, dst, channel, timeout);
    if (__builtin_expect(symc_symm_is_stopped(group), 0))
        return symc_symm_failure(handle, kind);
    slot = find_slot(handle, dst, channel, handle->rank);
    if (__builtin_expect(!put(slot), 0))
        return put_later(handle, dst, channel, kind, timeout, slot);
    symc_symm_notify(handle, dst);
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_symm_put_signal(
    struct symmcoll_symm *handle, int dst, int channel, double timeout)
{
    return put_signal(handle, SYMC_SYMM_PUT_SIGNAL, dst, channel, timeout);
}

symmcoll_status_t symc_symm_put_signal(struct symmcoll_symm *handle,
    enum symc_kind kind, int dst, int channel, double timeout)
{
    return put_signal(handle, kind, dst, channel, timeout);
}

/* ---- wait ---- */

static bool is_put(void *arg)
{
    const _Atomic uint32_t *slot = arg;

    return atomic_load_explicit(slot, memory_order_acquire) == 1;
}

/* Takes a signal. Release: what this rank did before is visible to the next
 * put. */
static inline void take(
    struct symmcoll_symm *handle, int src, _Atomic uint32_t *slot)
{
    atomic_store_explicit(slot, 0, memory_order_release);
    symc_symm_notify(handle, src);
}

/* Waits for a signal after the first polls, and takes it. */
static __attribute__((noinline)) symmcoll_status_t await_signal(
    struct symmcoll_symm *handle, int src, int channel, double timeout,
    _Atomic uint32_t *slot)
{
    const struct symc_symm_wait wait = {.kind = SYMC_SYMM_WAIT_SIGNAL,
        .peer = src,
        .channel = channel,
        .missing = "it has put no signal",
        .ready = is_put,
        .arg = slot};
    struct symc_wait_budget budget;
    symmcoll_status_t status = symc_symm_enter(handle, wait.kind);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_read_timeout(handle, wait.kind, timeout, &budget);
    if (status == SYMMCOLL_OK)
        status = symc_symm_await(handle, &wait, &budget);
    if (status == SYMMCOLL_OK)
        take(handle, src, slot);
    symc_symm_leave(handle);
    return status;
}

symmcoll_status_t symmcoll_symm_wait_signal(
    struct symmcoll_symm *handle, int src, int channel, double timeout)
{
    const struct symmcoll_group *group;
    _Atomic uint32_t *slot;
    int polls = 0;

    if (__builtin_expect(!is_usable(handle, &group, src, channel, timeout), 0))
        return symc_symm_check_and_enqueue(
            handle, SYMC_SYMM_WAIT_SIGNAL, src, channel, timeout);
    slot = find_slot(handle, handle->rank, channel, src);
    while (!is_put(slot) && ++polls < SYMC_QUICK_POLLS)
        symc_pause();
    if (__builtin_expect(polls == SYMC_QUICK_POLLS, 0))
        return await_signal(handle, src, channel, timeout, slot);
    take(handle, src, slot);
    return SYMMCOLL_OK;
}
