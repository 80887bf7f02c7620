/* SPDX-License-Identifier: BSD-3-Clause */
/* Proposals in the blocks, see proposal.h. */
#include "segment/proposal.h"

#include "segment/liveness.h"

#include <stdlib.h>
#include <string.h>

/* The part of a proposal that the lock covers and copy_slot() copies. */
#define CONTENT offsetof(struct symc_proposal, base)
#define CONTENT_NBYTES (sizeof(struct symc_proposal) - CONTENT)

symmcoll_status_t symc_proposals_open(
    struct symc_proposals *proposals, struct symc_block *block, int size)
{
    *proposals = (struct symc_proposals){.block = block};
    proposals->readers =
        symc_alloc((size_t)size * SYMC_PROPOSALS, sizeof(*proposals->readers));
    if (proposals->readers == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    for (int i = 0; i < SYMC_PROPOSALS; i++)
        proposals->slots[i].global = proposals->readers + (size_t)i * size;
    pthread_mutex_init(&proposals->lock, NULL);
    return SYMMCOLL_OK;
}

static bool is_kept(const struct symc_proposals *proposals,
    const struct symc_proposal_count *count)
{
    return count >= proposals->kept &&
           count < proposals->kept + SYMC_PROPOSAL_KEPT;
}

void symc_proposals_close(struct symc_proposals *proposals)
{
    while (proposals->counts != NULL) {
        struct symc_proposal_count *first = proposals->counts;

        proposals->counts = first->next;
        if (!is_kept(proposals, first))
            free(first);
    }
    free(proposals->readers);
    pthread_mutex_destroy(&proposals->lock);
}

static struct symc_proposal_count *make_count(struct symc_proposals *proposals)
{
    struct symc_proposal_count *count = symc_alloc(1, sizeof(*count));

    if (count == NULL && proposals->nkept < SYMC_PROPOSAL_KEPT)
        count = &proposals->kept[proposals->nkept++];
    return count;
}

symmcoll_status_t symc_proposal_count(
    struct symc_proposals *proposals, uint64_t key, uint64_t *count)
{
    struct symc_proposal_count *at;

    pthread_mutex_lock(&proposals->lock);
    at = proposals->counts;
    while (at != NULL && at->key != key)
        at = at->next;
    if (at == NULL) {
        at = make_count(proposals);
        if (at != NULL) {
            at->key = key;
            at->next = proposals->counts;
            proposals->counts = at;
        }
    }
    *count = at != NULL ? at->count++ : 0;
    pthread_mutex_unlock(&proposals->lock);
    return at != NULL ? SYMMCOLL_OK : SYMMCOLL_ERR_NO_MEMORY;
}

/* ---- reading ---- */

/* Copies a consistent state of a slot.  Returns false if the slot was never
 * used or is still being written, perhaps by a rank that died doing so. */
static bool copy_slot(
    const struct symc_proposal *slot, struct symc_proposal *copy)
{
    for (int tries = 0; tries < 100; tries++) {
        uint32_t before =
            atomic_load_explicit(&slot->lock, memory_order_acquire);

        if (before == 0)
            return false;
        if (before % 2 == 1)
            continue;
        for (size_t i = 0; i < CONTENT_NBYTES / sizeof(uint64_t); i++)
            ((uint64_t *)(void *)((char *)copy + CONTENT))[i] = __atomic_load_n(
                (const uint64_t *)(const void *)((const char *)slot + CONTENT) +
                    i,
                __ATOMIC_ACQUIRE);
        if (atomic_load_explicit(&slot->lock, memory_order_acquire) != before)
            continue;
        copy->text[sizeof(copy->text) - 1] = '\0';
        return true;
    }
    return false;
}

static uint64_t read_base(const struct symc_proposal *slot)
{
    return __atomic_load_n(&slot->base, __ATOMIC_RELAXED);
}

static bool is_being_written(const struct symc_proposal *slot)
{
    return atomic_load_explicit(&slot->lock, memory_order_acquire) % 2 == 1;
}

/* Searches a rank's slots for its proposal in a round.  A proposal of this
 * round counts even if the rank has failed since, because others may have read
 * it before.  LATER is not returned while the rank writes a slot. */
static enum symc_proposal_end search(const struct symc_block *block,
    uint64_t base, uint64_t round, struct symc_proposal *copy)
{
    enum symc_proposal_end end = SYMC_PROPOSAL_NONE;
    struct symc_proposal found;
    bool writes = false;

    for (int i = 0; i < SYMC_PROPOSALS; i++) {
        const struct symc_proposal *slot = &block->proposals[i];
        bool failed;

        writes = writes || is_being_written(slot);
        if (read_base(slot) != base || !copy_slot(slot, &found) ||
            found.base != base)
            continue;
        failed = found.status < 0;
        if (!failed && found.round != round) {
            if (found.round > round && end == SYMC_PROPOSAL_NONE)
                end = SYMC_PROPOSAL_LATER;
            continue;
        }
        if (failed && end == SYMC_PROPOSAL_FOUND)
            continue;
        memcpy(
            (char *)copy + CONTENT, (char *)&found + CONTENT, CONTENT_NBYTES);
        end = failed ? SYMC_PROPOSAL_FAILED : SYMC_PROPOSAL_FOUND;
    }
    return end == SYMC_PROPOSAL_LATER && writes ? SYMC_PROPOSAL_NONE : end;
}

enum symc_proposal_end symc_proposal_find(const struct symc_block *block,
    uint64_t base, uint64_t round, struct symc_proposal *copy)
{
    enum symc_proposal_end end = search(block, base, round, copy);

    /* The proposal of this round may have been put into a slot after that slot
     * was read here, and then the next round's into another slot.  It is kept
     * while this rank can need it, so a second search finds it. */
    return end == SYMC_PROPOSAL_LATER || end == SYMC_PROPOSAL_FAILED
               ? search(block, base, round, copy)
               : end;
}

bool symc_proposal_latest(
    const struct symc_block *block, struct symc_proposal *copy)
{
    for (int i = 0; i < SYMC_PROPOSALS; i++) {
        if (copy_slot(&block->proposals[i], copy) && copy->done == 0 &&
            copy->status >= 0)
            return true;
    }
    return false;
}

/* ---- slots ---- */

/* Returns whether a rank no longer needs the proposals for a key: its own is
 * finished, or its slot has been reused, or the rank has died or is on another
 * machine. */
static bool has_finished(const struct symc_peer *peer, uint64_t base)
{
    struct symc_proposal found;

    if (peer->view.block == NULL ||
        symc_liveness_state(peer) != SYMC_LIVENESS_ALIVE)
        return true;
    for (int i = 0; i < SYMC_PROPOSALS; i++) {
        const struct symc_proposal *slot = &peer->view.block->proposals[i];

        if (read_base(slot) == base && copy_slot(slot, &found) &&
            found.base == base && found.done == 0)
            return false;
    }
    return true;
}

/* Returns whether a slot is unused, or finished by this rank and all its
 * readers. */
static bool is_free(const struct symc_proposals *proposals,
    const struct symc_peer *peers, int slot)
{
    if (!proposals->slots[slot].used)
        return true;
    if (!proposals->slots[slot].finished)
        return false;
    for (int m = 0; m < proposals->slots[slot].size; m++) {
        const struct symc_peer *peer = &peers[proposals->slots[slot].global[m]];

        if (peer->view.block != proposals->block &&
            !has_finished(peer, proposals->slots[slot].base))
            return false;
    }
    return true;
}

int symc_proposal_take(struct symc_proposals *proposals,
    const struct symc_peer *peers, uint64_t base, const int *global, int size)
{
    int slot = -1;

    pthread_mutex_lock(&proposals->lock);
    for (int i = 0; i < SYMC_PROPOSALS; i++) {
        if (is_free(proposals, peers, i) &&
            (slot < 0 ||
                proposals->slots[i].taken < proposals->slots[slot].taken))
            slot = i;
    }
    if (slot >= 0) {
        proposals->slots[slot].used = true;
        proposals->slots[slot].finished = false;
        proposals->slots[slot].taken = ++proposals->count;
        proposals->slots[slot].base = base;
        proposals->slots[slot].size = size;
        memcpy(proposals->slots[slot].global, global,
            (size_t)size * sizeof(*global));
    }
    pthread_mutex_unlock(&proposals->lock);
    return slot;
}

void symc_proposal_put(struct symc_proposals *proposals, int slot,
    const struct symc_proposal *content)
{
    struct symc_proposal *to = &proposals->block->proposals[slot];
    uint32_t lock =
        atomic_load_explicit(&to->lock, memory_order_relaxed) & ~UINT32_C(1);

    atomic_exchange_explicit(&to->lock, lock + 1, memory_order_acq_rel);
    for (size_t i = 0; i < CONTENT_NBYTES / sizeof(uint64_t); i++)
        __atomic_store_n((uint64_t *)(void *)((char *)to + CONTENT) + i,
            ((const uint64_t *)(const void *)((const char *)content +
                                              CONTENT))[i],
            __ATOMIC_RELEASE);
    atomic_store_explicit(
        &to->lock, lock + 2 != 0 ? lock + 2 : 2, memory_order_release);
}

void symc_proposal_finish(struct symc_proposals *proposals, int slot, bool read)
{
    struct symc_proposal content;

    if (copy_slot(&proposals->block->proposals[slot], &content)) {
        content.done = 1;
        symc_proposal_put(proposals, slot, &content);
    }
    pthread_mutex_lock(&proposals->lock);
    proposals->slots[slot].finished = true;
    proposals->slots[slot].used = !read;
    pthread_mutex_unlock(&proposals->lock);
}
