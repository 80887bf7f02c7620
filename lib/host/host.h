/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of the host backend, and declarations shared by its algorithms.  Private to
 * this directory.
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

/* A part of an operation: of this rank's input for another rank, and of this rank's
 * result from that rank. */
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
    bool checked;  /* the geometry is the same on all ranks */
    struct symc_channel **channels;
    char **staging;
    struct symc_doorbell **doorbells;
    const void **sources; /* for reductions: one for each rank */
    double *factors;
    bool *missing;
    struct symc_host_part *parts; /* of the current operation, by rank */
    /* The buffers of the current operation that this rank accesses in place, by rank; of
     * a buffer with a part for each rank, this rank's part; NULL: not exposed. */
    struct symc_exposed *exposed;
    char *scratch;      /* of `small` bytes: small results of several buffers */
    size_t small;       /* bytes of one small area */
    size_t chunk;       /* bytes of one staging slot */
    uint64_t monitored; /* number of monitored barriers entered */
    uint64_t rounds;    /* rounds of staging, or of access in place */
    struct symc_issued issued[SYMC_LINES]; /* by sequence number */
    uint64_t finished;   /* operations up to this one have ended */
    uint64_t peers_done; /* all peers have finished reading up to it */
    struct symc_wait_budget budget; /* of the current operation */
    /* The functions with which advance() ends the current operation later; NULL: it
     * cannot, which an algorithm may find before it waits. */
    const struct symc_resumable *resumable;
};

/* Records that an operation has ended, and with it this rank's reading of the peers'
 * lines. */
static inline void symc_host_finish(
    struct symc_host *host, const struct symc_op *op)
{
    host->finished = op->wire;
    atomic_store_explicit(
        &host->channels[host->rank]->done, op->wire, memory_order_release);
}

/* ---- monitored.c ---- */

/* Counts a missed monitored barrier as one that this rank has entered. */
void symc_host_pass_missed(struct symc_host *host);

/* ---- header.c: header lines, waiting ---- */

/* Returns whether an operation has the number of a monitored barrier that another
 * rank has given up, which this rank has not entered. */
bool symc_host_has_missed(
    const struct symc_host *host, const struct symc_op *op);

/* Returns a rank's header line of an operation. */
static inline const struct symc_header *symc_host_header(
    const struct symc_host *host, int rank, const struct symc_op *op)
{
    return symc_header_at(host->channels[rank], op->wire);
}

/* Returns whether a payload of an operation fits its header line. */
static inline bool symc_host_fits_line(const struct symc_op *op, size_t nbytes)
{
    return nbytes <=
           (op->op == SYMMCOLL_PREMUL_SUM ? SYMC_FACTOR_AT : SYMC_PAYLOAD);
}

/* Returns a rank's area for data of an operation that does not fit the line. */
static inline void *symc_host_beside(
    const struct symc_host *host, int rank, const struct symc_op *op)
{
    return host->channels[rank]->small + op->wire % SYMC_AREAS * host->small;
}

/* Returns whether the line (depth SYMC_LINES) or the area (SYMC_AREAS) of an operation
 * may be written: all peers have finished reading its previous contents. */
bool symc_host_has_room(
    struct symc_host *host, const struct symc_op *op, uint64_t depth);

/* Blocks until symc_host_has_room(). */
symmcoll_status_t symc_host_await_room(
    struct symc_host *host, const struct symc_op *op, uint64_t depth);

/* Publishes this rank's header; there must be room.  Returns true if a peer has failed a
 * group, which may be this one. */
bool symc_host_publish(struct symc_host *host, const struct symc_op *op,
    const void *payload, size_t nbytes);

/* Waits for the headers of all ranks and compares them. */
symmcoll_status_t symc_host_collect(
    struct symc_host *host, const struct symc_op *op);

/*
 * Publishes this rank's header with a payload that fits it (a larger payload is beside
 * the line already, nbytes is 0), and waits for the headers of all ranks.
 *
 * OK: all ranks passed the same arguments.  On an error no buffer may be touched; see
 * the statuses of collectives.h.
 */
symmcoll_status_t symc_host_synchronise(struct symc_host *host,
    const struct symc_op *op, const void *payload, size_t nbytes);

/* Waits until a counter of a peer's channel has reached target. */
symmcoll_status_t symc_host_wait(struct symc_host *host,
    const struct symc_op *op, int peer, size_t counter, uint64_t target);

/* Waits until a counter of all peers' channels has reached target. */
symmcoll_status_t symc_host_wait_all(struct symc_host *host,
    const struct symc_op *op, size_t counter, uint64_t target);

/* Stores in host->missing the ranks that an operation waits for; at least `peer`. */
void symc_host_list_missing(
    struct symc_host *host, const struct symc_op *op, int peer);

/* Wakes sleeping peers; call it after a word has been written. */
void symc_host_wake_peers(const struct symc_host *host);

/* Advances one of this rank's counters, and wakes sleeping peers. */
void symc_host_post(
    struct symc_host *host, _Atomic uint64_t *counter, uint64_t value);

/* Returns the reduction of an operation; reads the factors from all ranks' headers. */
struct symc_reduction symc_host_reduction(
    struct symc_host *host, const struct symc_op *op);

/* Keeps what another backend needs of the lines of an operation on non-host memory: the
 * factors, the placement, and whether a member captures it.  All lines must be there. */
void symc_host_keep_agreed(struct symc_host *host, const struct symc_op *op);

/* ---- differ.c ---- */

/* Returns the status of header lines that differ: MISMATCH, with the arguments of each
 * rank; OK if the kind allows the difference. */
symmcoll_status_t symc_host_disagree(
    struct symc_host *host, const struct symc_op *op);

/* Fails because a rank has no staging: NO_MEMORY, with the rank and the reason. */
symmcoll_status_t symc_host_fail_reserve(
    struct symc_host *host, const struct symc_op *op, int rank);

/* Checks that all ranks lay out their blocks alike.  Errors: CONFIG. */
symmcoll_status_t symc_host_check_geometry(struct symc_host *host);

/* Fails because counts of parts differ: rank `from` passed a count for rank `to`, which
 * expected another.  Returns MISMATCH. */
symmcoll_status_t symc_host_fail_counts(struct symc_host *host,
    const struct symc_op *op, int from, int to, uint64_t passed,
    uint64_t expected);

/* ---- parts.c ---- */

/* Fills host->parts for an operation. */
void symc_host_find_parts(struct symc_host *host, const struct symc_op *op);

/* Returns the bytes of all ranks' inputs and results together; in_place: each rank's
 * result is the same memory as its input. */
size_t symc_host_footprint(
    const struct symc_host *host, const struct symc_op *op, bool in_place);

/* ---- counts.c: the comparison of an uneven operation ---- */

/* Returns the bytes of a rank's area for data, between its counts and the words of lists
 * (exposed.c), which take as many bytes as the counts. */
static inline size_t symc_host_room_beside(const struct symc_host *host)
{
    return host->small - 4 * sizeof(uint64_t) * (size_t)host->size;
}

/* Puts this rank's counts beside its line, and its data if there is room and the
 * operation is on host memory; waits for room. */
symmcoll_status_t symc_host_put_counts(
    struct symc_host *host, const struct symc_op *op);

/* Compares the counts of each two ranks; the ranks must be synchronised.  Errors:
 * MISMATCH. */
symmcoll_status_t symc_host_compare_counts(
    struct symc_host *host, const struct symc_op *op);

/* Returns the elements of a rank's part for another; is_out: of the part that it expects
 * from the other. */
size_t symc_host_count(const struct symc_host *host, const struct symc_op *op,
    int rank, int other, bool is_out);

/* Returns the elements of the largest part; the ranks must be synchronised. */
size_t symc_host_most(struct symc_host *host, const struct symc_op *op);

/* Returns whether the data of all ranks is beside the lines, alike on all ranks. */
bool symc_host_all_beside(struct symc_host *host, const struct symc_op *op);
/* Makes this rank's result of the data beside the lines. */
void symc_host_take_beside(struct symc_host *host, const struct symc_op *op);

/* ---- pipeline.c ---- */

/* One round of a staged algorithm: its elements [offset, offset + count). */
struct symc_round {
    uint64_t number; /* over the life of the group */
    size_t offset;
    size_t count;
};

/* The work of this rank in each round; a function may be NULL. */
struct symc_pipeline {
    size_t total; /* elements of all rounds */
    size_t step;  /* elements of a round */
    void *context;
    /* Copies this rank's contribution into its slot. */
    void (*stage)(struct symc_host *host, const struct symc_op *op,
        const struct symc_round *round, void *context);
    /* Copies this rank's own part, after peers can see that it has staged. */
    void (*keep)(struct symc_host *host, const struct symc_op *op,
        const struct symc_round *round, void *context);
    /* Reduces this rank's part, after all ranks have staged. */
    void (*combine)(struct symc_host *host, const struct symc_op *op,
        const struct symc_round *round, void *context);
    /* Copies from a peer after it has reduced (or staged, when `gathers`). */
    void (*collect)(struct symc_host *host, const struct symc_op *op,
        const struct symc_round *round, int peer, void *context);
    int from;     /* collect from this rank alone; -1: from all */
    bool gathers; /* no rank combines */
};

/* Runs the rounds, overlapped.  The ranks must be synchronised. */
symmcoll_status_t symc_host_pipeline(struct symc_host *host,
    const struct symc_op *op, const struct symc_pipeline *pipeline);

/* Return a rank's slots of a round: of its staged data, of its sums. */
char *symc_host_staged(
    const struct symc_host *host, int rank, const struct symc_round *round);
char *symc_host_summed(
    const struct symc_host *host, int rank, const struct symc_round *round);

/* Returns the elements of a piece when a slot is divided into one piece per rank. */
size_t symc_host_piece(const struct symc_host *host, size_t elem);

/* Returns how many elements of a part of `count` are in a round of up to `step`. */
static inline size_t symc_host_piece_of(
    const struct symc_round *round, size_t count, size_t step)
{
    if (count <= round->offset)
        return 0;
    return count - round->offset < step ? count - round->offset : step;
}

/* Finds part r of `size` of count elements, on cache lines: [lo, hi). */
void symc_host_part(
    size_t count, size_t elem, int size, int r, size_t *lo, size_t *hi);

/* ---- revoke.c: accessing the buffers of other ranks ---- */

/*
 * Elements that processes move without staging stay in the caches longer, as there is
 * one copy less of them.  Non-temporal stores are used if the footprint is more than
 * this many times host.stream_min: by default 32 MiB, the size of a last-level cache
 * (measured from 8 to 64 MiB, two ranks).
 */
#define SYMC_STREAM_TIMES 8

/* The state of moving data in chunks, and which buffers this rank is inside. */
struct symc_chunks {
    struct symc_moving moving; /* its step() enters and leaves */
    struct symc_reduction reduction;
    struct symc_host *host;
    int inside;   /* a rank's buffers; the size: those of all ranks; -1: none */
    size_t moved; /* bytes since it has entered */
    bool streamed;
};

/* Begins a round of the group in which data is moved in chunks. */
void symc_host_begin_chunks(struct symc_host *host, const struct symc_op *op,
    struct symc_chunks *chunks);

/* Leaves the buffers that this rank is inside; required before any wait. */
void symc_host_leave(struct symc_chunks *chunks);

/* Enters all ranks' buffers, to read tables that they have exposed.  Returns false,
 * inside nothing, if a peer has revoked its buffers. */
bool symc_host_enter_all(
    const struct symc_host *host, const struct symc_op *op);
void symc_host_leave_all(const struct symc_host *host);

/* Returns the status after a peer has revoked its buffers: that of the group, which has
 * failed. */
symmcoll_status_t symc_host_fail_revoked(
    const struct symc_host *host, const struct symc_op *op);

/* Ends this rank's chunks, and waits until all other ranks have ended theirs.  Fails if a
 * peer has revoked its buffers. */
symmcoll_status_t symc_host_end_chunks(struct symc_chunks *chunks);

/* Revokes this rank's buffers, as it leaves the operation early, and waits until no peer
 * is inside them; between processes for a limited time. */
void symc_host_revoke(const struct symc_host *host, const struct symc_op *op);

/* ---- issued.c: members of struct symc_host_ops ---- */

bool symc_host_issue(void *state, const struct symc_op *op);
/* Records as issued an operation that start() has published and that waits for a peer. */
void symc_host_defer(struct symc_host *host, const struct symc_op *op);
symmcoll_status_t symc_host_advance(
    void *state, const struct symc_op *op, enum symc_advance how);
void symc_host_give_up(void *state, const struct symc_op *op);
void symc_host_await_progress(
    void *state, const struct symc_op *op, struct symc_wait_budget *budget);

/* ---- reserve.c ---- */

/* Backs staging with memory, if not done before; the ranks must be synchronised.  Errors:
 * NO_MEMORY, on all ranks. */
symmcoll_status_t symc_host_reserve(
    struct symc_host *host, const struct symc_op *op);

/* ---- direct.c ---- */

/* The number of ranks up to which each reads all inputs completely: with two it moves as
 * many bytes as through staging, with three no fewer. */
#define SYMC_READ_WHOLE_MAX 3

typedef symmcoll_status_t (*symc_host_staged_fn)(
    struct symc_host *host, const struct symc_op *op);

/*
 * Runs an operation whose data does not fit in or beside the header lines: synchronises
 * the ranks, then accesses buffers in place if all ranks have exposed the necessary
 * ones, else reserves staging and calls staged(), with host->parts filled in.
 */
symmcoll_status_t symc_host_large(struct symc_host *host,
    const struct symc_op *op, symc_host_staged_fn staged);

/* ---- algorithms; each runs one operation to its end ---- */

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
/* Staged algorithms for symc_host_large(). */
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
