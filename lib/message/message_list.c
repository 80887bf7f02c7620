/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lists of sends and receives, how one of them ends, and the texts of errors.
 */
#include "message/message_state.h"

#include "base/dtype.h"

#include <stdio.h>
#include <string.h>

void symc_pair_append(struct symc_pair_list *list, struct symc_pair *pair)
{
    pair->next = NULL;
    pair->previous = list->tail;
    if (list->tail != NULL)
        list->tail->next = pair;
    else
        list->head = pair;
    list->tail = pair;
}

void symc_pair_remove(struct symc_pair_list *list, struct symc_pair *pair)
{
    if (pair->previous != NULL)
        pair->previous->next = pair->next;
    else
        list->head = pair->next;
    if (pair->next != NULL)
        pair->next->previous = pair->previous;
    else
        list->tail = pair->previous;
}

void symc_pair_enlist(struct symc_pairs *pairs, struct symc_pair *pair)
{
    pair->started = true;
    pair->all_previous = NULL;
    pair->all_next = pairs->all;
    if (pairs->all != NULL)
        pairs->all->all_previous = pair;
    pairs->all = pair;
}

static void unlist(struct symc_pairs *pairs, struct symc_pair *pair)
{
    if (pair->all_previous != NULL)
        pair->all_previous->all_next = pair->all_next;
    else
        pairs->all = pair->all_next;
    if (pair->all_next != NULL)
        pair->all_next->all_previous = pair->all_previous;
}

void symc_pair_finish(
    struct symc_pairs *pairs, struct symc_pair *pair, symmcoll_status_t status)
{
    pair->state = SYMC_PAIR_ENDED;
    pair->status = status;
    symc_copying_release(pair->copying);
    pair->copying = NULL;
    if (!pair->started)
        return; /* within symc_pairs_start() */
    unlist(pairs, pair);
    pairs->noticed = true;
    pair->end(pair, status);
}

static void note_withdrawn(
    struct symc_pair_peer *peer, const struct symc_pair *pair)
{
    if (pair->number > peer->withdrawn)
        peer->withdrawn = pair->number;
}

void symc_pair_withdraw(struct symc_pairs *pairs, struct symc_pair *pair)
{
    const struct symc_op *op = pair->op;
    int rank = op->kind == SYMC_SEND ? pair->peer : pair->source;
    /* A posted receive has no rank, and does not use the peer. */
    struct symc_pair_peer *peer = &pairs->peers[rank >= 0 ? rank : 0];

    switch ((enum symc_pair_state)pair->state) {
    case SYMC_PAIR_WAITING:
        symc_pair_remove(&peer->waiting, pair);
        break;
    case SYMC_PAIR_OFFERED:
        symc_pair_remove(&peer->offered, pair);
        note_withdrawn(peer, pair);
        break;
    case SYMC_PAIR_SENDING:
        note_withdrawn(peer, pair);
        peer->sending = NULL;
        /* On a device all chunks may be written already, and be read: write more than
         * all, which is not read. */
        if (pair->copying != NULL)
            atomic_store_explicit(&peer->ring->written,
                peer->base + SYMC_PAIR_TRANSFER - 1, memory_order_release);
        peer->end = peer->base; /* its area is free: the rest is not read */
        break;
    case SYMC_PAIR_POSTED:
        symc_pair_remove(&pairs->posted, pair);
        break;
    case SYMC_PAIR_ANSWERING:
        symc_pair_remove(&peer->answering, pair);
        break;
    case SYMC_PAIR_RECEIVING:
        peer->receiving = NULL;
        /* This rank reads nothing more: the sender gets its area back. */
        atomic_store_explicit(&peer->mine->read,
            (peer->answered + 1) * SYMC_PAIR_TRANSFER - 1,
            memory_order_release);
        symc_pair_wake(pairs, rank);
        break;
    case SYMC_PAIR_ENDED:
        break;
    }
    pair->state = SYMC_PAIR_ENDED;
    unlist(pairs, pair);
}

static const char *format_type(uint64_t dtype)
{
    const struct symc_dtype *type =
        dtype < SYMMCOLL_DTYPE_COUNT
            ? symc_dtype_find((enum symmcoll_dtype)dtype)
            : NULL;

    return type == NULL ? "an unknown type" : type->name;
}

/* Returns the rank within the group of a rank of the world. */
static int member_of(const struct symc_ranks *ranks, int global)
{
    for (int r = 0; r < ranks->size; r++) {
        if ((ranks->global != NULL ? ranks->global[r] : r) == global)
            return r;
    }
    return 0;
}

/* Names what differs between the two sides. */
static const char *name_difference(
    const struct symc_op *op, uint64_t dtype, uint64_t memory)
{
    if (memory != op->memory && dtype == op->dtype)
        return "memory";
    return dtype != op->dtype ? "type" : "count";
}

/* Formats " in device memory" if the two sides differ in the memory, else "". */
static const char *format_place(
    bool differs, uint64_t memory, char buffer[SYMC_MEMORY_TEXT])
{
    if (differs)
        snprintf(buffer, SYMC_MEMORY_TEXT, " in %s",
            symc_memory_name((unsigned int)memory));
    else
        buffer[0] = '\0';
    return buffer;
}

symmcoll_status_t symc_pair_differ(const struct symc_pair *pair, int other,
    uint64_t count, uint64_t dtype, uint64_t memory)
{
    const struct symc_op *op = pair->op;
    const struct symc_ranks *ranks = pair->core->ranks;
    bool sends = op->kind == SYMC_SEND;
    char text[SYMC_OP_TEXT], name[SYMC_RANK_TEXT];
    char theirs[SYMC_MEMORY_TEXT], own[SYMC_MEMORY_TEXT];
    const bool apart = memory != op->memory;

    symc_format_rank(ranks, member_of(ranks, other), SYMC_NO_PID, name);
    (void)symc_fail(SYMMCOLL_ERR_MISMATCH,
        "%s of group %s: %s differs: %s %s %llu of %s%s, this rank %s %zu of "
        "%s%s",
        symc_op_format(op->kind, op->seq, op->label, text, sizeof(text)),
        pair->core->name, name_difference(op, dtype, memory), name,
        sends ? "receives" : "sent", (unsigned long long)count,
        format_type(dtype), format_place(apart, memory, theirs),
        sends ? "sent" : "receives", op->count, format_type(op->dtype),
        format_place(apart, op->memory, own));
    return symc_error_add_rank(ranks, member_of(ranks, other));
}

symmcoll_status_t symc_pair_garbled(
    const struct symc_pair *pair, int sender, unsigned int form)
{
    const struct symc_op *op = pair->op;
    const struct symc_ranks *ranks = pair->core->ranks;
    char text[SYMC_OP_TEXT], name[SYMC_RANK_TEXT];

    symc_format_rank(ranks, member_of(ranks, sender), SYMC_NO_PID, name);
    return symc_fail(SYMMCOLL_ERR_INTERNAL,
        "%s of group %s: expected the %zu bytes in their place, found form %u: "
        "the memory of messages from %s has been written over",
        symc_op_format(op->kind, op->seq, op->label, text, sizeof(text)),
        pair->core->name, symc_pair_nbytes(pair), form, name);
}

/* ---- kept messages ---- */

#define TAGS 5 /* that are named, per sender */

/* Finds the different tags of kept messages from a rank, in the order of arrival, and
 * whether there are more. */
static int find_tags(const struct symc_pair_peer *peer,
    const struct symc_pair *pair, int64_t tags[TAGS], bool *more)
{
    int n = 0;

    *more = false;
    for (const struct symc_pair_message *at = peer->kept; at != NULL;
         at = at->next) {
        int i = 0;

        if (at->slot.key != pair->key || at->slot.space != pair->space)
            continue;
        while (i < n && tags[i] != at->slot.tag)
            i++;
        if (i < n)
            continue;
        if (n == TAGS) {
            *more = true;
            break;
        }
        tags[n++] = at->slot.tag;
    }
    return n;
}

void symc_pair_describe_kept(const struct symc_pairs *pairs,
    const struct symc_pair *pair, char *buffer, size_t nbytes)
{
    const struct symc_ranks *ranks = pair->core->ranks;
    const char *between = "";
    size_t used = 0;

    buffer[0] = '\0';
    if (pair->state != SYMC_PAIR_POSTED)
        return;
    for (int r = 0; r < ranks->size && used + 80 < nbytes; r++) {
        int global = ranks->global != NULL ? ranks->global[r] : r, n;
        char name[SYMC_RANK_TEXT], list[40] = "";
        size_t listed = 0;
        int64_t tags[TAGS];
        bool more;

        if (pair->peer != SYMC_PAIR_ANY && pair->peer != global)
            continue;
        n = find_tags(&pairs->peers[global], pair, tags, &more);
        for (int i = 0; i < n && listed < sizeof(list); i++)
            listed += (size_t)snprintf(list + listed, sizeof(list) - listed,
                "%s%lld", i > 0 ? ", " : "", (long long)tags[i]);
        more = more || listed >= sizeof(list);
        if (n == 0)
            continue;
        symc_format_rank(ranks, r, SYMC_NO_PID, name);
        used += (size_t)snprintf(buffer + used, nbytes - used,
            "%s%s %s%s from %s", between,
            between[0] == '\0'
                ? n > 1 ? "messages with tags" : "a message with tag"
            : n > 1 ? "tags"
                    : "tag",
            list, more ? ", ..." : "", name);
        between = ", ";
    }
    if (used > 0 && used < nbytes)
        snprintf(buffer + used, nbytes - used, " came, none with tag %lld",
            (long long)pair->op->tag);
}
