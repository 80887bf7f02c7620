/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Header lines: every operation begins by publishing one, reading those of all ranks and
 * comparing them.  Also all waits of this backend.  Errors for lines that differ are in
 * differ.c.
 */
#include "host/host.h"

#include "backend/placement.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#define OVERSUBSCRIBED_YIELDS 64 /* before the usual wait */
#define POLLS_MAX 100000         /* without checking anything else */
#define CACHED_NBYTES ((size_t)8 * 1024 * 1024) /* of a sum, in caches */
#define WHAT_KIND UINT32_C(0xff)
#define WHAT_AHEAD ((uint32_t)SYMC_HEADER_AHEAD << 24)
#define WHAT_CAPTURED ((uint32_t)SYMC_HEADER_CAPTURED << 24)
#define WHAT_FLAGS (WHAT_AHEAD | WHAT_CAPTURED)

/* Packs kind, element type, reduction and flags into one word, to compare at once. */
static uint32_t pack(const struct symc_op *op)
{
    return (uint32_t)op->kind | (uint32_t)op->dtype << 8 |
           (uint32_t)op->op << 16 | (uint32_t)op->captured * WHAT_CAPTURED |
           (uint32_t)op->memory << 28;
}

/* ---- waiting ---- */

static const _Atomic uint64_t *counter_of(
    const struct symc_host *host, int peer, size_t counter)
{
    return (const _Atomic uint64_t *)(const void *)((const char *)
                                                        host->channels[peer] +
                                                    counter);
}

/* Returns how far a rank has advanced: 0 before it has started the operation. */
static uint64_t progress_of(
    const struct symc_host *host, int rank, const struct symc_op *op)
{
    struct symc_channel *channel = host->channels[rank];

    if (atomic_load_explicit(&symc_header_at(channel, op->wire)->seq,
            memory_order_acquire) < op->wire)
        return 0;
    return 1 + atomic_load(&channel->staged) + atomic_load(&channel->reduced) +
           atomic_load(&channel->drained) + atomic_load(&channel->reserved);
}

/* Lists the ranks that have not started the operation, else those that have advanced
 * least, because the other ranks wait for them too. */
void symc_host_list_missing(
    struct symc_host *host, const struct symc_op *op, int peer)
{
    uint64_t least = UINT64_MAX;
    bool any = false;

    for (int r = 0; r < host->size; r++) {
        uint64_t progress = progress_of(host, r, op);

        if (r != host->rank && progress < least)
            least = progress;
    }
    for (int r = 0; r < host->size; r++) {
        host->missing[r] = r != host->rank && progress_of(host, r, op) <= least;
        any = any || host->missing[r];
    }
    if (!any) /* they have advanced since */
        host->missing[peer] = true;
}

/* Returns the offset of the sequence number of an operation's line in a channel. */
static size_t seq_offset(const struct symc_op *op)
{
    return symc_line_of(op->wire) * sizeof(struct symc_header) +
           offsetof(struct symc_header, seq);
}

/* Returns whether an operation that waits for a peer's line may be ended later, by
 * symc_host_advance(). */
static bool may_end_later(const struct symc_host *host,
    const struct symc_op *op, size_t counter, int64_t polling_ns)
{
    return host->resumable != NULL && counter == seq_offset(op) &&
           op->memory == SYMC_MEMORY_HOST &&
           symc_kinds[op->kind].counter != SYMC_COUNT_NONE &&
           op->timeout_ns > polling_ns;
}

/*
 * A rank that has not called the barrier finds its number at its next operation.  A
 * peer that has given up a barrier at or after this operation has published a line of
 * this number, which says whether that was the barrier; the peer does not reuse the line
 * before this rank has finished the operation.
 */
bool symc_host_has_missed(
    const struct symc_host *host, const struct symc_op *op)
{
    if (op->kind == SYMC_MONITORED_BARRIER)
        return false;
    for (int r = 0; r < host->size; r++) {
        if (r != host->rank &&
            atomic_load_explicit(&host->channels[r]->given_up,
                memory_order_acquire) >= op->wire &&
            (symc_host_header(host, r, op)->what & WHAT_KIND) ==
                SYMC_MONITORED_BARRIER)
            return true;
    }
    return false;
}

/* Waits in the slow path of symc_host_wait(). */
static __attribute__((noinline)) symmcoll_status_t wait_long(
    struct symc_host *host, const struct symc_op *op, int peer, size_t counter,
    uint64_t target)
{
    const struct symc_core *core = host->core;
    int64_t polling_ns = symc_wait_polling_ns(core->waiting, symc_now_ns());
    bool later = may_end_later(host, op, counter, polling_ns);
    struct symc_wait_budget polling = {.timeout_ns = polling_ns};

    if (counter == seq_offset(op) && symc_host_has_missed(host, op))
        return SYMC_MISSED;
    switch (core->wait(core->group, counter_of(host, peer, counter), target,
        peer, later ? &polling : &host->budget)) {
    case SYMC_WAIT_REACHED:
        return SYMMCOLL_OK;
    case SYMC_WAIT_STOPPED:
        return core->failure(core->group, op, peer);
    default:
        if (later)
            return SYMMCOLL_IN_PROGRESS;
        symc_host_list_missing(host, op, peer);
        /* The peer may have arrived at the last moment. */
        if (atomic_load_explicit(counter_of(host, peer, counter),
                memory_order_acquire) >= target)
            return SYMMCOLL_OK;
        return core->expire(core->group, op, host->missing, NULL);
    }
}

symmcoll_status_t symc_host_wait(struct symc_host *host,
    const struct symc_op *op, int peer, size_t counter, uint64_t target)
{
    const _Atomic uint64_t *word = counter_of(host, peer, counter);

    if (atomic_load_explicit(word, memory_order_acquire) >= target)
        return SYMMCOLL_OK;
    for (int i = 1;
         !symc_wait_shares(host->core->waiting) && i < SYMC_QUICK_POLLS; i++) {
        symc_pause();
        if (atomic_load_explicit(word, memory_order_acquire) >= target)
            return SYMMCOLL_OK;
    }
    return wait_long(host, op, peer, counter, target);
}

symmcoll_status_t symc_host_wait_all(struct symc_host *host,
    const struct symc_op *op, size_t counter, uint64_t target)
{
    for (int i = 1; i < host->size; i++) {
        int peer = (host->rank + i) % host->size;
        symmcoll_status_t status =
            symc_host_wait(host, op, peer, counter, target);

        if (status != SYMMCOLL_OK)
            return status;
    }
    return SYMMCOLL_OK;
}

/*
 * Waits for all headers for a while when ranks share processors.  While a missing rank
 * runs on this processor, polling cannot succeed, and the processor is yielded to it at
 * once; for ranks elsewhere some polls cost less than a switch to a rank that has to
 * wait for them too.
 */
static __attribute__((noinline)) void await_oversubscribed(
    const struct symc_host *host, const struct symc_op *op)
{
    const struct symc_core *core = host->core;
    int64_t began = symc_now_ns();
    int64_t until = began + symc_wait_polling_ns(core->waiting, began);
    int64_t polls = 0, now;
    int cpu = sched_getcpu();

    if (until == began)
        return;
    for (int yields = 0; yields < OVERSUBSCRIBED_YIELDS;) {
        bool here = false, elsewhere = false;

        for (int r = 0; r < host->size; r++) {
            struct symc_channel *channel = host->channels[r];

            if (atomic_load_explicit(&symc_header_at(channel, op->wire)->seq,
                    memory_order_acquire) >= op->wire)
                continue;
            if (atomic_load_explicit(
                    &symc_header_at(channel, op->wire - 1)->cpu,
                    memory_order_relaxed) == cpu)
                here = true;
            else
                elsewhere = true;
        }
        if (!here && !elsewhere)
            return;
        if (!here && ++polls < core->waiting->polls && polls < POLLS_MAX)
            continue;
        now = symc_wait_yield(core->waiting);
        yields++;
        if (atomic_load_explicit(core->stopped, memory_order_acquire) != 0 ||
            now == 0 || now >= until)
            return; /* to the usual wait, which makes all checks */
        polls = 0;
        cpu = sched_getcpu();
    }
}

/* Wakes sleeping peers.  Returns true if a peer has failed a group that its doorbell
 * serves, which may be this one. */
static inline bool wake_peers(const struct symc_host *host)
{
    uint32_t failed = 0;

    for (int r = 0; r < host->size; r++) {
        struct symc_doorbell *doorbell = host->doorbells[r];

        if (r == host->rank)
            continue;
        symc_doorbell_notify_from(doorbell, host->rank);
        failed |= atomic_load_explicit(&doorbell->failed, memory_order_relaxed);
    }
    return failed != 0;
}

void symc_host_wake_peers(const struct symc_host *host)
{
    wake_peers(host);
}

void symc_host_post(
    struct symc_host *host, _Atomic uint64_t *counter, uint64_t value)
{
    atomic_store_explicit(counter, value, memory_order_release);
    wake_peers(host);
}

/*
 * Prefetches the line of the next operation for writing: peers last read it in the
 * operation before this one, and the store to it then need not wait for the transfer.
 */
static inline void claim_next(const struct symc_host *host, uint64_t seq)
{
    struct symc_header *next =
        symc_header_at(host->channels[host->rank], seq + 1);

    symc_claim(next);
}

#define WORD sizeof(uint64_t)
_Static_assert(SYMC_PAYLOAD % WORD == 0 && SYMC_FACTOR_AT % WORD == 0,
    "a payload is stored by words");

/* Returns the first word of nbytes bytes, padded with zeros. */
static inline uint64_t first_word(const unsigned char *bytes, size_t nbytes)
{
    uint64_t word = 0;

    if (nbytes >= WORD)
        memcpy(&word, bytes, WORD);
    else if (nbytes == WORD / 2)
        memcpy(&word, bytes, WORD / 2);
    else
        for (size_t i = 0; i < nbytes; i++)
            ((unsigned char *)&word)[i] = bytes[i];
    return word;
}

/*
 * Writes the header line, sequence number last.  Peers poll it, and each poll takes the
 * cache line away from this processor: so it is stored in one go, word by word.  A copy
 * assembled in memory first would stall: it would be read before it has left the
 * processor's store queue.
 */
static inline void publish(const struct symc_host *host,
    const struct symc_op *op, uint32_t what, const void *payload, size_t nbytes)
{
    struct symc_header *mine =
        symc_header_at(host->channels[host->rank], op->wire);
    const unsigned char *bytes = payload;

    if (host->core->waiting->oversubscribed)
        atomic_store_explicit(
            &mine->cpu, (uint16_t)sched_getcpu(), memory_order_relaxed);
    mine->count = op->count;
    mine->what = what;
    mine->root = (uint16_t)op->root;
    for (size_t at = 0; at < nbytes; at += WORD) {
        uint64_t word = first_word(bytes + at, nbytes - at);

        memcpy(mine->payload + at, &word, WORD);
    }
    if (__builtin_expect(op->op == SYMMCOLL_PREMUL_SUM, 0))
        memcpy(mine->payload + SYMC_FACTOR_AT, symc_op_factor(op), WORD);
    atomic_store_explicit(&mine->seq, op->wire, memory_order_release);
}

/* ---- room in the ring of lines ---- */

bool symc_host_has_room(
    struct symc_host *host, const struct symc_op *op, uint64_t depth)
{
    uint64_t least = UINT64_MAX;

    if (op->wire <= host->peers_done + depth)
        return true;
    for (int r = 0; r < host->size; r++) {
        uint64_t done = atomic_load_explicit(
            &host->channels[r]->done, memory_order_acquire);

        if (r != host->rank && done < least)
            least = done;
    }
    if (least > host->peers_done)
        host->peers_done = least;
    return op->wire <= host->peers_done + depth;
}

symmcoll_status_t symc_host_await_room(
    struct symc_host *host, const struct symc_op *op, uint64_t depth)
{
    symmcoll_status_t status;

    if (symc_host_has_room(host, op, depth))
        return SYMMCOLL_OK;
    host->core->record(host->core->group, op);
    status = symc_host_wait_all(
        host, op, offsetof(struct symc_channel, done), op->wire - depth);
    if (status == SYMMCOLL_OK)
        host->peers_done = op->wire - depth;
    return status;
}

/* ---- one operation ---- */

static uint32_t pack_mine(
    const struct symc_host *host, const struct symc_op *op)
{
    bool ahead = host->finished + 1 < op->wire;

    return pack(op) | (ahead ? WHAT_AHEAD : 0);
}

bool symc_host_publish(struct symc_host *host, const struct symc_op *op,
    const void *payload, size_t nbytes)
{
    publish(host, op, pack_mine(host, op), payload, nbytes);
    bool suspect = wake_peers(host);

    host->core->record(host->core->group, op);
    return suspect;
}

symmcoll_status_t symc_host_collect(
    struct symc_host *host, const struct symc_op *op)
{
    size_t at = seq_offset(op);
    uint32_t what = pack(op), seen = 0;
    uint64_t differs = 0;

    for (int i = 1, peer = host->rank; i < host->size; i++) {
        const struct symc_header *other;

        peer = peer + 1 == host->size ? 0 : peer + 1;
        symmcoll_status_t status = symc_host_wait(host, op, peer, at, op->wire);
        if (status != SYMMCOLL_OK)
            return status;
        other = symc_host_header(host, peer, op);
        seen |= other->what;
        differs |= (other->count ^ op->count) |
                   ((other->what ^ what) & ~WHAT_FLAGS) |
                   (uint64_t)(other->root ^ op->root);
    }
    claim_next(host, op->wire);
    if ((seen & WHAT_AHEAD) == 0)
        host->peers_done = op->wire - 1;
    if (__builtin_expect(differs != 0, 0)) {
        symmcoll_status_t status = symc_host_has_missed(host, op)
                                       ? SYMC_MISSED
                                       : symc_host_disagree(host, op);

        if (status != SYMMCOLL_OK)
            return status;
    }
    return host->checked ? SYMMCOLL_OK : symc_host_check_geometry(host);
}

symmcoll_status_t symc_host_synchronise(struct symc_host *host,
    const struct symc_op *op, const void *payload, size_t nbytes)
{
    const struct symc_core *core = host->core;

    if (__builtin_expect(op->wire > host->peers_done + SYMC_LINES, 0)) {
        symmcoll_status_t status = symc_host_await_room(host, op, SYMC_LINES);

        if (status != SYMMCOLL_OK)
            return status;
    }
    if (symc_host_publish(host, op, payload, nbytes) &&
        core->failed(core->group, -1))
        return core->failure(core->group, op, -1);
    if (core->waiting->oversubscribed)
        await_oversubscribed(host, op);
    return symc_host_collect(host, op);
}

static void keep_placement(struct symc_host *host, const struct symc_op *op)
{
    const unsigned char *mine = symc_host_header(host, host->rank, op)->payload;
    struct symc_agreed *agreed = host->core->agreed;

    memcpy(&agreed->placement, mine, sizeof(agreed->placement));
    agreed->placed = SYMC_PLACED_ALIKE;
    for (int r = 0; r < host->size; r++) {
        if (memcmp(symc_host_header(host, r, op)->payload, mine,
                sizeof(agreed->placement)) != 0)
            agreed->placed = SYMC_PLACED_UNLIKE;
    }
}

void symc_host_keep_agreed(struct symc_host *host, const struct symc_op *op)
{
    struct symc_agreed *agreed = host->core->agreed;

    if (op->op == SYMMCOLL_PREMUL_SUM)
        (void)symc_host_reduction(host, op);
    if (op->memory == SYMC_MEMORY_HOST)
        return;
    agreed->factors = host->factors;
    agreed->captured = false;
    for (int r = 0; r < host->size; r++)
        agreed->captured |=
            (symc_host_header(host, r, op)->what & WHAT_CAPTURED) != 0;
    agreed->placed = SYMC_PLACED_UNKNOWN;
    if (symc_is_placed(op))
        keep_placement(host, op);
}

struct symc_reduction symc_host_reduction(
    struct symc_host *host, const struct symc_op *op)
{
    struct symc_reduction reduction = {.dtype = op->dtype,
        .op = op->op,
        .block = (int)host->settings.reduce_run,
        .factors = NULL,
        .beyond_caches = op->count * op->elem > CACHED_NBYTES};

    if (op->op != SYMMCOLL_PREMUL_SUM)
        return reduction;
    for (int r = 0; r < host->size; r++)
        memcpy(&host->factors[r],
            symc_host_header(host, r, op)->payload + SYMC_FACTOR_AT,
            sizeof(double));
    reduction.factors = host->factors;
    return reduction;
}
