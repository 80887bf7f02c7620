/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The names of buffers in header lines, and the look-up of all ranks' buffers by them.
 */
#include "host/exposed.h"

#include <string.h>

_Static_assert(sizeof(struct symc_named) <= SYMC_FACTOR_AT,
    "a line has room for it, and for a factor");

#define NUMBERS_NBYTES (2 * sizeof(uint32_t)) /* if no buffer is named */

/* Returns whether ranks name addresses: they are threads of one process. */
static bool names_addresses(const struct symc_host *host)
{
    return host->threads && host->settings.direct;
}

/* Bytes of a rank's input or result, and the offset of this rank's part in it. */
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

/* A word for a part of a list: the number of a symmetric buffer and the offset in it; 0:
 * it is in none. */
#define OFFSET_BITS 40
#define OFFSET_MASK ((UINT64_C(1) << OFFSET_BITS) - 1)
#define NUMBER_MAX (UINT32_C(1) << (64 - OFFSET_BITS)) /* exclusive */

/* Returns the words of a rank's input or result, in the order of ranks. */
static uint64_t *words_of(const struct symc_host *host,
    const struct symc_op *op, int rank, bool is_out)
{
    uint64_t *end =
        (uint64_t *)(void *)((char *)symc_host_beside(host, rank, op) +
                             host->small);

    return end - (is_out ? 1 : 2) * (ptrdiff_t)host->size;
}

static bool add_name(struct symc_names *names, const struct symc_shared *shared)
{
    for (size_t i = 0; i < names->count; i++) {
        if (names->list[i] == shared)
            return true;
    }
    if (names->count == SYMC_NAMED_MAX)
        return false;
    names->list[names->count++] = shared;
    return true;
}

/* Names the symmetric buffer that contains all of these bytes: returns its number and the
 * offset (at, out); 0: there is none. */
static uint32_t name_bytes(const struct symc_host *host,
    struct symc_names *names, const void *data, size_t nbytes, uint64_t *at)
{
    const struct symc_shared *shared;
    size_t offset;

    if (!host->settings.symmetric)
        return 0;
    shared = symc_shared_find(host->core->shared, data, nbytes, &offset);
    if (shared == NULL || shared->number >= NUMBER_MAX ||
        offset > OFFSET_MASK || !add_name(names, shared))
        return nbytes > 0 ? 0 : SYMC_NAMED_NOTHING;
    *at = offset;
    return (uint32_t)shared->number;
}

/* Returns the bytes of all parts of this rank's input or result. */
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

/* Names the parts of a list beside the line.  A part without elements is named as well:
 * the rank may have no other part in its buffer. */
static uint32_t name_list(const struct symc_host *host,
    const struct symc_op *op, struct symc_names *names, bool is_out)
{
    uint64_t *words = words_of(host, op, host->rank, is_out);
    uint32_t all = SYMC_NAMED_NOTHING;

    for (int r = 0; r < host->size; r++) {
        const struct symc_host_part *part = &host->parts[r];
        size_t count = is_out ? part->out_count : part->in_count;
        uint64_t at = 0;
        uint32_t number = name_bytes(
            host, names, is_out ? part->out : part->in, count * op->elem, &at);

        words[r] = 0;
        if (number == 0)
            return 0;
        if (number == SYMC_NAMED_NOTHING)
            continue;
        words[r] = (uint64_t)number << OFFSET_BITS | at;
        all = SYMC_NAMED_LIST;
    }
    return all;
}

struct symc_names symc_host_name(
    const struct symc_host *host, const struct symc_op *op)
{
    const struct symc_lists *lists = op->listed ? op->lists : NULL;
    bool is_root = op->root == host->rank;
    bool in_list = lists != NULL && lists->ins != NULL;
    bool out_list = lists != NULL && lists->outs != NULL;
    bool beside = symc_host_names_beside(host, op);
    struct symc_names names = {.nbytes = NUMBERS_NBYTES};
    struct symc_named *line = &names.line;

    if (symc_kind_sends(op->kind, is_root) && (!in_list || beside))
        line->in_number = in_list ? name_list(host, op, &names, false)
                                  : name_bytes(host, &names, op->in,
                                        own_nbytes(host, op, false), &line->in);
    if (symc_kind_receives(op->kind, is_root) && (!out_list || beside))
        line->out_number = out_list
                               ? name_list(host, op, &names, true)
                               : name_bytes(host, &names, op->out,
                                     own_nbytes(host, op, true), &line->out);
    if (names_addresses(host)) {
        line->in = (uintptr_t)op->in;
        line->out = (uintptr_t)op->out;
        line->parts = (uintptr_t)host->parts;
    }
    if (names.count > 0 || names_addresses(host))
        names.nbytes = sizeof(*line);
    return names;
}

/* ---- look-up ---- */

static struct symc_named named_by(
    const struct symc_host *host, const struct symc_op *op, int rank)
{
    struct symc_named named;

    memcpy(&named, symc_host_header(host, rank, op)->payload, sizeof(named));
    return named;
}

/* Returns whether a rank's input or result, or a part of it, is in a symmetric buffer. */
static bool names_it(const struct symc_host *host, const struct symc_op *op,
    int rank, bool is_out, uint32_t number)
{
    struct symc_named named = named_by(host, op, rank);
    uint32_t found = is_out ? named.out_number : named.in_number;
    const uint64_t *words = words_of(host, op, rank, is_out);

    for (int r = 0; found == SYMC_NAMED_LIST && r < host->size; r++) {
        if (words[r] >> OFFSET_BITS == number)
            return true;
    }
    return found == number;
}

/* Returns whether every rank that has elements has named a symmetric buffer. */
static bool all_name(
    const struct symc_host *host, const struct symc_op *op, uint32_t number)
{
    for (int r = 0; r < host->size; r++) {
        struct symc_named named = named_by(host, op, r);
        bool idle = named.in_number == SYMC_NAMED_NOTHING &&
                    named.out_number == SYMC_NAMED_NOTHING;

        if (!idle && !names_it(host, op, r, false, number) &&
            !names_it(host, op, r, true, number))
            return false;
    }
    return true;
}

/* Removes the symmetric buffers that not every rank has named. */
static void keep_common(const struct symc_host *host, const struct symc_op *op,
    struct symc_names *names)
{
    size_t kept = 0;

    for (size_t i = 0; i < names->count; i++) {
        if (all_name(host, op, (uint32_t)names->list[i]->number))
            names->list[kept++] = names->list[i];
    }
    names->count = kept;
}

/* Returns whether bytes are within a symmetric buffer; not so after a rank's line was
 * overwritten. */
static inline bool is_within(
    const struct symc_shared *shared, uint64_t at, size_t nbytes)
{
    return at <= shared->nbytes && nbytes <= shared->nbytes - at;
}

/* Returns the address of a rank's bytes in one of the common buffers; NULL: in none. */
static char *place_bytes(const struct symc_names *common, int rank,
    uint32_t number, uint64_t at, size_t nbytes)
{
    for (size_t i = 0; i < common->count; i++) {
        const struct symc_shared *shared = common->list[i];

        if (shared->number != number)
            continue;
        return is_within(shared, at, nbytes) ? shared->at[rank] + at : NULL;
    }
    return NULL;
}

/* Returns an address for 0 bytes, which is not accessed. */
static char *nowhere(const struct symc_host *host)
{
    return (char *)host->sources;
}

/* Returns this rank's part of a rank's list; NULL if any part is out of reach. */
static char *place_list(const struct symc_host *host, const struct symc_op *op,
    const struct symc_names *common, int rank, bool is_out)
{
    const uint64_t *words = words_of(host, op, rank, is_out);
    const struct symc_host_part *parts =
        (const struct symc_host_part *)(uintptr_t)named_by(host, op, rank)
            .parts;
    char *mine = nowhere(host);

    for (int r = 0; r < host->size; r++) {
        size_t nbytes = symc_host_count(host, op, rank, r, is_out) * op->elem;
        char *at = nowhere(host);

        if (nbytes > 0)
            at = place_bytes(common, rank, (uint32_t)(words[r] >> OFFSET_BITS),
                words[r] & OFFSET_MASK, nbytes);
        if (at == NULL)
            return NULL;
        if (r == host->rank)
            mine = at;
    }
    if (!names_addresses(host)) /* each rank may have its own mapping */
        return mine;
    return is_out ? parts[host->rank].out
                  : (char *)(uintptr_t)parts[host->rank].in;
}

/* Returns the address of this rank's part of a rank's buffer; NULL: out of reach. */
static char *place(const struct symc_host *host, const struct symc_op *op,
    const struct symc_names *common, int rank, bool is_out)
{
    struct symc_named named = named_by(host, op, rank);
    uint32_t number = is_out ? named.out_number : named.in_number;
    uint64_t at = is_out ? named.out : named.in;
    struct extent extent = extent_of(host, op, rank, is_out);
    char *found;

    if (number == SYMC_NAMED_NOTHING)
        return nowhere(host);
    if (number == SYMC_NAMED_LIST)
        return place_list(host, op, common, rank, is_out);
    if (!names_addresses(host)) {
        found = place_bytes(common, rank, number, at, extent.nbytes);
        return found != NULL ? found + extent.mine : NULL;
    }
    for (size_t i = 0; i < common->count; i++) {
        if (common->list[i]->number == number)
            return (char *)(uintptr_t)at + extent.mine;
    }
    return NULL;
}

/* Returns a thread's input, or this rank's part of it. */
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

/* Fills in all threads' buffers: threads can read all memory of each other. */
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

/* Fills in this rank's own buffers, as in the call. */
static void place_own(struct symc_host *host, const struct symc_op *op)
{
    const struct symc_kind_info *info = &symc_kinds[op->kind];
    const struct symc_host_part *part = &host->parts[host->rank];

    host->exposed[host->rank] = (struct symc_exposed){
        .in = info->in_parts == SYMC_ALL_PARTS ? part->in : op->in,
        .out = info->out_parts == SYMC_ALL_PARTS ? part->out : op->out};
}

/* Finds all buffers in the usual case, fast: all ranks have named the same symmetric
 * buffer for their inputs, and the same one for their results.  Returns false
 * otherwise. */
static bool find_alike(struct symc_host *host, const struct symc_op *op,
    const struct symc_names *names)
{
    const struct symc_named *mine = &names->line;
    const struct symc_shared *ins, *outs;
    struct extent in, out;

    if (names_addresses(host) || symc_kind_has(op->kind, SYMC_UNEVEN) ||
        names->count == 0 || mine->in_number == 0 || mine->out_number == 0 ||
        mine->in_number >= NUMBER_MAX || mine->out_number >= NUMBER_MAX)
        return false;
    ins = names->list[0]; /* named first */
    outs = names->list[names->count - 1];
    in = extent_of(host, op, host->rank, false);
    out = extent_of(host, op, host->rank, true);
    for (int r = 0; r < host->size; r++) {
        struct symc_named named = named_by(host, op, r);

        if (named.in_number != mine->in_number ||
            named.out_number != mine->out_number ||
            !is_within(ins, named.in, in.nbytes) ||
            !is_within(outs, named.out, out.nbytes))
            return false;
        host->exposed[r] =
            (struct symc_exposed){ins->at[r] + named.in + in.mine,
                outs->at[r] + named.out + out.mine};
    }
    return true;
}

/* Finds the buffers that each rank has named by itself. */
static struct symc_exposure find_each(struct symc_host *host,
    const struct symc_op *op, const struct symc_names *names)
{
    struct symc_exposure exposure = {.ins = true, .outs = true};
    struct symc_names common = *names;

    keep_common(host, op, &common);
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

/* Returns whether other ranks' own tables of parts are read. */
static bool reads_tables(const struct symc_host *host, const struct symc_op *op)
{
    const struct symc_kind_info *info = &symc_kinds[op->kind];

    return names_addresses(host) && (info->in_parts == SYMC_ALL_PARTS ||
                                        info->out_parts == SYMC_ALL_PARTS);
}

symmcoll_status_t symc_host_find_exposed(struct symc_host *host,
    const struct symc_op *op, const struct symc_names *names,
    struct symc_exposure *exposure)
{
    bool tables = reads_tables(host, op);

    *exposure = (struct symc_exposure){false, false, false, false};
    if (find_alike(host, op, names)) {
        place_own(host, op);
        *exposure = (struct symc_exposure){true, true, true, true};
        return SYMMCOLL_OK;
    }
    if (names->line.in_number == 0 && names->line.out_number == 0 &&
        !names_addresses(host))
        return SYMMCOLL_OK; /* this rank has named nothing, so not all have */
    /* A table is valid until its owner has left, or ended, this operation. */
    if (tables && !symc_host_enter_all(host, op))
        return symc_host_fail_revoked(host, op);
    *exposure = find_each(host, op, names);
    if (tables)
        symc_host_leave_all(host);
    return SYMMCOLL_OK;
}
