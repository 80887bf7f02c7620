/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pieces of an exchange: which rank sends which rows to which rank, according
 * to the splits of all ranks. The rows of a rank are divided into pieces, one
 * per rank and expert.
 *
 * A rank's input is ordered by the receiving rank, then by that rank's experts;
 * its result is ordered by its own experts, then by the sending rank. The way
 * back has the opposite orders, and the places of the pieces beside their
 * sizes. Private to this directory.
 */
#ifndef SYMC_SYMM_OPS_PIECES_H
#define SYMC_SYMM_OPS_PIECES_H

#include "symm_ops/operate.h"

#include <symmcoll/symm_exchange.h>

struct symc_exchange {
    struct symmcoll_symm_exchange args;
    bool back; /* this is the way back */
    size_t row_nbytes;
};

/* A piece that a rank receives. */
struct symc_piece {
    int source;
    size_t index; /* among the pieces of its source */
    size_t from;  /* first row in the source's input */
    size_t rows;
    size_t to; /* first row in the result */
};

/* Iterator over the pieces that one rank receives, in order. */
struct symc_pieces {
    const struct symc_symm_call *call;
    const struct symc_exchange *exchange;
    int ranks;
    int receiver;
    size_t count; /* number of pieces */
    size_t next;
    size_t row; /* row of the next piece in the result */
    size_t expert_began;
    bool sizes_only; /* do not compute `from`, which takes a sum */
};

/* Returns the number of pieces of each rank. */
size_t symc_exchange_count(const struct symc_exchange *exchange, int ranks);

struct symc_pieces symc_pieces_of(const struct symc_symm_call *call,
    const struct symc_exchange *exchange, int ranks, int receiver);

/* Returns the next piece; false: no more. */
bool symc_pieces_next(struct symc_pieces *pieces, struct symc_piece *piece);

/* Reads the caller's arguments and checks what one rank can check alone; digest
 * (out): compared between the ranks, which have to pass the same arguments. */
symmcoll_status_t symc_exchange_read(const struct symmcoll_symm *handle,
    const char *where, const struct symmcoll_symm_exchange *args,
    struct symc_exchange *exchange, uint64_t *digest);

/* Checks the splits of all ranks; every rank returns the same status. */
symmcoll_status_t symc_exchange_verify(const struct symc_symm_call *call,
    const struct symc_exchange *exchange, const struct symc_moving *moving);

/* Stores the size and the place of a received piece. */
void symc_exchange_store(const struct symc_symm_call *call,
    const struct symc_exchange *exchange, const struct symc_piece *piece,
    size_t place);

/* Copies a piece if it is within the buffers. */
void symc_exchange_copy(const struct symc_symm_call *call,
    const struct symc_moving *moving, const struct symc_exchange *exchange,
    const struct symc_piece *piece);

#endif
