/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pieces of exchanges: their order, sizes and places.
 */
#include "symm_ops/pieces.h"

#include "base/digest.h"
#include "base/ranks.h"

static const struct symmcoll_symm_exchange default_exchange =
    SYMMCOLL_SYMM_EXCHANGE_INIT;
static const struct symc_sized exchange_kind = {.name = "exchange",
    .macro = "SYMMCOLL_SYMM_EXCHANGE_INIT",
    .defaults = &default_exchange,
    .nbytes = sizeof(default_exchange),
    .least = sizeof(default_exchange.size)};

size_t symc_exchange_count(const struct symc_exchange *exchange, int ranks)
{
    return (size_t)ranks * (size_t)exchange->args.experts;
}

/* ---- splits ---- */

/* Returns the splits of a rank's input: the size of each piece, and on the way
 * back the places after the sizes. */
static const int64_t *splits_of(const struct symc_symm_call *call,
    const struct symc_exchange *exchange, int rank)
{
    return (const int64_t *)(const void *)symc_symm_at(
        call, rank, exchange->args.in_splits_offset);
}

/* Returns the index of a piece in its source's splits. */
static size_t index_of(const struct symc_pieces *pieces, int expert)
{
    int receiver = pieces->receiver;

    if (pieces->exchange->back)
        return (size_t)expert * (size_t)pieces->ranks + (size_t)receiver;
    return (size_t)receiver * (size_t)pieces->exchange->args.experts +
           (size_t)expert;
}

/* Rounds rows up to a multiple of `to`, and to one multiple at least. */
static size_t align(size_t rows, size_t to)
{
    size_t aligned = (rows + to - 1) / to * to;

    return aligned > to ? aligned : to;
}

/* Ends the rows of an expert: the next expert begins on a multiple of the
 * alignment, and never where this one began, even if this one has no rows. */
static void end_expert(struct symc_pieces *pieces)
{
    size_t to = pieces->exchange->args.major_align;

    if (to > 0)
        pieces->row = pieces->expert_began +
                      align(pieces->row - pieces->expert_began, to);
    pieces->expert_began = pieces->row;
}

struct symc_pieces symc_pieces_of(const struct symc_symm_call *call,
    const struct symc_exchange *exchange, int ranks, int receiver)
{
    return (struct symc_pieces){.call = call,
        .exchange = exchange,
        .ranks = ranks,
        .receiver = receiver,
        .count = symc_exchange_count(exchange, ranks)};
}

/* Returns the first row of a piece. */
static size_t find_start(const int64_t *splits, size_t index)
{
    size_t start = 0;

    for (size_t i = 0; i < index; i++)
        start += (size_t)splits[i];
    return start;
}

bool symc_pieces_next(struct symc_pieces *pieces, struct symc_piece *piece)
{
    const struct symc_exchange *exchange = pieces->exchange;
    size_t minor =
        exchange->back ? (size_t)exchange->args.experts : (size_t)pieces->ranks;
    const int64_t *splits;
    int major_at, minor_at;

    if (pieces->next > 0 && pieces->next % minor == 0 && !exchange->back)
        end_expert(pieces);
    if (pieces->next == pieces->count)
        return false;
    major_at = (int)(pieces->next / minor);
    minor_at = (int)(pieces->next % minor);
    piece->source = exchange->back ? major_at : minor_at;
    piece->index = index_of(pieces, exchange->back ? minor_at : major_at);
    splits = splits_of(pieces->call, exchange, piece->source);
    piece->rows = (size_t)splits[piece->index];
    if (!pieces->sizes_only)
        piece->from = exchange->back
                          ? (size_t)splits[pieces->count + piece->index]
                          : find_start(splits, piece->index);
    piece->to = pieces->row;
    pieces->row += piece->rows;
    pieces->next++;
    return true;
}

/* ---- checks ---- */

struct range {
    const char *what;
    size_t offset, nbytes;
};

/* Checks that the two written ranges (the last two of four) overlap no
 * other. */
static symmcoll_status_t check_ranges(
    const char *where, const struct range *ranges)
{
    for (int w = 2; w < 4; w++) {
        for (int i = 0; i < w; i++) {
            const struct range *a = &ranges[w], *b = &ranges[i];

            if (a->nbytes > 0 && b->nbytes > 0 &&
                a->offset < b->offset + b->nbytes &&
                b->offset < a->offset + a->nbytes)
                return symc_fail(SYMMCOLL_ERR_INVALID,
                    "%s: expected %s apart from %s, found bytes %zu to %zu and "
                    "%zu to %zu",
                    where, a->what, b->what, a->offset, a->offset + a->nbytes,
                    b->offset, b->offset + b->nbytes);
        }
    }
    return SYMMCOLL_OK;
}

/* Checks that the ranges of an exchange lie in the buffers, and do not
 * overlap. */
static symmcoll_status_t check_places(const struct symmcoll_symm *handle,
    const char *where, const struct symc_exchange *exchange)
{
    const struct symmcoll_symm_exchange *args = &exchange->args;
    size_t count = symc_exchange_count(exchange, handle->size);
    struct range ranges[4] = {{"in", args->in_offset, args->in_rows},
        {"the splits of in", args->in_splits_offset,
            exchange->back ? 2 * count : count},
        {"out", args->out_offset, args->out_rows},
        {"the splits of out", args->out_splits_offset, 2 * count}};
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int i = 0; i < 4 && status == SYMMCOLL_OK; i++) {
        size_t unit = i % 2 == 0 ? exchange->row_nbytes : sizeof(int64_t);

        status = symc_symm_check_elements(handle, where, ranges[i].what,
            ranges[i].offset, ranges[i].nbytes, unit, &ranges[i].nbytes);
        if (status == SYMMCOLL_OK && i % 2 == 1 &&
            (uintptr_t)(handle->at[handle->rank] + ranges[i].offset) % unit !=
                0)
            status = symc_fail(SYMMCOLL_ERR_INVALID,
                "%s: expected %s on a multiple of %zu bytes, found byte %zu",
                where, ranges[i].what, unit, ranges[i].offset);
    }
    return status == SYMMCOLL_OK ? check_ranges(where, ranges) : status;
}

symmcoll_status_t symc_exchange_read(const struct symmcoll_symm *handle,
    const char *where, const struct symmcoll_symm_exchange *args,
    struct symc_exchange *exchange, uint64_t *digest)
{
    struct symc_digest sum = SYMC_DIGEST_INIT;
    size_t elem;
    symmcoll_status_t status = symc_symm_check(handle, where);

    if (status != SYMMCOLL_OK)
        return status;
    if (args == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected an exchange, found NULL", where);
    status = symc_sized_read(&exchange_kind, where, args, &exchange->args);
    if (status == SYMMCOLL_OK)
        status = symc_symm_check_dtype(where, exchange->args.dtype, &elem);
    if (status != SYMMCOLL_OK)
        return status;
    if (exchange->args.experts < 1 ||
        exchange->args.experts > SYMMCOLL_SYMM_EXPERTS_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected 1 to %d experts of each rank, found %d", where,
            SYMMCOLL_SYMM_EXPERTS_MAX, exchange->args.experts);
    if (exchange->args.major_align > handle->nbytes)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected an alignment of at most %zu rows, found %zu", where,
            handle->nbytes, exchange->args.major_align);
    if (!symc_multiply(exchange->args.row, elem, &exchange->row_nbytes) ||
        exchange->row_nbytes == 0 || exchange->row_nbytes > handle->nbytes)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected rows of 1 to %zu bytes, found %zu elements of %zu",
            where, handle->nbytes, exchange->args.row, elem);
    symc_digest_add_bytes(&sum, "exchange", &exchange->args.in_rows,
        sizeof(exchange->args) -
            offsetof(struct symmcoll_symm_exchange, in_rows));
    *digest = sum.a;
    return check_places(handle, where, exchange);
}

/* Returns the error for one rank's splits. */
static symmcoll_status_t fail_rank(const struct symc_moving *moving, int rank,
    const char *what, int64_t limit, int64_t found, size_t index)
{
    char who[SYMC_RANK_TEXT];

    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: %s: expected %s %lld, found %lld at piece %zu (group %s, seq %llu)",
        symc_kind_name(moving->op->kind),
        symc_format_rank(moving->ranks, rank, SYMC_NO_PID, who), what,
        (long long)limit, (long long)found, index, moving->group,
        (unsigned long long)moving->op->seq);
}

/* Checks that the splits of one rank are not negative and lie within its
 * rows. */
static symmcoll_status_t verify_splits(const struct symc_symm_call *call,
    const struct symc_exchange *exchange, const struct symc_moving *moving,
    int rank)
{
    const int64_t *splits = splits_of(call, exchange, rank);
    size_t count = symc_exchange_count(exchange, moving->size);
    int64_t room = (int64_t)exchange->args.in_rows, next = 0;

    for (size_t i = 0; i < count; i++) {
        int64_t at = exchange->back ? splits[count + i] : next;

        if (splits[i] < 0)
            return fail_rank(
                moving, rank, "a split of at least", 0, splits[i], i);
        if (at < 0)
            return fail_rank(moving, rank, "an offset of at least", 0, at, i);
        if (at > room || splits[i] > room - at)
            return fail_rank(moving, rank,
                "the end of a split at or before row", room,
                splits[i] > room ? splits[i] : at + splits[i], i);
        next = at + splits[i];
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_exchange_verify(const struct symc_symm_call *call,
    const struct symc_exchange *exchange, const struct symc_moving *moving)
{
    for (int r = 0; r < moving->size; r++) {
        symmcoll_status_t status = verify_splits(call, exchange, moving, r);

        if (status != SYMMCOLL_OK)
            return status;
    }
    for (int r = 0; r < moving->size; r++) {
        struct symc_pieces pieces =
            symc_pieces_of(call, exchange, moving->size, r);
        struct symc_piece piece;

        pieces.sizes_only = true;
        while (symc_pieces_next(&pieces, &piece)) {
            size_t room = exchange->args.out_rows;

            if (piece.rows > 0 &&
                (piece.rows > room || piece.to > room - piece.rows))
                return fail_rank(moving, r, "room in out for at least",
                    (int64_t)(piece.to + piece.rows), (int64_t)room,
                    pieces.next - 1);
        }
    }
    return SYMMCOLL_OK;
}

/* ---- moving ---- */

void symc_exchange_store(const struct symc_symm_call *call,
    const struct symc_exchange *exchange, const struct symc_piece *piece,
    size_t place)
{
    const struct symmcoll_symm *handle = call->handle;
    int64_t *splits = (int64_t *)(void *)symc_symm_at(
        call, handle->rank, exchange->args.out_splits_offset);

    splits[place] = (int64_t)piece->rows;
    splits[symc_exchange_count(exchange, handle->size) + place] =
        (int64_t)piece->to;
}

void symc_exchange_copy(const struct symc_symm_call *call,
    const struct symc_moving *moving, const struct symc_exchange *exchange,
    const struct symc_piece *piece)
{
    const struct symmcoll_symm_exchange *args = &exchange->args;
    size_t nbytes = exchange->row_nbytes;

    /* The splits were verified, but may have been written to since. */
    if (piece->rows == 0 || piece->rows > args->in_rows ||
        piece->rows > args->out_rows ||
        piece->from > args->in_rows - piece->rows ||
        piece->to > args->out_rows - piece->rows)
        return;
    symc_symm_pull(moving, piece->source,
        symc_symm_at(call, moving->rank, args->out_offset + piece->to * nbytes),
        symc_symm_at(
            call, piece->source, args->in_offset + piece->from * nbytes),
        piece->rows * nbytes);
}
