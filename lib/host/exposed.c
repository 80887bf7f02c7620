/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Naming buffers in header lines, and finding those of all ranks.
 */
#include "host/exposed.h"

#include <string.h>

_Static_assert(sizeof(struct symc_named) <= SYMC_FACTOR_AT,
    "a line has room for it, and for a factor");

#define NUMBERS_NBYTES (2 * sizeof(uint32_t)) /* of a rank that names nothing */

/* Whether ranks name addresses: they are threads of one process. */
static bool names_addresses(const struct symc_host *host)
{
    return host->threads && host->settings.direct;
}

/* Bytes of a rank's input or result, and where in it this rank's part is. */
struct extent {
    size_t nbytes;
    size_t mine;
};

static struct extent extent_of(const struct symc_host *host,
    const struct symc_op *op, int rank, bool is_out)
{
    const struct symc_kind_info *info = &symc_kinds[op->kind];
    bool all = (is_out ? info->out_parts : info->in_parts) == SYMC_ALL_PARTS;
    struct extent extent = {0, 0};

    for (int r = 0; r < (all ? host->size : 1); r++) {
        size_t count = symc_host_count(host, op, rank, r, is_out);

        if (all && r < host->rank)
            extent.mine += count * op->elem;
        extent.nbytes += count * op->elem;
    }
    return extent;
}

/* ---- naming ---- */

/* The symmetric buffer that all of these bytes are in; NULL: none. */
static const struct symc_shared *find_shared(const struct symc_host *host,
    const void *data, size_t nbytes, uint32_t *number, uint64_t *at)
{
    const struct symc_shared *shared;
    size_t offset;

    if (!host->settings.symmetric)
        return NULL;
    shared = symc_shared_find(host->core->shared, data, nbytes, &offset);
    if (shared == NULL || shared->number > UINT32_MAX)
        return NULL;
    *number = (uint32_t)shared->number;
    *at = offset;
    return shared;
}

/* Bytes of all parts of this rank's input or result. */
static size_t own_nbytes(
    const struct symc_host *host, const struct symc_op *op, bool is_out)
{
    const struct symc_kind_info *info = &symc_kinds[op->kind];
    bool all = (is_out ? info->out_parts : info->in_parts) == SYMC_ALL_PARTS;
    size_t count = 0;

    for (int r = 0; r < (all ? host->size : 1); r++)
        count += is_out ? host->parts[r].out_count : host->parts[r].in_count;
    return count * op->elem;
}

struct symc_names symc_host_name(
    const struct symc_host *host, const struct symc_op *op)
{
    const struct symc_lists *lists = op->listed ? op->lists : NULL;
    bool is_root = op->root == host->rank;
    bool names_in = symc_kind_sends(op->kind, is_root) &&
                    (lists == NULL || lists->ins == NULL);
    bool names_out = symc_kind_receives(op->kind, is_root) &&
                     (lists == NULL || lists->outs == NULL);
    struct symc_names names = {.nbytes = NUMBERS_NBYTES};
    struct symc_named *line = &names.line;

    if (names_in)
        names.in = find_shared(host, op->in, own_nbytes(host, op, false),
            &line->in_number, &line->in);
    if (names_out)
        names.out = find_shared(host, op->out, own_nbytes(host, op, true),
            &line->out_number, &line->out);
    if (names_addresses(host)) {
        line->in = (uintptr_t)op->in;
        line->out = (uintptr_t)op->out;
        line->parts = (uintptr_t)host->parts;
    }
    if (names.in != NULL || names.out != NULL || names_addresses(host))
        names.nbytes = sizeof(*line);
    return names;
}

/* ---- finding ---- */

static struct symc_named named_by(
    const struct symc_host *host, const struct symc_op *op, int rank)
{
    struct symc_named named;

    memcpy(&named, symc_host_header(host, rank, op)->payload, sizeof(named));
    return named;
}

/* Whether every rank has named a symmetric buffer. */
static bool all_name(
    const struct symc_host *host, const struct symc_op *op, uint32_t number)
{
    for (int r = 0; r < host->size; r++) {
        struct symc_named named = named_by(host, op, r);

        if (named.in_number != number && named.out_number != number)
            return false;
    }
    return true;
}

/* Those that every rank has named, of the two that this rank has. */
struct common {
    const struct symc_shared *shared[2];
};

static struct common find_common(const struct symc_host *host,
    const struct symc_op *op, const struct symc_names *names)
{
    const struct symc_shared *of[2] = {names->in, names->out};
    struct common common = {{NULL, NULL}};

    for (int i = 0; i < 2; i++) {
        if (of[i] != NULL && all_name(host, op, (uint32_t)of[i]->number))
            common.shared[i] = of[i];
    }
    return common;
}

/* Where this rank's part of a rank's buffer is; NULL: out of reach. */
static char *place(const struct symc_host *host, const struct symc_op *op,
    const struct common *common, int rank, bool is_out)
{
    struct symc_named named = named_by(host, op, rank);
    uint32_t number = is_out ? named.out_number : named.in_number;
    uint64_t at = is_out ? named.out : named.in;

    for (int i = 0; i < 2; i++) {
        const struct symc_shared *shared = common->shared[i];
        struct extent extent;

        if (shared == NULL || shared->number != number)
            continue;
        extent = extent_of(host, op, rank, is_out);
        if (names_addresses(host)) /* each may have a mapping of its own */
            return (char *)(uintptr_t)at + extent.mine;
        if (at > shared->nbytes || extent.nbytes > shared->nbytes - at)
            return NULL; /* not what the rank has written */
        return shared->at[rank] + at + extent.mine;
    }
    return NULL;
}

/* A thread's input, or this rank's part of it. */
static const char *input_of(
    const struct symc_host *host, const struct symc_op *op, int rank)
{
    struct symc_named named = named_by(host, op, rank);
    const struct symc_host_part *parts =
        (const struct symc_host_part *)(uintptr_t)named.parts;

    return symc_kinds[op->kind].in_parts == SYMC_ALL_PARTS
               ? parts[host->rank].in
               : (const char *)(uintptr_t)named.in;
}

/* Threads can read whatever the others have. */
static void find_addresses(struct symc_host *host, const struct symc_op *op,
    struct symc_exposure *exposure)
{
    for (int r = 0; r < host->size; r++) {
        struct symc_exposed *exposed = &host->exposed[r];

        if (symc_kind_sends(op->kind, r == op->root))
            exposed->in = input_of(host, op, r);
        if (exposed->out == NULL)
            exposed->out = (char *)(uintptr_t)named_by(host, op, r).out;
    }
    exposure->ins = exposure->root_in = true;
}

/* This rank uses its own buffers as the call has them. */
static void place_own(struct symc_host *host, const struct symc_op *op)
{
    const struct symc_kind_info *info = &symc_kinds[op->kind];
    const struct symc_host_part *part = &host->parts[host->rank];

    host->exposed[host->rank] = (struct symc_exposed){
        .in = info->in_parts == SYMC_ALL_PARTS ? part->in : op->in,
        .out = info->out_parts == SYMC_ALL_PARTS ? part->out : op->out};
}

struct symc_exposure symc_host_find_exposed(struct symc_host *host,
    const struct symc_op *op, const struct symc_names *names)
{
    struct symc_exposure exposure = {false, false, false, false};
    struct common common;

    if (names->nbytes == NUMBERS_NBYTES)
        return exposure; /* not all have named what this rank has not */
    common = find_common(host, op, names);
    exposure.ins = exposure.outs = true;
    for (int r = 0; r < host->size; r++) {
        struct symc_exposed *exposed = &host->exposed[r];

        exposed->in = place(host, op, &common, r, false);
        exposed->out = place(host, op, &common, r, true);
        exposure.ins = exposure.ins && exposed->in != NULL;
        exposure.outs = exposure.outs && exposed->out != NULL;
    }
    exposure.root_in = host->exposed[op->root].in != NULL;
    exposure.root_out = host->exposed[op->root].out != NULL;
    if (names_addresses(host))
        find_addresses(host, op, &exposure);
    place_own(host, op);
    return exposure;
}
