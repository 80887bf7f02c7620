/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations shared by the files of sends and receives.  Private to them.
 */
#ifndef SYMC_MESSAGE_MESSAGE_STATE_H
#define SYMC_MESSAGE_MESSAGE_STATE_H

#include "base/reduce.h"
#include "message/message.h"
#include "message/message_wire.h"

#include <string.h>

/* A message that arrived before its receive. */
struct symc_pair_message {
    struct symc_pair_message *next;
    struct symc_pair_slot slot; /* a copy; number is the message's */
};

/* The state of this rank for another one. */
struct symc_pair_peer {
    struct symc_pair_answer *mine;         /* this rank's answers to it */
    const struct symc_pair_answer *theirs; /* its answers; NULL: none yet */

    /* Messages to the peer. */
    struct symc_pair_ring *ring; /* NULL: none yet */
    uint64_t sent;               /* number of the latest */
    uint64_t taken;              /* by the receiver, as last read */
    uint64_t lent;               /* bits of blocks, as `returned` */
    uint64_t returned;           /* by the receiver, as last read */
    uint64_t answers;            /* its answers seen */
    uint64_t withdrawn;          /* number of the latest that has failed */
    struct symc_pair_list waiting, offered;
    struct symc_pair *sending;
    uint64_t base;  /* number of its first chunk */
    int area;       /* of the pool, -1: none */
    uint64_t end;   /* the area is free when chunks up to this are read */
    bool postpones; /* some that are offered may be postponed */
    bool staged;    /* the peer may use this rank's staging */

    /* Messages from the peer. */
    const struct symc_pair_ring *inbound; /* NULL: none yet */
    uint64_t received;                    /* number of the latest */
    uint64_t answered;                    /* number of answers */
    struct symc_pair_message *kept, **kept_tail;
    size_t kept_count;
    struct symc_pair_list answering;
    struct symc_pair *receiving;
};

#define SYMC_PAIR_AT_ONCE 4 /* chunks of one transfer, per advance */

/* ---- message_memory.c ---- */

/* Return a peer's answers to this rank, and its ring to this rank; NULL if they are not
 * there yet. */
const struct symc_pair_answer *symc_pair_find_answers(
    struct symc_pairs *pairs, int rank);
const struct symc_pair_ring *symc_pair_find_ring(
    struct symc_pairs *pairs, int rank);

/* Returns whether any rank has a ring to this one. */
bool symc_pair_is_sent_to(struct symc_pairs *pairs);

/* Returns a chunk in a peer's pool; NULL if there is none. */
const char *symc_pair_find_chunk(
    struct symc_pairs *pairs, int rank, uint64_t area, uint64_t chunk);

/* ---- message_list.c ---- */

void symc_pair_append(struct symc_pair_list *list, struct symc_pair *pair);
void symc_pair_remove(struct symc_pair_list *list, struct symc_pair *pair);

/* Adds a send or receive to the list of all that wait. */
void symc_pair_enlist(struct symc_pairs *pairs, struct symc_pair *pair);

/* Ends a send or receive, which must be in no list of its state any more. */
void symc_pair_finish(
    struct symc_pairs *pairs, struct symc_pair *pair, symmcoll_status_t status);

/* Takes a send or receive out of all lists, without ending it. */
void symc_pair_withdraw(struct symc_pairs *pairs, struct symc_pair *pair);

/* Returns MISMATCH, with what both sides of a message passed. */
symmcoll_status_t symc_pair_differ(const struct symc_pair *pair, int other,
    uint64_t count, uint64_t dtype, uint64_t memory);

/* Returns INTERNAL: the slot of a sender's message names an impossible place of its
 * data. */
symmcoll_status_t symc_pair_garbled(
    const struct symc_pair *pair, int sender, unsigned int form);

#define SYMC_PAIR_FOUND 160 /* bytes for any symc_pair_describe_kept() */

/* Formats the kept messages that a receive would have matched with another tag:
 * "messages with tags 3, 5 from rank 0 came, none with tag 7"; "" if there are none, or
 * if the receive has its message. */
void symc_pair_describe_kept(const struct symc_pairs *pairs,
    const struct symc_pair *pair, char *buffer, size_t nbytes);

/* Wakes a peer that may be waiting. */
static inline void symc_pair_wake(const struct symc_pairs *pairs, int rank)
{
    symc_doorbell_notify(
        symc_block_doorbell(pairs->setup.peers[rank].view.block));
}

static inline size_t symc_pair_nbytes(const struct symc_pair *pair)
{
    return pair->op->count * pair->op->elem;
}

static inline uint64_t symc_pair_chunk_count(const struct symc_pair *pair)
{
    const uint64_t nbytes = symc_pair_nbytes(pair);
    const uint64_t chunk =
        pair->copying != NULL ? pair->copying->place.chunk : SYMC_PAIR_CHUNK;

    return (nbytes + chunk - 1) / chunk;
}

/* Packs an element type and a kind of memory into one word. */
static inline uint64_t symc_pair_pack_type(const struct symc_op *op)
{
    return (uint64_t)op->dtype | (uint64_t)op->memory << 32;
}

static inline uint64_t symc_pair_packed_dtype(uint64_t packed)
{
    return packed & UINT32_MAX;
}

static inline uint64_t symc_pair_packed_memory(uint64_t packed)
{
    return packed >> 32;
}

/* Returns the bytes of a chunk of a transfer in host memory. */
static inline size_t symc_pair_chunk_nbytes(
    const struct symc_pair *pair, uint64_t chunk)
{
    size_t left = symc_pair_nbytes(pair) - (size_t)chunk * SYMC_PAIR_CHUNK;

    return left < SYMC_PAIR_CHUNK ? left : SYMC_PAIR_CHUNK;
}

/* Copies the data in the first line of a slot. */
static inline void symc_pair_copy_first(
    void *to, const void *from, size_t nbytes)
{
    const size_t word = sizeof(uint64_t);

    if (nbytes < word) {
        if (nbytes > 0)
            memcpy(to, from, nbytes);
        return;
    }
    /* The words may overlap; copies of constant size are single instructions. */
    memcpy(to, from, sizeof(uint64_t));
    if (nbytes > 2 * word)
        memcpy((char *)to + word, (const char *)from + word, sizeof(uint64_t));
    memcpy((char *)to + nbytes - word, (const char *)from + nbytes - word,
        sizeof(uint64_t));
}

/* ---- message_device.c: device memory ---- */

/* Grants copies for which there is room, as the receiver has read `read` chunks, and
 * publishes the chunks that have been copied. */
void symc_pair_write_copied(
    struct symc_pairs *pairs, struct symc_pair_peer *peer, uint64_t read);
/* Leaves a transfer whose receiver has given another answer: ends it if the receiver has
 * read all, else stops copying.  Returns whether its area is free. */
bool symc_pair_leave_copied(
    struct symc_pairs *pairs, struct symc_pair_peer *peer);
/* Grants copies of the chunks that the sender has written to an area, and publishes those
 * that have been copied. */
void symc_pair_read_copied(struct symc_pairs *pairs, struct symc_pair *pair,
    uint64_t written, uint64_t area);

/* Postpones a message that the receiver has requested before the sender's stream has
 * reached it. */
void symc_pair_postpone(
    struct symc_pair_peer *peer, struct symc_pair *pair, uint64_t answers);
/* Publishes that postponed messages have become ready. */
void symc_pair_resume(
    struct symc_pairs *pairs, struct symc_pair_peer *peer, int rank);

/* Returns the first receive to answer, or NULL.  Receives whose stream has not been
 * reached, here or at the sender, let others pass. */
struct symc_pair *symc_pair_find_ready(const struct symc_pair_peer *peer);
/* Returns whether the sender has postponed the message being received, which is then to
 * be answered again. */
bool symc_pair_take_back(struct symc_pair_peer *peer);

/* At the end: publishes that this rank uses no other rank's staging.  Returns whether no
 * other rank uses its own, for which it waits a moment. */
bool symc_pair_leave_staging(struct symc_pairs *pairs);

/* Returns whether it can end with an error: no copy uses its buffer any more, or one has
 * not ended for a long time. */
bool symc_pair_is_still(struct symc_pair *pair, int64_t now);
/* Logs a warning if a copy still uses its buffer. */
void symc_pair_warn_running(const struct symc_pair *pair);
/* Returns whether a call of the driver has failed for it. */
bool symc_pair_copy_failed(const struct symc_pair *pair);
/* Returns why it ends if the reason is on this rank: an error of the driver, or that its
 * own stream was not reached in time.  OK: neither. */
symmcoll_status_t symc_pair_explain(const struct symc_pair *pair);

/* ---- message_send.c ---- */

void symc_pair_send(struct symc_pairs *pairs, struct symc_pair *pair);
void symc_pair_advance_sends(struct symc_pairs *pairs, int rank);

/* ---- message_recv.c ---- */

void symc_pair_recv(struct symc_pairs *pairs, struct symc_pair *pair);

void symc_pair_advance_receives(struct symc_pairs *pairs, int rank);

#endif
