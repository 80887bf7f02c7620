/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host backend's state, and what its algorithms share.  Private to this
 * directory.
 */
#ifndef SYMC_HOST_HOST_H
#define SYMC_HOST_HOST_H

#include "backend/backend.h"
#include "base/moving.h"
#include "host/select.h"
#include "host/wire.h"

/* An operation that has been issued and has not ended. */
struct symc_issued {
    const struct symc_resumable *parts;
    _Atomic bool suspect; /* a peer had failed a group when it was issued, or it
                             has been given up */
};

/* A part of an operation: of this rank's input for another rank, and of that
 * rank's for this one. */
struct symc_host_part {
    const char *in;
    char *out;
    size_t in_count; /* elements */
    size_t out_count;
};

struct symc_host {
    const struct symc_core *core;
    struct symc_host_settings settings;
    int rank;
    int size;
    bool threads;
    bool reserved; /* staging is backed by memory on all ranks */
    bool checked;  /* everybody's geometry is the same */
    struct symc_channel **channels;
    char **staging;
    struct symc_doorbell **doorbells;
    const void **sources; /* for reductions: one for each rank */
    double *factors;
    bool captured; /* by a member; of the latest one of other memory */
    struct symc_placement placement; /* the same one's */
    uint64_t placed; /* the operation of which that is known; 0: none */
    bool alike;      /* it is the same on all members */
    /* Elements of the largest part: of the latest operation of other memory in which
     * each pair of ranks has a count of its own. */
    uint64_t largest;
    bool *missing;
    struct symc_host_part *parts; /* of the operation under way, by rank */
    /* Of that operation, by rank: the buffers that this rank uses where they
     * lie, or of one with a part for each rank, this rank's; NULL: it is not
     * exposed. */
    struct symc_exposed *exposed;
    char *scratch;      /* of `small` bytes: small results of several buffers */
    size_t small;       /* bytes of one small area */
    size_t chunk;       /* bytes of one staging slot */
    uint64_t monitored; /* monitored barriers, so far */
    uint64_t rounds;    /* of staged algorithms, so far */
    struct symc_issued issued[SYMC_LINES]; /* by sequence number */
    uint64_t finished;              /* operations up to this one have ended */
    uint64_t peers_done;            /* all peers have finished reading it */
    struct symc_wait_budget budget; /* of the operation under way */
    /* The same may be ended by advance(); NULL: it may not, as the algorithm may
     * find before it waits. */
    const struct symc_resumable *resumable;
};

/* An operation has ended, and with it the reading of the peers' lines. */
static inline void symc_host_finish(
    struct symc_host *host, const struct symc_op *op)
{
    host->finished = op->wire;
    atomic_store_explicit(
        &host->channels[host->rank]->done, op->wire, memory_order_release);
}

/* ---- header.c: header lines, waiting ---- */

/* A rank's header line of an operation. */
static inline const struct symc_header *symc_host_header(
    const struct symc_host *host, int rank, const struct symc_op *op)
{
    return symc_header_at(host->channels[rank], op->wire);
}

/* Whether a payload of an operation fits its header line. */
static inline bool symc_host_fits_line(const struct symc_op *op, size_t nbytes)
{
    return nbytes <=
           (op->op == SYMMCOLL_PREMUL_SUM ? SYMC_FACTOR_AT : SYMC_PAYLOAD);
}

/* A rank's area for an operation, for what does not fit. */
static inline void *symc_host_beside(
    const struct symc_host *host, int rank, const struct symc_op *op)
{
    return host->channels[rank]->small + op->wire % SYMC_AREAS * host->small;
}

/* Whether the line (depth SYMC_LINES) or the area (SYMC_AREAS) of an operation
 * may be written: all peers have finished reading what was there. */
bool symc_host_has_room(
    struct symc_host *host, const struct symc_op *op, uint64_t depth);

/* Wait for that. */
symmcoll_status_t symc_host_await_room(
    struct symc_host *host, const struct symc_op *op, uint64_t depth);

/* The first half of symc_host_synchronise(), where there is room: publish.
 * True where a peer has failed a group: then this one may have failed too. */
bool symc_host_publish(struct symc_host *host, const struct symc_op *op,
    const void *payload, size_t nbytes);

/* The second half: wait for everybody's header, and compare. */
symmcoll_status_t symc_host_collect(
    struct symc_host *host, const struct symc_op *op);

/*
 * Publish this rank's header with a payload that fits it (a larger one is
 * beside it already, nbytes is 0), and wait for everybody's.
 *
 * OK: all ranks passed the same.  Else no buffer may be touched; see the
 * statuses of collectives.h.
 */
symmcoll_status_t symc_host_synchronise(struct symc_host *host,
    const struct symc_op *op, const void *payload, size_t nbytes);

/* Wait until a counter of a peer's channel has reached target. */
symmcoll_status_t symc_host_wait(struct symc_host *host,
    const struct symc_op *op, int peer, size_t counter, uint64_t target);

/* The same, for all peers. */
symmcoll_status_t symc_host_wait_all(struct symc_host *host,
    const struct symc_op *op, size_t counter, uint64_t target);

/* Store the ranks that an operation waits for, `peer` among them, in
 * host->missing. */
void symc_host_list_missing(
    struct symc_host *host, const struct symc_op *op, int peer);

/* Wake the peers who sleep; after a word has been written. */
void symc_host_wake_peers(const struct symc_host *host);

/* Advance an own counter, and wake the peers that sleep. */
void symc_host_post(
    struct symc_host *host, _Atomic uint64_t *counter, uint64_t value);

/* The reduction of an operation; factors are read from everybody's headers. */
struct symc_reduction symc_host_reduction(
    struct symc_host *host, const struct symc_op *op);

/* The lines of an operation whose data are not here are: another backend may want
 * the factors, and whether a member captures it. */
void symc_host_keep_told(struct symc_host *host, const struct symc_op *op);

/* ---- differ.c ---- */

/* Header lines differ.  MISMATCH, with who passed what; OK where the kind allows
 * the difference. */
symmcoll_status_t symc_host_disagree(
    struct symc_host *host, const struct symc_op *op);

/* A rank has no staging: NO_MEMORY, with who and why. */
symmcoll_status_t symc_host_fail_reserve(
    struct symc_host *host, const struct symc_op *op, int rank);

/* Ranks that divide their blocks differently cannot work together. */
symmcoll_status_t symc_host_check_geometry(struct symc_host *host);

/* The counts of parts differ: rank `from` passes so many for `to`, which expects
 * other ones. */
symmcoll_status_t symc_host_fail_counts(struct symc_host *host,
    const struct symc_op *op, int from, int to, uint64_t passed,
    uint64_t expected);

/* ---- parts.c ---- */

/* Fill host->parts for an operation whose input or result has all parts. */
void symc_host_find_parts(struct symc_host *host, const struct symc_op *op);

/* Bytes of all ranks' inputs and results together, where each result is apart
 * from its rank's input or, in_place, the same memory. */
size_t symc_host_footprint(
    const struct symc_host *host, const struct symc_op *op, bool in_place);

/* ---- counts.c: what is compared of an uneven operation ---- */

/* Bytes that a rank's area has for data, between its counts and the words of
 * lists (exposed.c), which are as many bytes. */
static inline size_t symc_host_room_beside(const struct symc_host *host)
{
    return host->small - 4 * sizeof(uint64_t) * (size_t)host->size;
}

/* Put this rank's counts beside its line, and its data if there is room and the
 * operation is of host memory; waits for room. */
symmcoll_status_t symc_host_put_counts(
    struct symc_host *host, const struct symc_op *op);

/* Once the ranks are synchronised: compare each two ranks' counts. */
symmcoll_status_t symc_host_compare_counts(
    struct symc_host *host, const struct symc_op *op);

/* Elements of a rank's part for another, or, where is_out, of what it expects
 * of that one. */
size_t symc_host_count(const struct symc_host *host, const struct symc_op *op,
    int rank, int other, bool is_out);

/* Then: elements of the largest part of all. */
size_t symc_host_most(struct symc_host *host, const struct symc_op *op);

/* Whether all data is beside the lines, the same on all ranks; and make this
 * rank's result of it. */
bool symc_host_all_beside(struct symc_host *host, const struct symc_op *op);
void symc_host_take_beside(struct symc_host *host, const struct symc_op *op);

/* ---- pipeline.c ---- */

/* One round of a staged algorithm: elements [offset, offset + count) of it. */
struct symc_round {
    uint64_t number; /* over the group's life */
    size_t offset;
    size_t count;
};

/* What this rank does in each round; NULL: nothing. */
struct symc_pipeline {
    size_t total; /* elements to go through */
    size_t step;  /* elements of a round */
    void *context;
    /* Copy this rank's contribution into its slot. */
    void (*stage)(struct symc_host *host, const struct symc_op *op,
        const struct symc_round *round, void *context);
    /* Copy what is its own, once others can see that it has staged. */
    void (*keep)(struct symc_host *host, const struct symc_op *op,
        const struct symc_round *round, void *context);
    /* Sum this rank's part, once everybody has staged. */
    void (*combine)(struct symc_host *host, const struct symc_op *op,
        const struct symc_round *round, void *context);
    /* Copy from a peer, once it has summed (or staged, when `gathers`). */
    void (*collect)(struct symc_host *host, const struct symc_op *op,
        const struct symc_round *round, int peer, void *context);
    int from;     /* collect from this rank alone; -1: from all */
    bool gathers; /* nobody combines */
};

/* Run the rounds, overlapped.  The ranks must be synchronised. */
symmcoll_status_t symc_host_pipeline(struct symc_host *host,
    const struct symc_op *op, const struct symc_pipeline *pipeline);

/* A rank's slots of a round: what it staged, what it summed. */
char *symc_host_staged(
    const struct symc_host *host, int rank, const struct symc_round *round);
char *symc_host_summed(
    const struct symc_host *host, int rank, const struct symc_round *round);

/* Elements of each of the pieces, one for each rank, that a slot is divided
 * into. */
size_t symc_host_piece(const struct symc_host *host, size_t elem);

/* Elements of a part of `count` that are in a round of up to `step`. */
static inline size_t symc_host_piece_of(
    const struct symc_round *round, size_t count, size_t step)
{
    if (count <= round->offset)
        return 0;
    return count - round->offset < step ? count - round->offset : step;
}

/* Part r of size of count elements, on cache lines: [lo, hi). */
void symc_host_part(
    size_t count, size_t elem, int size, int r, size_t *lo, size_t *hi);

/* ---- revoke.c: using the buffers of others ---- */

/*
 * Elements that processes move without staging stay in the caches longer, for
 * there is one copy of them less.  They are streamed where the footprint is more
 * than so many times host.stream_min: by default 32 MiB, as a last-level cache
 * (measured from 8 to 64 MiB, two ranks).
 */
#define SYMC_STREAM_TIMES 8

/* What this rank moves with, and where it is inside. */
struct symc_chunks {
    struct symc_moving moving; /* its step() enters and leaves */
    struct symc_reduction reduction;
    struct symc_host *host;
    int inside; /* whose buffers: of a rank, or of all: the size; -1: nobody's */
    size_t moved; /* bytes since it has entered */
    bool streamed;
};

/* A round of the group's begins. */
void symc_host_begin_chunks(struct symc_host *host, const struct symc_op *op,
    struct symc_chunks *chunks);

/* Leave what this rank is inside; before it waits for anything. */
void symc_host_leave(struct symc_chunks *chunks);

/* The same without chunks, to read what all have beside their buffers; false: a
 * peer has left the operation, and this rank is inside nothing. */
bool symc_host_enter_all(
    const struct symc_host *host, const struct symc_op *op);
void symc_host_leave_all(const struct symc_host *host);

/* A peer has: the status of the group, which has failed. */
symmcoll_status_t symc_host_fail_revoked(
    const struct symc_host *host, const struct symc_op *op);

/* All of this rank's chunks are done, or have been stopped: tell, and wait until
 * all others' are. */
symmcoll_status_t symc_host_end_chunks(struct symc_chunks *chunks);

/* This rank leaves early: revoke its own, and wait until nobody is inside, or,
 * where ranks are processes, for a moment. */
void symc_host_revoke(const struct symc_host *host, const struct symc_op *op);

/* ---- issued.c: see struct symc_coll_ops ---- */

bool symc_host_issue(void *state, const struct symc_op *op);
/* The same for one that start() has published and that waits for a peer. */
void symc_host_defer(struct symc_host *host, const struct symc_op *op);
symmcoll_status_t symc_host_advance(
    void *state, const struct symc_op *op, enum symc_advance how);
void symc_host_give_up(void *state, const struct symc_op *op);
void symc_host_doze(
    void *state, const struct symc_op *op, struct symc_wait_budget *budget);

/* ---- reserve.c ---- */

/* Once the ranks are synchronised: back staging with memory where that has not
 * been done.  Errors: NO_MEMORY, on all ranks. */
symmcoll_status_t symc_host_reserve(
    struct symc_host *host, const struct symc_op *op);

/* ---- direct.c ---- */

/* Ranks up to which each reads the whole of all inputs: with two as many bytes as
 * through staging, with three no fewer. */
#define SYMC_READ_WHOLE_MAX 3

typedef symmcoll_status_t (*symc_host_staged_fn)(
    struct symc_host *host, const struct symc_op *op);

/*
 * An operation whose data is not in or beside the header lines: synchronise,
 * then use buffers where they lie if all ranks have exposed what that needs,
 * else reserve staging and go on with staged(), where host->parts is filled in.
 */
symmcoll_status_t symc_host_large(struct symc_host *host,
    const struct symc_op *op, symc_host_staged_fn staged);

/* ---- algorithms, each of which runs one operation to its end ---- */

symmcoll_status_t symc_host_one_shot(
    struct symc_host *host, const struct symc_op *op);
extern const struct symc_resumable symc_host_one_shot_parts
    __attribute__((visibility("hidden")));
symmcoll_status_t symc_host_two_shot(
    struct symc_host *host, const struct symc_op *op);
symmcoll_status_t symc_host_staged_scatter(
    struct symc_host *host, const struct symc_op *op);
symmcoll_status_t symc_host_staged_copy(
    struct symc_host *host, const struct symc_op *op);
symmcoll_status_t symc_host_staged_exchange(
    struct symc_host *host, const struct symc_op *op);
/* The same two as staged(). */
symmcoll_status_t symc_host_exchange(
    struct symc_host *host, const struct symc_op *op);
symmcoll_status_t symc_host_scatter_sums(
    struct symc_host *host, const struct symc_op *op);
symmcoll_status_t symc_host_uneven(
    struct symc_host *host, const struct symc_op *op);
extern const struct symc_resumable symc_host_uneven_parts
    __attribute__((visibility("hidden")));
symmcoll_status_t symc_host_direct(
    struct symc_host *host, const struct symc_op *op);
extern const struct symc_resumable symc_host_coalesced_parts
    __attribute__((visibility("hidden")));
symmcoll_status_t symc_host_coalesced(
    struct symc_host *host, const struct symc_op *op);
symmcoll_status_t symc_host_staged_coalesced(
    struct symc_host *host, const struct symc_op *op);
symmcoll_status_t symc_host_monitored(
    struct symc_host *host, const struct symc_op *op);
symmcoll_status_t symc_host_mover(
    struct symc_host *host, const struct symc_op *op);
extern const struct symc_resumable symc_host_mover_parts
    __attribute__((visibility("hidden")));

#endif
