/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks use each other's buffers where they lie: no staging, and no copy that
 * the operation does not need.  Threads read all buffers of each other; buffers
 * in symmetric memory are read and written by processes and threads alike.
 *
 * Bytes that a rank of W moves for a buffer of n, all_reduce: it reads n/W of
 * each of W inputs and writes as many to each of W results, where those are
 * symmetric; else, of threads, it writes its own result alone and copies
 * (W-1)/W n from the others'; else it reads all of W inputs.  reduce_scatter:
 * reads W parts, writes one.  reduce: as all_reduce, with one result; if that is
 * not symmetric the root reads all.  What only moves is copied once, by whoever
 * receives it if the inputs are exposed, else by whoever sends it.  Two
 * crossings: the header lines, and a counter that says that a rank is done with
 * the buffers of the others; a third where threads copy what others have summed.
 *
 * A buffer is exposed from the header on until its owner has seen everybody
 * drained, or has revoked it: see revoke.c.
 */
#include "host/exposed.h"

#include <string.h>

#define CHUNK ((size_t)256 * 1024)
#define WARM ((size_t)16 * 1024) /* what is read again stays in cache */

struct direct {
    struct symc_host *host;
    const struct symc_op *op;
    struct symc_reduction reduction;
    bool streaming;
};

/* How an operation is done, by this rank. */
typedef symmcoll_status_t (*move_fn)(const struct direct *direct);

/* ---- chunks ---- */

/* Whose results a sum is written to: of so many ranks from the first on, after
 * the last of the group rank 0. */
struct targets {
    int first;
    int count;
};

static char *target_at(
    const struct direct *direct, const struct targets *targets, int i)
{
    const struct symc_host *host = direct->host;

    return host->exposed[(targets->first + i) % host->size].out;
}

/* Sum elements [at, at + count) of everybody's input into all targets. */
static void sum_chunk(const struct direct *direct,
    const struct targets *targets, size_t at, size_t count)
{
    struct symc_host *host = direct->host;
    size_t skip = at * direct->op->elem, nbytes = count * direct->op->elem;
    char *first = target_at(direct, targets, 0) + skip;
    char *second =
        targets->count > 1 ? target_at(direct, targets, 1) + skip : NULL;

    for (int r = 0; r < host->size; r++)
        host->sources[r] = host->exposed[r].in + skip;
    symc_reduce(&direct->reduction, first, second, host->sources, host->size,
        count, direct->streaming);
    for (int i = 2; i < targets->count; i++)
        symc_copy(target_at(direct, targets, i) + skip, first, nbytes, false);
}

/* Sum elements [lo, hi) of everybody's input. */
static symmcoll_status_t sum(const struct direct *direct,
    const struct targets *targets, size_t lo, size_t hi)
{
    size_t step = (targets->count > 2 ? WARM : CHUNK) / direct->op->elem;

    for (size_t at = lo; at < hi; at += step) {
        if (!symc_host_enter(direct->host, direct->op, direct->host->size))
            return symc_host_fail_revoked(direct->host, direct->op);
        sum_chunk(direct, targets, at, hi - at < step ? hi - at : step);
        symc_host_leave(direct->host);
    }
    return SYMMCOLL_OK;
}

/* Copy from or to a peer's exposed memory. */
static symmcoll_status_t copy(const struct direct *direct, int peer, char *out,
    const char *in, size_t nbytes)
{
    for (size_t at = 0; out != in && at < nbytes; at += CHUNK) {
        if (!symc_host_enter(direct->host, direct->op, peer))
            return symc_host_fail_revoked(direct->host, direct->op);
        symc_copy(out + at, in + at, nbytes - at < CHUNK ? nbytes - at : CHUNK,
            direct->streaming);
        symc_host_leave(direct->host);
    }
    return SYMMCOLL_OK;
}

/* ---- sums ---- */

/* Into this rank's result alone. */
static symmcoll_status_t sum_whole(const struct direct *direct)
{
    struct targets own = {direct->host->rank, 1};

    return sum(direct, &own, 0, direct->op->count);
}

static symmcoll_status_t sum_own_part(const struct direct *direct)
{
    struct targets own = {direct->host->rank, 1};

    return sum(
        direct, &own, 0, direct->host->parts[direct->host->rank].out_count);
}

static symmcoll_status_t sum_at_root(const struct direct *direct)
{
    return direct->host->rank == direct->op->root ? sum_whole(direct)
                                                  : SYMMCOLL_OK;
}

/* This rank's share of the elements, into the results of targets. */
static symmcoll_status_t sum_share(
    const struct direct *direct, const struct targets *targets)
{
    const struct symc_op *op = direct->op;
    size_t lo, hi;

    symc_host_part(
        op->count, op->elem, direct->host->size, direct->host->rank, &lo, &hi);
    return sum(direct, targets, lo, hi);
}

static symmcoll_status_t sum_into_all(const struct direct *direct)
{
    struct targets all = {direct->host->rank, direct->host->size};

    return sum_share(direct, &all);
}

static symmcoll_status_t sum_into_root(const struct direct *direct)
{
    struct targets root = {direct->op->root, 1};

    return sum_share(direct, &root);
}

/* Sum the own share, then copy the others' from where they summed them. */
static symmcoll_status_t sum_and_copy(const struct direct *direct)
{
    struct symc_host *host = direct->host;
    const struct symc_op *op = direct->op;
    struct targets own = {host->rank, 1};
    symmcoll_status_t status = sum_share(direct, &own);

    if (status != SYMMCOLL_OK)
        return status;
    if (direct->streaming)
        symc_stream_fence();
    symc_host_post(host, &host->channels[host->rank]->reduced, host->rounds);
    for (int i = 1; i < host->size && status == SYMMCOLL_OK; i++) {
        int peer = (host->rank + i) % host->size;
        const char *from = host->exposed[peer].out;
        size_t lo, hi;

        symc_host_part(op->count, op->elem, host->size, peer, &lo, &hi);
        status = symc_host_wait(host, op, peer,
            offsetof(struct symc_channel, reduced), host->rounds);
        if (status == SYMMCOLL_OK)
            status = copy(direct, peer, (char *)op->out + lo * op->elem,
                from + lo * op->elem, (hi - lo) * op->elem);
    }
    return status;
}

/* ---- copies ---- */

/* This rank's part of everybody's input. */
static symmcoll_status_t take_from_all(const struct direct *direct)
{
    struct symc_host *host = direct->host;
    symmcoll_status_t status = SYMMCOLL_OK;

    if (!symc_kind_receives(direct->op->kind, direct->op->root == host->rank))
        return SYMMCOLL_OK;
    for (int i = 0; i < host->size && status == SYMMCOLL_OK; i++) {
        int peer = (host->rank + i) % host->size;
        const struct symc_host_part *part = &host->parts[peer];

        status = copy(direct, peer, part->out, host->exposed[peer].in,
            part->out_count * direct->op->elem);
    }
    return status;
}

static symmcoll_status_t take_from_root(const struct direct *direct)
{
    const struct symc_op *op = direct->op;

    return copy(direct, op->root, op->out, direct->host->exposed[op->root].in,
        op->count * op->elem);
}

/* What this rank has for a rank. */
static symmcoll_status_t put(const struct direct *direct, int peer)
{
    const struct symc_host *host = direct->host;
    const struct symc_host_part *part = &host->parts[peer];

    return copy(direct, peer, host->exposed[peer].out, part->in,
        part->in_count * direct->op->elem);
}

static symmcoll_status_t put_to_all(const struct direct *direct)
{
    const struct symc_host *host = direct->host;
    symmcoll_status_t status = SYMMCOLL_OK;

    if (!symc_kind_sends(direct->op->kind, direct->op->root == host->rank))
        return SYMMCOLL_OK;
    for (int i = 0; i < host->size && status == SYMMCOLL_OK; i++)
        status = put(direct, (host->rank + i) % host->size);
    return status;
}

static symmcoll_status_t put_to_root(const struct direct *direct)
{
    return put(direct, direct->op->root);
}

/* ---- the choice ---- */

/* With two ranks as many bytes as through staging, with three no fewer. */
#define READ_WHOLE_MAX 3

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
    return host->size <= READ_WHOLE_MAX ? sum_whole : NULL;
}

/* The same on all ranks; NULL: there is no such way. */
static move_fn choose(const struct symc_host *host, const struct symc_op *op,
    const struct symc_exposure *exposure)
{
    const struct symc_kind_info *info = &symc_kinds[op->kind];

    if ((info->traits & SYMC_REDUCES) != 0)
        return choose_sum(host, info, exposure);
    if (info->out_parts != SYMC_ALL_PARTS) {
        if (exposure->root_in)
            return take_from_root;
        return exposure->outs ? put_to_all : NULL;
    }
    if ((info->traits & SYMC_TO_ROOT) != 0 && exposure->root_out)
        return put_to_root;
    if (exposure->ins)
        return take_from_all;
    return exposure->outs ? put_to_all : NULL;
}

/* Elements that processes move stay in the caches longer, for there is one copy
 * of them less: so many times longer (measured from 8 to 64 MiB, two ranks). */
#define STREAM_TIMES 8

/* Whether to use non-temporal stores: not for what has just been read, or is
 * read again. */
static bool streams(
    const struct symc_host *host, const struct symc_op *op, move_fn move)
{
    size_t nbytes = op->count * op->elem;

    if (host->threads && host->settings.direct && move != sum_into_all)
        return nbytes >= host->settings.stream_min;
    if (move == take_from_all ||
        nbytes / STREAM_TIMES < host->settings.stream_min)
        return false;
    for (int r = 0; symc_kind_has(op->kind, SYMC_REDUCES) && r < host->size;
         r++) {
        if (host->exposed[r].out == host->exposed[r].in)
            return false;
    }
    return host->size == 2 || move != sum_into_all;
}

/* ---- one operation ---- */

/* Publish, and compare what all pass. */
static symmcoll_status_t synchronise(struct symc_host *host,
    const struct symc_op *op, const struct symc_names *names)
{
    bool uneven = symc_kind_has(op->kind, SYMC_UNEVEN);
    symmcoll_status_t status = SYMMCOLL_OK;

    if (uneven)
        status = symc_host_put_counts(host, op);
    if (status == SYMMCOLL_OK)
        status = symc_host_synchronise(host, op, &names->line, names->nbytes);
    if (status == SYMMCOLL_OK && uneven)
        status = symc_host_compare_counts(host, op);
    return status;
}

/* Move what is to be moved, and wait until all have. */
static symmcoll_status_t run(struct direct *direct, move_fn move)
{
    struct symc_host *host = direct->host;
    const struct symc_op *op = direct->op;
    struct symc_channel *channel = host->channels[host->rank];
    symmcoll_status_t status;

    host->rounds++;
    direct->reduction = symc_host_reduction(host, op);
    direct->streaming = streams(host, op, move);
    status = move(direct);
    if (direct->streaming)
        symc_stream_fence();
    /* What was moved last may have been of an owner that had left. */
    if (status == SYMMCOLL_OK && symc_host_any_revoked(host, op))
        status = symc_host_fail_revoked(host, op);
    if (status != SYMMCOLL_OK)
        return status;
    atomic_store_explicit(&channel->staged, host->rounds, memory_order_release);
    atomic_store_explicit(
        &channel->reduced, host->rounds, memory_order_release);
    symc_host_post(host, &channel->drained, host->rounds);
    return symc_host_wait_all(
        host, op, offsetof(struct symc_channel, drained), host->rounds);
}

symmcoll_status_t symc_host_large(struct symc_host *host,
    const struct symc_op *op, symc_host_staged_fn staged)
{
    struct direct direct = {.host = host, .op = op};
    struct symc_exposure exposure;
    struct symc_names names;
    symmcoll_status_t status;
    move_fn move;

    symc_host_find_parts(host, op);
    names = symc_host_name(host, op);
    status = synchronise(host, op, &names);
    if (status == SYMMCOLL_OK) {
        if (symc_kind_has(op->kind, SYMC_UNEVEN) &&
            symc_host_all_beside(host, op)) {
            symc_host_take_beside(host, op);
            return SYMMCOLL_OK;
        }
        exposure = symc_host_find_exposed(host, op, &names);
        move = choose(host, op, &exposure);
        if (move == NULL) {
            status = symc_host_reserve(host, op);
            return status == SYMMCOLL_OK ? staged(host, op) : status;
        }
        status = run(&direct, move);
    }
    /* After a MISMATCH or CONFIG nobody uses them: all ranks ended alike. */
    if (status != SYMMCOLL_OK && status != SYMMCOLL_ERR_MISMATCH &&
        status != SYMMCOLL_ERR_CONFIG)
        symc_host_revoke(host, op);
    return status;
}

/* Threads always have a way. */
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
