/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives of a rank, in all of its groups: what waits is kept in
 * lists, and any thread of the rank that waits for anything moves all of it
 * forward.  A thread of its own does where no other one waits.
 *
 * All of it is under one lock of the rank, which is held for moments: to copy a
 * few chunks at most, and never while a peer is waited for.
 */
#ifndef SYMC_MESSAGE_MESSAGE_H
#define SYMC_MESSAGE_MESSAGE_H

#include "backend/backend.h"
#include "message/copier.h"
#include "segment/segment.h"

#include <pthread.h>

struct symc_pair_peer;
struct symc_pair_message;

/* Messages of one space are not received in another. */
enum symc_pair_space {
    SYMC_PAIR_USER,
    SYMC_PAIR_PERMUTE
};

#define SYMC_PAIR_ANY (-1)

/* Bytes of a message that leaves its sender before it is received. */
#define SYMC_PAIR_SMALL ((size_t)8 * 1024)

#define SYMC_PAIR_CHUNK \
    ((size_t)32 * 1024) /* bytes; large messages have many */
#define SYMC_PAIR_TRANSFER (UINT64_C(1) << 24) /* more chunks than one has */
#define SYMC_PAIR_LARGEST ((size_t)(SYMC_PAIR_TRANSFER - 1) * SYMC_PAIR_CHUNK)

/* Messages of one sender that are kept before they are received. */
#define SYMC_PAIR_KEPT 4096

/* Lists that the groups of a rank are divided into, by their keys. */
#define SYMC_PAIR_GROUPS 256

/* Where a send or receive is. */
enum symc_pair_state {
    SYMC_PAIR_WAITING, /* to be sent: there is no slot */
    SYMC_PAIR_OFFERED, /* sent without data, which the receiver is to request */
    SYMC_PAIR_SENDING, /* chunks are being written */
    SYMC_PAIR_POSTED,  /* to be received: nothing matches */
    SYMC_PAIR_ANSWERING, /* matched, to be answered */
    SYMC_PAIR_RECEIVING, /* chunks are being read */
    SYMC_PAIR_ENDED
};

/* A group that this rank is a member of; the caller's, until it is dropped.
 * INVARIANT: no other group of the world has, had or will have its key. */
struct symc_pair_group {
    uint64_t key;
    struct symc_pair_group *next;
};

/* What a message is matched by, and what its receive is to have as well. */
struct symc_pair_envelope {
    uint64_t key; /* of the group */
    int64_t tag;
    uint64_t count; /* elements */
    uint8_t dtype;
    uint8_t space;                        /* enum symc_pair_space */
    uint8_t memory;                       /* enum symc_memory */
    const struct symc_chunk_place *place; /* of device memory; NULL: none */
};

/*
 * One send or receive.  The caller fills in the first part; it belongs to the
 * lists until end() has been called.
 */
struct symc_pair {
    const struct symc_op *op; /* peer is within the group, or SYMC_PAIR_ANY */
    const struct symc_core *core;
    uint64_t key; /* of the group */
    int peer;     /* rank of the world, or SYMC_PAIR_ANY */
    uint8_t space;
    /* Of device memory; released when it has ended.  NULL: of the host's. */
    struct symc_copying *copying;
    /* Called once, under the lock or not, by any thread; symmcoll_last_error()
     * is the detail. */
    void (*end)(struct symc_pair *pair, symmcoll_status_t status);

    /* What is known afterwards. */
    int source; /* rank of the world that a receive has matched */

    /* The lists' own. */
    struct symc_pair *next, *previous;         /* of its state */
    struct symc_pair *all_next, *all_previous; /* of all that wait */
    uint8_t state;                             /* enum symc_pair_state */
    bool refused;
    bool postponed; /* answered, while the sender's stream was not so far */
    uint8_t memory; /* of the other side, where it is refused */
    bool started;   /* end() is to be called */
    symmcoll_status_t status;
    uint64_t number; /* of the message */
    uint64_t count;  /* likewise */
    uint64_t dtype;
    uint64_t chunks;  /* moved so far */
    uint64_t resumed; /* as read with the latest answer to it */
    int64_t deadline_ns;
};

struct symc_pair_list {
    struct symc_pair *head, *tail;
};

/* What it needs of its world; borrowed. */
struct symc_pair_setup {
    int rank;
    int size;
    const struct symc_peer *peers;
    struct symc_segments *segments;
    struct symc_block *block; /* this rank's */
    struct symc_waiting *waiting;
    size_t stream_min;
};

struct symc_pairs {
    struct symc_pair_setup setup;
    struct symc_doorbell *doorbell; /* this rank's */

    /* The lock. */
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint64_t next;
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint64_t serving;

    /* Under it. */
    _Alignas(
        SYMC_FALSE_SHARING) struct symc_pair_peer *peers; /* NULL: unused */
    struct symc_pair_area *_Atomic area;
    char *pool;
    uint32_t areas; /* bits of those in use */
    struct symc_pair_list posted;
    struct symc_pair *all; /* that wait */
    struct symc_pair_message *spare;
    struct symc_pair_group *groups[SYMC_PAIR_GROUPS];
    int turn;        /* source that is asked first */
    uint64_t moved;  /* chunks of large messages, both ways */
    bool noticed;    /* something has ended that another thread may wait for */
    int64_t look_ns; /* when failures are looked at again */

    /* Of works: not ended, and how often a thread has looked. */
    _Atomic uint32_t pending;
    _Atomic uint32_t visits;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    pthread_t thread;
    bool running, stopping;
    struct symc_copier
        *copier;            /* of messages in device memory; NULL: none yet */
    bool asked;             /* to look at once */
    _Atomic bool attending; /* the thread looks now and then */
};

/* No memory is shared, and none is taken for peers, before the first send or
 * receive.  Errors: NO_MEMORY. */
symmcoll_status_t symc_pairs_open(
    const struct symc_pair_setup *setup, struct symc_pairs **pairs);

/* Stop the thread; nothing waits any more. */
void symc_pairs_stop(struct symc_pairs *pairs);

/* Release it; NULL is fine.  text (out, SYMC_DETAIL_MAX bytes): what is left in a driver that
 * has not returned in that time; else empty. */
void symc_pairs_close(struct symc_pairs *pairs, int64_t timeout_ns, char *text);

/* ---- the lock ---- */

void symc_pairs_wait_turn(struct symc_pairs *pairs, uint64_t ticket);

static inline void symc_pairs_enter(struct symc_pairs *pairs)
{
    uint64_t ticket =
        atomic_fetch_add_explicit(&pairs->next, 1, memory_order_acquire);

    if (__builtin_expect(atomic_load_explicit(
                             &pairs->serving, memory_order_acquire) != ticket,
            0))
        symc_pairs_wait_turn(pairs, ticket);
}

static inline void symc_pairs_leave(struct symc_pairs *pairs)
{
    uint64_t ticket =
        atomic_load_explicit(&pairs->serving, memory_order_relaxed);

    atomic_store_explicit(&pairs->serving, ticket + 1, memory_order_release);
}

/* Whether another thread waits for the lock, for who has it. */
static inline bool symc_pairs_wanted(const struct symc_pairs *pairs)
{
    return atomic_load_explicit(&pairs->next, memory_order_relaxed) !=
           atomic_load_explicit(&pairs->serving, memory_order_relaxed) + 1;
}

/* ---- under the lock ---- */

/* Make what a send of so many bytes, or a receive (peer SYMC_PAIR_ANY), needs of
 * memory.  Errors: NO_MEMORY. */
symmcoll_status_t symc_pairs_prepare(
    struct symc_pairs *pairs, int peer, size_t nbytes);

/* Start: the final status at once, with its detail, and end() is not called; or
 * IN_PROGRESS. */
symmcoll_status_t symc_pairs_start(
    struct symc_pairs *pairs, struct symc_pair *pair);

/* Move what can be moved. */
void symc_pairs_advance(struct symc_pairs *pairs);

/*
 * A small blocking call, without a place in any list.
 *
 * send  the message has left; false: nothing has happened, and the call is to be
 *       started: there is no ring yet, no slot or block is known to be free, or
 *       earlier messages wait for one
 * recv  it has been received, at the time `ticks`; false: nothing has happened.
 *       Polls for a moment, as long as nobody else wants the lock and nothing
 *       else of this rank waits for anything
 */
bool symc_pairs_send_small(struct symc_pairs *pairs, int rank,
    const struct symc_pair_envelope *envelope, const void *data, size_t nbytes);
bool symc_pairs_recv_small(
    struct symc_pairs *pairs, struct symc_pair *pair, uint64_t *ticks);

/* A message that nobody has received. */
struct symc_pair_left {
    int source; /* rank of the world */
    uint64_t count, dtype;
    int64_t tag;
};

/* Messages of a group are kept until they are received.  INVARIANT: all members
 * have called this before one of them sends in the group. */
void symc_pairs_add_group(
    struct symc_pairs *pairs, struct symc_pair_group *group);

/* Undo that, where no member sends in the group. */
void symc_pairs_remove_group(
    struct symc_pairs *pairs, const struct symc_pair_group *group);

/* This rank releases a group: drop the messages of it that nobody has received,
 * and those that come later.  How many there were, and what the first was. */
size_t symc_pairs_drop_group(struct symc_pairs *pairs,
    struct symc_pair_group *group, struct symc_pair_left *first);

/* ---- without it ---- */

/* Move what can be moved, end what has failed or is too late.  Returns the next
 * deadline. */
int64_t symc_pairs_look(struct symc_pairs *pairs);

/* Wait until a word that end() writes is not 0; false when the time has
 * passed. */
bool symc_pairs_await(
    struct symc_pairs *pairs, const _Atomic uint64_t *word, int64_t until_ns);

/* Look once, without waiting. */
void symc_pairs_glance(struct symc_pairs *pairs);

/* For a thread that waits for something else, now and then: move what can be
 * moved.  sleeps: it will not look again soon. */
void symc_pairs_pass(struct symc_pairs *pairs, bool sleeps);

/* There will be works: start the thread, if need be.  Errors: SYSTEM. */
symmcoll_status_t symc_pairs_attend(struct symc_pairs *pairs);

/* What copies messages in device memory (out), made by the first call.
 * Errors: NO_MEMORY, SYSTEM. */
symmcoll_status_t symc_pairs_open_copier(
    struct symc_pairs *pairs, struct symc_copier **copier);

/* One work more waits, one less. */
void symc_pairs_add_work(struct symc_pairs *pairs);
void symc_pairs_remove_work(struct symc_pairs *pairs);

/* Nobody will wait for them: have the thread look at once. */
void symc_pairs_ask(struct symc_pairs *pairs);

#endif
