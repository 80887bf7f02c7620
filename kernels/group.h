/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Synchronisation of a group's ranks inside kernels.  The blocks of equal index
 * of all ranks synchronise, so each byte that a block reads must have been written
 * by the block with the same index of the rank that owns it.
 */
#ifndef SYMC_KERNELS_GROUP_H
#define SYMC_KERNELS_GROUP_H

#include "kernels/args.h"
#include "kernels/device.h"

#define LOOKS 64 /* polls of a signal between two of clock and host */

DEVICE unsigned char *segment_of(
    const struct symc_device_group *group, uint32_t rank)
{
    return group->base + rank * group->stride;
}

DEVICE struct symc_device_pad *pad_of(
    const struct symc_device_group *group, uint32_t rank)
{
    return (struct symc_device_pad *)(void *)segment_of(group, rank);
}

DEVICE unsigned char *data_in_row(
    const struct symc_device_data *data, uint32_t rank)
{
    return data->base + rank * data->stride + data->offset;
}

DEVICE unsigned char *data_of(
    const struct symc_device_data *data, uint32_t rank)
{
    return entry_of(data->table, rank, data->base + rank * data->stride) +
           data->offset;
}

/* ---- giving up ---- */

/* splits: NULL, but of SYMC_DEVICE_SPLITS. */
DEVICE void give_up_for(const struct symc_device_group *group,
    enum symc_device_reason reason, uint32_t peer,
    const struct symc_device_splits *splits)
{
    struct symc_device_failure *failure = group->failure;

    if (!claim_word(&failure->reason, (uint32_t)reason))
        return;
    if (splits != NULL)
        failure->splits = *splits;
    failure->peer = peer;
    failure->block = block_index();
    failure->number = group->number;
    store_release(&failure->complete, 1);
}

DEVICE void give_up(const struct symc_device_group *group,
    enum symc_device_reason reason, uint32_t peer)
{
    give_up_for(group, reason, peer, NULL);
}

/* Whether a wait has to end.  began: 0 at first.  Where a kernel of this rank has
 * given up, those after it do not wait either. */
DEVICE bool must_end(
    const struct symc_device_group *group, uint32_t peer, uint64_t *began)
{
    uint64_t now = clock_ns();

    if (load_relaxed(&group->failure->reason) != SYMC_DEVICE_NONE)
        return true;
    if (load_relaxed(group->aborted) != 0) {
        give_up(group, SYMC_DEVICE_ABORTED, peer);
        return true;
    }
    /* The clock may be set back a little, which is no time at all. */
    if (*began == 0 || now < *began)
        *began = now;
    if (now - *began < group->timeout_ns)
        return false;
    give_up(group, SYMC_DEVICE_TIMEOUT, peer);
    return true;
}

/* ---- the barrier ---- */

/* Returns the number of times this block has synchronised before this kernel, the
 * epoch from which the kernel counts. */
DEVICE uint32_t begin_epoch(const struct symc_device_group *group)
{
    return pad_of(group, group->rank)->synchronised[block_index()];
}

/* At the end of the kernel; a barrier of the block separates it from the
 * beginning. */
DEVICE void end_epoch(const struct symc_device_group *group, uint32_t epoch)
{
    if (thread_index() == 0)
        pad_of(group, group->rank)->synchronised[block_index()] = epoch;
}

DEVICE bool wait_for_signal(
    const struct symc_device_group *group, uint32_t peer, uint32_t epoch)
{
    const uint32_t *signal =
        &pad_of(group, group->rank)->signal[block_index()][peer];
    uint64_t began = 0;

    for (uint32_t look = 1;; look++) {
        if ((int32_t)(load_acquire(signal) - epoch) >= 0)
            return true;
        if (look % LOOKS == 0 && must_end(group, peer, &began))
            return false;
        relax();
    }
}

/*
 * Synchronises the blocks of this index of all ranks.  Afterwards all of their
 * threads see earlier writes of all of them, to any segment, and bytes that they
 * read before may be overwritten: the barrier of the block orders these before the
 * release store of the thread that signals; a thread of the peer acquires it before
 * the barrier of its own block.
 *
 * Returns whether all ranks have synchronised, the same value in every thread of
 * the block.
 */
DEVICE bool synchronise_ranks(
    const struct symc_device_group *group, uint32_t epoch)
{
    uint32_t peer = thread_index();
    bool failed = false;

    block_barrier();
    if (peer < group->size) {
        store_release(
            &pad_of(group, peer)->signal[block_index()][group->rank], epoch);
        failed = !wait_for_signal(group, peer, epoch);
    }
    return !block_any(failed);
}

#define synchronise(group, epoch) \
    (TAKEN_OUT("synchronise") || synchronise_ranks(group, epoch))

#endif
