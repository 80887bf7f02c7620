/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-to-all of pieces with sizes in device memory: plan_pieces() reads and checks
 * the splits of all ranks, move_pieces() moves the rows, any number of times.
 * symmcoll/symm_exchange.h defines the order of pieces.
 *
 * Grid        plan: one block, at least a thread for each rank; move: as one-shot
 * Alignment   splits 8 bytes; rows any, 16 bytes make it fast
 * Bytes       plan: all splits of all ranks read, and local memory.  move: the
 *             rows received, read and written
 * Order       see synchronise() in group.h: before and after the splits are
 *             read, and the rows
 * Reference   symmcoll_symm_all_to_all_v(), symmcoll_symm_all_to_all_v_back()
 */
#ifndef SYMC_KERNELS_PLAN_H
#define SYMC_KERNELS_PLAN_H

#include "kernels/copy.h"
#include "kernels/group.h"

#define PLAN_CHUNK 16384 /* bytes; a multiple of 16 */

DEVICE uint64_t pieces_of_all(const struct symc_plan_args *args)
{
    return (uint64_t)args->group.size * args->experts;
}

/* Returns the number of words in a rank's splits: the sizes, and on the way back the
 * places after them. */
DEVICE uint64_t words_of_splits(const struct symc_plan_args *args)
{
    return pieces_of_all(args) * (args->back ? 2 : 1);
}

DEVICE const int64_t *splits_of(
    const struct symc_plan_args *args, uint32_t rank)
{
    return args->gathered + rank * words_of_splits(args);
}

DEVICE void gather_splits(const struct symc_plan_args *args)
{
    const uint64_t n = words_of_splits(args);

    for (uint32_t rank = 0; rank < args->group.size; rank++) {
        const int64_t *from =
            (const int64_t *)(const void *)data_of(&args->in_splits, rank);

        for (uint64_t i = thread_index(); i < n; i += thread_count())
            args->gathered[rank * n + i] = from[i];
    }
}

/* Piece j of a receiver's result: its source, and its number there. */
DEVICE void locate(const struct symc_plan_args *args, uint32_t receiver,
    uint64_t j, uint32_t *source, uint64_t *index)
{
    if (args->back) {
        *source = (uint32_t)(j / args->experts);
        *index = j % args->experts * args->group.size + receiver;
    } else {
        *source = (uint32_t)(j % args->group.size);
        *index = (uint64_t)receiver * args->experts + j / args->group.size;
    }
}

/* Checks piece i of a rank's input, `rows` rows from row `at` on. */
DEVICE struct symc_device_splits judge_split(
    uint64_t i, int64_t at, int64_t rows, uint64_t room)
{
    struct symc_device_splits splits = {SYMC_WRONG_SPLIT, 0, i, 0, rows};

    if (rows >= 0 && at < 0) {
        splits.wrong = SYMC_WRONG_OFFSET;
        splits.found = at;
    } else if (rows >= 0) {
        splits.wrong = SYMC_WRONG_END;
        splits.expected = (int64_t)room;
        splits.found = (uint64_t)rows > room ? rows : at + rows;
    }
    return splits;
}

/* Whether a rank's splits are not negative, and of rows that it has; else what is
 * wrong (out).  On the way, where the pieces are that this rank receives from
 * there. */
DEVICE bool read_source(const struct symc_plan_args *args, uint32_t source,
    struct symc_device_splits *wrong)
{
    const int64_t *splits = splits_of(args, source);
    const uint64_t n = pieces_of_all(args), room = args->in_rows;
    const uint32_t rank = args->group.rank;
    uint64_t next = 0;

    for (uint64_t i = 0; i < n; i++) {
        const uint64_t rows = (uint64_t)splits[i],
                       at = args->back ? (uint64_t)splits[n + i] : next;
        const bool mine = args->back ? i % args->group.size == rank
                                     : i / args->experts == rank;
        const uint64_t expert =
            args->back ? i / args->group.size : i - rank * args->experts;
        const uint64_t j = args->back ? source * args->experts + expert
                                      : expert * args->group.size + source;

        /* Negative ones are larger than any room. */
        if (at > room || rows > room - at) {
            *wrong = judge_split(i, (int64_t)at, (int64_t)rows, room);
            return false;
        }
        next = at + rows;
        if (mine) {
            args->pieces[j].source = source;
            args->pieces[j].from = at;
            args->pieces[j].rows = rows;
        }
    }
    return true;
}

/* Returns the row at which the next expert begins, after one with the rows from
 * began to row. */
DEVICE uint64_t end_expert(
    const struct symc_plan_args *args, uint64_t began, uint64_t row)
{
    const uint64_t to = args->major_align;
    const uint64_t aligned =
        to == 0 ? row - began : (row - began + to - 1) / to * to;

    return began + (aligned < to ? to : aligned);
}

/* Whether a rank has room for its result; else what is wrong (out).  That of this
 * rank: where each piece goes. */
DEVICE bool read_receiver(const struct symc_plan_args *args, uint32_t receiver,
    struct symc_device_splits *wrong)
{
    const uint64_t n = pieces_of_all(args), room = args->out_rows;
    const bool mine = receiver == args->group.rank;
    uint64_t row = 0, began = 0;

    for (uint64_t j = 0; j < n; j++) {
        uint64_t index, rows;
        uint32_t source;

        if (!args->back && j > 0 && j % args->group.size == 0)
            began = row = end_expert(args, began, row);
        locate(args, receiver, j, &source, &index);
        rows = (uint64_t)splits_of(args, source)[index];
        if (rows > 0 && (rows > room || row > room - rows)) {
            wrong->wrong = SYMC_WRONG_ROOM;
            wrong->piece = j;
            wrong->expected = (int64_t)(row + rows);
            wrong->found = (int64_t)room;
            return false;
        }
        if (mine) {
            args->pieces[j].to = row;
            args->out_splits[j] = (int64_t)rows;
            args->out_splits[n + j] = (int64_t)row;
        }
        row += rows;
    }
    return true;
}

DEVICE void plan_pieces(const struct symc_plan_args *args)
{
    const struct symc_device_group *group = &args->group;
    const uint32_t rank = thread_index();
    struct symc_device_splits wrong = {SYMC_WRONG_SPLIT, 0, 0, 0, 0};
    uint32_t epoch = begin_epoch(group);
    bool failed;

    if (!synchronise(group, ++epoch))
        return;
    if (rank == 0)
        *args->wrong = UINT64_MAX;
    gather_splits(args);
    block_barrier();
    failed = rank < group->size && !read_source(args, rank, &wrong);
    if (failed)
        keep_least(args->wrong, rank + 1);
    if (!block_any(failed) && rank < group->size &&
        !read_receiver(args, rank, &wrong))
        keep_least(args->wrong, rank + 1);
    block_barrier();
    if (rank == 0 && *args->wrong == UINT64_MAX)
        *args->wrong = 0;
    if (!synchronise(group, ++epoch))
        return;
    end_epoch(group, epoch);
    /* All ranks find the same, and wait for no rank any more. */
    if (*args->wrong == (uint64_t)rank + 1)
        give_up_for(group, SYMC_DEVICE_SPLITS, rank, &wrong);
}

/* Blocks take the chunks of a piece in turn, and begin with another one for each
 * piece. */
DEVICE void move_piece(const struct symc_plan_run_args *args, uint64_t j)
{
    const struct symc_plan_piece piece = args->pieces[j];
    const uint64_t nbytes = piece.rows * args->row_nbytes;
    const unsigned char *from = data_of(&args->data, (uint32_t)piece.source) +
                                piece.from * args->row_nbytes;
    unsigned char *to = args->out + piece.to * args->row_nbytes;

    for (uint64_t at = (block_index() + j) % block_count() * PLAN_CHUNK;
         at < nbytes; at += (uint64_t)block_count() * PLAN_CHUNK)
        copy_by_block(to + at, from + at,
            nbytes - at < PLAN_CHUNK ? nbytes - at : PLAN_CHUNK);
}

DEVICE void move_pieces(const struct symc_plan_run_args *args)
{
    const struct symc_device_group *group = &args->group;
    const uint64_t n = *args->wrong == 0 ? args->npieces : 0;
    uint32_t epoch = begin_epoch(group);

    if (!synchronise(group, ++epoch))
        return;
    KEEP_LOOP
    for (uint64_t k = 0; k < n; k++)
        move_piece(args, (k + group->rank) % n);
    if (!synchronise(group, ++epoch))
        return;
    end_epoch(group, epoch);
}

KERNEL(symc_plan, struct symc_plan_args, plan_pieces)
KERNEL(symc_plan_run, struct symc_plan_run_args, move_pieces)

#endif
