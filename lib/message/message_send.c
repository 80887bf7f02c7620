/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending: slots, blocks, and the transfers that a receiver has requested.
 */
#include "message/message_state.h"

#include <string.h>

#define BLOCKS ((UINT64_C(1) << SYMC_PAIR_BLOCKS) - 1)
#define CLAIMED_MAX ((size_t)1024) /* bytes */

/* ---- slots and blocks ---- */

static bool has_slot(
    struct symc_pairs *pairs, struct symc_pair_peer *peer, int rank)
{
    if (peer->sent - peer->taken < SYMC_PAIR_SLOTS)
        return true;
    if (peer->theirs == NULL)
        peer->theirs = symc_pair_find_answers(pairs, rank);
    if (peer->theirs != NULL) {
        uint64_t taken =
            atomic_load_explicit(&peer->theirs->taken, memory_order_acquire);

        if (taken <= peer->sent)
            peer->taken = taken;
    }
    return peer->sent - peer->taken < SYMC_PAIR_SLOTS;
}

/* Returns a block that this rank knows to be free, or -1. */
static int find_known_block(const struct symc_pair_peer *peer)
{
    uint64_t used = (peer->returned ^ peer->lent) & BLOCKS;

    return used == BLOCKS ? -1 : __builtin_ctzll(~used);
}

/* Returns a free block, or -1; reads the receiver's word if needed. */
static int find_block(
    struct symc_pairs *pairs, struct symc_pair_peer *peer, int rank)
{
    int block = find_known_block(peer);

    if (block >= 0)
        return block;
    if (peer->theirs == NULL)
        peer->theirs = symc_pair_find_answers(pairs, rank);
    if (peer->theirs == NULL)
        return -1;
    peer->returned =
        atomic_load_explicit(&peer->theirs->returned, memory_order_acquire);
    return find_known_block(peer);
}

static void put_inline(
    struct symc_pair_slot *slot, const void *data, size_t nbytes)
{
    if (nbytes > SYMC_PAIR_FIRST) {
        memcpy(slot->first, data, SYMC_PAIR_FIRST);
        memcpy(slot->more, (const char *)data + SYMC_PAIR_FIRST,
            nbytes - SYMC_PAIR_FIRST);
    } else {
        symc_pair_copy_first(slot->first, data, nbytes);
    }
}

/*
 * Prefetches for writing the lines of the next message, assuming as many bytes: the
 * receiver has read them last, and this message is in flight at the same time.  More
 * lines than the processor fetches at once would delay those that a receive then waits
 * for.  Reads also how many blocks have been returned, if none is known to be free.
 */
static inline void claim_next(
    struct symc_pair_peer *peer, size_t nbytes, bool in_block)
{
    struct symc_pair_slot *next =
        &peer->ring->slots[(peer->sent + 1) % SYMC_PAIR_SLOTS];
    int block;

    symc_claim(next);
    if (nbytes > SYMC_PAIR_FIRST && !in_block)
        symc_claim(next->more);
    if (!in_block)
        return;
    if (find_known_block(peer) < 0 && peer->theirs != NULL)
        peer->returned =
            atomic_load_explicit(&peer->theirs->returned, memory_order_acquire);
    block = find_known_block(peer);
    if (block < 0 || nbytes > CLAIMED_MAX)
        return;
    for (size_t at = 0; at < nbytes; at += SYMC_LINE)
        symc_claim(peer->ring->blocks[block] + at);
}

/* Writes the next message into its slot, and its data into the slot or a block (-1:
 * none; the data stays in place); the number last. */
static inline void write_message(struct symc_pairs *pairs, int rank,
    const struct symc_pair_envelope *envelope, const void *data, size_t nbytes,
    int block)
{
    struct symc_pair_peer *peer = &pairs->peers[rank];
    uint64_t number = peer->sent + 1;
    struct symc_pair_slot *slot = &peer->ring->slots[number % SYMC_PAIR_SLOTS];

    slot->count = envelope->count;
    slot->tag = envelope->tag;
    slot->key = envelope->key;
    slot->dtype = envelope->dtype;
    slot->space = envelope->space;
    slot->memory = envelope->memory;
    slot->block = (uint8_t)(block < 0 ? 0 : block);
    if (nbytes <= SYMC_PAIR_INLINE) {
        slot->form = SYMC_PAIR_IN_SLOT;
        put_inline(slot, data, nbytes);
    } else if (block >= 0) {
        slot->form = SYMC_PAIR_IN_BLOCK;
        memcpy(peer->ring->blocks[block], data, nbytes);
        peer->lent ^= UINT64_C(1) << block;
    } else {
        slot->form = SYMC_PAIR_WITH_SENDER;
        if (envelope->place != NULL)
            put_inline(slot, envelope->place, sizeof(*envelope->place));
    }
    peer->sent = number;
    atomic_store_explicit(&slot->number, number, memory_order_release);
    symc_pair_wake(pairs, rank);
    claim_next(peer, nbytes, block >= 0);
}

/* Writes the message of a send into its slot, which must be free. */
static void publish(struct symc_pairs *pairs, struct symc_pair *pair)
{
    struct symc_pair_peer *peer = &pairs->peers[pair->peer];
    const struct symc_op *op = pair->op;
    const struct symc_pair_envelope envelope = {.key = pair->key,
        .tag = op->tag,
        .count = op->count,
        .dtype = (uint8_t)op->dtype,
        .space = pair->space,
        .memory = op->memory,
        .place = pair->copying != NULL ? &pair->copying->place : NULL};
    /* No bytes of a device can be in a slot or in a block. */
    size_t nbytes = pair->copying != NULL && op->count > 0
                        ? SYMC_PAIR_BLOCK + 1
                        : symc_pair_nbytes(pair);
    int block = nbytes > SYMC_PAIR_INLINE && nbytes <= SYMC_PAIR_BLOCK
                    ? find_block(pairs, peer, pair->peer)
                    : -1;

    write_message(pairs, pair->peer, &envelope, op->in, nbytes, block);
    pair->number = peer->sent;
    if (nbytes <= SYMC_PAIR_INLINE || block >= 0) {
        symc_pair_finish(pairs, pair, SYMMCOLL_OK);
        return;
    }
    pair->state = SYMC_PAIR_OFFERED;
    symc_pair_append(&peer->offered, pair);
}

/* Sends a small message if a slot, and a block if needed, is known to be free.
 * INVARIANT: messages that wait for a slot are sent first: while there are any, no slot
 * is known to be free (symc_pair_advance_sends()). */
bool symc_pairs_send_small(struct symc_pairs *pairs, int rank,
    const struct symc_pair_envelope *envelope, const void *data, size_t nbytes)
{
    struct symc_pair_peer *peer;
    int block = -1;

    if (pairs->peers == NULL)
        return false;
    peer = &pairs->peers[rank];
    if (peer->ring == NULL || peer->sent - peer->taken >= SYMC_PAIR_SLOTS)
        return false;
    if (nbytes > SYMC_PAIR_INLINE) {
        block = nbytes <= SYMC_PAIR_BLOCK ? find_known_block(peer) : -1;
        if (block < 0)
            return false;
    }
    write_message(pairs, rank, envelope, data, nbytes, block);
    return true;
}

void symc_pair_send(struct symc_pairs *pairs, struct symc_pair *pair)
{
    struct symc_pair_peer *peer = &pairs->peers[pair->peer];

    if (peer->waiting.head == NULL && has_slot(pairs, peer, pair->peer)) {
        publish(pairs, pair);
    } else {
        pair->state = SYMC_PAIR_WAITING;
        symc_pair_append(&peer->waiting, pair);
    }
}

/* ---- transfers ---- */

/* Takes an area of the pool for a transfer: the one that this peer has, or any that has
 * been read completely. */
static bool take_area(struct symc_pairs *pairs, struct symc_pair_peer *peer)
{
    if (peer->area >= 0)
        return true;
    for (int tries = 0; tries < 2; tries++) {
        for (int i = 0; i < SYMC_PAIR_AREAS; i++) {
            if ((pairs->areas >> i & 1) == 0) {
                pairs->areas |= 1u << i;
                peer->area = i;
                return true;
            }
        }
        for (int r = 0; tries == 0 && r < pairs->setup.size; r++) {
            struct symc_pair_peer *other = &pairs->peers[r];

            if (other->area < 0 || other->sending != NULL ||
                atomic_load_explicit(
                    &other->theirs->read, memory_order_acquire) < other->end)
                continue;
            pairs->areas &= ~(1u << other->area);
            other->area = -1;
        }
    }
    return false;
}

/* Handles an answer: the receiver requests a message, or refuses it. */
static void take_answer(struct symc_pairs *pairs, struct symc_pair_peer *peer,
    int rank, uint64_t answers)
{
    const struct symc_pair_answer *theirs = peer->theirs;
    uint64_t message =
        atomic_load_explicit(&theirs->message, memory_order_relaxed);
    struct symc_pair *pair = peer->offered.head;
    uint64_t number = message & ~SYMC_PAIR_REFUSED;
    uint64_t type = atomic_load_explicit(&theirs->dtype, memory_order_relaxed);

    while (pair != NULL && pair->number != number)
        pair = pair->next;
    if (pair != NULL) {
        symc_pair_remove(&peer->offered, pair);
        if ((message & SYMC_PAIR_REFUSED) != 0) {
            symc_pair_finish(pairs, pair,
                symc_pair_differ(pair, rank,
                    atomic_load_explicit(&theirs->count, memory_order_relaxed),
                    symc_pair_packed_dtype(type),
                    symc_pair_packed_memory(type)));
        } else if (pair->copying != NULL &&
                   atomic_load(&pair->copying->waits)) {
            symc_pair_postpone(peer, pair, answers);
        } else {
            peer->staged = peer->staged || pair->copying != NULL;
            pair->state = SYMC_PAIR_SENDING;
            pair->chunks = 0;
            peer->sending = pair;
            peer->base = answers * SYMC_PAIR_TRANSFER;
            peer->end = peer->base + symc_pair_chunk_count(pair);
        }
    }
    /* A message that is not there any more has failed with its group, as its receiver
     * finds out as well; any other was never there. */
    if (pair == NULL && number > peer->withdrawn)
        atomic_store_explicit(&peer->ring->vain, answers, memory_order_release);
    peer->answers = answers;
    atomic_store_explicit(&peer->ring->seen, answers, memory_order_release);
    symc_pair_wake(pairs, rank);
}

/* Writes chunks for which the receiver has made room by reading. */
static void write_chunks(
    struct symc_pairs *pairs, struct symc_pair_peer *peer, int rank)
{
    struct symc_pair *pair = peer->sending;
    uint64_t read =
        atomic_load_explicit(&peer->theirs->read, memory_order_acquire);
    uint64_t total = peer->end - peer->base;

    read = read < peer->base ? 0 : read - peer->base;
    if (!take_area(pairs, peer))
        return;
    atomic_store_explicit(
        &peer->ring->area, (uint64_t)peer->area, memory_order_relaxed);
    if (pair->copying != NULL) {
        symc_pair_write_copied(pairs, peer, read);
        return;
    }
    for (int i = 0; i < SYMC_PAIR_AT_ONCE && pair->chunks < total &&
                    pair->chunks < read + SYMC_PAIR_CHUNKS;
         i++) {
        char *to = pairs->pool + ((size_t)peer->area * SYMC_PAIR_CHUNKS +
                                     pair->chunks % SYMC_PAIR_CHUNKS) *
                                     SYMC_PAIR_CHUNK;

        symc_copy(to,
            (const char *)pair->op->in + pair->chunks * SYMC_PAIR_CHUNK,
            symc_pair_chunk_nbytes(pair, pair->chunks), false);
        pair->chunks++;
        pairs->moved++;
        atomic_store_explicit(&peer->ring->written, peer->base + pair->chunks,
            memory_order_release);
        symc_pair_wake(pairs, rank);
    }
    if (pair->chunks == total) {
        peer->sending = NULL;
        symc_pair_finish(pairs, pair, SYMMCOLL_OK);
    }
}

/* Wakes a receiver that may sleep in another call: it takes messages before it sleeps
 * on. */
static void wake_receiver(const struct symc_pair *pair)
{
    pair->core->wake(pair->core->group, pair->op->peer);
}

void symc_pair_advance_sends(struct symc_pairs *pairs, int rank)
{
    struct symc_pair_peer *peer = &pairs->peers[rank];
    uint64_t answers;

    while (peer->waiting.head != NULL && has_slot(pairs, peer, rank)) {
        struct symc_pair *pair = peer->waiting.head;

        symc_pair_remove(&peer->waiting, pair);
        publish(pairs, pair);
    }
    if (peer->waiting.head != NULL)
        wake_receiver(peer->waiting.head);
    if (peer->ring == NULL)
        return;
    if (peer->theirs == NULL)
        peer->theirs = symc_pair_find_answers(pairs, rank);
    if (peer->theirs == NULL)
        return;
    if (peer->postpones)
        symc_pair_resume(pairs, peer, rank);
    answers =
        atomic_load_explicit(&peer->theirs->answers, memory_order_acquire);
    if (answers != peer->answers) {
        /* A new answer during a transfer: the receive has failed. */
        if (peer->sending != NULL && peer->sending->copying != NULL &&
            !symc_pair_leave_copied(pairs, peer))
            return;
        if (peer->sending != NULL) {
            peer->sending->state = SYMC_PAIR_OFFERED;
            symc_pair_append(&peer->offered, peer->sending);
            peer->sending = NULL;
        }
        take_answer(pairs, peer, rank, answers);
    }
    if (peer->sending != NULL)
        write_chunks(pairs, peer, rank);
}
