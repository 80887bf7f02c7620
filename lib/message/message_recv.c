/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving: matching messages with receives, and taking their data.
 */
#include "message/message_state.h"

#include <stdlib.h>
#include <string.h>

/* ---- answers ---- */

/* Writes the next answer to a sender, once it has seen the previous one. */
static void answer_next(struct symc_pairs *pairs, int rank)
{
    struct symc_pair_peer *peer = &pairs->peers[rank];
    struct symc_pair_answer *mine = peer->mine;

    while (peer->answering.head != NULL && peer->receiving == NULL &&
           atomic_load_explicit(&peer->inbound->seen, memory_order_acquire) ==
               peer->answered) {
        struct symc_pair *pair = symc_pair_find_ready(peer);

        if (pair == NULL)
            return;
        symc_pair_remove(&peer->answering, pair);
        pair->resumed =
            atomic_load_explicit(&peer->inbound->resumed, memory_order_acquire);
        atomic_store_explicit(&mine->message,
            pair->number | (pair->refused ? SYMC_PAIR_REFUSED : 0),
            memory_order_relaxed);
        atomic_store_explicit(
            &mine->count, pair->op->count, memory_order_relaxed);
        atomic_store_explicit(
            &mine->dtype, symc_pair_pack_type(pair->op), memory_order_relaxed);
        atomic_store_explicit(
            &mine->answers, ++peer->answered, memory_order_release);
        symc_pair_wake(pairs, rank);
        if (pair->refused) {
            symc_pair_finish(pairs, pair,
                symc_pair_differ(
                    pair, rank, pair->count, pair->dtype, pair->memory));
        } else {
            pair->state = SYMC_PAIR_RECEIVING;
            pair->chunks = 0;
            peer->receiving = pair;
        }
    }
}

/* ---- a message and its receive ---- */

static void return_block(struct symc_pairs *pairs, int rank, unsigned int block)
{
    struct symc_pair_answer *mine = pairs->peers[rank].mine;
    uint64_t returned =
        atomic_load_explicit(&mine->returned, memory_order_relaxed);

    atomic_store_explicit(&mine->returned,
        returned ^ UINT64_C(1) << block % SYMC_PAIR_BLOCKS,
        memory_order_release);
    symc_pair_wake(pairs, rank);
}

static void get_inline(
    void *data, const struct symc_pair_slot *slot, size_t nbytes)
{
    if (nbytes > SYMC_PAIR_FIRST) {
        memcpy(data, slot->first, SYMC_PAIR_FIRST);
        memcpy((char *)data + SYMC_PAIR_FIRST, slot->more,
            nbytes - SYMC_PAIR_FIRST);
    } else {
        symc_pair_copy_first(data, slot->first, nbytes);
    }
}

/* Takes the data of a message from its slot or a block; returns false if it is not
 * there, or does not fit. */
static inline bool take_data(struct symc_pairs *pairs, int rank,
    const struct symc_pair_slot *slot, void *data, size_t nbytes)
{
    if (slot->form == SYMC_PAIR_IN_SLOT && nbytes <= SYMC_PAIR_INLINE) {
        get_inline(data, slot, nbytes);
        return true;
    }
    if (slot->form != SYMC_PAIR_IN_BLOCK || nbytes > SYMC_PAIR_BLOCK)
        return false;
    memcpy(data,
        pairs->peers[rank].inbound->blocks[slot->block % SYMC_PAIR_BLOCKS],
        nbytes);
    return_block(pairs, rank, slot->block);
    return true;
}

/* Reads the place of a device's message from its slot; returns false if it is invalid. */
static bool take_place(const struct symc_pairs *pairs,
    struct symc_copying *copying, int rank, const struct symc_pair_slot *slot)
{
    get_inline(&copying->place, slot, sizeof(copying->place));
    copying->threads = !pairs->setup.peers[rank].mine;
    return symc_chunk_place_is_valid(&copying->place);
}

/* Delivers a message to its receive.  The contents of the slot are checked: a stray store
 * may have changed them. */
static void deliver(struct symc_pairs *pairs, struct symc_pair *pair, int rank,
    const struct symc_pair_slot *slot, uint64_t number)
{
    struct symc_pair_peer *peer = &pairs->peers[rank];
    const struct symc_op *op = pair->op;
    size_t nbytes = symc_pair_nbytes(pair);
    bool differs = slot->count != op->count || slot->dtype != op->dtype ||
                   (op->count > 0 && slot->memory != op->memory);
    symmcoll_status_t status = SYMMCOLL_OK;

    pair->source = rank;
    if (pair->peer == SYMC_PAIR_ANY)
        pairs->turn = rank;
    if (slot->form == SYMC_PAIR_WITH_SENDER) {
        pair->number = number;
        pair->refused = differs;
        pair->count = slot->count;
        pair->dtype = slot->dtype;
        pair->memory = slot->memory;
        if (!differs && pair->copying != NULL &&
            !take_place(pairs, pair->copying, rank, slot)) {
            symc_pair_finish(
                pairs, pair, symc_pair_garbled(pair, rank, slot->form));
            return;
        }
        pair->state = SYMC_PAIR_ANSWERING;
        symc_pair_append(&peer->answering, pair);
        answer_next(pairs, rank);
        return;
    }
    if (differs)
        status = symc_pair_differ(
            pair, rank, slot->count, slot->dtype, slot->memory);
    else if (pair->copying != NULL ||
             !take_data(pairs, rank, slot, op->out, nbytes))
        status = symc_pair_garbled(pair, rank, slot->form);
    if (status != SYMMCOLL_OK && slot->form == SYMC_PAIR_IN_BLOCK)
        return_block(pairs, rank, slot->block);
    symc_pair_finish(pairs, pair, status);
}

static bool matches(
    const struct symc_pair *pair, int rank, const struct symc_pair_slot *slot)
{
    return (pair->peer == rank || pair->peer == SYMC_PAIR_ANY) &&
           pair->op->tag == slot->tag && pair->key == slot->key &&
           pair->space == slot->space;
}

/* ---- arrivals ---- */

/* Keeps a message; returns false if too many of that sender are kept, or without
 * memory. */
static bool keep(struct symc_pairs *pairs, struct symc_pair_peer *peer,
    const struct symc_pair_slot *slot, uint64_t number)
{
    struct symc_pair_message *message = pairs->spare;

    if (peer->kept_count >= SYMC_PAIR_KEPT)
        return false;
    if (message != NULL)
        pairs->spare = message->next;
    else
        message = aligned_alloc(SYMC_FALSE_SHARING, sizeof(*message));
    if (message == NULL)
        return false;
    message->next = NULL;
    memcpy(&message->slot, slot, offsetof(struct symc_pair_slot, number));
    memcpy(message->slot.more, slot->more, sizeof(slot->more));
    atomic_init(&message->slot.number, number);
    *peer->kept_tail = message;
    peer->kept_tail = &message->next;
    peer->kept_count++;
    return true;
}

/* Takes a kept message out of the list; `at` is the link to it. */
static void unkeep(struct symc_pairs *pairs, struct symc_pair_peer *peer,
    struct symc_pair_message **at)
{
    struct symc_pair_message *message = *at;

    *at = message->next;
    if (*at == NULL)
        peer->kept_tail = at;
    peer->kept_count--;
    message->next = pairs->spare;
    pairs->spare = message;
}

/* Returns the link to a group, or to where it would be. */
static struct symc_pair_group **find_group(
    struct symc_pairs *pairs, uint64_t key)
{
    struct symc_pair_group **at = &pairs->groups[key % SYMC_PAIR_GROUPS];

    while (*at != NULL && (*at)->key != key)
        at = &(*at)->next;
    return at;
}

/* Returns whether a message is of a group that this rank has released, so that it will
 * never be received.  Its sender finds the release out if it waits. */
static bool is_unreceivable(
    struct symc_pairs *pairs, const struct symc_pair_slot *slot)
{
    return *find_group(pairs, slot->key) == NULL;
}

/* Takes the messages that have arrived from a rank. */
static void take_arrivals(struct symc_pairs *pairs, int rank)
{
    struct symc_pair_peer *peer = &pairs->peers[rank];
    uint64_t before = peer->received;

    if (peer->inbound == NULL)
        peer->inbound = symc_pair_find_ring(pairs, rank);
    if (peer->inbound == NULL)
        return;
    for (;;) {
        uint64_t number = peer->received + 1;
        const struct symc_pair_slot *slot =
            &peer->inbound->slots[number % SYMC_PAIR_SLOTS];
        struct symc_pair *pair = pairs->posted.head;

        if (atomic_load_explicit(&slot->number, memory_order_acquire) != number)
            break;
        while (pair != NULL && !matches(pair, rank, slot))
            pair = pair->next;
        if (pair == NULL && is_unreceivable(pairs, slot)) {
            if (slot->form == SYMC_PAIR_IN_BLOCK)
                return_block(pairs, rank, slot->block);
            peer->received = number;
            continue;
        }
        if (pair == NULL && !keep(pairs, peer, slot, number))
            break;
        if (pair != NULL) {
            symc_pair_remove(&pairs->posted, pair);
            deliver(pairs, pair, rank, slot, number);
        }
        peer->received = number;
    }
    if (peer->received == before)
        return;
    atomic_store_explicit(
        &peer->mine->taken, peer->received, memory_order_release);
    symc_pair_wake(pairs, rank);
}

/* Returns the link to the first kept message of a rank that a receive matches. */
static struct symc_pair_message **find_kept(
    struct symc_pairs *pairs, const struct symc_pair *pair, int rank)
{
    struct symc_pair_message **at = &pairs->peers[rank].kept;

    while (*at != NULL && !matches(pair, rank, &(*at)->slot))
        at = &(*at)->next;
    return at;
}

static bool receive_kept(
    struct symc_pairs *pairs, struct symc_pair *pair, int rank)
{
    struct symc_pair_message **at = find_kept(pairs, pair, rank);
    struct symc_pair_message *message = *at;

    if (message == NULL)
        return false;
    unkeep(pairs, &pairs->peers[rank], at);
    deliver(pairs, pair, rank, &message->slot,
        atomic_load_explicit(&message->slot.number, memory_order_relaxed));
    /* There may be room for more kept messages. */
    take_arrivals(pairs, rank);
    return true;
}

/* Receives from any source.  Takes arrivals from all ranks first, so that frequent
 * senders do not starve others, and begins after the rank received from last. */
static bool receive_any(struct symc_pairs *pairs, struct symc_pair *pair)
{
    int size = pairs->setup.size;

    for (int r = 0; r < size; r++) {
        if (r != pairs->setup.rank)
            take_arrivals(pairs, r);
    }
    for (int i = 1; i <= size; i++) {
        int rank = (pairs->turn + i) % size;

        if (receive_kept(pairs, pair, rank))
            return true;
    }
    return false;
}

void symc_pair_recv(struct symc_pairs *pairs, struct symc_pair *pair)
{
    pair->source = -1;
    pair->refused = false;
    if (pair->peer == SYMC_PAIR_ANY ? receive_any(pairs, pair)
                                    : receive_kept(pairs, pair, pair->peer))
        return;
    pair->state = SYMC_PAIR_POSTED;
    symc_pair_append(&pairs->posted, pair);
    if (pair->peer != SYMC_PAIR_ANY)
        take_arrivals(pairs, pair->peer);
}

/* ---- small messages ---- */

/* Returns whether a message matches a receive in all fields. */
static inline bool is_wanted(
    const struct symc_pair *pair, const struct symc_pair_slot *slot)
{
    const struct symc_op *op = pair->op;
    uint64_t differs = (uint64_t)(slot->tag ^ op->tag) |
                       (slot->key ^ pair->key) | (slot->count ^ op->count) |
                       (slot->dtype ^ (uint64_t)op->dtype) |
                       (uint64_t)(slot->memory ^ op->memory) |
                       (uint64_t)(slot->space ^ pair->space);

    return differs == 0;
}

/*
 * Receives the next message of a rank if it is small and matches.
 * INVARIANT: nothing is kept or waits that precedes the rank's next message, or could
 * match it: so this receive is the one that it matches, if any.  Any other case takes
 * the long way, which reports differences, keeps messages for others, and advances all.
 */
bool symc_pairs_recv_small(
    struct symc_pairs *pairs, struct symc_pair *pair, uint64_t *ticks)
{
    struct symc_pair_peer *peer;
    const struct symc_pair_slot *slot;
    int polls = symc_wait_shares(pairs->setup.waiting) ? 0 : SYMC_QUICK_POLLS;
    uint64_t number;

    if (pairs->peers == NULL || pairs->all != NULL || pair->peer < 0 ||
        symc_pair_nbytes(pair) > SYMC_PAIR_BLOCK)
        return false;
    peer = &pairs->peers[pair->peer];
    if (peer->inbound == NULL || peer->kept != NULL)
        return false;
    number = peer->received + 1;
    slot = &peer->inbound->slots[number % SYMC_PAIR_SLOTS];
    *ticks = symc_ticks();
    while (
        atomic_load_explicit(&slot->number, memory_order_acquire) != number) {
        if (polls-- <= 0 || symc_pairs_wanted(pairs))
            return false;
        symc_pause();
        /* Read here, so that its latency is part of the pause. */
        *ticks = symc_ticks();
    }
    if (!is_wanted(pair, slot) || !take_data(pairs, pair->peer, slot,
                                      pair->op->out, symc_pair_nbytes(pair)))
        return false;
    peer->received = number;
    atomic_store_explicit(&peer->mine->taken, number, memory_order_release);
    symc_pair_wake(pairs, pair->peer);
    pair->source = pair->peer;
    return true;
}

/* ---- transfers ---- */

static void read_chunks(struct symc_pairs *pairs, int rank)
{
    struct symc_pair_peer *peer = &pairs->peers[rank];
    struct symc_pair *pair = peer->receiving;
    uint64_t base = peer->answered * SYMC_PAIR_TRANSFER;
    uint64_t written =
        atomic_load_explicit(&peer->inbound->written, memory_order_acquire);
    uint64_t total = symc_pair_chunk_count(pair);
    bool streaming = symc_pair_nbytes(pair) >= pairs->setup.stream_min;
    uint64_t area;

    if (written <= base && atomic_load_explicit(&peer->inbound->vain,
                               memory_order_acquire) == peer->answered) {
        peer->receiving = NULL;
        symc_pair_finish(
            pairs, pair, symc_pair_garbled(pair, rank, SYMC_PAIR_WITH_SENDER));
        return;
    }
    if (written <= base && symc_pair_take_back(peer))
        return;
    if (written <= base || written - base > total)
        return;
    area = atomic_load_explicit(&peer->inbound->area, memory_order_relaxed);
    if (pair->copying != NULL) {
        symc_pair_read_copied(pairs, pair, written - base, area);
        return;
    }
    for (int i = 0; i < SYMC_PAIR_AT_ONCE && pair->chunks < written - base;
         i++) {
        const char *from =
            symc_pair_find_chunk(pairs, rank, area, pair->chunks);

        if (from == NULL)
            break;
        symc_copy((char *)pair->op->out + pair->chunks * SYMC_PAIR_CHUNK, from,
            symc_pair_chunk_nbytes(pair, pair->chunks), streaming);
        pair->chunks++;
        pairs->moved++;
        atomic_store_explicit(
            &peer->mine->read, base + pair->chunks, memory_order_release);
        symc_pair_wake(pairs, rank);
    }
    /* Another thread may take the next chunk, and the end. */
    if (streaming)
        symc_stream_fence();
    if (pair->chunks < total)
        return;
    peer->receiving = NULL;
    symc_pair_finish(pairs, pair, SYMMCOLL_OK);
}

void symc_pair_advance_receives(struct symc_pairs *pairs, int rank)
{
    struct symc_pair_peer *peer = &pairs->peers[rank];

    take_arrivals(pairs, rank);
    if (peer->receiving != NULL)
        read_chunks(pairs, rank);
    if (peer->answering.head != NULL)
        answer_next(pairs, rank);
}

/* ---- groups ---- */

void symc_pairs_add_group(
    struct symc_pairs *pairs, struct symc_pair_group *group)
{
    struct symc_pair_group **at = &pairs->groups[group->key % SYMC_PAIR_GROUPS];

    group->next = *at;
    *at = group;
}

/* Drops the kept messages of a group; returns how many there were. */
static size_t drop_kept(
    struct symc_pairs *pairs, uint64_t key, struct symc_pair_left *first)
{
    size_t count = 0;

    for (int r = 0; r < pairs->setup.size; r++) {
        struct symc_pair_peer *peer = &pairs->peers[r];
        struct symc_pair_message **at = &peer->kept;

        take_arrivals(pairs, r);
        while (*at != NULL) {
            const struct symc_pair_slot *slot = &(*at)->slot;

            if (slot->key != key) {
                at = &(*at)->next;
                continue;
            }
            if (count++ == 0)
                *first = (struct symc_pair_left){
                    r, slot->count, slot->dtype, slot->tag};
            if (slot->form == SYMC_PAIR_IN_BLOCK)
                return_block(pairs, r, slot->block);
            unkeep(pairs, peer, at);
        }
    }
    return count;
}

void symc_pairs_remove_group(
    struct symc_pairs *pairs, const struct symc_pair_group *group)
{
    struct symc_pair_group **at = &pairs->groups[group->key % SYMC_PAIR_GROUPS];

    while (*at != NULL && *at != group)
        at = &(*at)->next;
    if (*at != NULL)
        *at = group->next;
}

size_t symc_pairs_drop_group(struct symc_pairs *pairs,
    struct symc_pair_group *group, struct symc_pair_left *first)
{
    size_t count = 0;

    if ((pairs->peers != NULL || symc_pair_is_sent_to(pairs)) &&
        symc_pairs_prepare(pairs, SYMC_PAIR_ANY, 0) == SYMMCOLL_OK)
        count = drop_kept(pairs, group->key, first);
    symc_pairs_remove_group(pairs, group);
    return count;
}
