/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives of device memory: chunks that peers have written or read become
 * grants to copy, and chunks that have been copied are published to peers.
 */
#include "message/message_state.h"

#include <time.h>

#define STOP_NS (INT64_C(2) * SYMC_NS_PER_S)  /* for copies in flight */
#define LEAVE_NS (INT64_C(100) * 1000 * 1000) /* for other ranks, at the end */
#define NAP_NS (INT64_C(1000) * 1000)

_Static_assert(sizeof(struct symc_chunk_place) <= SYMC_PAIR_INLINE,
    "where its chunks are is in the slot of its message");

/* Ends a send when the receiver has read all: staging must stay as long as it is read. */
static void end_read(
    struct symc_pairs *pairs, struct symc_pair_peer *peer, uint64_t read)
{
    struct symc_pair *pair = peer->sending;
    const uint64_t total = peer->end - peer->base;

    if (pair->chunks < total || read != total)
        return;
    peer->sending = NULL;
    symc_pair_finish(pairs, pair, SYMMCOLL_OK);
}

void symc_pair_write_copied(
    struct symc_pairs *pairs, struct symc_pair_peer *peer, uint64_t read)
{
    struct symc_pair *pair = peer->sending;
    struct symc_copying *copying = pair->copying;
    const uint64_t total = peer->end - peer->base;
    const uint64_t room = read + SYMC_PAIR_CHUNKS;
    const uint64_t copied = symc_copying_copied(copying);

    if (read > total)
        return; /* the receiver has given up, see symc_pair_withdraw() */
    symc_copying_grant(
        copying, room < total ? room : total, (uint64_t)peer->area);
    if (copied > pair->chunks) {
        pair->chunks = copied;
        pairs->moved++;
        atomic_store_explicit(
            &peer->ring->written, peer->base + copied, memory_order_release);
        symc_pair_wake(pairs, pair->peer);
    }
    end_read(pairs, peer, read);
}

bool symc_pair_leave_copied(
    struct symc_pairs *pairs, struct symc_pair_peer *peer)
{
    const uint64_t read =
        atomic_load_explicit(&peer->theirs->read, memory_order_acquire);

    end_read(pairs, peer, read < peer->base ? 0 : read - peer->base);
    return peer->sending == NULL || symc_copying_stop(peer->sending->copying);
}

void symc_pair_read_copied(struct symc_pairs *pairs, struct symc_pair *pair,
    uint64_t written, uint64_t area)
{
    struct symc_pair_peer *peer = &pairs->peers[pair->source];
    struct symc_copying *copying = pair->copying;
    const uint64_t base = peer->answered * SYMC_PAIR_TRANSFER;
    const uint64_t copied = symc_copying_copied(copying);

    if (area >= SYMC_PAIR_AREAS)
        return; /* a stray store; the receive will time out */
    symc_copying_grant(copying, written, area);
    if (copied > pair->chunks) {
        pair->chunks = copied;
        pairs->moved++;
        atomic_store_explicit(
            &peer->mine->read, base + copied, memory_order_release);
        symc_pair_wake(pairs, pair->source);
    }
    /* The sender may have given up since, and its area be in use for another message. */
    if (pair->chunks == symc_pair_chunk_count(pair) &&
        atomic_load_explicit(&peer->inbound->written, memory_order_acquire) ==
            base + pair->chunks) {
        peer->receiving = NULL;
        symc_pair_finish(pairs, pair, SYMMCOLL_OK);
    }
}

void symc_pair_postpone(
    struct symc_pair_peer *peer, struct symc_pair *pair, uint64_t answers)
{
    pair->postponed = true;
    peer->postpones = true;
    symc_pair_append(&peer->offered, pair);
    atomic_store_explicit(
        &peer->ring->postponed, answers, memory_order_release);
}

void symc_pair_resume(
    struct symc_pairs *pairs, struct symc_pair_peer *peer, int rank)
{
    bool ready = false;

    peer->postpones = false;
    for (struct symc_pair *at = peer->offered.head; at != NULL; at = at->next) {
        if (!at->postponed)
            continue;
        if (atomic_load(&at->copying->waits)) {
            peer->postpones = true;
        } else {
            at->postponed = false;
            ready = true;
        }
    }
    if (!ready)
        return;
    atomic_fetch_add_explicit(&peer->ring->resumed, 1, memory_order_release);
    symc_pair_wake(pairs, rank);
}

struct symc_pair *symc_pair_find_ready(const struct symc_pair_peer *peer)
{
    struct symc_pair *pair = peer->answering.head;

    while (pair != NULL && pair->copying != NULL && !pair->refused &&
           (atomic_load(&pair->copying->waits) ||
               (pair->postponed && atomic_load_explicit(&peer->inbound->resumed,
                                       memory_order_acquire) == pair->resumed)))
        pair = pair->next;
    return pair;
}

bool symc_pair_take_back(struct symc_pair_peer *peer)
{
    struct symc_pair *pair = peer->receiving;

    if (atomic_load_explicit(&peer->inbound->postponed, memory_order_acquire) !=
        peer->answered)
        return false;
    peer->receiving = NULL;
    pair->postponed = true;
    pair->state = SYMC_PAIR_ANSWERING;
    symc_pair_append(&peer->answering, pair);
    return true;
}

bool symc_pair_leave_staging(struct symc_pairs *pairs)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    const int64_t until = symc_now_ns() + LEAVE_NS;
    bool left = true;

    if (pairs->peers == NULL || pairs->copier == NULL)
        return true;
    for (int r = 0; r < pairs->setup.size; r++)
        atomic_store_explicit(
            &pairs->peers[r].mine->left, 1, memory_order_release);
    for (int r = 0; r < pairs->setup.size; r++) {
        const struct symc_pair_peer *peer = &pairs->peers[r];

        if (!peer->staged)
            continue;
        while (atomic_load_explicit(
                   &peer->theirs->left, memory_order_acquire) == 0 &&
               symc_now_ns() < until)
            nanosleep(&nap, NULL);
        left = left && atomic_load(&peer->theirs->left) != 0;
    }
    return left;
}

bool symc_pair_is_still(struct symc_pair *pair, int64_t now)
{
    struct symc_copying *copying = pair->copying;

    if (copying == NULL || symc_copying_stop(copying) ||
        atomic_load(&copying->granted) == 0)
        return true;
    if (copying->stop_ns == 0)
        copying->stop_ns = now;
    return now - copying->stop_ns >= STOP_NS;
}

void symc_pair_warn_running(const struct symc_pair *pair)
{
    const struct symc_op *op = pair->op;
    char text[SYMC_OP_TEXT];

    if (pair->copying == NULL || symc_copying_stop(pair->copying) ||
        atomic_load(&pair->copying->granted) == 0)
        return;
    pair->core->log(pair->core->group, SYMC_LOG_WARN,
        "%s of group %s: a copy on device %d has not ended: it may still use the "
        "%zu bytes at %p",
        symc_op_format(op->kind, op->seq, op->label, text, sizeof(text)),
        pair->core->name, op->device, pair->copying->nbytes,
        (void *)pair->copying->at);
}

bool symc_pair_copy_failed(const struct symc_pair *pair)
{
    return pair->copying != NULL &&
           atomic_load_explicit(&pair->copying->failed, memory_order_acquire);
}

symmcoll_status_t symc_pair_explain(const struct symc_pair *pair)
{
    const struct symc_copying *copying = pair->copying;
    const struct symc_core *core = pair->core;

    if (symc_pair_copy_failed(pair))
        return core->raise(
            core->group, pair->op, symc_error_return(&copying->error));
    if (!atomic_load(&copying->waits) ||
        (copying->sends ? !pair->postponed : pair->source < 0))
        return SYMMCOLL_OK;
    return core->raise(core->group, pair->op,
        symc_fail(SYMMCOLL_ERR_TIMEOUT,
            "expected the stream %p of this rank to have come to it in %.3g s, "
            "found that what it had before has not ended",
            pair->op->stream,
            (double)pair->op->timeout_ns / (double)SYMC_NS_PER_S));
}
