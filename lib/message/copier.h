/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages in device memory.  Calls of a driver may take long, and copies on a device
 * end at any time, so no driver call is made under the lock of sends and receives.
 * Sends and receives grant chunks of a message to be copied; a thread of the rank, the
 * copier, copies them, publishes how many are copied, and makes sends and receives look
 * at that.
 */
#ifndef SYMC_MESSAGE_COPIER_H
#define SYMC_MESSAGE_COPIER_H

#include "backend/backend.h"

#include <stdatomic.h>

#define SYMC_COPIES 4 /* of one message at once: the chunks of an area */
#define SYMC_COPIER_AREAS 8

struct symc_copier;
struct symc_copier_device;

/* The place of a message's chunks, which the receiver reads from the message's slot. */
struct symc_chunk_place {
    struct symc_staging staging;
    uint64_t chunk; /* bytes of each chunk but the last */
};

/* The smallest and the largest chunk. */
#define SYMC_CHUNK_LEAST ((uint64_t)4096)
#define SYMC_CHUNK_MOST (UINT64_C(1) << 30)

/* The copying of one message. */
struct symc_copying {
    struct symc_copying *next; /* in a list of the copier */
    struct symc_copier *copier;
    struct symc_copier_device *device;
    bool sends;
    char *at; /* the caller's buffer */
    size_t nbytes;

    /* Set before a chunk is granted; area: of the staging. */
    struct symc_chunk_place place;
    bool threads; /* the staging belongs to this process */
    uint64_t area;

    _Atomic uint64_t granted; /* chunks that may be copied */
    _Atomic uint64_t copied;  /* chunks that have been copied */
    _Atomic bool stopping;    /* no more copies are to begin */
    _Atomic bool released;    /* sends and receives do not use it any more */
    _Atomic bool idle;        /* it has stopped, and no copy is in flight */
    _Atomic bool waits;       /* the caller's stream has not reached it */
    _Atomic bool failed;
    struct symc_error error; /* set if it has failed */

    int64_t
        stop_ns; /* when stopped first; 0: not yet.  For sends and receives */

    /* Used by the copier's thread only. */
    void *mark;    /* on the caller's stream; NULL: it has been reached */
    char *staging; /* address of the chunks; NULL: not known yet */
    uint64_t begun;
    void *marks[SYMC_COPIES];
};

/* A function that opens the transfer operations of a device (out) for a request. */
struct symc_copier_opener {
    symmcoll_status_t (*open)(void *arg,
        const struct symc_memory_request *request,
        const struct symc_transfer_ops **ops, void **transfer);
    void *arg;
};

/* Opens a rank's copier (out).  Its thread calls moved() when chunks have been copied or
 * can be; settled: a message has failed, or has stopped.  Errors: NO_MEMORY, SYSTEM (no
 * thread). */
symmcoll_status_t symc_copier_open(struct symc_waiting *waiting,
    void (*moved)(void *arg, bool settled), void *arg,
    struct symc_copier **copier);
/* Ends the thread and leaves the staging of other ranks; nothing may be granted any
 * more.  Returns false if a device still uses staging, or if the driver has not returned
 * to the thread within timeout_ns and two seconds; text (out, SYMC_DETAIL_MAX bytes)
 * says so, else it is empty.  The copier is kept for ever then, and the thread uses
 * nothing else when it returns.  NULL: returns true. */
bool symc_copier_leave(
    struct symc_copier *copier, int64_t timeout_ns, char *text);
/* Frees the copier after symc_copier_leave() returned true.  keep: do not free its
 * staging, which other ranks may still use. */
void symc_copier_close(struct symc_copier *copier, bool keep);

/*
 * Begins the copying (out) of an operation's message, after the work that is on its
 * stream now.  chunk: bytes, for a send.
 * Errors: NO_MEMORY, those of struct symc_transfer_ops, and of the opener.
 */
symmcoll_status_t symc_copier_begin(struct symc_copier *copier,
    const struct symc_memory_request *request,
    const struct symc_copier_opener *opener, const struct symc_op *op,
    size_t chunk, struct symc_copying **copying);

/* ---- for one message; these never wait ---- */

/* Grants that chunks [0, chunks) are copied, in an area of the staging, which does not
 * change. */
void symc_copying_grant(
    struct symc_copying *copying, uint64_t chunks, uint64_t area);

/* Lets no more copies begin; returns whether none is in flight. */
bool symc_copying_stop(struct symc_copying *copying);

/* Releases the copying of a message that has ended or is given up; NULL is allowed. */
void symc_copying_release(struct symc_copying *copying);

/* Returns whether a place may have been written by a sender. */
static inline bool symc_chunk_place_is_valid(
    const struct symc_chunk_place *place)
{
    return place->chunk >= SYMC_CHUNK_LEAST && place->chunk <= SYMC_CHUNK_MOST;
}

static inline uint64_t symc_copying_copied(const struct symc_copying *copying)
{
    return atomic_load_explicit(&copying->copied, memory_order_acquire);
}

#endif
