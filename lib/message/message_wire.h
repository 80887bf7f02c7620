/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory that ranks share for sends and receives: written by its owner alone, read
 * by its peers.
 *
 * Each rank has an area in its arena, made at its first send or receive, with an answer
 * line for each rank of the world; and a ring for each rank that it sends to, made at
 * the first message.  All groups use the same rings: a message carries the key of its
 * group.  A group thus costs nothing before it is used, and a thousand groups of the
 * same ranks cost no more than one.
 *
 * Bytes and crossings, when both ranks poll:
 *
 *   to 24 B       one line, with the number last: one crossing
 *   to 88 B       two lines of a pair that is fetched together, one number
 *   to 8 KiB      a line, and the data in one of the ring's blocks: one
 *                 crossing, each byte is copied twice
 *   larger        a line; the receiver's answer when the receive is there; then
 *                 chunks through one of the sender's pool of staging areas: two
 *                 crossings more, each byte is copied twice, overlapped
 *   of a device   as a larger one, of whatever size, with chunks in areas of the
 *                 sender's staging on the device, which its slot names
 *
 * A message that fits a line or a block has left the sender's buffer when send returns:
 * a small blocking call is in no list, see symc_pairs_send_small().  Data in blocks
 * stays there until it is received, in any order, so a message that is never received
 * does not delay others.  A message for which no block is free is sent like a larger
 * one.
 *
 * INVARIANT: slot s % SLOTS is written again only after the receiver has taken message
 * s.  INVARIANT: one answer is in flight for each pair; the next one is written after
 * the sender has seen it.
 */
#ifndef SYMC_MESSAGE_MESSAGE_WIRE_H
#define SYMC_MESSAGE_MESSAGE_WIRE_H

#include "message/message.h"
#include "segment/block.h"

#define SYMC_PAIR_SLOTS 64
#define SYMC_PAIR_FIRST 24 /* bytes of data in a slot's first line */
#define SYMC_PAIR_MORE 64  /* and in its second one */
#define SYMC_PAIR_INLINE ((size_t)SYMC_PAIR_FIRST + SYMC_PAIR_MORE)
#define SYMC_PAIR_BLOCKS 8
#define SYMC_PAIR_BLOCK SYMC_PAIR_SMALL
#define SYMC_PAIR_CHUNKS SYMC_COPIES /* of a staging area */
#define SYMC_PAIR_AREAS \
    SYMC_COPIER_AREAS /* of a rank's pool, and of a device's staging */
#define SYMC_PAIR_POOL (SYMC_PAIR_AREAS * SYMC_PAIR_CHUNKS * SYMC_PAIR_CHUNK)

/* The place of a message's data. */
enum symc_pair_form {
    SYMC_PAIR_IN_SLOT,
    SYMC_PAIR_IN_BLOCK,
    SYMC_PAIR_WITH_SENDER
};

struct symc_pair_slot {
    _Alignas(SYMC_FALSE_SHARING) uint64_t count; /* elements */
    int64_t tag;
    uint64_t key; /* of the group */
    uint8_t dtype;
    uint8_t form;  /* enum symc_pair_form */
    uint8_t space; /* enum symc_pair_space */
    uint8_t block;
    uint8_t memory; /* enum symc_memory */
    uint8_t unused[3];
    unsigned char first[SYMC_PAIR_FIRST];
    _Atomic uint64_t number; /* of the pair's messages, from 1; stored last */
    unsigned char more[SYMC_PAIR_MORE];
};

/* The ring of a sender for one receiver. */
struct symc_pair_ring {
    struct symc_pair_slot slots[SYMC_PAIR_SLOTS];
    /* Chunks of the current transfer, counted from the answer's number times
     * SYMC_PAIR_TRANSFER. */
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint64_t written;
    _Atomic uint64_t seen; /* answers */
    _Atomic uint64_t area; /* of the pool, that holds the chunks */
    /* The latest answer that requests a message which the sender has not offered. */
    _Atomic uint64_t vain;
    /* The latest answer to a message that the sender's stream has not reached, so that
     * others go first; and how often such a message has become ready. */
    _Atomic uint64_t postponed;
    _Atomic uint64_t resumed;
    _Alignas(SYMC_FALSE_SHARING) unsigned char blocks[SYMC_PAIR_BLOCKS]
                                                     [SYMC_PAIR_BLOCK];
};

#define SYMC_PAIR_REFUSED (UINT64_C(1) << 63) /* beside a message's number */

/* A rank's answers to one peer. */
struct symc_pair_answer {
    /* For the peer's messages: how many have been taken; a bit for each block, inverted
     * when the block is free again.  Written at each message, and read only if the sender
     * knows of no free slot or block, so the line stays in the writer's cache. */
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint64_t taken;
    _Atomic uint64_t returned;
    /* Offset of the ring to that peer in this rank's arena; 0: none yet. */
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint64_t ring;
    /* The rest concerns the peer's messages as well, and is polled by the sender of a
     * large one.  A message that is requested, or refused with the receive's count, type
     * and memory; the number of answers, stored last; the chunks read. */
    _Atomic uint64_t message;
    _Atomic uint64_t count;
    _Atomic uint64_t dtype; /* and memory, see symc_pair_pack_type() */
    _Atomic uint64_t answers;
    _Atomic uint64_t read;
    _Atomic uint64_t left; /* 1: this rank uses the peer's staging no more */
};

struct symc_pair_area {
    _Atomic uint64_t pool; /* offset of this rank's staging areas; 0: none */
    struct symc_pair_answer answers[]; /* by rank of the world */
};

#endif
