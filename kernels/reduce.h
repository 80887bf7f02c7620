/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Code shared by the kernels of reductions: reads a part of the elements of all
 * ranks and combines it in the order of ranks, so that all ranks have the same bits,
 * equal to those of symc_reduce() with one block of sources.
 */
#ifndef SYMC_KERNELS_REDUCE_H
#define SYMC_KERNELS_REDUCE_H

#include "kernels/elements.h"
#include "kernels/group.h"
#include "kernels/parts.h"

/* Whole parts of aligned memory in a row, `every` bytes apart, of all ranks: with
 * constant numbers of parts and ranks all loads are in flight at once.  Addresses of
 * a table would take as many registers as the budget has left. */
DEVICE void reduce_many(const struct symc_reduce_args *args, uint64_t at,
    uint64_t every, const enum symmcoll_dtype type, const uint32_t size,
    const uint32_t count, struct symc_vector *results)
{
    struct symc_vector loaded[IN_FLIGHT];
    struct elements sum, next;

    UNROLL
    for (uint32_t rank = 0; rank < size; rank++) {
        const unsigned char *from = data_in_row(&args->data, rank) + at;

        UNROLL
        for (uint32_t k = 0; k < count; k++)
            loaded[k * size + rank] = load_vector(from + k * every);
    }
    UNROLL
    for (uint32_t k = 0; k < count; k++) {
        unpack(&sum, loaded[k * size], type, args->op, args->factors[0]);
        UNROLL
        for (uint32_t rank = 1; rank < size; rank++) {
            unpack(&next, loaded[k * size + rank], type, args->op,
                args->factors[rank]);
            combine(&sum, &next, type, args->op);
        }
        results[k] = pack(&sum, type, args->op, size);
    }
}

DEVICE struct symc_vector reduce_whole(const struct symc_reduce_args *args,
    uint64_t at, const enum symmcoll_dtype type, const uint32_t size)
{
    struct symc_vector result;

    reduce_many(args, at, 0, type, size, 1, &result);
    return result;
}

/* Returns a whole part combined, for sums and means alone: the other operations
 * would make the code several times as large. */
DEVICE struct symc_vector sum_whole(const struct symc_reduce_args *args,
    uint64_t at, const enum symmcoll_dtype type, const uint32_t size)
{
    struct symc_vector loaded[IN_FLIGHT];
    struct elements sum, next;

    UNROLL
    for (uint32_t rank = 0; rank < size; rank++)
        loaded[rank] = load_vector(data_in_row(&args->data, rank) + at);
    unpack(&sum, loaded[0], type, SYMMCOLL_SUM, 1);
    UNROLL
    for (uint32_t rank = 1; rank < size; rank++) {
        unpack(&next, loaded[rank], type, SYMMCOLL_SUM, 1);
        combine(&sum, &next, type, SYMMCOLL_SUM);
    }
    return pack(&sum, type, args->op, size);
}

/* Returns any part combined, of any number of ranks. */
DEVICE struct symc_vector reduce_any(const struct symc_reduce_args *args,
    uint64_t at, uint64_t nbytes, uint64_t part, const enum symmcoll_dtype type)
{
    struct elements sum, next;

    KEEP_LOOP
    for (uint32_t rank = 0; rank < args->group.size; rank++) {
        const struct bytes from =
            bytes_at(data_of(&args->data, rank) + at, nbytes);

        unpack(&next, load_part(&from, part, nbytes_of(type)), type, args->op,
            args->factors[rank]);
        if (rank == 0)
            sum = next;
        else
            combine(&sum, &next, type, args->op);
    }
    return pack(&sum, type, args->op, args->group.size);
}

/* Whether whole parts from there on are reduced as above.  Sums of small integers
 * are many in 16 bytes, and rare. */
DEVICE bool is_whole(const struct symc_reduce_args *args, uint64_t at,
    const enum symmcoll_dtype type)
{
    return (class_of(type) != AS_UINT32 || nbytes_of(type) == 4) &&
           args->data.table == NULL &&
           is_aligned(data_in_row(&args->data, 0) + at);
}

/* Whether they are summed as above where the number of ranks is no power of two:
 * what takes the compiler longest is for the sums that are most frequent. */
DEVICE bool is_frequent_sum(
    const struct symc_reduce_args *args, const enum symmcoll_dtype type)
{
    return class_of(type) == AS_FLOAT &&
           (args->op == SYMMCOLL_SUM || args->op == SYMMCOLL_AVG);
}

/* A part of nbytes of all ranks' elements, which begin `at` bytes after those
 * that were passed. */
DEVICE struct symc_vector reduce_part(const struct symc_reduce_args *args,
    uint64_t at, uint64_t nbytes, uint64_t part, const enum symmcoll_dtype type)
{
    const uint64_t begin = at + part * SYMC_VECTOR;

    if (nbytes - part * SYMC_VECTOR >= SYMC_VECTOR &&
        is_whole(args, begin, type)) {
        if (args->group.size == 2)
            return reduce_whole(args, begin, type, 2);
        if (args->group.size == 4)
            return reduce_whole(args, begin, type, 4);
        if (args->group.size == 8)
            return reduce_whole(args, begin, type, 8);
        if (is_frequent_sum(args, type)) {
            if (args->group.size == 3)
                return sum_whole(args, begin, type, 3);
            if (args->group.size == 5)
                return sum_whole(args, begin, type, 5);
            if (args->group.size == 6)
                return sum_whole(args, begin, type, 6);
            if (args->group.size == 7)
                return sum_whole(args, begin, type, 7);
        }
    }
    return reduce_any(args, at, nbytes, part, type);
}

/* Copy the parts of this thread. */
DEVICE void copy_parts(
    const struct bytes *to, const struct bytes *from, const uint32_t step)
{
    const uint64_t parts = count_parts(to->nbytes);
    uint64_t part = copy_many_parts(to, from, first_part(), next_part(0));

    KEEP_LOOP
    for (; part < parts; part = next_part(part))
        store_part(to, part, load_part(from, part, step), step);
}

/* A rank's elements, of a result of nbytes. */
DEVICE struct bytes elements_of(
    const struct symc_reduce_args *args, uint32_t rank, uint64_t nbytes)
{
    return bytes_at(data_of(&args->data, rank), nbytes);
}

#endif
