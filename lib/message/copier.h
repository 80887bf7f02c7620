/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages in device memory.  Calls of a driver last, and a copy on a device ends when
 * it will, so none is made under the lock of sends and receives: these say how many
 * chunks of a message may be copied, a thread of the rank's copies them and says how
 * many there are, and has them look at that.
 */
#ifndef SYMC_MESSAGE_COPIER_H
#define SYMC_MESSAGE_COPIER_H

#include "backend/backend.h"

#include <stdatomic.h>

#define SYMC_COPIES 4 /* of one message at once: chunks of an area */
#define SYMC_COPIER_AREAS 8

struct symc_copier;
struct symc_copier_device;

/* What is known to the receiver of where chunks are; in the message's slot. */
struct symc_chunk_place {
    struct symc_staging staging;
    uint64_t chunk; /* bytes of each, but for the last */
};

/* The smallest and the largest. */
#define SYMC_CHUNK_LEAST ((uint64_t)4096)
#define SYMC_CHUNK_MOST (UINT64_C(1) << 30)

/* Copying one message. */
struct symc_copying {
    struct symc_copying *next; /* of the copier's */
    struct symc_copier *copier;
    struct symc_copier_device *device;
    bool sends;
    char *at; /* the caller's */
    size_t nbytes;

    /* Known before a chunk is granted; area: of the staging. */
    struct symc_chunk_place place;
    bool threads; /* the staging is this process's */
    uint64_t area;

    _Atomic uint64_t granted; /* chunks that may be copied */
    _Atomic uint64_t copied;  /* chunks that are */
    _Atomic bool stopping;    /* no more are to be begun */
    _Atomic bool released;    /* nobody asks any more */
    _Atomic bool idle;        /* it has stopped, and none is under way */
    _Atomic bool waits;       /* the caller's stream is not so far yet */
    _Atomic bool failed;
    symmcoll_status_t status; /* why */
    char detail[SYMC_DETAIL_MAX];

    int64_t
        stop_ns; /* when asked to stop; 0: not yet.  Of sends and receives */

    /* The thread's. */
    void *mark;    /* of the caller's stream; NULL: it has been reached */
    char *staging; /* where the chunks are here; NULL: not known yet */
    uint64_t begun;
    void *marks[SYMC_COPIES];
};

/* Open what copies on a device (out), of the request that copying is for. */
struct symc_copier_opener {
    symmcoll_status_t (*open)(void *arg,
        const struct symc_memory_request *request,
        const struct symc_transfer_ops **ops, void **transfer);
    void *arg;
};

/* One (out), of a rank.  moved() is called by its thread where chunks have been copied or
 * may be now; settled: one has failed, or has stopped.  Errors: NO_MEMORY, SYSTEM (no thread). */
symmcoll_status_t symc_copier_open(struct symc_waiting *waiting,
    void (*moved)(void *arg, bool settled), void *arg,
    struct symc_copier **copier);
/* Nothing is granted any more: staging of others is left; false where a device uses some
 * still, or the driver has not returned to the thread after that time, which text (out,
 * SYMC_DETAIL_MAX bytes; else empty) says: then all that is the copier's remains, and the thread
 * uses nothing else when it comes back.  NULL: true. */
bool symc_copier_leave(
    struct symc_copier *copier, int64_t timeout_ns, char *text);
/* Where that is true release it; keep: others may use its staging still. */
void symc_copier_close(struct symc_copier *copier, bool keep);

/*
 * A message of an operation that begins (out), ordered after what its stream has now.
 * chunk: bytes, of one that is sent.
 * Errors: those of struct symc_transfer_ops, and of the opener.
 */
symmcoll_status_t symc_copier_begin(struct symc_copier *copier,
    const struct symc_memory_request *request,
    const struct symc_copier_opener *opener, const struct symc_op *op,
    size_t chunk, struct symc_copying **copying);

/* ---- of one message; without waiting ---- */

/* As many chunks may be copied, counted from the first one, in an area of the staging, which
 * stays the same. */
void symc_copying_grant(
    struct symc_copying *copying, uint64_t chunks, uint64_t area);

/* Begin no more; whether none is under way. */
bool symc_copying_stop(struct symc_copying *copying);

/* It has ended, or is given up; NULL is fine. */
void symc_copying_release(struct symc_copying *copying);

/* Whether that can be what a sender has written. */
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
