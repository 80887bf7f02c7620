/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Signals of the caller's pads, between kernels of a stream: a slot is 1 from the
 * put to the wait, and 0 otherwise.  One stream of the source puts and one of the
 * destination waits, so only a put changes a 0 and only a wait changes a 1.  And
 * waiting for a word to be what a peer writes there.
 *
 * Grid        one block of one thread; of the barrier a thread for each rank
 * Bytes       a slot read and written, for each peer; wait32: a word read
 * Order       acquire at the look that finds a slot as it has to be: of a put,
 *             what the destination did before it took the signal before is over;
 *             then release at the store
 * Reference   lib/symm_mem/signal.c; wait32: lib/symm_ops/one_sided.c
 */
#ifndef SYMC_KERNELS_SIGNAL_H
#define SYMC_KERNELS_SIGNAL_H

#include "kernels/group.h"

DEVICE uint32_t *slot_of(
    const struct symc_signal_args *args, uint32_t destination, uint32_t source)
{
    return (uint32_t *)(void *)data_of(&args->pads, destination) +
           (uint64_t)args->group.size * args->channel + source;
}

DEVICE bool wait_for_slot(const struct symc_device_group *group,
    const uint32_t *slot, uint32_t value, uint32_t peer)
{
    uint64_t began = 0;

    for (uint32_t look = 1;; look++) {
        if (load_acquire(slot) == value)
            return true;
        if (look % LOOKS == 0 && must_end(group, peer, &began))
            return false;
        relax();
    }
}

DEVICE bool put_to(const struct symc_signal_args *args, uint32_t peer)
{
    uint32_t *slot = slot_of(args, peer, args->group.rank);

    if (!wait_for_slot(&args->group, slot, 0, peer))
        return false;
    store_release(slot, 1);
    return true;
}

DEVICE void take_from(const struct symc_signal_args *args, uint32_t peer)
{
    uint32_t *slot = slot_of(args, args->group.rank, peer);

    if (wait_for_slot(&args->group, slot, 1, peer))
        store_release(slot, 0);
}

DEVICE void put_signal(const struct symc_signal_args *args)
{
    if (thread_index() == 0)
        (void)put_to(args, args->peer);
}

DEVICE void wait_signal(const struct symc_signal_args *args)
{
    if (thread_index() == 0)
        take_from(args, args->peer);
}

/* A barrier of a channel: a thread for each peer, none for itself. */
DEVICE void signal_all(const struct symc_signal_args *args)
{
    const uint32_t peer = thread_index();

    if (peer < args->group.size && peer != args->group.rank &&
        put_to(args, peer))
        take_from(args, peer);
}

DEVICE void wait_word(const struct symc_wait_args *args)
{
    if (thread_index() == 0)
        (void)wait_for_slot(&args->group, args->at, args->value, args->peer);
}

KERNEL(symc_put_signal, struct symc_signal_args, put_signal)
KERNEL(symc_wait_signal, struct symc_signal_args, wait_signal)
KERNEL(symc_signal_barrier, struct symc_signal_args, signal_all)
KERNEL(symc_wait32, struct symc_wait_args, wait_word)

#endif
