/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who sends how many rows to whom, as the ranks' splits say.  Rows are divided
 * into pieces, as many as there are ranks times experts of each rank.
 *
 * A rank's input is ordered by the rank that receives a piece, then by that
 * rank's experts, and its result by its own experts, then by the rank that has
 * sent it; the way back is the other way round, with the places of the pieces
 * beside their sizes.  Private to this directory.
 */
#ifndef SYMC_SYMM_OPS_PIECES_H
#define SYMC_SYMM_OPS_PIECES_H

#include "symm_ops/operate.h"

#include <symmcoll/symm_exchange.h>

struct symc_exchange {
    struct symmcoll_symm_exchange args;
    bool back; /* the way back */
    size_t row_nbytes;
};

/* A piece that a rank receives. */
struct symc_piece {
    int source;
    size_t index; /* among those that its source has */
    size_t from;  /* row of its source's input */
    size_t rows;
    size_t to; /* row of the result */
};

/* Those that one rank receives, one after another. */
struct symc_pieces {
    const struct symc_symm_call *call;
    const struct symc_exchange *exchange;
    int ranks;
    int receiver;
    size_t count; /* of all */
    size_t next;
    size_t row; /* where the next one goes */
    size_t expert_began;
    bool sizes_only; /* `from` is not asked for, which takes a sum */
};

/* How many there are of each rank. */
size_t symc_exchange_count(const struct symc_exchange *exchange, int ranks);

struct symc_pieces symc_pieces_of(const struct symc_symm_call *call,
    const struct symc_exchange *exchange, int ranks, int receiver);

/* The next one; false where there is none. */
bool symc_pieces_next(struct symc_pieces *pieces, struct symc_piece *piece);

/* Read a caller's arguments and check what one rank can; digest (out) tells
 * whether others pass the same. */
symmcoll_status_t symc_exchange_read(const struct symmcoll_symm *handle,
    const char *where, const struct symmcoll_symm_exchange *args,
    struct symc_exchange *exchange, uint64_t *digest);

/* Check the splits of all ranks; all find the same status. */
symmcoll_status_t symc_exchange_verify(const struct symc_symm_call *call,
    const struct symc_exchange *exchange, const struct symc_moving *moving);

/* Store what this rank receives of each, and where. */
void symc_exchange_store(const struct symc_symm_call *call,
    const struct symc_exchange *exchange, const struct symc_piece *piece,
    size_t place);

/* Copy a piece, where it is within the buffers. */
void symc_exchange_copy(const struct symc_symm_call *call,
    const struct symc_moving *moving, const struct symc_exchange *exchange,
    const struct symc_piece *piece);

#endif
