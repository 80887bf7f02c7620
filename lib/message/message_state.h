/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of sends and receives share.  Private to them.
 */
#ifndef SYMC_MESSAGE_MESSAGE_STATE_H
#define SYMC_MESSAGE_MESSAGE_STATE_H

#include "base/reduce.h"
#include "message/message.h"
#include "message/message_wire.h"

#include <string.h>

/* A message that came before its receive. */
struct symc_pair_message {
    struct symc_pair_message *next;
    struct symc_pair_slot slot; /* a copy; number is the message's */
};

/* What a rank knows of another one. */
struct symc_pair_peer {
    struct symc_pair_answer *mine;         /* this rank's answers to it */
    const struct symc_pair_answer *theirs; /* its answers; NULL: none yet */

    /* Messages to it. */
    struct symc_pair_ring *ring; /* NULL: none yet */
    uint64_t sent;               /* number of the latest */
    uint64_t taken;              /* by the receiver, as last read */
    uint64_t lent;               /* bits of blocks, as `returned` */
    uint64_t returned;           /* by the receiver, as last read */
    uint64_t answers;            /* of its answers, seen */
    uint64_t withdrawn;          /* number of the latest that has failed */
    struct symc_pair_list waiting, offered;
    struct symc_pair *sending;
    uint64_t base;  /* of its chunks */
    int area;       /* of the pool, -1: none */
    uint64_t end;   /* of the chunks in it: free when they have been read */
    bool postpones; /* what is offered may be postponed */
    bool staged;    /* it may use this rank's staging */

    /* Messages from it. */
    const struct symc_pair_ring *inbound; /* NULL: none yet */
    uint64_t received;                    /* number of the latest */
    uint64_t answered;                    /* answers given */
    struct symc_pair_message *kept, **kept_tail;
    size_t kept_count;
    struct symc_pair_list answering;
    struct symc_pair *receiving;
};

#define SYMC_PAIR_AT_ONCE 4 /* chunks of one transfer */

/* ---- message_memory.c ---- */

/* The answers of a peer, and its ring to this rank, where they are there by
 * now. */
const struct symc_pair_answer *symc_pair_find_answers(
    struct symc_pairs *pairs, int rank);
const struct symc_pair_ring *symc_pair_find_ring(
    struct symc_pairs *pairs, int rank);

/* Whether any rank has a ring to this one. */
bool symc_pair_is_sent_to(struct symc_pairs *pairs);

/* A chunk in a peer's pool; NULL where there is none. */
const char *symc_pair_find_chunk(
    struct symc_pairs *pairs, int rank, uint64_t area, uint64_t chunk);

/* ---- message_list.c ---- */

void symc_pair_append(struct symc_pair_list *list, struct symc_pair *pair);
void symc_pair_remove(struct symc_pair_list *list, struct symc_pair *pair);

/* Among all that wait. */
void symc_pair_enlist(struct symc_pairs *pairs, struct symc_pair *pair);

/* It is in no list of its state any more, and has ended. */
void symc_pair_finish(
    struct symc_pairs *pairs, struct symc_pair *pair, symmcoll_status_t status);

/* Take it out of all lists, without ending it. */
void symc_pair_withdraw(struct symc_pairs *pairs, struct symc_pair *pair);

/* Both sides differ: MISMATCH, with what both have. */
symmcoll_status_t symc_pair_differ(const struct symc_pair *pair, int other,
    uint64_t count, uint64_t dtype, uint64_t memory);

/* INTERNAL: the slot of a sender's message says that its data is where it cannot
 * be. */
symmcoll_status_t symc_pair_garbled(
    const struct symc_pair *pair, int sender, unsigned int form);

#define SYMC_PAIR_FOUND 160 /* room for any symc_pair_describe_kept() */

/* The messages that a receive would have matched with another tag: "messages
 * with tags 3, 5 from rank 0 came, none with tag 7"; "" where there are
 * none, or it does not wait for a message. */
void symc_pair_describe_kept(const struct symc_pairs *pairs,
    const struct symc_pair *pair, char *buffer, size_t nbytes);

/* Wake a peer that may wait for this. */
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

/* A type and a kind of memory in one word. */
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

/* Bytes of a chunk of a transfer. */
static inline size_t symc_pair_chunk_nbytes(
    const struct symc_pair *pair, uint64_t chunk)
{
    size_t left = symc_pair_nbytes(pair) - (size_t)chunk * SYMC_PAIR_CHUNK;

    return left < SYMC_PAIR_CHUNK ? left : SYMC_PAIR_CHUNK;
}

/* Copy what is in the first line of a slot. */
static inline void symc_pair_copy_first(
    void *to, const void *from, size_t nbytes)
{
    const size_t word = sizeof(uint64_t);

    if (nbytes < word) {
        if (nbytes > 0)
            memcpy(to, from, nbytes);
        return;
    }
    /* Words may overlap: constant sizes are single instructions. */
    memcpy(to, from, sizeof(uint64_t));
    if (nbytes > 2 * word)
        memcpy((char *)to + word, (const char *)from + word, sizeof(uint64_t));
    memcpy((char *)to + nbytes - word, (const char *)from + nbytes - word,
        sizeof(uint64_t));
}

/* ---- message_device.c: of device memory ---- */

/* The receiver has read so many chunks: have those copied for which there is room, and
 * publish what has been. */
void symc_pair_write_copied(
    struct symc_pairs *pairs, struct symc_pair_peer *peer, uint64_t read);
/* The receiver has given another answer: end it, if it has read all; else nothing more
 * is copied.  Whether its area is free. */
bool symc_pair_leave_copied(
    struct symc_pairs *pairs, struct symc_pair_peer *peer);
/* The sender has written so many, in an area: the same the other way. */
void symc_pair_read_copied(struct symc_pairs *pairs, struct symc_pair *pair,
    uint64_t written, uint64_t area);

/* The receiver has taken a message out of turn for which the stream was not so far; and
 * such messages have become ready. */
void symc_pair_postpone(
    struct symc_pair_peer *peer, struct symc_pair *pair, uint64_t answers);
void symc_pair_resume(
    struct symc_pairs *pairs, struct symc_pair_peer *peer, int rank);

/* The first receive that is to be answered: those whose stream is not so far, here or at
 * the sender, let others pass.  NULL: none is. */
struct symc_pair *symc_pair_find_ready(const struct symc_pair_peer *peer);
/* Whether the sender has postponed what is received: then it is to be answered again. */
bool symc_pair_take_back(struct symc_pair_peer *peer);

/* At the end: this rank uses no other's staging; whether none uses its own, for which it waits
 * a moment. */
bool symc_pair_leave_staging(struct symc_pairs *pairs);

/* Whether it can be ended with an error: nothing copies to or from its buffer any more,
 * or that has not ended for long; and, of the latter, a word in the log. */
bool symc_pair_is_still(struct symc_pair *pair, int64_t now);
void symc_pair_tell_running(const struct symc_pair *pair);
/* Whether a call of the driver has failed for it. */
bool symc_pair_copy_failed(const struct symc_pair *pair);
/* Why it ends, where that is not another rank's: of the driver, or that its own stream
 * was not so far in time; OK: neither. */
symmcoll_status_t symc_pair_explain(const struct symc_pair *pair);

/* ---- message_send.c ---- */

void symc_pair_send(struct symc_pairs *pairs, struct symc_pair *pair);
void symc_pair_advance_sends(struct symc_pairs *pairs, int rank);

/* ---- message_recv.c ---- */

void symc_pair_recv(struct symc_pairs *pairs, struct symc_pair *pair);

void symc_pair_advance_receives(struct symc_pairs *pairs, int rank);

#endif
