/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One shot, for small messages: every rank's contribution is in or beside its header
 * line, and every rank computes its own result.  A cache line is transferred once, and
 * no second crossing is needed because the lines are used in turn (wire.h).
 */
#include "host/host.h"

#include "backend/placement.h"

#include <string.h>

#define CLAIMED_MAX ((size_t)1024) /* bytes */

/* Returns how many of this rank's nbytes others read: not its part for itself. */
static inline size_t for_others(const struct symc_op *op, size_t nbytes)
{
    return symc_kinds[op->kind].in_parts == SYMC_ALL_PARTS && nbytes > 0
               ? nbytes - op->count * op->elem
               : nbytes;
}

/* The place where a rank reads the other ranks' contributions to it. */
struct place {
    bool in_line;
    size_t offset; /* from the start of a contribution */
    size_t own;    /* bytes of a part that a lower rank has left out before */
};

static inline struct place place_of(
    const struct symc_host *host, const struct symc_op *op, size_t nbytes)
{
    bool in_line = symc_host_fits_line(op, for_others(op, nbytes));
    size_t part = op->count * op->elem;

    if (symc_kinds[op->kind].in_parts != SYMC_ALL_PARTS)
        return (struct place){.in_line = in_line};
    return (struct place){.in_line = in_line,
        .offset = (size_t)host->rank * part,
        .own = in_line ? part : 0};
}

static inline const char *at_peer(const struct symc_host *host, int peer,
    const struct symc_op *op, const struct place *place)
{
    const char *from =
        place->in_line ? (const char *)symc_host_header(host, peer, op)->payload
                       : symc_host_beside(host, peer, op);

    return from + place->offset - (peer < host->rank ? place->own : 0);
}

/* Returns this rank's contribution to its own result. */
static const char *own_part(const struct symc_op *op, int rank)
{
    return symc_kinds[op->kind].in_parts == SYMC_ALL_PARTS
               ? symc_op_in_at(op, rank)
               : op->in;
}

static void reduce(
    struct symc_host *host, const struct symc_op *op, const struct place *place)
{
    struct symc_reduction reduction = symc_host_reduction(host, op);

    for (int r = 0; r < host->size; r++)
        host->sources[r] =
            r == host->rank ? own_part(op, r) : at_peer(host, r, op, place);
    symc_reduce(
        &reduction, op->out, NULL, host->sources, host->size, op->count, false);
}

/* Copies a part from every rank's contribution. */
static void gather(const struct symc_host *host, const struct symc_op *op,
    const struct place *place)
{
    size_t part = op->count * op->elem;

    for (int r = 0; r < host->size; r++) {
        char *out = symc_op_out_at(op, r);
        const char *in =
            r == host->rank ? own_part(op, r) : at_peer(host, r, op, place);

        if (out != in)
            memcpy(out, in, part);
    }
}

/* Copies a part from the root's contribution. */
static void fetch(const struct symc_host *host, const struct symc_op *op,
    const struct place *place)
{
    const char *in = host->rank == op->root
                         ? own_part(op, op->root)
                         : at_peer(host, op->root, op, place);

    if (op->out != in)
        memcpy(op->out, in, op->count * op->elem);
}

/* Makes this rank's result; all contributions are there and agree. */
static void finish(
    struct symc_host *host, const struct symc_op *op, size_t nbytes)
{
    const struct symc_kind_info *info = &symc_kinds[op->kind];
    struct place place;

    if (host->rank != op->root && (info->traits & SYMC_TO_ROOT) != 0)
        return;
    place = place_of(host, op, nbytes);
    if ((info->traits & SYMC_REDUCES) != 0)
        reduce(host, op, &place);
    else if (info->out_parts == SYMC_ALL_PARTS)
        gather(host, op, &place);
    else
        fetch(host, op, &place);
}

/* Returns the bytes of one rank's contribution: 0 for non-host memory, which another
 * backend moves after the comparison here. */
static inline size_t contribution(
    const struct symc_host *host, const struct symc_op *op)
{
    return op->memory == SYMC_MEMORY_HOST ? symc_op_in_nbytes(op, host->size)
                                          : 0;
}

/* Synchronises; for non-host memory the members compare the placement of their
 * buffers. */
static symmcoll_status_t synchronise(struct symc_host *host,
    const struct symc_op *op, const void *payload, size_t nbytes)
{
    struct symc_placement mine;

    if (!symc_is_placed(op))
        return symc_host_synchronise(host, op, payload, nbytes);
    mine = symc_placement_of(host->core, op, host->size);
    return symc_host_synchronise(host, op, &mine, sizeof(mine));
}

/* The bytes of its contribution that this rank publishes: all of it beside its line, or
 * what others read in the line. */
struct given {
    size_t beside;
    size_t in_line;
};

static inline struct given given_by(
    const struct symc_host *host, const struct symc_op *op, size_t nbytes)
{
    if (!symc_kind_sends(op->kind, host->rank == op->root))
        return (struct given){0, 0};
    if (!symc_host_fits_line(op, for_others(op, nbytes)))
        return (struct given){nbytes, 0};
    return (struct given){0, for_others(op, nbytes)};
}

/* Puts this rank's contribution of nbytes beside its line, except its part for itself,
 * which no rank reads. */
static void put_beside(
    const struct symc_host *host, const struct symc_op *op, size_t nbytes)
{
    char *beside = symc_host_beside(host, host->rank, op);
    size_t part = op->count * op->elem;
    size_t before = (size_t)host->rank * part, after = before + part;
    const char *in = op->in;

    if (symc_kinds[op->kind].in_parts != SYMC_ALL_PARTS) {
        memcpy(beside, in, nbytes);
    } else if (!op->listed) {
        memcpy(beside, in, before);
        memcpy(beside + after, in + after, nbytes - after);
    } else {
        for (int r = 0; r < host->size; r++) {
            if (r != host->rank)
                memcpy(beside + (size_t)r * part, symc_op_in_at(op, r), part);
        }
    }
}

/* Returns the data for the line: the input, or a copy (line) without this rank's part for
 * itself. */
static const void *put_together(const struct symc_host *host,
    const struct symc_op *op, size_t in_line, char *line)
{
    size_t part = op->count * op->elem;

    if (symc_kinds[op->kind].in_parts != SYMC_ALL_PARTS || in_line == 0)
        return op->in;
    if (host->size == 2)
        return symc_op_in_at(op, 1 - host->rank);
    for (int r = 0, at = 0; r < host->size; r++) {
        if (r != host->rank)
            memcpy(line + (size_t)at++ * part, symc_op_in_at(op, r), part);
    }
    return line;
}

/*
 * Prefetches for writing the area beside this rank's line of the next operation,
 * assuming as many bytes: peers last read it in the operation before this one, see
 * claim_next() in header.c.  More lines than the processor fetches at once would delay
 * the lines that this operation waits for.
 */
static inline void claim_beside(
    const struct symc_host *host, const struct symc_op *op, size_t nbytes)
{
    const unsigned char *next = host->channels[host->rank]->small +
                                (op->wire + 1) % SYMC_AREAS * host->small;

    if (nbytes > CLAIMED_MAX)
        return;
    for (size_t at = 0; at < nbytes; at += SYMC_LINE)
        symc_claim(next + at);
}

static uint64_t depth(const struct symc_host *host, const struct symc_op *op)
{
    size_t nbytes = contribution(host, op);

    return given_by(host, op, nbytes).beside > 0 ? SYMC_AREAS : SYMC_LINES;
}

static bool publish(struct symc_host *host, const struct symc_op *op)
{
    struct given given = given_by(host, op, contribution(host, op));
    struct symc_placement mine;
    char line[SYMC_PAYLOAD];

    if (symc_is_placed(op)) {
        mine = symc_placement_of(host->core, op, host->size);
        return symc_host_publish(host, op, &mine, sizeof(mine));
    }
    if (given.beside > 0)
        put_beside(host, op, given.beside);
    return symc_host_publish(
        host, op, put_together(host, op, given.in_line, line), given.in_line);
}

static symmcoll_status_t end(struct symc_host *host, const struct symc_op *op)
{
    size_t nbytes = contribution(host, op);
    symmcoll_status_t status = symc_host_collect(host, op);

    if (status != SYMMCOLL_OK)
        return status;
    if (nbytes > 0)
        finish(host, op, nbytes);
    else
        symc_host_keep_agreed(host, op);
    return SYMMCOLL_OK;
}

const struct symc_resumable symc_host_one_shot_parts = {
    .depth = depth, .publish = publish, .end = end};

symmcoll_status_t symc_host_one_shot(
    struct symc_host *host, const struct symc_op *op)
{
    size_t nbytes = contribution(host, op);
    struct given given = given_by(host, op, nbytes);
    symmcoll_status_t status;
    char line[SYMC_PAYLOAD];

    if (given.beside > 0) {
        status = symc_host_await_room(host, op, SYMC_AREAS);
        if (status != SYMMCOLL_OK)
            return status;
        put_beside(host, op, given.beside);
    }
    status = synchronise(
        host, op, put_together(host, op, given.in_line, line), given.in_line);
    if (status != SYMMCOLL_OK)
        return status;
    if (given.beside > 0)
        claim_beside(host, op, given.beside);
    if (nbytes > 0)
        finish(host, op, nbytes);
    else
        symc_host_keep_agreed(host, op);
    return SYMMCOLL_OK;
}
