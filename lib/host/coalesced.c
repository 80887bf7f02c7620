/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several buffers in one small operation: a rank puts all its contributions one after
 * another beside its header line, and every rank computes its own results.  One
 * crossing, however many buffers there are.
 *
 * Also the parts that the larger form shares: pieces, and the comparison of counts,
 * which is all that is done here for buffers on devices.
 */
#include "host/coalesced.h"

#include <string.h>

_Static_assert(sizeof(struct symc_listed) <= SYMC_FACTOR_AT,
    "a line has room for it, and for a factor");

/* ---- pieces ---- */

struct symc_piece symc_host_piece_at(const struct symc_op *op,
    struct symc_cursor *cursor, size_t at, size_t limit)
{
    struct symc_piece piece;

    if (at < cursor->first)
        *cursor = (struct symc_cursor){0, 0};
    while (at - cursor->first >= op->counts[cursor->index])
        cursor->first += op->counts[cursor->index++];
    piece.index = cursor->index;
    piece.within = at - cursor->first;
    piece.count = op->counts[cursor->index] - piece.within;
    if (piece.count > limit - at)
        piece.count = limit - at;
    return piece;
}

/* ---- counts ---- */

struct symc_listed symc_host_listed(const struct symc_op *op)
{
    const size_t *counts = symc_op_counts(op);
    struct symc_listed listed = {.digest = 0};

    for (int i = 0; i < op->buffers; i++) {
        listed.digest =
            (listed.digest ^ counts[i]) * UINT64_C(0x9e3779b97f4a7c15);
        listed.digest ^= listed.digest >> 32;
        if (i < SYMC_LISTED_COUNTS)
            listed.counts[i] =
                counts[i] < UINT32_MAX ? (uint32_t)counts[i] : UINT32_MAX;
    }
    return listed;
}

symmcoll_status_t symc_host_compare_listed(
    struct symc_host *host, const struct symc_op *op)
{
    uint64_t mine, other;

    memcpy(
        &mine, symc_host_header(host, host->rank, op)->payload, sizeof(mine));
    for (int r = 0; r < host->size; r++) {
        memcpy(&other, symc_host_header(host, r, op)->payload, sizeof(other));
        if (other != mine)
            return symc_host_disagree(host, op);
    }
    return SYMMCOLL_OK;
}

/* ---- small operations ---- */

/* Returns the bytes of one part of all buffers. */
static size_t part_nbytes(const struct symc_op *op)
{
    return op->count * op->elem;
}

/* Puts this rank's contributions beside its line: for each rank its part of every
 * buffer. */
static void put(struct symc_host *host, const struct symc_op *op)
{
    size_t parts = symc_parts_count(symc_kinds[op->kind].in_parts, host->size);
    char *at = symc_host_beside(host, host->rank, op);

    for (size_t part = 0; part < parts; part++) {
        for (int i = 0; i < op->buffers; i++) {
            size_t nbytes = op->counts[i] * op->elem;

            if (nbytes > 0)
                memcpy(at, symc_op_in_of(op, i) + part * nbytes, nbytes);
            at += nbytes;
        }
    }
}

/* Reduces all buffers at once into private memory, and copies the results out. */
static void reduce(struct symc_host *host, const struct symc_op *op)
{
    struct symc_reduction reduction = symc_host_reduction(host, op);
    bool parts = symc_kinds[op->kind].in_parts == SYMC_ALL_PARTS;
    size_t offset = parts ? (size_t)host->rank * part_nbytes(op) : 0;
    const char *from = host->scratch;

    for (int r = 0; r < host->size; r++)
        host->sources[r] = (const char *)symc_host_beside(host, r, op) + offset;
    symc_reduce(&reduction, host->scratch, NULL, host->sources, host->size,
        op->count, false);
    for (int i = 0; i < op->buffers; i++) {
        size_t nbytes = op->counts[i] * op->elem;

        if (nbytes > 0)
            memcpy(symc_op_out_of(op, i), from, nbytes);
        from += nbytes;
    }
}

static void gather(struct symc_host *host, const struct symc_op *op)
{
    for (int r = 0; r < host->size; r++) {
        const char *from = symc_host_beside(host, r, op);

        for (int i = 0; i < op->buffers; i++) {
            size_t nbytes = op->counts[i] * op->elem;

            if (nbytes > 0)
                memcpy(
                    symc_op_out_of(op, i) + (size_t)r * nbytes, from, nbytes);
            from += nbytes;
        }
    }
}

static uint64_t depth(const struct symc_host *host, const struct symc_op *op)
{
    (void)host;
    (void)op;
    return SYMC_AREAS;
}

static bool publish(struct symc_host *host, const struct symc_op *op)
{
    struct symc_listed listed = symc_host_listed(op);

    if (op->memory == SYMC_MEMORY_HOST)
        put(host, op);
    return symc_host_publish(host, op, &listed, sizeof(listed));
}

static symmcoll_status_t finish(
    struct symc_host *host, const struct symc_op *op)
{
    symmcoll_status_t status = symc_host_compare_listed(host, op);

    if (status != SYMMCOLL_OK)
        return status;
    if (op->memory != SYMC_MEMORY_HOST)
        symc_host_keep_agreed(host, op);
    else if (symc_kind_has(op->kind, SYMC_REDUCES))
        reduce(host, op);
    else
        gather(host, op);
    return SYMMCOLL_OK;
}

static symmcoll_status_t end(struct symc_host *host, const struct symc_op *op)
{
    symmcoll_status_t status = symc_host_collect(host, op);

    return status == SYMMCOLL_OK ? finish(host, op) : status;
}

const struct symc_resumable symc_host_coalesced_parts = {
    .depth = depth, .publish = publish, .end = end};

symmcoll_status_t symc_host_coalesced(
    struct symc_host *host, const struct symc_op *op)
{
    struct symc_listed listed = symc_host_listed(op);
    symmcoll_status_t status = symc_host_await_room(host, op, SYMC_AREAS);

    if (status != SYMMCOLL_OK)
        return status;
    if (op->memory == SYMC_MEMORY_HOST)
        put(host, op);
    status = symc_host_synchronise(host, op, &listed, sizeof(listed));
    return status == SYMMCOLL_OK ? finish(host, op) : status;
}
