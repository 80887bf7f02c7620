/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads of one process read each other's buffers: no staging, and one copy
 * less.  The addresses are in the header lines.
 *
 * A buffer is exposed from the header on until its owner has seen everybody
 * drained.  An owner that leaves early (a timeout, a dead peer, an abort)
 * revokes its buffers: it stores up to which operation they are revoked, and
 * waits until no peer is inside a chunk of them.  A reader stores whom it
 * reads, checks whether that rank has revoked, and reads one chunk; both in
 * sequentially consistent order, so that one of the two sees the other.  A
 * chunk loop never blocks, so the owner's wait is short.
 */
#include "host/host.h"

#include <sched.h>
#include <string.h>

#define CHUNK ((size_t)256 * 1024)

/* What a rank exposes, in its header's payload. */
struct exposed {
    const void *in;
    void *out;
    const struct symc_host_part *parts; /* of an input that has all parts */
};

struct direct {
    struct symc_host *host;
    const struct symc_op *op;
    struct symc_reduction reduction;
    bool streaming;
};

static struct exposed exposed_by(const struct direct *direct, int rank)
{
    struct exposed exposed;

    memcpy(&exposed,
        symc_header_at(direct->host->channels[rank], direct->op->wire)->payload,
        sizeof(exposed));
    return exposed;
}

/* A rank's input, of which this rank reads a part if it has all parts. */
static const char *input_of(const struct direct *direct, int rank)
{
    struct exposed exposed = exposed_by(direct, rank);

    return symc_kinds[direct->op->kind].in_parts == SYMC_ALL_PARTS
               ? exposed.parts[direct->host->rank].in
               : exposed.in;
}

static bool is_revoked(const struct direct *direct, int rank)
{
    return atomic_load(&direct->host->channels[rank]->revoked) >=
           direct->op->wire;
}

/* Begin to read a peer's buffers; false where it has revoked them. peer may be
 * the group's size: then all of them. */
static bool enter(const struct direct *direct, int peer)
{
    struct symc_host *host = direct->host;
    struct symc_channel *mine = host->channels[host->rank];

    atomic_store(&mine->inside, (uint32_t)peer + 1);
    if (peer < host->size)
        return !is_revoked(direct, peer);
    for (int r = 0; r < host->size; r++) {
        if (is_revoked(direct, r))
            return false;
    }
    return true;
}

static void leave(const struct direct *direct)
{
    struct symc_host *host = direct->host;

    atomic_store_explicit(
        &host->channels[host->rank]->inside, 0, memory_order_release);
}

/* Revoke this rank's buffers. */
static void revoke(const struct direct *direct)
{
    struct symc_host *host = direct->host;

    atomic_store(&host->channels[host->rank]->revoked, direct->op->wire);
    for (int r = 0; r < host->size; r++) {
        const _Atomic uint32_t *inside = &host->channels[r]->inside;
        uint32_t found;

        if (r == host->rank)
            continue;
        while ((found = atomic_load(inside)) == (uint32_t)host->rank + 1 ||
               found == (uint32_t)host->size + 1)
            sched_yield();
    }
}

/* A peer revoked its buffers: the group has failed, and its status tells
 * why. */
static symmcoll_status_t fail_revoked(const struct direct *direct)
{
    const struct symc_core *core = direct->host->core;

    if (core->failed(core->group, -1))
        return core->failure(core->group, direct->op, -1);
    return core->fail(SYMMCOLL_ERR_INTERNAL, "%s: a peer left without a reason",
        symc_kind_name(direct->op->kind));
}

/* Sum elements [lo, hi) of everybody's input into out + lo. */
static symmcoll_status_t sum(const struct direct *direct, size_t lo, size_t hi)
{
    struct symc_host *host = direct->host;
    const struct symc_op *op = direct->op;
    size_t step = CHUNK / op->elem;

    for (size_t at = lo; at < hi; at += step) {
        size_t count = hi - at < step ? hi - at : step;

        if (!enter(direct, host->size)) {
            leave(direct);
            return fail_revoked(direct);
        }
        for (int r = 0; r < host->size; r++)
            host->sources[r] = input_of(direct, r) + at * op->elem;
        symc_reduce(&direct->reduction, (char *)op->out + at * op->elem, NULL,
            host->sources, host->size, count, direct->streaming);
        leave(direct);
    }
    return SYMMCOLL_OK;
}

/* Copy from a peer's exposed memory. */
static symmcoll_status_t fetch(const struct direct *direct, int peer, char *out,
    const char *in, size_t nbytes)
{
    for (size_t at = 0; at < nbytes; at += CHUNK) {
        if (!enter(direct, peer)) {
            leave(direct);
            return fail_revoked(direct);
        }
        symc_copy(out + at, in + at, nbytes - at < CHUNK ? nbytes - at : CHUNK,
            direct->streaming);
        leave(direct);
    }
    return SYMMCOLL_OK;
}

/* Sum the own part, then fetch the others' from where they summed them. */
static symmcoll_status_t all_reduce(struct direct *direct)
{
    struct symc_host *host = direct->host;
    const struct symc_op *op = direct->op;
    size_t lo, hi;

    symc_host_part(op->count, op->elem, host->size, host->rank, &lo, &hi);

    symmcoll_status_t status = sum(direct, lo, hi);
    if (status != SYMMCOLL_OK)
        return status;
    if (direct->streaming)
        symc_stream_fence();
    symc_host_post(host, &host->channels[host->rank]->reduced, host->rounds);
    for (int i = 1; i < host->size && status == SYMMCOLL_OK; i++) {
        int peer = (host->rank + i) % host->size;
        const char *from = exposed_by(direct, peer).out;

        symc_host_part(op->count, op->elem, host->size, peer, &lo, &hi);
        status = symc_host_wait(host, op, peer,
            offsetof(struct symc_channel, reduced), host->rounds);
        if (status == SYMMCOLL_OK)
            status = fetch(direct, peer, (char *)op->out + lo * op->elem,
                from + lo * op->elem, (hi - lo) * op->elem);
    }
    return status;
}

/* Copy from everybody's input. */
static symmcoll_status_t gather(struct direct *direct)
{
    struct symc_host *host = direct->host;
    const struct symc_op *op = direct->op;
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int i = 0; i < host->size && status == SYMMCOLL_OK; i++) {
        int peer = (host->rank + i) % host->size;
        const struct symc_host_part *part = &host->parts[peer];
        const char *in = input_of(direct, peer);

        if (part->out != in)
            status =
                fetch(direct, peer, part->out, in, part->out_count * op->elem);
    }
    return status;
}

static symmcoll_status_t move(struct direct *direct)
{
    struct symc_host *host = direct->host;
    const struct symc_op *op = direct->op;
    const struct symc_kind_info *info = &symc_kinds[op->kind];
    bool is_root = op->root == host->rank;
    const char *in;

    if (!symc_kind_receives(op->kind, is_root))
        return SYMMCOLL_OK;
    if ((info->traits & SYMC_REDUCES) != 0) {
        if (info->in_parts == SYMC_ALL_PARTS)
            return sum(direct, 0, host->parts[host->rank].out_count);
        return (info->traits & SYMC_TO_ROOT) != 0 ? sum(direct, 0, op->count)
                                                  : all_reduce(direct);
    }
    if (info->out_parts == SYMC_ALL_PARTS)
        return gather(direct);
    in = input_of(direct, op->root);
    return op->out == in
               ? SYMMCOLL_OK
               : fetch(direct, op->root, op->out, in, op->count * op->elem);
}

/* Publish, and compare what all pass. */
static symmcoll_status_t synchronise(
    struct symc_host *host, const struct symc_op *op)
{
    struct exposed mine = {.in = op->in, .out = op->out, .parts = host->parts};
    bool uneven = symc_kind_has(op->kind, SYMC_UNEVEN);
    symmcoll_status_t status = SYMMCOLL_OK;

    symc_host_find_parts(host, op);
    if (uneven)
        status = symc_host_put_counts(host, op);
    if (status == SYMMCOLL_OK)
        status = symc_host_synchronise(host, op, &mine, sizeof(mine));
    if (status == SYMMCOLL_OK && uneven)
        status = symc_host_compare_counts(host, op);
    return status;
}

symmcoll_status_t symc_host_direct(
    struct symc_host *host, const struct symc_op *op)
{
    struct symc_channel *channel = host->channels[host->rank];
    struct direct direct = {.host = host, .op = op};
    bool exposed = true;

    symmcoll_status_t status = synchronise(host, op);
    if (status == SYMMCOLL_OK && symc_kind_has(op->kind, SYMC_UNEVEN) &&
        symc_host_all_beside(host, op)) {
        symc_host_take_beside(host, op);
        return SYMMCOLL_OK;
    }
    if (status == SYMMCOLL_ERR_MISMATCH || status == SYMMCOLL_ERR_CONFIG)
        exposed = false; /* nobody reads: all ranks ended alike */
    if (status == SYMMCOLL_OK) {
        host->rounds++;
        direct.reduction = symc_host_reduction(host, op);
        direct.streaming = op->count * op->elem >= host->settings.stream_min;
        status = move(&direct);
        if (direct.streaming)
            symc_stream_fence();
    }
    if (status == SYMMCOLL_OK) {
        atomic_store_explicit(
            &channel->staged, host->rounds, memory_order_release);
        atomic_store_explicit(
            &channel->reduced, host->rounds, memory_order_release);
        symc_host_post(host, &channel->drained, host->rounds);
        status = symc_host_wait_all(
            host, op, offsetof(struct symc_channel, drained), host->rounds);
    }
    if (status != SYMMCOLL_OK && exposed)
        revoke(&direct);
    return status;
}
