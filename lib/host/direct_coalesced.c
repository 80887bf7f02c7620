/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several buffers in symmetric memory, accessed in place as direct.c accesses those of
 * one operation.  Beside its header line a rank puts a digest of the places of all its
 * inputs, and one of its results: the numbers of the symmetric buffers, and the
 * offsets.  If they are the same on all ranks, each rank finds the others' buffers at
 * its own places.
 *
 * Bytes and crossings are those of direct.c; in an all_reduce a rank's share is a share
 * of all elements, as if the buffers followed one another.
 */
#include "host/coalesced.h"
#include "host/exposed.h"

/* Digests; 0: some buffer is not in symmetric memory. */
struct digests {
    uint64_t ins;
    uint64_t outs;
};

struct several {
    struct symc_host *host;
    const struct symc_op *op;
    struct symc_chunks chunks;
    bool streaming;
};

typedef void (*move_fn)(struct several *several);

/* ---- naming ---- */

static size_t nbytes_of(const struct symc_host *host, const struct symc_op *op,
    int index, bool is_out)
{
    const struct symc_kind_info *info = &symc_kinds[op->kind];

    return op->counts[index] * op->elem *
           symc_parts_count(
               is_out ? info->out_parts : info->in_parts, host->size);
}

static const struct symc_shared *find_shared(const struct symc_host *host,
    const struct symc_op *op, int index, bool is_out, size_t *offset)
{
    return symc_shared_find(host->core->shared,
        is_out ? symc_op_out_of(op, index) : symc_op_in_of(op, index),
        nbytes_of(host, op, index, is_out), offset);
}

static uint64_t digest_side(
    const struct symc_host *host, const struct symc_op *op, bool is_out)
{
    uint64_t digest = 1;

    for (int i = 0; i < op->buffers; i++) {
        const struct symc_shared *shared;
        size_t offset;

        if (op->counts[i] == 0)
            continue;
        shared = find_shared(host, op, i, is_out, &offset);
        if (shared == NULL)
            return 0;
        digest = (digest ^ shared->number) * UINT64_C(0x9e3779b97f4a7c15);
        digest =
            (digest ^ digest >> 32 ^ offset) * UINT64_C(0xbf58476d1ce4e5b9);
        digest ^= digest >> 29;
    }
    return digest != 0 ? digest : 1;
}

symmcoll_status_t symc_host_name_coalesced(
    struct symc_host *host, const struct symc_op *op)
{
    bool may = host->settings.symmetric && host->core->shared->count > 0;
    struct digests *mine = symc_host_beside(host, host->rank, op);
    symmcoll_status_t status = symc_host_await_room(host, op, SYMC_AREAS);

    if (status != SYMMCOLL_OK)
        return status;
    mine->ins = may ? digest_side(host, op, false) : 0;
    mine->outs = may ? digest_side(host, op, true) : 0;
    return SYMMCOLL_OK;
}

/* ---- moves ---- */

/* Finds a buffer's addresses on each rank, of the input from byte `skip` on, and of the
 * result. */
static void expose(struct several *several, int index, size_t skip)
{
    struct symc_host *host = several->host;
    const struct symc_op *op = several->op;
    size_t in_at = 0, out_at = 0;
    const struct symc_shared *in = find_shared(host, op, index, false, &in_at);
    const struct symc_shared *out = find_shared(host, op, index, true, &out_at);

    for (int r = 0; r < host->size; r++)
        host->exposed[r] = (struct symc_exposed){
            .in = in != NULL ? in->at[r] + in_at + skip : NULL,
            .out = out != NULL ? out->at[r] + out_at : NULL};
    host->exposed[host->rank] = (struct symc_exposed){
        symc_op_in_of(op, index) + skip, symc_op_out_of(op, index)};
}

/* Reduces elements [lo, hi) of all buffers. */
static void sum(
    struct several *several, struct symc_targets targets, size_t lo, size_t hi)
{
    struct symc_cursor cursor = {0, 0};
    struct symc_piece piece;

    for (; lo < hi; lo += piece.count) {
        piece = symc_host_piece_at(several->op, &cursor, lo, hi);
        expose(several, (int)piece.index, 0);
        (void)symc_moving_reduce(&several->chunks.moving, targets, piece.within,
            piece.within + piece.count, several->streaming);
    }
}

static void sum_into_all(struct several *several)
{
    const struct symc_host *host = several->host;
    const struct symc_op *op = several->op;
    struct symc_targets all = {host->rank, host->size};
    size_t lo, hi;

    several->streaming = false; /* data was just read, or is read again */
    symc_host_part(op->count, op->elem, host->size, host->rank, &lo, &hi);
    sum(several, all, lo, hi);
}

static void sum_whole(struct several *several)
{
    struct symc_targets own = {several->host->rank, 1};

    sum(several, own, 0, several->op->count);
}

static void sum_own_parts(struct several *several)
{
    const struct symc_host *host = several->host;
    const struct symc_op *op = several->op;
    struct symc_targets own = {host->rank, 1};

    for (int i = 0; i < op->buffers; i++) {
        if (op->counts[i] == 0)
            continue;
        expose(several, i, (size_t)host->rank * op->counts[i] * op->elem);
        (void)symc_moving_reduce(
            &several->chunks.moving, own, 0, op->counts[i], several->streaming);
    }
}

/* Copies between every rank and this one: their inputs to this rank or, to = true, this
 * rank's to them.  Each buffer's addresses are looked up once. */
static void copy_all(struct several *several, bool to)
{
    const struct symc_host *host = several->host;
    const struct symc_op *op = several->op;

    for (int i = 0; i < op->buffers; i++) {
        size_t nbytes = op->counts[i] * op->elem;

        if (nbytes == 0)
            continue;
        expose(several, i, 0);
        for (int k = 0; k < host->size; k++) {
            int peer = (host->rank + k) % host->size;
            int from = to ? host->rank : peer, into = to ? peer : host->rank;

            (void)symc_moving_copy(&several->chunks.moving, peer,
                host->exposed[into].out + (size_t)from * nbytes,
                host->exposed[from].in, nbytes, several->streaming);
        }
    }
}

static void take_from_all(struct several *several)
{
    copy_all(several, false);
}

static void put_to_all(struct several *several)
{
    copy_all(several, true);
}

/* ---- the choice ---- */

/* Returns whether all ranks have the same digest, and all buffers in symmetric memory. */
static bool all_have(
    const struct symc_host *host, const struct symc_op *op, bool is_out)
{
    const struct digests *first = symc_host_beside(host, 0, op);
    uint64_t digest = is_out ? first->outs : first->ins;

    for (int r = 1; r < host->size; r++) {
        const struct digests *other = symc_host_beside(host, r, op);

        if ((is_out ? other->outs : other->ins) != digest)
            return false;
    }
    return digest != 0;
}

/* Chooses the work, alike on all ranks; NULL: staging is needed. */
static move_fn choose(const struct symc_host *host, const struct symc_op *op)
{
    const struct symc_kind_info *info = &symc_kinds[op->kind];
    bool ins = all_have(host, op, false), outs = all_have(host, op, true);

    if ((info->traits & SYMC_REDUCES) == 0)
        return ins ? take_from_all : outs ? put_to_all : NULL;
    if (!ins)
        return NULL;
    if (info->in_parts == SYMC_ALL_PARTS)
        return sum_own_parts;
    if (outs)
        return sum_into_all;
    return host->size <= SYMC_READ_WHOLE_MAX ? sum_whole : NULL;
}

bool symc_host_direct_coalesced(
    struct symc_host *host, const struct symc_op *op, symmcoll_status_t *status)
{
    struct several several = {.host = host, .op = op};
    move_fn move = choose(host, op);

    if (move == NULL)
        return false;
    symc_host_begin_chunks(host, op, &several.chunks);
    several.streaming =
        symc_host_footprint(host, op, false) / SYMC_STREAM_TIMES >
        host->settings.stream_min;
    move(&several);
    *status = symc_host_end_chunks(&several.chunks);
    return true;
}
