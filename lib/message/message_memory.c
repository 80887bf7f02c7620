/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of sends and receives: a rank's own area, rings and pool, allocated when
 * they are first needed, and those of its peers, looked up when they exist.
 */
#include "message/message_state.h"

#include <stdlib.h>

static void *own_at(const struct symc_pairs *pairs, uint64_t offset)
{
    return (char *)pairs->setup.block + offset;
}

/* Takes memory of this rank's arena, to keep until the world ends. */
static symmcoll_status_t take(
    struct symc_pairs *pairs, size_t nbytes, uint64_t *offset)
{
    struct symc_offer offer;
    symmcoll_status_t status =
        symc_segment_offer(pairs->setup.segments, nbytes, nbytes, &offer);

    if (status == SYMMCOLL_OK)
        *offset = offer.offset;
    return status;
}

static symmcoll_status_t make_area(struct symc_pairs *pairs)
{
    size_t size = (size_t)pairs->setup.size;
    size_t nbytes =
        sizeof(struct symc_pair_area) + size * sizeof(struct symc_pair_answer);
    struct symc_pair_peer *peers = symc_alloc(size, sizeof(*peers));
    symmcoll_status_t status;
    uint64_t offset;

    if (peers == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    status = take(pairs, nbytes, &offset);
    if (status != SYMMCOLL_OK) {
        free(peers);
        return status;
    }
    pairs->area = own_at(pairs, offset);
    for (size_t r = 0; r < size; r++) {
        peers[r].mine = &pairs->area->answers[r];
        peers[r].area = -1;
        peers[r].kept_tail = &peers[r].kept;
    }
    pairs->peers = peers;
    atomic_store_explicit(
        &pairs->setup.block->pairs, offset, memory_order_release);
    return SYMMCOLL_OK;
}

static symmcoll_status_t make_ring(struct symc_pairs *pairs, int rank)
{
    struct symc_pair_peer *peer = &pairs->peers[rank];
    uint64_t offset;
    symmcoll_status_t status =
        take(pairs, sizeof(struct symc_pair_ring), &offset);

    if (status != SYMMCOLL_OK)
        return status;
    peer->ring = own_at(pairs, offset);
    atomic_store_explicit(&peer->mine->ring, offset, memory_order_release);
    return SYMMCOLL_OK;
}

static symmcoll_status_t make_pool(struct symc_pairs *pairs)
{
    uint64_t offset;
    symmcoll_status_t status = take(pairs, SYMC_PAIR_POOL, &offset);

    if (status != SYMMCOLL_OK)
        return status;
    pairs->pool = own_at(pairs, offset);
    atomic_store_explicit(&pairs->area->pool, offset, memory_order_release);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_pairs_prepare(
    struct symc_pairs *pairs, int peer, size_t nbytes)
{
    symmcoll_status_t status;

    if (pairs->peers == NULL) {
        status = make_area(pairs);
        if (status != SYMMCOLL_OK)
            return status;
    }
    if (peer == SYMC_PAIR_ANY)
        return SYMMCOLL_OK;
    if (pairs->peers[peer].ring == NULL) {
        status = make_ring(pairs, peer);
        if (status != SYMMCOLL_OK)
            return status;
    }
    /* A message that fits a block may find none free, and need the pool. */
    if (nbytes > SYMC_PAIR_INLINE && pairs->pool == NULL)
        return make_pool(pairs);
    return SYMMCOLL_OK;
}

/* ---- peers' memory: every offset is checked against the mapping ---- */

static void *peer_at(
    const struct symc_pairs *pairs, int rank, uint64_t offset, size_t nbytes)
{
    const struct symc_block_view *view = &pairs->setup.peers[rank].view;

    if (view->block == NULL || offset < view->layout.nbytes ||
        offset % SYMC_PAGE != 0 || offset > view->mapped ||
        nbytes > view->mapped - offset)
        return NULL;
    return (char *)view->block + offset;
}

static struct symc_pair_area *find_area(struct symc_pairs *pairs, int rank)
{
    struct symc_block *block = pairs->setup.peers[rank].view.block;
    size_t nbytes = sizeof(struct symc_pair_area) +
                    (size_t)pairs->setup.size * sizeof(struct symc_pair_answer);

    return block == NULL
               ? NULL
               : peer_at(pairs, rank,
                     atomic_load_explicit(&block->pairs, memory_order_acquire),
                     nbytes);
}

const struct symc_pair_answer *symc_pair_find_answers(
    struct symc_pairs *pairs, int rank)
{
    struct symc_pair_area *area = find_area(pairs, rank);

    return area == NULL ? NULL : &area->answers[pairs->setup.rank];
}

bool symc_pair_is_sent_to(struct symc_pairs *pairs)
{
    for (int r = 0; r < pairs->setup.size; r++) {
        const struct symc_pair_answer *theirs =
            symc_pair_find_answers(pairs, r);

        if (r != pairs->setup.rank && theirs != NULL &&
            atomic_load_explicit(&theirs->ring, memory_order_relaxed) != 0)
            return true;
    }
    return false;
}

const struct symc_pair_ring *symc_pair_find_ring(
    struct symc_pairs *pairs, int rank)
{
    struct symc_pair_peer *peer = &pairs->peers[rank];

    if (peer->theirs == NULL)
        peer->theirs = symc_pair_find_answers(pairs, rank);
    if (peer->theirs == NULL)
        return NULL;
    return peer_at(pairs, rank,
        atomic_load_explicit(&peer->theirs->ring, memory_order_acquire),
        sizeof(struct symc_pair_ring));
}

const char *symc_pair_find_chunk(
    struct symc_pairs *pairs, int rank, uint64_t area, uint64_t chunk)
{
    struct symc_pair_area *theirs = find_area(pairs, rank);
    const char *pool;

    if (theirs == NULL || area >= SYMC_PAIR_AREAS)
        return NULL;
    pool = peer_at(pairs, rank,
        atomic_load_explicit(&theirs->pool, memory_order_acquire),
        SYMC_PAIR_POOL);
    return pool == NULL
               ? NULL
               : pool + (area * SYMC_PAIR_CHUNKS + chunk % SYMC_PAIR_CHUNKS) *
                            SYMC_PAIR_CHUNK;
}
