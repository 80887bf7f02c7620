/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives of a rank, in all of its groups.  Those that wait are kept in lists,
 * and any thread of the rank that waits for anything advances all of them.  A thread of
 * their own does so if no other thread waits.
 *
 * All of it is under one lock of the rank, which is held briefly: to copy a few chunks at
 * most, and never while waiting for a peer.
 */
#ifndef SYMC_MESSAGE_MESSAGE_H
#define SYMC_MESSAGE_MESSAGE_H

#include "backend/backend.h"
#include "message/copier.h"
#include "segment/segment.h"

#include <pthread.h>

struct symc_pair_peer;
struct symc_pair_message;

/* Spaces of messages: a message is received only in its own space. */
enum symc_pair_space {
    SYMC_PAIR_USER,
    SYMC_PAIR_PERMUTE
};

#define SYMC_PAIR_ANY (-1)

/* The most bytes of a message that leaves its sender before it is received. */
#define SYMC_PAIR_SMALL ((size_t)8 * 1024)

#define SYMC_PAIR_CHUNK \
    ((size_t)32 * 1024) /* bytes; large messages have many */
#define SYMC_PAIR_TRANSFER (UINT64_C(1) << 24) /* more chunks than one has */
#define SYMC_PAIR_LARGEST ((size_t)(SYMC_PAIR_TRANSFER - 1) * SYMC_PAIR_CHUNK)

/* The most messages of one sender that are kept before they are received. */
#define SYMC_PAIR_KEPT 4096

/* The number of hash lists of a rank's groups. */
#define SYMC_PAIR_GROUPS 256

/* The state of a send or receive. */
enum symc_pair_state {
    SYMC_PAIR_WAITING,   /* to be sent: there is no slot */
    SYMC_PAIR_OFFERED,   /* sent without data, until the receiver requests it */
    SYMC_PAIR_SENDING,   /* chunks are being written */
    SYMC_PAIR_POSTED,    /* to be received: nothing matches */
    SYMC_PAIR_ANSWERING, /* matched, to be answered */
    SYMC_PAIR_RECEIVING, /* chunks are being read */
    SYMC_PAIR_ENDED
};

/* A group that this rank is a member of; owned by the caller until it is dropped.
 * INVARIANT: no other group of the world has, had or will have its key. */
struct symc_pair_group {
    uint64_t key;
    struct symc_pair_group *next;
};

/* The fields that match a message, and those that its receive must have as well. */
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
 * One send or receive.  The caller fills in the first part; the lists own it until end()
 * has been called.
 */
struct symc_pair {
    const struct symc_op *op; /* peer is within the group, or SYMC_PAIR_ANY */
    const struct symc_core *core;
    uint64_t key; /* of the group */
    int peer;     /* rank of the world, or SYMC_PAIR_ANY */
    uint8_t space;
    /* For device memory; released at the end.  NULL: host memory. */
    struct symc_copying *copying;
    /* Called once, under the lock or not, by any thread; symmcoll_last_error() has the
     * detail. */
    void (*end)(struct symc_pair *pair, symmcoll_status_t status);

    /* Results. */
    int source; /* rank of the world that a receive has matched */

    /* Used by the lists. */
    struct symc_pair *next, *previous;         /* in the list of its state */
    struct symc_pair *all_next, *all_previous; /* in the list of all waiting */
    uint8_t state;                             /* enum symc_pair_state */
    bool refused;
    bool postponed; /* answered before the sender's stream had reached it */
    uint8_t memory; /* of the other side, if it is refused */
    bool started;   /* end() is to be called */
    symmcoll_status_t status;
    uint64_t number; /* of the message */
    uint64_t count;  /* of the message */
    uint64_t dtype;
    uint64_t chunks;  /* already moved */
    uint64_t resumed; /* as read with the latest answer to it */
    int64_t deadline_ns;
};

struct symc_pair_list {
    struct symc_pair *head, *tail;
};

/* The parts of the world that sends and receives need; borrowed. */
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
    struct symc_pair *all; /* waiting ones */
    struct symc_pair_message *spare;
    struct symc_pair_group *groups[SYMC_PAIR_GROUPS];
    int turn;        /* the latest source; the next one is checked first */
    uint64_t moved;  /* chunks of large messages, in both directions */
    bool noticed;    /* an end that another thread may wait for */
    int64_t look_ns; /* when to check for failures again */

    /* The number of works that have not ended, and of looks by threads. */
    _Atomic uint32_t pending;
    _Atomic uint32_t visits;

    pthread_mutex_t lock; /* protects the following */
    pthread_cond_t changed;
    pthread_t thread;
    bool running, stopping;
    struct symc_copier
        *copier;            /* of messages in device memory; NULL: none yet */
    bool requested;         /* the thread is to look at once */
    _Atomic bool attending; /* the thread looks periodically */
};

/* Opens a rank's sends and receives.  Shared memory, and memory for peers, is allocated
 * only at the first send or receive.  Errors: NO_MEMORY. */
symmcoll_status_t symc_pairs_open(
    const struct symc_pair_setup *setup, struct symc_pairs **pairs);

/* Stops the thread; nothing may wait any more. */
void symc_pairs_stop(struct symc_pairs *pairs);

/* Frees the sends and receives; NULL is allowed.  text (out, SYMC_DETAIL_MAX bytes):
 * what is left in a driver that has not returned in time, else empty; see
 * symc_copier_leave(). */
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

/* Returns whether another thread waits for the lock; for its holder. */
static inline bool symc_pairs_wanted(const struct symc_pairs *pairs)
{
    return atomic_load_explicit(&pairs->next, memory_order_relaxed) !=
           atomic_load_explicit(&pairs->serving, memory_order_relaxed) + 1;
}

/* ---- under the lock ---- */

/* Allocates the memory that a send of nbytes bytes to a peer, or a receive (peer
 * SYMC_PAIR_ANY), needs.  Errors: NO_MEMORY. */
symmcoll_status_t symc_pairs_prepare(
    struct symc_pairs *pairs, int peer, size_t nbytes);

/* Starts a send or receive.  Returns the final status at once, with its detail, and
 * end() is not called; or IN_PROGRESS. */
symmcoll_status_t symc_pairs_start(
    struct symc_pairs *pairs, struct symc_pair *pair);

/* Advances all sends and receives. */
void symc_pairs_advance(struct symc_pairs *pairs);

/*
 * Try a small blocking call without entering it in any list.
 *
 * send  true: the message has left.  false: nothing was done, and the call has to be
 *       started: there is no ring yet, no slot or block is known to be free, or
 *       earlier messages wait for one
 * recv  true: it has been received, at the time `ticks`.  false: nothing was done.
 *       Polls for a moment, unless another thread wants the lock or anything else
 *       of this rank waits
 */
bool symc_pairs_send_small(struct symc_pairs *pairs, int rank,
    const struct symc_pair_envelope *envelope, const void *data, size_t nbytes);
bool symc_pairs_recv_small(
    struct symc_pairs *pairs, struct symc_pair *pair, uint64_t *ticks);

/* A message that was never received. */
struct symc_pair_left {
    int source; /* rank of the world */
    uint64_t count, dtype;
    int64_t tag;
};

/* Messages of a group are kept until they are received.  INVARIANT: all members
 * have called this before one of them sends in the group. */
void symc_pairs_add_group(
    struct symc_pairs *pairs, struct symc_pair_group *group);

/* Undoes symc_pairs_add_group(); no member may have sent in the group. */
void symc_pairs_remove_group(
    struct symc_pairs *pairs, const struct symc_pair_group *group);

/* Drops a group that this rank releases: its messages that were not received, and those
 * that arrive later.  Returns how many there were, and describes the first (out). */
size_t symc_pairs_drop_group(struct symc_pairs *pairs,
    struct symc_pair_group *group, struct symc_pair_left *first);

/* ---- without the lock ---- */

/* Advances all sends and receives, and ends those that have failed or timed out.
 * Returns the next deadline. */
int64_t symc_pairs_look(struct symc_pairs *pairs);

/* Blocks until a word that end() writes is not 0; returns false at the deadline. */
bool symc_pairs_await(
    struct symc_pairs *pairs, const _Atomic uint64_t *word, int64_t until_ns);

/* Advances all sends and receives once, without waiting. */
void symc_pairs_glance(struct symc_pairs *pairs);

/* Advances all sends and receives, for a thread that waits for something else, now and
 * then.  sleeps: the thread will not look again soon. */
void symc_pairs_pass(struct symc_pairs *pairs, bool sleeps);

/* Starts the thread, if it is not running, because there will be works.  Errors:
 * SYSTEM. */
symmcoll_status_t symc_pairs_attend(struct symc_pairs *pairs);

/* Returns the copier of messages in device memory (out); the first call opens it.
 * Errors: NO_MEMORY, SYSTEM. */
symmcoll_status_t symc_pairs_open_copier(
    struct symc_pairs *pairs, struct symc_copier **copier);

/* Add or remove a work that waits. */
void symc_pairs_add_work(struct symc_pairs *pairs);
void symc_pairs_remove_work(struct symc_pairs *pairs);

/* Makes the thread look at once, because no other thread waits for them. */
void symc_pairs_wake(struct symc_pairs *pairs);

#endif
