/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One shot, for small messages: every rank's contribution is in or beside its
 * header line, and every rank computes its own result.  One transfer of a cache
 * line and no second one, because the lines are used in turn (wire.h).
 */
#include "host/host.h"

#include <string.h>

static void reduce(struct symc_host *host, const struct symc_op *op,
    size_t nbytes, size_t offset)
{
    struct symc_reduction reduction = symc_host_reduction(host, op);

    for (int r = 0; r < host->size; r++)
        host->sources[r] =
            (const char *)(r == host->rank
                               ? op->in
                               : symc_host_payload(host, r, op, nbytes)) +
            offset;
    symc_reduce(
        &reduction, op->out, NULL, host->sources, host->size, op->count, false);
}

/* This rank's contribution to its own result. */
static const char *own_part(const struct symc_op *op, int rank)
{
    return symc_kinds[op->kind].in_parts == SYMC_ALL_PARTS
               ? symc_op_in_at(op, rank)
               : op->in;
}

/* Copy a part from everybody's contribution of nbytes, from `offset` on. */
static void gather(struct symc_host *host, const struct symc_op *op,
    size_t nbytes, size_t offset)
{
    size_t part = op->count * op->elem;

    for (int r = 0; r < host->size; r++) {
        char *out = symc_op_out_at(op, r);
        const char *in =
            r == host->rank
                ? own_part(op, r)
                : (const char *)symc_host_payload(host, r, op, nbytes) + offset;

        if (out != in)
            memcpy(out, in, part);
    }
}

/* Copy a part from the root's contribution of nbytes, from `offset` on. */
static void fetch(struct symc_host *host, const struct symc_op *op,
    size_t nbytes, size_t offset)
{
    const char *in = host->rank == op->root ? own_part(op, op->root)
                                            : (const char *)symc_host_payload(
                                                  host, op->root, op, nbytes) +
                                                  offset;

    if (op->out != in)
        memcpy(op->out, in, op->count * op->elem);
}

/* Everybody's contribution is here and they agree: make this rank's result. */
static void finish(
    struct symc_host *host, const struct symc_op *op, size_t nbytes)
{
    const struct symc_kind_info *info = &symc_kinds[op->kind];
    size_t offset = info->in_parts == SYMC_ALL_PARTS
                        ? (size_t)host->rank * op->count * op->elem
                        : 0;

    if (host->rank != op->root && (info->traits & SYMC_TO_ROOT) != 0)
        return;
    if ((info->traits & SYMC_REDUCES) != 0)
        reduce(host, op, nbytes, offset);
    else if (info->out_parts == SYMC_ALL_PARTS)
        gather(host, op, nbytes, offset);
    else
        fetch(host, op, nbytes, offset);
}

/* Bytes of one rank's contribution.  What is not in host memory is compared
 * here and moved by another backend. */
static inline size_t contribution(
    const struct symc_host *host, const struct symc_op *op)
{
    return op->memory == SYMC_MEMORY_HOST ? symc_op_in_nbytes(op, host->size)
                                          : 0;
}

/* What this rank puts beside its line and into it, of that many bytes. */
struct given {
    size_t beside;
    size_t in_line;
};

static inline struct given given_by(
    const struct symc_host *host, const struct symc_op *op, size_t nbytes)
{
    if (!symc_kind_sends(op->kind, host->rank == op->root))
        return (struct given){0, 0};
    return symc_host_fits_line(op, nbytes) ? (struct given){0, nbytes}
                                           : (struct given){nbytes, 0};
}

/* Put this rank's contribution of nbytes beside its line; its own part of that
 * nobody reads. */
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

/* A contribution that fits the line: as it is, or put together in there. */
static const void *put_together(
    const struct symc_host *host, const struct symc_op *op, char *line)
{
    size_t part = op->count * op->elem;

    if (!op->listed || op->lists->ins == NULL ||
        part * (size_t)host->size > SYMC_PAYLOAD ||
        op->memory != SYMC_MEMORY_HOST)
        return op->in;
    for (int r = 0; r < host->size; r++)
        memcpy(line + (size_t)r * part, symc_op_in_at(op, r), part);
    return line;
}

static uint64_t depth(const struct symc_host *host, const struct symc_op *op)
{
    size_t nbytes = contribution(host, op);

    return given_by(host, op, nbytes).beside > 0 ? SYMC_AREAS : SYMC_LINES;
}

static bool publish(struct symc_host *host, const struct symc_op *op)
{
    struct given given = given_by(host, op, contribution(host, op));
    char line[SYMC_PAYLOAD];

    if (given.beside > 0)
        put_beside(host, op, given.beside);
    return symc_host_publish(
        host, op, 0, put_together(host, op, line), given.in_line);
}

static symmcoll_status_t end(struct symc_host *host, const struct symc_op *op)
{
    size_t nbytes = contribution(host, op);
    symmcoll_status_t status = symc_host_collect(host, op, 0);

    if (status == SYMMCOLL_OK && nbytes > 0)
        finish(host, op, nbytes);
    return status;
}

const struct symc_resumable symc_host_one_shot_parts = {
    .depth = depth, .publish = publish, .end = end};

symmcoll_status_t symc_host_one_shot(
    struct symc_host *host, const struct symc_op *op)
{
    size_t nbytes = contribution(host, op);
    struct given given = given_by(host, op, nbytes);
    symmcoll_status_t status = SYMMCOLL_OK;
    char line[SYMC_PAYLOAD];

    if (given.beside > 0) {
        status = symc_host_await_room(host, op, SYMC_AREAS);
        if (status == SYMMCOLL_OK)
            put_beside(host, op, given.beside);
    }
    if (status == SYMMCOLL_OK)
        status = symc_host_synchronise(
            host, op, 0, put_together(host, op, line), given.in_line);
    if (status == SYMMCOLL_OK && nbytes > 0)
        finish(host, op, nbytes);
    return status;
}
