/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Access to other ranks' buffers in place: no staging, and no copy that the operation
 * does not need.  Threads read all buffers of each other; processes and threads alike
 * read and write buffers in symmetric memory.
 *
 * Bytes that a rank of W moves for a buffer of n.  all_reduce: it reads n/W of each of W
 * inputs and writes as many to each of W results, if those are symmetric; else a thread
 * writes its own result and copies (W-1)/W n from the others'; else a rank reads all of
 * W inputs.  reduce_scatter: it reads W parts and writes one.  reduce: as all_reduce,
 * with one result; if that is not symmetric the root reads all inputs.  Operations that
 * only move data copy it once: the receiver if the inputs are exposed, else the sender.
 * If both are exposed, the sender copies a large all_gather, reading its input once, and
 * all ranks share a broadcast: (W-1)/W n each.  Two crossings: the header lines, and a
 * counter that a rank advances when it is done with the others' buffers; a third one
 * when threads copy sums of others.
 *
 * A buffer is exposed from the header until its owner has seen all ranks drained, or has
 * revoked it: see revoke.c.
 */
#include "host/exposed.h"

#include <string.h>

#define CACHES ((size_t)32 * 1024 * 1024) /* bytes of a last-level cache */

struct direct {
    struct symc_host *host;
    const struct symc_op *op;
    struct symc_chunks chunks;
    bool streaming;
};

/* The work of this rank in an operation.  It skips buffers that a peer has revoked; the
 * revocation is detected at the end. */
typedef symmcoll_status_t (*move_fn)(struct direct *direct);

static bool sum(
    struct direct *direct, struct symc_targets targets, size_t lo, size_t hi)
{
    return symc_moving_reduce(
        &direct->chunks.moving, targets, lo, hi, direct->streaming);
}

/* Copies from or to a peer's exposed memory. */
static void copy(
    struct direct *direct, int peer, char *out, const char *in, size_t nbytes)
{
    (void)symc_moving_copy(
        &direct->chunks.moving, peer, out, in, nbytes, direct->streaming);
}

/* ---- sums ---- */

/* Reduces all elements into this rank's result alone. */
static symmcoll_status_t sum_whole(struct direct *direct)
{
    struct symc_targets own = {direct->host->rank, 1};

    (void)sum(direct, own, 0, direct->op->count);
    return SYMMCOLL_OK;
}

static symmcoll_status_t sum_own_part(struct direct *direct)
{
    const struct symc_host *host = direct->host;
    struct symc_targets own = {host->rank, 1};

    (void)sum(direct, own, 0, host->parts[host->rank].out_count);
    return SYMMCOLL_OK;
}

static symmcoll_status_t sum_at_root(struct direct *direct)
{
    return direct->host->rank == direct->op->root ? sum_whole(direct)
                                                  : SYMMCOLL_OK;
}

/* Reduces this rank's share of the elements into the results of targets. */
static bool sum_share(struct direct *direct, struct symc_targets targets)
{
    const struct symc_op *op = direct->op;
    size_t lo, hi;

    symc_host_part(
        op->count, op->elem, direct->host->size, direct->host->rank, &lo, &hi);
    return sum(direct, targets, lo, hi);
}

static symmcoll_status_t sum_into_all(struct direct *direct)
{
    struct symc_targets all = {direct->host->rank, direct->host->size};

    (void)sum_share(direct, all);
    return SYMMCOLL_OK;
}

static symmcoll_status_t sum_into_root(struct direct *direct)
{
    struct symc_targets root = {direct->op->root, 1};

    (void)sum_share(direct, root);
    return SYMMCOLL_OK;
}

/* Reduces this rank's share, then copies the others' shares from their results. */
static symmcoll_status_t sum_and_copy(struct direct *direct)
{
    struct symc_host *host = direct->host;
    const struct symc_op *op = direct->op;
    struct symc_targets own = {host->rank, 1};
    symmcoll_status_t status = SYMMCOLL_OK;

    if (!sum_share(direct, own))
        return symc_host_fail_revoked(host, op);
    if (direct->streaming)
        symc_stream_fence();
    symc_host_post(host, &host->channels[host->rank]->reduced, host->rounds);
    for (int i = 1; i < host->size && status == SYMMCOLL_OK; i++) {
        int peer = (host->rank + i) % host->size;
        const char *from = host->exposed[peer].out;
        size_t lo, hi;

        symc_host_part(op->count, op->elem, host->size, peer, &lo, &hi);
        symc_host_leave(&direct->chunks);
        status = symc_host_wait(host, op, peer,
            offsetof(struct symc_channel, reduced), host->rounds);
        if (status == SYMMCOLL_OK)
            copy(direct, peer, (char *)op->out + lo * op->elem,
                from + lo * op->elem, (hi - lo) * op->elem);
    }
    return status;
}

/* ---- copies ---- */

/* Copies this rank's part of every rank's input. */
static symmcoll_status_t take_from_all(struct direct *direct)
{
    const struct symc_host *host = direct->host;

    if (!symc_kind_receives(direct->op->kind, direct->op->root == host->rank))
        return SYMMCOLL_OK;
    for (int i = 0; i < host->size; i++) {
        int peer = (host->rank + i) % host->size;
        const struct symc_host_part *part = &host->parts[peer];

        copy(direct, peer, part->out, host->exposed[peer].in,
            part->out_count * direct->op->elem);
    }
    return SYMMCOLL_OK;
}

static symmcoll_status_t take_from_root(struct direct *direct)
{
    const struct symc_op *op = direct->op;

    copy(direct, op->root, op->out, direct->host->exposed[op->root].in,
        op->count * op->elem);
    return SYMMCOLL_OK;
}

/* Broadcasts with the root: it writes its share of the elements to all results, and each
 * other rank reads the rest, so that all copy the same number of bytes. */
static symmcoll_status_t share_with_root(struct direct *direct)
{
    const struct symc_host *host = direct->host;
    const struct symc_op *op = direct->op;
    const char *in = host->exposed[op->root].in;
    size_t lo, hi;

    symc_host_part(op->count, op->elem, host->size, op->root, &lo, &hi);
    lo *= op->elem;
    hi *= op->elem;
    if (host->rank != op->root) {
        copy(direct, op->root, op->out, in, lo);
        copy(direct, op->root, (char *)op->out + hi, in + hi,
            op->count * op->elem - hi);
        return SYMMCOLL_OK;
    }
    for (int i = 0; i < host->size; i++) {
        int peer = (host->rank + i) % host->size;

        copy(direct, peer, host->exposed[peer].out + lo, in + lo, hi - lo);
    }
    return SYMMCOLL_OK;
}

/* Writes this rank's input to all results, reading each chunk once. */
static symmcoll_status_t put_chunks(struct direct *direct)
{
    const struct symc_host *host = direct->host;
    const char *in = direct->op->in;
    size_t nbytes = direct->op->count * direct->op->elem, count;

    for (size_t at = 0; at < nbytes; at += count) {
        count =
            nbytes - at < SYMC_MOVING_CHUNK ? nbytes - at : SYMC_MOVING_CHUNK;
        for (int i = 0; i < host->size; i++) {
            int peer = (host->rank + i) % host->size;

            copy(direct, peer, host->exposed[peer].out + at, in + at, count);
        }
    }
    return SYMMCOLL_OK;
}

/* Writes this rank's part for a peer to the peer's result. */
static void put(struct direct *direct, int peer)
{
    const struct symc_host *host = direct->host;
    const struct symc_host_part *part = &host->parts[peer];

    copy(direct, peer, host->exposed[peer].out, part->in,
        part->in_count * direct->op->elem);
}

static symmcoll_status_t put_to_all(struct direct *direct)
{
    const struct symc_host *host = direct->host;

    if (!symc_kind_sends(direct->op->kind, direct->op->root == host->rank))
        return SYMMCOLL_OK;
    for (int i = 0; i < host->size; i++)
        put(direct, (host->rank + i) % host->size);
    return SYMMCOLL_OK;
}

static symmcoll_status_t put_to_root(struct direct *direct)
{
    put(direct, direct->op->root);
    return SYMMCOLL_OK;
}

/* ---- the choice ---- */

static move_fn choose_sum(const struct symc_host *host,
    const struct symc_kind_info *info, const struct symc_exposure *exposure)
{
    if (!exposure->ins)
        return NULL;
    if (info->in_parts == SYMC_ALL_PARTS)
        return sum_own_part;
    if ((info->traits & SYMC_TO_ROOT) != 0)
        return exposure->root_out ? sum_into_root : sum_at_root;
    if (exposure->outs)
        return sum_into_all;
    if (host->threads && host->settings.direct)
        return sum_and_copy;
    return host->size <= SYMC_READ_WHOLE_MAX ? sum_whole : NULL;
}

/*
 * Returns whether an all-gather exceeds the caches: the sender then writes to all
 * results, because each input is read from memory once instead of once for each rank.
 * Alike on all ranks, so it depends on no setting.
 */
static bool exceeds_caches(
    const struct symc_host *host, const struct symc_op *op)
{
    return op->count * op->elem >
           CACHES / (size_t)host->size / ((size_t)host->size + 1);
}

/* Chooses the work, alike on all ranks; NULL: staging is needed. */
static move_fn choose(const struct symc_host *host, const struct symc_op *op,
    const struct symc_exposure *exposure)
{
    const struct symc_kind_info *info = &symc_kinds[op->kind];

    if ((info->traits & SYMC_REDUCES) != 0)
        return choose_sum(host, info, exposure);
    if (info->out_parts != SYMC_ALL_PARTS) {
        if (exposure->root_in && exposure->outs &&
            info->in_parts != SYMC_ALL_PARTS)
            return share_with_root;
        if (exposure->root_in)
            return take_from_root;
        return exposure->outs ? put_to_all : NULL;
    }
    if ((info->traits & SYMC_TO_ROOT) != 0 && exposure->root_out)
        return put_to_root;
    if (exposure->outs && info->in_parts == SYMC_ONE_PART &&
        (info->traits & SYMC_UNEVEN) == 0 && exceeds_caches(host, op))
        return put_chunks;
    if (exposure->ins)
        return take_from_all;
    return exposure->outs ? put_to_all : NULL;
}

/* Returns whether the elements are too many to stay in the caches.  put_chunks() uses the
 * caches better, as it reads once (measured at 16 and 64 MiB, two ranks). */
static bool is_large(const struct direct *direct, move_fn move, bool alone)
{
    const struct symc_host *host = direct->host;
    const struct symc_exposed *mine = &host->exposed[host->rank];
    const struct symc_op *op = direct->op;
    size_t least = host->settings.stream_min;
    size_t times =
        move == put_chunks ? 2 * SYMC_STREAM_TIMES : SYMC_STREAM_TIMES;

    if (alone)
        return op->count * op->elem >= least;
    return symc_host_footprint(host, op, mine->in == mine->out) / times > least;
}

/* Returns whether to use non-temporal stores: not for data that has just been read, or
 * will be read again. */
static bool streams(const struct direct *direct, move_fn move)
{
    const struct symc_host *host = direct->host;
    const struct symc_op *op = direct->op;
    bool alone = host->threads && host->settings.direct && move != sum_into_all;

    if (!is_large(direct, move, alone))
        return false;
    if (alone)
        return true;
    for (int r = 0; symc_kind_has(op->kind, SYMC_REDUCES) && r < host->size;
         r++) {
        if (host->exposed[r].out == host->exposed[r].in)
            return false;
    }
    return host->size == 2 || move != sum_into_all;
}

/* ---- one operation ---- */

/* Publishes this rank's header, and compares the arguments and counts of all ranks. */
static symmcoll_status_t synchronise(struct symc_host *host,
    const struct symc_op *op, const struct symc_names *names)
{
    bool uneven = symc_kind_has(op->kind, SYMC_UNEVEN);
    symmcoll_status_t status = SYMMCOLL_OK;

    if (uneven)
        status = symc_host_put_counts(host, op);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_host_synchronise(host, op, &names->line, names->nbytes);
    if (status != SYMMCOLL_OK || !uneven)
        return status;
    return symc_host_compare_counts(host, op);
}

/* Does this rank's work, and waits until all ranks have done theirs. */
static symmcoll_status_t run(struct direct *direct, move_fn move)
{
    symmcoll_status_t status;

    symc_host_begin_chunks(direct->host, direct->op, &direct->chunks);
    direct->streaming = streams(direct, move);
    status = move(direct);
    if (status == SYMMCOLL_OK)
        return symc_host_end_chunks(&direct->chunks);
    symc_host_leave(&direct->chunks);
    return status;
}

symmcoll_status_t symc_host_large(struct symc_host *host,
    const struct symc_op *op, symc_host_staged_fn staged)
{
    struct direct direct = {.host = host, .op = op};
    struct symc_exposure exposure;
    struct symc_names names;
    symmcoll_status_t status = SYMMCOLL_OK;
    move_fn move;

    symc_host_find_parts(host, op);
    if (symc_host_names_beside(host, op))
        status = symc_host_await_room(host, op, SYMC_AREAS);
    if (status != SYMMCOLL_OK)
        goto revoke;
    names = symc_host_name(host, op);
    status = synchronise(host, op, &names);
    if (status != SYMMCOLL_OK)
        goto revoke;
    if (symc_kind_has(op->kind, SYMC_UNEVEN) &&
        symc_host_all_beside(host, op)) {
        symc_host_take_beside(host, op);
        return SYMMCOLL_OK;
    }
    status = symc_host_find_exposed(host, op, &names, &exposure);
    if (status != SYMMCOLL_OK)
        goto revoke;
    move = choose(host, op, &exposure);
    if (move == NULL) {
        status = symc_host_reserve(host, op);
        return status == SYMMCOLL_OK ? staged(host, op) : status;
    }
    status = run(&direct, move);

revoke:
    /* After a MISMATCH or CONFIG no rank accesses the buffers: all ranks ended alike. */
    if (status != SYMMCOLL_OK && status != SYMMCOLL_ERR_MISMATCH &&
        status != SYMMCOLL_ERR_CONFIG)
        symc_host_revoke(host, op);
    return status;
}

/* Fails because no way was found; threads always have one. */
static symmcoll_status_t lack(struct symc_host *host, const struct symc_op *op)
{
    return host->core->fail(SYMMCOLL_ERR_INTERNAL, "%s: no way without staging",
        symc_kind_name(op->kind));
}

symmcoll_status_t symc_host_direct(
    struct symc_host *host, const struct symc_op *op)
{
    return symc_host_large(host, op, lack);
}
