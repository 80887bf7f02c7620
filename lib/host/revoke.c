/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Leaving an operation early in which ranks access each other's buffers.
 *
 * An owner that leaves early (a timeout, a dead peer, an abort) revokes its buffers: it
 * stores the operation up to which they are revoked, and waits until no peer is inside a
 * chunk of them.  A rank that accesses a buffer stores the rank of its owner, checks
 * whether the owner has revoked it, and moves one chunk; both sides use sequentially
 * consistent order, so that at least one of them sees the other.  A loop over chunks
 * never blocks, so the owner's wait is short.  Between processes it is limited, since a
 * process may be stopped inside a chunk.  That process finishes its chunk when it
 * continues, and may then read or write memory that the owner uses for something else.
 * Therefore it checks once more before it reports that it is done, and the memory that
 * it has written stays mapped as long as any rank uses it.
 */
#include "host/host.h"

#include <sched.h>

#define REVOKE_NS (INT64_C(100) * SYMC_NS_PER_S / 1000)
#define NO_RANK (-1)

static bool is_direct(const struct symc_host *host)
{
    return host->threads && host->settings.direct;
}

static size_t stream_pushed(const struct symc_host *host)
{
    size_t least = host->settings.stream_min;

    if (is_direct(host))
        return least;
    return least > SIZE_MAX / SYMC_STREAM_TIMES ? SIZE_MAX
                                                : least * SYMC_STREAM_TIMES;
}

static size_t stream_pulled(const struct symc_host *host)
{
    return is_direct(host) ? host->settings.stream_min : SIZE_MAX;
}

static bool is_revoked(
    const struct symc_host *host, const struct symc_op *op, int rank)
{
    return atomic_load(&host->channels[rank]->revoked) >= op->wire;
}

static bool any_revoked(const struct symc_host *host, const struct symc_op *op)
{
    for (int r = 0; r < host->size; r++) {
        if (r != host->rank && is_revoked(host, op, r))
            return true;
    }
    return false;
}

/* Begins to access a peer's buffers, or those of all; returns false if revoked. */
static bool enter(
    const struct symc_host *host, const struct symc_op *op, int peer)
{
    atomic_store(&host->channels[host->rank]->inside, (uint32_t)peer + 1);
    return peer < host->size ? !is_revoked(host, op, peer)
                             : !any_revoked(host, op);
}

bool symc_host_enter_all(const struct symc_host *host, const struct symc_op *op)
{
    bool entered = enter(host, op, host->size);

    if (!entered)
        symc_host_leave_all(host);
    return entered;
}

void symc_host_leave_all(const struct symc_host *host)
{
    atomic_store_explicit(
        &host->channels[host->rank]->inside, 0, memory_order_release);
}

void symc_host_leave(struct symc_chunks *chunks)
{
    /* A release store does not wait for non-temporal ones. */
    if (chunks->streamed)
        symc_stream_fence();
    symc_host_leave_all(chunks->host);
    chunks->inside = NO_RANK;
}

/* Enters the buffers of the next chunk; small chunks of the same buffers follow each
 * other without leaving them. */
static bool step(void *state, int peer, size_t nbytes)
{
    struct symc_chunks *chunks = state;

    if (peer == chunks->inside && chunks->moved <= SYMC_MOVING_CHUNK &&
        nbytes <= SYMC_MOVING_CHUNK - chunks->moved) {
        chunks->moved += nbytes;
        return true;
    }
    chunks->inside = peer;
    chunks->moved = nbytes;
    if (enter(chunks->host, chunks->moving.op, peer))
        return true;
    symc_host_leave(chunks);
    return false;
}

void symc_host_begin_chunks(struct symc_host *host, const struct symc_op *op,
    struct symc_chunks *chunks)
{
    *chunks = (struct symc_chunks){.reduction = symc_host_reduction(host, op),
        .host = host,
        .inside = NO_RANK,
        .moving = {.op = op,
            .rank = host->rank,
            .size = host->size,
            .group = host->core->name,
            .ranks = host->core->ranks,
            .exposed = host->exposed,
            .sources = host->sources,
            .stream_pushed = stream_pushed(host),
            .stream_pulled = stream_pulled(host),
            .step = step}};
    chunks->moving.reduction = &chunks->reduction;
    chunks->moving.state = chunks;
    chunks->moving.streamed = &chunks->streamed;
    host->rounds++;
    /* Peers last read the counter in the round before this one: the store to it then need
     * not wait for the line. */
    symc_claim(&host->channels[host->rank]->drained);
}

/* Returns whether a peer is inside a chunk of this rank's buffers. */
static bool is_inside(const struct symc_host *host, int peer)
{
    uint32_t found = atomic_load(&host->channels[peer]->inside);

    return found == (uint32_t)host->rank + 1 ||
           found == (uint32_t)host->size + 1;
}

void symc_host_revoke(const struct symc_host *host, const struct symc_op *op)
{
    const struct symc_core *core = host->core;
    int64_t until = core->now() + REVOKE_NS;

    atomic_store(&host->channels[host->rank]->revoked, op->wire);
    for (int r = 0; r < host->size; r++) {
        while (r != host->rank && is_inside(host, r)) {
            if (!host->threads &&
                (core->gone(core->group, r) || core->now() > until))
                break;
            sched_yield();
        }
    }
}

symmcoll_status_t symc_host_fail_revoked(
    const struct symc_host *host, const struct symc_op *op)
{
    const struct symc_core *core = host->core;

    if (core->failed(core->group, -1))
        return core->failure(core->group, op, -1);
    return core->fail(SYMMCOLL_ERR_INTERNAL, "%s: a peer left without a reason",
        symc_kind_name(op->kind));
}

symmcoll_status_t symc_host_end_chunks(struct symc_chunks *chunks)
{
    struct symc_host *host = chunks->host;
    struct symc_channel *channel = host->channels[host->rank];
    const struct symc_op *op = chunks->moving.op;

    symc_host_leave(chunks);
    /* The last chunks may have been of an owner that had left. */
    if (any_revoked(host, op))
        return symc_host_fail_revoked(host, op);
    atomic_store_explicit(&channel->staged, host->rounds, memory_order_release);
    atomic_store_explicit(
        &channel->reduced, host->rounds, memory_order_release);
    symc_host_post(host, &channel->drained, host->rounds);
    return symc_host_wait_all(
        host, op, offsetof(struct symc_channel, drained), host->rounds);
}
